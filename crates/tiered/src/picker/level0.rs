//! Out of Level0, and within it.

use std::sync::Arc;

use super::bars::Window;
use super::{Chooser, Kind, Pick};
use crate::level::{Levels, Slice};
use crate::manifest::Place;

impl Chooser<'_> {
    /// Whether Level0 holds too little for its number of sub-levels to be worth taking down: what is there stays warm, and
    /// is merged by itself.
    pub(super) fn is_level0_light(&self) -> bool {
        let bytes = self.levels.level0_bytes();
        // What it would be merged with costs as much again and more.
        bytes * 2 < self.shape.level0_bytes && bytes * 4 < self.levels.level1.bytes()
    }

    /// The neighbouring sub-levels that are got rid of for the fewest bytes each.
    pub(super) fn pick_intra_level0(&self) -> Option<Pick> {
        let sublevels = &self.levels.level0;
        let free = |at: &usize| {
            let slices = sublevels[*at].run.slices();
            !slices.iter().any(|slice| self.bars.touch(&slice.meta))
        };
        let mut best: Option<(u64, std::ops::Range<usize>)> = None;
        for start in 0..sublevels.len() {
            let mut bytes = 0;
            for end in (start..sublevels.len()).take_while(free) {
                bytes += sublevels[end].run.bytes();
                let fewer = (end - start) as u64;
                // A pair at a time would write the same bytes again and again.
                if fewer < 2 || bytes > self.shape.input_bytes {
                    continue;
                }
                let each = bytes / fewer;
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

    /// The lowest keys of Level0 that are not barred, as far as `input_bytes` go.
    pub(super) fn pick_minor(&self) -> Option<Pick> {
        self.bars.windows().into_iter().find_map(|window| {
            let bound = self.bound(&window);
            let inside = |slice: &Slice| {
                bound.is_none_or(|bound| *slice.meta.largest <= *bound) && window.holds(&slice.meta)
            };
            self.out_of_level0(Kind::Minor, inside)
        })
    }

    /// How far up the keys of a window one compaction goes; `None` where it goes all the way.
    fn bound(&self, window: &Window<'_>) -> Option<&[u8]> {
        let inside = |slices: &[Arc<Slice>]| -> u64 {
            slices.iter().filter(|slice| window.holds(&slice.meta)).map(|s| s.meta.bytes).sum()
        };
        let runs = || self.levels.level0.iter().rev().map(|sublevel| sublevel.run.slices());
        let all: u64 = runs().map(inside).sum();
        let share = self.shape.input_bytes as f64 / all.max(1) as f64;
        if share >= 1.0 {
            return None;
        }
        // The share of the oldest sub-level that has anything here decides.
        let oldest = runs().find(|slices| inside(slices) > 0)?;
        let wanted = (inside(oldest) as f64 * share) as u64;
        let mut taken = 0;
        let mut slices = oldest.iter().filter(|slice| window.holds(&slice.meta));
        let last = slices.find(|slice| {
            taken += slice.meta.bytes;
            taken >= wanted
        });
        last.map(|slice| &*slice.meta.largest)
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
        self.with_target(kind, sources, level1, Place::Level1)
    }
}
