//! Hit rates of published eviction policies, and of the tiered engine's cache, over the same
//! traces.
//!
//! A trace is a sequence of block numbers; no data is read. The traces are: reads with Zipf's
//! distribution and with the uniform one; both of them mixed with a scan of all blocks; and reads
//! of a hot set, a hundredth of the blocks, which is another after each tenth of the reads. The hit
//! rate is that of the second half of a trace. Reads of the scan evict blocks, but the hit rate
//! leaves them out.

mod command;
mod policies;
#[cfg(test)]
mod tests;
mod traces;

pub use self::command::EvictionArgs;
