//! A table used as a queue: rows are inserted at one end, deleted at the other, and the head is
//! polled.
//!
//! A poll asks for the first rows of the whole table, as SQL does. The longer such a table is used,
//! the more deletions lie before its first row; a store that looks at each of them gets slower by
//! the hour. So the run measures polls after some inserts and deletes and after many, at rest, and
//! from a thread of their own meanwhile.

mod command;
mod work;

#[cfg(test)]
mod tests;

pub use self::command::QueueArgs;
