//! Workloads and measurements.
//!
//! What every run is made of:
//!
//! - [`store`]: what a workload needs of a store, and Spillway as one;
//! - [`report`]: medians, spread and ratios of a run, as a table, CSV or JSON;
//! - [`machine`]: what a process used of the machine, and what machine it was.
//!
//! The runs, alone as `spillway-bench ...` or beside peers in the `peers` workspace:
//!
//! - [`kv`]: the library under db_bench's shapes;
//! - [`commits`]: durable commits as more of them are in flight;
//! - [`lone`]: one durable writer beside raw writes of the same bytes;
//! - [`extents`]: extents read and written in bulk, through queues and without;
//! - [`connections`]: a server with thousands of connections that commit;
//! - [`affinity`]: servers that keep statements to the cores of their data, and servers that do not;
//! - [`homes`]: the same of the library, with threads that keep to cores and tables;
//! - [`cold`]: a server whose clients read rows that are on a device only;
//! - [`wave`]: a step of load, second by second;
//! - [`recovery`]: opening after a crash;
//! - [`compaction`]: one compaction of two runs of keys;
//! - [`amplification`]: bytes written and read for each operation;
//! - [`metadata`]: the metadata of 1 TB, opened and changed;
//! - [`queue`]: a table used as a queue;
//! - [`fill`]: a fill at full speed, second by second;
//! - [`pressure`]: gets and durable puts with compactions in the background and without;
//! - [`skew`]: point reads of data larger than memory, from all rows alike to a few mostly;
//! - [`moving`]: reads whose hot rows become others all of a sudden;
//! - [`scan`]: scans in both directions, and gets of many keys at once;
//! - [`eviction`]: hit rates of ways to evict blocks;
//! - [`filters`]: what filters cost;
//! - [`blocks`]: data blocks beside blocks of prefixes and restarts;
//! - [`replacement`]: the cache's hit rate over time, with compactions in the background;
//! - [`temperature`]: what it brings to know how often extents are read.

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
pub mod replacement;
pub mod report;
pub mod scan;
pub mod skew;
pub mod store;
pub mod temperature;
pub mod wave;
