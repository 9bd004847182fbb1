//! Indexes that are built while their table is read and written.
//!
//! 1. With the table alone for a moment, the catalog says which indexes the table is to have ([`Becoming`]); their key spaces are
//!    empty. From then on changes of rows keep their entries, and nothing else sees them.
//! 2. Row by row, in the order of keys, in transactions of some rows each, every row is given its entries ([`Pass::fill`]). How far
//!    that is, is committed with them.
//! 3. Where something is unique, the table is had alone for a moment again, and from then on changes of rows look for duplicates. Those
//!    that were there before are looked for after it ([`Pass::check`]).
//! 4. With the table alone for a moment, the indexes become the table's.
//!
//! Who runs these steps, and has the table for the moments, is `session/building`.
//!
//! # Guarantees
//!
//! - **O1.** After step 1, whoever changes a row changes its entries in the indexes that are built, too. No transaction that knows the
//!   table from before is left: each would share the table until its end.
//! - **O2.** An entry that is there is of a row that is there and has its values. It is written under a lock of the row, with the newest
//!   values, by a change of the row or by a pass over it; and who takes the values from the row takes the entry away in the same
//!   transaction. To take away one that is not there yet does no harm: it is written under the lock, so not with these
//!   values any more.
//! - **O3.** Every row whose key a pass has left behind has its entries. If it was there before step 1 it was seen by the pass, which
//!   reads a snapshot from after; if it came, or changed, later, O1 holds for it.
//! - **O4.** A pass waits for a lock only while it holds none, so that it is in no circle of waits, and no transaction fails for it. Who
//!   changes a row waits for one batch at most. Changes of entries are not compared with snapshots (`store`), so that a transaction
//!   which began before a batch meets no conflict with it.
//! - **O5.** How far a pass is, is committed with the entries up to there, so that a crash loses neither; an entry that is written
//!   again is the same.
//! - **O6.** A unique index that is done has no duplicates. One that came after step 3 would have met the other's entry, which is there by
//!   O3; those from before are seen by a check that reads a snapshot from after.
//! - **O7.** Only snapshots read through the index that see the commit of step 4 (1412 for others), and so all entries.
//! - **O8.** A build ends whole: done, or gone with its key spaces. It is gone when its statement is killed or fails, as of a duplicate; one
//!   that a crash or a shutdown cut off is gone on with when the database is opened again.
//!
//! Rather than under locks, rows could be taken from one snapshot, with changes since then recorded and applied in the end. That needs
//! no locks, but a record as large as what is written meanwhile, and a long last moment alone.

use spillway::{
    Database, Direction, ErrorKind, Isolation, KeyRange, LockMode, LockWait, Transaction,
    TransactionOptions, successor,
};

use super::build::check_unique;
use super::keys::UNBUILT;
use crate::catalog::{Becoming, Change, IndexDef, Progress, TableDef, unawaited};
use crate::errors::{Result, SqlError};
use crate::store;

/// The most rows, and about the most bytes of their keys and of entries, that are read and given entries in one transaction.
const BATCH_ROWS: usize = 1000;
const BATCH_BYTES: usize = 256 << 10;

/// How long a pass stands in line for a row before it looks whether it is to end.
const LOCK_WAIT: std::time::Duration = std::time::Duration::from_secs(1);

fn interrupted() -> SqlError {
    SqlError::new(1317, "Query execution was interrupted")
}

/// Work on the indexes that a table's definition says are built.
pub(crate) struct Pass<'a> {
    pub(crate) db: &'a Database,
    pub(crate) table: &'a TableDef,
    /// Whether it is to end.
    pub(crate) stopped: &'a dyn Fn() -> bool,
    /// Told of each transaction that may have to be interrupted.
    pub(crate) begun: &'a dyn Fn(&Transaction),
}

impl Pass<'_> {
    /// Gives the next rows after `last` their entries, and moves `last` on. `false` when there were none (O3).
    pub(crate) fn fill(&self, last: &mut Vec<u8>) -> Result<bool> {
        let keys = self.next_keys(last)?;
        let mut rest = keys.as_slice();
        while !rest.is_empty() {
            if (self.stopped)() {
                return Err(interrupted());
            }
            let done = self.give_entries(rest)?;
            if let Some(key) = rest[..done].last() {
                last.clone_from(key);
            }
            rest = &rest[done..];
        }
        Ok(!keys.is_empty())
    }

    fn next_keys(&self, last: &[u8]) -> Result<Vec<Vec<u8>>> {
        let start = if last.is_empty() { Vec::new() } else { successor(last) };
        let txn = self.db.begin(unawaited().read_only(true));
        let range = KeyRange::new(&start, None);
        let mut scan = txn.scan(self.table.rows(), range, Direction::Forward)?;
        let (mut keys, mut bytes) = (Vec::new(), 0);
        while keys.len() < BATCH_ROWS && bytes < BATCH_BYTES && scan.advance()? {
            bytes += scan.key().len();
            keys.push(scan.key().to_vec());
        }
        Ok(keys)
    }

    /// Gives the first of some rows their entries, up to one that is locked: it is the first of the next transaction, which can
    /// wait for it (O4). Answers how many were done.
    fn give_entries(&self, keys: &[Vec<u8>]) -> Result<usize> {
        let options = TransactionOptions::new().isolation(Isolation::ReadCommitted);
        let txn = self.db.begin(options.lock_wait(LOCK_WAIT));
        (self.begun)(&txn);
        let (mut bytes, mut row) = (Vec::new(), Vec::new());
        let (mut done, mut written) = (0, 0);
        for key in keys {
            if written >= BATCH_BYTES {
                break;
            }
            let wait = if done == 0 { LockWait::Wait } else { LockWait::NoWait };
            match txn.get_locked(self.table.rows(), key, LockMode::Shared, wait, &mut bytes) {
                Ok(true) => {
                    row.clear();
                    self.table.decode(&bytes, &mut row)?;
                    for index in &self.table.building {
                        written += store::put_entry(&txn, self.table, index, &row, key)?;
                    }
                }
                Ok(false) => {}
                Err(error) if error.kind() == ErrorKind::LockNotAvailable => break,
                Err(error) if error.kind() == ErrorKind::LockTimeout => return Ok(0),
                Err(error) => return Err(error.into()),
            }
            done += 1;
        }
        let last = keys[..done].last().cloned().unwrap_or_default();
        Change::new(&txn)?.put_progress(self.table.id, &Progress { doomed: false, last })?;
        txn.commit().wait()?;
        Ok(done)
    }

    /// Refuses duplicates in what is unique (O6).
    pub(crate) fn check(&self) -> Result<()> {
        let goes_on = || if (self.stopped)() { Err(interrupted()) } else { Ok(()) };
        let unique = self.table.building.iter().filter(|index| index.unique);
        unique.into_iter().try_for_each(|index| check_unique(self.db, self.table, index, &goes_on))
    }

    /// How many of a hundred parts of the rows lie before a key, estimated.
    pub(crate) fn percent(&self, last: &[u8]) -> u64 {
        let keys = |end| self.db.estimate(self.table.rows(), KeyRange::new(&[], end)).keys;
        (keys(Some(last)) * 100 / keys(None).max(1)).min(99)
    }

    /// Whether what is built needs [`Pass::check`].
    pub(crate) fn is_unique(&self) -> bool {
        self.table.building.iter().any(|index| index.unique)
    }
}

/// Step 1: has a table become one with these indexes, of which those without a key space are given one.
pub(crate) fn begin(
    change: &Change<'_>,
    table: &TableDef,
    mut indexes: Vec<IndexDef>,
) -> Result<()> {
    // Those of a build that could neither be ended nor dropped.
    for index in &table.building {
        change.drop_space(index.space)?;
    }
    for index in indexes.iter_mut().filter(|index| index.space == UNBUILT) {
        index.space = change.create_space(table.id, &index.name)?;
    }
    let becoming = Some(Becoming { indexes, filled: false });
    change.put_progress(table.id, &Progress::default())?;
    change.put_table(&TableDef { becoming, ..table.clone() })
}

/// Step 3.
pub(crate) fn note_filled(change: &Change<'_>, table: &TableDef) -> Result<()> {
    let becoming = table.becoming.clone().map(|becoming| Becoming { filled: true, ..becoming });
    change.put_table(&TableDef { becoming, ..table.clone() })
}

/// Step 4.
pub(crate) fn finish(change: &Change<'_>, table: &TableDef) -> Result<()> {
    let becoming = table.becoming.clone();
    let indexes = becoming.map_or_else(|| table.indexes.clone(), |becoming| becoming.indexes);
    end(change, table, indexes)
}

/// In place of the other steps: what was built goes (O8).
pub(crate) fn abandon(change: &Change<'_>, table: &TableDef) -> Result<()> {
    end(change, table, table.indexes.clone())
}

fn end(change: &Change<'_>, table: &TableDef, indexes: Vec<IndexDef>) -> Result<()> {
    let mut after = TableDef { indexes, becoming: None, ..table.clone() };
    after.prepare();
    for space in table.spaces().filter(|old| after.spaces().all(|new| new != *old)) {
        change.drop_space(space)?;
    }
    change.delete_progress(table.id)?;
    change.put_table(&after)
}
