//! What compactions in the background cost those in the foreground.
//!
//! Point gets and durable puts come at a fixed rate, in three kinds of windows, in turn over the same data: "quiet", when no compaction
//! is due; "compaction", while everything is brought together in one level on request, from when it is asked for until it is done;
//! "fill", while another thread puts rows at a rate that keeps flushes and compactions going. Latency counts from the moment an
//! operation was due, so that who had to queue has waited.

mod command;
mod waits;
mod work;

#[cfg(test)]
mod tests;

pub use self::command::PressureArgs;
