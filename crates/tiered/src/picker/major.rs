//! Compactions out of Level1 (major) and within Level2 (self-major).

use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::hot_keys::{KeptHot, are_alike, warmth_of};
use super::{Chooser, Kind, Pick};
use crate::extent::ExtentHandle;
use crate::extent_meta::ExtentId;
use crate::level::{Run, Slice};
use crate::manifest::Place;
use crate::temperature::Temperature;

/// The part of a slice of Level1 that would go down.
struct Sinking {
    bytes: u64,
    temperature: Temperature,
    /// The slices of Level2 that it overlaps.
    below: Range<usize>,
}

impl Sinking {
    fn of(slice: &Slice, kept: &KeptHot, lower: &Run) -> Sinking {
        let from = lower.seek(&slice.meta.smallest);
        let below = from..from + lower.between(&slice.meta.smallest, &slice.meta.largest).len();
        let bytes = kept.sinking_bytes(slice);
        Sinking { bytes, temperature: kept.sinking_temperature(slice), below }
    }

    /// The bytes of the slices of Level2 that it overlaps, from slice `from` on.
    fn below_bytes(&self, from: usize, lower: &Run) -> u64 {
        let slices = lower.slices().part(from.min(self.below.end)..self.below.end);
        slices.iter().map(|slice| slice.meta.bytes).sum()
    }
}

/// Slices that could go down together, by their indexes in Level1.
struct CandidateWindow {
    /// The bytes of Level2 that they overlap, for each of their own.
    ratio: f64,
    /// Their coarse temperature.
    warmth: u64,
    slices: Vec<usize>,
}

/// The contents of an extent of Level2.
struct ExtentContents<'a> {
    extent: &'a ExtentHandle,
    /// The approximate bytes of its largest blocks.
    block_bytes: u64,
    /// The bytes of versions that a merge would drop now.
    stale_bytes: u64,
}

impl Chooser<'_> {
    /// The adjacent slices of Level1 that overlap the fewest bytes of Level2 for each of their own;
    /// among about equal ones, the coldest (PICKER-5). Hot parts that may stay are left out
    /// (PICKER-6).
    pub(super) fn pick_major(&self) -> Option<Pick> {
        let upper: Vec<&Arc<Slice>> = self.levels.level1.slices().iter().collect();
        let lower = &self.levels.level2;
        let kept = self.kept();
        let sinking: Vec<Sinking> =
            upper.iter().zip(&kept).map(|(slice, kept)| Sinking::of(slice, kept, lower)).collect();
        let barred = |at: usize| {
            let below = lower.slices().part(sinking[at].below.clone());
            self.bars.touch(&upper[at].meta)
                || below.iter().any(|slice| self.bars.touch(&slice.meta))
        };
        let mut windows: Vec<CandidateWindow> = Vec::new();
        // Adjacent slices without barred keys between them.
        let mut free: Vec<usize> = Vec::new();
        for at in 0..=upper.len() {
            if at == upper.len() || barred(at) {
                self.windows(&free, &sinking, &mut windows);
                free.clear();
            } else if sinking[at].bytes > 0 {
                free.push(at);
            }
        }
        windows.retain(|window| {
            let (first, last) =
                (&upper[window.slices[0]], &upper[*window.slices.last().unwrap_or(&0)]);
            !self.bars.overlap(&first.meta.smallest, &last.meta.largest)
        });
        let least = windows.iter().map(|window| window.ratio).fold(f64::INFINITY, f64::min);
        let alike = windows.iter().filter(|window| are_alike(window.ratio, least));
        let best =
            alike.min_by(|a, b| a.warmth.cmp(&b.warmth).then(a.ratio.total_cmp(&b.ratio)))?;
        let inputs = best.slices.iter().map(|at| Arc::clone(upper[*at])).collect();
        let mut pick = self.with_target(Kind::Major, vec![inputs], lower, Place::Level2)?;
        let cut = best.slices.iter().filter(|at| !kept[**at].blocks.is_empty());
        pick.keeps = cut.map(|at| (upper[*at].meta.id(), kept[*at].blocks.clone())).collect();
        Some(pick)
    }

    /// Appends the windows that begin at each of some slices, each with as many slices as go down
    /// at once.
    fn windows(&self, free: &[usize], sinking: &[Sinking], windows: &mut Vec<CandidateWindow>) {
        for (first, start) in free.iter().enumerate() {
            let (mut bytes, mut below, mut met) = (0, 0, 0);
            let taken = free[first..].iter().take_while(|at| {
                let slice = &sinking[**at];
                let more = bytes == 0 || bytes < self.shape.input_bytes;
                if more {
                    bytes += slice.bytes;
                    let (from, to) = (slice.below.start.max(met), slice.below.end);
                    below += slice.below_bytes(from, &self.levels.level2);
                    met = to.max(met);
                }
                more
            });
            let slices: Vec<usize> = taken.copied().collect();
            debug_assert_eq!(slices.first(), Some(start));
            let ratio = below as f64 / bytes.max(1) as f64;
            let taken = slices.iter().map(|at| (sinking[*at].temperature, sinking[*at].bytes));
            let warmth = warmth_of(taken);
            windows.push(CandidateWindow { ratio, warmth, slices });
        }
    }

    /// Whether the extent of a slice has more bytes of slots for each used byte than the ceiling
    /// allows, and a merge could fill them better. `stale_bytes` of the extent do not count as
    /// used.
    fn is_thin(&self, slice: &Slice, stale_bytes: u64) -> bool {
        let extent = &slice.extent;
        let used = self.used_bytes(extent, self.block_bytes(slice)).saturating_sub(stale_bytes);
        (used as f64 * self.shape.space_max) < self.slots_bytes(extent) as f64
    }

    /// The approximate bytes of a block of a slice. Large values make large blocks.
    fn block_bytes(&self, slice: &Slice) -> u64 {
        (slice.meta.bytes / u64::from(slice.meta.blocks.max(1))).max(self.shape.block_bytes)
    }

    /// The used bytes of an extent, plus those of a block: if an extent has no room for one more
    /// block, a merge cannot fill it better.
    fn used_bytes(&self, extent: &ExtentHandle, block_bytes: u64) -> u64 {
        let all = self.slots_bytes(extent);
        if extent.is_in_order() { all } else { (extent.used_bytes() + block_bytes).min(all) }
    }

    pub(super) fn slots_bytes(&self, extent: &ExtentHandle) -> u64 {
        u64::from(extent.meta.slots.count) * self.shape.extent_bytes
    }

    /// The number of a slice's versions in Level2 that a merge would drop now. It is zero if a
    /// snapshot is older than one of the slice's commits. If none is, only the newest version of
    /// each key is needed. Tombstones count if no slice above overlaps this one, unless a merge of
    /// their extent was tried without effect.
    fn stale_versions(&self, slice: &Slice) -> u64 {
        let (meta, counts) = (&slice.meta, &slice.meta.counts);
        let older = counts.versions - counts.keys;
        if older + counts.tombstones == 0 || counts.csn_max > self.oldest {
            return 0;
        }
        let ends = || {
            let level0 = self.levels.level0.iter().map(|sublevel| &sublevel.run);
            let mut above = level0.chain([&self.levels.level1]);
            !slice.extent.is_in_order()
                && above.all(|run| run.between(&meta.smallest, &meta.largest).is_empty())
        };
        let tombstones = if counts.tombstones > 0 && ends() { counts.tombstones } else { 0 };
        (older + tombstones).min(counts.versions)
    }

    /// Whether many of a slice's versions are stale.
    fn is_stale(&self, slice: &Slice) -> bool {
        let stale = self.stale_versions(slice);
        stale > 0 && stale * 4 >= slice.meta.counts.versions
    }

    /// The approximate bytes of a slice's stale versions.
    fn stale_bytes(&self, slice: &Slice) -> u64 {
        let stale = self.stale_versions(slice) as f64 / slice.meta.counts.versions.max(1) as f64;
        (slice.meta.bytes as f64 * stale) as u64
    }

    /// The extents of Level2, with the bytes of a block and the stale bytes of each.
    fn extents_of_level2(&self) -> FxHashMap<ExtentId, ExtentContents<'_>> {
        let mut extents: FxHashMap<ExtentId, ExtentContents<'_>> = FxHashMap::default();
        for slice in self.levels.level2.slices() {
            let empty = || ExtentContents { extent: &slice.extent, block_bytes: 0, stale_bytes: 0 };
            let of = extents.entry(slice.meta.extent).or_insert_with(empty);
            of.block_bytes = of.block_bytes.max(self.block_bytes(slice));
            of.stale_bytes += self.stale_bytes(slice);
        }
        extents
    }

    /// Bytes of Level2's extents for each used byte, relative to the ceiling. Stale bytes are not
    /// used.
    pub(super) fn space_score(&self) -> f64 {
        let extents = self.extents_of_level2();
        let all: u64 = extents.values().map(|of| self.slots_bytes(of.extent)).sum();
        let used = extents
            .values()
            .map(|of| self.used_bytes(of.extent, of.block_bytes).saturating_sub(of.stale_bytes));
        let used: u64 = used.sum();
        // A few extents do not matter, even if they are nearly empty, unless space is short
        // (PICKER-7).
        if self.shape.short_of_space.is_some() {
            return if all < used + self.shape.extent_bytes { 0.0 } else { 1.0 };
        }
        if all < used + 4 * self.shape.extent_bytes {
            return 0.0;
        }
        all as f64 / used.max(1) as f64 / self.shape.space_max
    }

    /// Adjacent slices of Level2, of up to `input_bytes`, whose merge frees the most slots of thin
    /// extents. The compaction re-links full slices between them.
    pub(super) fn pick_self_major(&self) -> Option<Pick> {
        let barred = |slice: &&Arc<Slice>| self.bars.touch(&slice.meta);
        let extents = self.extents_of_level2();
        let stale_of =
            |slice: &Slice| extents.get(&slice.meta.extent).map_or(0, |of| of.stale_bytes);
        let wasteful = |slice: &Slice| self.is_thin(slice, stale_of(slice)) || self.is_stale(slice);
        let level2: Vec<&Arc<Slice>> = self.levels.level2.slices().iter().collect();
        let mut best: Option<(u64, &[&Arc<Slice>])> = None;
        for free in level2.split(barred) {
            let Some(first) = free.iter().position(|slice| wasteful(slice)) else { continue };
            let mut bytes = 0;
            // For each extent, the bytes of its slices met so far.
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
                let stale = self.stale_versions(slice) > 0;
                // The output extents are full, except for one block in each and the last extent.
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
        free.then(|| Pick {
            kind,
            sources: vec![window.iter().copied().cloned().collect()],
            keeps: Vec::new(),
            target,
        })
    }
}
