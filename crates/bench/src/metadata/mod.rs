//! The cost of the metadata of very much data, without the data itself.
//!
//! The run creates a folder whose manifest describes 1 TB of extents, or another amount. The
//! tables, sub-tables and levels are those of a database after random writes. The data files are
//! sparse. A separate process opens the folder with the code that opens databases, so that the
//! memory of the metadata can be measured. Then this process changes levels of slices and rewrites
//! the manifest, as flushes and compactions do.

mod command;
#[cfg(test)]
mod tests;

pub use self::command::MetadataArgs;
