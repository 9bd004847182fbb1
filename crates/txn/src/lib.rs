//! Snapshots, locks, transactions, the commit pipeline and the redo log (DESIGN, D1–D6, D11, D12).
//!
//! In the order a transaction passes them:
//!
//! - `options`: what it chooses;
//! - `transaction`: its snapshot, locks, writes and end;
//! - `locks`, `serializable`: what keeps it apart from others;
//! - `spill`: its writes where they are more than memory holds;
//! - `pipeline`, `record`: its commit on the way to the log and the engines;
//! - `watermark`, `snapshots`: what is visible, and what is still looked at;
//! - `recovery`: the way back from the log; `copy`: the log's commits read beside its writers, and
//!   a log made of them;
//! - `manager`, `throttle`, `reserve`: what transactions share.

mod copy;
mod engines;
mod locks;
mod manager;
mod metrics;
#[cfg(any(test, feature = "model"))]
pub mod model;
mod options;
mod pipeline;
mod record;
mod recovery;
mod reserve;
mod serializable;
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
pub use manager::{HorizonHandle, ManagerSettings, TransactionManager};
pub use options::{Durability, Frees, Isolation, LockMode, LockWait, TransactionOptions};
pub use record::{check_frame, commits_in};
pub use recovery::{LogSettings, RecoveryReport, recover};
pub use spill::{Scratch, ScratchSet};
pub use transaction::{
    CancelHandle, ColumnsRead, CommitFuture, LOCK_WAIT, Met, ReadsMark, Savepoint, Scan,
    Transaction,
};
