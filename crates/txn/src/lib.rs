//! Snapshots, locks, transactions, the commit pipeline and the redo log (decisions 001 to 006, 011
//! and 012).
//!
//! The modules that a transaction passes through, in this order:
//!
//! - `options`: the options of a transaction;
//! - `transaction`: a transaction's snapshot, locks and writes, its commit and its rollback;
//! - `locks`, `serializable`: row locks, and the checks of SERIALIZABLE;
//! - `spill`, `overlay`: writes of transactions that outgrow their share of memory;
//! - `pipeline`, `record`: a commit's path to the log and the engines;
//! - `watermark`, `snapshots`: which commits are visible, and which versions are still readable.
//!
//! The others:
//!
//! - `manager`: starts transactions, and maintains the log;
//! - `shared`, `engines`: the state that all transactions share, and the engines under them;
//! - `throttle`: slows writers down when engines are behind;
//! - `reserve`: disk space for commits that free space;
//! - `recovery`: restores the state from the log;
//! - `copy`: copies the log's commits for a backup, and makes a log from such a copy;
//! - `metrics`: the metrics of all of these;
//! - `sync`: the locks of code that loom checks;
//! - `model`: a model engine, for tests.

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
