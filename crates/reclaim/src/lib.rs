//! Memory that table engines share with their readers.
//!
//! Modules, the lowest first:
//!
//! - [`loom_tracker`]: reports to loom each memory access through a raw pointer;
//! - [`pages`]: pools of pages that are charged to the memory budget;
//! - [`epochs`]: epoch-based reclamation of unlinked memory.

pub mod epochs;
pub mod loom_tracker;
pub mod pages;
