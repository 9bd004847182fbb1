//! The tiered engine: an LSM-tree of 2 MB extents after X-Engine (DESIGN, D7–D10).
//!
//! From the top down:
//!
//! - `engine`: the contract of [`spillway_base::engine`], and the background work;
//! - `table`: a table, and `subtable`: a part of its keys, what readers see of it; `cursor`,
//!   `source`: scans, and `gaps`: what they leap over;
//! - `memtable`: the newest versions; `level`: the older ones; `ranges`: what was deleted at once;
//!   `picker`, `compaction`: how they are kept in order;
//! - `temperature`: how often extents are read, which compactions and moves go by;
//! - `extent`, `block`, `filter`, `coding`: the bytes on disk; `nodes`: where a key is among those
//!   of a block; `cache`: which of them are in memory, and `pages`: the memory itself;
//! - `manifest`, `space`: which extents there are, and where;
//! - `garbage`: what readers let go of;
//! - `inspect`: what there is of all this, to be looked at;
//! - `verify`: a folder checked while nobody has it open;
//! - `witness`: what models see of memory behind raw pointers.

mod block;
mod cache;
mod coding;
mod compaction;
mod cursor;
mod engine;
mod extent;
mod extent_meta;
mod filter;
#[cfg(fuzzing)]
pub mod fuzz;
mod gaps;
mod garbage;
mod inspect;
mod level;
mod manifest;
mod memtable;
mod nodes;
mod pages;
mod picker;
mod ranges;
mod settings;
mod source;
mod space;
mod standing;
mod subtable;
mod table;
mod temperature;
mod verify;
mod witness;

/// Compactions carried out elsewhere.
pub mod offload {
    pub use crate::block::BuiltBlock;
    pub use crate::compaction::{Accelerator, Checked, Cpu, DropRule, MergeTask, Piece, Sorts};
    pub use crate::extent_meta::Counts;
    pub use crate::ranges::RangeTombstones;
}

/// What is evicted, to be measured.
pub mod eviction {
    pub use crate::cache::CacheTrace;
}

/// Blocks by themselves, to be measured.
pub mod blocks {
    pub use crate::block::{OpenBlock, Opener, RowOf, Search, Walk, bodies, frames};
}

/// Filters of keys, to be measured.
pub mod filters {
    pub use crate::filter::{FilterKind, build, hash, may_contain};
}

/// What metadata costs, to be measured.
pub mod metadata {
    pub use crate::engine::{EditCost, LettingGo, Metadata};
}

pub use coding::Compression;
pub use engine::{
    Background, Copied, ExtentCopy, JobOutcome, LevelStatus, Pin, TableSize, TableStatus, TableUse,
    TieredEngine,
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
