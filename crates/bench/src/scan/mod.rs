//! Scans in both directions, and gets of many keys at once, over any
//! [`Store`](crate::store::Store).
//!
//! The rows lie in one level, or in several levels, where upper levels have newer versions of some
//! rows. The rows are in memory, or only on the device and in no cache, not even the system's page
//! cache. Stores take turns in rounds, and every store must read the same data.

mod command;
#[cfg(test)]
mod tests;
mod work;

pub use command::ScanArgs;
