//! The tables of an engine. A change replaces the map of tables as a whole, so a lookup takes no
//! lock.
//!
//! - **MEMORY-TABLES-1 (no lost change).** Of two concurrent changes, the later one includes the
//!   earlier one.
//! - **MEMORY-TABLES-2 (one).** As long as a table is in the set, its number belongs to no other
//!   table. A creation of a table that exists changes nothing.
//! - **MEMORY-TABLES-3 (charged).** The arrays and the indexes of all tables are charged to the
//!   engine's budget.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use rustc_hash::FxHashMap;
use spillway_base::budget::Budget;
use spillway_base::lock::Mutex;
use spillway_base::{Csn, Error, ErrorKind, Result, TableId};
use spillway_reclaim::epochs::Epochs;

use crate::index::{Index, NodeMemory};
use crate::slab::Slabs;
use crate::table::Table;

/// The tables by their numbers, at one moment.
pub(super) type Tables = FxHashMap<TableId, Arc<Table>>;

/// The tables of an engine.
pub(super) struct TableSet {
    tables: ArcSwap<Tables>,
    /// Held while the map is replaced.
    changing: Mutex<()>,
    /// The allocator of the indexes.
    nodes: Arc<NodeMemory>,
    /// The epochs of the indexes' readers.
    epochs: Arc<Epochs>,
    budget: Budget,
}

impl TableSet {
    /// No tables.
    pub(super) fn new(epochs: Arc<Epochs>, budget: &Budget) -> TableSet {
        TableSet {
            tables: ArcSwap::default(),
            changing: Mutex::new(()),
            nodes: Arc::new(NodeMemory::charged(Slabs::new(budget))),
            epochs,
            budget: budget.clone(),
        }
    }

    /// The current tables, for a short use.
    #[inline]
    pub(super) fn load(&self) -> Guard<Arc<Tables>> {
        self.tables.load()
    }

    /// The current tables, as a counted reference.
    pub(super) fn load_full(&self) -> Arc<Tables> {
        self.tables.load_full()
    }

    /// The table, if it exists at this snapshot.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`].
    pub(super) fn table_at(&self, id: TableId, snapshot: Csn) -> Result<Arc<Table>> {
        let tables = self.load();
        let table = tables.get(&id).filter(|table| table.exists_at(snapshot));
        table.cloned().ok_or_else(|| missing(id, snapshot))
    }

    /// An empty table that is not in the set.
    pub(super) fn new_table(&self, id: TableId, created: Csn) -> Table {
        let index = Index::new(self.epochs.clone(), self.nodes.clone());
        Table::new(id, created, index, &self.budget)
    }

    /// Adds an empty table that a commit created, unless the table is there.
    pub(super) fn create(&self, id: TableId, created: Csn) {
        self.change(|tables| {
            tables.entry(id).or_insert_with(|| Arc::new(self.new_table(id, created)));
        });
    }

    /// Removes a table that no snapshot sees.
    pub(super) fn remove(&self, id: TableId) {
        self.change(|tables| _ = tables.remove(&id));
    }

    /// Replaces all tables, at an opening.
    pub(super) fn set(&self, tables: Tables) {
        self.change(|all| *all = tables);
    }

    fn change(&self, change: impl FnOnce(&mut Tables)) {
        let _changing = self.changing.lock();
        let mut tables = Tables::clone(&self.tables.load());
        change(&mut tables);
        self.tables.store(Arc::new(tables));
    }

    /// The allocator of the indexes.
    pub(super) fn nodes(&self) -> &NodeMemory {
        &self.nodes
    }
}

pub(super) fn missing(table: TableId, snapshot: Csn) -> Error {
    Error::new(ErrorKind::NotFound, format!("{table:?} does not exist at {snapshot:?}"))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use spillway_base::EngineKind;

    use super::*;

    /// MEMORY-TABLES-1 and MEMORY-TABLES-2.
    #[test]
    fn concurrent_creations_are_all_kept_and_an_existing_table_stays() {
        let tables = TableSet::new(Arc::default(), &Budget::new(64 << 20));
        let id = |number| TableId::new(EngineKind::Memory, number);
        std::thread::scope(|scope| {
            for first in 1..5 {
                let tables = &tables;
                let create = move |number| tables.create(id(number), Csn(5));
                scope.spawn(move || (first..40).step_by(4).for_each(create));
            }
        });
        assert_eq!(tables.load().len(), 39);
        tables.create(id(1), Csn(9));
        assert!(tables.table_at(id(1), Csn(5)).is_ok());
        assert!(tables.table_at(id(1), Csn(4)).is_err());
        tables.remove(id(1));
        assert_eq!((tables.load().len(), tables.table_at(id(1), Csn(9)).is_err()), (38, true));
    }
}
