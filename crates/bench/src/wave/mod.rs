//! A wave: load that steps up at once, over data larger than memory.
//!
//! A run on one store: load the rows; a closed loop at a modest rate, to see the latency of quiet times; then, at once, an open
//! loop at many times that rate. In the open loop operations come at moments drawn beforehand (a Poisson process), whether or
//! not those before have ended, and latency counts from that moment: an operation that had to queue for its turn has waited,
//! and is not left out. Half are reads and half durable writes unless told otherwise.
//!
//! Where no rate is given, the first store says how much it bears, in a closed loop with all hands; the step is a share of that,
//! and the same for every store. Each store runs in a process of its own, so that the memory of one is not
//! counted to the next.

mod command;
mod plot;
mod recorder;
mod run;
mod series;

#[cfg(test)]
mod tests;

pub use self::command::WaveArgs;
