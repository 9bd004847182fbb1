//! The memory engine: tables whose rows are in memory and in the log, after HiEngine (SIGMOD 2022,
//! sections 3 to 5).
//!
//! Modules, the lowest first:
//!
//! - `rid`: record ids;
//! - `large_pages`: large pages of the system;
//! - `runs`: the allocator of large versions, in pages of the system;
//! - `slab`: the allocator of versions and index nodes, in pages that are charged to the budget;
//! - `index`: ordered maps from keys to record ids;
//! - `index_file`: the file of an index in a checkpoint;
//! - `index_load`: loads of an index file's blocks after an opening;
//! - `version`: versions of rows, and words that point to versions or to places in the log;
//! - `rows`: indirection arrays;
//! - `pins`: the low watermark, and snapshots that the engine keeps readable;
//! - `segments`: the log segments that contain rows;
//! - `log_reads`: reads of rows' records in these segments;
//! - `table`: a table's index, indirection array and deleted ranges;
//! - `store`: allocation of versions, and their release once no reader needs them;
//! - `chain`: the versions of a row;
//! - `stream`, `manifest`: the files of checkpoints;
//! - `inspect`: descriptions of an engine or of a closed folder;
//! - `engine`: the engine.

mod chain;
mod engine;
#[cfg(fuzzing)]
pub mod fuzz;
pub mod index;
mod index_file;
mod index_load;
mod inspect;
#[cfg_attr(loom, allow(dead_code))] // Loom models have no mapped memory.
mod large_pages;
mod log_reads;
mod manifest;
mod pins;
pub mod rid;
mod rows;
mod runs;
mod segments;
mod slab;
mod store;
mod stream;
mod table;
mod version;

pub use engine::{
    MemoryEngine, MemoryPin, MemorySettings, MemoryVerified, PinnedFile, is_pinned_name, verify,
};
pub use inspect::{
    CheckpointInspection, MemoryFigures, MemoryInspection, MemoryTableInspection, SegmentHome,
    SegmentInspection, StoredTable, TableMemory, inspect_folder,
};
