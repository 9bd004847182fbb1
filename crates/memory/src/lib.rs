//! The memory engine: tables whose rows are in memory and in the log, after HiEngine (SIGMOD 2022,
//! sections 3 to 5).
//!
//! Modules, the lowest first:
//!
//! - [`rid`]: record ids.

mod chain;
mod engine;
mod index;
mod manifest;
mod pins;
pub mod rid;
mod rows;
mod segments;
mod slab;
mod store;
mod stream;
mod table;
mod version;
mod word;

pub use engine::{MemoryEngine, MemorySettings};
