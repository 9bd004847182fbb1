//! Compares data blocks with plain blocks of prefixes and restarts, the default of LevelDB and
//! RocksDB.
//!
//! Both have the same rows in each block, those of a full block of Spillway's. The run measures the
//! bytes of a row stored, compressed and in memory; opening a block that was read; seeking an
//! existing key; and walking blocks from end to end in either direction. "near" are few blocks,
//! which stay in a core's own cache; "far" are more than its caches hold.
//!
//! It also counts the keys that a search compares, with heads of 32 bits and of 64.

mod command;
mod heads;
mod restarts;
mod rows;
mod subject;
#[cfg(test)]
mod tests;

pub use self::command::BlocksArgs;
