//! A table: its index, its indirection array, and its deleted ranges.

use std::sync::Arc;

use spillway_base::budget::Budget;
use spillway_base::lock::RwLock;
use spillway_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use spillway_base::{Csn, KeyRange, TableId};

use crate::index::Index;
use crate::index_load::IndexLoad;
use crate::rows::Rows;

/// A range that a commit deleted (E10 of [`spillway_base::engine`]).
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DeletedRange {
    pub(crate) start: Vec<u8>,
    pub(crate) end: Option<Vec<u8>>,
    /// The commit.
    pub(crate) csn: Csn,
    /// The range hides versions up to this commit.
    pub(crate) upto: Csn,
}

impl DeletedRange {
    pub(crate) fn keys(&self) -> KeyRange<'_> {
        KeyRange::new(&self.start, self.end.as_deref())
    }
}

pub(crate) struct Table {
    pub(crate) id: TableId,
    /// The commit that created it.
    pub(crate) created: Csn,
    /// The commit that dropped it, or [`Csn::MAX`].
    dropped: AtomicU64,
    pub(crate) index: Index,
    pub(crate) rows: Rows,
    /// None for a table that is not in the last checkpoint.
    load: Option<IndexLoad>,
    /// Whether the index has all keys.
    is_loaded: AtomicBool,
    /// Whether `ranges` is not empty.
    has_ranges: AtomicBool,
    ranges: RwLock<Arc<Vec<DeletedRange>>>,
    /// The newest commit that changed it.
    last_insert: AtomicU64,
}

impl Table {
    pub(crate) fn new(id: TableId, created: Csn, index: Index, budget: &Budget) -> Table {
        Table {
            id,
            created,
            dropped: AtomicU64::new(Csn::MAX.0),
            index,
            rows: Rows::new(budget),
            load: None,
            is_loaded: AtomicBool::new(true),
            has_ranges: AtomicBool::new(false),
            ranges: RwLock::default(),
            last_insert: AtomicU64::new(created.0),
        }
    }

    /// Makes `load` responsible for the keys that the index lacks.
    pub(crate) fn begin_load(&mut self, load: IndexLoad) {
        self.load = Some(load);
        self.is_loaded = AtomicBool::new(false);
    }

    pub(crate) fn end_load(&self) {
        self.is_loaded.store(true, Ordering::Release);
    }

    /// The load of its index, if the index lacks keys.
    #[inline]
    pub(crate) fn load(&self) -> Option<&IndexLoad> {
        if self.is_loaded.load(Ordering::Acquire) { None } else { self.load.as_ref() }
    }

    /// The number of keys, loaded or not.
    pub(crate) fn keys(&self) -> u64 {
        self.index.len() + self.load().map_or(0, IndexLoad::keys_left)
    }

    pub(crate) fn dropped(&self) -> Csn {
        Csn(self.dropped.load(Ordering::Acquire))
    }

    pub(crate) fn drop_at(&self, csn: Csn) {
        self.dropped.fetch_min(csn.0, Ordering::AcqRel);
    }

    /// Whether a snapshot sees it.
    pub(crate) fn exists_at(&self, snapshot: Csn) -> bool {
        self.created <= snapshot && snapshot < self.dropped()
    }

    /// Notes a commit before it adds a key to the index.
    pub(crate) fn note_insert(&self, csn: Csn) {
        self.last_insert.fetch_max(csn.0, Ordering::AcqRel);
    }

    /// The newest commit that added a key to the index. An index file of a checkpoint that includes
    /// this commit is still valid. It may have keys that were removed since, but the array has no
    /// rows at their slots: only a new key would take such a slot.
    pub(crate) fn last_insert(&self) -> Csn {
        Csn(self.last_insert.load(Ordering::Acquire))
    }

    pub(crate) fn ranges(&self) -> Arc<Vec<DeletedRange>> {
        self.ranges.read().clone()
    }

    pub(crate) fn has_ranges(&self) -> bool {
        self.has_ranges.load(Ordering::Acquire)
    }

    /// Adds a range, unless the table has it.
    pub(crate) fn add_range(&self, range: DeletedRange) {
        let mut ranges = self.ranges.write();
        if !ranges.contains(&range) {
            Arc::make_mut(&mut ranges).push(range);
        }
        self.has_ranges.store(true, Ordering::Release);
    }

    /// Removes a range, once no version is left that it hides.
    pub(crate) fn forget_range(&self, range: &DeletedRange) {
        let mut ranges = self.ranges.write();
        Arc::make_mut(&mut ranges).retain(|one| one != range);
        let any = !ranges.is_empty();
        self.has_ranges.store(any, Ordering::Release);
    }

    /// The ranges for a read, or `None` if there are none. A read takes them before it reads
    /// versions. A range is removed only after the versions that it hides, so a read without the
    /// range finds none of these versions.
    #[inline]
    pub(crate) fn ranges_before_read(&self) -> Option<Arc<Vec<DeletedRange>>> {
        self.has_ranges().then(|| self.ranges())
    }
}

/// The newest commit visible to the snapshot that deleted a range with the key and hides this
/// version of it. For a key without a version, any deleted range with the key counts (E10).
pub(crate) fn hidden_by(
    ranges: &[DeletedRange],
    key: &[u8],
    version: Option<Csn>,
    snapshot: Csn,
) -> Option<Csn> {
    let hiding = ranges.iter().filter(|range| {
        range.csn <= snapshot
            && version.is_none_or(|version| version <= range.upto)
            && range.keys().contains(key)
    });
    hiding.map(|range| range.csn).max()
}
