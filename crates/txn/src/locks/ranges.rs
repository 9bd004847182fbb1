//! Range locks: the locks of a large transaction, folded.
//!
//! A row lock is a line of 64 bytes in a hash table, and a statement that changes 20 million rows
//! must not hold 20 million lines. Once an owner holds many row locks, [`Locks::fold`] replaces
//! them by range locks. A range lock covers every key between two bounds, whether or not its owner
//! requested the key.
//!
//! A bulk statement visits keys in order, so its ranges cover few keys that it did not visit. But
//! if a transaction locks the same number of keys at random, its ranges cover most of the table in
//! the end. That is the price of bounded memory. The threshold is so high that only bulk work pays
//! it.
//!
//! A fold replaces the row locks of an owner in a *span*: a table, a lock mode, and two bounds
//! between which the keys lie. A *range* is the lock that one shard has on the span, or on a part
//! of it.
//!
//! # Shards
//!
//! Each shard has ranges of its own in addition to its lines, under its own mutex, and decides for
//! itself which of its keys a range covers. A key belongs to one shard. So the ranges of a span
//! need not take effect in all shards at once. If two owners fold overlapping spans at the same
//! time, the overlap may belong to one owner in some shards, and to the other owner in others.
//!
//! Rejected: one registry of the ranges of all shards. Every lock request would read a counter that
//! all threads share, and the registry's mutex would join the lock order. After an owner has added
//! a range to the registry, it visits the shards one after another. The guarantees below would also
//! have to hold in the shards that it has not visited yet.
//!
//! # Guarantees
//!
//! - **LOCK-1 (coverage).** A range covers the keys of one table from its start (inclusive) to its
//!   end (exclusive), in one mode, except the keys that are left out (LOCK-3). An owner holds a
//!   range until its transaction ends.
//!   - *What a fold replaces:* the row locks that the owner has in the span. Three kinds of locks
//!     stay row locks: on keys that the range leaves out, on keys that other owners wait for, and
//!     in a stronger mode than the range.
//!   - *How many spans:* an owner has at most [`SPANS_PER_TABLE`] spans for each table and mode,
//!     and [`SPANS_MAX`] in all. A fold joins a new span with each of the owner's spans that
//!     overlaps it or adjoins it. If the owner would still exceed a limit, the fold also joins the
//!     new span with the nearest of the owner's spans for the same table and mode. If the owner has
//!     no such span, its row locks stay.
//! - **LOCK-2 (lines in a range).** If a range covers a key that has a line, the range's owner is
//!   among the line's holders, in the range's mode or a stronger one. So a request for a key with a
//!   line need not check ranges.
//!
//!   If a key has no line, a request that conflicts with ranges creates a line. The holders of this
//!   line are the owners of all ranges that cover the key. The request then waits in the line as
//!   for any row lock, with the order of arrival, the deadlock search, timeouts and wakers. A
//!   request with NOWAIT or SKIP LOCKED creates no line.
//! - **LOCK-3 (no overlap).** Within a shard, ranges of two owners overlap only if both are shared.
//!   A fold takes the parts of its span that conflict with no other owner's range. It leaves out
//!   each key that another owner holds, or waits for, in a conflicting mode. If the folding owner
//!   has a row lock on such a key, that lock stays a line.
//! - **LOCK-4 (removal).** A line is unnecessary if it has no waiter, and if each holder has a
//!   range that covers the key in the holder's mode or a stronger one. A fold removes such lines.
//!   So does an owner that releases its lock on the line or stops waiting in it.
//! - **LOCK-5 (own keys).** If an owner requests a key that has no line and that its own range
//!   covers, the outcome is [`super::Acquired::New`]. The owner may never have read the row of that
//!   key, so the caller compares the row with the snapshot as for any new lock.
//! - **LOCK-6 (safety).** No two owners hold one key in conflicting modes, by lines or by ranges.
//!   It follows from LOCK-2 and LOCK-3.
//! - **LOCK-7 (release).** When an owner with ranges ends, it visits each shard once. In a visit it
//!   removes its ranges from the shard, and releases every lock that it holds there by a line.
//!   After the visit it wakes the waiters to which it has granted locks. An owner without ranges
//!   visits only the shards of its keys.
//! - **LOCK-8 (memory).** [`LockOwner::bytes`] counts an owner's lines, ranges and left-out keys.
//!   The owner's transaction charges these bytes to the budget before each request for a lock. From
//!   a threshold on, the transaction folds its row locks. If neither the charge nor a fold makes
//!   room, the request fails (`transaction::lock_memory`).

use rustc_hash::FxHashMap;
use spillway_base::TableId;
use spillway_base::range::successor;

use super::key::{Target, lock_bytes};
#[cfg(all(test, not(loom)))]
use super::span::conflict;
use super::span::{FoldedSpans, RangeLock, Span};
use super::{LockOwner, Locks};
use crate::options::LockMode;

/// An owner has at most this many spans for one table and mode (LOCK-1).
const SPANS_PER_TABLE: usize = 8;

/// An owner has at most this many spans (LOCK-1).
const SPANS_MAX: usize = 64;

/// The locks of a table and mode are folded if they are at least one in this many of the owner's
/// lines.
const PART_FOLDED: usize = 16;

/// The number and the first and last key of an owner's lines in one table and mode.
struct Extent {
    table: TableId,
    mode: LockMode,
    lines: usize,
    first: Vec<u8>,
    last: Vec<u8>,
}

impl Extent {
    fn add(&mut self, key: &[u8]) {
        self.lines += 1;
        if self.lines == 1 || key < &self.first[..] {
            self.first = key.to_vec();
        }
        if key > &self.last[..] {
            self.last.clear();
            self.last.extend_from_slice(key);
        }
    }

    fn span(&self) -> Span {
        let end = successor(&self.last);
        let (start, end) = (self.first.as_slice().into(), end.into());
        Span { table: self.table, mode: self.mode, start, end }
    }
}

/// Adds a span to those of an owner. Returns the span that it was joined into (LOCK-1), or `None`
/// if the owner may have no more spans and none of its spans can be joined with it.
fn add_span(spans: &mut Vec<Span>, new: Span) -> Option<Span> {
    let mut joined = new;
    spans.retain(|span| {
        let touches = joined.touches(span);
        if touches {
            joined = joined.joined(span);
        }
        !touches
    });
    let of_table = spans.iter().filter(|span| span.is_kin_of(&joined)).count();
    if of_table >= SPANS_PER_TABLE || spans.len() >= SPANS_MAX {
        let kin = || (0..spans.len()).filter(|at| spans[*at].is_kin_of(&joined));
        let below = kin().filter(|at| spans[*at].end <= joined.start);
        let below = below.max_by_key(|at| spans[*at].start.clone());
        let nearest = below.or_else(|| kin().min_by_key(|at| spans[*at].start.clone()))?;
        joined = joined.joined(&spans.swap_remove(nearest));
    }
    spans.push(joined.clone());
    Some(joined)
}

impl Locks {
    /// Replaces row locks of an owner by range locks (LOCK-1), and recounts the bytes that it is
    /// charged for. The owner does not wait.
    #[cold]
    pub(crate) fn fold(&self, owner: &LockOwner) {
        debug_assert!(!owner.has_left(), "an owner in line does not fold");
        let extents = self.extents(owner);
        let lines: usize = extents.iter().map(|extent| extent.lines).sum();
        let worth = extents.iter().filter(|extent| extent.lines * PART_FOLDED >= lines);
        let mut folded = owner.folded.borrow_mut();
        let FoldedSpans { spans, fold_from } = &mut **folded.get_or_insert_default();
        let added: Vec<Span> = worth.filter_map(|extent| add_span(spans, extent.span())).collect();
        let mut held = owner.held.borrow_mut();
        held.clear();
        let mut bytes = spans.len() * size_of::<Span>();
        for shard in &self.shards {
            let mut shard = shard.0.lock();
            added.iter().for_each(|span| shard.cover(owner.id, span));
            for line in shard.lines.iter().filter(|line| line.is_held_by(owner.id)) {
                held.push(line.hash());
                bytes += lock_bytes(line.target().key.len());
            }
            let own = shard.ranges.iter().filter(|range| range.owner == owner.id);
            bytes += own.map(RangeLock::bytes).sum::<usize>();
        }
        owner.bytes.set(bytes);
        *fold_from = held.len() * 2;
    }

    /// The extents of an owner's lines. The lines within one of its spans, whose keys were left out
    /// there, have an extent of their own.
    fn extents(&self, owner: &LockOwner) -> Vec<Extent> {
        let mut extents: Vec<Extent> = Vec::new();
        let mut at = FxHashMap::default();
        let folded = owner.folded.borrow();
        let spans = folded.as_ref().map_or(&[][..], |folded| &folded.spans);
        for shard in &self.shards {
            let shard = shard.0.lock();
            for line in &shard.lines {
                let Some(mode) = line.mode_of(owner.id) else { continue };
                let target @ Target { table, key, .. } = line.target();
                let within = spans.iter().position(|span| span.mode == mode && span.has(target));
                let group = (table, mode == LockMode::Exclusive, within);
                let at = *at.entry(group).or_insert_with(|| {
                    let (first, last) = (Vec::new(), Vec::new());
                    extents.push(Extent { table, mode, lines: 0, first, last });
                    extents.len() - 1
                });
                extents[at].add(key);
            }
        }
        extents
    }

    /// The number of range locks in all shards.
    #[cfg(test)]
    pub(super) fn ranges(&self) -> usize {
        self.shards.iter().map(|shard| shard.0.lock().ranges.len()).sum()
    }

    /// Panics if LOCK-2, LOCK-3 or LOCK-4 does not hold.
    #[cfg(all(test, not(loom)))]
    pub(super) fn check(&self) {
        for shard in &self.shards {
            let shard = shard.0.lock();
            for (at, range) in shard.ranges.iter().enumerate() {
                for line in shard.lines.iter().filter(|line| range.covers(line.target())) {
                    assert!(line.mode_of(range.owner) >= Some(range.span.mode), "LOCK-2");
                }
                for other in &shard.ranges[..at] {
                    let both = other.owner != range.owner
                        && other.span.table == range.span.table
                        && other.span.start < range.span.end
                        && range.span.start < other.span.end;
                    assert!(!both || !conflict(range.span.mode, other.span.mode), "LOCK-3");
                }
            }
            assert!(!shard.has_redundant_lines(), "LOCK-4");
        }
    }
}
