//! The slices of extents that one table is made of, in levels.
//!
//! A [`Run`] is a sorted sequence of slices that do not overlap. Level0 is a list of runs, its
//! *sub-levels*, newest first; Level1 and Level2 are one run each. A [`Levels`] never changes: an
//! edit makes a new one that shares what it did not touch, so a reader keeps its own for as long as
//! it likes (X-Engine, section 3.1.3).

#[cfg(all(test, not(loom)))]
mod tests;

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use spillway_base::{Csn, Error, KeyRange, Result};

use crate::extent::ExtentHandle;
use crate::extent_meta::SliceMeta;
use crate::manifest::Place;
use crate::ranges::RangeTombstones;
use crate::temperature::Temperature;

/// Consecutive blocks of an extent.
pub(crate) struct Slice {
    pub(crate) meta: Arc<SliceMeta>,
    pub(crate) extent: Arc<ExtentHandle>,
}

impl Slice {
    /// How often it was read lately.
    pub(crate) fn temperature(&self) -> Temperature {
        self.extent.temperature(self.meta.block_range())
    }

    /// A slice with nothing behind it, of blocks of a byte, for tests of what needs only the record.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn detached(
        extent: crate::extent_meta::ExtentId,
        smallest: &str,
        largest: &str,
        bytes: u64,
        tombstones: u64,
    ) -> Arc<Slice> {
        use crate::extent_meta::{Counts, ExtentMeta};
        use crate::space::SlotRun;

        let slots = SlotRun { file: 0, first: extent.0 as u32, count: 1 };
        let handle = ExtentMeta {
            id: extent,
            slots,
            len: bytes,
            blocks: bytes as u32,
            data_bytes: bytes,
            coding: crate::coding::Coding::Stored,
        };
        let csn = Csn(1);
        let counts = Counts {
            versions: 100,
            keys: 100,
            tombstones,
            payload_bytes: bytes,
            csn_min: csn,
            csn_max: csn,
        };
        let meta = SliceMeta {
            extent,
            first_block: 0,
            blocks: bytes as u32,
            bytes,
            smallest: smallest.as_bytes().into(),
            largest: largest.as_bytes().into(),
            counts,
        };
        let extent = ExtentHandle::detached(handle);
        extent.change_live_bytes(bytes, 0);
        Arc::new(Slice { meta: Arc::new(meta), extent })
    }
}

impl std::fmt::Debug for Slice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.meta.fmt(f)
    }
}

/// Slices in key order, none overlapping another.
#[derive(Clone, Default, Debug)]
pub(crate) struct Run {
    slices: Vec<Arc<Slice>>,
    /// Of each slice, of what its largest key and its smallest have behind what all keys begin with.
    heads: Heads,
    bytes: u64,
    csn_max: Csn,
}

/// Bytes of a prefix that heads are behind, at the most.
const PREFIX_BYTES: usize = 24;

/// Of keys the eight bytes behind what all of them begin with, as numbers: a key below another has no larger head. A search goes through
/// numbers that lie side by side, and asks for a key only where heads are equal.
#[derive(Clone, Default, Debug)]
struct Heads {
    prefix: [u8; PREFIX_BYTES],
    prefix_bytes: usize,
    largest: Vec<u64>,
    smallest: Vec<u64>,
}

impl Heads {
    fn of(slices: &[Arc<Slice>]) -> Heads {
        let mut heads = Heads::default();
        if let [first, .., last] | [first @ last] = slices {
            let (first, last) = (&first.meta.smallest, &last.meta.largest);
            let alike = first.iter().zip(last).take_while(|(a, b)| a == b).count();
            heads.prefix_bytes = alike.min(PREFIX_BYTES);
            heads.prefix[..heads.prefix_bytes].copy_from_slice(&first[..heads.prefix_bytes]);
        }
        slices.iter().for_each(|slice| heads.push(slice));
        heads
    }

    /// None, of keys that begin alike.
    fn emptied(&self, capacity: usize) -> Heads {
        let [largest, smallest] = [(), ()].map(|()| Vec::with_capacity(capacity));
        Heads { largest, smallest, ..*self }
    }

    fn push(&mut self, slice: &Slice) {
        let head = |key: &[u8]| head_of(key.get(self.prefix_bytes..).unwrap_or_default());
        let (largest, smallest) = (head(&slice.meta.largest), head(&slice.meta.smallest));
        self.largest.push(largest);
        self.smallest.push(smallest);
    }

    fn extend(&mut self, others: &Heads, range: Range<usize>) {
        self.largest.extend_from_slice(&others.largest[range.clone()]);
        self.smallest.extend_from_slice(&others.smallest[range]);
    }

    /// Whether the keys of all slices, which are in order, begin with the prefix.
    fn is_of(&self, slices: &[Arc<Slice>]) -> bool {
        let prefix = &self.prefix[..self.prefix_bytes];
        let ends = slices.first().zip(slices.last());
        ends.is_none_or(|(first, last)| {
            first.meta.smallest.starts_with(prefix) && last.meta.largest.starts_with(prefix)
        })
    }

    /// The head of a key; the largest for a key that is above all that begin with the prefix, `None` for one below them.
    #[inline]
    fn of_key(&self, key: &[u8]) -> Option<u64> {
        let prefix = &self.prefix[..self.prefix_bytes];
        match key.split_at_checked(self.prefix_bytes) {
            Some((begin, rest)) if begin == prefix => Some(head_of(rest)),
            _ => (key > prefix).then_some(u64::MAX),
        }
    }
}

/// The first eight bytes as a number; bytes that are not there are zeros.
#[inline]
fn head_of(rest: &[u8]) -> u64 {
    if let Some(bytes) = rest.first_chunk() {
        return u64::from_be_bytes(*bytes);
    }
    let mut bytes = [0; 8];
    bytes[..rest.len()].copy_from_slice(rest);
    u64::from_be_bytes(bytes)
}

/// Checks that of each two neighbours the second begins after the first has ended.
fn apart<'a>(mut pairs: impl Iterator<Item = &'a [Arc<Slice>]>) -> Result<()> {
    match pairs.find(|pair| pair[0].meta.largest >= pair[1].meta.smallest) {
        None => Ok(()),
        Some(pair) => {
            let (first, second) = (pair[0].meta.extent, pair[1].meta.extent);
            let message = format!("slices of {first} and {second} in one run share keys");
            Err(Error::corruption(message))
        }
    }
}

fn largest_csn(slices: &[Arc<Slice>]) -> Csn {
    slices.iter().map(|slice| slice.meta.counts.csn_max).max().unwrap_or_default()
}

impl Run {
    /// A run of these slices, given in any order.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Corruption`] when two of them share keys.
    pub(crate) fn new(mut slices: Vec<Arc<Slice>>) -> Result<Run> {
        slices.sort_unstable_by(|a, b| a.meta.smallest.cmp(&b.meta.smallest));
        apart(slices.windows(2))?;
        let bytes = slices.iter().map(|slice| slice.meta.bytes).sum();
        let csn_max = largest_csn(&slices);
        let heads = Heads::of(&slices);
        Ok(Run { slices, heads, bytes, csn_max })
    }

    /// The run without those of some slices that are its own, and with others. What is copied is a pointer for each slice; keys are
    /// looked at only where something changes.
    ///
    /// # Errors
    /// As [`Run::new`].
    fn edited(
        self: &Arc<Run>,
        removed: &[Arc<Slice>],
        mut added: Vec<Arc<Slice>>,
    ) -> Result<Arc<Run>> {
        let begins = |key: &[u8]| self.slices.partition_point(|slice| *slice.meta.smallest < *key);
        let own = removed.iter().filter_map(|slice| {
            let at = begins(&slice.meta.smallest);
            self.slices.get(at).is_some_and(|own| own.meta.id() == slice.meta.id()).then_some(at)
        });
        let mut gone: Vec<usize> = own.collect();
        gone.sort_unstable();
        gone.dedup();
        if gone.is_empty() && added.is_empty() {
            return Ok(self.clone());
        }
        if added.len() >= self.slices.len() {
            let kept = (0..self.slices.len()).filter(|at| gone.binary_search(at).is_err());
            added.extend(kept.map(|at| self.slices[at].clone()));
            return Run::new(added).map(Arc::new);
        }
        added.sort_unstable_by(|a, b| a.meta.smallest.cmp(&b.meta.smallest));
        let mut slices = Vec::with_capacity(self.slices.len() - gone.len() + added.len());
        let mut heads = self.heads.emptied(slices.capacity());
        let (mut at, mut left) = (0, &gone[..]);
        let mut keep_to = |to: usize, slices: &mut Vec<Arc<Slice>>, heads: &mut Heads| {
            while let Some((&next, after)) = left.split_first().filter(|(next, _)| **next < to) {
                slices.extend_from_slice(&self.slices[at..next]);
                heads.extend(&self.heads, at..next);
                (at, left) = (next + 1, after);
            }
            slices.extend_from_slice(&self.slices[at..to.max(at)]);
            heads.extend(&self.heads, at..to.max(at));
            at = to.max(at);
        };
        let mut bytes = self.bytes;
        let (mut csn_max, mut places) = (Csn::ZERO, Vec::with_capacity(added.len()));
        for slice in added {
            keep_to(begins(&slice.meta.smallest), &mut slices, &mut heads);
            heads.push(&slice);
            places.push(slices.len());
            bytes += slice.meta.bytes;
            csn_max = csn_max.max(slice.meta.counts.csn_max);
            slices.push(slice);
        }
        keep_to(self.slices.len(), &mut slices, &mut heads);
        let beside = |at: &usize| [at.checked_sub(1), Some(*at)].into_iter().flatten();
        let pairs = places.iter().flat_map(beside).filter_map(|at| slices.get(at..at + 2));
        apart(pairs)?;
        let mut had_the_largest = false;
        for slice in gone.iter().map(|at| &self.slices[*at]) {
            bytes -= slice.meta.bytes;
            had_the_largest |= slice.meta.counts.csn_max == self.csn_max;
        }
        if csn_max < self.csn_max {
            csn_max = match had_the_largest {
                true => largest_csn(&slices),
                false => self.csn_max,
            };
        }
        if !heads.is_of(&slices) {
            heads = Heads::of(&slices);
        }
        Ok(Arc::new(Run { slices, heads, bytes, csn_max }))
    }

    /// The largest CSN in it.
    pub(crate) fn csn_max(&self) -> Csn {
        self.csn_max
    }

    /// The slices, in key order.
    pub(crate) fn slices(&self) -> &[Arc<Slice>] {
        &self.slices
    }

    /// Bytes of all slices.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The index of the first slice that could hold `key` or a larger one.
    pub(crate) fn seek(&self, key: &[u8]) -> usize {
        match self.heads.of_key(key) {
            None => 0,
            Some(head) => self.seek_by(head, key),
        }
    }

    fn seek_by(&self, head: u64, key: &[u8]) -> usize {
        let below = self.heads.largest.partition_point(|largest| *largest < head);
        let alike = self.heads.largest[below..].partition_point(|largest| *largest <= head);
        // Only their keys tell.
        let alike = &self.slices[below..below + alike];
        below + alike.partition_point(|slice| *slice.meta.largest < *key)
    }

    /// The slice that would hold `key`.
    #[inline]
    pub(crate) fn find(&self, key: &[u8]) -> Option<&Arc<Slice>> {
        let head = self.heads.of_key(key)?;
        let at = self.seek_by(head, key);
        let slice = self.slices.get(at)?;
        let begins = match self.heads.smallest[at].cmp(&head) {
            Ordering::Less => true,
            Ordering::Equal => *slice.meta.smallest <= *key,
            Ordering::Greater => false,
        };
        begins.then_some(slice)
    }

    /// The slices that could hold a key from `smallest` to `largest`, both included.
    pub(crate) fn between(&self, smallest: &[u8], largest: &[u8]) -> &[Arc<Slice>] {
        let from = self.seek(smallest);
        let count = self.slices[from..].partition_point(|e| *e.meta.smallest <= *largest);
        &self.slices[from..from + count]
    }

    /// The first slice that could hold a key of the range, where one does.
    pub(crate) fn first_within(&self, range: KeyRange<'_>) -> Option<usize> {
        let from = self.seek(range.start);
        let slice = self.slices.get(from)?;
        range.end.is_none_or(|end| *slice.meta.smallest < *end).then_some(from)
    }

    /// The slices that could hold a key of the range.
    pub(crate) fn within(&self, range: KeyRange<'_>) -> &[Arc<Slice>] {
        let from = self.seek(range.start);
        let count = self.slices[from..]
            .partition_point(|slice| range.end.is_none_or(|end| *slice.meta.smallest < *end));
        &self.slices[from..from + count]
    }
}

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
    /// What hides versions in all of them.
    pub(crate) ranges: Arc<RangeTombstones>,
}

/// A change to a table's levels: slices that go, then slices that come. One that is in both is
/// moved.
#[derive(Clone, Default, Debug)]
pub(crate) struct LevelsEdit {
    pub(crate) removed: Vec<Arc<Slice>>,
    pub(crate) added: Vec<(Place, Arc<Slice>)>,
    /// The range tombstones from now on, where they change.
    pub(crate) ranges: Option<Arc<RangeTombstones>>,
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

    /// Those slices that lie in a range, which none spans the ends of, and what of range tombstones does.
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
        }
    }

    /// These slices, and others whose keys all come after them. Sub-levels of the same number are put together, so the
    /// numbers stay in order on both sides.
    pub(crate) fn joined(&self, after: &Levels) -> Levels {
        let mut edit = LevelsEdit::default();
        let both = self.places().chain(after.places());
        edit.added.extend(both.map(|(place, slice)| (place, slice.clone())));
        edit.ranges = Some(Arc::new(self.ranges.union(&after.ranges)));
        Levels::default().apply(&edit).expect("neighbours share no keys")
    }

    /// Whether a slice is in Level1 or Level2, whichever is asked for.
    pub(crate) fn is_at(&self, place: Place, slice: &Arc<Slice>) -> bool {
        let run = match place {
            Place::Level0(_) => return false,
            Place::Level1 => &self.level1,
            Place::Level2 => &self.level2,
        };
        run.find(&slice.meta.smallest).is_some_and(|there| Arc::ptr_eq(there, slice))
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
        })
    }
}
