//! A fill at full speed, far past the memory, second by second.
//!
//! Threads put rows as fast as the store takes them, in random order and, as another line, in key order; no put is waited
//! for to be durable. What a store bears for long shows in its lowest second and in how long it goes on compacting when the
//! last row is in. Some rows are read back. Each run is a process of its own.

mod command;
mod work;

#[cfg(test)]
mod tests;

pub use self::command::FillArgs;
