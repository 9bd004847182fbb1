//! What several targets use; each uses a part of it.
#![allow(dead_code)]

use spillway::{Database, Settings};
use spillway_sql::{Outcome, ResultColumn, ResultSink, SqlError};
use spillway_types::ValueRef;

/// The settings of a new database for one input. With the default memory and background threads, an
/// input takes about four times the processor time.
pub(crate) fn small_settings() -> Settings {
    let mut settings = Settings::default();
    settings.memory_bytes = 32 << 20;
    settings.cores = 1;
    settings.recovery_threads = 1;
    settings.log_segment_bytes = 1 << 20;
    settings.background_threads = false;
    settings
}

/// A new database for one input.
pub(crate) fn small_database() -> Database {
    Database::open_in_memory(small_settings()).expect("a database in memory opens")
}

/// Takes results and does nothing with them.
pub(crate) struct Ignored;

impl ResultSink for Ignored {
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
}
