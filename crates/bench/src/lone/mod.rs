//! One thread that waits until each commit is durable, compared with raw writes of the same bytes.
//!
//! Each raw write has as many bytes as Spillway writes to its log for a commit; the run measures
//! this number first. Each raw writer overwrites a file whose blocks are allocated already, on the
//! same disk as the log. One raw writer uses `pwrite` and `fdatasync`, and one uses
//! `pwritev2(RWF_DSYNC)`. If the system has `io_uring`, another one submits a linked write and sync
//! to a ring. The subjects take turns, a short while each, so that a change in the disk's speed
//! affects all of them.

mod command;
mod raw;

#[cfg(test)]
mod tests;

pub use self::command::LoneArgs;
