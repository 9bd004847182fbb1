//! Point reads of data larger than memory, from all rows alike to a few rows mostly (X-Engine, figure 18).
//!
//! What is asked for often is anywhere among the rows, so that a block with one of these has many that are not. How many reads are answered
//! from memory then hangs on what is kept: rows or blocks. Before each measurement the same reads are done for a while, which are not
//! counted.

mod command;
mod work;

#[cfg(test)]
mod tests;

pub use self::command::SkewArgs;
