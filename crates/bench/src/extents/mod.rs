//! Bulk reads and writes of extents, through queues of each kind and with plain calls.
//!
//! A compaction reads extents, works on them, and writes others. This run only reads, only writes,
//! or does all three, with checksums for the work. It uses `pread` and `pwrite`, which block for
//! each extent, or a queue of some depth, which overlaps I/O and work; through the page cache or
//! past it. The extents to read are not in the page cache, and written extents are synced at the
//! end of the turn. The subjects take turns, so that a change in the disk's speed affects all of
//! them.

mod command;
mod movers;

#[cfg(test)]
mod tests;

pub use self::command::ExtentsArgs;
