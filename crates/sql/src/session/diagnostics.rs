//! The diagnostics area of a session: the warnings, notes and errors of its last statement.

use spillway_types::{ColumnType, Value};
use sqlparser::tokenizer::Token;

use crate::errors::{Result, SqlError, Warning, WarningLevel};
use crate::parser::word;
use crate::variables::Variables;

/// The codes of notes: the requested state exists already, or the statement was understood
/// otherwise than written.
const NOTES: &[u16] = &[1003, 1007, 1008, 1050, 1051, 1060, 1061, 1091, 3162, 3163];

/// The columns and rows of a result that is complete in memory.
pub(super) type ShownRows = (Vec<(&'static str, ColumnType)>, Vec<Vec<Value>>);

/// The conditions that the last statement raised.
#[derive(Default)]
pub(super) struct DiagnosticsArea {
    conditions: Vec<Warning>,
    /// Whether the conditions belong to the previous statement, and the running one may still read
    /// them.
    stale: bool,
}

impl DiagnosticsArea {
    /// Called when a statement begins. If it `reads` conditions, it finds those of the previous
    /// statement.
    pub(super) fn begin_statement(&mut self, reads: bool) {
        self.stale = true;
        if !reads {
            self.forget_stale();
        }
    }

    /// Forgets the conditions of the previous statement, once the running one cannot read them any
    /// more.
    pub(super) fn forget_stale(&mut self) {
        if self.stale {
            self.clear();
        }
    }

    pub(super) fn clear(&mut self) {
        self.conditions.clear();
        self.stale = false;
    }

    /// Adds a warning or note of the running statement, or of a connection before its first
    /// statement.
    pub(super) fn warn(&mut self, error: SqlError, variables: &Variables) {
        self.forget_stale();
        let level =
            if NOTES.contains(&error.code) { WarningLevel::Note } else { WarningLevel::Warning };
        if level == WarningLevel::Note && !variables.flag("sql_notes") {
            return;
        }
        self.conditions.push(Warning { level, error });
    }

    /// Adds the error with which a statement failed.
    pub(super) fn note_error(&mut self, error: &SqlError) {
        self.forget_stale();
        // EXECUTE fails with the error of its statement, which is already there.
        if self
            .conditions
            .last()
            .is_some_and(|last| last.level == WarningLevel::Error && last.error == *error)
        {
            return;
        }
        self.conditions.push(Warning { level: WarningLevel::Error, error: error.clone() });
    }

    /// Replaces the conditions by the error of a text that could not be parsed.
    pub(super) fn note_parse_error(&mut self, error: &SqlError) {
        self.clear();
        self.note_error(error);
    }

    /// The number of conditions of all levels.
    pub(super) fn count(&self) -> usize {
        self.conditions.len()
    }

    pub(super) fn error_count(&self) -> usize {
        self.conditions.iter().filter(|warning| warning.level == WarningLevel::Error).count()
    }

    /// The result of SHOW WARNINGS, SHOW ERRORS, or SHOW COUNT(*) of either.
    pub(super) fn show(&self, plain: &[Token]) -> Result<ShownRows> {
        let count = word(plain.get(1)) == "count";
        let at = if count { 5 } else { 1 };
        let errors = word(plain.get(at)) == "errors";
        if count {
            let (name, count) = match errors {
                true => ("@@session.error_count", self.error_count()),
                false => ("@@session.warning_count", self.count()),
            };
            let rows = vec![vec![Value::Int(count as i64)]];
            return Ok((vec![(name, ColumnType::BIGINT)], rows));
        }
        let fits = |warning: &&Warning| !errors || warning.level == WarningLevel::Error;
        let (skip, most) = limit_of(&plain[at + 1..])?;
        let rows = self.conditions.iter().filter(fits).skip(skip).take(most).map(|warning| {
            vec![
                Value::Text(format!("{:?}", warning.level)),
                Value::Int(i64::from(warning.error.code)),
                Value::Text(warning.error.message.clone()),
            ]
        });
        let columns = vec![
            ("Level", ColumnType::VarChar(7)),
            ("Code", ColumnType::INT),
            ("Message", ColumnType::VarChar(512)),
        ];
        Ok((columns, rows.collect()))
    }
}

/// `[LIMIT [offset,] count]`.
fn limit_of(rest: &[Token]) -> Result<(usize, usize)> {
    let number = |token: &Token| match token {
        Token::Number(digits, _) => digits.parse().ok(),
        _ => None,
    };
    let limits = match rest {
        [] => Some((0, usize::MAX)),
        [limit, most] if word(Some(limit)) == "limit" => number(most).map(|most| (0, most)),
        [limit, skip, Token::Comma, most] if word(Some(limit)) == "limit" => {
            number(skip).zip(number(most))
        }
        _ => None,
    };
    limits.ok_or_else(|| {
        let shown: Vec<String> = rest.iter().map(ToString::to_string).collect();
        SqlError::syntax(format!("near '{}'", shown.join(" ")))
    })
}
