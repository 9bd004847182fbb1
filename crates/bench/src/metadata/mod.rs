//! What the metadata of very much data costs, with none of the data.
//!
//! A folder is made whose manifest tells of 1 TB of extents, or however many, in tables, sub-tables and levels as a database has them that
//! was written to at random. Its data files are sparse. It is opened by the code that opens databases, and then its levels are changed
//! and its manifest is rewritten as flushes and compactions do. It is opened in a process of its own, so that its memory is told apart.

mod command;
#[cfg(test)]
mod tests;

pub use self::command::MetadataArgs;
