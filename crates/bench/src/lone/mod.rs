//! One thread that waits until each commit is durable, compared with raw writes of the same bytes.
//!
//! The raw writers write as many bytes as Spillway writes to its log for a commit; the run measures
//! this number first. They write into a file whose blocks exist already, in the same folder as the
//! log. One raw writer uses `write` and `fdatasync`, one uses `pwritev2(RWF_DSYNC)`, and, if the
//! system has `io_uring`, one submits a linked write and sync to a ring. The subjects take turns, a
//! short while each, so that a change in the disk's speed affects all of them.

mod command;
mod raw;

#[cfg(test)]
mod tests;

pub use self::command::LoneArgs;
