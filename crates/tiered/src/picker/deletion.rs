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
    /// Whether a slice has so many tombstones that it is compacted because of them. While space is
    /// short, one is enough (PICKER-7).
    fn is_mostly_deleted(&self, slice: &Slice) -> bool {
        let counts = &slice.meta.counts;
        if self.shape.short_of_space.is_some() {
            return counts.tombstones > 0;
        }
        counts.tombstones >= self.shape.deletions_min && counts.tombstones * 4 >= counts.versions
    }

    pub(super) fn deletion_score(&self) -> f64 {
        let level0 = self.levels.level0.iter().flat_map(|sublevel| sublevel.run.slices());
        let mut upper = level0.chain(self.levels.level1.slices());
        let deleted = if upper.any(|slice| self.is_mostly_deleted(slice)) { 1.0 } else { 0.0 };
        let ranges = self.ripe().map_or(0, |ripe| ripe.len());
        (ranges as f64 / self.ranges_least() as f64).max(deleted)
    }

    /// The fewest range tombstones for which slices are compacted.
    fn ranges_least(&self) -> usize {
        if self.shape.short_of_space.is_some() { 1 } else { RANGES_MANY }
    }

    /// Whether a pick reads no more than is allowed while space is short (PICKER-7).
    fn is_small(&self, pick: &Pick) -> bool {
        let bytes = || pick.inputs().map(|slice| slice.meta.bytes).sum::<u64>();
        self.shape.short_of_space.is_none_or(|most| bytes() <= most)
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
        let ripe = self.ripe().filter(|ripe| ripe.len() >= self.ranges_least())?;
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
                let pick = Pick { kind, sources, target, keeps: Vec::new() };
                if self.is_small(&pick) {
                    return Some(pick);
                }
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
        let barred = |slice: &&Arc<Slice>| self.bars.touch(&slice.meta);
        let level1: Vec<&Arc<Slice>> = self.levels.level1.slices().iter().collect();
        let below = level1.split(barred).find_map(|free| self.pick_from_level1(free));
        below.or_else(|| {
            let level0 = self.levels.level0.iter().flat_map(|sublevel| sublevel.run.slices());
            let mut deleted = level0
                .filter(|slice| self.is_mostly_deleted(slice) && !self.bars.touch(&slice.meta));
            match self.shape.short_of_space {
                Some(_) => deleted.find_map(|first| self.pick_from_level0(first)),
                None => self.pick_from_level0(deleted.next()?),
            }
        })
    }

    /// Adjacent slices of Level1 with many tombstones, the first ones among `free`. While space is
    /// short, the first that fit (PICKER-7).
    fn pick_from_level1(&self, free: &[&Arc<Slice>]) -> Option<Pick> {
        let tries = if self.shape.short_of_space.is_some() { usize::MAX } else { 1 };
        let mut firsts = (0..free.len()).filter(|at| self.is_mostly_deleted(free[*at])).take(tries);
        let with_target = |slices: &[&Arc<Slice>]| {
            let slices = slices.iter().copied().cloned().collect();
            let level2 = &self.levels.level2;
            let pick = self.with_target(Kind::Deletion, vec![slices], level2, Place::Level2);
            pick.filter(|pick| self.is_small(pick))
        };
        let run_from = |first: usize| {
            let mut bytes = 0;
            let run = free[first..].iter().take_while(|slice| {
                bytes += slice.meta.bytes;
                self.is_mostly_deleted(slice) && bytes <= 2 * self.shape.input_bytes
            });
            run.count()
        };
        firsts.find_map(|first| {
            let pick = with_target(&free[first..first + run_from(first)]);
            pick.or_else(|| (tries > 1).then(|| with_target(&free[first..=first])).flatten())
        })
    }

    /// A slice of Level0, with the slices of Level0 that it overlaps, those that they overlap, and
    /// so on, unless they have too many bytes.
    fn pick_from_level0(&self, first: &Arc<Slice>) -> Option<Pick> {
        let level0 = self.levels.level0.iter().flat_map(|sublevel| sublevel.run.slices());
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
        let pick = self.out_of_level0(Kind::Deletion, |slice| {
            smallest <= &*slice.meta.smallest && &*slice.meta.largest <= largest
        });
        pick.filter(|pick| self.is_small(pick))
    }
}
