//! Down with what was deleted.

use std::sync::Arc;

use super::{Chooser, Kind, Pick};
use crate::level::Slice;
use crate::manifest::Place;

impl Chooser<'_> {
    /// Whether so many of a slice's versions are tombstones that it is compacted for them.
    fn is_mostly_deleted(&self, slice: &Slice) -> bool {
        let counts = &slice.meta.counts;
        counts.tombstones >= self.shape.deletions_min && counts.tombstones * 4 >= counts.versions
    }

    pub(super) fn deletion_score(&self) -> f64 {
        let level0 = self.levels.level0.iter().flat_map(|sublevel| sublevel.run.slices());
        let mut upper = level0.chain(self.levels.level1.slices());
        if upper.any(|slice| self.is_mostly_deleted(slice)) { 1.0 } else { 0.0 }
    }

    /// Tombstones of Level1 into Level2, where they meet what they hide; else those of Level0 into Level1.
    pub(super) fn pick_deletion(&self) -> Option<Pick> {
        let level2 = &self.levels.level2;
        let barred = |slice: &Arc<Slice>| self.bars.touch(&slice.meta);
        for free in self.levels.level1.slices().split(barred) {
            let Some(first) = free.iter().position(|slice| self.is_mostly_deleted(slice)) else {
                continue;
            };
            let mut bytes = 0;
            let run = free[first..].iter().take_while(|slice| {
                bytes += slice.meta.bytes;
                self.is_mostly_deleted(slice) && bytes <= 2 * self.shape.input_bytes
            });
            let run: Vec<_> = run.cloned().collect();
            let pick = self.with_target(Kind::Deletion, vec![run], level2, Place::Level2);
            if pick.is_some() {
                return pick;
            }
        }
        let level0 = self.levels.level0.iter().flat_map(|sublevel| sublevel.run.slices());
        let mut deleted = level0.clone().filter(|slice| self.is_mostly_deleted(slice));
        let first = deleted.find(|slice| !self.bars.touch(&slice.meta))?;
        // What it overlaps goes down with it, and what that overlaps, as long as it is not too much.
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
