//! Key-value workloads after RocksDB's `db_bench`, over any [`Store`], so that peers are measured by
//! the same code in the same run.
//!
//! A run is a sequence of rounds; in each, every store runs every workload on a fresh folder, in
//! turn, so that a change in the machine's speed meets all of them. Keys are 16 bytes. All choices
//! come from the seed, and each workload gives a checksum of what it read, which must be equal for
//! every store.

mod command;
mod report;
mod spillway_store;
mod workload;

#[cfg(test)]
mod tests;

use std::path::Path;

pub use command::KvArgs;
pub use report::{Report, Row};
pub use spillway_store::SpillwayStores;
pub use workload::{Plan, Workload, compare};

/// What a workload needs of a store. Methods may be called from several threads.
pub trait Store: Send + Sync {
    /// Gives `key` a value: durable when this returns if `durable`, else visible.
    ///
    /// # Errors
    /// Whatever went wrong, in words.
    fn put(&self, key: &[u8], value: &[u8], durable: bool) -> Result<(), String>;

    /// Reads `key` into `value`; answers whether it is there.
    ///
    /// # Errors
    /// Whatever went wrong, in words.
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, String>;

    /// Visits up to `count` pairs from the first key at or past `key`; answers how many there were.
    ///
    /// # Errors
    /// Whatever went wrong, in words.
    fn seek(
        &self,
        key: &[u8],
        count: usize,
        visit: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Result<usize, String>;
}

/// Opens stores of one kind.
pub trait Stores {
    /// The name in the report.
    fn name(&self) -> String;

    /// Opens an empty store in an empty folder, with a memory budget in bytes.
    ///
    /// # Errors
    /// Whatever went wrong, in words.
    fn open(&self, dir: &Path, memory_bytes: usize) -> Result<Box<dyn Store>, String>;
}
