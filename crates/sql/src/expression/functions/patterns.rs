//! Compiled regular expressions. A statement keeps the few that it used last, for its later rows.

use std::cell::RefCell;
use std::rc::Rc;

use regex::{Regex, RegexBuilder};
use spillway_types::Collation;

use crate::errors::{Result, SqlError};

/// The regular expressions that a statement has compiled, for its later rows.
#[derive(Default)]
pub(crate) struct Patterns(RefCell<Vec<(String, bool, Rc<Regex>)>>);

impl Patterns {
    /// The most patterns that are kept: a column may have a different pattern in each row.
    const MOST: usize = 8;

    /// The compiled form of a pattern. It ignores case if the collation does.
    pub(in crate::expression) fn get(
        &self,
        pattern: &str,
        collation: Collation,
    ) -> Result<Rc<Regex>> {
        let any_case = collation.ignores_case();
        let mut made = self.0.borrow_mut();
        let known = made.iter().find(|(text, any, _)| text == pattern && *any == any_case);
        if let Some((_, _, regex)) = known {
            return Ok(regex.clone());
        }
        let regex = RegexBuilder::new(pattern)
            .case_insensitive(any_case)
            .size_limit(1 << 20)
            .build()
            .map_err(|_| SqlError::new(3685, "Illegal argument to a regular expression."))?;
        if made.len() == Patterns::MOST {
            made.remove(0);
        }
        let regex = Rc::new(regex);
        made.push((pattern.to_owned(), any_case, regex.clone()));
        Ok(regex)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_compiled_once() {
        let patterns = Patterns::default();
        let get = |pattern: &str, collation| patterns.get(pattern, collation).unwrap();
        let first = get("^a", Collation::GeneralCi);
        assert!(Rc::ptr_eq(&first, &get("^a", Collation::GeneralCi)));
        assert!(first.is_match("Abc") && !get("^a", Collation::Bin).is_match("Abc"));
        assert!(patterns.get("(", Collation::Bin).is_err());
        for other in 0..2 * Patterns::MOST {
            assert!(get(&other.to_string(), Collation::Bin).is_match(&other.to_string()));
        }
        assert_eq!(patterns.0.borrow().len(), Patterns::MOST);
        assert!(!Rc::ptr_eq(&first, &get("^a", Collation::GeneralCi)));
    }
}
