//! Spilling and folding: how a transaction writes more than memory holds.
//!
//! A transaction keeps its writes in memory ([`crate::transaction`], the write buffer). When the
//! writes outgrow its share of the budget, the transaction *spills* them: it commits them to
//! [`SPILL`], a table of the tiered engine that only the transaction manager knows. These are
//! ordinary commits of a few hundred kilobytes. So, while a statement changes any number of rows,
//! the log can be cut, memtables can be flushed, and memory stays bounded.
//!
//! The commit of the transaction copies no spilled row. Each spill has a *record*, which says at
//! first that the spilled rows are not committed. The commit is one small commit that overwrites
//! the record, which then marks the rows as committed. N is the CSN of this commit. The spilled
//! rows are then an *overlay* of the tables that the transaction wrote to: a read of such a table
//! at a snapshot of N or above reads the table, then the overlay, and takes the newer version.
//! After a rollback, or a crash before N is durable, the record still says that the spill is not
//! committed. The rows are then deleted as one range.
//!
//! A background job *folds* an overlay into its tables. It reads the overlay's rows in key order
//! and commits them to their table, up to a thousand in one commit. Each of these commits has a CSN
//! of its own. The job skips a row that another commit has changed since N. When no reader needs
//! the overlay any more, the job deletes the overlay's rows and its record.
//!
//! Two designs were rejected:
//!
//! - The commit logs all writes as one batch, of any size, and installs it. The stable CSN cannot
//!   pass that commit before the install ends, which takes seconds or minutes for gigabytes.
//!   Meanwhile no later commit is acknowledged.
//! - The transaction writes versions into the table itself that are invisible until it commits, as
//!   RocksDB's WriteUnprepared transactions do. Each read and each compaction would then have to
//!   look up which transaction wrote a version, and whether that transaction has committed. A
//!   rollback would write as much as the transaction has written.
//!
//! [`Scratch`] and [`ScratchSet`] use the same table for intermediate results of a statement that
//! exceed memory.
//!
//! # Guarantees
//!
//! - **SPILL-1 (atomic).** All writes of a spilled transaction are visible at its CSN N and above,
//!   and none at a snapshot below N. After a crash all of them exist if commit N was recovered, and
//!   none otherwise.
//! - **SPILL-2 (own reads).** The transaction reads its spilled writes like those in its buffer. A
//!   scan that was open before a spill also returns them, in the part of its range that it has not
//!   reached yet.
//! - **SPILL-3 (savepoints).** A rollback to a savepoint undoes the spilled writes that were made
//!   after the savepoint, and no others. The transaction splits its spilled writes into *layers* at
//!   the savepoints that still exist. A rollback drops the layers after the savepoint.
//! - **SPILL-4 (order).** A key's versions are ordered by CSN, whether they are in the table or in
//!   overlays. The transaction locks a row before it spills the write, and holds the lock until
//!   commit N is installed. So no other transaction commits a version of that key in between.
//! - **SPILL-5 (deletions stay).** While an overlay is attached, a snapshot at N is pinned. An
//!   engine drops a deletion from a table only once every live snapshot sees it
//!   ([`spillway_base::engine::Found::Nothing`]). So the engine keeps each deletion with a CSN
//!   above N, and such a deletion still hides the overlay's row of the same key. From the start of
//!   a recovery until its overlays are attached, a snapshot at CSN 0 is pinned.
//! - **SPILL-6 (no range).** While a table has an overlay, no commit that deletes a range of the
//!   table as one operation gets a CSN. Such an operation hides the table's versions up to a
//!   snapshot, and nothing would record which rows of the overlay it hides. Instead, the commit
//!   deletes the range row by row.
//! - **SPILL-7 (folding changes nothing).** A fold's commit holds the gate (`pipeline::gate`): no
//!   other commit takes a CSN at the same time. The fold's commit writes only rows whose newest
//!   version is the overlay's own. A fold causes no conflict with a transaction, because a version
//!   that a fold wrote counts as a version of CSN N.
//! - **SPILL-8 (end).** Each row of an overlay is folded, or is skipped because it has a newer
//!   version. The job deletes the overlay's record only after it has handled all rows, and only
//!   once no transaction reads at a snapshot below the CSNs of the folds and of the newer versions.
//!   The overlay's pinned snapshot is released once the deletion of the record is stable.
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

/// The options of a commit that no caller waits for.
fn unwaited() -> TransactionOptions {
    TransactionOptions::new().durability(Durability::Relaxed)
}
