//! Compiled regular expressions. A statement keeps the few that it has compiled last, and reuses
//! them for its later rows.

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;

use regex::{Regex, RegexBuilder};
use spillway_types::Collation;

use crate::errors::{Result, SqlError};

/// The regular expressions that a statement has compiled, for its later rows.
#[derive(Default)]
pub(crate) struct Patterns(RefCell<Vec<(String, MatchOptions, Rc<Regex>)>>);

/// How a regular expression is matched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::expression) struct MatchOptions {
    any_case: bool,
    /// `^` and `$` match at each line.
    many_lines: bool,
    /// `.` matches the end of a line.
    dot_ends_lines: bool,
}

impl MatchOptions {
    /// Without a match type, the collation decides about case.
    pub(in crate::expression) fn of(collation: Collation) -> MatchOptions {
        let any_case = collation.ignores_case();
        MatchOptions { any_case, many_lines: false, dot_ends_lines: false }
    }

    /// The options of a match type such as `im`. Of `c` and `i`, the last one counts. `u` makes a
    /// newline the only end of a line, which it always is here.
    ///
    /// # Errors
    /// 1210 for another letter. `function` is the name for that error.
    pub(in crate::expression) fn with(
        mut self,
        match_type: &str,
        function: &str,
    ) -> Result<MatchOptions> {
        for letter in match_type.chars() {
            match letter {
                'c' => self.any_case = false,
                'i' => self.any_case = true,
                'm' => self.many_lines = true,
                'n' => self.dot_ends_lines = true,
                'u' => {}
                _ => return Err(SqlError::new(1210, format!("Incorrect arguments to {function}"))),
            }
        }
        Ok(self)
    }
}

/// A pattern whose POSIX classes, such as `[:alpha:]`, are those of Unicode. The crate `regex`
/// knows them for ASCII only.
fn with_unicode_classes(pattern: &str) -> Cow<'_, str> {
    const CLASSES: [(&str, &str); 9] = [
        ("alnum", r"\p{Alphabetic}\p{Nd}"),
        ("alpha", r"\p{Alphabetic}"),
        ("cntrl", r"\p{Cc}"),
        ("digit", r"\p{Nd}"),
        ("lower", r"\p{Lowercase}"),
        ("punct", r"\p{P}"),
        ("space", r"\s"),
        ("upper", r"\p{Uppercase}"),
        ("word", r"\w"),
    ];
    if !pattern.contains("[:") {
        return Cow::Borrowed(pattern);
    }
    let (mut out, mut rest, mut depth) = (String::new(), pattern, 0_usize);
    // Whether a class has just begun: a `]` is then a member of it.
    let mut begins = false;
    while let Some(letter) = rest.chars().next() {
        let class = rest.strip_prefix("[:").filter(|_| depth > 0).and_then(|class| {
            let (name, after) = class.split_once(":]")?;
            let (not, name) = name.strip_prefix('^').map_or(("", name), |name| ("^", name));
            let (_, made) = CLASSES.iter().find(|(known, _)| *known == name)?;
            Some((format!("[{not}{made}]"), after))
        });
        if let Some((class, after)) = class {
            out.push_str(&class);
            (rest, begins) = (after, false);
            continue;
        }
        match letter {
            '[' => depth += 1,
            ']' if !begins => depth = depth.saturating_sub(1),
            _ => {}
        }
        begins = letter == '[' || begins && letter == '^';
        let escaped = if letter == '\\' { rest.chars().nth(1) } else { None };
        let len = letter.len_utf8() + escaped.map_or(0, char::len_utf8);
        out.push_str(&rest[..len]);
        rest = &rest[len..];
    }
    Cow::Owned(out)
}

impl Patterns {
    /// The most patterns that are kept: a column may have a different pattern in each row.
    const MOST: usize = 8;
    /// The longest pattern, in bytes. To parse one takes some 200 bytes of memory for each.
    const BYTES_MAX: usize = 32 << 10;

    /// The compiled form of a pattern.
    pub(in crate::expression) fn get(
        &self,
        pattern: &str,
        options: MatchOptions,
    ) -> Result<Rc<Regex>> {
        if pattern.len() > Patterns::BYTES_MAX {
            let text = "The regular expression pattern exceeds limits on size or complexity.";
            return Err(SqlError::new(3700, text));
        }
        let mut made = self.0.borrow_mut();
        let known = made.iter().find(|(text, other, _)| text == pattern && *other == options);
        if let Some((_, _, regex)) = known {
            return Ok(regex.clone());
        }
        let regex = RegexBuilder::new(&with_unicode_classes(pattern))
            .case_insensitive(options.any_case)
            .multi_line(options.many_lines)
            .dot_matches_new_line(options.dot_ends_lines)
            .size_limit(1 << 20)
            .build()
            .map_err(|_| SqlError::new(3685, "Illegal argument to a regular expression."))?;
        if made.len() == Patterns::MOST {
            made.remove(0);
        }
        let regex = Rc::new(regex);
        made.push((pattern.to_owned(), options, regex.clone()));
        Ok(regex)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_compiled_once() {
        let patterns = Patterns::default();
        let get =
            |pattern: &str, collation| patterns.get(pattern, MatchOptions::of(collation)).unwrap();
        let first = get("^a", Collation::GeneralCi);
        assert!(Rc::ptr_eq(&first, &get("^a", Collation::GeneralCi)));
        assert!(first.is_match("Abc") && !get("^a", Collation::Bin).is_match("Abc"));
        assert!(patterns.get("(", MatchOptions::of(Collation::Bin)).is_err());
        let code = |pattern: &str| {
            patterns.get(pattern, MatchOptions::of(Collation::Bin)).err().map(|e| e.code)
        };
        // The first compiles to more than a pattern may take.
        assert_eq!(code(&"a".repeat(Patterns::BYTES_MAX)), Some(3685));
        assert_eq!(code(&"a".repeat(Patterns::BYTES_MAX + 1)), Some(3700));
        for other in 0..2 * Patterns::MOST {
            assert!(get(&other.to_string(), Collation::Bin).is_match(&other.to_string()));
        }
        assert_eq!(patterns.0.borrow().len(), Patterns::MOST);
        assert!(!Rc::ptr_eq(&first, &get("^a", Collation::GeneralCi)));
    }

    #[test]
    fn posix_classes_are_those_of_unicode() {
        let is = |pattern: &str, text: &str| {
            let regex = Patterns::default().get(pattern, MatchOptions::of(Collation::Bin)).unwrap();
            regex.is_match(text)
        };
        assert!(is("^[[:alpha:]]+$", "äb世") && !is("^[[:alpha:]]+$", "ä1"));
        assert!(
            is("^[[:alnum:]_]+$", "ä1_")
                && is("^[[:^alpha:]x]+$", "1x")
                && !is("[[:^alpha:]]", "ä")
        );
        assert!(is("^[^[:space:]]$", "ä") && is("[[:xdigit:]]", "f") && is("[[:upper:]]", "Ä"));
        assert!(is("^[][:alpha:]]+$", "]ä") && is("^[^][:alpha:]]$", "1"));
        // No class: `[:` is within no brackets, or the bracket is escaped.
        assert!(is("^[:alpha:]$", "a") && !is("^[:alpha:]$", "ä"));
        assert!(is(r"^\[[:alpha:]$", "[a") && is(r"^[\]a[:digit:]]$", "٣"));
    }

    #[test]
    fn match_types_are_letters() {
        let options = |letters: &str| MatchOptions::of(Collation::GeneralCi).with(letters, "f");
        assert!(!options("ic").unwrap().any_case && options("ci").unwrap().any_case);
        assert!(options("mnu").unwrap().many_lines && options("n").unwrap().dot_ends_lines);
        assert_eq!(options("cx").unwrap_err().code, 1210);
    }
}
