//! Point reads of data larger than memory, from uniform to very skewed (X-Engine, figure 18).
//!
//! Popular rows are anywhere among the rows, so that a block with one of them has many unpopular
//! ones. How many reads are answered from memory then depends on whether rows or blocks are cached.
//! Before each measurement the same reads run for a while and are not counted.

mod command;
mod work;

#[cfg(test)]
mod tests;

pub use self::command::SkewArgs;
