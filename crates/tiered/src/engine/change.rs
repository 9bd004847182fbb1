//! Derives, from a change of levels, the manifest's edits and the extents that no slice uses
//! afterwards.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::extent::ExtentHandle;
use crate::extent_meta::ExtentId;
use crate::level::{LevelsEdit, Slice};
use crate::manifest::Edit;
use crate::ranges::RangeTombstones;
use crate::table::Table;

/// The effect of a change of levels on extents.
pub(super) struct Change {
    /// For each extent, the bytes of slices that are added and that are removed.
    extents: FxHashMap<ExtentId, (Arc<ExtentHandle>, u64, u64)>,
}

impl Change {
    pub(super) fn of(edit: &LevelsEdit) -> Change {
        let mut extents = FxHashMap::default();
        let mut note = |slice: &Slice, came: u64, went: u64| {
            let of = extents.entry(slice.meta.extent);
            let (_, all_came, all_went) = of.or_insert_with(|| (slice.extent.clone(), 0, 0));
            *all_came += came;
            *all_went += went;
        };
        edit.removed.iter().for_each(|slice| note(slice, 0, slice.meta.bytes));
        edit.added.iter().for_each(|(_, slice)| note(slice, slice.meta.bytes, 0));
        Change { extents }
    }

    /// The extents without remaining slices. The result holds while the manifest is locked, until
    /// [`Change::apply`].
    fn unused(&self) -> impl Iterator<Item = &Arc<ExtentHandle>> {
        let unused = self.extents.values().filter(|(extent, came, went)| {
            // A new extent has no live bytes before this change.
            extent.live_bytes() + came == *went
        });
        unused.map(|(extent, ..)| extent)
    }

    /// Whether the change frees slots, or leaves fewer versions than before. Must be called before
    /// [`Change::apply`].
    pub(super) fn gains(&self, edit: &LevelsEdit) -> bool {
        let slots = |extent: &Arc<ExtentHandle>| u64::from(extent.meta.slots.count);
        let freed: u64 = self.unused().map(slots).sum();
        let taken: u64 = self.fresh().map(slots).sum();
        let versions = |slice: &Slice| slice.meta.counts.versions;
        let before: u64 = edit.removed.iter().map(|slice| versions(slice)).sum();
        let after: u64 = edit.added.iter().map(|(_, slice)| versions(slice)).sum();
        freed > taken || after < before
    }

    /// The extents that had no slice before.
    fn fresh(&self) -> impl Iterator<Item = &Arc<ExtentHandle>> {
        let fresh = self
            .extents
            .values()
            .filter(|(extent, _, went)| extent.live_bytes() == 0 && *went == 0);
        fresh.map(|(extent, ..)| extent)
    }

    /// The manifest's edits. `ranges` are the levels' range tombstones before the change.
    pub(super) fn edits(
        &self,
        table: &Table,
        edit: &LevelsEdit,
        ranges: &RangeTombstones,
    ) -> Vec<Edit> {
        let id = table.id;
        let ranges = edit.ranges.iter().flat_map(|new| Edit::of_ranges(id, ranges, new));
        let removed = edit.removed.iter();
        let removed = removed.map(|slice| Edit::RemoveSlice { table: id, id: slice.meta.id() });
        let new = self.fresh();
        let new = new.map(|extent| Edit::AddExtent { table: id, meta: extent.meta.clone() });
        let added = edit.added.iter().map(|(place, slice)| Edit::AddSlice {
            table: id,
            place: *place,
            meta: slice.meta.clone(),
        });
        let unused =
            self.unused().map(|extent| Edit::RemoveExtent { table: id, id: extent.meta.id });
        removed.chain(new).chain(added).chain(unused).chain(ranges).collect()
    }

    /// Records the bytes of each extent that are in use after the change.
    pub(super) fn apply(&self) {
        for (extent, came, went) in self.extents.values() {
            extent.change_live_bytes(*came, *went);
        }
    }

    /// Retires the extents of which no byte is in use any more.
    pub(super) fn retire(&self) {
        let unused = self.extents.values().filter(|(extent, ..)| extent.live_bytes() == 0);
        unused.for_each(|(extent, ..)| extent.mark_obsolete());
    }
}
