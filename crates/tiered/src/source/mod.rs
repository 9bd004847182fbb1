//! The sources of a scan: a memtable or a run of extents, each seen at one snapshot.
//!
//! For each key in its range, a source gives the newest version at or below the snapshot,
//! tombstones included. Keys come in the order of one direction. A step moves to the next of these
//! rows ([`Source::advance`]). After [`spillway_base::ErrorKind::WouldBlock`] a step can be
//! repeated: until a step succeeds, the source keeps its position.
//!
//! A source can also *approach* its first row: it moves as near to the row as it can without
//! reading a block. Its current key is then a bound: in the source's direction, the row is at this
//! key or after it. The next step moves to the row.
//!
//! # Guarantees
//! - **SOURCE-1 (late reads).** [`Source::approach`] reads no block. In a run it checks the index
//!   and the block's range filter, if there is one.
//! - **SOURCE-2 (no row is skipped).** A source that has approached and is not at a row has no row
//!   before its current key, in its direction. If it has no row inside the bounds, either
//!   [`Source::approach`] returns `false`, or the next step does.
//! - **SOURCE-3 (a row comes after what may hide it).** A source that has approached and is not at
//!   a row may have a row at its current key that hides the row of another source. So it compares
//!   as newer than a row of another source with this key.
//! - **SOURCE-4 (batches).** [`Source::extend`] extends the current row to a batch of values, which
//!   steps would have reached one after the other. All of them are inside the bounds and before the
//!   given key. The source then stands on the last of them, and [`Source::rows`] gives the whole
//!   batch until the next step. If no further value can be added cheaply, the batch is the current
//!   row alone.
//! - **SOURCE-5 (bounded steps).** A step ends at each tombstone, and a batch skips only few keys
//!   that have no version at the snapshot. So a scan of one row does not pass many keys that other
//!   transactions have since inserted behind that row, and the caller can stop a long scan between
//!   steps.
//! - **SOURCE-6 (deletions by leaves).** A source over a memtable may meet two consecutive keys
//!   that have no value at the snapshot. Then it lists all later keys in the leaf of the second
//!   key, prefetches them together, and steps through the list. So it does not wait for the memory
//!   of each key in turn. Keys that are inserted meanwhile may be missing from the list. The scan
//!   does not need them: they have no version at the snapshot (E2).
//!
//! # Steps
//!
//! Most steps are *near*: to a value in the same block, or in the same memtable. Near steps cannot
//! fail, and are cheap. The other steps cross the border of a block, reach a tombstone, or reach
//! the end.

mod memtable;
#[cfg(test)]
#[cfg_attr(loom, allow(dead_code))]
pub(crate) mod met;
mod readahead;
mod run;
#[cfg(all(test, not(loom)))]
mod tests;

use smallvec::SmallVec;
use spillway_base::engine::Access;
use spillway_base::{Csn, Direction, KeyRange, Result};

pub(crate) use self::memtable::MemtableSource;
pub(crate) use self::run::RunSource;
use crate::block::Entry;
use crate::tombstone_skip::Gap;

/// The bytes of a range's two ends that are stored in place, without an allocation. Most keys are
/// short.
const BOUNDS_BYTES: usize = 32;

/// A range that owns its keys, for a source that outlives its caller. Each source of a scan has its
/// own: short keys are copied, without reference counts.
#[derive(Clone, Debug)]
pub(crate) struct OwnedRange {
    /// The start, followed by the end.
    bytes: SmallVec<[u8; BOUNDS_BYTES]>,
    start_bytes: usize,
    has_end: bool,
}

impl OwnedRange {
    pub(crate) fn of(range: KeyRange<'_>) -> OwnedRange {
        let mut bytes = SmallVec::from_slice(range.start);
        bytes.extend_from_slice(range.end.unwrap_or_default());
        OwnedRange { bytes, start_bytes: range.start.len(), has_end: range.end.is_some() }
    }

    #[inline]
    fn start(&self) -> &[u8] {
        &self.bytes[..self.start_bytes]
    }

    #[inline]
    fn end(&self) -> Option<&[u8]> {
        self.has_end.then(|| &self.bytes[self.start_bytes..])
    }

    fn range(&self) -> KeyRange<'_> {
        KeyRange::new(self.start(), self.end())
    }

    /// Whether a key is inside, given that it is not before the end at which the direction begins.
    #[inline]
    fn reaches(&self, key: &[u8], direction: Direction) -> bool {
        match direction {
            Direction::Forward => self.end().is_none_or(|end| key < end),
            Direction::Backward => self.start_bytes == 0 || self.start() <= key,
        }
    }

    /// The part of the bounds after a gap, in the direction.
    fn behind(&self, gap: &Gap, direction: Direction) -> OwnedRange {
        OwnedRange::of(gap.leave(self.range(), direction))
    }

    /// The part of the bounds after a range, in the direction.
    fn past(&self, hidden: KeyRange<'_>, direction: Direction) -> OwnedRange {
        let own = self.range();
        OwnedRange::of(match (direction, hidden.end) {
            (Direction::Forward, Some(end)) => KeyRange::new(own.start.max(end), own.end),
            (Direction::Forward, None) => KeyRange::new(own.start, Some(own.start)),
            (Direction::Backward, _) => {
                let end = own.end.map_or(hidden.start, |end| end.min(hidden.start));
                KeyRange::new(own.start, Some(end))
            }
        })
    }
}

/// The most rows of the first extension, and the limit up to which later ones grow. The first one
/// is small because the caller may need few rows.
const LENT_FIRST: usize = 4;
const LENT_MAX: usize = 256;

/// Whether a key comes before another in a direction.
#[inline]
fn is_before(key: &[u8], other: Option<&[u8]>, direction: Direction) -> bool {
    other.is_none_or(|other| match direction {
        Direction::Forward => key < other,
        Direction::Backward => other < key,
    })
}

/// A source of rows.
pub(crate) enum Source {
    Memtable(MemtableSource),
    Run(RunSource),
}

impl Source {
    /// Steps to the next row, if that is a value within the same block or leaf. If it returns
    /// `false`, it has not moved.
    #[inline]
    pub(crate) fn advance_near(&mut self) -> bool {
        match self {
            Source::Run(source) => source.advance_near(),
            Source::Memtable(source) => source.advance_near(),
        }
    }

    /// Whether lending several rows may pay, judged from the current row.
    #[inline]
    pub(crate) fn lends(&self) -> bool {
        match self {
            Source::Run(_) => true,
            Source::Memtable(source) => source.lends(),
        }
    }

    /// Extends from the current row, which is a value, over nearby rows before a key, to at most
    /// `most` rows including the current one. Returns their number (SOURCE-4, SOURCE-5).
    pub(crate) fn extend(&mut self, before: Option<&[u8]>, most: usize) -> usize {
        match self {
            Source::Run(source) => source.extend(before, most),
            Source::Memtable(source) => source.extend(before, most),
        }
    }

    /// Passes the `rows` rows that it was extended over to `take`, until `take` returns `false`.
    pub(crate) fn rows(&self, rows: usize, take: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        match self {
            Source::Run(source) => source.rows(rows, take),
            Source::Memtable(source) => source.rows(take),
        }
    }

    /// Moves as near to its first row as it can without reading a block (SOURCE-1, SOURCE-2).
    /// Returns `false` if it has none. The next step moves to that row.
    pub(crate) fn approach(&mut self, access: Access) -> Result<bool> {
        match self {
            Source::Memtable(source) => Ok(source.advance()),
            Source::Run(source) => source.approach(access),
        }
    }

    /// Prefetches what the step to the first row reads first, so that the cache misses of several
    /// sources overlap.
    pub(crate) fn expect(&self) {
        if let Source::Run(source) = self {
            source.expect();
        }
    }

    /// Whether it stands on a row, and not before one.
    #[inline]
    pub(crate) fn is_on_row(&self) -> bool {
        match self {
            Source::Memtable(_) => true,
            Source::Run(source) => source.is_on_row(),
        }
    }

    /// Whether the current row is a value, as far as that is known.
    #[inline]
    pub(crate) fn is_on_value(&self) -> bool {
        match self {
            Source::Memtable(source) => source.is_on_value(),
            Source::Run(source) => source.is_on_value(),
        }
    }

    /// The key and the commit by which it is compared (SOURCE-2, SOURCE-3).
    #[inline]
    pub(crate) fn key_and_csn(&self) -> (&[u8], Csn) {
        match self {
            Source::Run(source) => source.key_and_csn(),
            Source::Memtable(source) => {
                let entry = source.entry();
                (entry.key, entry.csn)
            }
        }
    }

    /// Steps to the next row; `false` past the last.
    pub(crate) fn advance(&mut self, access: Access) -> Result<bool> {
        match self {
            Source::Memtable(source) => Ok(source.advance()),
            Source::Run(source) => source.advance(access),
        }
    }

    /// The row the source stands on, after a step that succeeded.
    #[inline]
    pub(crate) fn entry(&self) -> Entry<'_> {
        match self {
            Source::Run(source) => source.entry(),
            Source::Memtable(source) => source.entry(),
        }
    }

    /// The key of that row.
    #[inline]
    pub(crate) fn key(&self) -> &[u8] {
        match self {
            Source::Run(source) => source.key(),
            Source::Memtable(source) => source.key(),
        }
    }

    /// The value of that row, if it is one.
    #[inline]
    pub(crate) fn value(&self) -> Option<&[u8]> {
        match self {
            Source::Run(source) => source.value(),
            Source::Memtable(source) => source.entry().value,
        }
    }

    /// The start of its rows, which a leap moves.
    pub(crate) fn start(&self) -> &[u8] {
        match self {
            Source::Memtable(source) => source.start(),
            Source::Run(source) => source.start(),
        }
    }

    /// Moves behind a hidden range in which it is positioned, if it is known without reading that
    /// it has no version above `upto` there. The next step moves to the first row behind the range.
    /// Returns whether it has moved.
    pub(crate) fn leap_hidden(&mut self, hidden: KeyRange<'_>, upto: Csn) -> bool {
        match self {
            Source::Memtable(source) => source.leap_hidden(hidden, upto),
            Source::Run(source) => source.leap_hidden(hidden, upto),
        }
    }

    /// Moves behind a gap in which it is positioned or which is ahead of it. The next step moves to
    /// the first row behind the gap.
    pub(crate) fn leap(&mut self, gap: &Gap) {
        match self {
            Source::Memtable(source) => source.leap(gap),
            Source::Run(source) => source.leap(gap),
        }
    }
}
