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

/// Parts of Level0 that are looked at more closely, the best first.
const PARTS_TRIED: usize = 8;

impl Chooser<'_> {
    /// How many sub-levels the next compaction of Level0 would take something from.
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

    /// Whether sub-levels are to be put together within Level0: where it holds too little to be
    /// worth taking down, and where they are so many that it cannot wait.
    pub(super) fn may_merge_within_level0(&self) -> bool {
        self.level0_score() < 1.0 || self.sublevels_score() >= 2.0
    }

    /// As [`Shape::level0_score`](super::Shape::level0_score), of what is not barred.
    pub(super) fn level0_score(&self) -> f64 {
        let (shape, levels) = (&self.shape, self.levels);
        if self.bars.is_empty() {
            return shape.level0_score(levels);
        }
        let all = levels.level0.iter().flat_map(|sublevel| sublevel.run.slices());
        let free = all.filter(|slice| !self.bars.touch(&slice.meta));
        free.map(|slice| slice.meta.bytes).sum::<u64>() as f64 / shape.level0_most(levels) as f64
    }

    /// As [`Shape::sublevels_score`](super::Shape::sublevels_score), of those that have something
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

    /// The neighbouring sub-levels that are got rid of for the fewest bytes, for what that is
    /// worth.
    ///
    /// With room for `n` more sub-levels as many memtables come before the next merge, which makes
    /// room for one less, and so on: about `n * (n + 1) / 2` of them, each written once more. So
    /// that many is what getting rid of `n` is worth. By the bytes for each sub-level alone, once
    /// Level0 has all the sub-levels it may, a large one would be written again and again with a
    /// few small ones.
    ///
    /// Where keys are barred, they are what neighbours have between two bars. A sub-level that has
    /// something there, which reaches past a bar, stays, and parts its neighbours: what is older
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

    /// The same of what lies in a window: the bytes, for what it is worth, and from which sub-level
    /// to which. The first has something there.
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
                // A pair at a time would write the same bytes again and again, which is the price
                // of the fewest.
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

    /// The part of Level0 that holds the most for what it meets below, about `input_bytes` of it.
    pub(super) fn pick_minor(&self) -> Option<Pick> {
        let runs: Vec<_> =
            self.levels.level0.iter().map(|sublevel| Measured::new(&sublevel.run)).collect();
        // A slice over older slices that reach out of its part stays together with them, which may
        // be all of a part. The oldest slices lie over none (PICKER-3), and each part along them
        // has some, unless it is cut again.
        let densest = |window: &_| runs.iter().max_by_key(|run| run.bytes_in(window));
        let oldest = |window: &_| runs.iter().rfind(|run| run.bytes_in(window) > 0);
        let even = self.shape.even_level0;
        let pick = self.part_of(densest, &runs, even);
        let pick = pick.or_else(|| self.part_of(oldest, &runs, even));
        pick.or_else(|| if even { self.part_of(oldest, &runs, false) } else { None })
    }

    /// The best part of those that are cut along a run, which may be another in each window; of
    /// what is much, finer ones too, if `even`.
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
        // Of those about alike none that is much where others are not, and the coldest (PICKER-5).
        let least = parts.iter().map(|part| part.ratio).fold(f64::INFINITY, f64::min);
        let order = |part: &Level0Part<'_>| match are_alike(part.ratio, least) {
            true => (0, self.is_much(part), part.warmth),
            false => (1, false, 0),
        };
        parts.sort_by(|a, b| order(a).cmp(&order(b)).then(a.ratio.total_cmp(&b.ratio)));
        // The first may turn out to lie over something that is barred.
        parts.iter().take(PARTS_TRIED).find_map(|part| {
            self.out_of_level0(Kind::Minor, |slice| part.window.holds(&slice.meta))
        })
    }

    /// Ways to cut Level0 along the slices of one of its runs, where nothing is barred; and what of
    /// that is much, as past the end of a run that knows nothing of the keys inserted since, along
    /// the one that has the most of it.
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
                // Neighbours that are much have most of what they have together.
                let finer = self.cut(&window, most, runs);
                parts.extend(finer.into_iter().filter(|part| known.insert(part.window.ends())));
            }
        }
        parts
    }

    /// Whether a part is more than should go down at once.
    fn is_much(&self, part: &Level0Part<'_>) -> bool {
        self.shape.even_level0 && part.bytes > 2 * self.shape.input_bytes
    }

    /// Ways to cut Level0 along the slices of one of its runs: of neighbours as many as are enough.
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
            // What others have past the ends of this run may meet more than what it has itself.
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
            // To the end there may still be enough without the first of these.
            let is_enough = self.shape.even_level0 && bytes >= self.shape.input_bytes;
            if end == slices.len() && !is_enough {
                break;
            }
        }
        parts
    }

    /// What of Level0 is wanted, and may go down: a slice over one that stays stays, too
    /// (PICKER-1), and so does one over a slice of Level1 that is barred (PICKER-2, PICKER-4).
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

    /// Into Level2, together with what Level1 has of the keys, where Level2 has little of them: a
    /// major compaction would hardly find less, and they are written once less. Not where Level1
    /// has what is hot (PICKER-6).
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
    /// Bytes that it meets below, for each of its own.
    ratio: f64,
    warmth: u64,
}

/// A run, and the bytes of the slices before each.
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

    /// The slices that lie in a window, whole.
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
