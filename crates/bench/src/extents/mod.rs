//! Bulk reads and writes of extents, through queues of each kind and with plain calls.
//!
//! A compaction reads extents, works on them, and writes others. The run has three tasks: to read
//! extents, to write extents, and to read, work on and write them, where checksums stand for the
//! work. The extents to read are not in the page cache. Written extents are synced at the end of a
//! turn.
//!
//! One subject uses `pread` and `pwrite`, which block for each extent. The others use a queue of
//! some depth, so that I/O and work overlap. A queue goes through the page cache or bypasses it.
//! The subjects take turns, so that a change in the disk's speed affects all of them.

mod command;
mod movers;

#[cfg(test)]
mod tests;

pub use self::command::ExtentsArgs;
