//! A SQL client that returns results as lines of text.

#[cfg(debug_assertions)]
use std::time::Duration;

#[cfg(debug_assertions)]
use spillway::{CommitFuture, Csn};
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

/// What a session told about a statement.
#[cfg(debug_assertions)]
#[derive(Default)]
pub(crate) struct Told {
    lines: Lines,
    /// What the statement changed.
    pub(crate) outcome: Outcome,
    /// The CSN of the commit that came with the statement.
    pub(crate) ordered: Option<Csn>,
    /// How long the session waited for this commit.
    pub(crate) waited: Duration,
}

#[cfg(debug_assertions)]
impl Told {
    /// The rows of the result.
    pub(crate) fn lines(&self) -> &[String] {
        &self.lines.0
    }
}

#[cfg(debug_assertions)]
impl ResultSink for Told {
    fn columns(&mut self, columns: &[ResultColumn]) -> Result<(), SqlError> {
        self.lines.columns(columns)
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError> {
        self.lines.row(values)
    }

    fn end_rows(&mut self, _: &Outcome) -> Result<(), SqlError> {
        Ok(())
    }

    fn ok(&mut self, outcome: &Outcome) -> Result<(), SqlError> {
        self.outcome = outcome.clone();
        Ok(())
    }

    fn ok_after(&mut self, commit: CommitFuture, outcome: &Outcome) -> Result<(), SqlError> {
        self.outcome = outcome.clone();
        self.ordered = commit.ordered();
        let began = spillway_base::clock::now();
        let ended = commit.wait();
        self.waited = spillway_base::clock::now() - began;
        ended?;
        Ok(())
    }
}

/// Runs a statement. What it told until it failed is in `told`, too.
#[cfg(debug_assertions)]
pub(crate) fn tell(session: &mut Session, sql: &str, told: &mut Told) -> Result<(), SqlError> {
    session.query(sql, told)
}

/// Runs statements. Returns the result of the last one as lines.
pub(crate) fn ask(session: &mut Session, sql: &str) -> Result<Vec<String>, SqlError> {
    let mut lines = Lines::default();
    session.query(sql, &mut lines)?;
    Ok(lines.0)
}

/// MySQL's error of a duplicate key.
#[cfg(debug_assertions)]
pub(crate) const DUPLICATE: u16 = 1062;

/// A session of root.
#[cfg(debug_assertions)]
pub(crate) fn session(instance: &spillway_sql::Instance) -> Result<Session, SqlError> {
    let mut session = instance.session("root", "localhost", 1);
    session.use_database("test")?;
    Ok(session)
}
