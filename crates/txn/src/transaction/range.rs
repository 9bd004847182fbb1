//! Deleting the rows of a range, all or some.
//!
//! - **D1 (which rows).** Those that a scan of the range shows: what the snapshot sees, and the
//!   transaction's own. Where the transaction acts on the newest versions, the scan is one of rows
//!   to lock (NEWEST-2), and a row counts as it is once it is locked; one that is gone by then does
//!   not.
//! - **D2 (locks, conflicts).** Each row that goes is locked as [`Transaction::delete`] does, and
//!   refused where that would be.
//! - **D3 (others' rows).** What others put into the range, and the transaction does not see,
//!   stays, whenever it was or is committed.
//! - **D4 (own rows).** What the transaction has written into the range before is deleted; what it
//!   writes there afterwards stays.
//! - **D5 (who comes later).** A transaction whose snapshot is older than the commit, and that
//!   would write one of the rows, is refused as if each had been deleted by itself. So is one that
//!   would write a key between them that had no row, where they were deleted at once.
//! - **D6 (serializable).** It is a read of the range, and a write of each row that goes.
//! - **D7 (form).** From [`AT_ONCE_FROM`] rows on that lie beside each other, with none between
//!   them that stays, one operation of the batch says it for all that the snapshot sees: from the
//!   row before them that stays, or where the range begins, up to the next one, or where it ends;
//!   where it has no beginning or no end, from the first or up to the last of them. Own rows, and
//!   rows that are newer than the snapshot, are deleted one by one beside it. Fewer are deleted one
//!   by one. With every
//!   [`RANGES_PER_DOUBLING`] such operations a transaction asks for twice as many rows, and it has
//!   at most [`RANGES_MAX`]: what many of them cost who installs and reads them does not grow with
//!   its rows.
//! - **D8 (failure).** Where it fails nothing is left of it, nor of what `choose` wrote; locks
//!   stay.
//! - **D9 (memory).** A row that goes is charged to the memory budget for its lock (LOCK-8), and
//!   under SERIALIZABLE for the key that is remembered. A row that the budget has no room for is
//!   refused with [`spillway_base::ErrorKind::LockTableFull`].
//!
//! D3 and D4 follow from how such an operation is installed: it hides versions up to the snapshot
//! and no others ([`spillway_base::engine`], E10). It may be made while the scan goes on: that is
//! past all that it is about.

use std::result::Result as Outcome;

use spillway_base::engine::{Access, Found};
use spillway_base::range::successor;
use spillway_base::{Csn, Direction, Error, KeyRange, Result, TableId};

use super::{Scan, Transaction};
use crate::locks::Acquired;
use crate::options::{LockMode, LockWait};

/// So many rows are worth an operation on the range: fewer are as quickly told one by one, and what
/// is deleted then is none of their neighbours' business.
const AT_ONCE_FROM: usize = 64;

/// After so many ranges one has to stand for twice as many rows.
const RANGES_PER_DOUBLING: usize = 32;

/// A transaction has no more ranges than this.
const RANGES_MAX: usize = 256;

/// From how many rows on beside each other a range stands for them, if there are some already;
/// never for `None`.
fn at_once_from(ranges: usize) -> Option<usize> {
    (ranges < RANGES_MAX).then(|| AT_ONCE_FROM << (ranges / RANGES_PER_DOUBLING))
}

/// How a row is met by who chooses what is deleted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Met {
    /// As the scan shows it. Nobody has locked it for this.
    Found,
    /// Locked, and as it was found.
    Locked,
    /// Locked, and newer than it was found.
    Newer,
    /// Locked, and deleted by another since it was found: `choose` may fail for it, and does not
    /// choose.
    Gone,
}

/// A row, locked.
enum Locked {
    /// The snapshot sees it as it is.
    Seen,
    /// The range cannot stand for it: it is the transaction's own.
    Own,
    /// Nor for this one: it is newer than the snapshot.
    Newer,
    /// Another deleted it before it was locked.
    Gone,
}

/// Rows beside each other that go.
struct Run<'t> {
    txn: &'t Transaction,
    table: TableId,
    snapshot: Csn,
    /// Where it begins: with the first row where nothing is said.
    start: Option<Vec<u8>>,
    /// From so many rows on a range stands for them.
    at_once_from: usize,
    rows: usize,
    /// Its rows, as long as they are few.
    few: Vec<Box<[u8]>>,
    last: Vec<u8>,
    /// Room for the newest version of a row.
    newest: Vec<u8>,
}

impl<'t> Run<'t> {
    /// In a range that begins there.
    fn new(txn: &'t Transaction, table: TableId, start: &[u8]) -> Run<'t> {
        Run {
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
                // The transaction's own reads go on to see what others have deleted between its
                // rows (NEWEST-4).
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

    /// Writes it down. It ends before `end`; with its last row where nothing is said.
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
    /// Removes all rows of a range that reads see, after locking each, and answers how many there
    /// were.
    ///
    /// # Errors
    /// As [`Transaction::delete`] and [`Transaction::scan`].
    pub fn delete_range(&self, table: TableId, range: KeyRange<'_>) -> Result<u64> {
        self.delete_rows(table, range, |_, _, _| Ok(true))
    }

    /// Removes rows of a range that reads see, after locking each, and answers how many. `choose`
    /// is shown each row, its key and its value, in ascending order, and answers whether it goes:
    /// when it is found, and if so again when it is locked. The second time it may write to other
    /// tables. What is read of this table meanwhile may have a part of it deleted already. `D1` to
    /// `D9` on this module's page say what holds.
    ///
    /// # Errors
    /// As [`Transaction::delete`] and [`Transaction::scan`]; what `choose` answers.
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
        let mut run = Run::new(self, table, range.start);
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
                // NEWEST-2: what is ahead may have changed meanwhile.
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

    /// The state that a scan of rows to lock reads.
    fn state_of(&self, scan: &Scan<'_>, table: TableId) -> Csn {
        // Of a table that nobody else has seen, all rows are its own.
        let created = self.writes.borrow().created(table);
        scan.state().unwrap_or_else(|| if created { Csn::ZERO } else { self.snapshot() })
    }

    /// Deletes the row that a scan stands on, if it is chosen. Answers whether it goes, which one
    /// that is gone already neither does nor does not.
    fn delete_row<E: From<Error>>(
        &self,
        run: &mut Run<'_>,
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

    /// Locks a row of the range. One that is newer than the snapshot is read anew.
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
            // No version is newer than the snapshot: that was looked at when it was locked.
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
