//! A result sink and functions that the crate's unit tests share.

use spillway::{Database, Settings};
use spillway_types::ValueRef;
use spillway_types::value::write_text;

use crate::api::{Outcome, ResultColumn, ResultSink};
use crate::errors::Result;
use crate::session::{Instance, Session};

/// A sink that keeps the rows of the last result as text.
#[derive(Default, Debug)]
pub(crate) struct Rows(Vec<String>);

impl ResultSink for Rows {
    fn columns(&mut self, _: &[ResultColumn]) -> Result<()> {
        self.0.clear();
        Ok(())
    }

    fn row(&mut self, values: &[ValueRef<'_>]) -> Result<()> {
        let cells = values.iter().map(|value| {
            let mut out = Vec::new();
            write_text(value, &mut out);
            if value.is_null() { "NULL".to_owned() } else { String::from_utf8(out).unwrap() }
        });
        self.0.push(cells.collect::<Vec<_>>().join(" "));
        Ok(())
    }

    fn end_rows(&mut self, _: &Outcome) -> Result<()> {
        Ok(())
    }

    fn ok(&mut self, _: &Outcome) -> Result<()> {
        Ok(())
    }
}

pub(crate) fn in_memory() -> Instance {
    Instance::open(Database::open_in_memory(Settings::default()).unwrap()).unwrap()
}

/// Runs statements, none of which may fail. Returns the rows of the last result.
pub(crate) fn run(session: &mut Session, sql: &str) -> Vec<String> {
    let mut rows = Rows::default();
    session.query(sql, &mut rows).unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    rows.0
}
