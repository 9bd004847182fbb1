//! A table used as a queue: rows are inserted at one end and deleted at the other, and the head is
//! polled.
//!
//! A poll reads the first rows of the whole table, as SQL does. The longer such a table is used,
//! the more tombstones lie before its first row. If a store visits each of these tombstones, its
//! polls become slower and slower. So the run measures polls after few and after many inserts and
//! deletes. It polls at rest, and from separate threads while rows are inserted and deleted.

mod command;
mod work;

#[cfg(test)]
mod tests;

pub use self::command::QueueArgs;
