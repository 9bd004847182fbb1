//! The effect of counting how often extents are read.
//!
//! The run loads rows of several times the memory and merges them into one level. Then threads get
//! and update rows of a hot set, and insert others. Neighbours are hot together, or hot rows are
//! scattered over all keys. The engine learns from the first half of the operations. The second
//! half measures the cache hits, the device class of the other reads, and the bytes written. Each
//! run is a separate process.

mod command;
mod work;

#[cfg(test)]
mod tests;

pub use self::command::TemperatureArgs;
