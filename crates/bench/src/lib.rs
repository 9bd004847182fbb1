//! Workloads and measurements.
//!
//! Every run uses:
//!
//! - [`store`]: the interface that a workload uses, and its implementation for Spillway;
//! - [`report`]: medians, spread and ratios of a run, as a table, CSV or JSON;
//! - [`machine`]: a process's use of the machine, and a description of the machine.
//!
//! The runs. `spillway-bench` runs them for Spillway and for servers; the `peers` workspace runs
//! many of them for RocksDB too:
//!
//! - [`kv`]: the library under db_bench's workloads;
//! - [`commits`]: durable commits by the number in flight;
//! - [`lone`]: one durable writer, and raw writes of the same bytes;
//! - [`extents`]: bulk reads and writes of extents, with and without queues;
//! - [`connections`]: a server with thousands of connections that commit;
//! - [`cold`]: a server whose clients read rows from a device;
//! - [`wave`]: a load step, second by second;
//! - [`recovery`]: opening after a crash;
//! - [`compaction`]: one compaction of two runs of keys;
//! - [`memory`]: the figures that the memory engine must reach;
//! - [`amplification`]: bytes written and read for each operation;
//! - [`metadata`]: the metadata of 1 TB, opened and changed;
//! - [`queue`]: a table used as a queue;
//! - [`fill`]: a fill at full speed, second by second;
//! - [`pressure`]: gets and durable puts with and without compactions;
//! - [`skew`]: point reads of data larger than memory, from uniform to very skewed;
//! - [`moving`]: reads whose hot rows change suddenly;
//! - [`scan`]: scans in both directions, and gets of many keys at once;
//! - [`eviction`]: hit rates of eviction policies;
//! - [`filters`]: the cost of filters;
//! - [`blocks`]: data blocks beside blocks of prefixes and restarts;
//! - [`temperature`]: the effect of tracking how often extents are read;
//! - [`tpcc`]: TPC-C through the library.

pub mod amplification;
mod apart;
pub mod blocks;
pub mod cold;
pub mod commits;
pub mod compaction;
pub mod connections;
pub mod eviction;
pub mod extents;
pub mod fill;
pub mod filters;
mod keys;
pub mod kv;
pub mod lone;
pub mod machine;
mod measure;
pub mod memory;
pub mod metadata;
pub mod moving;
mod plot;
pub mod pressure;
pub mod queue;
pub mod recovery;
pub mod report;
pub mod scan;
pub mod skew;
pub mod store;
pub mod temperature;
pub mod tpcc;
pub mod wave;
