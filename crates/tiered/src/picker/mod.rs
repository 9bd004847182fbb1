//! Which slices to compact next: pure functions of a table's levels.
//!
//! # What a pick must keep
//! - **P1.** Where sources of one table hold versions of the same key, the newer source keeps the
//!   newer ones. So a slice leaves Level0 only together with every slice of older sub-levels
//!   that overlaps it.
//! - **P2.** The runs of Level1 and Level2 stay sorted: the inputs include every slice of the target
//!   level that overlaps the hull of the other inputs.
//! - **P3.** Every pick makes progress: it holds at least one slice of the level it relieves.
//!
//! # Levels
//! Level0 is relieved into Level1 by the number of its sub-levels (a *minor* compaction), because
//! each is one more place to look. Level1 is relieved into Level2 by size (a *major* compaction).
//! Moving a byte down costs about `|L1|/|L0|` bytes of rewriting at the first step and
//! `|L2|/|L1|` at the second; their sum is least where both are equal, so Level1's target is the
//! geometric mean of what Level0 holds when it is relieved and of Level2.

mod moves;
mod recode;
#[cfg(all(test, not(loom)))]
mod tests;

use std::sync::Arc;

use crate::level::{Levels, Run, Slice};
use crate::manifest::Place;
pub(crate) use moves::{Lodger, Room, pick_moves};
pub(crate) use recode::pick_recoding;

/// The figures that compaction goes by.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Shape {
    /// Sub-levels at which Level0 is relieved.
    pub(crate) level0_target: usize,
    /// Sub-levels at which writers are to be held back.
    pub(crate) level0_limit: usize,
    /// Bytes that Level1 may always hold.
    pub(crate) level1_bytes_min: u64,
    /// Bytes that Level0 holds when it is relieved, about.
    pub(crate) level0_bytes: u64,
    /// Bytes from the upper level that one compaction takes, about.
    pub(crate) input_bytes: u64,
}

/// What kind of compaction it is (X-Engine, section 3.3.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Level0 into Level1.
    Minor,
    /// Level1 into Level2.
    Major,
    /// Everything into Level2, on request.
    Full,
    /// Of Level2, what is not compressed as it should be there.
    Recode,
}

/// A compaction to do.
#[derive(Clone, Debug)]
pub(crate) struct Pick {
    pub(crate) kind: Kind,
    /// The inputs: one list for each source run, newest first, each in key order.
    pub(crate) sources: Vec<Vec<Arc<Slice>>>,
    /// Where the outputs go.
    pub(crate) target: Place,
}

impl Pick {
    /// All inputs.
    pub(crate) fn inputs(&self) -> impl Iterator<Item = &Arc<Slice>> {
        self.sources.iter().flatten()
    }

    /// The smallest and the largest key of the inputs.
    pub(crate) fn hull(&self) -> (&[u8], &[u8]) {
        hull(self.inputs()).expect("a pick has inputs")
    }
}

fn hull<'a>(slices: impl Iterator<Item = &'a Arc<Slice>>) -> Option<(&'a [u8], &'a [u8])> {
    slices.fold(None, |hull, slice| {
        let (smallest, largest) = (&*slice.meta.smallest, &*slice.meta.largest);
        let (low, high) = hull.unwrap_or((smallest, largest));
        Some((low.min(smallest), high.max(largest)))
    })
}

impl Shape {
    /// The bytes that Level1 should hold above a given Level2.
    pub(crate) fn level1_target(&self, level2_bytes: u64) -> u64 {
        let mean = (self.level0_bytes as f64 * level2_bytes as f64).sqrt() as u64;
        mean.max(self.level1_bytes_min)
    }

    /// How far Level0 is over its target: 1 asks for a compaction.
    pub(crate) fn level0_score(&self, levels: &Levels) -> f64 {
        levels.level0.len() as f64 / self.level0_target as f64
    }

    /// How far Level1 is over its target: above 1 asks for a compaction.
    pub(crate) fn level1_score(&self, levels: &Levels) -> f64 {
        levels.level1.bytes() as f64 / self.level1_target(levels.level2.bytes()) as f64
    }

    /// How urgent the table's next compaction is; `None` when it needs none.
    pub(crate) fn urgency(&self, levels: &Levels) -> Option<f64> {
        let (level0, level1) = (self.level0_score(levels), self.level1_score(levels));
        (level0 >= 1.0 || level1 > 1.0).then_some(level0.max(level1))
    }

    /// Bytes over target, which compaction should have moved by now.
    pub(crate) fn debt_bytes(&self, levels: &Levels) -> u64 {
        let level1 = levels.level1.bytes();
        let over = level1.saturating_sub(self.level1_target(levels.level2.bytes()));
        let minor = levels.level0.len() >= self.level0_target;
        over + if minor { levels.level0_bytes() } else { 0 }
    }

    /// The table's next compaction.
    pub(crate) fn pick(&self, levels: &Levels) -> Option<Pick> {
        let (level0, level1) = (self.level0_score(levels), self.level1_score(levels));
        if level0 >= 1.0 && level0 >= level1 {
            Some(self.pick_minor(levels))
        } else if level1 > 1.0 {
            Some(self.pick_major(levels))
        } else {
            None
        }
    }

    /// Everything into Level2; `None` when there is nothing.
    pub(crate) fn pick_full(&self, levels: &Levels) -> Option<Pick> {
        let sources: Vec<_> = levels.runs().map(|run| run.slices().to_vec()).collect();
        let any = sources.iter().any(|source| !source.is_empty());
        any.then_some(Pick { kind: Kind::Full, sources, target: Place::Level2 })
    }

    /// The lowest keys of Level0, as far as `input_bytes` go.
    fn pick_minor(&self, levels: &Levels) -> Pick {
        let oldest = levels.level0.last().expect("Level0 is over its target");
        let share = self.input_bytes as f64 / levels.level0_bytes().max(1) as f64;
        let bound = if share >= 1.0 {
            None
        } else {
            // The oldest sub-level's share of the input decides how far up the keys it goes.
            let wanted = (oldest.run.bytes() as f64 * share) as u64;
            let mut taken = 0;
            let last = oldest.run.slices().iter().find(|slice| {
                taken += slice.meta.bytes;
                taken >= wanted
            });
            last.map(|slice| &*slice.meta.largest)
        };
        let mut sources: Vec<Vec<Arc<Slice>>> = Vec::new();
        let mut left: Vec<&Arc<Slice>> = Vec::new();
        for sublevel in levels.level0.iter().rev() {
            let (take, leave): (Vec<_>, Vec<_>) = sublevel.run.slices().iter().partition(|slice| {
                let inside = bound.is_none_or(|bound| *slice.meta.largest <= *bound);
                inside && !left.iter().any(|older| older.meta.overlaps(&slice.meta))
            });
            left.extend(leave);
            sources.insert(0, take.into_iter().cloned().collect());
        }
        self.with_target(Kind::Minor, sources, &levels.level1, Place::Level1)
    }

    /// The neighbours in Level1 that overlap the least of Level2, for their size.
    fn pick_major(&self, levels: &Levels) -> Pick {
        let (upper, lower) = (levels.level1.slices(), &levels.level2);
        let mut best: Option<(f64, std::ops::Range<usize>)> = None;
        let (mut end, mut bytes) = (0, 0);
        for start in 0..upper.len() {
            while end < upper.len() && (end <= start || bytes < self.input_bytes) {
                bytes += upper[end].meta.bytes;
                end += 1;
            }
            let (smallest, largest) = (&upper[start].meta.smallest, &upper[end - 1].meta.largest);
            let below: u64 = lower.between(smallest, largest).iter().map(|e| e.meta.bytes).sum();
            let ratio = below as f64 / bytes.max(1) as f64;
            if best.as_ref().is_none_or(|(least, _)| ratio < *least) {
                best = Some((ratio, start..end));
            }
            bytes -= upper[start].meta.bytes;
        }
        let (_, window) = best.expect("Level1 is over its target");
        self.with_target(Kind::Major, vec![upper[window].to_vec()], lower, Place::Level2)
    }

    fn with_target(
        &self,
        kind: Kind,
        mut sources: Vec<Vec<Arc<Slice>>>,
        below: &Run,
        target: Place,
    ) -> Pick {
        let (smallest, largest) = hull(sources.iter().flatten()).expect("a pick has inputs");
        let lower = below.between(smallest, largest).to_vec();
        sources.push(lower);
        sources.retain(|source| !source.is_empty());
        Pick { kind, sources, target }
    }
}
