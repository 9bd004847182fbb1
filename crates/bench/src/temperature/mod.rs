//! Measures the effect of counting how often extents are read.
//!
//! The run loads rows of several times the memory budget and merges them into one level. Then
//! threads get and update rows of a hot set, and insert other rows. In one kind of case,
//! neighbouring rows are hot together. In the other kind, hot rows are scattered over all keys. The
//! engine learns the temperatures during the first half of the operations. For the second half, the
//! run reports the share of block reads that hit the cache, the share of the misses that the fast
//! device served, and the bytes written. Each case runs in a process of its own.

mod command;
mod work;

#[cfg(test)]
mod tests;

pub use self::command::TemperatureArgs;
