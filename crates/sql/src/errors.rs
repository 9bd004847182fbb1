//! Errors with MySQL's numbers and texts. This module assigns numbers to the library's kinds of
//! errors and to failures to store a value. For any other error, the code that detects it assigns
//! the number ([`SqlError::new`]).

use std::borrow::Cow;
use std::fmt;

use spillway::{ErrorKind, Table};
use spillway_types::{StoreError, Value};

/// An error for the client: MySQL's error number, the SQLSTATE and the message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SqlError {
    /// MySQL's error number.
    pub code: u16,
    /// The SQLSTATE.
    pub state: &'static str,
    /// The message.
    pub message: String,
    /// Whether a conflict with a newer version ended the statement, so that it may be repeated at
    /// once with a newer snapshot.
    pub(crate) conflict: bool,
    /// Whether the statement must start over and keep its locks. This is not a failure (NEWEST-6).
    pub(crate) starts_over: bool,
    /// Whether the error ends the transaction.
    pub(crate) ends_transaction: bool,
    /// Whether this is not a failure, but the statement waits for a row lock.
    pub(crate) waits: bool,
    /// The key space with the damaged data, or with the row that has changed. The table's name is
    /// looked up later.
    pub(crate) table: Option<Table>,
    /// The start and the length of the part of the message that quotes a value of a row, or a key.
    quoted: Option<(usize, usize)>,
}

/// What a message has in place of a value that the user may not read.
const HIDDEN: &str = "(hidden)";

/// The result type of this crate.
pub type Result<T, E = SqlError> = std::result::Result<T, E>;

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ERROR {} ({}): {}", self.code, self.state, self.message)
    }
}

impl std::error::Error for SqlError {}

fn state_of(code: u16) -> &'static str {
    match code {
        1044 | 1142 | 1226 | 1227 | 1410 => "42000",
        1045 => "28000",
        1046 => "3D000",
        1040 | 1251 => "08004",
        1043 | 1047 | 1053 | 1152..=1161 => "08S01",
        1037 | 1038 | 1041 => "HY001",
        1048 | 1062 | 1169 | 1451 | 1452 | 3819 => "23000",
        1049 | 1059 | 1064 | 1102 | 1166 | 1065 | 1068 | 1069 | 1071 | 1072 | 1075 | 1091
        | 1101 | 1103 | 1110 | 1113 | 1115 | 1140 | 1149 | 1171 | 1203 | 1211 | 1231 | 1235
        | 1248 | 1250 | 1286 | 1061 | 1063 | 1067 | 1070 | 1074 | 1090 | 1170 | 1176 | 1280
        | 1305 | 1425 | 1426 | 1327 | 1427 | 1439 | 1461 | 1462 | 1582 | 3057 | 3061 => "42000",
        1050 => "42S01",
        1051 | 1146 => "42S02",
        1054 | 1247 => "42S22",
        1060 => "42S21",
        1052 => "23000",
        1136 => "21S01",
        1213 => "40001",
        1222 | 1241 | 1242 => "21000",
        1264 | 1690 => "22003",
        1265 => "01000",
        1292 => "22007",
        1138 => "22004",
        1365 => "22012",
        1406 => "22001",
        1317 => "70100",
        3140 | 3141 | 3158 => "22032",
        3143 => "42000",
        1792 => "25006",
        1845 | 1846 => "0A000",
        _ => "HY000",
    }
}

impl SqlError {
    /// An error with this number. Its message has no control characters, whatever names and values
    /// it contains (NAME-5).
    #[cold]
    pub fn new(code: u16, message: impl Into<String>) -> SqlError {
        let message = message.into();
        let message = match printable(&message) {
            Cow::Borrowed(_) => message,
            Cow::Owned(printable) => printable,
        };
        SqlError {
            code,
            state: state_of(code),
            message,
            conflict: false,
            starts_over: false,
            ends_transaction: false,
            waits: false,
            table: None,
            quoted: None,
        }
    }

    /// As [`SqlError::new`], with a message that quotes a value between two parts. The value may
    /// come from a row, so the session hides it from users who may not read the statement's tables
    /// ([`SqlError::hide_value`]).
    #[cold]
    pub(crate) fn quoting(code: u16, before: &str, value: &str, after: &str) -> SqlError {
        let mut error = SqlError::new(code, before);
        let start = error.message.len();
        error.message.push_str(&printable(value));
        error.quoted = Some((start, error.message.len() - start));
        error.message.push_str(&printable(after));
        error
    }

    /// Takes the quoted value out of the message.
    #[cold]
    pub(crate) fn hide_value(&mut self) {
        if let Some((start, len)) = self.quoted.take() {
            self.message.replace_range(start..start + len, HIDDEN);
        }
    }

    /// Puts a text before the message.
    #[cold]
    pub(crate) fn put_before(&mut self, text: &str) {
        self.message.insert_str(0, text);
        if let Some((start, _)) = &mut self.quoted {
            *start += text.len();
        }
    }

    /// Whether the error may depend on the content of rows. It does not if other statements, or the
    /// statement's own use of resources, ended the statement.
    pub(crate) fn tells_of_rows(&self) -> bool {
        !matches!(self.code, 1037 | 1038 | 1041 | 1160 | 1205 | 1213 | 1317 | 3024 | 3572)
    }

    /// The result by which a statement starts over.
    #[cold]
    pub(crate) fn starts_over() -> SqlError {
        SqlError { starts_over: true, ..SqlError::new(1213, "a row has got another key") }
    }

    /// 1235: something that is not supported. `what` names it.
    #[cold]
    pub fn unsupported(what: impl fmt::Display) -> SqlError {
        SqlError::new(1235, format!("This version of Spillway doesn't yet support '{what}'"))
    }

    /// 1064: the text is not valid SQL.
    #[cold]
    pub fn syntax(what: impl fmt::Display) -> SqlError {
        SqlError::new(1064, format!("You have an error in your SQL syntax: {what}"))
    }

    #[cold]
    pub(crate) fn unknown_column(name: &str, place: &str) -> SqlError {
        SqlError::new(1054, format!("Unknown column '{name}' in '{place}'"))
    }

    /// 1364: a column has no default.
    #[cold]
    pub(crate) fn no_default(column: &str) -> SqlError {
        SqlError::new(1364, format!("Field '{column}' doesn't have a default value"))
    }

    #[cold]
    pub(crate) fn unknown_engine(name: &str) -> SqlError {
        SqlError::new(1286, format!("Unknown storage engine '{name}'"))
    }

    #[cold]
    pub(crate) fn out_of_range(what: &str, expr: &str) -> SqlError {
        SqlError::quoting(1690, &format!("{what} value is out of range in '"), expr, "'")
    }

    /// 3024: a query has reached `max_execution_time`.
    #[cold]
    pub(crate) fn out_of_time() -> SqlError {
        let text = "Query execution was interrupted, maximum statement execution time exceeded";
        SqlError::new(3024, text)
    }

    /// The error for a value that a column cannot store, with MySQL's message.
    #[cold]
    pub(crate) fn store(why: StoreError, column: &str, value: &Value, row: u64) -> SqlError {
        let shown = || match value {
            Value::Bytes(bytes) if why == StoreError::Incorrect("string") => {
                let wrong = std::str::from_utf8(bytes).map_or_else(|at| at.valid_up_to(), str::len);
                printable_bytes(&bytes[wrong..])
            }
            value => value.to_text().chars().take(64).collect(),
        };
        match why {
            StoreError::OutOfRange => SqlError::new(
                1264,
                format!("Out of range value for column '{column}' at row {row}"),
            ),
            StoreError::Truncated => {
                SqlError::new(1265, format!("Data truncated for column '{column}' at row {row}"))
            }
            StoreError::Incorrect(kind) | StoreError::IncorrectTime(kind) => SqlError::quoting(
                if matches!(why, StoreError::Incorrect(_)) { 1366 } else { 1292 },
                &format!("Incorrect {kind} value: '"),
                &shown(),
                &format!("' for column '{column}' at row {row}"),
            ),
            StoreError::TooLong => {
                SqlError::new(1406, format!("Data too long for column '{column}' at row {row}"))
            }
            StoreError::Json => {
                SqlError::new(3140, format!("Invalid JSON text for column '{column}' at row {row}"))
            }
        }
    }
}

impl From<spillway::Error> for SqlError {
    fn from(error: spillway::Error) -> SqlError {
        let (code, text): (u16, Option<&str>) = match error.kind() {
            ErrorKind::Deadlock => {
                (1213, Some("Deadlock found when trying to get lock; try restarting transaction"))
            }
            ErrorKind::LockTimeout => {
                (1205, Some("Lock wait timeout exceeded; try restarting transaction"))
            }
            ErrorKind::LockNotAvailable => (
                3572,
                Some(
                    "Statement aborted because lock(s) could not be acquired immediately and NOWAIT is set.",
                ),
            ),
            ErrorKind::WriteConflict | ErrorKind::SerializationFailure => (1213, None),
            ErrorKind::Interrupted => (1317, Some("Query execution was interrupted")),
            ErrorKind::ReadOnlyTransaction => {
                (1792, Some("Cannot execute statement in a READ ONLY transaction."))
            }
            ErrorKind::TransactionTooLarge => (1197, None),
            ErrorKind::DuplicateKey => (1062, None),
            ErrorKind::DiskFull => (1021, None),
            ErrorKind::MemoryFull => (1041, None),
            ErrorKind::LockTableFull => {
                (1206, Some("The total number of locks exceeds the lock table size"))
            }
            ErrorKind::WritesStopped => (1290, None),
            ErrorKind::Closed => (1053, Some("Server shutdown in progress")),
            ErrorKind::Corruption => (1034, None),
            ErrorKind::Io => (1030, None),
            ErrorKind::InvalidArgument => (1210, None),
            ErrorKind::NotFound => {
                (1412, Some("Table definition has changed, please retry transaction"))
            }
            _ => (1105, None),
        };
        let mut sql = SqlError::new(code, text.map_or_else(|| error.to_string(), str::to_owned));
        sql.conflict = error.kind() == ErrorKind::WriteConflict;
        sql.waits = error.kind() == ErrorKind::WouldBlock;
        if error.kind() == ErrorKind::Corruption {
            // The text has keys of the damaged slice or block.
            sql.quoted = Some((0, sql.message.len()));
        }
        let named = matches!(error.kind(), ErrorKind::Corruption | ErrorKind::WriteConflict);
        sql.table = error.table().filter(|_| named);
        sql.ends_transaction = matches!(
            error.kind(),
            ErrorKind::Deadlock
                | ErrorKind::WriteConflict
                | ErrorKind::SerializationFailure
                | ErrorKind::WritesStopped
        );
        sql
    }
}

impl From<&'static str> for SqlError {
    /// The error for an invalid stored row.
    fn from(why: &'static str) -> SqlError {
        SqlError::new(1034, format!("Incorrect key file for table; {why}"))
    }
}

/// The level of a warning.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum WarningLevel {
    Note,
    Warning,
    /// The error with which the statement failed.
    Error,
}

/// A warning, which the client gets in addition to the result.
#[derive(Clone, Debug)]
pub(crate) struct Warning {
    pub(crate) level: WarningLevel,
    pub(crate) error: SqlError,
}

/// The first six of some bytes, as MySQL quotes bytes that are no text.
pub(crate) fn printable_bytes(bytes: &[u8]) -> String {
    let shown = bytes.iter().take(6).map(|byte| match byte {
        b' '..=b'~' => char::from(*byte).to_string(),
        byte => format!("\\x{byte:02X}"),
    });
    let more = if bytes.len() > 6 { "..." } else { "" };
    shown.chain([more.to_owned()]).collect()
}

/// A text with its control characters escaped (`\\x1B`, `\\n`), for terminals and logs: a terminal
/// would obey them, and in a log they would break the line.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return Cow::Borrowed(text);
    }
    let written = |c: char| match c {
        '\n' => "\\n".to_owned(),
        '\t' => "\\t".to_owned(),
        '\r' => "\\r".to_owned(),
        c if c.is_control() => format!("\\x{:02X}", u32::from(c)),
        c => c.to_string(),
    };
    Cow::Owned(text.chars().map(written).collect())
}
