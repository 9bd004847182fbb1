//! Reads of rows on a device, through servers.
//!
//! Each connection reads one random row after another. Several times a second the pages that the
//! servers have read are dropped from the system's page cache. So nearly every read needs the
//! device, and as many reads are in flight as there are connections. `scripts/bench-cold` also
//! measures how many block reads the device itself does with the same number in flight.
//!
//! Servers take turns. The report also shows the bytes read from the device: a row that was still
//! in memory read none.

mod command;
#[cfg(test)]
mod tests;

pub use self::command::ColdArgs;
