//! The figures that the memory engine must reach, in sections:
//!
//! - `updates`: gets and updates of rows in memory;
//! - `recovery`: opening after a kill;
//! - `checkpoint`: what checkpoints write, and updates beside them;
//! - `bytes`: memory of a row;
//! - `eviction`: gets and updates of data from half to several times the budget;
//! - `space`: disk space of rows that are overwritten many times.
//!
//! Each section alternates what it compares. A value says its row and its write, and each thread
//! updates rows of its own, so that every section knows what a row must have, reads it back, and
//! fails if it has something else.

mod bytes;
mod checkpoint;
mod command;
mod eviction;
mod goals;
mod recovery;
mod rows;
mod space;
mod updates;
mod work;

#[cfg(test)]
mod tests;

pub use self::bytes::BytesArgs;
pub use self::checkpoint::CheckpointArgs;
pub use self::command::MemoryArgs;
pub use self::eviction::MemoryEvictionArgs;
pub use self::recovery::MemoryRecoveryArgs;
pub use self::space::MemorySpaceArgs;
pub use self::updates::{UpdatesArgs, UpdatesWork};
pub use self::work::engines;
