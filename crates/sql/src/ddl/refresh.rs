//! Rewrites rows of earlier schema versions (`catalog/stored_rows`) in the newest version. A pass
//! (`pass`) visits the rows while other sessions read and write the table.
//!
//! # Guarantees
//!
//! - **ROW-REWRITE-1.** A rewritten row keeps the values that it has when the pass locks it. The
//!   pass does not change the row's key or index entries.
//! - **ROW-REWRITE-2.** Once a pass is complete, every row in the newest state has the version that
//!   the pass writes, or a later one. The pass has rewritten the rows that existed. Every
//!   transaction that inserted or changed a row during the pass wrote this version or a later one.
//!   If a pass is interrupted, the rows that it has rewritten keep the new version.
//!
//!   The definition records the completion (`TableDef::fresh_from`) only once all rows that the
//!   pass visited are persistent, so that recovery no longer reads them from the log. This is
//!   necessary because flushes and compactions also rewrite rows (E11). The pass skips these rows,
//!   and their rewrites are not in the log. A data file may have such a row before the engine
//!   records the row's commit as persistent (E6). After a crash, recovery then installs this commit
//!   from the log again, and the row is back in its earlier form.
//!
//!   Tables of the memory engine need no such wait. Only transactions rewrite rows of these tables,
//!   so the log has the new form.
//! - **ROW-REWRITE-3.** After a pass, the definition keeps the layouts of earlier versions as long
//!   as a snapshot from before the end of the pass may read rows of these versions. Such layouts do
//!   not count towards the limit of versions. When a later pass ends, it removes these layouts if
//!   no such snapshot exists any more. The next opening of the database also removes them, because
//!   no snapshot exists at an opening.
//!
//!   Before layouts are removed, caches drop rows of the removed versions. The caches may have such
//!   rows, because a compaction that rewrites a row leaves the row's earlier form in the caches.
//!
//! A rewrite counts as a change of the row. If a transaction has a snapshot from before the rewrite
//! and then changes the row, it fails with a conflict (1213), although the values are the same.
//! Such a conflict can occur while a pass runs, under SERIALIZABLE, and under REPEATABLE READ with
//! `innodb_snapshot_isolation`. The client then runs its transaction again. Rows that compactions
//! rewrite (STORED-ROW-7) cause no conflict, and the pass skips them. But compactions alone are not
//! enough, because it may take a long time until they reach a row.
//!
//! Rejected: a pass that waits until no transaction with an older snapshot is open. It would cause
//! no conflict, but might wait forever. Also rejected: a mark on a version of a row, which says
//! that the version is only a new form of the same values. With the mark, no conflict would arise.
//! But every component that keeps versions would have to handle it.

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
