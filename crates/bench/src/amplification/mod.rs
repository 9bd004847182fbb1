//! Bytes for each operation, after figure 20 of the X-Engine paper.
//!
//! Rows of several times the memory are loaded and merged into one level. Then threads work through
//! a mix of gets, gets of ranges, updates and inserts, which mostly ask for rows that were inserted
//! lately and for a hot set. At the end the store flushes its memory and does the compactions that
//! are due, so that none gains by putting them off. Everything that the store and its process read
//! and wrote meanwhile is divided by the operations. Each run is a process of its own.

mod command;
mod work;

#[cfg(test)]
mod tests;

pub use self::command::AmplificationArgs;
