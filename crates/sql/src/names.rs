//! The rules for names that statements create or refer to, and MySQL's errors for names that break
//! a rule.
//!
//! # Guarantees
//!
//! - **NAME-1 (creation).** No statement gives a database, table, column or index a new name that
//!   is empty, ends with white space or has more than [`NAME_MAX`] characters. Characters are
//!   counted, not bytes.
//! - **NAME-2 (at once).** A statement that breaks NAME-1 fails before it takes a metadata lock,
//!   changes anything or waits. `ddl/name_check` checks the names of columns, indexes and
//!   constraints; `session/metadata/lock_context` checks the names of tables and databases.
//! - **NAME-3 (old names).** A table or database that already exists can be used, renamed and
//!   dropped whatever its name is. So a statement checks a referenced name only if no such object
//!   exists. If the name breaks a rule, the statement reports the broken rule instead of "doesn't
//!   exist".
//! - **NAME-4 (characters).** A statement with a quoted name that contains U+0000 fails with 1064.
//!   A statement with a quoted name that contains a character above U+FFFF fails with 1300. Both
//!   apply to names that the statement creates and to names that it refers to (`parser/text`).
//! - **NAME-5 (shown).** No error message contains a control character: [`crate::printable`]
//!   escapes such characters.
//!
//! As in MySQL, a CHECK constraint with an empty name gets a generated name, and a primary key,
//! which has no name, may be declared with any name.

use crate::errors::{Result, SqlError};

/// The most characters of a name of a database, table, column, index, constraint, savepoint,
/// prepared statement or user variable.
pub(crate) const NAME_MAX: usize = 64;
/// The most characters of an alias.
const ALIAS_MAX: usize = 256;
/// The most characters of an account's user name and of its host name.
const USER_MAX: usize = 32;
const HOST_MAX: usize = 255;

fn is_longer(name: &str, most: usize) -> bool {
    name.len() > most && name.chars().count() > most
}

/// Whether a name is empty or ends with white space. As in MySQL, white space outside ASCII counts
/// as letters.
fn is_wrong(name: &str) -> bool {
    name.bytes().last().is_none_or(|last| matches!(last, b' ' | b'\t'..=b'\r'))
}

#[cold]
fn too_long(name: &str) -> SqlError {
    SqlError::new(1059, format!("Identifier name '{name}' is too long"))
}

pub(crate) fn check(name: &str, code: u16, what: &str) -> Result<()> {
    if is_longer(name, NAME_MAX) {
        return Err(too_long(name));
    }
    if is_wrong(name) {
        return Err(SqlError::new(code, format!("Incorrect {what} name '{name}'")));
    }
    Ok(())
}

/// Refuses an invalid name of a database: 1102, 1059.
pub(crate) fn check_database(name: &str) -> Result<()> {
    check(name, 1102, "database")
}

/// Refuses an invalid name of a table or of its database: 1102, 1103, 1059.
pub(crate) fn check_table(db: &str, name: &str) -> Result<()> {
    check_database(db)?;
    check(name, 1103, "table")
}

/// Refuses a name of more than 64 characters: 1059.
pub(crate) fn check_length(name: &str) -> Result<()> {
    if is_longer(name, NAME_MAX) { Err(too_long(name)) } else { Ok(()) }
}

/// Refuses an alias of more than 256 characters: 1059.
pub(crate) fn check_alias(name: &str) -> Result<()> {
    if is_longer(name, ALIAS_MAX) { Err(too_long(name)) } else { Ok(()) }
}

/// Refuses an invalid name of a user variable: 3061.
pub(crate) fn check_variable(name: &str) -> Result<()> {
    if name.is_empty() || is_longer(name, NAME_MAX) {
        return Err(SqlError::new(3061, format!("User variable name '{name}' is illegal")));
    }
    Ok(())
}

/// Refuses an invalid name of an account: 1470.
pub(crate) fn check_account(user: &str, host: &str) -> Result<()> {
    for (name, most, what) in [(user, USER_MAX, "user"), (host, HOST_MAX, "host")] {
        if is_longer(name, most) {
            let text = format!(
                "String '{name}' is too long for {what} name (should be no longer than {most})"
            );
            return Err(SqlError::new(1470, text));
        }
    }
    Ok(())
}

impl SqlError {
    /// The error for a table that does not exist: 1146, or the error of its name if that is
    /// invalid.
    #[cold]
    pub(crate) fn unknown_table(db: &str, name: &str) -> SqlError {
        let wrong = check_table(db, name).err();
        wrong.unwrap_or_else(|| SqlError::new(1146, format!("Table '{db}.{name}' doesn't exist")))
    }

    /// The error for a database that does not exist: 1049, or the error of its name if that is
    /// invalid.
    #[cold]
    pub(crate) fn unknown_database(name: &str) -> SqlError {
        let wrong = check_database(name).err();
        wrong.unwrap_or_else(|| SqlError::new(1049, format!("Unknown database '{name}'")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(outcome: Result<()>) -> u16 {
        outcome.map_or_else(|error| error.code, |()| 0)
    }

    #[test]
    fn characters_count_and_not_bytes() {
        for letter in ["x", "ä", "界"] {
            assert_eq!(code(check_table("d", &letter.repeat(64))), 0);
            assert_eq!(code(check_table("d", &letter.repeat(65))), 1059);
            assert_eq!(code(check_alias(&letter.repeat(256))), 0);
            assert_eq!(code(check_alias(&letter.repeat(257))), 1059);
            assert_eq!(code(check_account(&letter.repeat(32), &letter.repeat(255))), 0);
            assert_eq!(code(check_account(&letter.repeat(33), "h")), 1470);
            assert_eq!(code(check_account("u", &letter.repeat(256))), 1470);
            assert_eq!(code(check_variable(&letter.repeat(64))), 0);
            assert_eq!(code(check_variable(&letter.repeat(65))), 3061);
        }
    }

    #[test]
    fn a_name_ends_with_no_white_space() {
        for end in [" ", "\t", "\n", "\u{b}", "\u{c}", "\r"] {
            assert_eq!(code(check_table("d", &format!("t{end}"))), 1103, "{end:?}");
            assert_eq!(code(check_table(&format!("d{end}"), "t")), 1102, "{end:?}");
            assert_eq!(code(check_table("d", end)), 1103, "{end:?}");
            assert_eq!(code(check_table("d", &format!("{end}t"))), 0, "{end:?}");
        }
        assert_eq!(code(check_table("d", "")), 1103);
        assert_eq!(code(check_table("", "t")), 1102);
        assert_eq!(code(check_table("d", "t\u{a0}")), 0);
    }

    #[test]
    fn a_quoted_name_has_no_nul_and_no_wide_character() {
        let read = |sql: &str, ansi_quotes: bool| {
            let mode = crate::parser::TextMode { ansi_quotes, ..Default::default() };
            let budget = spillway::Budget::new(usize::MAX);
            let mut memory = crate::parser::TextMemory::of(sql, &budget);
            code(crate::parser::split(sql, mode, &mut memory).map(drop))
        };
        for (letter, error) in [("\0", 1064), ("😀", 1300), ("\u{10000}", 1300), ("\u{ffff}", 0)]
        {
            for sql in
                ["SELECT `a{}b`", "CREATE TABLE `{}` (a INT)", "SELECT @`{}`", "SELECT 1 AS `{}`"]
            {
                assert_eq!(read(&sql.replace("{}", letter), false), error, "{sql} {letter:?}");
            }
            let text = format!("SELECT 'a{letter}b', \"{letter}\"");
            assert_eq!(read(&text, false), 0, "a text may have {letter:?}");
            assert_eq!(read(&text, true), error, "but no name in ANSI_QUOTES");
        }
    }
}
