//! A table: its sub-tables, and the CSNs between which it exists.
//!
//! A split or join replaces the list of sub-tables as a whole. A reader that found a sub-table in
//! the old list continues to read that sub-table. The old sub-table has all commits up to the
//! reader's snapshot, because these commits were installed before the reader began (E2). A writer
//! that finds its sub-table closed looks up the sub-table of its key again.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::{ArcSwap, Guard};
use spillway_base::engine::Rewrite;
use spillway_base::lock::Mutex;
use spillway_base::{Csn, KeyRange, TableId};

use crate::memtable::Memtable;
use crate::subtable::SubTable;
use crate::table_visibility::TableVisibility;

impl Deref for Table {
    type Target = TableVisibility;

    fn deref(&self) -> &TableVisibility {
        &self.standing
    }
}

/// The rewrite of a table's values, and the commit that introduced it, if there is one (E11).
#[derive(Clone, Default)]
pub(crate) struct TableRewrite(Option<(Csn, Arc<dyn Rewrite>)>);

impl TableRewrite {
    /// The rewrite.
    pub(crate) fn get(&self) -> Option<&dyn Rewrite> {
        self.0.as_ref().map(|(_, rewrite)| &**rewrite)
    }

    /// The commit that introduced it.
    pub(crate) fn since(&self) -> Option<Csn> {
        self.0.as_ref().map(|(since, _)| *since)
    }
}

/// A table of the engine.
pub(crate) struct Table {
    pub(crate) id: TableId,
    /// The CSNs between which it exists, and the tag of its cached rows.
    pub(crate) standing: Arc<TableVisibility>,
    /// Whether the manifest has recorded it.
    pub(crate) recorded: AtomicBool,
    /// Whether the manifest has recorded that it was dropped.
    gone: AtomicBool,
    parts: ArcSwap<Parts>,
    rewriting: Mutex<TableRewrite>,
    refusal: Mutex<Option<String>>,
}

/// All sub-tables of a table, in key order. Each ends where the next one starts.
pub(crate) struct Parts(Vec<Arc<SubTable>>);

impl Parts {
    /// All, in key order.
    pub(crate) fn all(&self) -> &[Arc<SubTable>] {
        &self.0
    }

    /// The sub-table of a key.
    pub(crate) fn of(&self, key: &[u8]) -> &Arc<SubTable> {
        match &self.0[..] {
            [only] => only,
            all => &all[all[1..].partition_point(|part| *part.start <= *key)],
        }
    }

    /// The sub-tables of a key range.
    pub(crate) fn within(&self, range: KeyRange<'_>) -> &[Arc<SubTable>] {
        let from = self.0[1..].partition_point(|part| *part.start <= *range.start);
        let ends = |part: &Arc<SubTable>| range.end.is_none_or(|end| *part.start < *end);
        let count = self.0[from + 1..].partition_point(ends);
        &self.0[from..=from + count]
    }
}

impl Table {
    /// A table of these sub-tables, at least one.
    pub(crate) fn new(
        standing: Arc<TableVisibility>,
        parts: Vec<SubTable>,
        recorded: bool,
    ) -> Table {
        Table {
            id: standing.id,
            standing,
            recorded: AtomicBool::new(recorded),
            gone: AtomicBool::new(false),
            parts: ArcSwap::from_pointee(Parts(parts.into_iter().map(Arc::new).collect())),
            rewriting: Mutex::default(),
            refusal: Mutex::default(),
        }
    }

    /// Sets the rewrite of its values, which applies once the commit `since` is stable (E11).
    pub(crate) fn set_rewrite(&self, since: Csn, rewrite: Option<Arc<dyn Rewrite>>) {
        *self.rewriting.lock() = TableRewrite(rewrite.map(|rewrite| (since, rewrite)));
    }

    /// The rewrite of its values for work that begins now.
    pub(crate) fn rewrite(&self, stable: Csn) -> TableRewrite {
        let TableRewrite(rewriting) = self.rewriting.lock().clone();
        TableRewrite(rewriting.filter(|(since, _)| *since <= stable))
    }

    /// Records the last merge that was refused, and the reason.
    pub(crate) fn note_refusal(&self, told: String) {
        *self.refusal.lock() = Some(told);
    }

    /// The reason of the last refused merge.
    pub(crate) fn refusal(&self) -> Option<String> {
        self.refusal.lock().clone()
    }

    /// Its current sub-tables, for a short use.
    pub(crate) fn parts(&self) -> Guard<Arc<Parts>> {
        self.parts.load()
    }

    /// Its current sub-tables, as a counted reference.
    pub(crate) fn all_parts(&self) -> Vec<Arc<SubTable>> {
        self.parts.load().0.clone()
    }

    /// Replaces closed sub-tables by others that cover the same keys. The manifest is locked.
    pub(crate) fn replace(&self, old: &[&Arc<SubTable>], new: Vec<SubTable>) {
        let mut parts = self.all_parts();
        let at = parts.iter().position(|part| Arc::ptr_eq(part, old[0]));
        let at = at.expect("only parts of a table are replaced");
        parts.splice(at..at + old.len(), new.into_iter().map(Arc::new));
        self.parts.store(Arc::new(Parts(parts)));
    }

    /// Whether it was dropped from the manifest. The result holds while the manifest is locked.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    pub(crate) fn mark_gone(&self) {
        self.gone.store(true, Ordering::Release);
    }

    /// Bytes of all its memtables.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.parts.load().0.iter().map(|part| part.memory_bytes()).sum()
    }

    /// Commits of this table up to here would survive without the log, if the memtable of the
    /// sub-table `without` were in extents; [`Csn::MAX`] when nothing of the table is only in
    /// memory.
    pub(crate) fn persisted(&self, without: Option<(&Arc<SubTable>, &Arc<Memtable>)>) -> Csn {
        let before = |csn: Csn| Csn(csn.0.saturating_sub(1));
        let mut persisted = Csn::MAX;
        if self.is_gone() {
            return persisted;
        }
        if !self.recorded.load(Ordering::Acquire) {
            persisted = persisted.min(before(self.created));
        }
        if self.dropped() != Csn::MAX {
            persisted = persisted.min(before(self.dropped()));
        }
        let of_parts = self
            .parts
            .load()
            .0
            .iter()
            .map(|part| {
                let without = without.filter(|(of, _)| Arc::ptr_eq(of, part));
                part.persisted(without.map(|(_, memtable)| memtable))
            })
            .min();
        persisted.min(of_parts.unwrap_or(Csn::MAX))
    }
}
