//! The variable `durability` decides when commits are acknowledged. Its alias
//! `innodb_flush_log_at_trx_commit` has MySQL's numbers as values. Setting one of them sets the
//! other as well.

use std::time::Duration;

use spillway::Durability;

pub(crate) const NAME: &str = "durability";
/// MySQL's name of the variable.
pub(crate) const ALIAS: &str = "innodb_flush_log_at_trx_commit";

/// The delay for MySQL's values 0 and 2: once a second.
const SECOND: Duration = Duration::from_secs(1);
/// The longest delay.
const DELAY_MAX: Duration = Duration::from_secs(3600);

/// Parses a value of the variable `durability`: `commit`, `none`, or a delay from `1ms` to `3600s`.
#[must_use]
pub fn parse(text: &str) -> Option<Durability> {
    let text = text.trim().to_ascii_lowercase();
    match text.as_str() {
        "commit" => return Some(Durability::Commit),
        "none" => return Some(Durability::Relaxed),
        _ => {}
    }
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let delay = match text[digits..].trim() {
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        _ => return None,
    };
    (Duration::from_millis(1)..=DELAY_MAX).contains(&delay).then_some(Durability::Within(delay))
}

/// The durability's text as the value of the variable.
pub(crate) fn text(durability: Durability) -> String {
    durability.to_string()
}

/// The durability for MySQL's number.
pub(crate) fn of_number(number: &str) -> Durability {
    if number == "1" { Durability::Commit } else { Durability::Within(SECOND) }
}

/// MySQL's number for a durability, or the nearest one.
pub(crate) fn number(durability: Durability) -> &'static str {
    match durability {
        Durability::Commit => "1",
        Durability::Within(_) => "2",
        Durability::Relaxed => "0",
    }
}

/// The other variable, which must be set as well, and its value.
pub(crate) fn sibling(name: &str, value: &str) -> Option<(&'static str, String)> {
    match name {
        NAME => Some((ALIAS, number(parse(value)?).to_owned())),
        ALIAS => Some((NAME, text(of_number(value)))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_back_and_others_are_refused() {
        for kept in ["commit", "none", "1ms", "1500ms", "2s", "3600s"] {
            assert_eq!(text(parse(kept).unwrap()), kept);
        }
        assert_eq!(parse(" COMMIT "), Some(Durability::Commit));
        assert_eq!(parse("2000 ms").map(text).as_deref(), Some("2s"));
        for refused in ["", "0ms", "3601s", "5", "5 m", "-1s", "99999999999999999999s", "off"] {
            assert_eq!(parse(refused), None, "{refused}");
        }
    }

    #[test]
    fn the_siblings_say_the_same() {
        let alias = |value| sibling(NAME, value).unwrap();
        assert_eq!(["commit", "none", "5ms"].map(|value| alias(value).1), ["1", "0", "2"]);
        assert_eq!(sibling(ALIAS, "2"), Some((NAME, "1s".to_owned())));
        assert_eq!(sibling("autocommit", "ON"), None);
    }
}
