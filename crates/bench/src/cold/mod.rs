//! Reads of rows on a device through servers.
//!
//! Each connection asks for one random row after another. A few times a second the pages that the
//! servers have read are dropped from the system's page cache, so that nearly each read needs the
//! device, and as many reads are in flight as there are connections. `scripts/bench-cold` measures
//! beside it what the device does for as many reads of a block at once.
//!
//! Servers take turns. The report also shows what the reads took of the device: a row that was in
//! memory after all took nothing.

mod command;
#[cfg(test)]
mod tests;

pub use self::command::ColdArgs;
