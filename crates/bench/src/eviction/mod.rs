//! Hit rates of published eviction policies, and of the tiered engine's cache, over the same
//! traces.
//!
//! A trace is a sequence of numbers of blocks; no data is read. There are Zipf's distribution and
//! the uniform one, alone and beside a scan of all blocks, and a hot set of a hundredth of the
//! blocks that jumps ten times. Reads of the scan count for what they evict, and not as reads that
//! could have hit.

mod command;
mod policies;
#[cfg(test)]
mod tests;
mod traces;

pub use self::command::EvictionArgs;
