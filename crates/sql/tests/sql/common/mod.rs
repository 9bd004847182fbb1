//! Sessions over a database in memory. They return results as text.
#![allow(dead_code)]

pub(crate) mod chosen;
pub(crate) mod deep;
pub(crate) mod engines;

use spillway::{CommitFuture, Database, Settings};
use spillway_sql::{Instance, Outcome, ResultColumn, ResultSink, Session, SqlError};
use spillway_types::ValueRef;
use spillway_types::value::write_text;

pub(crate) use engines::instance_of;

/// A sink that keeps the rows of the last result as text.
#[derive(Default)]
pub(crate) struct Rows(pub(crate) Vec<String>);

impl ResultSink for Rows {
    fn columns(&mut self, _: &[ResultColumn]) -> Result<(), SqlError> {
        self.0.clear();
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<(), SqlError> {
        let cells = values.iter().map(|value| {
            let mut out = Vec::new();
            write_text(value, &mut out);
            let text = String::from_utf8(out);
            let text = text.unwrap_or_else(|wrong| wrong.as_bytes().escape_ascii().to_string());
            if value.is_null() { "NULL".to_owned() } else { text }
        });
        self.0.push(cells.collect::<Vec<_>>().join(" "));
        Ok(())
    }

    fn end_rows(&mut self, _: &Outcome) -> Result<(), SqlError> {
        Ok(())
    }

    fn ok(&mut self, _: &Outcome) -> Result<(), SqlError> {
        Ok(())
    }
}

/// A sink that keeps commits and waits for none.
#[derive(Default)]
pub(crate) struct Hurried(pub(crate) Vec<CommitFuture>);

impl ResultSink for Hurried {
    fn columns(&mut self, _: &[ResultColumn]) -> Result<(), SqlError> {
        Ok(())
    }

    fn row(&mut self, _: &[ValueRef<'_>]) -> Result<(), SqlError> {
        Ok(())
    }

    fn end_rows(&mut self, _: &Outcome) -> Result<(), SqlError> {
        Ok(())
    }

    fn ok(&mut self, _: &Outcome) -> Result<(), SqlError> {
        Ok(())
    }

    fn ok_after(&mut self, commit: CommitFuture, _: &Outcome) -> Result<(), SqlError> {
        self.0.push(commit);
        Ok(())
    }
}

/// An instance over a database in memory, whose budget `SPILLWAY_MEMORY_MIB` may set.
pub(crate) fn in_memory() -> Instance {
    let mut settings = Settings::default();
    if let Some(mib) =
        std::env::var("SPILLWAY_MEMORY_MIB").ok().and_then(|mib| mib.parse::<usize>().ok())
    {
        settings.memory_bytes = mib << 20;
    }
    instance_of(Database::open_in_memory(settings).unwrap()).unwrap()
}

/// A session of root.
pub(crate) fn root(instance: &Instance) -> Session {
    instance.session("root", "localhost", 1)
}

pub(crate) fn run(session: &mut Session, sql: &str) -> Result<Vec<String>, SqlError> {
    let mut rows = Rows::default();
    session.query(&engines::placed(sql), &mut rows)?;
    Ok(rows.0)
}

/// The number of a statement's error; 0 if it succeeds.
pub(crate) fn code(session: &mut Session, sql: &str) -> u16 {
    run(session, sql).err().map_or(0, |error| error.code)
}
