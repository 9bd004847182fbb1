//! Deleting all rows of a range.
//!
//! - **D1 (which rows).** Those that a scan of the range shows: what the snapshot sees, and the transaction's own. Under READ
//!   COMMITTED a row counts as it is once it is locked; one that is gone by then does not.
//! - **D2 (locks, conflicts).** Each of them is locked as [`Transaction::delete`] does, and refused where that would be.
//! - **D3 (others' rows).** What others put into the range, and the transaction does not see, stays, whenever it was or is committed.
//! - **D4 (own rows).** What the transaction has written into the range before is deleted; what it writes there
//!   afterwards stays.
//! - **D5 (who comes later).** A transaction whose snapshot is older than the commit, and that would write one of the rows, is
//!   refused as if each had been deleted by itself. So is one that would write a key of the range that had no row, where
//!   the range was deleted at once.
//! - **D6 (serializable).** It is a read of the range, and a write of each of the rows.
//! - **D7 (form).** From [`AT_ONCE_FROM`] rows on, one operation of the batch says it for all that the snapshot sees; own
//!   rows, and rows that are newer than the snapshot, are deleted one by one beside it. Fewer are deleted one by one.
//! - **D8 (failure).** Where it fails it has deleted nothing; locks stay.
//!
//! D3 and D4 follow from how such an operation is installed: it hides versions up to the snapshot and no others
//! ([`spillway_base::engine`], E10).

use spillway_base::engine::{Access, Found};
use spillway_base::{Csn, Direction, Error, KeyRange, TableId};

use super::Transaction;
use crate::locks::Acquired;
use crate::options::{Isolation, LockMode, LockWait};

/// So many rows are worth an operation on the range: fewer are as quickly told one by one, and what is deleted then is none of
/// their neighbours' business.
const AT_ONCE_FROM: usize = 64;

/// A row of the range, locked.
enum Row {
    /// The snapshot sees it as it is.
    Seen,
    /// The range cannot stand for it: it is the transaction's own, or newer than the snapshot.
    Apart,
    /// Another deleted it before it was locked.
    Gone,
}

/// What is to be deleted.
#[derive(Default)]
struct Doomed {
    seen: usize,
    /// The rows that the snapshot sees, as long as they are few.
    few: Vec<Box<[u8]>>,
    apart: Vec<Box<[u8]>>,
}

impl Doomed {
    fn add(&mut self, row: &Row, key: &[u8]) {
        match row {
            Row::Seen => {
                self.seen += 1;
                if self.seen < AT_ONCE_FROM {
                    self.few.push(key.into());
                }
            }
            Row::Apart => self.apart.push(key.into()),
            Row::Gone => {}
        }
    }
}

impl Transaction {
    /// Removes all rows of a range that reads see, after locking each, and answers how many there were. `visit` is shown
    /// each of them first, its key and its value, and may write to other tables. `D1` to `D8` on this module's page say what holds.
    ///
    /// # Errors
    /// As [`Transaction::delete`] and [`Transaction::scan`]; what `visit` answers.
    pub fn delete_range<E: From<Error>>(
        &self,
        table: TableId,
        range: KeyRange<'_>,
        mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), E>,
    ) -> Result<u64, E> {
        self.check_writable()?;
        if range.is_empty() {
            return Ok(0);
        }
        // Of a table that nobody else has seen, all rows are its own.
        let created = self.writes.borrow().created(table);
        let snapshot = if created { Csn::ZERO } else { self.snapshot() };
        let mut doomed = Doomed::default();
        let mut newest = Vec::new();
        let mut scan = self.scan(table, range, Direction::Forward)?;
        while scan.advance()? {
            let row = self.doom(table, scan.key(), snapshot, &mut newest)?;
            match row {
                Row::Gone => continue,
                Row::Apart if !scan.is_own() => visit(scan.key(), &newest)?,
                Row::Apart | Row::Seen => visit(scan.key(), scan.value())?,
            }
            doomed.add(&row, scan.key());
        }
        drop(scan);
        let before = self.savepoint();
        if let Err(error) = self.bury(table, range, snapshot, &doomed) {
            self.rollback_to(before);
            return Err(error.into());
        }
        Ok((doomed.seen + doomed.apart.len()) as u64)
    }

    /// Locks a row of the range. One that is newer than the snapshot is read anew.
    fn doom(
        &self,
        table: TableId,
        key: &[u8],
        snapshot: Csn,
        newest: &mut Vec<u8>,
    ) -> spillway_base::Result<Row> {
        let own = self.writes.borrow().get(table, key).is_some();
        if self.acquire_checked(table, key, LockMode::Exclusive, LockWait::Wait)? == Acquired::New {
            self.locked_at.set(None);
        }
        if self.serializable() {
            self.shared().serializable.write(self.owner.id(), snapshot, table, key)?;
        }
        if own {
            return Ok(Row::Apart);
        }
        if self.options.isolation != Isolation::ReadCommitted {
            // No version is newer than the snapshot: that was looked at when it was locked.
            return Ok(Row::Seen);
        }
        let found = self.engine(table)?.newest(table, key, Access::Blocking, newest)?;
        self.note_seen(found.csn().unwrap_or(Csn::ZERO));
        Ok(match found {
            Found::Value(csn) if csn <= snapshot => Row::Seen,
            Found::Value(_) => Row::Apart,
            Found::Deleted(_) | Found::Nothing => Row::Gone,
        })
    }

    /// Writes down what is deleted: rows by their keys, and the range where it has many that the snapshot sees.
    fn bury(
        &self,
        table: TableId,
        range: KeyRange<'_>,
        snapshot: Csn,
        doomed: &Doomed,
    ) -> spillway_base::Result<()> {
        let Doomed { seen, few, apart } = doomed;
        let at_once = *seen >= AT_ONCE_FROM;
        let few = if at_once { &[] } else { &few[..] };
        few.iter().chain(apart).try_for_each(|key| self.buffer(table, key, None))?;
        if at_once {
            self.make_room(range.start.len() + range.end.map_or(0, <[u8]>::len))?;
            self.writes.borrow_mut().delete_range(table, range, snapshot);
        }
        Ok(())
    }
}
