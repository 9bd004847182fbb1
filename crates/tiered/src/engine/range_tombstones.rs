//! The range tombstones of the levels: which of them a compaction keeps (RANGE-TOMBSTONE-4 of
//! [`crate::ranges`]), and which slices it drops unread because of them.

use std::sync::Arc;

use spillway_base::{Csn, KeyRange, Result, range};

use super::Inner;
use super::change::Change;
use crate::level::{LevelsEdit, Slice};
use crate::memtable::Memtable;
use crate::picker::hull;
use crate::ranges::{Mark, RangeTombstones};
use crate::subtable::SubTable;
use crate::table::Table;

/// The most tombstones of single keys that a flush takes from later memtables. Each takes some 150
/// bytes meanwhile.
const POINTS_MAX: usize = 1 << 16;

/// The range tombstones that a flush or compaction applies.
pub(super) struct KnownTombstones<'a> {
    /// The live snapshots, ascending, when it began.
    live: &'a [Csn],
    /// All range tombstones at that time.
    pub(super) all: RangeTombstones,
    /// The range tombstones among them that every live snapshot sees.
    pub(super) ripe: RangeTombstones,
    /// The range tombstones of the memtable that is flushed.
    new: RangeTombstones,
}

impl<'a> KnownTombstones<'a> {
    /// The range tombstones of a sub-table's levels, and of a memtable that is being flushed.
    pub(super) fn of(
        part: &SubTable,
        memtable: Option<&Memtable>,
        live: &'a [Csn],
    ) -> KnownTombstones<'a> {
        let new = memtable.and_then(Memtable::ranges);
        let new = new.map_or(RangeTombstones::NONE, |ranges| ranges.within(part.range()));
        let all = part.view_now().levels.ranges.union(&new);
        let ripe = all.at(oldest(live));
        KnownTombstones { live, all, ripe, new }
    }

    /// The sub-table's range tombstones after an edit, if they change. The caller has dropped the
    /// hidden versions of all inputs with these keys, and no other slice with these keys has a
    /// version below `others_from`. `flushed` no longer counts as a memtable. The manifest is
    /// locked.
    pub(super) fn after(
        &self,
        part: &SubTable,
        edit: &LevelsEdit,
        keys: KeyRange<'_>,
        others_from: Csn,
        flushed: Option<&Arc<Memtable>>,
    ) -> Option<Arc<RangeTombstones>> {
        let view = part.view();
        let old = &view.levels.ranges;
        if old.is_empty() && self.new.is_empty() {
            return None;
        }
        let oldest = oldest(self.live);
        let done = self.all.only(|mark| mark.csn <= oldest && mark.upto < others_from);
        let left = old.union(&self.new).minus(&done.within(keys));
        let others = view
            .memtables()
            .filter(|memtable| flushed.is_none_or(|flushed| !Arc::ptr_eq(flushed, memtable)));
        let memtables_from = others.map(|memtable| memtable.csn_min()).min().unwrap_or(Csn::MAX);
        let levels = view.levels.apply(edit).expect("an edit of a run takes out what it puts over");
        let left = left.trimmed(
            |mark| mark.csn <= oldest && mark.upto < memtables_from,
            |range, mark| {
                let near = levels.runs().flat_map(|run| run.within(range));
                hull(near.filter(|slice| slice.meta.counts.csn_min <= mark.upto))
            },
        );
        let left = left.pruned(self.live);
        (left != **old).then(|| Arc::new(left))
    }
}

fn oldest(live: &[Csn]) -> Csn {
    live.first().copied().unwrap_or_default()
}

/// The range tombstones of memtables, other than the memtable that is being flushed, that every
/// live snapshot sees. Versions that they hide can be dropped although the tombstones are not
/// flushed yet, because the log has them durably and an opening installs them again (E3). On a full
/// disk, this makes the room for the flush.
pub(super) fn hidden_later(
    part: &SubTable,
    flushed: Option<&Arc<Memtable>>,
    live: &[Csn],
) -> RangeTombstones {
    let view = part.view();
    let others = view
        .memtables()
        .filter(|memtable| flushed.is_none_or(|flushed| !Arc::ptr_eq(flushed, memtable)));
    let ranges = others.filter_map(|memtable| memtable.ranges());
    let ranges = ranges.map(|ranges| ranges.within(part.range()).at(oldest(live)));
    ranges.reduce(|all, ranges| all.union(&ranges)).unwrap_or(RangeTombstones::NONE)
}

/// The tombstones of memtables that are newer than the one that is flushed, as ranges of one key
/// each, if every live snapshot sees them. For the same reasons as in [`hidden_later`], a flush may
/// drop the versions that they hide (RANGE-TOMBSTONE-9). There are at most [`POINTS_MAX`].
pub(super) fn deleted_later(
    part: &SubTable,
    flushed: &Arc<Memtable>,
    live: &[Csn],
) -> RangeTombstones {
    let (view, oldest, range) = (part.view(), oldest(live), part.range());
    let mut points = Vec::new();
    for memtable in view.memtables().filter(|other| !Arc::ptr_eq(flushed, other)) {
        let mut place = memtable.seek(range.start);
        while let Some(key) = memtable.key(place).filter(|key| range.contains(key)) {
            if points.len() == POINTS_MAX {
                break;
            }
            let newest = memtable.visible(place, oldest);
            if let Some(version) = newest.filter(|version| version.value.is_none()) {
                let past = range::successor(key);
                let key = KeyRange::new(key, Some(&past));
                points.push(RangeTombstones::one(key, Mark::new(version.csn, version.csn)));
            }
            place = memtable.after(place);
        }
    }
    RangeTombstones::all(points)
}

/// The range of keys from `smallest` to `largest`, both included. The range's end is stored in
/// `past`.
pub(super) fn range_of<'a>(
    (smallest, largest): (&'a [u8], &[u8]),
    past: &'a mut Vec<u8>,
) -> KeyRange<'a> {
    *past = range::successor(largest);
    KeyRange::new(smallest, Some(past))
}

impl Inner {
    /// Removes slices whose versions are all hidden from every snapshot, without reading them, and
    /// range tombstones that hide nothing any more.
    pub(super) fn let_go_hidden(&self, table: &Arc<Table>, part: &Arc<SubTable>) -> Result<bool> {
        let view = part.view_now();
        if view.levels.ranges.is_empty() && !view.memtables().any(|memtable| memtable.has_ranges())
        {
            return Ok(false);
        }
        drop(view);
        let mut live = Vec::new();
        self.horizon.live_snapshots(&mut live);
        let known = KnownTombstones::of(part, None, &live);
        let hidden = known.ripe.union(&hidden_later(part, None, &live));
        let held = part.take_keys(|bars| {
            let levels = part.view().levels.clone();
            let gone = |slice: &&Arc<Slice>| {
                let meta = &slice.meta;
                hidden.hides_all(&meta.smallest, &meta.largest, meta.counts.csn_max)
            };
            let all: Vec<_> = levels.places().map(|(_, slice)| slice).filter(gone).collect();
            bars.windows().into_iter().find_map(|window| {
                let inside = all.iter().filter(|slice| window.holds(&slice.meta));
                let inside: Vec<Arc<Slice>> = inside.map(|slice| (*slice).clone()).collect();
                let (smallest, largest) = hull(inside.iter())?;
                Some(((smallest.into(), largest.into()), inside))
            })
        });
        let removed = held.as_ref().map(|(.., gone)| gone.clone()).unwrap_or_default();
        let mut edit = LevelsEdit { removed, ..LevelsEdit::default() };
        let changes = |edit: &LevelsEdit| known.after(part, edit, KeyRange::ALL, Csn::ZERO, None);
        // Usually there is nothing to do. Finding that out needs no lock of the manifest.
        if edit.removed.is_empty() && changes(&edit).is_none() {
            return Ok(false);
        }
        let mut manifest = self.persistence.record(&self.health)?;
        edit.ranges = changes(&edit);
        if table.is_gone() || part.is_closed() || edit.removed.is_empty() && edit.ranges.is_none() {
            return Ok(false);
        }
        let change = Change::of(&edit);
        manifest.commit(change.edits(table, &edit, &part.view().levels.ranges))?;
        change.apply();
        part.edit(&edit, None);
        change.retire();
        drop(manifest);
        self.statistics.note_hidden(
            edit.removed.len() as u64,
            edit.removed.iter().map(|slice| slice.meta.bytes).sum(),
        );
        self.refresh_debt();
        Ok(true)
    }
}
