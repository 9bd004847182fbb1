//! A table used as a queue: rows are inserted at one end and deleted at the other, and the head is
//! polled.
//!
//! A poll requests the first rows of the whole table, as SQL does. The longer such a table is used,
//! the more tombstones lie before its first row. A store that visits each of them becomes slower by
//! the hour. So the run measures polls after few and after many inserts and deletes, at rest, and
//! from a separate thread during the changes.

mod command;
mod work;

#[cfg(test)]
mod tests;

pub use self::command::QueueArgs;
