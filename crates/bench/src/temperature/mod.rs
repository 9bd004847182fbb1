//! The effect of counting how often extents are read.
//!
//! Rows of several times the memory are loaded and merged into one level. Then threads get and
//! update rows of a hot set, and insert others. Neighbours are hot together, or hot rows are
//! scattered over all keys. The engine learns from the first half of the operations. The second
//! half measures what was found in the cache, from what class of device the rest came, and what was
//! written. Each run is a process of its own.

mod command;
mod work;

#[cfg(test)]
mod tests;

pub use self::command::TemperatureArgs;
