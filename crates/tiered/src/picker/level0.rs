//! Out of Level0, and within it.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use super::bars::Window;
use super::warm::{are_alike, warmth_of};
use super::{Chooser, Kind, Pick, hull};
use crate::level::{Levels, Run, Slice};
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
                run.find(&slice.meta.smallest).is_some_and(|there| Arc::ptr_eq(there, slice))
            })
        };
        let picks = [Kind::Minor, Kind::IntraLevel0].into_iter().filter_map(|kind| self.pick(kind));
        let reached = picks.map(|pick| {
            pick.sources.iter().filter(|source| source.first().is_some_and(is_above)).count()
        });
        reached.max().unwrap_or_default()
    }

    /// Whether sub-levels are to be put together within Level0: where it holds too little to be worth taking down, and where they
    /// are so many that it cannot wait.
    pub(super) fn may_merge_within_level0(&self) -> bool {
        let (shape, levels) = (&self.shape, self.levels);
        shape.level0_score(levels) < 1.0 || shape.sublevels_score(levels) >= 2.0
    }

    /// The neighbouring sub-levels that are got rid of for the fewest bytes, for what that is worth.
    ///
    /// With room for `n` more sub-levels as many memtables come before the next merge, which makes room for one less, and so on: about
    /// `n * (n + 1) / 2` of them, each written once more. So that many is what getting rid of `n` is worth. By the bytes for each
    /// sub-level alone, once Level0 has all the sub-levels it may, a large one would be written again and again with a few small ones.
    pub(super) fn pick_intra_level0(&self) -> Option<Pick> {
        let sublevels = &self.levels.level0;
        let free = |at: &usize| {
            let slices = sublevels[*at].run.slices();
            !slices.iter().any(|slice| self.bars.touch(&slice.meta))
        };
        let fewer_min = if self.shape.level0_target > 2 { 2 } else { 1 };
        let mut best: Option<(u64, Range<usize>)> = None;
        for start in 0..sublevels.len() {
            let mut bytes = 0;
            for end in (start..sublevels.len()).take_while(free) {
                bytes += sublevels[end].run.bytes();
                let fewer = (end - start) as u64;
                // A pair at a time would write the same bytes again and again, which is the price of the fewest.
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
        let (_, window) = best?;
        let target = Place::Level0(sublevels[window.start].number);
        let sources = sublevels[window].iter().map(|sublevel| sublevel.run.slices().to_vec());
        let pick =
            Pick { kind: Kind::IntraLevel0, sources: sources.collect(), keeps: Vec::new(), target };
        let (smallest, largest) = pick.hull();
        (!self.bars.overlap(smallest, largest)).then_some(pick)
    }

    /// The part of Level0 that holds the most for what it meets below, about `input_bytes` of it.
    pub(super) fn pick_minor(&self) -> Option<Pick> {
        let runs: Vec<_> =
            self.levels.level0.iter().map(|sublevel| Measured::new(&sublevel.run)).collect();
        // What lies over older slices that reach out of its part stays with them, which may be all of a part. The oldest
        // slices lie over none (P3), and each part along them has some, unless it is cut again.
        let densest = |window: &_| runs.iter().max_by_key(|run| run.bytes_in(window));
        let oldest = |window: &_| runs.iter().rfind(|run| run.bytes_in(window) > 0);
        let even = self.shape.even_level0;
        let pick = self.part_of(densest, &runs, even);
        let pick = pick.or_else(|| self.part_of(oldest, &runs, even));
        pick.or_else(|| if even { self.part_of(oldest, &runs, false) } else { None })
    }

    /// The best part of those that are cut along a run, which may be another in each window; of what is much, finer ones too, if `even`.
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
        // Of those about alike none that is much where others are not, and the coldest (P5).
        let least = parts.iter().map(|part| part.ratio).fold(f64::INFINITY, f64::min);
        let order = |part: &Part<'_>| match are_alike(part.ratio, least) {
            true => (0, self.is_much(part), part.warmth),
            false => (1, false, 0),
        };
        parts.sort_by(|a, b| order(a).cmp(&order(b)).then(a.ratio.total_cmp(&b.ratio)));
        // The first may turn out to lie over something that is barred.
        parts.iter().take(PARTS_TRIED).find_map(|part| {
            self.out_of_level0(Kind::Minor, |slice| part.window.holds(&slice.meta))
        })
    }

    /// Ways to cut Level0 along the slices of one of its runs, where nothing is barred; and what of that is much, as past the end of a
    /// run that knows nothing of the keys inserted since, along the one that has the most of it.
    fn parts<'a>(
        &'a self,
        window: &Window<'a>,
        along: &Measured<'a>,
        runs: &[Measured<'a>],
    ) -> Vec<Part<'a>> {
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
    fn is_much(&self, part: &Part<'_>) -> bool {
        self.shape.even_level0 && part.bytes > 2 * self.shape.input_bytes
    }

    /// Ways to cut Level0 along the slices of one of its runs: of neighbours as many as are enough.
    fn cut<'a>(
        &'a self,
        window: &Window<'a>,
        along: &Measured<'a>,
        runs: &[Measured<'a>],
    ) -> Vec<Part<'a>> {
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
            parts.push(Part { window, bytes, ratio, warmth });
            // To the end there may still be enough without the first of these.
            let is_enough = self.shape.even_level0 && bytes >= self.shape.input_bytes;
            if end == slices.len() && !is_enough {
                break;
            }
        }
        parts
    }

    /// What of Level0 is wanted, and may go down: a slice over one that stays stays, too (P1), and so does one over a
    /// slice of Level1 that is barred (P2, P4).
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

    /// Into Level2, together with what Level1 has of the keys, where Level2 has little of them: a major compaction would hardly find
    /// less, and they are written once less. Not where Level1 has what is hot (P6).
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
struct Part<'a> {
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
