//! A fill at full speed, far past the memory, second by second.
//!
//! Threads put rows as fast as the store accepts them, in random order and, as a separate case, in
//! key order, without waiting for durability. The slowest second, and how long the store compacts
//! after the last row, show the rate that it sustains. Some rows are read back. Each run is a
//! separate process.

mod command;
mod work;

#[cfg(test)]
mod tests;

pub use self::command::FillArgs;
