//! Builds indexes while other sessions read and write their table, in these steps:
//!
//! 1. The build holds the table exclusively for a moment and records in the catalog which indexes
//!    the table is to have ([`Becoming`]). The key spaces of new indexes are empty. From then on, a
//!    transaction that changes a row also writes the row's entries in the new indexes. Queries do
//!    not use these indexes yet.
//! 2. A pass over the table writes the entries of every row, in key order, in transactions of a
//!    limited number of rows each ([`Pass::fill`]). Each transaction also writes the progress into
//!    the catalog: the key of its last row.
//! 3. If a new index is unique, the build holds the table exclusively for a moment again. From then
//!    on, transactions that change rows record possible duplicates in the catalog. The build then
//!    searches the index for duplicates that existed before that moment ([`Pass::check`]).
//! 4. The build holds the table exclusively for a moment, checks the recorded possible duplicates,
//!    and makes the new indexes part of the table's definition. The statement's other changes take
//!    effect at the same time. They must be instant (`instant`) and must not affect the indexes'
//!    entries. Before this step, other sessions see no effect of the statement.
//!
//! `session/building` runs these steps. To hold the table exclusively means to hold its metadata
//! lock in exclusive mode.
//!
//! # Guarantees
//!
//! - **ONLINE-BUILD-1.** After step 1, every transaction that changes a row also changes the row's
//!   entries in the indexes that are being built. No transaction still uses the earlier definition:
//!   such a transaction would hold the table's metadata lock in shared mode until its end, and step
//!   1 waits for all shared locks.
//! - **ONLINE-BUILD-2.** Every entry belongs to an existing row and has the row's values.
//!   - The pass, or a transaction that changes the row, writes an entry while it holds a lock of
//!     the row. The entry gets the row's newest values.
//!   - A transaction that changes these values or deletes the row also deletes the row's old entry.
//!     If the pass has not reached that row yet, there is no old entry, and the deletion does no
//!     harm. The pass locks the row later, and so reads the new values.
//! - **ONLINE-BUILD-3.** Every row with a key up to the recorded progress has its entries. If the
//!   row existed before step 1, the pass visited the row, because the pass reads snapshots from
//!   after step 1. If the row was inserted or changed later, its transaction wrote the entries
//!   (ONLINE-BUILD-1).
//! - **ONLINE-BUILD-4.** No transaction fails because of a build.
//!   - A transaction that needs the lock of a row waits for at most one transaction of the pass
//!     (`pass`, TABLE-PASS-3).
//!   - A transaction waits for the table only while the build holds the table exclusively, or waits
//!     for that lock.
//!   - Writes of entries are not checked against snapshots (`executor/store`). So the entries that
//!     the pass writes cause no conflict in transactions with older snapshots.
//!   - A transaction may write a duplicate in a new index. Then the build fails, and not the
//!     transaction, if the duplicate still exists when the build checks it.
//! - **ONLINE-BUILD-5.** A transaction of the pass commits the entries of its rows together with
//!   the progress (TABLE-PASS-4). So after a crash the progress never includes a row without its
//!   entries. A resumed pass may write an entry that already exists, which changes nothing.
//! - **ONLINE-BUILD-6.** A finished unique index has no duplicates.
//!   - Duplicates from before the exclusive moment of step 3: the search of step 3 finds them,
//!     because it reads a snapshot from after that moment.
//!   - Later duplicates: suppose that a transaction gives row B the index values of row A. The
//!     entry of A exists already (ONLINE-BUILD-3), or the transaction that is about to write this
//!     entry holds the lock of these values (`executor/store`). The writer of B sees the entry, or
//!     does not get the lock at once. In both cases the writer records B. Step 4 sees the record,
//!     because step 4 holds the table exclusively and reads the newest state.
//! - **ONLINE-BUILD-7.** A statement reads through the index only if its snapshot includes the
//!   commit of step 4. Such a snapshot has all entries of the index. A statement with an older
//!   snapshot uses another access, or fails with 1412.
//! - **ONLINE-BUILD-8.** Every build ends: its indexes become part of the definition, or are
//!   removed together with their key spaces.
//!   - The indexes are removed if the statement is killed or fails, for example because of a
//!     duplicate.
//!   - If a crash or a shutdown interrupts a build, the next opening of the database resumes the
//!     build.
//!   - A removal or a resumed build needs the table exclusively for a moment. While it waits for
//!     the table, other sessions queue behind it, but only for a short time at once
//!     (`session/metadata`).
//!
//! Rejected: InnoDB's method, which reads the rows from one snapshot without locks, records later
//! changes of rows in a separate log, and applies this log at the end. The log would grow with
//! everything that is written during the build. And the build would have to hold the table
//! exclusively while it applies the last part of the log; here it holds the table only to check
//! recorded duplicates and to change the catalog.

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
