//! Reads of rows that are only on a device, through servers.
//!
//! Each connection has one statement in flight, which reads one random row, or several. Ten times a
//! second, the run drops the servers' data files from the system's page cache. So nearly every read
//! needs the device, and as many device reads are in flight as there are connections.
//! `scripts/bench-cold` also measures how many block reads per second the device itself completes
//! with as many in flight.
//!
//! Servers take turns. The report also shows how many bytes were read from the device, because a
//! row that was still in memory needed no device read.

mod command;
#[cfg(test)]
mod tests;

pub use self::command::ColdArgs;
