//! A fill at full speed, far past the memory, second by second.
//!
//! Threads put rows as fast as the store takes them, in random order and, as another line, in key
//! order; no put is waited for to be durable. The lowest second, and how long the store compacts
//! after the last row, show what it sustains. Some rows are read back. Each run is a process of its
//! own.

mod command;
mod work;

#[cfg(test)]
mod tests;

pub use self::command::FillArgs;
