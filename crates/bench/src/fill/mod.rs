//! Fills a store at full speed with many times its memory, and reports each second of the fill.
//!
//! Threads put rows as fast as the store accepts them, without waiting for durability. The rows
//! come in random order, or in key order as a separate case. Two figures show the rate that the
//! store sustains: the slowest second, and how long the store compacts after the last row. At the
//! end some rows are read back. Each store runs in a process of its own.

mod command;
mod work;

#[cfg(test)]
mod tests;

pub use self::command::FillArgs;
