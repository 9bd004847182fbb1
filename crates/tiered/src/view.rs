//! The view of a sub-table that a read uses: a metasnapshot in X-Engine's terms (section 3.1.3).
//!
//! A [`View`] holds the active memtable, the sealed memtables that are not flushed yet, and the
//! levels. The view itself never changes: a change of the sub-table's structure publishes a new
//! view, and readers keep the view that they loaded for as long as they need it. Only the active
//! memtable still grows, because commits add versions to it. Readers ignore the versions above
//! their snapshots.

mod point_lookup;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use spillway_base::engine::{Access, Found};
use spillway_base::{Csn, Error, ErrorKind, KeyRange, Result};

use self::point_lookup::{Fetch, LookupKey, found, get_in_slice};
use crate::extent::{ExtentHandle, Missing};
use crate::filter;
use crate::level::Levels;
use crate::memtable::Memtable;
use crate::ranges::{Mark, RangeTombstones};

/// A memtable that takes no more writes.
#[derive(Clone)]
pub(crate) struct Immutable {
    pub(crate) memtable: Arc<Memtable>,
    /// Every commit up to this one is in this memtable or an older one, or in extents.
    pub(crate) watermark: Csn,
    /// The number of sub-tables that have yet to flush their keys of it: more than one after a
    /// split.
    waiting: Arc<AtomicUsize>,
}

impl Immutable {
    pub(crate) fn new(memtable: Arc<Memtable>, watermark: Csn) -> Immutable {
        Immutable { memtable, watermark, waiting: Arc::new(AtomicUsize::new(1)) }
    }

    /// Another sub-table shares it.
    pub(crate) fn share(&self) -> Immutable {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        self.clone()
    }

    /// A sub-table no longer needs it.
    pub(crate) fn let_go(&self) {
        if self.waiting.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.memtable.retire();
        }
    }
}

/// A sub-table's memtables and levels, as a read sees them.
pub(crate) struct View {
    pub(crate) active: Arc<Memtable>,
    /// Newest first. After a split they may hold keys of other sub-tables.
    pub(crate) immutables: Vec<Immutable>,
    pub(crate) levels: Arc<Levels>,
}

impl View {
    /// All memtables, newest first.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        let immutables = self.immutables.iter().map(|old| &old.memtable);
        std::iter::once(&self.active).chain(immutables)
    }

    /// No version that was installed before the view was loaded has a larger CSN.
    pub(crate) fn csn_max(&self) -> Csn {
        let memtables = self.memtables().filter(|memtable| !memtable.is_empty());
        let levels = self.levels.runs().map(|run| run.csn_max());
        memtables.map(|memtable| memtable.csn_max()).chain(levels).max().unwrap_or_default()
    }

    /// The range tombstones of its memtables and levels.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Arc<RangeTombstones>> {
        let levels = &self.levels.ranges;
        let levels = (!levels.is_empty()).then(|| levels.clone());
        self.memtables().filter_map(|memtable| memtable.ranges()).chain(levels)
    }

    /// The part of a range that range tombstones hide from a snapshot; `None` if they hide nothing.
    pub(crate) fn hidden(&self, range: KeyRange<'_>, snapshot: Csn) -> Option<RangeTombstones> {
        let seen = self.ranges().map(|ranges| ranges.within(range).at(snapshot));
        let hidden = seen.reduce(|all, more| all.union(&more))?.at(snapshot);
        (!hidden.is_empty()).then_some(hidden)
    }

    /// Whether a memtable or the levels have range tombstones.
    #[inline]
    pub(crate) fn has_ranges(&self) -> bool {
        let of_immutable = |old: &Immutable| old.memtable.has_ranges();
        let of_memtables = self.active.has_ranges() || self.immutables.iter().any(of_immutable);
        of_memtables || !self.levels.ranges.is_empty()
    }

    /// The mark of the range tombstones that hide a key from a snapshot.
    fn cover(&self, key: &[u8], snapshot: Csn) -> Option<Mark> {
        if !self.has_ranges() {
            return None;
        }
        self.ranges().filter_map(|ranges| ranges.cover(key, snapshot)).reduce(Mark::and)
    }

    /// The newest version of a key at or below a snapshot.
    ///
    /// Sources are read from the newest to the oldest, and usually the first version found is the
    /// newest. But commits are installed in any order (E2), so a later commit may have gone to an
    /// older memtable: an older source is read, too, if it holds anything newer than the version
    /// found so far.
    pub(crate) fn get(
        &self,
        key: &[u8],
        snapshot: Csn,
        access: Access,
        value: &mut Vec<u8>,
    ) -> Result<Found> {
        self.get_with(key, snapshot, value, |extent, missing, fetched, part| {
            fetched.fetch(extent, missing, access, part)
        })
    }

    /// The part of an extent that [`View::get`] would have to read first.
    pub(crate) fn missing(
        &self,
        key: &[u8],
        snapshot: Csn,
        value: &mut Vec<u8>,
    ) -> Option<(Arc<ExtentHandle>, Missing)> {
        let mut first = None;
        let found = self.get_with(key, snapshot, value, |extent, missing, _, _| {
            first = Some((extent.clone(), missing));
            Err(Error::new(ErrorKind::WouldBlock, "it is read beside others"))
        });
        found.err().and(first)
    }

    fn get_with(
        &self,
        key: &[u8],
        snapshot: Csn,
        value: &mut Vec<u8>,
        mut fetch: impl Fetch,
    ) -> Result<Found> {
        // A hidden version reads as deleted by the newest commit that hides it (RANGE-TOMBSTONE-1).
        let cover = self.cover(key, snapshot);
        let mut best = cover.map_or(Found::Nothing, |mark| Found::Deleted(mark.upto));
        for memtable in self.memtables().filter(|memtable| !memtable.is_empty()) {
            if (best == Found::Nothing || best.is_older_than(memtable.csn_max()))
                && let Some(version) = memtable.get(key, snapshot)
                && best.is_older_than(version.csn)
            {
                best = found(version.csn, version.value, value);
            }
        }
        let mut hash = None;
        for run in self.levels.runs() {
            if !best.is_older_than(run.csn_max()) {
                continue;
            }
            let Some(slice) = run.slice_of(key) else { continue };
            let counts = &slice.meta.counts;
            if !best.is_older_than(counts.csn_max) || counts.csn_min > snapshot {
                continue;
            }
            let hash = *hash.get_or_insert_with(|| filter::hash(key));
            let wanted = LookupKey { key, hash, snapshot };
            get_in_slice(slice, &wanted, value, &mut best, &mut fetch)?;
        }
        Ok(match cover {
            Some(mark) if best.csn() <= Some(mark.upto) => Found::Deleted(mark.csn),
            _ => best,
        })
    }
}
