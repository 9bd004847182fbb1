//! The warnings and notes of the last statement.

use spillway_types::{ColumnType, Value};
use sqlparser::tokenizer::Token;

use super::Session;
use crate::api::ResultSink;
use crate::errors::{Result, SqlError, Warning, WarningLevel};
use crate::parser::word;

/// The codes of notes: the requested state exists already, or the statement was understood
/// otherwise than written.
const NOTES: &[u16] = &[1003, 1007, 1008, 1050, 1051, 1060, 1061, 1091, 3162, 3163];

impl Session {
    /// Forgets what the statement before said, once this one has asked for it if it does.
    pub(super) fn forget_warnings(&mut self) {
        if std::mem::take(&mut self.stale_warnings) {
            self.warnings.clear();
        }
    }

    /// Notes what a statement that goes on has met, or a connection before its first.
    pub fn warn(&mut self, error: SqlError) {
        self.forget_warnings();
        let level =
            if NOTES.contains(&error.code) { WarningLevel::Note } else { WarningLevel::Warning };
        if level == WarningLevel::Note && !self.variables.borrow().flag("sql_notes") {
            return;
        }
        self.warnings.push(Warning { level, error });
    }

    /// Notes what a statement failed of.
    pub(super) fn note_error(&mut self, error: &SqlError) {
        self.forget_warnings();
        // EXECUTE fails of what its statement fails of.
        if self
            .warnings
            .last()
            .is_some_and(|last| last.level == WarningLevel::Error && last.error == *error)
        {
            return;
        }
        self.warnings.push(Warning { level: WarningLevel::Error, error: error.clone() });
    }

    /// SHOW WARNINGS, SHOW ERRORS, and SHOW COUNT(*) of either. These leave what was said as it is.
    pub(super) fn show_warnings(
        &mut self,
        plain: &[Token],
        more: bool,
        sink: &mut dyn ResultSink,
    ) -> Result<()> {
        let count = word(plain.get(1)) == "count";
        let at = if count { 5 } else { 1 };
        let errors = word(plain.get(at)) == "errors";
        let fits = |warning: &&Warning| !errors || warning.level == WarningLevel::Error;
        let fitting: Vec<Warning> = self.warnings.iter().filter(fits).cloned().collect();
        if count {
            let name = if errors { "@@session.error_count" } else { "@@session.warning_count" };
            let rows = vec![vec![Value::Int(fitting.len() as i64)]];
            return self.send(&[(name, ColumnType::BIGINT)], rows, more, sink);
        }
        let (skip, most) = self.limit_of(&plain[at + 1..])?;
        let rows = fitting.into_iter().skip(skip).take(most).map(|warning| {
            vec![
                Value::Text(format!("{:?}", warning.level)),
                Value::Int(i64::from(warning.error.code)),
                Value::Text(warning.error.message),
            ]
        });
        let columns = [
            ("Level", ColumnType::VarChar(7)),
            ("Code", ColumnType::INT),
            ("Message", ColumnType::VarChar(512)),
        ];
        self.send(&columns, rows.collect(), more, sink)
    }

    /// `[LIMIT [offset,] count]`.
    fn limit_of(&self, rest: &[Token]) -> Result<(usize, usize)> {
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
}
