//! Scans in both directions, and gets of many keys at once, over any [`Store`](crate::store::Store).
//!
//! The rows lie in one level, or in several with newer versions of some of them above. What is read is in memory, or it is
//! on the device and in no cache, the system's included. Rounds take turns between stores, and every store must read the same.

mod command;
#[cfg(test)]
mod tests;
mod work;

pub use command::ScanArgs;
