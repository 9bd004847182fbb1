//! Key-value workloads after RocksDB's `db_bench`, over any
//! [`Store`](crate::store::Store).
//!
//! A run is a sequence of rounds. In each round, the stores take turns at every workload, so that a
//! change in the machine's speed affects all of them. A store gets a fresh folder for each
//! workload. Keys are 16 bytes. The seed determines all random choices. Each workload computes a
//! checksum of the data that it read, and the checksum must be the same for every store.

mod command;
mod report;
mod workload;

#[cfg(test)]
mod tests;

pub use command::KvArgs;
pub use workload::{KvPlan, KvRow, Workload, compare};
