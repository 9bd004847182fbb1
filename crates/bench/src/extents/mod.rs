//! Extents read and written in bulk, through queues of each kind beside plain reads and writes.
//!
//! A compaction reads extents, works on them, and writes others. This run only reads, only writes,
//! or does all three, with checksums for the work: by `pread` and `pwrite`, which wait for each, or
//! through a queue of some depth, which overlaps the work; through the page cache or past it. What
//! is read is not in the page cache before, and what is written is synced at the end of the turn.
//! The subjects take turns, so that a change in the disk's speed meets all of them.

mod command;
mod movers;

#[cfg(test)]
mod tests;

pub use self::command::ExtentsArgs;
