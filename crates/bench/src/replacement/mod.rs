//! The block cache's hit rate over time, after figure 17 of the X-Engine paper.
//!
//! The mix of [`crate::amplification`] runs over data of several times the memory, beside flushes
//! and compactions. After each share of the operations the run records how many blocks were found
//! in memory, and how many were not. A compaction that removes blocks that readers had in memory
//! shows as a dip: how far the hit rate of a share lies below the median of the ten before.

mod command;
mod series;
#[cfg(test)]
mod tests;

pub use self::command::ReplacementArgs;
