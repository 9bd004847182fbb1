//! One shard of the lock table: the lines of its keys, and the range locks that cover some of them.
//!
//! The shard's mutex guards all of this, so LOCK-2 to LOCK-4 hold before and after each method
//! here.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::key::{LockKey, Target};
use super::line::{Granted, Line};
use super::outcome::Taken;
use super::span::{RangeLock, Span, conflict};
use crate::options::LockMode;

/// A table with a capacity above this, which one large transaction may have needed, is replaced by
/// a new one when it is empty.
pub(super) const LINES_KEPT: usize = 1024;

#[derive(Default)]
pub(super) struct ShardState {
    pub(super) lines: HashTable<Line>,
    pub(super) ranges: Vec<RangeLock>,
}

/// Whether ranges make a line unnecessary: it has no waiter, and a range of each holder covers the
/// key (LOCK-4).
fn is_redundant(line: &Line, ranges: &[RangeLock]) -> bool {
    !ranges.is_empty()
        && line.is_only_held_by(|id, mode| {
            let stands = |range: &RangeLock| range.owner == id && range.span.mode >= mode;
            ranges.iter().any(|range| stands(range) && range.covers(line.target()))
        })
}

/// A line for a key whose holders are the owners of the ranges that cover the key (LOCK-2). `None`
/// if no range covers the key.
fn line_from(ranges: &[RangeLock], target: Target<'_>) -> Option<Line> {
    let mut covering = ranges.iter().filter(|range| range.covers(target));
    let first = covering.next()?;
    let mut line = Line::new(target, first.owner, first.span.mode);
    covering.for_each(|range| line.hold(range.owner, range.span.mode));
    Some(line)
}

impl ShardState {
    /// Takes a lock if no other owner prevents it.
    #[inline]
    pub(super) fn take(&mut self, id: u64, target: Target<'_>, mode: LockMode) -> Option<Taken> {
        match self.lines.entry(target.hash, |line| line.is(target), Line::hash) {
            Entry::Occupied(line) => line.into_mut().take(id, mode),
            Entry::Vacant(place) if self.ranges.is_empty() => {
                place.insert(Line::new(target, id, mode));
                Some(Taken::New)
            }
            Entry::Vacant(_) => self.take_beside_ranges(id, target, mode),
        }
    }

    /// Takes a lock on a key that has no line, in a shard with ranges (LOCK-2, LOCK-5).
    #[inline(never)]
    fn take_beside_ranges(&mut self, id: u64, target: Target<'_>, mode: LockMode) -> Option<Taken> {
        let mut own = None;
        for range in self.ranges.iter().filter(|range| range.covers(target)) {
            if range.owner == id {
                own = own.max(Some(range.span.mode));
            } else if conflict(range.span.mode, mode) {
                return None;
            }
        }
        if own >= Some(mode) {
            return Some(Taken::Covered);
        }
        let line = match line_from(&self.ranges, target) {
            Some(mut line) => {
                line.hold(id, mode);
                line
            }
            None => Line::new(target, id, mode),
        };
        self.lines.insert_unique(target.hash, line, Line::hash);
        Some(Taken::New)
    }

    /// The line of a key for which [`ShardState::take`] has refused a request. It is created if
    /// only ranges refused the request.
    pub(super) fn contended(&mut self, target: Target<'_>) -> &mut Line {
        match self.lines.entry(target.hash, |line| line.is(target), Line::hash) {
            Entry::Occupied(line) => line.into_mut(),
            Entry::Vacant(place) => {
                let line = line_from(&self.ranges, target);
                place.insert(line.expect("what refuses a key without a line is a range")).into_mut()
            }
        }
    }

    pub(super) fn find(&self, target: Target<'_>) -> Option<&Line> {
        self.lines.find(target.hash, |line| line.is(target))
    }

    /// Whether `id` holds a lock in this mode or a stronger one, by a line or by a range.
    pub(super) fn is_held(&self, id: u64, target: Target<'_>, mode: LockMode) -> bool {
        let stands = |range: &RangeLock| range.owner == id && range.span.mode >= mode;
        self.find(target).is_some_and(|line| line.mode_of(id) >= Some(mode))
            || self.ranges.iter().any(|range| stands(range) && range.covers(target))
    }

    /// Removes a waiter from its line. Returns `false` if it no longer waits there, because the
    /// lock was granted to it.
    pub(super) fn withdraw(&mut self, id: u64, target: Target<'_>, granted: &mut Granted) -> bool {
        let line = self.lines.find_entry(target.hash, |line| line.is(target));
        let Ok(mut line) = line else { return false };
        let found = line.get_mut().withdraw(id, granted);
        if is_redundant(line.get(), &self.ranges) {
            line.remove();
        }
        found
    }

    /// Releases a lock that `id` holds by a line of this hash.
    pub(super) fn release(&mut self, id: u64, hash: u64, granted: &mut Granted) {
        let held = |line: &Line| line.hash() == hash && line.is_held_by(id);
        if let Ok(mut line) = self.lines.find_entry(hash, held)
            && (line.get_mut().release(id, granted) || is_redundant(line.get(), &self.ranges))
        {
            line.remove();
            if self.lines.is_empty() && self.lines.capacity() > LINES_KEPT {
                self.lines = HashTable::new();
            }
        }
    }

    /// Releases every lock of an owner that has ranges (LOCK-7).
    pub(super) fn release_all(&mut self, id: u64, granted: &mut Granted) {
        let ShardState { lines, ranges } = self;
        ranges.retain(|range| range.owner != id);
        if ranges.is_empty() {
            *ranges = Vec::new();
        }
        lines.retain(|line| {
            let is_over =
                line.is_held_by(id) && (line.release(id, granted) || is_redundant(line, ranges));
            !is_over
        });
        self.shrink();
    }

    /// Frees memory of the table if most of its lines are gone.
    fn shrink(&mut self) {
        let (lines, capacity) = (self.lines.len(), self.lines.capacity());
        if capacity > LINES_KEPT && lines < capacity / 4 {
            self.lines.shrink_to(lines * 2, Line::hash);
        }
    }

    /// Covers a span with range locks of `id`, except the conflicting ranges of others (LOCK-3) and
    /// the keys that others hold or wait for in a conflicting mode. Each earlier range of `id` with
    /// the same table and mode must lie within the span or apart from it.
    pub(super) fn cover(&mut self, id: u64, span: &Span) {
        let ShardState { lines, ranges } = self;
        ranges.retain(|range| range.owner != id || !span.contains(&range.span));
        let mut parts = vec![span.clone()];
        for other in ranges.iter().filter(|range| range.owner != id) {
            if conflict(other.span.mode, span.mode) {
                parts = parts.iter().flat_map(|part| part.without(&other.span)).collect();
            }
        }
        for part in parts {
            let mut range = RangeLock::new(id, part);
            for line in lines.iter_mut() {
                if range.span.has(line.target()) && line.take(id, span.mode).is_none() {
                    range.leave_out(LockKey::new(line.target()));
                }
            }
            ranges.push(range);
        }
        lines.retain(|line| !(span.has(line.target()) && is_redundant(line, ranges)));
        self.shrink();
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn has_redundant_lines(&self) -> bool {
        self.lines.iter().any(|line| is_redundant(line, &self.ranges))
    }
}
