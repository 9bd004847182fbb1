//! The merge queue: the sources of a scan, in the order of their next keys.
//!
//! When the first source reaches a new key, it moves back past the sources whose keys come before
//! that key. The lowest level has most rows of a table, so the first source mostly passes no other.
//! A source with few rows passes all others, and there are few of them. The queue compares the
//! prefixes of keys ([`super::key_prefixes`]), which lie together in memory, and whole keys only
//! where prefixes are equal. A source with the same key as the source before it in the queue is
//! marked, so no step searches for equal keys.
//!
//! Rejected: a tree of losers (Knuth, The Art of Computer Programming 3, 5.4.1). Each step compares
//! once for each level of the tree, even if the first source stays first. The tree has to search
//! for the second source, and does not know ahead of a step whether the first stays. A row of a
//! scan over all levels took 1,086 instructions with the tree, 989 with prefixes instead of keys in
//! the tree, and 708 with the queue (callgrind, `scripts/bench-scan-instructions`). The queue would
//! be slower for many sources that alternate; a sub-table has a handful.
//!
//! # Guarantees
//! - **MERGE-QUEUE-1.** No source comes before [`MergeQueue::first`].
//! - **MERGE-QUEUE-2.** If [`MergeQueue::tied`] is `None`, no other source has the first's key.
//! - **MERGE-QUEUE-3.** Only the first source comes before [`MergeQueue::second`]: until the first
//!   source has passed the key of the second, it stays first.

use std::cell::Cell;
use std::mem;

thread_local! {
    /// The memory of a queue that was dropped on this thread, for the next one, because each
    /// statement opens ranges. (A `SmallVec` needs no allocation either, but takes 45 instructions
    /// more for each row in layers, because it checks its location each time.)
    static SPARE: Cell<Vec<QueuedSource>> = const { Cell::new(Vec::new()) };
}

/// Compares sources whose heads are equal.
pub(super) trait Contest {
    /// Whether one source comes before another, and whether their keys are equal.
    fn beats(&self, one: usize, other: usize) -> (bool, bool);
}

#[derive(Clone, Copy, Debug)]
struct QueuedSource {
    head: u64,
    one: u32,
    /// Whether it stands on a value.
    on_value: bool,
    /// Whether it has the same key as the source before it.
    tied: bool,
}

/// The queue. A source without a next key is not in it.
pub(super) struct MergeQueue(Vec<QueuedSource>);

impl Drop for MergeQueue {
    fn drop(&mut self) {
        self.0.clear();
        // A thread that is ending has no place for it any more.
        let _ = SPARE.try_with(|spare| spare.set(mem::take(&mut self.0)));
    }
}

impl MergeQueue {
    pub(super) fn new() -> MergeQueue {
        MergeQueue(SPARE.try_with(Cell::take).unwrap_or_default())
    }

    /// Removes all sources, and reserves space for `most`.
    pub(super) fn clear(&mut self, most: usize) {
        self.0.clear();
        self.0.reserve(most);
    }

    /// Inserts a source with the head of its key. Returns the number of comparisons of keys with
    /// equal heads that differed, as do [`MergeQueue::step`] and [`MergeQueue::step_tied`].
    pub(super) fn enter(
        &mut self,
        one: usize,
        head: u64,
        on_value: bool,
        contest: &impl Contest,
    ) -> u32 {
        self.0.insert(0, QueuedSource { head, one: one as u32, on_value, tied: false });
        self.go_back(0, head, on_value, contest)
    }

    /// The first source.
    #[inline]
    pub(super) fn first(&self) -> Option<usize> {
        self.0.first().map(|first| first.one as usize)
    }

    /// Whether the first source stands on a value.
    #[inline]
    pub(super) fn is_on_value(&self) -> bool {
        self.0.first().is_some_and(|first| first.on_value)
    }

    /// The source that would be first without the first.
    #[inline]
    pub(super) fn second(&self) -> Option<usize> {
        self.0.get(1).map(|second| second.one as usize)
    }

    /// Whether the second source stands on a value, if there is one.
    #[inline]
    pub(super) fn is_second_on_value(&self) -> Option<bool> {
        self.0.get(1).map(|second| second.on_value)
    }

    /// A source with the same key as the first.
    #[inline]
    pub(super) fn tied(&self) -> Option<usize> {
        self.0.get(1).filter(|second| second.tied).map(|second| second.one as usize)
    }

    /// All sources in the queue.
    pub(super) fn all(&self) -> impl Iterator<Item = usize> {
        self.0.iter().map(|waiting| waiting.one as usize)
    }

    /// Replaces the heads of the sources, for the same keys.
    pub(super) fn rename(&mut self, head: impl Fn(usize) -> u64) {
        self.0.iter_mut().for_each(|waiting| waiting.head = head(waiting.one as usize));
    }

    /// Whether the first source stays first with a key of this head, as far as the head alone
    /// decides that.
    #[inline]
    pub(super) fn stays(&self, head: u64) -> bool {
        self.0.get(1).is_none_or(|second| head < second.head)
    }

    /// The first source has moved on to another key.
    #[inline]
    pub(super) fn step(&mut self, head: u64, on_value: bool, contest: &impl Contest) -> u32 {
        self.go_back(0, head, on_value, contest)
    }

    /// The source that [`MergeQueue::tied`] named has moved on to another key.
    #[inline]
    pub(super) fn step_tied(&mut self, head: u64, on_value: bool, contest: &impl Contest) -> u32 {
        self.go_back(1, head, on_value, contest)
    }

    /// The first source has no key left.
    pub(super) fn end(&mut self) {
        self.0.remove(0);
        self.untie();
    }

    /// The source that [`MergeQueue::tied`] named has no key left. The source after it has the
    /// first's key if it had the key of the removed one.
    pub(super) fn end_tied(&mut self) {
        self.0.remove(1);
    }

    /// Marks that no source is before the first.
    #[inline]
    fn untie(&mut self) {
        if let Some(first) = self.0.first_mut() {
            first.tied = false;
        }
    }

    #[inline]
    fn go_back(&mut self, from: usize, head: u64, on_value: bool, contest: &impl Contest) -> u32 {
        let line = &mut self.0[from..];
        let Some((first, mut behind)) = line.split_first_mut() else { return 0 };
        let mut vain = 0;
        let mut gone = QueuedSource { head, on_value, tied: false, ..*first };
        let mut place = first;
        while let Some((next, rest)) = behind.split_first_mut() {
            let (beats, tied) = match head == next.head {
                false => (head < next.head, false),
                true => contest.beats(gone.one as usize, next.one as usize),
            };
            vain += u32::from(head == next.head && !tied);
            if beats {
                next.tied = tied;
                break;
            }
            *place = *next;
            gone.tied = tied;
            (place, behind) = (next, rest);
        }
        *place = gone;
        if from == 0 {
            self.untie();
        }
        vain
    }
}
