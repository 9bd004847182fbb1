//! The stretch of keys without a row that a scan has passed since its last row.

use std::mem;
use std::sync::atomic::Ordering;

use spillway_base::range::successor;
use spillway_base::{Csn, Direction, KeyRange};

use super::{Gap, TombstoneSkip, WALKED_MIN};

/// Of the tombstones that are walked over in a row, a gap is looked for over the first, and then
/// over each so many-th.
const LOOKS_FIRST: u64 = 8;
const LOOKS_EVERY: u64 = 8;

/// Keys without a row, from where a scan began or gave its last row up to where it stands.
#[derive(Debug, Default)]
pub(crate) struct Stretch {
    /// Its lowest key, or where the scan began below that, and the key behind its highest. Upwards,
    /// the latter is made of `last` when it is needed.
    start: Vec<u8>,
    end: Vec<u8>,
    /// Its lowest key that was walked over, or the first of a gap.
    first: Vec<u8>,
    /// The last key that was walked over upwards, if no gap was leapt over since.
    last: Option<Vec<u8>>,
    pub(super) walked: u64,
    leapt: u32,
    /// Where the furthest of the ranges ends, in the direction, out of which sources have leapt.
    hidden: Option<Vec<u8>>,
}

fn set(key: &mut Vec<u8>, to: &[u8]) {
    key.clear();
    key.extend_from_slice(to);
}

impl Stretch {
    fn is_empty(&self) -> bool {
        self.walked == 0 && self.leapt == 0
    }

    /// Whether to look for a gap over the tombstone that comes next: over the first of a stretch,
    /// and seldom later. A look costs as much as to walk over a few.
    #[inline]
    pub(crate) fn looks(&self) -> bool {
        self.walked < LOOKS_FIRST || self.walked.is_multiple_of(LOOKS_EVERY)
    }

    /// A tombstone was walked over. `from` is where the scan began upwards, if it has given no row
    /// yet.
    pub(crate) fn walk(&mut self, direction: Direction, key: &[u8], from: Option<&[u8]>) {
        let is_empty = self.is_empty();
        self.walked += 1;
        match direction {
            Direction::Forward => {
                if is_empty {
                    set(&mut self.start, from.unwrap_or(key));
                    set(&mut self.first, key);
                }
                set(self.last.get_or_insert_default(), key);
            }
            Direction::Backward => {
                if is_empty {
                    self.end = successor(key);
                }
                set(&mut self.start, key);
                set(&mut self.first, key);
            }
        }
    }

    /// A gap was leapt over.
    pub(crate) fn leap(&mut self, direction: Direction, gap: &Gap) {
        let is_empty = self.is_empty();
        self.leapt += 1;
        if is_empty || direction == Direction::Backward {
            set(&mut self.start, &gap.start);
            set(&mut self.first, &gap.first);
        }
        if is_empty || direction == Direction::Forward {
            set(&mut self.end, &gap.end);
        }
        self.last = None;
    }

    /// A source skipped a range in which a range tombstone hides all it has. The rest of the range
    /// is passed once there is a row, which may be another source's in that range.
    pub(crate) fn leap_hidden(&mut self, direction: Direction, range: KeyRange<'_>) {
        let end = match direction {
            Direction::Forward => range.end,
            Direction::Backward => Some(range.start),
        };
        let Some(end) = end else { return };
        let further = |known: &Vec<u8>| match direction {
            Direction::Forward => **known < *end,
            Direction::Backward => *end < **known,
        };
        if self.hidden.as_ref().is_none_or(further) {
            set(self.hidden.get_or_insert_default(), end);
        }
    }

    /// There is a row, `found`, or an end. The stretch up to here, at a snapshot, is a gap if it is
    /// worth one.
    pub(crate) fn finish(
        &mut self,
        direction: Direction,
        found: Option<&[u8]>,
        snapshot: Csn,
        gaps: &TombstoneSkip,
    ) -> Option<Gap> {
        if self.is_empty() {
            return None;
        }
        let mut passed = mem::take(self);
        if passed.walked > 0 {
            gaps.figures.walked.fetch_add(passed.walked, Ordering::Relaxed);
        }
        // Up to the row nothing is left of what was leapt out of.
        let hidden = passed.hidden.as_deref().zip(found);
        if !gaps.on || (passed.walked < WALKED_MIN && passed.leapt < 2 && hidden.is_none()) {
            return None;
        }
        let mut end = passed.last.map_or(passed.end, |last| successor(&last));
        match (direction, hidden) {
            (Direction::Forward, Some((reach, found))) if *end < *reach.min(found) => {
                end = reach.min(found).to_vec();
            }
            (Direction::Backward, Some((reach, found))) if *reach < *passed.start => {
                passed.start = reach.to_vec().max(successor(found));
            }
            _ => {}
        }
        let walked = passed.walked + if hidden.is_some() { WALKED_MIN } else { 0 };
        let [start, end, first] = [passed.start, end, passed.first].map(Box::from);
        Some(Gap { start, end, first, csn: snapshot, walked })
    }
}
