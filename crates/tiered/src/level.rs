//! The levels of a sub-table: slices of extents.
//!
//! A [`Run`] is a sorted sequence of slices that do not overlap. Level0 is a list of runs, its
//! *sub-levels*, newest first. Level1 and Level2 are one run each. A [`Levels`] never changes: an
//! edit makes a new one that shares the unchanged parts, so a reader can keep the old one for as
//! long as it needs it (X-Engine, section 3.1.3). A run is a tree, and an edit copies only the
//! paths from the root to the changed slices (`tree`).

mod heads;
mod inherited_reads;
mod retired_nodes;
mod run;
mod slice;
mod slices;
#[cfg(all(test, not(loom)))]
mod tests;
mod tree;

use std::sync::Arc;

use spillway_base::{Csn, KeyRange, Result};

use crate::manifest::Place;
use crate::ranges::RangeTombstones;
pub(crate) use inherited_reads::InheritedReads;
pub(crate) use run::Run;
pub(crate) use slice::Slice;
pub(crate) use slices::Slices;

/// A sub-level of Level0.
#[derive(Clone, Debug)]
pub(crate) struct Sublevel {
    /// Larger is newer.
    pub(crate) number: u64,
    /// Its slices.
    pub(crate) run: Arc<Run>,
}

/// All slices of a table.
#[derive(Clone, Default, Debug)]
pub(crate) struct Levels {
    /// Newest first.
    pub(crate) level0: Vec<Sublevel>,
    pub(crate) level1: Arc<Run>,
    pub(crate) level2: Arc<Run>,
    /// The range tombstones over all of them.
    pub(crate) ranges: Arc<RangeTombstones>,
    /// The largest CSN of all versions that were in these levels since the opening. A snapshot at
    /// or above it sees only the newest version of each key, and no compaction drops those.
    pub(crate) newest_from: Csn,
}

/// An edit of levels: slices that leave, and slices that come. A slice that is in both moves.
#[derive(Clone, Default, Debug)]
pub(crate) struct LevelsEdit {
    pub(crate) removed: Vec<Arc<Slice>>,
    pub(crate) added: Vec<(Place, Arc<Slice>)>,
    /// The new range tombstones, if they change.
    pub(crate) ranges: Option<Arc<RangeTombstones>>,
    /// The largest CSN of the slices that come from a memtable.
    pub(crate) newest_from: Csn,
}

impl Drop for Levels {
    /// The last reader frees only some of the nodes, and leaves the others to a background thread
    /// (DEFERRED-FREE-1).
    fn drop(&mut self) {
        let level0 = std::mem::take(&mut self.level0).into_iter().map(|sublevel| sublevel.run);
        let below = [&mut self.level1, &mut self.level2].map(std::mem::take);
        run::let_go_of(level0.chain(below));
    }
}

impl Levels {
    /// All runs, the newest data first.
    pub(crate) fn runs(&self) -> impl DoubleEndedIterator<Item = &Arc<Run>> {
        let level0 = self.level0.iter().map(|sublevel| &sublevel.run);
        level0.chain([&self.level1, &self.level2])
    }

    /// Every slice and its place.
    pub(crate) fn places(&self) -> impl Iterator<Item = (Place, &Arc<Slice>)> + Clone {
        let level0 = self.level0.iter().flat_map(|sublevel| {
            let place = Place::Level0(sublevel.number);
            sublevel.run.slices().iter().map(move |slice| (place, slice))
        });
        let level1 = self.level1.slices().iter().map(|slice| (Place::Level1, slice));
        let level2 = self.level2.slices().iter().map(|slice| (Place::Level2, slice));
        level0.chain(level1).chain(level2)
    }

    /// Whether there is no slice.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs().all(|run| run.slices().is_empty())
    }

    /// The slices and range tombstones of a range whose ends no slice spans.
    pub(crate) fn within(&self, range: KeyRange<'_>) -> Levels {
        let part = |run: &Run| {
            let slices = run.within(range).to_vec();
            Arc::new(Run::new(slices).expect("a part of a run is one"))
        };
        let sublevels = self.level0.iter();
        let level0 = sublevels
            .map(|old| Sublevel { number: old.number, run: part(&old.run) })
            .filter(|sublevel| !sublevel.run.slices().is_empty());
        Levels {
            level0: level0.collect(),
            level1: part(&self.level1),
            level2: part(&self.level2),
            ranges: Arc::new(self.ranges.within(range)),
            newest_from: self.newest_from,
        }
    }

    /// These slices and those of other levels, whose keys all come after these. Sub-levels of the
    /// same number become one. So each side keeps the numbers of its sub-levels, and their order.
    pub(crate) fn joined(&self, after: &Levels) -> Levels {
        let newest_from = self.newest_from.max(after.newest_from);
        let mut edit = LevelsEdit { newest_from, ..LevelsEdit::default() };
        let both = self.places().chain(after.places());
        edit.added.extend(both.map(|(place, slice)| (place, slice.clone())));
        edit.ranges = Some(Arc::new(self.ranges.union(&after.ranges)));
        Levels::default().apply(&edit).expect("neighbours share no keys")
    }

    /// Whether a slice is in Level1 or in Level2, as asked.
    pub(crate) fn is_at(&self, place: Place, slice: &Arc<Slice>) -> bool {
        let run = match place {
            Place::Level0(_) => return false,
            Place::Level1 => &self.level1,
            Place::Level2 => &self.level2,
        };
        run.slice_of(&slice.meta.smallest).is_some_and(|there| Arc::ptr_eq(there, slice))
    }

    /// The number of the next sub-level.
    pub(crate) fn next_sublevel(&self) -> u64 {
        self.level0.first().map_or(1, |newest| newest.number + 1)
    }

    /// Bytes in Level0.
    pub(crate) fn level0_bytes(&self) -> u64 {
        self.level0.iter().map(|sublevel| sublevel.run.bytes()).sum()
    }

    /// The levels after an edit. Runs that it does not touch are shared.
    ///
    /// # Errors
    /// As [`Run::new`].
    pub(crate) fn apply(&self, edit: &LevelsEdit) -> Result<Levels> {
        let none = Arc::new(Run::default());
        let rebuild = |place: Place, run: Option<&Arc<Run>>| {
            let added = edit.added.iter().filter(|(to, _)| *to == place);
            let added = added.map(|(_, slice)| slice.clone()).collect();
            run.unwrap_or(&none).edited(&edit.removed, added)
        };
        let mut numbers: Vec<u64> = self.level0.iter().map(|sublevel| sublevel.number).collect();
        numbers.extend(edit.added.iter().filter_map(|(place, _)| match place {
            Place::Level0(number) => Some(*number),
            Place::Level1 | Place::Level2 => None,
        }));
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        numbers.dedup();
        let mut level0 = Vec::with_capacity(numbers.len());
        for number in numbers {
            let old = self.level0.iter().find(|sublevel| sublevel.number == number);
            let run = rebuild(Place::Level0(number), old.map(|sublevel| &sublevel.run))?;
            if !run.slices().is_empty() {
                level0.push(Sublevel { number, run });
            }
        }
        Ok(Levels {
            level0,
            level1: rebuild(Place::Level1, Some(&self.level1))?,
            level2: rebuild(Place::Level2, Some(&self.level2))?,
            ranges: edit.ranges.as_ref().unwrap_or(&self.ranges).clone(),
            newest_from: self.newest_from.max(edit.newest_from),
        })
    }
}
