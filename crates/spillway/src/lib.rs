//! An embeddable, transactional, ordered key-value database for load that arrives as a wave.
//!
//! A [`Database`] is a folder with tables, which are ordered key spaces. A transaction reads and
//! writes any number of them. A commit is durable when its future resolves, unless the transaction
//! asks for a weaker durability. Acknowledged commits are never lost, and no reader sees a part of
//! a transaction.
//!
//! ```
//! use spillway::{Database, Direction, EngineKind, KeyRange, Settings, TransactionOptions};
//!
//! # fn main() -> spillway::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let folder = folder.path();
//! let db = Database::open(folder, Settings::default())?;
//!
//! let txn = db.begin(TransactionOptions::new());
//! let seats = txn.create_table("seats", EngineKind::Tiered)?;
//! txn.put(seats, b"A1", b"free")?;
//! txn.put(seats, b"A2", b"free")?;
//! txn.commit().wait()?;
//!
//! let txn = db.begin(TransactionOptions::new());
//! let mut seat = Vec::new();
//! if txn.get(seats, b"A1", &mut seat)? && seat == b"free" {
//!     txn.put(seats, b"A1", b"taken")?;
//! }
//! txn.commit().wait()?;
//!
//! let txn = db.begin(TransactionOptions::new().read_only(true));
//! let mut scan = txn.scan(seats, KeyRange::ALL, Direction::Forward)?;
//! while scan.advance()? {
//!     println!("{:?} is {:?}", scan.key(), scan.value());
//! }
//! # drop(scan);
//! # drop(txn);
//! db.close()
//! # }
//! ```
//!
//! If a transaction fails with [`ErrorKind::Deadlock`], [`ErrorKind::WriteConflict`] or
//! [`ErrorKind::SerializationFailure`], drop it and run it again.

pub mod backup;
mod check;
mod database;
mod directory;
mod folders;
#[cfg(fuzzing)]
pub mod fuzz;
mod inner;
mod inspect;
mod log_home;
mod mechanism;
mod memory_watch;
mod resident;
mod settings;
#[cfg(test)]
mod tests;
mod transaction;

pub use check::{CheckReport, check, check_on};
pub use database::Database;
pub use inspect::ClosedFolder;
#[doc(hidden)] // Higher crates read it; only the feature `ablation` can switch it off.
pub use mechanism::Mechanism;
pub use memory_watch::MemoryWatch;
pub use settings::Settings;
pub use spillway_base::budget::Budget;
pub use spillway_base::engine::{Metric, RangeEstimate, Rewrite};
pub use spillway_base::managed::TableSize;
pub use spillway_base::range::{prefix_end, successor};
pub use spillway_base::{Csn, Direction, EngineKind, Error, ErrorKind, KeyRange, Result};
pub use spillway_memory::{
    CheckpointInspection, MemoryFigures, MemoryInspection, MemoryTableInspection, SegmentHome,
    SegmentInspection, StoredTable, TableMemory,
};
pub use spillway_tiered::{
    CODINGS, ClassSpace, CompactionKind, CompactionRecord, Compression, DeviceClass,
    FilesInspection, HOT_FROM, Inspection, LevelSpace, LevelStatus, MemtableInspection,
    SliceInspection, SubTableInspection, TableInspection, TableSpace, TableStatus, Tier, WARM_FROM,
};
pub use spillway_txn::{
    CancelHandle, ColumnsRead, CommitFuture, Durability, Isolation, LiveSnapshot, LockMode,
    LockWait, Met, ReadsMark, Savepoint, Scan, Scratch, ScratchSet, TransactionOptions,
};
pub use transaction::{Spare, Table, Transaction};
