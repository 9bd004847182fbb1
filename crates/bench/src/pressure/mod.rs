//! The cost of background compactions for foreground operations.
//!
//! Gets of single rows and durable puts come at a fixed rate. The run alternates between three
//! kinds of windows over the same data:
//!
//! - "quiet": no compaction is due;
//! - "compaction": a compaction merges everything into one level, and the window lasts as long as
//!   this compaction;
//! - "fill": another thread puts rows at a rate that keeps flushes and compactions running.
//!
//! Latency counts from the moment at which an operation was due, so time in a queue counts.

mod command;
mod waits;
mod work;

#[cfg(test)]
mod tests;

pub use self::command::PressureArgs;
