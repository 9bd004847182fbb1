//! A thread that rewrites rows of earlier schema versions (`ddl/refresh`) when a table's rows may
//! have many schema versions.
//!
//! A change of columns can be instant as long as the rows have no more than [`LAYOUTS_MAX`]
//! versions apart from the newest. A compaction converts the rows that it merges to the newest
//! version (`catalog/stored_rows`, STORED-ROW-7), but does not report when the last row of a
//! version has disappeared. So when a table has half of [`LAYOUTS_MAX`] earlier versions, the
//! thread makes a pass over the table, as OPTIMIZE TABLE does. The pass rewrites all rows that
//! still have an earlier version. After that, the earlier versions do not count towards the limit.
//!
//! # Guarantees
//!
//! - **REWRITE-THREAD-1.** When a pass is complete, it records in the catalog that no row in the
//!   newest state has an older version than the one that was newest when the pass began. This is
//!   true even if the table's definition changed during the pass: each batch of rows is written
//!   under the present definition, which cannot change before the batch is installed. The pass
//!   records nothing if an ALTER TABLE copied the rows, or if the table was dropped.
//! - **REWRITE-THREAD-2.** No session waits for a pass longer than one transaction of the pass
//!   takes (`ddl/pass`, TABLE-PASS-3). This includes a session that waits for the table's exclusive
//!   metadata lock, and the sessions that queue behind that session.
//!   - The pass takes the table's metadata lock in shared mode for one transaction, and releases it
//!     once the transaction is installed. So the pass does not hold the metadata lock while it
//!     waits for the log, or while the throttle makes it sleep.
//!   - While the pass waits for the lock of a row, at most one second at a time, it keeps the
//!     metadata lock.
//!   - A transaction with an older snapshot may still fail with a conflict (1213) because the pass
//!     has rewritten a row (`ddl/refresh`).
//! - **REWRITE-THREAD-3.** One thread runs the passes over all tables in turns, so that no pass
//!   waits for the end of a pass over a large table. The next opening of the database restarts
//!   passes that a shutdown or a crash interrupted.
//! - **REWRITE-THREAD-4.** A pass continues until it is complete, or until its table is dropped or
//!   copied.
//!   - If the table is renamed, the pass continues.
//!   - If a pass fails, it continues later from the row that it had reached. When all passes have
//!     failed, one after the other, the thread pauses before it tries again.
//!   - A pass that panics ends the thread. The next change of a table starts a new thread, which
//!     continues the other passes.

mod passes;

use std::cell::Cell;
use std::sync::{Arc, Weak};
use std::time::Duration;

use spillway::{Mechanism, Transaction};
use spillway_base::thread;

use super::instance::{Inner, Instance};
use super::metadata::{MetadataLockMode, WaitLimits, definition_of};
use crate::catalog::{Catalog, Change, LAYOUTS_MAX, TableDef};
use crate::ddl::{Pass, refresh};
use crate::errors::Result;
use crate::process::Stop;
use passes::{Refreshing, name_of};

pub(super) use passes::RefreshPasses;

/// The number of versions, apart from the newest, at which a pass starts.
const REFRESH_FROM: usize = LAYOUTS_MAX / 2;

/// How long a pass waits for a table before other passes have their turn.
const WAIT: Duration = Duration::from_secs(1);
impl Refreshing {
    /// The table's current definition.
    fn table(&self, instance: &Instance) -> Option<Arc<TableDef>> {
        let catalog = instance.0.catalog.load();
        let is_it = |table: &&Arc<TableDef>| table.id == self.written.id;
        let named = catalog.table(&self.name.0, &self.name.1).ok().filter(is_it);
        named.or_else(|| catalog.tables.values().find(is_it)).cloned()
    }

    /// Rewrites the next rows. Returns `false` if there are none, after recording that in the
    /// catalog, or if the table is gone or its rows were copied.
    fn step(&mut self, instance: &Instance) -> Result<bool> {
        let stop = &instance.0.closing;
        let limits = WaitLimits::new(WAIT, stop);
        let Some(table) = self.table(instance) else { return Ok(false) };
        self.name = name_of(&table);
        let names = vec![(self.name.clone(), MetadataLockMode::Write)];
        let share = Cell::new(Some(instance.0.metadata.take(names, 0, &limits, |_| None)?));
        let give_back = || drop(share.take());
        let Some(table) = self.table(instance).filter(|table| name_of(table) == self.name) else {
            // The table was dropped or renamed before this pass locked it.
            return Ok(true);
        };
        if self.last.is_empty() {
            self.written = table.clone();
        } else if table.space != self.written.space {
            return Ok(false);
        }
        let stopped = || stop.is_asked();
        let db = instance.database();
        let pass = Pass { db, table: &table, stopped: &stopped, begun: &|_| {} };
        let before = self.last.clone();
        if pass.refresh(&mut self.last, &give_back)? {
            // A pass whose next row is locked gives up its turn.
            self.turn = if before == self.last { 0 } else { self.turn.saturating_sub(1) };
            return Ok(true);
        }
        give_back();
        pass.persist()?;
        self.finish(instance, &limits)
    }

    /// Records that all rows are rewritten. Returns `true` if the caller must try again.
    fn finish(&self, instance: &Instance, limits: &WaitLimits<'_>) -> Result<bool> {
        let definition = definition_of(&self.name);
        let _definition = instance.0.metadata.take(definition, 0, limits, |_| None)?;
        if self.table(instance).is_some_and(|table| name_of(&table) != self.name) {
            return Ok(true);
        }
        instance.finish_refresh(&self.written, limits.wait)?;
        Ok(false)
    }
}

/// The pass that the thread is running. After a panic, the next change of a table starts another
/// thread for the remaining passes. The pass that panicked starts again at the next change of its
/// own table or at the next opening.
struct Running<'r> {
    refreshes: &'r RefreshPasses,
    table: u32,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut state = self.refreshes.state.lock();
            state.tables.remove(&self.table);
            state.has_thread = false;
        }
    }
}

/// Holds the instance only during a step, so that its last user can still drop it.
fn run(refreshes: &RefreshPasses, closing: &Stop, instance: &Weak<Inner>) {
    while let Some(mut refreshing) = refreshes.next() {
        let _running = Running { refreshes, table: refreshing.written.id };
        let Some(instance) = instance.upgrade().map(Instance) else { return };
        match refreshing.step(&instance) {
            _ if closing.is_asked() => return,
            Ok(true) => refreshes.went(refreshing),
            Ok(false) => instance.passed(&refreshing),
            Err(_) => {
                drop(instance);
                refreshes.failed(refreshing, closing);
            }
        }
    }
}

fn is_crowded(table: &TableDef) -> bool {
    table.versions_kept() >= REFRESH_FROM
}

impl Instance {
    /// Starts passes over the tables whose rows may have many versions.
    pub(super) fn refresh_crowded<'t>(&self, tables: impl Iterator<Item = &'t Arc<TableDef>>) {
        let settings = self.0.db.settings();
        if !settings.background_threads || !settings.has(Mechanism::RowRefresh) {
            return;
        }
        for table in tables.filter(|table| is_crowded(table)) {
            let mut state = self.0.refreshing.state.lock();
            if state.tables.insert(table.id) {
                state.waiting.push_back(Refreshing::new(table));
                self.0.refreshing.changed.notify_all();
            }
        }
        self.have_refresher();
    }

    /// Records that a pass under the definition `written` is complete. Removes the layouts that
    /// only snapshots from before the end of an earlier pass could need, if no such snapshot is
    /// left (`ddl/refresh`, ROW-REWRITE-3).
    pub(super) fn finish_refresh(&self, written: &TableDef, wait: Duration) -> Result<()> {
        let refreshes = &self.0.refreshing;
        let unread = refreshes.unread_below(written.space, self.0.db.oldest_snapshot());
        let body = |txn: &Transaction, catalog: &Catalog| {
            let mut tables = catalog.tables.values();
            let Some(table) = tables.find(|table| table.id == written.id) else { return Ok(None) };
            refresh::finish(&Change::new(txn)?, table, written, unread)
        };
        self.change_catalog(wait, body, |version, csn| match version {
            Some(version) => refreshes.note_end(written.space, (version, csn), unread),
            None => refreshes.forget(written.space),
        })
    }

    /// Starts the thread, if it has something to do (REWRITE-THREAD-3).
    fn have_refresher(&self) {
        let mut state = self.0.refreshing.state.lock();
        if self.0.closing.is_asked() || state.has_thread || state.waiting.is_empty() {
            return;
        }
        let (refreshes, closing) = (self.0.refreshing.clone(), self.0.closing.clone());
        let weak = Arc::downgrade(&self.0);
        let mut builders = self.0.builders.lock();
        builders.retain(|builder| !builder.is_finished());
        // If no thread can be started, the next change of a table tries again.
        if let Ok(thread) = thread::spawn("row refresher", move || run(&refreshes, &closing, &weak))
        {
            builders.push(thread);
            state.has_thread = true;
        }
    }

    /// Forgets a pass that has ended, or restarts it if the table's rows may have many versions
    /// again.
    fn passed(&self, refreshing: &Refreshing) {
        let mut state = self.0.refreshing.state.lock();
        (state.failed, state.pauses) = (0, 0);
        // With the lock held, a later change of the table finds that no pass runs over it.
        match refreshing.table(self).filter(|table| is_crowded(table)) {
            Some(table) => state.waiting.push_back(Refreshing::new(&table)),
            None => drop(state.tables.remove(&refreshing.written.id)),
        }
    }
}

#[cfg(test)]
mod tests;
