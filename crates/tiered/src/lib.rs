//! The tiered engine: an LSM-tree of 2 MB extents after X-Engine (decisions 007 to 010).
//!
//! The modules form three groups. A group imports only its own modules and those of the groups
//! above it. `crates/xtask/layers.txt` states the order, and `cargo xtask tidy` checks it.
//!
//! The format on disk:
//!
//! - `coding`, `filter`, `block_search`: the encodings, the filters and the search of a block;
//!   `block`: blocks;
//! - `space`: slots of data files, and the folders of several devices; `bulk_io`: reads and writes
//!   of flushes and compactions, which overlap with the merge;
//! - `extent_meta`: the records of extents and slices.
//!
//! The caches:
//!
//! - `cache`: blocks, indexes and filters in memory, and single rows; `table_visibility`: the
//!   properties of a table that a lookup of a cached row needs;
//! - `extent`: an extent's index, filters and blocks, read through the caches.
//!
//! The LSM-tree:
//!
//! - `memtable`: the newest versions; `ranges`: range tombstones; `manifest`: the durable list of
//!   tables, extents and slices; `level`: the levels of slices;
//! - `picker` chooses compactions, and `compaction` runs one;
//! - `view`: the memtables and levels that a read of a sub-table uses; `tombstone_skip`: deleted
//!   ranges that scans skip; `source`, `cursor`: scans;
//! - `subtable`: a part of a table's keys; `table`: a table;
//! - `engine` implements [`spillway_base::engine`] and runs the background work.
//!
//! The first group also has `temperature`, which counts reads of extents, and `deferred_free`,
//! which frees old views. The third group also has `settings`, `inspect`, which describes a
//! database, and `verify`, which checks a closed folder. Epochs and page pools are in
//! `spillway_reclaim`.

mod block;
mod block_search;
mod bulk_io;
mod cache;
mod coding;
mod compaction;
mod cursor;
mod deferred_free;
mod engine;
mod extent;
mod extent_meta;
mod filter;
#[cfg(fuzzing)]
pub mod fuzz;
mod inspect;
mod level;
mod manifest;
mod memtable;
mod picker;
mod ranges;
mod settings;
mod source;
mod space;
mod subtable;
mod table;
mod table_visibility;
mod temperature;
mod tombstone_skip;
mod verify;
mod view;

/// Compactions that run on another machine.
pub mod offload {
    pub use crate::block::BuiltBlock;
    pub use crate::compaction::{Accelerator, Checked, Cpu, DropRule, MergeTask, Piece, Sorts};
    pub use crate::extent_meta::Counts;
    pub use crate::ranges::RangeTombstones;
}

/// The eviction policy, for benchmarks.
pub mod eviction {
    pub use crate::cache::CacheTrace;
}

/// Single blocks, for benchmarks.
pub mod blocks {
    pub use crate::block::{OpenBlock, Opener, RowOf, Search, Walk, bodies, frames};
}

/// Filters of keys, for benchmarks.
pub mod filters {
    pub use crate::filter::{FilterKind, build, hash, may_contain};
}

/// The cost of metadata, for benchmarks.
pub mod metadata {
    pub use crate::engine::{EditCost, LettingGo, Metadata};
}

pub use coding::Compression;
pub use engine::{
    Background, Copied, ExtentCopy, JobOutcome, LevelStatus, Pin, TableStatus, TieredEngine,
};
pub use inspect::{
    CODINGS, ClassSpace, CompactionRecord, FilesInspection, HOT_FROM, Inspection, LevelSpace,
    MemtableInspection, Offline, SliceInspection, SubTableInspection, TableInspection, TableSpace,
    WARM_FROM,
};
pub use picker::CompactionKind;
pub use settings::TieredSettings;
pub use space::{DeviceClass, Tier};
pub use verify::{Finding, VerifyReport, verify};
