//! A stretch: the keys without a row that a scan has passed since it returned its last row.

use std::mem;
use std::sync::atomic::Ordering;

use spillway_base::range::successor;
use spillway_base::{Csn, Direction, KeyRange};

use super::{Gap, TombstoneSkip, WALKED_MIN};

/// Of consecutive passed tombstones, a gap is searched for at the first ones, and then at each
/// `LOOKS_EVERY`th.
const LOOKS_FIRST: u64 = 8;
const LOOKS_EVERY: u64 = 8;

/// The keys without a row from where a scan began, or returned its last row, to its position.
#[derive(Debug, Default)]
pub(crate) struct Stretch {
    /// Its lowest key, or where the scan began below that, and the key after its highest. In an
    /// ascending scan, the latter is computed from `last` when it is needed.
    start: Vec<u8>,
    end: Vec<u8>,
    /// Its lowest passed key, or the first key of a gap.
    first: Vec<u8>,
    /// The last key that was passed in an ascending scan, if no gap was leapt over since.
    last: Option<Vec<u8>>,
    pub(super) walked: u64,
    leapt: u32,
    /// The end, in the direction, of the furthest hidden range that a source has skipped.
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

    /// Whether to search for a gap at the next tombstone: at the first ones of a stretch, and
    /// seldom later. A search costs as much as passing a few tombstones.
    #[inline]
    pub(crate) fn looks(&self) -> bool {
        self.walked < LOOKS_FIRST || self.walked.is_multiple_of(LOOKS_EVERY)
    }

    /// Records that a tombstone was passed. `from` is where an ascending scan began, if it has
    /// returned no row yet.
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

    /// Records that a gap was leapt over.
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

    /// Records that a source skipped a range in which a range tombstone hides all its rows. Another
    /// source may have a row in that range, so only once a row is found is it known how much of the
    /// range has no row.
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

    /// Called at a row, `found`, or at the end. Returns the stretch up to here as a gap at a
    /// snapshot, if that is worth it.
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
        // Up to the row that was found, the skipped ranges have no row.
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
