//! Builds indexes while their table is read and written.
//!
//! 1. The build holds the table exclusively for a moment and records in the catalog which indexes
//!    the table is to have ([`Becoming`]); the key spaces of new indexes are empty. From then on
//!    changes of rows maintain the new indexes' entries, and nothing else uses these indexes.
//! 2. A pass writes the entries of every row, in key order, in transactions of a limited number of
//!    rows each ([`Pass::fill`]). Each transaction also commits the progress.
//! 3. If an index is unique, the build holds the table exclusively for a moment again. From then on
//!    changes of rows record possible duplicates in the catalog. The build then searches for
//!    duplicates that existed before that moment ([`Pass::check`]).
//! 4. The build holds the table exclusively for a moment, checks the recorded duplicates, and makes
//!    the indexes part of the table's definition. At the same time, the statement's other changes
//!    take effect, if they are instant (`instant`) and do not affect the indexes' entries. Nothing
//!    of the statement is visible before.
//!
//! `session/building` runs these steps. To hold the table exclusively means to hold its metadata
//! lock in exclusive mode.
//!
//! # Guarantees
//!
//! - **ONLINE-BUILD-1.** After step 1, every change of a row also changes its entries in the
//!   indexes that are being built. No transaction that knows the earlier definition is left: such a
//!   transaction holds the table's metadata lock in shared mode until its end, so step 1 waits for
//!   it.
//! - **ONLINE-BUILD-2.** Every entry belongs to an existing row and has the row's values. A change
//!   of the row, or a pass over it, writes the entry under a lock of the row, with the newest
//!   values. A transaction that changes these values or deletes the row also deletes the entry. It
//!   may delete an entry that does not exist yet. That does no harm: when the pass comes to the
//!   row, it locks the row, and so sees the new values.
//! - **ONLINE-BUILD-3.** Every row up to the last key that a pass has visited has its entries. If
//!   the row existed before step 1, the pass saw it, because the pass reads a later snapshot. If
//!   the row was inserted or changed later, ONLINE-BUILD-1 applies to it.
//! - **ONLINE-BUILD-4.** No transaction fails because of a build, or waits for more than one batch
//!   of the build (`pass`, TABLE-PASS-3). Writes of entries are not checked against snapshots
//!   (`store`), so a transaction that began before a batch meets no conflict with the batch. A
//!   duplicate makes the build fail if the duplicate still exists when the build checks it,
//!   whenever it was written.
//! - **ONLINE-BUILD-5.** A transaction of the pass commits the progress together with the entries
//!   up to that key (TABLE-PASS-4), so a crash never keeps one without the other. To write an entry
//!   again does not change it.
//! - **ONLINE-BUILD-6.** A finished unique index has no duplicates. If a duplicate was written
//!   after step 3 began, then the transaction that wrote the second row found the entry of the
//!   first row, which exists by ONLINE-BUILD-3, or found a transaction about to write that entry.
//!   So it recorded its row, and step 4 sees the record, because step 4 holds the table exclusively
//!   and reads the newest state. The check of step 3 finds earlier duplicates: its snapshot is
//!   later than that step's exclusive moment.
//! - **ONLINE-BUILD-7.** Only statements whose snapshot includes the commit of step 4 read through
//!   the index, and so see all entries. Other statements use another access, or fail with 1412.
//! - **ONLINE-BUILD-8.** A build is always finished, or removed together with its key spaces. It is
//!   removed if its statement is killed or fails, for example because of a duplicate. The next
//!   opening of the database resumes a build that a crash or a shutdown cut off. Neither removal
//!   nor such a resumed build keeps others from the table for longer than a moment: each waits
//!   until no transaction uses the table.
//!
//! Rejected: to take the rows from one snapshot without locks, record later changes in a log, and
//! apply this log at the end. The log would grow with everything that is written meanwhile, and
//! applying its end would need a long exclusive lock.

use spillway::{LockMode, Transaction};
use spillway_types::Value;

use super::build::check_unique;
use super::keys::UNBUILT;
use super::pass::{Pass, Visitor};
use crate::catalog::{Becoming, Change, Progress, TableDef};
use crate::errors::Result;
use crate::executor::store;

struct Fill<'a> {
    table: &'a TableDef,
    row: Vec<Value>,
}

impl Visitor for Fill<'_> {
    const LOCK: LockMode = LockMode::Shared;
    // While the pass reads, other transactions can read the rows, but not change them.
    const READ_BYTES: usize = 4 << 20;

    fn row(&mut self, txn: &Transaction, key: &[u8], bytes: &[u8]) -> Result<usize> {
        self.row.clear();
        self.table.decode(bytes, &mut self.row)?;
        let mut written = 0;
        for index in &self.table.building {
            written += store::put_entry(txn, self.table, index, &self.row, key)?;
        }
        Ok(written)
    }

    fn done(&mut self, txn: &Transaction, last: &[u8]) -> Result<()> {
        let progress = Progress { doomed: false, last: last.to_vec() };
        Change::new(txn)?.put_progress(self.table.id, &progress)
    }
}

/// The passes that build the indexes in a table's `building` list.
impl Pass<'_> {
    /// Writes the entries of the next rows after `last`, and advances `last`. Returns `false` if
    /// there were no rows (ONLINE-BUILD-3).
    pub(crate) fn fill(&self, last: &mut Vec<u8>) -> Result<bool> {
        self.visit(last, &mut Fill { table: self.table, row: Vec::new() })
    }

    /// Fails if a unique index has duplicates (ONLINE-BUILD-6).
    pub(crate) fn check(&self) -> Result<()> {
        let goes_on = || self.check_stopped();
        let mut unique = self.table.building.iter().filter(|index| index.unique);
        unique.try_for_each(|index| check_unique(self.db, self.table, index, &goes_on))
    }

    /// Whether the indexes being built need [`Pass::check`].
    pub(crate) fn is_unique(&self) -> bool {
        self.table.building.iter().any(|index| index.unique)
    }
}

/// Step 1: records the indexes that a table is to have. Those without a key space get one.
pub(crate) fn begin(change: &Change<'_>, table: &TableDef, mut becoming: Becoming) -> Result<()> {
    // Remove the indexes of an earlier build that was neither finished nor removed.
    for index in &table.building {
        change.drop_space(table.id, index.space)?;
    }
    for index in becoming.indexes.iter_mut().filter(|index| index.space == UNBUILT) {
        index.space = change.create_space(table.id, table.engine, &index.name)?;
    }
    if let Some(after) = &mut becoming.after {
        for (index, built) in after.indexes.iter_mut().zip(&becoming.indexes) {
            index.space = built.space;
        }
    }
    change.put_progress(table.id, &Progress::default())?;
    change.put_table(&TableDef { becoming: Some(becoming), ..table.clone() })
}

/// Step 3: records that every row has its entries.
pub(crate) fn note_filled(change: &Change<'_>, table: &TableDef) -> Result<()> {
    let becoming = table.becoming.clone().map(|becoming| Becoming { filled: true, ..becoming });
    change.put_table(&TableDef { becoming, ..table.clone() })
}

/// Step 4: checks the recorded duplicates, and gives the table its new definition. Fails with 1062
/// if a duplicate was added after step 3.
pub(crate) fn finish(change: &Change<'_>, table: &TableDef) -> Result<()> {
    change.each_met(table.id, |row| store::check_met(change.txn, table, row))?;
    let same = TableDef { becoming: None, ..table.clone() };
    let after = match table.becoming.clone() {
        Some(Becoming { after: Some(after), .. }) => {
            TableDef { db: same.db, name: same.name, becoming: None, ..*after }
        }
        Some(Becoming { indexes, .. }) => TableDef { indexes, ..same },
        None => same,
    };
    end(change, table, after)
}

/// Replaces the remaining steps: removes the indexes that were being built (ONLINE-BUILD-8).
pub(crate) fn abandon(change: &Change<'_>, table: &TableDef) -> Result<()> {
    end(change, table, TableDef { becoming: None, ..table.clone() })
}

fn end(change: &Change<'_>, table: &TableDef, mut after: TableDef) -> Result<()> {
    after.prepare();
    for space in table.spaces().filter(|old| after.spaces().all(|new| new != *old)) {
        change.drop_space(table.id, space)?;
    }
    change.delete_progress(table.id)?;
    change.put_table(&after)
}
