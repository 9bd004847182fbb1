//! Range tombstones: deletions of everything that a snapshot saw of a key range.
//!
//! A range tombstone over the keys in `[start, end)` has a *mark*, which consists of two CSNs:
//! `csn` is that of the commit that deleted the range, and `upto` is the snapshot at which the
//! transaction of this commit read the range. The commit deleted every version up to `upto`.
//! Versions that other transactions installed after that snapshot are above `upto` and stay.
//!
//! Whether a version is hidden depends on its key and its CSN, and not on where it is stored. So
//! range tombstones need not lie in extents among the versions that they hide. A memtable has the
//! range tombstones of its commits. The levels of a sub-table have one list for all slices. A flush
//! adds the range tombstones of the memtable to this list, and the manifest records the list. A
//! compaction that re-links a slice or carries a block has no range tombstones to rewrite.
//!
//! Rejected: storing range tombstones in the extents, as other engines do. A compaction would cut
//! them at the ends of its slices and copy the pieces. A piece between the keys of two extents
//! would need a slice without rows. A read would have to open extents that have no version of its
//! key, only for their range tombstones.
//!
//! # Guarantees
//! In this list, a *range* is a range tombstone.
//!
//! - **RANGE-TOMBSTONE-1 (reads).** For a key and a snapshot, a version is hidden if some range
//!   over the key has `csn <= snapshot` and `upto >= ` the version's CSN. A range that hides a
//!   version hides all older ones as well, so a read checks only the newest version at or below the
//!   snapshot. If that version is hidden or there is none, the read reports the key as deleted by
//!   the newest `csn` of the ranges over the key that the snapshot sees. So a writer with an older
//!   snapshot learns of the conflict, even if the key never had a version.
//! - **RANGE-TOMBSTONE-2 (own commit).** `upto < csn`, so a range hides no version of its own
//!   commit or of a later one, in whatever order the commits are installed.
//! - **RANGE-TOMBSTONE-3 (installed after what it hides).** When a range is installed, every
//!   version that it hides is already installed. So a range hides no version that is installed
//!   after it, even if the range was flushed meanwhile.
//! - **RANGE-TOMBSTONE-4 (kept while it hides).** A range leaves the levels' list, for some of its
//!   keys, once every live snapshot sees the range and the sub-table has no version of these keys
//!   up to `upto` any more. The same rule holds for the tombstone of a single key.
//! - **RANGE-TOMBSTONE-5 (dropped).** For flushes and compactions, a range counts as a newer
//!   version of each key that it covers, with the range's CSN. They drop a hidden version where
//!   they would drop a version that has such a newer version. If every live snapshot sees the
//!   range, a compaction re-links no slice and carries no block that has hidden versions. If a
//!   slice or block has only hidden versions, the compaction drops it without reading it.
//! - **RANGE-TOMBSTONE-6 (persistence).** The edit that records the flush of a range's memtable
//!   records the range.
//! - **RANGE-TOMBSTONE-7 (no cost without ranges).** If there are no ranges, a read checks only one
//!   flag of each memtable, and whether the levels' list is empty.
//! - **RANGE-TOMBSTONE-8 (bounded in memtables).** A commit installs consecutive ranges of its
//!   batch together, by one union with the memtable's ranges. Each union copies all ranges of the
//!   memtable. This cost is bounded, because a memtable is sealed when its ranges take more than
//!   [`crate::memtable::RANGES_BYTES_MAX`].
//! - **RANGE-TOMBSTONE-9 (before its flush).** While a range is only in memory, flushes of older
//!   memtables and drops of whole slices already drop the versions that it hides from every live
//!   snapshot. This is safe: the log has the range durably, and an opening installs the range
//!   again. On a full disk, the dropped versions free the space that the flush of the range needs.
//!   While space is short, flushes also drop the versions that a tombstone of a single key in
//!   memory hides from every live snapshot.
//!
//! # Form
//! A list stores its ranges as *fragments*, which do not overlap. Each fragment has the marks of
//! all ranges over it, so one binary search finds all marks of a key. A range has no identity
//! except its mark over its keys. So lists can be united and subtracted like sets, and can be cut
//! at any key.

mod fragments;
#[cfg(all(test, not(loom)))]
pub(crate) mod tests;

use std::sync::Arc;

use spillway_base::{Csn, KeyRange};

use fragments::{combine, intersect};

/// The mark of a range tombstone on its keys.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Mark {
    /// The deleting commit.
    pub(crate) csn: Csn,
    /// The newest version that it deletes.
    pub(crate) upto: Csn,
}

impl Mark {
    /// The mark of a commit. It does not hide the commit's own versions (RANGE-TOMBSTONE-2).
    pub(crate) fn new(csn: Csn, upto: Csn) -> Mark {
        Mark { csn, upto: upto.min(Csn(csn.0.saturating_sub(1))) }
    }

    /// The combined mark for a snapshot that sees both.
    pub(crate) fn and(self, other: Mark) -> Mark {
        Mark { csn: self.csn.max(other.csn), upto: self.upto.max(other.upto) }
    }
}

/// A range of keys with equal marks.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Fragment {
    start: Arc<[u8]>,
    /// The first key past it; `None` is past every key.
    end: Option<Arc<[u8]>>,
    /// The newest first; at least one.
    marks: Vec<Mark>,
}

impl Fragment {
    fn range(&self) -> KeyRange<'_> {
        KeyRange::new(&self.start, self.end.as_deref())
    }

    /// The largest `upto` of its marks.
    fn upto(&self) -> Csn {
        self.marks.iter().map(|mark| mark.upto).max().unwrap_or_default()
    }
}

/// The range tombstones: ranges of keys that were deleted as one operation, in key order.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct RangeTombstones {
    fragments: Vec<Fragment>,
}

impl RangeTombstones {
    /// No range tombstones.
    pub(crate) const NONE: RangeTombstones = RangeTombstones { fragments: Vec::new() };

    /// One range tombstone; none if the range has no keys.
    pub(crate) fn one(range: KeyRange<'_>, mark: Mark) -> RangeTombstones {
        if range.is_empty() {
            return RangeTombstones::NONE;
        }
        let (start, end) = (range.start.into(), range.end.map(Into::into));
        RangeTombstones { fragments: vec![Fragment { start, end, marks: vec![mark] }] }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    /// The fragments: ranges that do not overlap, in key order. Each has the commits that deleted
    /// it, the newest first, with the newest version that each deletes.
    pub fn iter(&self) -> impl Iterator<Item = (KeyRange<'_>, impl Iterator<Item = (Csn, Csn)>)> {
        self.fragments.iter().map(|fragment| {
            let marks = fragment.marks.iter().map(|mark| (mark.csn, mark.upto));
            (fragment.range(), marks)
        })
    }

    /// Passes on each fragment's keys with each of its marks.
    pub(crate) fn each(&self, mut give: impl FnMut((Box<[u8]>, Option<Box<[u8]>>), Mark)) {
        for fragment in &self.fragments {
            for mark in &fragment.marks {
                let end = fragment.end.as_ref().map(|end| Box::from(&**end));
                give((Box::from(&*fragment.start), end), *mark);
            }
        }
    }

    /// The number of fragments.
    pub(crate) fn len(&self) -> usize {
        self.fragments.len()
    }

    /// The approximate bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        let of = |fragment: &Fragment| {
            let keys = fragment.start.len() + fragment.end.as_ref().map_or(0, |end| end.len());
            // Reference counts, and the list itself.
            size_of::<Fragment>() + keys + 64 + fragment.marks.len() * size_of::<Mark>()
        };
        self.fragments.iter().map(of).sum()
    }

    /// The index of the fragment that has a key, or of the next one.
    fn seek(&self, key: &[u8]) -> usize {
        self.fragments
            .partition_point(|fragment| fragment.end.as_ref().is_some_and(|end| **end <= *key))
    }

    fn find(&self, key: &[u8]) -> Option<&Fragment> {
        self.fragments.get(self.seek(key)).filter(|fragment| *fragment.start <= *key)
    }

    /// The fragments that may have a key from `smallest` to `largest`, both included.
    fn between(&self, smallest: &[u8], largest: &[u8]) -> &[Fragment] {
        let from = self.seek(smallest);
        let count = self.fragments[from..].partition_point(|next| *next.start <= *largest);
        &self.fragments[from..from + count]
    }

    /// The mark of a key for a snapshot (RANGE-TOMBSTONE-1).
    pub(crate) fn cover(&self, key: &[u8], snapshot: Csn) -> Option<Mark> {
        let seen = self.find(key)?.marks.iter().filter(|mark| mark.csn <= snapshot);
        seen.copied().reduce(Mark::and)
    }

    /// Whether it hides a version of a key from every snapshot that sees all marks.
    pub(crate) fn hides(&self, key: &[u8], version: Csn) -> bool {
        self.find(key).is_some_and(|fragment| fragment.upto() >= version)
    }

    /// If it hides this version of a key: the range of keys around the key in which it hides the
    /// same versions, and the newest CSN that it hides there.
    pub(crate) fn around(&self, key: &[u8], version: Csn) -> Option<(KeyRange<'_>, Csn)> {
        let fragment = self.find(key)?;
        (fragment.upto() >= version).then(|| (fragment.range(), fragment.upto()))
    }

    /// The first commit that hid a version of a key.
    pub(crate) fn hidden_from(&self, key: &[u8], version: Csn) -> Option<Csn> {
        let hiding = self.find(key)?.marks.iter().filter(|mark| mark.upto >= version);
        hiding.map(|mark| mark.csn).min()
    }

    /// Whether it hides all versions up to `newest` of all keys from `smallest` to `largest`, both
    /// included.
    pub(crate) fn hides_all(&self, smallest: &[u8], largest: &[u8], newest: Csn) -> bool {
        let mut reached = Some(smallest);
        for fragment in self.between(smallest, largest) {
            let Some(key) = reached.filter(|key| *fragment.start <= **key) else { return false };
            if fragment.upto() < newest {
                return false;
            }
            debug_assert!(fragment.range().contains(key));
            reached = fragment.end.as_deref();
        }
        // It hides no keys from here on.
        reached.is_none_or(|key| key > largest)
    }

    /// Whether it may hide versions from `oldest` on of some key from `smallest` to `largest`, both
    /// included.
    pub(crate) fn touches(&self, smallest: &[u8], largest: &[u8], oldest: Csn) -> bool {
        self.between(smallest, largest).iter().any(|fragment| fragment.upto() >= oldest)
    }

    /// The union of several lists.
    pub(crate) fn all(mut lists: Vec<RangeTombstones>) -> RangeTombstones {
        // In pairs, so that each fragment is visited a logarithmic number of times, and not once
        // for each list.
        while lists.len() > 1 {
            let odd = if lists.len() % 2 == 1 { lists.pop() } else { None };
            let pairs = lists.chunks_exact(2).map(|pair| pair[0].union(&pair[1]));
            lists = pairs.chain(odd).collect();
        }
        lists.pop().unwrap_or_default()
    }

    /// The keys from its first to its last fragment; `None` if it is empty.
    pub(crate) fn hull(&self) -> Option<KeyRange<'_>> {
        let (first, last) = (self.fragments.first()?, self.fragments.last()?);
        Some(KeyRange::new(&first.start, last.end.as_deref()))
    }

    /// The union with another list.
    pub(crate) fn union(&self, other: &RangeTombstones) -> RangeTombstones {
        if other.is_empty() {
            return self.clone();
        }
        combine(self, other, |one, other| {
            let mut marks = [one, other].concat();
            marks.sort_unstable_by(|a, b| b.cmp(a));
            marks.dedup();
            marks
        })
    }

    /// This list without the marks of another one.
    pub(crate) fn minus(&self, other: &RangeTombstones) -> RangeTombstones {
        if self.is_empty() || other.is_empty() {
            return self.clone();
        }
        combine(self, other, |one, other| {
            one.iter().filter(|mark| !other.contains(mark)).copied().collect()
        })
    }

    /// The part of it that lies in a range.
    pub(crate) fn within(&self, range: KeyRange<'_>) -> RangeTombstones {
        let from = self.seek(range.start);
        let count = self.fragments[from..]
            .partition_point(|next| range.end.is_none_or(|end| *next.start < *end));
        let parts = self.fragments[from..from + count].iter().filter_map(|fragment| {
            let (start, end) = intersect(fragment, range)?;
            Some(Fragment { start, end, marks: fragment.marks.clone() })
        });
        RangeTombstones { fragments: parts.collect() }
    }

    /// Replaces the marks of each fragment. Fragments without marks are removed.
    fn with_marks(&self, change: impl Fn(&Fragment) -> Vec<Mark>) -> RangeTombstones {
        let all = self.fragments.iter().map(|old| Fragment { marks: change(old), ..old.clone() });
        RangeTombstones { fragments: all.filter(|fragment| !fragment.marks.is_empty()).collect() }
    }

    /// The part that a snapshot sees: one mark for each fragment (RANGE-TOMBSTONE-1).
    pub(crate) fn at(&self, snapshot: Csn) -> RangeTombstones {
        self.with_marks(|fragment| {
            let seen = fragment.marks.iter().filter(|mark| mark.csn <= snapshot);
            seen.copied().reduce(Mark::and).into_iter().collect()
        })
    }

    /// Only the marks for which `holds` returns `true`.
    pub(crate) fn only(&self, holds: impl Fn(&Mark) -> bool) -> RangeTombstones {
        self.with_marks(|old| old.marks.iter().filter(|mark| holds(mark)).copied().collect())
    }

    /// Without the marks that are redundant for every live and future snapshot, because another
    /// mark hides the same. `live` ascends.
    pub(crate) fn pruned(&self, live: &[Csn]) -> RangeTombstones {
        let told_by = |mark: &Mark, other: &Mark| {
            // Every snapshot that sees the mark also sees the other one.
            let seen = other.csn <= mark.csn || {
                let first = live.partition_point(|snapshot| *snapshot < mark.csn);
                live.get(first).is_some_and(|snapshot| *snapshot >= other.csn)
            };
            mark != other && other.upto >= mark.upto && seen
        };
        self.with_marks(|fragment| {
            let mut kept = fragment.marks.clone();
            // One after another, so that one of two equal marks stays.
            let mut at = 0;
            while let Some(mark) = kept.get(at) {
                match kept.iter().any(|other| told_by(mark, other)) {
                    true => drop(kept.remove(at)),
                    false => at += 1,
                }
            }
            kept
        })
    }

    /// Limits each fragment's marks for which `holds` returns `true` to the keys that `needed`
    /// returns for the fragment's keys and the mark: from the first to the last key, both included.
    pub(crate) fn trimmed<'k>(
        &self,
        holds: impl Fn(&Mark) -> bool,
        needed: impl Fn(KeyRange<'_>, &Mark) -> Option<(&'k [u8], &'k [u8])>,
    ) -> RangeTombstones {
        let mut cut = Vec::new();
        for fragment in &self.fragments {
            for mark in fragment.marks.iter().filter(|mark| holds(mark)) {
                let all = RangeTombstones::one(fragment.range(), *mark);
                let kept = match needed(fragment.range(), mark) {
                    Some((first, last)) => {
                        let past = spillway_base::range::successor(last);
                        all.within(KeyRange::new(first, Some(&past)))
                    }
                    None => RangeTombstones::NONE,
                };
                cut.push(all.minus(&kept));
            }
        }
        self.minus(&RangeTombstones::all(cut))
    }
}
