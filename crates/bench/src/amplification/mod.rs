//! Measures the bytes that are written and read for each operation, after figure 20 of the X-Engine
//! paper.
//!
//! The run loads rows of several times the memory budget, and merges them into one level. Then
//! threads execute a mix of gets, gets of ranges, updates and inserts. Most of these operations use
//! a hot set of rows, or recently inserted rows. At the end the store flushes its memtables and
//! runs the compactions that are due, so that no store gains by deferring this work.
//!
//! The report shows the bytes that the store and its process have written and read since the load,
//! divided by the number of operations. Each store runs in a process of its own.

mod command;
mod work;

#[cfg(test)]
mod tests;

pub use self::command::AmplificationArgs;
