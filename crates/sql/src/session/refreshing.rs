//! Rows of earlier versions are written anew (`ddl/refresh`) by a thread, where a table's rows may have many.
//!
//! A change of columns is instant as long as the rows have no more than [`LAYOUTS_MAX`] versions beside the newest. Compactions
//! write rows in the newest version as they merge them (`rows`, V7), but say of none that it is gone. So at half as many a thread passes over
//! the table, as OPTIMIZE TABLE does, writes anew what compactions have left, and the versions before count no more.
//!
//! # Guarantees
//!
//! - **R1.** What a pass notes is true of all rows in the newest state, whatever changes of the table came meanwhile: each batch of
//!   rows is written under the definition of its moment, which none changes until the batch is committed, and what is noted is the version of
//!   the pass's beginning, or nothing where rows were copied or the table is gone.
//! - **R2.** Who uses the table waits for it no longer than for a batch of rows (`ddl/pass`, P3); neither does who changes it.
//! - **R3.** One thread passes over a table at a time. The next opening begins a pass anew that was cut off.

use std::sync::{Arc, Weak};
use std::time::Duration;

use spillway::{Mechanism, Transaction};
use spillway_base::thread;

use super::instance::{Inner, Instance};
use super::metadata::{Mode, Name, Patience, definition_of};
use crate::catalog::{Catalog, Change, TableDef};
use crate::ddl::{Pass, refresh};
use crate::errors::Result;
use crate::rows::LAYOUTS_MAX;

/// Versions beside the newest from which on rows are written anew.
const REFRESH_FROM: usize = LAYOUTS_MAX / 2;

/// A wait that only a shutdown ends.
const LONG: Duration = Duration::from_secs(365 * 24 * 3600);

/// A pass that is under way.
struct Refreshing {
    /// The table as the pass began.
    written: Arc<TableDef>,
    last: Vec<u8>,
}

impl Refreshing {
    fn new(table: &Arc<TableDef>) -> Refreshing {
        Refreshing { written: table.clone(), last: Vec::new() }
    }

    fn name(&self) -> Name {
        (self.written.db.clone(), self.written.name.clone())
    }

    /// Writes the next rows. `false` when there are none, which is noted then, and where the table's rows are others now.
    fn step(&mut self, instance: &Instance) -> Result<bool> {
        let (name, stop) = (self.name(), &instance.0.closing);
        let patience = Patience { wait: LONG, stop };
        let metadata = &instance.0.metadata;
        {
            let shared = vec![(name.clone(), Mode::Write)];
            let _shared = metadata.take(shared, 0, &patience, |_| false)?;
            let table = instance.0.catalog.load().table(&name.0, &name.1)?.clone();
            if table.space != self.written.space {
                return Ok(false);
            }
            let stopped = || stop.is_asked();
            let db = instance.database();
            let pass = Pass { db, table: &table, stopped: &stopped, begun: &|_| {} };
            if pass.refresh(&mut self.last)? {
                return Ok(true);
            }
        }
        let _definition = metadata.take(definition_of(&name), 0, &patience, |_| false)?;
        let body = |txn: &Transaction, catalog: &Catalog| {
            let table = catalog.table(&name.0, &name.1)?;
            refresh::finish(&Change::new(txn)?, table, &self.written)
        };
        instance.change_catalog(LONG, body, |(), _| {})?;
        Ok(false)
    }
}

/// Holds the instance only while a step is taken, so that it ends with its last user.
fn run(mut refreshing: Refreshing, instance: &Weak<Inner>) {
    loop {
        let Some(instance) = instance.upgrade().map(Instance) else { return };
        match refreshing.step(&instance) {
            Ok(true) => {}
            // Versions may have come meanwhile.
            Ok(false) => match instance.crowded_again(&refreshing.written) {
                Some(table) => refreshing = Refreshing::new(&table),
                None => return,
            },
            // The next change of the table, or the next opening, begins anew.
            Err(_) => {
                instance.0.refreshing.lock().remove(&refreshing.written.id);
                return;
            }
        }
    }
}

fn is_crowded(table: &TableDef) -> bool {
    table.versions_kept() >= REFRESH_FROM
}

impl Instance {
    /// Has threads write the rows anew of those tables whose rows may have many versions.
    pub(super) fn refresh_crowded<'t>(&self, tables: impl Iterator<Item = &'t Arc<TableDef>>) {
        let settings = self.0.db.settings();
        if !settings.background_threads || !settings.has(Mechanism::RowRefresh) {
            return;
        }
        for table in tables.filter(|table| is_crowded(table)) {
            if self.0.closing.is_asked() || !self.0.refreshing.lock().insert(table.id) {
                continue;
            }
            let (refreshing, weak) = (Refreshing::new(table), Arc::downgrade(&self.0));
            let mut builders = self.0.builders.lock();
            builders.retain(|builder| !builder.is_finished());
            match thread::spawn("row refresher", move || run(refreshing, &weak)) {
                Ok(thread) => builders.push(thread),
                Err(_) => drop(self.0.refreshing.lock().remove(&table.id)),
            }
        }
    }

    /// The table of a pass that has ended, if its rows may have many versions again; else others may pass over it.
    fn crowded_again(&self, passed: &TableDef) -> Option<Arc<TableDef>> {
        let mut refreshing = self.0.refreshing.lock();
        // Whoever changes the table later than this is seen here finds that nobody passes over it.
        let catalog = self.0.catalog.load_full();
        let again = catalog.table(&passed.db, &passed.name).ok().filter(|table| is_crowded(table));
        if again.is_none_or(|table| table.id != passed.id) {
            refreshing.remove(&passed.id);
        }
        again.filter(|table| table.id == passed.id).cloned()
    }
}

#[cfg(test)]
mod tests;
