//! The bounds of a scan, and how a path of the tree relates to them.

use std::ops::Bound;

use super::descent::common;

/// One bound of a range.
#[derive(Clone, Copy)]
struct Limit<'k> {
    /// None if the range is unbounded on this side.
    key: Option<&'k [u8]>,
    included: bool,
    is_low: bool,
}

/// On which side of a limit all keys lie that begin with a path.
#[derive(PartialEq, Eq)]
enum Side {
    Inside,
    /// Undecided: the path is a prefix of the limit's key, or the whole key.
    Tied,
    Outside,
}

impl<'k> Limit<'k> {
    fn new(bound: Bound<&'k [u8]>, is_low: bool) -> Limit<'k> {
        let (key, included) = match bound {
            Bound::Included(key) => (Some(key), true),
            Bound::Excluded(key) => (Some(key), false),
            Bound::Unbounded => (None, true),
        };
        Limit { key, included, is_low }
    }

    /// The bytes of the limit's key past a tied path.
    fn rest(&self, depth: usize) -> &'k [u8] {
        &self.key.expect("a path is tied to a key")[depth..]
    }

    /// The side of a tied path once `added` is appended to it.
    fn follow(&self, depth: usize, added: &[u8]) -> Side {
        let rest = self.rest(depth);
        let shared = common(rest, added);
        let is_above = match (added.get(shared), rest.get(shared)) {
            (None, _) => return Side::Tied,
            (Some(added), Some(rest)) => added > rest,
            (Some(_), None) => true,
        };
        if is_above == self.is_low { Side::Inside } else { Side::Outside }
    }

    /// Whether the key that equals the tied path is in the range.
    fn admits(&self, depth: usize) -> bool {
        if self.rest(depth).is_empty() { self.included } else { !self.is_low }
    }
}

/// The keys between two bounds.
#[derive(Clone, Copy)]
pub(super) struct Range<'k> {
    low: Limit<'k>,
    high: Limit<'k>,
}

/// The limits to which a path is tied.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Ties {
    low: bool,
    high: bool,
}

impl Ties {
    /// Whether the range has all keys that begin with the path.
    pub(super) fn is_free(self) -> bool {
        !self.low && !self.high
    }
}

impl<'k> Range<'k> {
    pub(super) fn new(low: Bound<&'k [u8]>, high: Bound<&'k [u8]>) -> Range<'k> {
        Range { low: Limit::new(low, true), high: Limit::new(high, false) }
    }

    /// The ties of the empty path.
    pub(super) fn ties(&self) -> Ties {
        Ties { low: self.low.key.is_some(), high: self.high.key.is_some() }
    }

    /// The ties of a path once `added` is appended; none if its keys are outside the range.
    #[inline]
    pub(super) fn follow(&self, ties: Ties, depth: usize, added: &[u8]) -> Option<Ties> {
        if ties.is_free() {
            return Some(ties);
        }
        let mut next = ties;
        for (limit, tied) in [(&self.low, &mut next.low), (&self.high, &mut next.high)] {
            if *tied {
                match limit.follow(depth, added) {
                    Side::Inside => *tied = false,
                    Side::Tied => {}
                    Side::Outside => return None,
                }
            }
        }
        Some(next)
    }

    /// Whether the key that equals the path is in the range.
    #[inline]
    pub(super) fn admits(&self, ties: Ties, depth: usize) -> bool {
        (!ties.low || self.low.admits(depth)) && (!ties.high || self.high.admits(depth))
    }

    /// Whether the key that is the path followed by `rest` is in the range.
    #[inline]
    pub(super) fn admits_rest(&self, ties: Ties, depth: usize, rest: &[u8]) -> bool {
        ties.is_free()
            || self
                .follow(ties, depth, rest)
                .is_some_and(|ties| self.admits(ties, depth + rest.len()))
    }

    /// The smallest byte that may follow the path; none if every byte may.
    pub(super) fn low_byte(&self, ties: Ties, depth: usize) -> Option<u8> {
        if ties.low { self.low.rest(depth).first().copied() } else { None }
    }

    /// The largest byte that may follow the path: `Some(None)` if every byte may, none if no byte
    /// may.
    pub(super) fn high_byte(&self, ties: Ties, depth: usize) -> Option<Option<u8>> {
        if ties.high { self.high.rest(depth).first().map(|byte| Some(*byte)) } else { Some(None) }
    }
}
