//! The cost of the metadata of very much data, without the data.
//!
//! A folder is made whose manifest describes 1 TB of extents, or any number, in the tables,
//! sub-tables and levels of a database that was written to at random. Its data files are sparse.
//! The code that opens databases opens it; then its levels are changed and its manifest is
//! rewritten as flushes and compactions do. A process of its own opens it, so that its memory is
//! measured apart.

mod command;
#[cfg(test)]
mod tests;

pub use self::command::MetadataArgs;
