//! The cost of background compactions for foreground operations.
//!
//! Point gets and durable puts come at a fixed rate, in three kinds of windows, in turn over the
//! same data: "quiet", when no compaction is due; "compaction", while a requested compaction merges
//! everything into one level, from the request until it is done; "fill", while another thread puts
//! rows at a rate that keeps flushes and compactions running. Latency counts from the moment an
//! operation was due, so that queueing counts as waiting.

mod command;
mod waits;
mod work;

#[cfg(test)]
mod tests;

pub use self::command::PressureArgs;
