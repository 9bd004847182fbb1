//! Deletion compactions: they move tombstones down until the versions that the tombstones hide are
//! gone.

use std::sync::Arc;

use super::{Chooser, Kind, Pick, hull};
use crate::level::Slice;
use crate::manifest::Place;
use crate::ranges::RangeTombstones;

/// A sub-table with this many range tombstones that every snapshot sees is compacted because of
/// them.
const RANGES_MANY: usize = 16;

impl Chooser<'_> {
    /// Whether a slice has so many tombstones that it is compacted because of them.
    fn is_mostly_deleted(&self, slice: &Slice) -> bool {
        let counts = &slice.meta.counts;
        counts.tombstones >= self.shape.deletions_min && counts.tombstones * 4 >= counts.versions
    }

    pub(super) fn deletion_score(&self) -> f64 {
        let level0 = self.levels.level0.iter().flat_map(|sublevel| sublevel.run.slices());
        let mut upper = level0.chain(self.levels.level1.slices());
        let deleted = if upper.any(|slice| self.is_mostly_deleted(slice)) { 1.0 } else { 0.0 };
        let ranges = self.ripe().map_or(0, |ripe| ripe.len());
        (ranges as f64 / RANGES_MANY as f64).max(deleted)
    }

    /// The range tombstones that a compaction may remove.
    fn ripe(&self) -> Option<RangeTombstones> {
        if self.levels.ranges.is_empty() {
            return None;
        }
        let ripe = self.levels.ranges.at(self.oldest);
        Some(ripe.only(|mark| mark.upto < self.memtables_from))
    }

    /// Slices that range tombstones hide in part, from the lowest keys on, with all slices above
    /// and below them. The pick includes everything at these keys, so the range tombstones are
    /// removed.
    fn pick_hidden(&self) -> Option<Pick> {
        let ripe = self.ripe().filter(|ripe| ripe.len() >= RANGES_MANY)?;
        let runs = || self.levels.runs().map(|run| &**run);
        for (range, marks) in ripe.iter() {
            let upto = marks.map(|(_, upto)| upto).max()?;
            let near = runs().flat_map(|run| run.within(range));
            let partly = near.filter(|slice| slice.meta.counts.csn_min <= upto);
            let Some(first) = partly.min_by_key(|slice| &slice.meta.smallest) else { continue };
            let (mut smallest, mut largest) = (&*first.meta.smallest, &*first.meta.largest);
            let sources: Vec<Vec<Arc<Slice>>> = loop {
                let sources = || runs().map(|run| run.between(smallest, largest));
                let (low, high) = hull(sources().flatten())?;
                if (low, high) == (smallest, largest) {
                    let sources = sources().filter(|source| !source.is_empty());
                    break sources.map(|source| source.to_vec()).collect();
                }
                (smallest, largest) = (low, high);
            };
            let bytes: u64 = sources.iter().flatten().map(|slice| slice.meta.bytes).sum();
            if bytes <= 4 * self.shape.input_bytes && !self.bars.overlap(smallest, largest) {
                let (kind, target) = (Kind::Deletion, Place::Level2);
                return Some(Pick { kind, sources, target, keeps: Vec::new() });
            }
        }
        None
    }

    /// Merges tombstones of Level1 into Level2, which has the versions that they hide. If there are
    /// none, merges those of Level0 into Level1, and if there are none either, slices with versions
    /// that range tombstones hide.
    pub(super) fn pick_deletion(&self) -> Option<Pick> {
        self.pick_tombstones().or_else(|| self.pick_hidden())
    }

    fn pick_tombstones(&self) -> Option<Pick> {
        let level2 = &self.levels.level2;
        let barred = |slice: &&Arc<Slice>| self.bars.touch(&slice.meta);
        let level1: Vec<&Arc<Slice>> = self.levels.level1.slices().iter().collect();
        for free in level1.split(barred) {
            let Some(first) = free.iter().position(|slice| self.is_mostly_deleted(slice)) else {
                continue;
            };
            let mut bytes = 0;
            let run = free[first..].iter().take_while(|slice| {
                bytes += slice.meta.bytes;
                self.is_mostly_deleted(slice) && bytes <= 2 * self.shape.input_bytes
            });
            let run: Vec<_> = run.copied().cloned().collect();
            let pick = self.with_target(Kind::Deletion, vec![run], level2, Place::Level2);
            if pick.is_some() {
                return pick;
            }
        }
        let level0 = self.levels.level0.iter().flat_map(|sublevel| sublevel.run.slices());
        let mut deleted = level0.clone().filter(|slice| self.is_mostly_deleted(slice));
        let first = deleted.find(|slice| !self.bars.touch(&slice.meta))?;
        // The slices of Level0 that it overlaps go down with it, and those that they overlap, and
        // so on, unless they have too many bytes.
        let (mut smallest, mut largest) = (&*first.meta.smallest, &*first.meta.largest);
        loop {
            let touched = level0.clone().filter(|slice| {
                *slice.meta.smallest <= *largest && *smallest <= *slice.meta.largest
            });
            let (mut low, mut high, mut bytes) = (smallest, largest, 0);
            for slice in touched {
                low = low.min(&slice.meta.smallest);
                high = high.max(&slice.meta.largest);
                bytes += slice.meta.bytes;
            }
            if bytes > 4 * self.shape.input_bytes {
                return None;
            }
            if (low, high) == (smallest, largest) {
                break;
            }
            (smallest, largest) = (low, high);
        }
        self.out_of_level0(Kind::Deletion, |slice| {
            smallest <= &*slice.meta.smallest && &*slice.meta.largest <= largest
        })
    }
}
