//! Transactions that write more than memory holds: spilling and folding.
//!
//! A transaction keeps its writes in memory ([`crate::transaction`], the write buffer). When they
//! outgrow its share of the budget, it *spills* them: it commits them to [`SPILL`], a table of the
//! tiered engine that only the transaction manager knows. These are ordinary commits of a few
//! hundred kilobytes. So the log is cut, memtables are flushed and memory stays bounded while a
//! statement changes any number of rows.
//!
//! The commit of the transaction copies nothing. One small commit, with CSN N, writes a *record*
//! which marks the spilled rows as committed. From N on they are an *overlay* of the tables that
//! the transaction wrote to: a read of such a table at a snapshot of N or above reads the table,
//! then the overlay, and takes the newer version. A rollback, or a crash before N, leaves rows in
//! [`SPILL`] without such a record; they are deleted as one range.
//!
//! A background job *folds* an overlay into its tables. It reads the overlay's rows in key order
//! and commits them to the table, about a thousand at a time, each such commit with its own CSN. It
//! skips a row that another commit has changed since N. When no reader needs the overlay any more,
//! the job deletes its rows and its record.
//!
//! Two designs were rejected. The first logs one batch of any size and installs it at its commit:
//! no other commit is acknowledged until it is installed, which takes seconds or minutes for
//! gigabytes. The second writes versions into the table itself that are invisible until the commit,
//! as RocksDB's WriteUnprepared transactions do: each read and each compaction would have to look
//! up which transaction wrote a version and whether it committed, and a rollback would write as
//! much again.
//!
//! [`Scratch`] and [`ScratchSet`] use the same table for the results of a statement that exceed
//! memory.
//!
//! # Guarantees
//!
//! - **SPILL-1 (atomic).** All writes of a spilled transaction are visible at its CSN N and above,
//!   and none at a snapshot below. After a crash all of them exist if N was recovered, and none
//!   otherwise.
//! - **SPILL-2 (own reads).** The transaction reads its spilled writes like those in its buffer; so
//!   does an open scan, ahead of its position.
//! - **SPILL-3 (savepoints).** A rollback to a savepoint undoes the spilled writes made since, and
//!   no others. Spilled writes are split into *layers* at the savepoints that still exist; a
//!   rollback drops layers.
//! - **SPILL-4 (order).** A key's versions are ordered by CSN, whether they are in the table or in
//!   overlays. The transaction holds the lock of a row from before it spills the write until after
//!   N, so no other commit of that key lies between.
//! - **SPILL-5 (deletions stay).** While an overlay is attached, a snapshot at N is pinned. So a
//!   table's own deletions above N are not dropped ([`spillway_base::engine::Found::Nothing`]), and
//!   hide the overlay's rows. From the start of a recovery until its overlays are attached, a
//!   snapshot at zero is pinned.
//! - **SPILL-6 (no range).** While a table has an overlay, no commit is ordered that deletes a
//!   range of the table as one operation: it would also hide, or fail to hide, rows of the overlay.
//!   Such a commit deletes row by row instead.
//! - **SPILL-7 (folding changes nothing).** A fold's commit is ordered while no other commit can
//!   be, and writes only rows whose newest version is the overlay's own. It conflicts with no
//!   transaction: a version that a fold wrote counts as one of CSN N.
//! - **SPILL-8 (end).** An overlay's record is deleted, durably, only once every row is folded, or
//!   skipped for a newer version, and no snapshot older than these remains. Only then is the pinned
//!   snapshot released.
//!
//! [`SPILL`]: crate::overlay::SPILL

mod fold;
mod savepoint;
mod scratch;
mod write_set;

use crate::options::{Durability, TransactionOptions};
pub use savepoint::Savepoint;
pub use scratch::{Scratch, ScratchSet};
pub(crate) use write_set::{OtherWrites, Spill};

/// The approximate bytes of rows in one commit to the table of spilled writes, or in one commit of
/// a fold.
pub(crate) const CHUNK_BYTES: usize = 256 << 10;

/// The options of a commit whose acknowledgement nothing waits for.
fn unwaited() -> TransactionOptions {
    TransactionOptions::new().durability(Durability::Relaxed)
}
