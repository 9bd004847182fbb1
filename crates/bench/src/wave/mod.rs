//! A wave: a sudden load step over data larger than memory.
//!
//! A run on one store loads the rows, runs a closed loop at a modest rate to measure the latency in
//! quiet times, and then suddenly an open loop at many times that rate. In the open loop operations
//! are due at moments drawn beforehand (a Poisson process), whether or not earlier ones have ended.
//! Latency counts from that moment, so queueing counts as waiting. By default half are reads and
//! half durable writes.
//!
//! Without a given rate, the first store measures the rate that it sustains in a closed loop with
//! all threads; the step is a share of that, and the same for every store. Each store runs in a
//! separate process, so that the memory of one is not counted for the next.

mod command;
mod plot;
mod recorder;
mod run;
mod series;

#[cfg(test)]
mod tests;

pub use self::command::WaveArgs;
