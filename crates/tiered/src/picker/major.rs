//! Out of Level1, and within Level2.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::{Chooser, Kind, Pick};
use crate::extent::ExtentHandle;
use crate::extent_meta::ExtentId;
use crate::level::Slice;
use crate::manifest::Place;

impl Chooser<'_> {
    /// The neighbours in Level1 that overlap the least of Level2, for their size.
    pub(super) fn pick_major(&self) -> Option<Pick> {
        let (upper, lower) = (self.levels.level1.slices(), &self.levels.level2);
        let barred = |slice: &Arc<Slice>| {
            let meta = &slice.meta;
            let below = || lower.between(&meta.smallest, &meta.largest);
            self.bars.touch(meta) || below().iter().any(|slice| self.bars.touch(&slice.meta))
        };
        let mut best: Option<(f64, &[Arc<Slice>])> = None;
        // Neighbours between which nothing is barred.
        for free in upper.split(barred) {
            let (mut end, mut bytes) = (0, 0);
            for start in 0..free.len() {
                while end < free.len() && (end <= start || bytes < self.shape.input_bytes) {
                    bytes += free[end].meta.bytes;
                    end += 1;
                }
                let window = &free[start..end];
                let (smallest, largest) = (&free[start].meta.smallest, &free[end - 1].meta.largest);
                let below: u64 =
                    lower.between(smallest, largest).iter().map(|slice| slice.meta.bytes).sum();
                let ratio = below as f64 / bytes.max(1) as f64;
                if !self.bars.overlap(smallest, largest)
                    && best.as_ref().is_none_or(|(least, _)| ratio < *least)
                {
                    best = Some((ratio, window));
                }
                bytes -= free[start].meta.bytes;
            }
        }
        let (_, window) = best?;
        self.with_target(Kind::Major, vec![window.to_vec()], lower, Place::Level2)
    }

    /// Whether an extent is mostly empty or dead.
    fn is_thin(&self, extent: &ExtentHandle) -> bool {
        self.used_bytes(extent) as f64 * self.shape.space_max < self.slots_bytes(extent) as f64
    }

    /// Bytes of an extent that are of use, and those that a block too many would have needed: none can be filled better.
    fn used_bytes(&self, extent: &ExtentHandle) -> u64 {
        (extent.used_bytes() + self.shape.block_bytes).min(self.slots_bytes(extent))
    }

    fn slots_bytes(&self, extent: &ExtentHandle) -> u64 {
        u64::from(extent.meta.slots.count) * self.shape.extent_bytes
    }

    /// Whether many of a slice's versions in Level2 would be dropped if they were merged now: nobody sees them, and nothing
    /// above has older ones.
    fn is_stale(&self, slice: &Slice) -> bool {
        let (meta, counts) = (&slice.meta, &slice.meta.counts);
        let unseen = counts.versions - counts.keys + counts.tombstones;
        let level0 = self.levels.level0.iter().map(|sublevel| &sublevel.run);
        let mut above = level0.chain([&self.levels.level1]);
        unseen * 4 >= counts.versions
            && counts.csn_max <= self.oldest
            && above.all(|run| run.between(&meta.smallest, &meta.largest).is_empty())
    }

    /// Bytes of Level2's extents for each byte in use, over what there may be.
    pub(super) fn space_score(&self) -> f64 {
        let mut extents: FxHashMap<ExtentId, &ExtentHandle> = FxHashMap::default();
        for slice in self.levels.level2.slices() {
            extents.insert(slice.meta.extent, &slice.extent);
        }
        let all: u64 = extents.values().map(|extent| self.slots_bytes(extent)).sum();
        let used: u64 = extents.values().map(|extent| self.used_bytes(extent)).sum();
        // A few extents are no matter, however little is in them.
        if all < used + 4 * self.shape.extent_bytes {
            return 0.0;
        }
        all as f64 / used.max(1) as f64 / self.shape.space_max
    }

    /// Neighbours in Level2 from whose thin extents the most slots come back, as far as `input_bytes` go. Those between them
    /// stay where they are.
    pub(super) fn pick_self_major(&self) -> Option<Pick> {
        let barred = |slice: &Arc<Slice>| self.bars.touch(&slice.meta);
        let mut best: Option<(u64, &[Arc<Slice>])> = None;
        for free in self.levels.level2.slices().split(barred) {
            let wasteful = |slice: &Slice| self.is_thin(&slice.extent) || self.is_stale(slice);
            let Some(first) = free.iter().position(|slice| wasteful(slice)) else { continue };
            let mut bytes = 0;
            // Of each extent what is met here.
            let mut met: FxHashMap<ExtentId, (&ExtentHandle, u64)> = FxHashMap::default();
            let (mut gain, mut last) = (0, first);
            for (at, slice) in free.iter().enumerate().skip(first) {
                if !wasteful(slice) {
                    continue;
                }
                bytes += slice.meta.bytes;
                met.entry(slice.meta.extent).or_insert((&slice.extent, 0)).1 += slice.meta.bytes;
                let whole = met.values().filter(|(extent, bytes)| *bytes == extent.live_bytes());
                let (freed, used) = whole.fold((0, 0), |(freed, used), (extent, _)| {
                    (freed + self.slots_bytes(extent), used + extent.used_bytes())
                });
                let stale = self.is_stale(slice);
                // What comes of it is full but for a block each, and the last one.
                let full = self.shape.extent_bytes - self.shape.block_bytes;
                let now = freed.saturating_sub(used.div_ceil(full) * self.shape.extent_bytes);
                if now > gain || stale {
                    (gain, last) = (now.max(gain).max(1), at);
                }
                if bytes >= self.shape.input_bytes {
                    break;
                }
            }
            if gain > 0 && best.as_ref().is_none_or(|(most, _)| gain > *most) {
                best = Some((gain, &free[first..=last]));
            }
        }
        let (_, window) = best?;
        let (smallest, largest) =
            (&window[0].meta.smallest, &window[window.len() - 1].meta.largest);
        let free = !self.bars.overlap(smallest, largest);
        let (kind, target) = (Kind::SelfMajor, Place::Level2);
        free.then(|| Pick { kind, sources: vec![window.to_vec()], target })
    }
}
