//! The memory engine: tables whose rows are in memory and in the log, after HiEngine (SIGMOD 2022,
//! sections 3 to 5).
//!
//! Modules, the lowest first:
//!
//! - [`rid`]: record ids.

pub mod rid;
mod rows;
mod slab;
mod version;
mod word;
