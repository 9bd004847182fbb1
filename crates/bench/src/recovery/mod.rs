//! How long it takes to open after a crash.
//!
//! A process commits until its log has the given number of bytes. An opening must install all of
//! them, because none of it was flushed to data files. The process is killed. Then another process
//! opens the folder, with the log out of the page cache, and reports how long that took. It ends
//! without closing, so that the next finds the same work. Reading the same files with large reads
//! and nothing else, in turn with the openings, shows the speed of the disk.
//!
//! An opening must find every commit that was acknowledged before the kill, or the run fails.

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
