//! Compactions out of Level0 (minor) and within it (intra-Level0).

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use super::conflicts::Window;
use super::hot_keys::{are_alike, warmth_of};
use super::{Chooser, Kind, Pick, hull};
use crate::level::{Levels, Run, Slice, Slices};
use crate::manifest::Place;
use crate::temperature::Warmth;

/// The most parts of Level0 that are tried, the best first.
const PARTS_TRIED: usize = 8;

impl Chooser<'_> {
    /// The number of sub-levels from which the next compaction of Level0 would take slices.
    pub(crate) fn sublevels_in_reach(&self) -> usize {
        let is_above = |slice: &Arc<Slice>| {
            let mut runs = self.levels.level0.iter().map(|sublevel| &sublevel.run);
            runs.any(|run| {
                run.slice_of(&slice.meta.smallest).is_some_and(|there| Arc::ptr_eq(there, slice))
            })
        };
        let picks = [Kind::Minor, Kind::IntraLevel0].into_iter().filter_map(|kind| self.pick(kind));
        let reached = picks.map(|pick| {
            pick.sources.iter().filter(|source| source.first().is_some_and(is_above)).count()
        });
        reached.max().unwrap_or_default()
    }

    /// Whether sub-levels should be merged within Level0: if Level0 has too little data to be worth
    /// merging down, or so many sub-levels that it cannot wait.
    pub(super) fn may_merge_within_level0(&self) -> bool {
        self.level0_score() < 1.0 || self.sublevels_score() >= 2.0
    }

    /// As [`Shape::level0_score`](super::Shape::level0_score), for slices that are not barred.
    pub(super) fn level0_score(&self) -> f64 {
        let (shape, levels) = (&self.shape, self.levels);
        if self.bars.is_empty() {
            return shape.level0_score(levels);
        }
        let all = levels.level0.iter().flat_map(|sublevel| sublevel.run.slices());
        let free = all.filter(|slice| !self.bars.touch(&slice.meta));
        free.map(|slice| slice.meta.bytes).sum::<u64>() as f64 / shape.level0_most(levels) as f64
    }

    /// As [`Shape::sublevels_score`](super::Shape::sublevels_score), for the sub-levels with slices
    /// between the same two bars.
    pub(super) fn sublevels_score(&self) -> f64 {
        let (shape, levels) = (&self.shape, self.levels);
        if self.bars.is_empty() {
            return shape.sublevels_score(levels);
        }
        let count = |window: &Window<'_>| {
            let has_some = |run: &Run| window.whole(run).is_some_and(|own| !own.is_empty());
            levels.level0.iter().filter(|sublevel| has_some(&sublevel.run)).count()
        };
        let most = self.bars.windows().iter().map(count).max().unwrap_or_default();
        most as f64 / shape.level0_target as f64
    }

    /// Adjacent sub-levels whose merge writes the fewest bytes, relative to its worth.
    ///
    /// A merge that removes `n` sub-levels makes room for `n` flushes. Merging their sub-levels
    /// into one makes room for `n - 1` more flushes, and so on. So Level0 takes about
    /// `n * (n + 1) / 2` memtables, each of which is written once more, before a merge has to
    /// rewrite the result of the first one. That number is the worth of the merge. If its worth
    /// were `n`, a full Level0 would rewrite a large sub-level again and again with a few small
    /// ones.
    ///
    /// If keys are barred, only the slices of sub-levels between two bars are merged. A sub-level
    /// with a slice there that reaches past a bar stays, and separates its neighbours: older data
    /// must not come before it (PICKER-1).
    pub(super) fn pick_intra_level0(&self) -> Option<Pick> {
        let windows = self.bars.windows();
        let best = windows.iter().filter_map(|window| self.cheapest_sublevels(window));
        let (_, sublevels, window) = best.min_by_key(|(each, ..)| *each)?;
        let target = Place::Level0(self.levels.level0[sublevels.start].number);
        let runs = self.levels.level0[sublevels].iter().map(|sublevel| &sublevel.run);
        let sources = runs.filter_map(|run| window.whole(run)).map(Slices::to_vec);
        let sources = sources.filter(|source| !source.is_empty()).collect();
        let pick = Pick { kind: Kind::IntraLevel0, sources, keeps: Vec::new(), target };
        let (smallest, largest) = pick.hull();
        (!self.bars.overlap(smallest, largest)).then_some(pick)
    }

    /// The cheapest merge in a window: its bytes relative to its worth, and the range of
    /// sub-levels, the first of which has slices there.
    fn cheapest_sublevels<'w>(
        &self,
        window: &'w Window<'w>,
    ) -> Option<(u64, Range<usize>, &'w Window<'w>)> {
        let fewer_min = if self.shape.level0_target > 2 { 2 } else { 1 };
        let inside = |run: &Run| {
            let slices = window.whole(run)?;
            let all = slices.len() == run.slices().len();
            let some = || slices.iter().map(|slice| slice.meta.bytes).sum();
            Some((slices.is_empty(), if all { run.bytes() } else { some() }))
        };
        let inside: Vec<_> =
            self.levels.level0.iter().map(|sublevel| inside(&sublevel.run)).collect();
        let mut best: Option<(u64, Range<usize>)> = None;
        for start in 0..inside.len() {
            let (mut bytes, mut count) = (0, 0);
            for (end, own) in inside.iter().enumerate().skip(start) {
                let Some((is_empty, own)) = own else { break };
                if *is_empty && end == start {
                    break;
                }
                if *is_empty {
                    continue;
                }
                bytes += own;
                count += 1;
                let fewer = count - 1;
                // Merging a pair at a time would write the fewest bytes each time, but the same
                // bytes again and again.
                if fewer < fewer_min {
                    continue;
                }
                let worth = if self.shape.even_level0 { fewer * (fewer + 1) / 2 } else { fewer };
                let each = bytes / worth;
                if best.as_ref().is_none_or(|(least, _)| each < *least) {
                    best = Some((each, start..end + 1));
                }
            }
        }
        best.map(|(each, sublevels)| (each, sublevels, window))
    }

    /// The part of Level0, of about `input_bytes`, with the best ratio of its bytes to those that
    /// it overlaps below.
    pub(super) fn pick_minor(&self) -> Option<Pick> {
        let runs: Vec<_> =
            self.levels.level0.iter().map(|sublevel| Measured::new(&sublevel.run)).collect();
        // A slice that overlaps an older slice must stay if the older one reaches out of the part
        // (PICKER-1). So all slices of a part may have to stay. The oldest slices overlap no older
        // ones, so a part that is cut along the oldest run always has some, unless it is then cut
        // finer. The last attempt does not cut finer, so that a pick is found (PICKER-3).
        let densest = |window: &_| runs.iter().max_by_key(|run| run.bytes_in(window));
        let oldest = |window: &_| runs.iter().rfind(|run| run.bytes_in(window) > 0);
        let even = self.shape.even_level0;
        let pick = self.part_of(densest, &runs, even);
        let pick = pick.or_else(|| self.part_of(oldest, &runs, even));
        pick.or_else(|| if even { self.part_of(oldest, &runs, false) } else { None })
    }

    /// The best of the parts that are cut along a run, which `along` chooses for each window. If
    /// `even`, large parts are also cut finer.
    fn part_of<'r, 'a: 'r>(
        &'a self,
        along: impl Fn(&Window<'a>) -> Option<&'r Measured<'a>>,
        runs: &'r [Measured<'a>],
        even: bool,
    ) -> Option<Pick> {
        let windows = self.bars.windows();
        let cut = windows.iter().filter_map(|window| {
            let along = along(window)?;
            Some(if even { self.parts(window, along, runs) } else { self.cut(window, along, runs) })
        });
        let mut parts: Vec<_> = cut.flatten().collect();
        // Of parts with about equal ratios, prefer those that are not too large, and then the
        // coldest (PICKER-5).
        let least = parts.iter().map(|part| part.ratio).fold(f64::INFINITY, f64::min);
        let order = |part: &Level0Part<'_>| match are_alike(part.ratio, least) {
            true => (0, self.is_much(part), part.warmth),
            false => (1, false, 0),
        };
        parts.sort_by(|a, b| order(a).cmp(&order(b)).then(a.ratio.total_cmp(&b.ratio)));
        // The first part may lie above barred slices.
        parts.iter().take(PARTS_TRIED).find_map(|part| {
            self.out_of_level0(Kind::Minor, |slice| part.window.holds(&slice.meta))
        })
    }

    /// The parts of Level0 along the slices of one of its runs, within a window without barred
    /// keys. A part that is too large, such as one past the end of an older run to which keys were
    /// since added, is also cut along the run with the most bytes in it.
    fn parts<'a>(
        &'a self,
        window: &Window<'a>,
        along: &Measured<'a>,
        runs: &[Measured<'a>],
    ) -> Vec<Level0Part<'a>> {
        let mut parts = self.cut(window, along, runs);
        let mut known: BTreeSet<_> = parts.iter().map(|part| part.window.ends()).collect();
        let much: Vec<_> =
            parts.iter().filter(|part| self.is_much(part)).map(|part| part.window).collect();
        for window in much {
            let most = runs.iter().max_by_key(|run| run.bytes_in(&window));
            if let Some(most) = most.filter(|most| !std::ptr::eq(*most, along)) {
                // Neighbouring large parts overlap for the most part, so their cuts may coincide.
                let finer = self.cut(&window, most, runs);
                parts.extend(finer.into_iter().filter(|part| known.insert(part.window.ends())));
            }
        }
        parts
    }

    /// Whether a part is larger than should go down at once.
    fn is_much(&self, part: &Level0Part<'_>) -> bool {
        self.shape.even_level0 && part.bytes > 2 * self.shape.input_bytes
    }

    /// The parts of Level0 along the slices of one of its runs, each of as many adjacent slices as
    /// make up `input_bytes`.
    fn cut<'a>(
        &'a self,
        window: &Window<'a>,
        along: &Measured<'a>,
        runs: &[Measured<'a>],
    ) -> Vec<Level0Part<'a>> {
        let below = [&self.levels.level1, &self.levels.level2].map(|run| Measured::new(run));
        let slices: Vec<&Arc<Slice>> =
            along.run.slices().part(along.in_window(window)).iter().collect();
        let mut parts = Vec::new();
        let mut end = 0;
        for start in 0..slices.len() {
            let part = |end: usize| {
                let before = if end == slices.len() {
                    window.before
                } else {
                    Some(&*slices[end].meta.smallest)
                };
                let after = match start {
                    0 => window.after,
                    _ => Some(&*slices[start - 1].meta.largest),
                };
                let window = Window { after, before };
                let bytes: u64 = runs.iter().map(|run| run.bytes_in(&window)).sum();
                (window, bytes)
            };
            end = end.max(start + 1);
            let (mut window, mut bytes) = part(end);
            while end < slices.len() && bytes < self.shape.input_bytes {
                end += 1;
                (window, bytes) = part(end);
            }
            let own = (&*slices[start].meta.smallest, &*slices[end - 1].meta.largest);
            // Slices of other runs that lie past the ends of this run may overlap more below than
            // the slices of this run do.
            let (smallest, largest) = match self.shape.even_level0 {
                true => hull(runs.iter().flat_map(|run| run.ends_in(&window))).unwrap_or(own),
                false => own,
            };
            let meets: u64 = below.iter().map(|run| run.bytes_between(smallest, largest)).sum();
            let ratio = meets as f64 / bytes.max(1) as f64;
            let warmth = warmth_of(
                slices[start..end].iter().map(|slice| (slice.temperature(), slice.meta.bytes)),
            );
            parts.push(Level0Part { window, bytes, ratio, warmth });
            // This part ends with the last slice. The next part does too, and has one slice less;
            // it may still have enough bytes.
            let is_enough = self.shape.even_level0 && bytes >= self.shape.input_bytes;
            if end == slices.len() && !is_enough {
                break;
            }
        }
        parts
    }

    /// The wanted slices of Level0 that may go down. A slice above one that stays must stay too
    /// (PICKER-1), and so must one above a barred slice of Level1 (PICKER-2, PICKER-4).
    pub(super) fn out_of_level0(
        &self,
        kind: Kind,
        wanted: impl Fn(&Slice) -> bool,
    ) -> Option<Pick> {
        let Levels { level0, level1, .. } = self.levels;
        let mut stay: Vec<&Arc<Slice>> =
            level1.slices().iter().filter(|slice| self.bars.touch(&slice.meta)).collect();
        let mut sources: Vec<Vec<Arc<Slice>>> = Vec::new();
        for sublevel in level0.iter().rev() {
            let (take, leave): (Vec<_>, Vec<_>) = sublevel.run.slices().iter().partition(|slice| {
                let covers = || stay.iter().any(|older| older.meta.overlaps(&slice.meta));
                wanted(slice) && !self.bars.touch(&slice.meta) && !covers()
            });
            stay.extend(leave);
            sources.insert(0, take.into_iter().cloned().collect());
        }
        self.straight_down(kind, &sources)
            .or_else(|| self.with_target(kind, sources, level1, Place::Level1))
    }

    /// Merges directly into Level2, together with the slices of Level1 at these keys, if all of
    /// them overlap little of Level2. A later major compaction of them would hardly overlap less,
    /// and this way the data is written once less. `None` if Level1 has hot slices there
    /// (PICKER-6).
    fn straight_down(&self, kind: Kind, sources: &[Vec<Arc<Slice>>]) -> Option<Pick> {
        let Levels { level1, level2, .. } = self.levels;
        let (smallest, largest) = hull(sources.iter().flatten())?;
        let is_hot = |slice: &Arc<Slice>| slice.temperature().warmth() == Warmth::Hot;
        let keeps = self.shape.hot_share > 0.0;
        if keeps && level1.between(smallest, largest).iter().any(is_hot) {
            return None;
        }
        let bytes =
            |slices: &[Arc<Slice>]| slices.iter().map(|slice| slice.meta.bytes).sum::<u64>();
        let above = self.with_target(kind, sources.to_vec(), level1, Place::Level1)?;
        let moved: u64 = above.sources.iter().map(|source| bytes(source)).sum();
        let (smallest, largest) = above.hull();
        let meets: u64 =
            level2.between(smallest, largest).iter().map(|slice| slice.meta.bytes).sum();
        let is_cheap = (meets as f64) < self.shape.level2_times * moved as f64;
        is_cheap.then(|| self.with_target(kind, above.sources, level2, Place::Level2)).flatten()
    }
}

/// A part of Level0 that could go down.
struct Level0Part<'a> {
    window: Window<'a>,
    bytes: u64,
    /// The bytes that it overlaps below, for each of its own.
    ratio: f64,
    warmth: u64,
}

/// A run, with the total bytes of the slices before each slice, and of all slices.
struct Measured<'a> {
    run: &'a Run,
    before: Vec<u64>,
}

impl<'a> Measured<'a> {
    fn new(run: &'a Run) -> Measured<'a> {
        let mut sum = 0;
        let bytes = run.slices().iter().map(|slice| slice.meta.bytes);
        let sums = bytes.map(|bytes| {
            sum += bytes;
            sum
        });
        Measured { run, before: std::iter::once(0).chain(sums).collect() }
    }

    /// The slices that lie completely in a window.
    fn in_window(&self, window: &Window<'_>) -> Range<usize> {
        let from = window.after.map_or(0, |after| self.run.begun(after));
        let to = window.before.map_or(self.before.len() - 1, |before| self.run.seek(before));
        from..to.max(from)
    }

    /// The first and the last of those slices.
    fn ends_in(&self, window: &Window<'_>) -> impl Iterator<Item = &'a Arc<Slice>> + use<'a> {
        let slices = self.run.slices().part(self.in_window(window));
        slices.first().into_iter().chain(slices.last())
    }

    fn bytes_in(&self, window: &Window<'_>) -> u64 {
        let slices = self.in_window(window);
        self.before[slices.end] - self.before[slices.start]
    }

    /// Bytes of the slices that could hold a key from `smallest` to `largest`.
    fn bytes_between(&self, smallest: &[u8], largest: &[u8]) -> u64 {
        let from = self.run.seek(smallest);
        let count = self.run.between(smallest, largest).len();
        self.before[from + count] - self.before[from]
    }
}
