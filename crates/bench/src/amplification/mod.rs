//! Bytes for each operation, after figure 20 of the X-Engine paper.
//!
//! The run loads rows of several times the memory and merges them into one level. Then threads
//! execute a mix of gets, gets of ranges, updates and inserts, most of which use recently inserted
//! rows and a hot set. At the end the store flushes its memory and does the compactions that are
//! due, so that none gains by deferring them. Everything that the store and its process read and
//! wrote meanwhile is divided by the number of operations. Each run is a separate process.

mod command;
mod work;

#[cfg(test)]
mod tests;

pub use self::command::AmplificationArgs;
