//! Data blocks beside the plain form of blocks: prefixes and restarts, as LevelDB and RocksDB have it by default.
//!
//! Both have the same rows in each block, those of a full block of Spillway's. What is measured: bytes that a row takes stored, compressed and
//! in memory; to open a block that was read; to seek a key that is there; to walk blocks from end to end in either direction. "near" are few
//! blocks, which stay in a core's own cache, "far" more than its caches hold.
//!
//! And how many keys a search compares, with heads of 32 bits and of 64.

mod command;
mod heads;
mod restarts;
mod rows;
mod subject;
#[cfg(test)]
mod tests;

pub use self::command::BlocksArgs;
