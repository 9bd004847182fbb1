//! The figures that the memory engine must reach, in sections:
//!
//! - `updates`: gets and updates of rows in memory.
//!
//! Each section alternates what it compares. A value says its row and its write, and each thread
//! updates rows of its own, so that every section knows what a row must have, reads it back, and
//! fails if it has something else.

mod command;
mod goals;
mod rows;
mod updates;

#[cfg(test)]
mod tests;

pub use self::command::{MemoryArgs, engines};
pub use self::updates::{UpdatesArgs, UpdatesWork};
