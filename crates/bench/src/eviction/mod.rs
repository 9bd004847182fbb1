//! Hit rates of published eviction policies, and of the tiered engine's cache, over the same
//! traces.
//!
//! A trace is a sequence of block numbers; no data is read. The traces are Zipf's distribution and
//! the uniform one, alone and beside a scan of all blocks, and a hot set of a hundredth of the
//! blocks that jumps ten times. Reads of the scan evict blocks, but do not count as reads that
//! could have hit.

mod command;
mod policies;
#[cfg(test)]
mod tests;
mod traces;

pub use self::command::EvictionArgs;
