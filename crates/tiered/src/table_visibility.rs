//! The properties of a table that a lookup of a cached row needs: the CSNs between which the table
//! exists, and the tag of its rows.
//!
//! These properties are in a small object apart from the table, and each thread caches the objects
//! of the tables that it reads. So a hit in the row cache does not load the list of tables. Loading
//! the list would cost two writes to shared memory. The cache of an idle thread may keep the object
//! of a dropped table, but this object does not keep the table's memory allocated.
//!
//! - **TABLE-VISIBILITY-1 (one).** A table of an engine has exactly one [`TableVisibility`] as long
//!   as any thread holds the object, and no two tables share one. All changes of the object go
//!   through its methods.
//! - **TABLE-VISIBILITY-2 (dropped).** A reader whose snapshot includes the commit that drops the
//!   table finds the table dropped, even if the reader's thread cached the object before the drop.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use spillway_base::{Csn, TableId};

use crate::cache::{RowCache, Tag};

/// The number of tables whose visibility a thread caches.
const KEPT: usize = 16;
const NO_ERA: u64 = u64::MAX;

/// The existence of a table, and the era of its cached rows.
pub(crate) struct TableVisibility {
    pub(crate) id: TableId,
    /// The number of the engine, from [`next_engine`].
    engine: u64,
    pub(crate) created: Csn,
    /// The commit that dropped it; [`Csn::MAX`] while it exists.
    dropped: AtomicU64,
    /// The tag of its rows in the row cache: zero before the first read, [`NO_ERA`] if no eras are
    /// left.
    era: AtomicU64,
}

thread_local! {
    static OF_THREAD: RefCell<[Option<Arc<TableVisibility>>; KEPT]> = const { RefCell::new([const { None }; KEPT]) };
}

/// A number for an engine, unique in this process.
pub(crate) fn next_engine() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl TableVisibility {
    /// The visibility of a table that exists from a commit on.
    pub(crate) fn new(engine: u64, id: TableId, created: Csn) -> Arc<TableVisibility> {
        let (dropped, era) = (AtomicU64::new(u64::MAX), AtomicU64::new(0));
        Arc::new(TableVisibility { id, engine, created, dropped, era })
    }

    /// Calls `act` with the visibility that this thread has cached for a table. If it has none, or
    /// the table was dropped, it caches the result of `find` first. Returns `None` if `find` does,
    /// and in a thread that is ending.
    #[inline]
    pub(crate) fn with<T>(
        engine: u64,
        id: TableId,
        find: impl FnOnce() -> Option<Arc<TableVisibility>>,
        act: impl FnOnce(&TableVisibility) -> T,
    ) -> Option<T> {
        let kept = OF_THREAD.try_with(|kept| {
            let mut kept = kept.borrow_mut();
            let kept = &mut kept[id.0 as usize % KEPT];
            let is_it = |kept: &Arc<TableVisibility>| {
                // The number of a dropped table may belong to another table.
                kept.id == id && kept.engine == engine && kept.dropped() == Csn::MAX
            };
            if !kept.as_ref().is_some_and(is_it) {
                *kept = find();
            }
            kept.as_deref().map(act)
        });
        kept.ok().flatten()
    }

    pub(crate) fn dropped(&self) -> Csn {
        Csn(self.dropped.load(Ordering::Acquire))
    }

    /// Whether the table exists at a snapshot (E5). [`Csn::MAX`] is past every commit, including
    /// the one that drops the table.
    #[inline]
    pub(crate) fn exists_at(&self, snapshot: Csn) -> bool {
        let dropped = self.dropped();
        self.created <= snapshot && (snapshot < dropped || dropped == Csn::MAX)
    }

    pub(crate) fn mark_dropped(&self, csn: Csn) {
        self.dropped.fetch_min(csn.0, Ordering::AcqRel);
    }

    /// The tag of its rows in the row cache; `None` if they must not be cached.
    #[inline]
    pub(crate) fn era(&self, rows: &RowCache) -> Option<Tag> {
        // Acquire: a reader in an era sees the change that began the era (ROW-CACHE-3).
        let mut era = self.era.load(Ordering::Acquire);
        if era == 0 {
            let first = rows.new_era(self.id).map_or(NO_ERA, Tag::to_raw);
            let set = self.era.compare_exchange(0, first, Ordering::AcqRel, Ordering::Acquire);
            era = set.map_or_else(|era| era, |_| first);
        }
        (era != NO_ERA).then(|| Tag::from_raw(era))
    }

    /// Begins a new era. Call it when rows were hidden otherwise than by newer versions of them, or
    /// when cached forms of rows must no longer be found.
    pub(crate) fn begin_era(&self, rows: &RowCache) {
        let next = rows.new_era(self.id).map_or(NO_ERA, Tag::to_raw);
        // A swap, so that if two threads begin an era, a reader in the second one's era also sees
        // the change that began the first.
        self.era.swap(next, Ordering::AcqRel);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const TABLE: TableId = TableId(3);

    fn created(engine: u64, table: TableId, find: Option<&Arc<TableVisibility>>) -> Option<Csn> {
        TableVisibility::with(engine, table, || find.cloned(), |standing| standing.created)
    }

    /// TABLE-VISIBILITY-1: a table in the same place of the thread's cache, and a table of another
    /// engine with the same number, are not confused.
    #[test]
    fn table_visibility_1_what_a_thread_keeps_is_of_that_table() {
        let engines = [next_engine(), next_engine()];
        let other = TableId(TABLE.0 + KEPT as u32);
        let tables = [(engines[0], TABLE), (engines[1], TABLE), (engines[0], other)];
        let all = [1, 2, 3].map(Csn);
        for round in 0..2 {
            for (at, (engine, id)) in tables.into_iter().enumerate() {
                let standing = TableVisibility::new(engine, id, all[at]);
                assert_eq!(created(engine, id, None), None, "of none in round {round}");
                assert_eq!(created(engine, id, Some(&standing)), Some(all[at]));
                assert_eq!(created(engine, id, None), Some(all[at]), "it is kept");
            }
        }
    }

    #[test]
    fn table_visibility_2_what_was_kept_tells_that_the_table_was_dropped() {
        let engine = next_engine();
        let standing = TableVisibility::new(engine, TABLE, Csn(4));
        let exists = |csn| {
            let exists = |kept: &TableVisibility| kept.exists_at(Csn(csn));
            TableVisibility::with(engine, TABLE, || Some(standing.clone()), exists)
        };
        assert_eq!([3, 4, 9].map(exists), [Some(false), Some(true), Some(true)]);
        standing.mark_dropped(Csn(7));
        assert_eq!([6, 7, 9].map(exists), [Some(true), Some(false), Some(false)]);
    }
}
