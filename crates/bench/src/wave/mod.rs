//! A wave: a sudden load step over data larger than memory.
//!
//! A run on one store has three parts:
//!
//! 1. It loads the rows.
//! 2. It runs a closed loop at a modest rate, to measure the latency in quiet times.
//! 3. It runs an open loop at many times that rate: the step. In the open loop, operations are due
//!    at random moments (a Poisson process), whether or not earlier operations have ended.
//!
//! Latency counts from the moment at which an operation was due, so time in a queue counts. By
//! default, half of the operations are reads and half durable writes.
//!
//! If the command line gives no rate, the first run begins with a measurement of the rate that its
//! store sustains in a closed loop with all threads. A fixed share of this rate becomes the rate of
//! the step for every store. Each store runs in a process of its own, so that the memory of one
//! store is not counted for the next.

mod command;
mod plot;
mod recorder;
mod run;
mod series;

#[cfg(test)]
mod tests;

pub use self::command::WaveArgs;
