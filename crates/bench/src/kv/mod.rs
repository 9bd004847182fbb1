//! Key-value workloads after RocksDB's `db_bench`, over any
//! [`Store`](crate::store::Store).
//!
//! A run is a sequence of rounds. In each round every store runs every workload on a fresh folder,
//! in turn, so that a change in the machine's speed affects all of them. Keys are 16 bytes. All
//! choices come from the seed, and each workload computes a checksum of the data that it read,
//! which must be equal for every store.

mod command;
mod report;
mod workload;

#[cfg(test)]
mod tests;

pub use command::KvArgs;
pub use workload::{KvPlan, KvRow, Workload, compare};
