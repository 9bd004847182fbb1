//! Snapshots, locks, transactions, the commit pipeline and the redo log (decisions 001 to 006, 011
//! and 012).
//!
//! The modules that a transaction passes through, in this order:
//!
//! - `options` has the options of a transaction;
//! - `transaction` holds a transaction's snapshot, locks and writes, commits it and rolls it back;
//! - `locks` implements row locks, and `serializable` the checks of SERIALIZABLE;
//! - `spill` and `overlay` keep, in a table, the writes of a transaction that outgrow its share of
//!   memory;
//! - `pipeline` orders commits, writes them to the log and makes them visible; `record` has the
//!   format of the log's records;
//! - `watermark` and `snapshots` record which commits are visible, and at which snapshots
//!   transactions read.
//!
//! The others:
//!
//! - `manager` starts transactions, and maintains the log;
//! - `shared` has the state that all transactions share, and `engines` the engines under them;
//! - `throttle` slows writers down when flushes and compactions are behind;
//! - `reserve` keeps disk space for commits that free space;
//! - `recovery` restores the state from the log;
//! - `copy` copies the log's commits for a backup, and makes a log from such a copy;
//! - `metrics` has the metrics of all of these;
//! - `sync` has the locks of code that loom checks;
//! - `model` is an engine that tests use as a model.

mod copy;
mod engines;
mod locks;
mod manager;
mod metrics;
#[cfg(any(test, feature = "model"))]
pub mod model;
mod options;
mod overlay;
mod pipeline;
mod record;
mod recovery;
mod reserve;
mod serializable;
mod shared;
mod snapshots;
mod spill;
mod sync;
#[cfg(test)]
mod tests;
mod throttle;
mod transaction;
mod watermark;

pub use copy::{LogCopy, LogHold, LogWriter};
pub use engines::Engines;
pub use manager::{HorizonHandle, TransactionManager};
pub use options::{Durability, Frees, Isolation, LockMode, LockWait, TransactionOptions};
pub use record::{check_frame, commits_in};
pub use recovery::{LogSettings, RecoveryReport, recover};
pub use shared::ManagerSettings;
pub use snapshots::LiveSnapshot;
pub use spill::{Savepoint, Scratch, ScratchSet};
pub use transaction::{
    CancelHandle, ColumnsRead, CommitFuture, LOCK_WAIT, Met, ReadsMark, Scan, Transaction,
};
