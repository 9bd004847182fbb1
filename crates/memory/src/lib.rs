//! The memory engine: tables whose rows are in memory and in the log, after HiEngine (SIGMOD 2022,
//! sections 3 to 5).
//!
//! Modules, the lowest first:
//!
//! - [`rid`]: record ids;
//! - [`index`]: ordered maps from keys to record ids.

pub mod index;
pub mod rid;
