//! A SQL client that returns results as lines of text.

use spillway_sql::{Outcome, ResultColumn, ResultSink, Session, SqlError};
use spillway_types::ValueRef;
use spillway_types::value::write_text;

/// Collects a result as lines.
#[derive(Default)]
struct Lines(Vec<String>);

impl ResultSink for Lines {
    fn columns(&mut self, _: &[ResultColumn]) -> Result<(), SqlError> {
        self.0.clear();
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError> {
        let mut line = Vec::new();
        for value in values {
            write_text(value, &mut line);
            line.push(b' ');
        }
        self.0.push(String::from_utf8_lossy(&line).into_owned());
        Ok(())
    }

    fn end_rows(&mut self, _: &Outcome) -> Result<(), SqlError> {
        Ok(())
    }

    fn ok(&mut self, _: &Outcome) -> Result<(), SqlError> {
        Ok(())
    }
}

/// Runs statements. Returns the result of the last one as lines.
pub(crate) fn ask(session: &mut Session, sql: &str) -> Result<Vec<String>, SqlError> {
    let mut lines = Lines::default();
    session.query(sql, &mut lines)?;
    Ok(lines.0)
}
