//! Devices, and the persistent logs on them (decisions 006, 009, 010 and 013).
//!
//! - [`disk`]: the contract of a device and its files;
//! - [`queue`]: asynchronous reads and writes of files;
//! - [`async_reads`]: reads that go on in a queue while the threads of their lookups do other work;
//! - [`record`]: small files that are written atomically;
//! - [`real`]: the machine's file system;
//! - [`sim`]: a simulated disk in memory, which loses or tears writes, fails, and fills up;
//! - [`plog`]: the append-only log, and its implementation in segment files.

pub mod async_reads;
pub mod disk;
pub mod plog;
pub mod queue;
pub mod real;
pub mod record;
pub mod sim;
#[cfg(test)]
mod tests;

pub use disk::{Disk, DiskLock, File, OpenMode};
pub use queue::{ALIGN, AlignedBuffer, Cache, Completion, IdleQueues, IoQueue, QueueSettings};
pub use real::{Means, RealDisk};
