//! Builds indexes while their table is read and written.
//!
//! 1. With the table held exclusively for a moment, the catalog records which indexes the table is
//!    to have ([`Becoming`]); their key spaces are empty. From then on changes of rows maintain
//!    their entries, and nothing else sees them.
//! 2. A pass gives every row its entries, in the order of keys, in transactions of some rows each
//!    ([`Pass::fill`]). The progress is committed with them.
//! 3. If an index is unique, the build holds the table exclusively for a moment again. From then on
//!    changes of rows record possible duplicates in the catalog. The build then looks for those
//!    that existed before ([`Pass::check`]).
//! 4. With the table held exclusively for a moment, the build checks what was recorded, and the
//!    indexes become the table's. So do the statement's other changes, if they are instant
//!    (`instant`) and do not affect the indexes' entries. Nothing of the statement is visible
//!    before.
//!
//! `session/building` runs these steps and takes the table for the moments.
//!
//! # Guarantees
//!
//! - **ONLINE-BUILD-1.** After step 1, every change of a row changes its entries in the indexes
//!   that are built, too. No transaction that knows the table from before is left: each would share
//!   the table until its end.
//! - **ONLINE-BUILD-2.** Every entry belongs to an existing row and has its values. It is written
//!   under a lock of the row, with the newest values, by a change of the row or by a pass over it.
//!   The transaction that takes the values from the row also removes the entry. Removing one that
//!   does not exist yet does no harm: it is written under the lock, so not with these values any
//!   more.
//! - **ONLINE-BUILD-3.** Every row whose key a pass has left behind has its entries. If it existed
//!   before step 1, the pass saw it, because the pass reads a later snapshot; if it came, or
//!   changed, later, ONLINE-BUILD-1 holds for it.
//! - **ONLINE-BUILD-4.** No transaction fails for a build, nor waits for more than one batch of it
//!   (`pass`, TABLE-PASS-3). Changes of entries are not compared with snapshots (`store`), so a
//!   transaction that began before a batch meets no conflict with it. A duplicate fails the build,
//!   whenever the duplicate came, if it is still one when it is checked.
//! - **ONLINE-BUILD-5.** The progress of a pass is committed with the entries up to there
//!   (TABLE-PASS-4), so a crash loses neither; an entry that is written again is the same.
//! - **ONLINE-BUILD-6.** A finished unique index has no duplicates. If one came after step 3, the
//!   row that came second met the other's entry, which exists by ONLINE-BUILD-3, or met a writer
//!   about to write it. So the transaction that gave the row its values recorded it, and step 4
//!   sees that: it holds the table exclusively, and reads the newest state. A check that reads a
//!   snapshot from after step 3 sees earlier duplicates.
//! - **ONLINE-BUILD-7.** Only snapshots that see the commit of step 4 read through the index (1412
//!   for others), and so see all entries.
//! - **ONLINE-BUILD-8.** A build ends whole: finished, or removed with its key spaces. It is
//!   removed when its statement is killed or fails, as for a duplicate. One that a crash or a
//!   shutdown cut off resumes when the database is opened again. Neither removal nor resumption
//!   without its statement keeps anybody from the table for longer than a moment: it waits until
//!   nobody uses it.
//!
//! The alternative takes rows from one snapshot without locks, records later changes and applies
//! them at the end. It needs a record as large as what is written meanwhile, and a long exclusive
//! moment at the end.

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
    // Others go on to read the rows meanwhile, and to change the table is not for them.
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

/// Passes for the indexes that a table's definition says are being built.
impl Pass<'_> {
    /// Gives the next rows after `last` their entries, and moves `last` on. `false` when there were
    /// none (ONLINE-BUILD-3).
    pub(crate) fn fill(&self, last: &mut Vec<u8>) -> Result<bool> {
        self.visit(last, &mut Fill { table: self.table, row: Vec::new() })
    }

    /// Refuses duplicates in what is unique (ONLINE-BUILD-6).
    pub(crate) fn check(&self) -> Result<()> {
        let goes_on = || self.check_stopped();
        let mut unique = self.table.building.iter().filter(|index| index.unique);
        unique.try_for_each(|index| check_unique(self.db, self.table, index, &goes_on))
    }

    /// Whether what is built needs [`Pass::check`].
    pub(crate) fn is_unique(&self) -> bool {
        self.table.building.iter().any(|index| index.unique)
    }
}

/// Step 1: says what a table is to become. Indexes without a key space are given one.
pub(crate) fn begin(change: &Change<'_>, table: &TableDef, mut becoming: Becoming) -> Result<()> {
    // Those of a build that could neither be ended nor dropped.
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

/// Step 3.
pub(crate) fn note_filled(change: &Change<'_>, table: &TableDef) -> Result<()> {
    let becoming = table.becoming.clone().map(|becoming| Becoming { filled: true, ..becoming });
    change.put_table(&TableDef { becoming, ..table.clone() })
}

/// Step 4. 1062 where a duplicate came after step 3.
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

/// In place of the other steps: what was built goes (ONLINE-BUILD-8).
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
