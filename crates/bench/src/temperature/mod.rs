//! What it brings to count how often extents are read.
//!
//! Rows of several times the memory are loaded and brought together in one level. Then threads get and update rows of a hot set, and insert
//! others. Neighbours are hot together, or hot rows are scattered over all keys. The first half of the operations is there to be learned from;
//! of the second it is measured what was found in the cache, from what class of device the rest came, and what was written. Each run
//! is a process of its own.

mod command;
mod work;

#[cfg(test)]
mod tests;

pub use self::command::TemperatureArgs;
