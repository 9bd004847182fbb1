//! One thread that waits until each commit is durable, compared with raw writes of the same bytes.
//!
//! The bytes are those that Spillway writes to its log for a commit, measured first. The raw
//! writers write them one after another into a file whose blocks exist already, in the same folder
//! as the log: one with `write` and `fdatasync`, one with `pwritev2(RWF_DSYNC)`, and, if the system
//! has it, one with both linked in an `io_uring`. The subjects take turns in short blocks, so that
//! a change in the disk's speed affects all of them.

mod command;
mod raw;

#[cfg(test)]
mod tests;

pub use self::command::LoneArgs;
