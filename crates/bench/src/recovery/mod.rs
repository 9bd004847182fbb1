//! Measures how long a store takes to open after a crash.
//!
//! A process commits rows until its log has the given number of bytes. The process flushes no
//! memtable to data files, so a later opening must install every commit of this log. Then the run
//! kills the process.
//!
//! In each round, the run drops the files of the log from the page cache. Then another process
//! opens the folder and reports how long the opening took. The run kills this process too. The
//! store is not closed, so the openings of later rounds find the same log to recover. In each
//! round, the run also reads the files of the log directly, with large reads. The time of these
//! reads shows the speed of the disk.
//!
//! After an opening, the process reads some of the rows whose commits were acknowledged before the
//! kill, the last one included. The run fails if one of them is missing.

mod child;
mod command;
mod logs;
mod spillway;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

pub(crate) use self::child::{report_and_wait, run_and_kill};
pub use self::command::RecoveryArgs;
pub use self::logs::files_in;
pub(crate) use self::logs::{forget, read};
pub use self::spillway::SpillwayRecovery;
use crate::store::Store;

/// A kind of store that can be left with only its log.
pub trait Recoverable: Sync {
    /// The name in the report.
    fn name(&self) -> String;

    /// Its settings, as text.
    fn settings(&self) -> String;

    /// Numbers of threads to open it with.
    fn threads(&self) -> Vec<usize>;

    /// Opens or creates the store in a folder, so that it keeps this many bytes of log and flushes
    /// nothing.
    ///
    /// # Errors
    /// The error, as text.
    fn open(&self, dir: &Path, log_bytes: u64, threads: usize) -> Result<Box<dyn Store>, String>;

    /// The files of the log of a store in this folder.
    ///
    /// # Errors
    /// The error, as text.
    fn log_files(&self, dir: &Path) -> Result<Vec<PathBuf>, String>;
}
