//! The spans of keys that range locks cover ([`super::ranges`]).

use std::sync::Arc;

use hashbrown::HashTable;
use spillway_base::TableId;

use super::key::{LockKey, Target, lock_bytes};
use crate::options::LockMode;

/// Whether two owners may not hold one key in these modes.
pub(super) fn conflict(one: LockMode, other: LockMode) -> bool {
    one == LockMode::Exclusive || other == LockMode::Exclusive
}

/// The keys of a table from `start` to before `end`, and their lock mode.
#[derive(Clone)]
pub(super) struct Span {
    pub(super) table: TableId,
    pub(super) mode: LockMode,
    pub(super) start: Arc<[u8]>,
    pub(super) end: Arc<[u8]>,
}

impl Span {
    pub(super) fn has(&self, target: Target<'_>) -> bool {
        target.table == self.table && *self.start <= *target.key && *target.key < *self.end
    }

    pub(super) fn is_kin_of(&self, other: &Span) -> bool {
        self.table == other.table && self.mode == other.mode
    }

    /// Whether every key of another span of the same table and mode is in this one.
    pub(super) fn contains(&self, other: &Span) -> bool {
        self.is_kin_of(other) && self.start <= other.start && other.end <= self.end
    }

    /// Whether no key lies between the two, which are of one table and mode.
    pub(super) fn touches(&self, other: &Span) -> bool {
        self.is_kin_of(other) && self.start <= other.end && other.start <= self.end
    }

    /// Both spans, and the keys between them.
    pub(super) fn joined(&self, other: &Span) -> Span {
        let start = self.start.clone().min(other.start.clone());
        Span { start, end: self.end.clone().max(other.end.clone()), ..self.clone() }
    }

    /// The parts of this span that have no key of the other, of whatever mode.
    pub(super) fn without(&self, other: &Span) -> impl Iterator<Item = Span> {
        let apart = self.table != other.table || self.end <= other.start || other.end <= self.start;
        let (below, above) = if apart {
            (Some(self.clone()), None)
        } else {
            let below = Span { end: other.start.clone(), ..self.clone() };
            let above = Span { start: other.end.clone(), ..self.clone() };
            (Some(below), Some(above))
        };
        below.into_iter().chain(above).filter(|part| part.start < part.end)
    }
}

/// The spans into which the locks of one owner were folded.
#[derive(Default)]
pub(super) struct FoldedSpans {
    /// The spans of one table and mode are disjoint.
    pub(super) spans: Vec<Span>,
    /// Another fold is worth its cost once the owner has this many row locks.
    pub(super) fold_from: usize,
}

/// A range lock as one shard has it.
pub(super) struct RangeLock {
    pub(super) owner: u64,
    pub(super) span: Span,
    /// The keys of this shard that lie within the span and that the range does not cover.
    left_out: HashTable<LockKey>,
}

impl RangeLock {
    pub(super) fn new(owner: u64, span: Span) -> RangeLock {
        RangeLock { owner, span, left_out: HashTable::new() }
    }

    pub(super) fn leave_out(&mut self, key: LockKey) {
        self.left_out.insert_unique(key.target().hash, key, |key| key.target().hash);
    }

    pub(super) fn covers(&self, target: Target<'_>) -> bool {
        let is_target = |key: &LockKey| key.target().is(target);
        self.span.has(target)
            && (self.left_out.is_empty() || self.left_out.find(target.hash, is_target).is_none())
    }

    /// The bytes that its owner is charged for.
    pub(super) fn bytes(&self) -> usize {
        let left_out = self.left_out.iter().map(|key| lock_bytes(key.target().key.len()));
        size_of::<RangeLock>() + left_out.sum::<usize>()
    }
}
