//! Reads whose hot rows change suddenly.
//!
//! Nearly all reads use a hundredth of the rows, uniformly; after some seconds another hundredth
//! becomes hot, and so on. The hot rows are neighbours ("together", so that a block cache can hold
//! them) or random rows ("scattered", so that each is in a block of cold rows). The run reports the
//! share of reads that found their row in memory, window by window, and how long after a jump it
//! takes until that share is what it was before.
//!
//! Reads go to stores within the process, or to servers, through SQL.

mod command;
mod series;
mod subject;
#[cfg(test)]
mod tests;
mod work;

pub use self::command::MovingArgs;
