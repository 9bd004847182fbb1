//! An embeddable, transactional, ordered key-value database for load that arrives as a wave.

mod options;
mod stand_in;

pub use options::{Durability, Isolation, LockMode, LockWait, Settings, TransactionOptions};
pub use spillway_base::engine::RangeEstimate;
pub use spillway_base::range::{prefix_end, successor};
pub use spillway_base::{Csn, Direction, EngineKind, Error, ErrorKind, KeyRange, Result};
pub use stand_in::{CancelHandle, CommitFuture, Database, Savepoint, Scan, Table, Transaction};
