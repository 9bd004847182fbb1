//! Scans in both directions, and gets of many keys at once, over any
//! [`Store`](crate::store::Store).
//!
//! The rows lie in one level, or in several levels, whose upper levels have newer versions of some
//! rows. By default the rows are in memory. In a cold run, the store has less memory than rows, and
//! its files are dropped from the system's page cache before each turn. Stores take turns in
//! rounds, and every store must read the same data.

mod command;
#[cfg(test)]
mod tests;
mod work;

pub use command::ScanArgs;
