//! The extents of one table, in levels.
//!
//! A [`Run`] is a sorted sequence of extents that do not overlap. Level0 is a list of runs, its
//! *sub-levels*, newest first; Level1 and Level2 are one run each. A [`Levels`] never changes: an
//! edit makes a new one that shares what it did not touch, so a reader keeps its own for as long as
//! it likes (X-Engine, section 3.1.3).

use std::collections::HashSet;
use std::sync::Arc;

use spillway_base::{Csn, Error, KeyRange, Result};

use crate::extent::ExtentHandle;
use crate::extent_meta::ExtentId;
use crate::manifest::Place;

/// Extents in key order, none overlapping another.
#[derive(Clone, Default, Debug)]
pub(crate) struct Run {
    extents: Vec<Arc<ExtentHandle>>,
    bytes: u64,
    csn_max: Csn,
}

impl Run {
    /// A run of these extents, given in any order.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Corruption`] when two of them share keys.
    pub(crate) fn new(mut extents: Vec<Arc<ExtentHandle>>) -> Result<Run> {
        extents.sort_unstable_by(|a, b| a.meta.smallest.cmp(&b.meta.smallest));
        let shared = extents.windows(2).find(|pair| pair[0].meta.largest >= pair[1].meta.smallest);
        if let Some(pair) = shared {
            let (first, second) = (pair[0].meta.id, pair[1].meta.id);
            return Err(Error::corruption(format!("{first} and {second} of one run share keys")));
        }
        let bytes = extents.iter().map(|extent| extent.meta.len).sum();
        let csn_max = extents.iter().map(|extent| extent.meta.csn_max).max().unwrap_or_default();
        Ok(Run { extents, bytes, csn_max })
    }

    /// The largest CSN in it.
    pub(crate) fn csn_max(&self) -> Csn {
        self.csn_max
    }

    /// The extents, in key order.
    pub(crate) fn extents(&self) -> &[Arc<ExtentHandle>] {
        &self.extents
    }

    /// Bytes of all extents.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The index of the first extent that could hold `key` or a larger one.
    pub(crate) fn seek(&self, key: &[u8]) -> usize {
        self.extents.partition_point(|extent| *extent.meta.largest < *key)
    }

    /// The extent that would hold `key`.
    pub(crate) fn find(&self, key: &[u8]) -> Option<&Arc<ExtentHandle>> {
        self.extents.get(self.seek(key)).filter(|extent| *extent.meta.smallest <= *key)
    }

    /// The extents that could hold a key from `smallest` to `largest`, both included.
    pub(crate) fn between(&self, smallest: &[u8], largest: &[u8]) -> &[Arc<ExtentHandle>] {
        let from = self.seek(smallest);
        let count = self.extents[from..].partition_point(|e| *e.meta.smallest <= *largest);
        &self.extents[from..from + count]
    }

    /// The extents that could hold a key of the range.
    pub(crate) fn within(&self, range: KeyRange<'_>) -> &[Arc<ExtentHandle>] {
        let from = self.seek(range.start);
        let count = self.extents[from..]
            .partition_point(|extent| range.end.is_none_or(|end| *extent.meta.smallest < *end));
        &self.extents[from..from + count]
    }
}

/// A sub-level of Level0.
#[derive(Clone, Debug)]
pub(crate) struct Sublevel {
    /// Larger is newer.
    pub(crate) number: u64,
    /// Its extents.
    pub(crate) run: Arc<Run>,
}

/// All extents of a table.
#[derive(Clone, Default, Debug)]
pub(crate) struct Levels {
    /// Newest first.
    pub(crate) level0: Vec<Sublevel>,
    pub(crate) level1: Arc<Run>,
    pub(crate) level2: Arc<Run>,
}

/// A change to a table's levels: extents that go, then extents that come. One that is in both is
/// moved.
#[derive(Clone, Default, Debug)]
pub(crate) struct LevelsEdit {
    pub(crate) removed: Vec<Arc<ExtentHandle>>,
    pub(crate) added: Vec<(Place, Arc<ExtentHandle>)>,
}

impl Levels {
    /// All runs, the newest data first.
    pub(crate) fn runs(&self) -> impl DoubleEndedIterator<Item = &Arc<Run>> {
        let level0 = self.level0.iter().map(|sublevel| &sublevel.run);
        level0.chain([&self.level1, &self.level2])
    }

    /// Every extent and its place.
    pub(crate) fn places(&self) -> impl Iterator<Item = (Place, &Arc<ExtentHandle>)> {
        let level0 = self.level0.iter().flat_map(|sublevel| {
            let place = Place::Level0(sublevel.number);
            sublevel.run.extents().iter().map(move |extent| (place, extent))
        });
        let level1 = self.level1.extents().iter().map(|extent| (Place::Level1, extent));
        let level2 = self.level2.extents().iter().map(|extent| (Place::Level2, extent));
        level0.chain(level1).chain(level2)
    }

    /// Whether there is no extent.
    pub(crate) fn is_empty(&self) -> bool {
        self.runs().all(|run| run.extents().is_empty())
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
        let removed: HashSet<ExtentId> = edit.removed.iter().map(|e| e.meta.id).collect();
        let rebuild = |place: Place, run: Option<&Arc<Run>>| {
            let added = edit.added.iter().filter(|(to, _)| *to == place);
            let added: Vec<_> = added.map(|(_, extent)| extent.clone()).collect();
            let old = run.map_or(&[][..], |run| run.extents());
            match run {
                Some(run)
                    if added.is_empty() && old.iter().all(|e| !removed.contains(&e.meta.id)) =>
                {
                    Ok(run.clone())
                }
                _ => {
                    let kept = old.iter().filter(|extent| !removed.contains(&extent.meta.id));
                    Run::new(kept.cloned().chain(added).collect()).map(Arc::new)
                }
            }
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
            if !run.extents().is_empty() {
                level0.push(Sublevel { number, run });
            }
        }
        Ok(Levels {
            level0,
            level1: rebuild(Place::Level1, Some(&self.level1))?,
            level2: rebuild(Place::Level2, Some(&self.level2))?,
        })
    }
}
