//! The figures that the memory engine must reach, in sections:
//!
//! - `updates`: gets and updates of rows in memory;
//! - `recovery`: opening after a kill;
//! - `checkpoint`: the bytes that checkpoints write, and updates during checkpoints;
//! - `bytes`: memory of a row;
//! - `eviction`: gets and updates, with data sizes from half to several times the budget;
//! - `space`: disk space of rows that are overwritten many times.
//!
//! In each section, the subjects to compare take turns. A value contains the numbers of its row and
//! of its write, and each thread updates its own rows. So every section knows the value that each
//! row must have. It reads rows back, and fails if a value differs.

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
