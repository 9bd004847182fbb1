//! Hit rates of published eviction policies, and of the tiered engine's cache, over the same
//! traces.
//!
//! A trace is a sequence of block numbers; no data is read. The traces are:
//!
//! - reads with Zipf's distribution, and reads with the uniform one;
//! - both of them, mixed with a scan of all blocks;
//! - reads of which nearly all are of a hot set, a hundredth of the blocks. After each tenth of the
//!   reads, another hundredth becomes the hot set.
//!
//! The hit rate is that of the second half of a trace. Reads of the scan evict blocks, but the hit
//! rate leaves these reads out.

mod command;
mod policies;
#[cfg(test)]
mod tests;
mod traces;

pub use self::command::EvictionArgs;
