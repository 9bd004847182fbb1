//! Reads whose hot rows change suddenly.
//!
//! Nearly all reads use a hot set, a hundredth of the rows, uniformly. After some seconds another
//! hundredth becomes hot: the hot set jumps. The hot rows are neighbours ("together", so that a
//! block cache can hold them) or random rows ("scattered", so that each is in a block of cold
//! rows). The run reports, window by window, the share of reads that found their row in memory. It
//! also reports how long it takes after a jump until this share is nearly as high as before the
//! jump.
//!
//! Reads go to stores within the process, or to servers, through SQL.

mod command;
mod series;
mod subject;
#[cfg(test)]
mod tests;
mod work;

pub use self::command::MovingArgs;
