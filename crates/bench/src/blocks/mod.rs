//! Compares Spillway's data blocks with plain blocks of prefixes and restarts, the default of
//! LevelDB and RocksDB.
//!
//! Blocks of both formats have the same rows: as many as fill a block of Spillway's. The run
//! measures these figures:
//!
//! - the bytes of a row in an uncompressed block, in a compressed block and in memory;
//! - the time to open a block from the bytes read, to seek a key that exists, and to walk blocks
//!   from end to end in both directions;
//! - the keys that a search compares, with heads of 32 bits and of 64 bits (`heads`). A head is the
//!   first bits of a key behind the prefix that all keys of the block share.
//!
//! Times are measured "near", with few blocks, which stay in a core's own cache, and "far", with
//! more blocks than the core's caches hold.

mod command;
mod heads;
mod restarts;
mod rows;
mod subject;
#[cfg(test)]
mod tests;

pub use self::command::BlocksArgs;
