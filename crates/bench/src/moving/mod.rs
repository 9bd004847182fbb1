//! Reads whose hot rows change suddenly.
//!
//! Nearly all reads ask for a hundredth of the rows, uniformly; after some seconds it is another
//! hundredth, and so on. The hot rows are neighbours ("together", so that a cache of blocks can
//! hold them) or anywhere ("scattered", so that each is in a block of cold rows). The run reports
//! the share of the reads that found their row in memory, window by window, and how long after a
//! jump it is what it was before.
//!
//! Reads go to stores within the process, or to servers, through SQL.

mod command;
mod series;
mod subject;
#[cfg(test)]
mod tests;
mod work;

pub use self::command::MovingArgs;
