//! Rewrites rows of earlier versions (`catalog/stored_rows`) in the newest version, in passes over
//! the table (`pass`), while the table is read and written.
//!
//! # Guarantees
//!
//! - **ROW-REWRITE-1.** A rewritten row keeps the values that it has when the pass locks it. The
//!   pass does not change the row's key or index entries.
//! - **ROW-REWRITE-2.** Once a pass is complete, every row in the newest state has the version that
//!   the pass wrote, or a later one: the pass visited the existing rows, and rows that were
//!   inserted or changed meanwhile were written under that version, too. The definition records
//!   this (`TableDef::fresh_from`) only once those rows are persisted in data files: before that,
//!   recovery from the log may restore the earlier form of a row that a compaction rewrote (E11).
//!   The memory engine needs no such wait: only transactions write its rows, so the log has the
//!   newest form. A pass that is cut off does not lose what it has rewritten.
//! - **ROW-REWRITE-3.** The definition keeps layouts of earlier versions as long as older snapshots
//!   may read rows of these versions, but does not count them as versions that rows may have. The
//!   end of a later pass removes the layouts, if no snapshot from before the end of this pass
//!   exists then. The next opening also removes them, because no snapshot exists then. Caches may
//!   hold rows in an earlier form, because a compaction rewrote them in the files only; with the
//!   layouts, these rows are dropped from the caches.
//!
//! A transaction that took its snapshot before a row was rewritten, and then changes the row, fails
//! with a conflict (1213) as after any change of the row, although the values are the same. This
//! happens under REPEATABLE READ and SERIALIZABLE while a pass runs, and the client retries. Two
//! alternatives were rejected. A pass could wait until no such transaction is open, but that may be
//! never. A version could be marked as a new form of the same values, but each place that keeps
//! versions would have to know the mark. Rows that compactions rewrite (`catalog/stored_rows`,
//! STORED-ROW-7) cause no conflict, and the pass skips them; but which rows are merged, and when,
//! is up to the compactions.

use spillway::{Database, EngineKind, LockMode, Transaction, TransactionOptions};
use spillway_base::thread::blocking;

use super::pass::{BATCH_BYTES, Pass, Visitor};
use crate::catalog::{Catalog, Change, TableDef, stored_rows};
use crate::errors::Result;

struct Refresh<'a> {
    table: &'a TableDef,
    bytes: Vec<u8>,
    installed: &'a dyn Fn(),
}

impl Visitor for Refresh<'_> {
    const LOCK: LockMode = LockMode::Exclusive;
    const READ_BYTES: usize = BATCH_BYTES;

    fn row(&mut self, txn: &Transaction, key: &[u8], bytes: &[u8]) -> Result<usize> {
        if stored_rows::is_newest(self.table, bytes)? {
            return Ok(0);
        }
        let mut row = Vec::new();
        self.table.decode(bytes, &mut row)?;
        self.bytes.clear();
        stored_rows::write(self.table, &row, &mut self.bytes);
        txn.put(self.table.rows(), key, &self.bytes)?;
        Ok(key.len() + self.bytes.len())
    }

    fn done(&mut self, _: &Transaction, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn installed(&mut self) {
        (self.installed)();
    }
}

impl Pass<'_> {
    /// Rewrites the rows of earlier versions among the next rows after `last`, in one transaction,
    /// and advances `last`. Visits no row if another transaction holds the lock of the first one
    /// for too long. Returns `false` if there were no more rows. Calls `installed` once other
    /// transactions see the rows.
    pub(crate) fn refresh(&self, last: &mut Vec<u8>, installed: &dyn Fn()) -> Result<bool> {
        self.visit(last, &mut Refresh { table: self.table, bytes: Vec::new(), installed })
    }

    /// Makes the rewritten rows persistent, once all rows were visited. [`finish`] may record the
    /// result only after that.
    pub(crate) fn persist(&self) -> Result<()> {
        if self.table.engine == EngineKind::Memory {
            return Ok(());
        }
        // Another thread of the pool can serve clients meanwhile.
        Ok(blocking(|| self.db.persist())?)
    }
}

/// Records that a pass with the definition `written` is complete. The stored definition `table` may
/// be newer than the one that the pass had, if the catalog in memory could not be read again
/// meanwhile. Then rows have an earlier version than the stored definition's newest. Drops the
/// layouts of versions before `unread`, because no snapshot sees a row of these versions
/// (ROW-REWRITE-3). Returns the earliest version that rows have now, or `None` if the rows were
/// copied meanwhile.
pub(crate) fn finish(
    change: &Change<'_>,
    table: &TableDef,
    written: &TableDef,
    unread: u16,
) -> Result<Option<u16>> {
    if table.space != written.space {
        return Ok(None);
    }
    let mut table = table.clone();
    table.fresh_from = table.fresh_from.max(written.schema);
    table.layouts.retain(|layout| layout.schema >= unread);
    change.put_table(&table)?;
    Ok(Some(table.fresh_from))
}

/// Drops the layouts of which no row exists any more: no row in the newest state has one, and there
/// are no older snapshots (ROW-REWRITE-3). Returns whether there were any.
pub(crate) fn forget_layouts(db: &Database, catalog: &Catalog) -> Result<bool> {
    let txn = db.begin(TransactionOptions::new());
    let change = Change::new(&txn)?;
    let mut any = false;
    for table in catalog.tables.values() {
        if table.versions_kept() < table.layouts.len() {
            let mut table = (**table).clone();
            table.layouts.retain(|layout| layout.schema >= table.fresh_from);
            change.put_table(&table)?;
            any = true;
        }
    }
    if any {
        txn.commit().wait()?;
    }
    Ok(any)
}

#[cfg(test)]
mod tests;
