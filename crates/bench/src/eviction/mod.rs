//! Hit rates of published eviction policies, and of the tiered engine's cache, over the same
//! traces.
//!
//! A trace is a sequence of block numbers; no data is read. The traces are:
//!
//! - reads with Zipf's distribution, and reads with a uniform distribution;
//! - reads with each of these distributions, mixed with a scan of all blocks;
//! - reads that nearly all use a hot set, which is a hundredth of the blocks. After each tenth of
//!   the reads, another hundredth becomes the hot set.
//!
//! The hit rate is that of the second half of a trace. Reads of the scan can evict blocks, but do
//! not count in the hit rate.

mod command;
mod policies;
#[cfg(test)]
mod tests;
mod traces;

pub use self::command::EvictionArgs;
