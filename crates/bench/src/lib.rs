//! Workloads and measurements.
//!
//! Every run uses:
//!
//! - [`store`]: what a workload needs of a store, and Spillway as one;
//! - [`report`]: medians, spread and ratios of a run, as a table, CSV or JSON;
//! - [`machine`]: what a process used of the machine, and what machine it was.
//!
//! The runs, alone as `spillway-bench ...` or beside peers in the `peers` workspace:
//!
//! - [`kv`]: the library under db_bench's shapes;
//! - [`commits`]: durable commits by the number in flight;
//! - [`lone`]: one durable writer beside raw writes of the same bytes;
//! - [`extents`]: extents read and written in bulk, through queues and without;
//! - [`connections`]: a server with thousands of connections that commit;
//! - [`affinity`]: servers with and without statements at the home cores of their data;
//! - [`homes`]: threads of the library bound to cores and tables;
//! - [`cold`]: a server whose clients read rows from a device;
//! - [`wave`]: a load step, second by second;
//! - [`recovery`]: opening after a crash;
//! - [`compaction`]: one compaction of two runs of keys;
//! - [`amplification`]: bytes written and read for each operation;
//! - [`metadata`]: the metadata of 1 TB, opened and changed;
//! - [`queue`]: a table used as a queue;
//! - [`fill`]: a fill at full speed, second by second;
//! - [`pressure`]: gets and durable puts beside compactions and without;
//! - [`skew`]: point reads of data larger than memory, from uniform to very skewed;
//! - [`moving`]: reads whose hot rows change suddenly;
//! - [`scan`]: scans in both directions, and gets of many keys at once;
//! - [`eviction`]: hit rates of eviction policies;
//! - [`filters`]: the cost of filters;
//! - [`blocks`]: data blocks beside blocks of prefixes and restarts;
//! - [`temperature`]: the effect of tracking how often extents are read.

pub mod affinity;
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
pub mod homes;
mod keys;
pub mod kv;
pub mod lone;
pub mod machine;
mod measure;
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
pub mod wave;
