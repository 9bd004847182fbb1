//! Deletes the rows of a range, all or some.
//!
//! - **RANGE-DELETE-1 (which rows).** A deletion takes the rows that a scan of the range shows:
//!   those that the snapshot sees, and the transaction's own. If the transaction acts on the newest
//!   versions, the scan is a scan of rows to lock (NEWEST-2). If a row has changed since such a
//!   scan was opened, the deletion judges the row by the version that it has after it is locked. If
//!   another transaction has deleted the row by then, the deletion skips it.
//! - **RANGE-DELETE-2 (locks, conflicts).** The deletion locks each deleted row, as
//!   [`Transaction::delete`] does. If [`Transaction::delete`] would fail for one of the rows, the
//!   whole deletion fails.
//! - **RANGE-DELETE-3 (others' rows).** The deletion keeps rows in the range that other
//!   transactions have written and this transaction does not see, whether those transactions commit
//!   before or after this one.
//! - **RANGE-DELETE-4 (own rows).** Rows that the transaction wrote into the range before the
//!   deletion are deleted. Rows that it writes there afterwards stay.
//! - **RANGE-DELETE-5 (later writers).** After the deletion has committed, a transaction whose
//!   snapshot is older than that commit may not write one of the deleted rows: the write fails, as
//!   if each row had been deleted singly. If the rows were deleted as one range, such a transaction
//!   may not write a key between them either, even if the key had no row.
//! - **RANGE-DELETE-6 (serializable).** The deletion counts as a read of the range, and as a write
//!   of each deleted row.
//! - **RANGE-DELETE-7 (form).** A *run* is a series of deleted rows with no kept row between them.
//!   A run of at least [`AT_ONCE_FROM`] rows becomes one range operation of the batch. The
//!   operation hides everything that the snapshot sees between its bounds. It begins right after
//!   the kept row that precedes the run, or where the range begins, and ends at the next kept row,
//!   or where the range ends. If the range has no beginning or no end, the operation begins at the
//!   first row of the run or ends at the last one.
//!
//!   These rows are deleted row by row: the rows of shorter runs, the transaction's own rows, rows
//!   newer than the snapshot, and all rows if the transaction's plain reads are at an older
//!   snapshot than the scan (NEWEST-4).
//!
//!   Every [`RANGES_PER_DOUBLING`] range operations of a transaction double the number of rows that
//!   a further run needs to become a range operation. A transaction has at most [`RANGES_MAX`]
//!   range operations. So the cost of installing and reading the operations does not grow with the
//!   number of rows.
//! - **RANGE-DELETE-8 (failure).** A deletion that fails undoes all writes that it has made, and
//!   those that its callback `choose` has made in the same transaction. The transaction keeps the
//!   locks.
//! - **RANGE-DELETE-9 (memory).** Each deleted row is charged to the memory budget: for its lock
//!   (LOCK-8), and under SERIALIZABLE for the note of its key (SSI-2). If the budget has no room
//!   for a row, the deletion fails with [`spillway_base::ErrorKind::LockTableFull`].
//!
//! RANGE-DELETE-3 and RANGE-DELETE-4 hold because a range operation hides versions up to the
//! snapshot and no others ([`spillway_base::engine`], E10). The deletion may write an operation
//! while its scan is open, because the scan has already passed the operation's range.

use std::result::Result as Outcome;

use spillway_base::engine::{Access, Found};
use spillway_base::range::successor;
use spillway_base::{Csn, Direction, Error, KeyRange, Result, TableId};

use super::{Scan, Transaction};
use crate::locks::Acquired;
use crate::options::{LockMode, LockWait};

/// The fewest rows that become one range operation. Fewer rows are deleted as quickly one by one,
/// and a range operation also affects the keys between its rows (RANGE-DELETE-5).
const AT_ONCE_FROM: usize = 64;

/// After this many range operations, the required number of rows doubles.
const RANGES_PER_DOUBLING: usize = 32;

/// A transaction has no more range operations than this.
const RANGES_MAX: usize = 256;

/// The rows that a run needs to become a range operation, if the transaction has `ranges` of them
/// already. `None` if it may have no more.
fn at_once_from(ranges: usize) -> Option<usize> {
    (ranges < RANGES_MAX).then(|| AT_ONCE_FROM << (ranges / RANGES_PER_DOUBLING))
}

/// The state of a row that `delete_rows` passes to `choose`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Met {
    /// Not locked for the deletion yet, in the version that the scan found.
    Found,
    /// Locked, in the version that the scan found.
    Locked,
    /// Locked, in a version newer than the scan found.
    Newer,
    /// Locked, and deleted by another transaction since the scan found it. An error of `choose`
    /// counts, and its result is ignored.
    Gone,
}

/// A row after locking.
enum Locked {
    /// The snapshot sees its newest version.
    Seen,
    /// The transaction's own row; a range operation cannot cover it.
    Own,
    /// Newer than the snapshot; a range operation cannot cover it.
    Newer,
    /// Deleted by another transaction before it was locked.
    Gone,
}

/// A run of successive rows to delete (RANGE-DELETE-7).
struct RowRun<'t> {
    txn: &'t Transaction,
    table: TableId,
    snapshot: Csn,
    /// Where its range operation would begin. `None`: at the first row.
    start: Option<Vec<u8>>,
    /// From this many rows on, it becomes a range operation.
    at_once_from: usize,
    rows: usize,
    /// Its rows, while they are few.
    few: Vec<Box<[u8]>>,
    last: Vec<u8>,
    /// A buffer for the newest version of a row.
    newest: Vec<u8>,
}

impl<'t> RowRun<'t> {
    /// In a range that begins at `start`.
    fn new(txn: &'t Transaction, table: TableId, start: &[u8]) -> RowRun<'t> {
        RowRun {
            txn,
            table,
            snapshot: Csn::ZERO,
            start: (!start.is_empty()).then(|| start.to_vec()),
            at_once_from: AT_ONCE_FROM,
            rows: 0,
            few: Vec::new(),
            last: Vec::new(),
            newest: Vec::new(),
        }
    }

    fn add(&mut self, key: &[u8]) -> Result<()> {
        if self.rows == 0 {
            let at_once = if self.txn.reads_older_than(self.snapshot) {
                // The transaction's own plain reads are at an older snapshot (NEWEST-4). They still
                // see rows that others have since deleted between these rows, and a range operation
                // would hide those rows.
                None
            } else {
                at_once_from(self.txn.writes.borrow().ranges())
            };
            let Some(rows) = at_once else {
                return self.txn.buffer(self.table, key, None);
            };
            self.at_once_from = rows;
        }
        self.start.get_or_insert_with(|| key.to_vec());
        self.rows += 1;
        if self.rows < self.at_once_from {
            self.few.push(key.into());
        }
        self.last.clear();
        self.last.extend_from_slice(key);
        Ok(())
    }

    /// Ends the run and writes its deletions. A range operation ends before `end`, or with the last
    /// row if `end` is `None`.
    fn end(&mut self, end: Option<&[u8]>) -> Result<()> {
        if self.rows < self.at_once_from {
            for key in &self.few {
                self.txn.buffer(self.table, key, None)?;
            }
        } else {
            let past = successor(&self.last);
            let (start, end) = (self.start.as_deref().unwrap_or_default(), end.unwrap_or(&past));
            self.txn.make_room(start.len() + end.len())?;
            let range = KeyRange::new(start, Some(end));
            self.txn.writes.borrow_mut().delete_range(self.table, range, self.snapshot);
        }
        self.few.clear();
        self.rows = 0;
        Ok(())
    }
}

impl Transaction {
    /// Removes all rows of a range that reads see, after locking each, and returns their number.
    ///
    /// # Errors
    /// As [`Transaction::delete`] and [`Transaction::scan`].
    pub fn delete_range(&self, table: TableId, range: KeyRange<'_>) -> Result<u64> {
        self.delete_rows(table, range, |_, _, _| Ok(true))
    }

    /// Removes rows of a range that reads see, after locking each, and returns their number.
    /// `choose` receives each row's key and value, in ascending order, and returns whether to
    /// delete the row. It is called when a row is found, and if it returned `true`, again when the
    /// row is locked. In the second call it may write to other tables. Reads of this table during
    /// the call may find some of the rows already deleted. `RANGE-DELETE-1` to `RANGE-DELETE-9` on
    /// this module's page state the guarantees.
    ///
    /// # Errors
    /// As [`Transaction::delete`] and [`Transaction::scan`]; any error of `choose`.
    pub fn delete_rows<E: From<Error>>(
        &self,
        table: TableId,
        range: KeyRange<'_>,
        mut choose: impl FnMut(&[u8], &[u8], Met) -> Outcome<bool, E>,
    ) -> Outcome<u64, E> {
        self.check_writable()?;
        let before = self.savepoint();
        let deleted = self.try_delete_rows(table, range, &mut choose);
        if deleted.is_err() {
            self.rollback_to(before);
        }
        self.release(before);
        deleted
    }

    fn try_delete_rows<E: From<Error>>(
        &self,
        table: TableId,
        range: KeyRange<'_>,
        choose: &mut dyn FnMut(&[u8], &[u8], Met) -> Outcome<bool, E>,
    ) -> Outcome<u64, E> {
        if range.is_empty() {
            return Ok(0);
        }
        let mut run = RowRun::new(self, table, range.start);
        let mut deleted = 0;
        let mut scan = self.scan_to_lock(table, range, Direction::Forward)?;
        run.snapshot = self.state_of(&scan, table);
        while scan.advance()? {
            let waits = self.waits_granted();
            let goes = self.delete_row(&mut run, &scan, choose)?;
            deleted += u64::from(goes == Some(true));
            if goes == Some(false) {
                run.end(Some(scan.key()))?;
                run.start = Some(successor(scan.key()));
            }
            let waited = self.acts_on_newest() && waits != self.waits_granted();
            if waited || scan.is_behind() {
                // The rest of the range may have changed meanwhile (NEWEST-2).
                let next = successor(scan.key());
                run.end(Some(&next))?;
                let rest = KeyRange::new(&next, range.end);
                run.start = Some(next.clone());
                if rest.is_empty() {
                    break;
                }
                scan = self.scan_to_lock(table, rest, Direction::Forward)?;
                run.snapshot = self.state_of(&scan, table);
            }
        }
        run.end(range.end)?;
        Ok(deleted)
    }

    /// The state in which a scan of rows to lock reads.
    fn state_of(&self, scan: &Scan<'_>, table: TableId) -> Csn {
        // In a table that this transaction created, all rows are its own.
        let created = self.writes.borrow().created(table);
        scan.state().unwrap_or_else(|| if created { Csn::ZERO } else { self.snapshot() })
    }

    /// Deletes the row at which a scan stands, if `choose` chooses it. Returns whether it did, or
    /// `None` if another transaction has deleted the row already.
    fn delete_row<E: From<Error>>(
        &self,
        run: &mut RowRun<'_>,
        scan: &Scan<'_>,
        choose: &mut dyn FnMut(&[u8], &[u8], Met) -> Outcome<bool, E>,
    ) -> Outcome<Option<bool>, E> {
        let (table, snapshot) = (run.table, run.snapshot);
        let (key, value) = (scan.key(), scan.value());
        if !choose(key, value, Met::Found)? {
            return Ok(Some(false));
        }
        let mut newest = std::mem::take(&mut run.newest);
        let locked = self.lock_row(table, key, snapshot, &mut newest)?;
        let goes = match locked {
            Locked::Gone => {
                choose(key, value, Met::Gone)?;
                return Ok(None);
            }
            Locked::Seen | Locked::Own => choose(key, value, Met::Locked)?,
            Locked::Newer => choose(key, &newest, Met::Newer)?,
        };
        run.newest = newest;
        if goes {
            self.note_deleted(table, key, snapshot)?;
            match locked {
                Locked::Seen => run.add(key)?,
                _ => self.buffer(table, key, None)?,
            }
        }
        Ok(Some(goes))
    }

    /// Locks a row of the range. A version newer than the snapshot is read into `newest`.
    fn lock_row(
        &self,
        table: TableId,
        key: &[u8],
        snapshot: Csn,
        newest: &mut Vec<u8>,
    ) -> Result<Locked> {
        let own = self.own(table, key, newest)?.is_some();
        if self.acquire_checked(table, key, LockMode::Exclusive, LockWait::Wait)? == Acquired::New {
            self.locked_at.set(None);
        }
        if own {
            return Ok(Locked::Own);
        }
        if !self.acts_on_newest() {
            // The lock request has checked that no version is newer than the snapshot.
            return Ok(Locked::Seen);
        }
        let found = self.look_up_from(table, key, None, Access::Blocking, newest)?;
        self.note_newest(found.csn().unwrap_or(Csn::ZERO));
        Ok(match found {
            Found::Value(csn) if csn <= snapshot => Locked::Seen,
            Found::Value(_) => Locked::Newer,
            Found::Deleted(_) | Found::Nothing => Locked::Gone,
        })
    }

    fn note_deleted(&self, table: TableId, key: &[u8], snapshot: Csn) -> Result<()> {
        if self.serializable() {
            self.shared().serializable.write(self.owner.id(), snapshot, table, key)?;
        }
        Ok(())
    }
}
