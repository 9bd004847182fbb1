//! Workloads and measurements.
//!
//! - [`kv`]: the library as a key-value store under db_bench's shapes, alone (`spillway bench kv`) or
//!   beside peers in one run (the `peers` workspace).

pub mod kv;
