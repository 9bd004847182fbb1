//! Memory that table engines share with their readers.
//!
//! Modules, the lowest first:
//!
//! - [`loom_tracker`]: accesses to memory behind raw pointers, reported to loom's models;
//! - [`pages`]: pools of pages that are charged to the memory budget;
//! - [`epochs`]: memory that was unlinked is freed when its last reader has left.

pub mod epochs;
pub mod loom_tracker;
pub mod pages;
