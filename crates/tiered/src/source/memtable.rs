//! A scan's source over a memtable.

use std::sync::Arc;

use spillway_base::{Csn, Direction, KeyRange};

use super::{LENT_FIRST, LENT_MAX, OwnedRange, is_before};
use crate::block::Entry;
use crate::memtable::{Memtable, Places, TreePlace};
use crate::tombstone_skip::Gap;

/// A row with more bytes is lent alone, and ends the batch before it: reading the heads of many
/// such rows first, and their contents afterwards, would miss the cache twice. For shorter rows,
/// such as index entries, the first access loads everything.
const LENT_BYTES_MAX: usize = 96;

/// The most keys without a visible version that one extension passes (SOURCE-5). Later steps pass
/// the others, and a caller with enough rows does not make them.
pub(super) const UNSEEN_MAX: usize = 16;

/// Rows of a memtable.
pub(crate) struct MemtableSource {
    memtable: Arc<Memtable>,
    bounds: OwnedRange,
    direction: Direction,
    snapshot: Csn,
    place: Option<TreePlace>,
    /// The places of the rows that it was extended over.
    lent: Vec<TreePlace>,
    /// The most rows of the next extension.
    lent_max: usize,
    /// Whether the current key is not a value at the snapshot.
    passing: bool,
    /// The keys after its position, the next one last, while it passes keys that are not values.
    ahead: Vec<TreePlace>,
}

impl MemtableSource {
    pub(crate) fn new(
        memtable: Arc<Memtable>,
        bounds: OwnedRange,
        direction: Direction,
        snapshot: Csn,
    ) -> MemtableSource {
        MemtableSource {
            memtable,
            bounds,
            direction,
            snapshot,
            place: None,
            lent: Vec::new(),
            lent_max: LENT_FIRST,
            passing: false,
            ahead: Vec::new(),
        }
    }

    fn step(&self, from: Option<TreePlace>) -> TreePlace {
        match (self.direction, from) {
            (Direction::Forward, None) => self.memtable.seek(self.bounds.start()),
            (Direction::Forward, Some(place)) => self.memtable.after(place),
            (Direction::Backward, None) => self.memtable.seek_before(self.bounds.end()),
            (Direction::Backward, Some(place)) => self.memtable.before(place),
        }
    }

    /// The place after the current one.
    #[inline]
    fn next(&self) -> TreePlace {
        self.ahead.last().copied().unwrap_or_else(|| self.step(self.place))
    }

    /// Moves to a place.
    #[inline]
    fn go_to(&mut self, next: TreePlace) {
        self.place = Some(next);
        self.ahead.pop();
    }

    /// Called on a key that is not a value. From the second such key on, the source prefetches all
    /// keys after it in the leaf at once: a table that is used as a queue has many at its head, and
    /// each would be a cache miss. Keys that are inserted between them meanwhile have no version at
    /// the snapshot (E2).
    fn passes(&mut self) {
        if self.passing
            && self.ahead.is_empty()
            && let Some(place) = self.place
        {
            let mut behind = Places::default();
            self.memtable.beside(place, self.direction, &mut behind);
            #[cfg(test)]
            super::met::ask(behind.len());
            self.ahead.extend(behind.into_iter().rev());
        }
        self.passing = true;
    }

    /// Whether a place has a key inside of the bounds.
    #[inline]
    fn is_inside(&self, place: TreePlace) -> bool {
        let key = self.memtable.key(place);
        key.is_some_and(|key| self.bounds.reaches(key, self.direction))
    }

    /// Whether it stands on a value.
    #[inline]
    pub(super) fn is_on_value(&self) -> bool {
        self.place.is_some() && !self.passing
    }

    #[inline]
    pub(super) fn advance_near(&mut self) -> bool {
        if self.place.is_none() {
            return false;
        }
        let place = self.next();
        let is_value = self.is_inside(place)
            && self
                .memtable
                .visible(place, self.snapshot)
                .is_some_and(|version| version.value.is_some());
        if is_value {
            self.go_to(place);
            self.passing = false;
        }
        is_value
    }

    /// As [`super::Source::lends`]: whether it stands on a short row.
    #[inline]
    pub(super) fn lends(&self) -> bool {
        self.entry().payload() <= LENT_BYTES_MAX
    }

    /// As [`super::Source::extend`]. All entries of a leaf are prefetched at once, before the first
    /// one is read.
    pub(super) fn extend(&mut self, before: Option<&[u8]>, most: usize) -> usize {
        let Some(mut place) = self.place else { return 1 };
        let most = most.min(self.lent_max);
        self.lent_max = (4 * self.lent_max).min(LENT_MAX);
        self.ahead.clear();
        self.lent.clear();
        self.lent.reserve(most);
        self.lent.push(place);
        let mut behind = Places::default();
        let mut unseen = 0;
        'rows: while self.lent.len() < most {
            behind.clear();
            self.memtable.beside(place, self.direction, &mut behind);
            if behind.is_empty() {
                behind.push(self.step(Some(place)));
            }
            for next in &behind {
                let Some(key) = self.memtable.key(*next) else { break 'rows };
                let inside = self.bounds.reaches(key, self.direction)
                    && is_before(key, before, self.direction);
                if !inside || self.lent.len() == most {
                    break 'rows;
                }
                #[cfg(test)]
                super::met::look();
                match self.memtable.visible(*next, self.snapshot).map(|version| version.value) {
                    Some(Some(value)) if key.len() + value.len() <= LENT_BYTES_MAX => {
                        self.lent.push(*next);
                    }
                    // Pass keys without a version at the snapshot.
                    None if unseen < UNSEEN_MAX => unseen += 1,
                    _ => break 'rows,
                }
                place = *next;
            }
        }
        self.place = self.lent.last().copied();
        #[cfg(test)]
        super::met::lend(super::met::Of::Memtable, self.direction, before, self.lent.len());
        self.lent.len()
    }

    pub(super) fn rows(&self, take: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        for place in &self.lent {
            let version = self.memtable.visible(*place, self.snapshot);
            let row = self.memtable.key(*place).zip(version.and_then(|version| version.value));
            let (key, value) = row.expect("a row that was lent is one");
            if !take(key, value) {
                break;
            }
        }
    }

    pub(super) fn advance(&mut self) -> bool {
        loop {
            let place = self.next();
            self.go_to(place);
            if !self.is_inside(place) {
                return false;
            }
            let version = self.memtable.visible(place, self.snapshot);
            let (is_seen, is_row) =
                (version.is_some(), version.is_some_and(|version| version.value.is_some()));
            if is_row {
                self.passing = false;
            } else {
                self.passes();
            }
            if is_seen {
                return true;
            }
        }
    }

    #[inline]
    pub(super) fn key(&self) -> &[u8] {
        let key = self.place.and_then(|place| self.memtable.key(place));
        key.expect("the source stands on a row")
    }

    pub(super) fn entry(&self) -> Entry<'_> {
        let row = self.place.and_then(|place| {
            let version = self.memtable.visible(place, self.snapshot)?;
            let key = self.memtable.key(place)?;
            Some(Entry { key, csn: version.csn, value: version.value })
        });
        row.expect("the source stands on a row")
    }

    pub(super) fn start(&self) -> &[u8] {
        self.bounds.start()
    }

    pub(super) fn leap_hidden(&mut self, hidden: KeyRange<'_>, upto: Csn) -> bool {
        // Versions that are installed from now on are not rows at this snapshot.
        let is_hidden = self.memtable.csn_max() <= upto;
        if is_hidden {
            self.bounds = self.bounds.past(hidden, self.direction);
            self.begin_anew();
        }
        is_hidden
    }

    pub(super) fn leap(&mut self, gap: &Gap) {
        self.bounds = self.bounds.behind(gap, self.direction);
        self.begin_anew();
    }

    fn begin_anew(&mut self) {
        self.place = None;
        self.passing = false;
        self.ahead.clear();
    }
}
