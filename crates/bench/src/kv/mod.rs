//! Key-value workloads after RocksDB's `db_bench`, over any
//! [`Store`](crate::store::Store).
//!
//! A run is a sequence of rounds; in each, every store runs every workload on a fresh folder, in
//! turn, so that a change in the machine's speed meets all of them. Keys are 16 bytes. All choices
//! come from the seed, and each workload gives a checksum of what it read, which must be equal for
//! every store.

mod command;
mod report;
mod workload;

#[cfg(test)]
mod tests;

pub use command::KvArgs;
pub use report::Row;
pub use workload::{Plan, Workload, compare};
