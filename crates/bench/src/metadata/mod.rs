//! The cost of the metadata of very much data, without the data.
//!
//! The run creates a folder whose manifest describes 1 TB of extents, or any number, in the tables,
//! sub-tables and levels of a database with random writes. Its data files are sparse. The code that
//! opens databases opens it. Then the run changes its levels and rewrites its manifest, as flushes
//! and compactions do. A separate process opens it, so that its memory is measured separately.

mod command;
#[cfg(test)]
mod tests;

pub use self::command::MetadataArgs;
