//! The tables of an engine. A change replaces the map of tables as a whole, so a lookup takes no
//! lock.
//!
//! - **TABLE-SET-1 (no lost change).** Of two concurrent changes, the later one includes the
//!   earlier one.
//! - **TABLE-SET-2 (one).** As long as a table is in the set, its number belongs to no other table.
//!   Creating a table that exists changes nothing.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use arc_swap::{ArcSwap, Guard};
use rustc_hash::FxHashMap;
use spillway_base::engine::Horizon;
use spillway_base::lock::Mutex;
use spillway_base::{Csn, Error, ErrorKind, Result, TableId};

use crate::level::Levels;
use crate::memtable::{Accounts, Memtable};
use crate::subtable::{SubTable, SubTableBounds};
use crate::table::Table;
use crate::table_visibility::TableVisibility;
use crate::tombstone_skip::{Figures, TombstoneSkip};

/// The tables by their numbers, at one moment.
pub(super) type Tables = FxHashMap<TableId, Arc<Table>>;

/// The tables of an engine.
pub(super) struct TableSet {
    /// The number of the engine, unique in the process.
    engine: u64,
    tables: ArcSwap<Tables>,
    /// Held while the map is replaced.
    changing: Mutex<()>,
    parts: NewSubTables,
}

/// What new sub-tables share.
pub(super) struct NewSubTables {
    /// The accounts of their memtables.
    pub(super) accounts: Accounts,
    /// Whether scans skip gaps in them.
    pub(super) gaps: bool,
    pub(super) gap_figures: Arc<Figures>,
}

impl NewSubTables {
    /// A sub-table with no gaps yet.
    pub(super) fn make(
        &self,
        table: TableId,
        bounds: SubTableBounds,
        flushed: Csn,
        levels: Levels,
    ) -> SubTable {
        let gaps = TombstoneSkip::new(self.gaps, self.gap_figures.clone());
        SubTable::new(table, bounds, flushed, levels, gaps, &self.accounts)
    }
}

/// A table that exists at a snapshot.
pub(super) fn table_at(tables: &Tables, id: TableId, snapshot: Csn) -> Result<&Table> {
    let table = tables.get(&id).map(|table| &**table).filter(|table| table.exists_at(snapshot));
    table.ok_or_else(|| {
        let message = format!("{id:?} does not exist at commit {snapshot}");
        Error::new(ErrorKind::NotFound, message)
    })
}

impl TableSet {
    /// The tables of an engine with this number, from [`crate::table_visibility::next_engine`].
    pub(super) fn new(engine: u64, tables: Tables, parts: NewSubTables) -> TableSet {
        let tables = ArcSwap::from_pointee(tables);
        TableSet { engine, tables, changing: Mutex::new(()), parts }
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

    fn change(&self, change: impl FnOnce(&mut Tables)) {
        let _changing = self.changing.lock();
        let mut tables = Tables::clone(&self.tables.load());
        change(&mut tables);
        self.tables.store(Arc::new(tables));
    }

    /// Adds an empty table that a commit created, unless the table is there.
    pub(super) fn create(&self, id: TableId, created: Csn) {
        self.change(|tables| {
            tables.entry(id).or_insert_with(|| {
                let all = (Box::default(), None);
                let part = self.parts.make(id, all, Csn::ZERO, Levels::default());
                let standing = TableVisibility::new(self.engine, id, created);
                Arc::new(Table::new(standing, vec![part], false))
            });
        });
    }

    /// Removes tables.
    pub(super) fn remove(&self, gone: &[Arc<Table>]) {
        self.change(|tables| gone.iter().for_each(|table| drop(tables.remove(&table.id))));
    }

    /// Whether the table still exists. The result holds while the manifest is locked.
    pub(super) fn contains(&self, table: &Table) -> bool {
        self.tables.load().contains_key(&table.id)
    }

    /// The numbers of the tables that were not dropped, ascending.
    pub(super) fn ids(&self) -> Vec<TableId> {
        let tables = self.tables.load();
        let there = tables.values().filter(|table| table.dropped() == Csn::MAX);
        let mut ids: Vec<TableId> = there.map(|table| table.id).collect();
        ids.sort_unstable();
        ids
    }

    /// Calls `act` with the visibility of a table, which each thread caches. `None` if there is no
    /// such table, and in a thread that is ending.
    #[inline]
    pub(super) fn with_visibility<T>(
        &self,
        id: TableId,
        act: impl FnOnce(&TableVisibility) -> T,
    ) -> Option<T> {
        let find = || self.tables.load().get(&id).map(|table| table.standing.clone());
        TableVisibility::with(self.engine, id, find, act)
    }

    /// All sub-tables, each with its table.
    pub(super) fn all_parts(&self) -> Vec<(Arc<Table>, Arc<SubTable>)> {
        let tables = self.tables.load();
        let of = |table: &Arc<Table>| {
            let table = table.clone();
            table.all_parts().into_iter().map(move |part| (table.clone(), part))
        };
        tables.values().flat_map(of).collect()
    }

    /// The bytes of all memtables.
    pub(super) fn memtables_bytes(&self) -> usize {
        self.tables.load().values().map(|table| table.memory_bytes()).sum()
    }

    /// The counters of the gaps of all sub-tables.
    pub(super) fn gap_figures(&self) -> &Figures {
        &self.parts.gap_figures
    }

    /// The CSN up to which everything would be persistent if the tables `gone` were dropped, and if
    /// the memtable of the sub-table in `without` were in extents.
    pub(super) fn persisted(
        &self,
        horizon: &dyn Horizon,
        gone: &[Arc<Table>],
        without: Option<(&Arc<SubTable>, &Arc<Memtable>)>,
    ) -> Csn {
        // Read the stable CSN first: everything up to it is installed, so the search below finds it
        // in a memtable or in extents. A commit that has a CSN and is not installed yet is above
        // it.
        let stable = horizon.stable();
        let tables = self.tables.load();
        let there =
            tables.values().filter(|&table| !gone.iter().any(|gone| Arc::ptr_eq(gone, table)));
        there.map(|table| table.persisted(without)).min().unwrap_or(Csn::MAX).min(stable)
    }

    /// Whether sealed memtables wait to be flushed.
    pub(super) fn has_sealed_memtables(&self) -> bool {
        let waits = |part: &SubTable| !part.view_now().immutables.is_empty();
        self.all_parts().iter().any(|(_, part)| waits(part))
    }

    /// Whether a job waits for a commit to become stable or for a snapshot to end: a flush, or the
    /// record of a table.
    pub(super) fn has_work_later(&self) -> bool {
        self.tables.load().values().any(|table| {
            let waits =
                table.parts().all().iter().any(|part| !part.view_now().immutables.is_empty());
            // A dropped table that is recorded as gone waits only for the snapshots that read it,
            // which may take long.
            let unrecorded = !table.recorded.load(Ordering::Acquire) || table.dropped() != Csn::MAX;
            waits || unrecorded && !table.is_gone()
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use spillway_base::EngineKind;
    use spillway_base::budget::Budget;

    use super::*;

    fn empty() -> TableSet {
        let parts = NewSubTables {
            accounts: Accounts::new(Budget::new(1 << 30), 0),
            gaps: true,
            gap_figures: Arc::default(),
        };
        TableSet::new(crate::table_visibility::next_engine(), Tables::default(), parts)
    }

    #[test]
    fn table_set_1_no_other_change_reads_the_map_during_a_change() {
        let set = empty();
        set.change(|_| assert!(set.changing.try_lock().is_none()));
        let ids = [1, 2].map(|ordinal| TableId::new(EngineKind::Tiered, ordinal));
        ids.iter().for_each(|id| set.create(*id, Csn(1)));
        assert_eq!(set.ids(), ids);
    }

    #[test]
    fn table_set_2_the_creation_of_a_table_that_is_there_changes_nothing() {
        let (set, id) = (empty(), TableId::new(EngineKind::Tiered, 1));
        set.create(id, Csn(1));
        let first = set.load()[&id].clone();
        set.create(id, Csn(2));
        assert!(Arc::ptr_eq(&first, &set.load()[&id]));
        assert_eq!(first.created, Csn(1));
        set.remove(&[first]);
        assert!(set.load().is_empty());
    }
}
