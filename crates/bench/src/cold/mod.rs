//! Reads through servers of rows that are on a device only.
//!
//! Each connection asks for one random row after another. What the servers have the system read is dropped from its page cache a few
//! times a second, so that nearly each read needs the device, and how many are under way at once is how many connections there are.
//! Beside it stands what the device does for as many reads of a block at once (`scripts/bench-cold`).
//!
//! Servers take turns. What the reads took of the device is told as well: a row that was in memory after all took nothing.

mod command;
#[cfg(test)]
mod tests;

pub use self::command::ColdArgs;
