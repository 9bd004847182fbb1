//! How long it takes to open after a crash.
//!
//! A process commits until its log has the given number of bytes, all of which an opening must
//! install, because nothing of it was flushed to data files. It is killed. Then another process
//! opens the folder, with the log out of the page cache, and reports how long that took; it ends
//! without closing, so that the next finds the same work. Reading the same files with large reads
//! and nothing else, in turn with the openings, shows what the disk gives.
//!
//! An opening must find every commit that was acknowledged before the kill, or the run fails.

mod child;
mod command;
mod logs;
mod spillway;

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

pub use self::command::RecoveryArgs;
pub use self::logs::files_in;
pub use self::spillway::SpillwayRecovery;
use crate::store::Store;

/// A kind of store that can be left with its log alone.
pub trait Recoverable: Sync {
    /// The name in the report.
    fn name(&self) -> String;

    /// What it is set to, in words.
    fn settings(&self) -> String;

    /// Numbers of threads to open it with.
    fn threads(&self) -> Vec<usize>;

    /// Opens the store in a folder, or makes it, so that it keeps this many bytes of log and
    /// flushes nothing.
    ///
    /// # Errors
    /// Whatever went wrong, in words.
    fn open(&self, dir: &Path, log_bytes: u64, threads: usize) -> Result<Box<dyn Store>, String>;

    /// The files of the log of a store in this folder.
    ///
    /// # Errors
    /// Whatever went wrong, in words.
    fn log_files(&self, dir: &Path) -> Result<Vec<PathBuf>, String>;
}
