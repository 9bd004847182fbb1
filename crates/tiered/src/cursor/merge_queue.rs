//! The merge queue: the sources of a scan, in the order of their next keys.
//!
//! When the first source has advanced to a new key, it moves back past the sources whose keys come
//! before that key. The lowest level has most rows of a table. So its source is mostly first, and
//! stays first after most steps. A source with few rows moves past all others, but is rarely first.
//! The queue compares the heads of keys ([`super::key_prefixes`]), which lie together in memory. It
//! compares whole keys only where heads are equal. The queue marks a source that has the same key
//! as the source before it, so no step has to search for equal keys.
//!
//! Rejected: a tree of losers (Knuth, The Art of Computer Programming 3, 5.4.1). In the tree, each
//! step makes one comparison for each level of the tree. In the queue, a step makes one comparison
//! if the first source stays first. Besides, the tree does not know the second source, so it cannot
//! tell ahead of a step whether the first source will stay first. A row of a scan over all levels
//! took 1,086 instructions with the tree, 989 with heads instead of keys in the tree, and 708 with
//! the queue (callgrind, `scripts/bench-scan-instructions`).
//!
//! The queue would be slower than the tree for many sources that alternate, but a sub-table has
//! only a handful of sources.
//!
//! # Guarantees
//! - **MERGE-QUEUE-1.** No source comes before [`MergeQueue::first`].
//! - **MERGE-QUEUE-2.** If [`MergeQueue::tied`] is `None`, no other source has the same key as the
//!   first.
//! - **MERGE-QUEUE-3.** Only the first source comes before [`MergeQueue::second`]. So the first
//!   source stays first until it has passed the key of the second.

use std::cell::Cell;
use std::mem;

thread_local! {
    /// The memory of a queue that was dropped on this thread. The next queue reuses it, because
    /// each statement opens ranges. (A `SmallVec` needs no allocation either, but takes 45
    /// instructions more for each row of a scan over several sources, because each access checks
    /// where its memory is.)
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
        // On a thread that is ending, the memory is freed instead.
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

    /// Inserts a source with the head of its key. Returns the number of comparisons in which
    /// different keys had equal heads, as [`MergeQueue::step`] and [`MergeQueue::step_tied`] do.
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

    /// The second source: the one that would be first without the first.
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

    /// Replaces the heads of the sources after the prefix has changed. The keys are the same.
    pub(super) fn rename(&mut self, head: impl Fn(usize) -> u64) {
        self.0.iter_mut().for_each(|waiting| waiting.head = head(waiting.one as usize));
    }

    /// Whether the heads alone show that the first source stays first with a key of this head.
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

    /// The source that [`MergeQueue::tied`] named has no key left. If the source after it had the
    /// same key, that is still marked as tied, now with the first.
    pub(super) fn end_tied(&mut self) {
        self.0.remove(1);
    }

    /// Removes the mark of the first source, which has no source before it.
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
