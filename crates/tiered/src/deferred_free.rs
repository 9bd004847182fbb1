//! Deferred frees: background threads free unreachable memory that is too much for its last reader
//! to free (X-Engine, section 3.1.3).
//!
//! DEFERRED-FREE-1. *Readers free little.* A reader that drops the last reference to an old view
//! may be the only owner of all nodes and slices of the view's levels, because compactions may have
//! replaced all of them since. The reader frees about [`FREED_AT_ONCE`] of these *parts*, and
//! leaves the other parts to this module. The reader frees memtables whole, because a memtable is a
//! few dozen pieces of memory.
//!
//! DEFERRED-FREE-2. *The rest is freed soon.* Each background thread frees about [`FREED_A_LOOK`]
//! parts before each job, and does not sleep while parts are left. A thread without a job sleeps
//! for at most a second before it checks for parts again. A thread whose job found the disk full
//! sleeps for a fifth of a second, and frees parts, which may hold slots, before it tries to write
//! again.
//!
//! DEFERRED-FREE-3. *No part in use is freed, and no part leaks.* A part that still has another
//! owner is not freed here. Its last owner frees it.
//!
//! DEFERRED-FREE-4. *Begin and end.* Frees are deferred only between [`DeferredFree::begin`] and
//! [`DeferredFree::end`]. In between, the engine's background threads free the deferred parts.
//! The engine calls `end` when it closes or when a background thread fails, and `end` frees all
//! deferred parts. Before `begin` and after `end`, the last owner frees everything itself.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};

use spillway_base::lock::Mutex;

/// Parts that the last owner frees at once. This takes a few microseconds if the parts are still
/// shared, and some fifty if all of them are freed with their slots. Tests have few parts.
const FREED_AT_ONCE: usize = if cfg!(test) { 6 } else { 256 };
/// Parts that one call of [`DeferredFree::free_some`] frees. This takes at most a millisecond or
/// two, for which a flush waits.
const FREED_A_LOOK: usize = 4096;

/// Something large that no reader uses any more, made of many parts.
pub(crate) trait Retired: Send {
    /// Frees about `parts` of its parts.
    fn free(&mut self, parts: usize);

    /// Whether nothing is left of it.
    fn is_gone(&self) -> bool;
}

/// Parts that wait to be freed.
#[derive(Default)]
pub(crate) struct DeferredFree {
    /// Oldest first; `None` while callers of [`DeferredFree::let_go`] must free everything
    /// themselves.
    left: Mutex<Option<VecDeque<Box<dyn Retired>>>>,
    /// How many things were deferred in all.
    handed_over: AtomicU64,
}

impl DeferredFree {
    /// Frees a few parts now, and leaves the rest for later (DEFERRED-FREE-1).
    pub(crate) fn let_go(&self, mut remains: impl Retired + 'static) {
        remains.free(FREED_AT_ONCE);
        if !remains.is_gone() {
            self.handed_over.fetch_add(1, Ordering::Relaxed);
            self.leave(Box::new(remains));
        }
    }

    fn leave(&self, mut remains: Box<dyn Retired>) {
        if let Some(left) = &mut *self.left.lock() {
            left.push_back(remains);
            return;
        }
        free_whole(&mut *remains);
    }

    /// Frees some parts of what is left. Returns whether anything was left (DEFERRED-FREE-2).
    pub(crate) fn free_some(&self) -> bool {
        let oldest = self.left.lock().as_mut().and_then(VecDeque::pop_front);
        let Some(mut oldest) = oldest else { return false };
        oldest.free(FREED_A_LOOK);
        if !oldest.is_gone() {
            self.leave(oldest);
        }
        true
    }

    /// Frees all that is left. From now on, callers free everything themselves (DEFERRED-FREE-4).
    pub(crate) fn end(&self) {
        let left = self.left.lock().take();
        left.into_iter().flatten().for_each(|mut remains| free_whole(&mut *remains));
    }

    /// Declares that a thread will free what is left, until [`DeferredFree::end`].
    pub(crate) fn begin(&self) {
        self.left.lock().get_or_insert_default();
    }

    /// The number of things that were too large for their last user to free at once.
    pub(crate) fn handed_over(&self) -> u64 {
        self.handed_over.load(Ordering::Relaxed)
    }

    /// The number of things that are left.
    pub(crate) fn len(&self) -> usize {
        self.left.lock().as_ref().map_or(0, VecDeque::len)
    }
}

fn free_whole(remains: &mut dyn Retired) {
    while !remains.is_gone() {
        remains.free(usize::MAX);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    struct Parts {
        left: usize,
        freed: Arc<AtomicUsize>,
    }

    impl Retired for Parts {
        fn free(&mut self, parts: usize) {
            let freed = parts.min(self.left);
            self.left -= freed;
            self.freed.fetch_add(freed, Ordering::Relaxed);
        }

        fn is_gone(&self) -> bool {
            self.left == 0
        }
    }

    fn parts(left: usize) -> (Parts, impl Fn() -> usize) {
        let freed = Arc::new(AtomicUsize::new(0));
        (Parts { left, freed: freed.clone() }, move || freed.load(Ordering::Relaxed))
    }

    /// DEFERRED-FREE-1, DEFERRED-FREE-2.
    #[test]
    fn a_little_is_freed_at_once_and_the_rest_in_looks() {
        let garbage = DeferredFree::default();
        garbage.begin();
        let (few, freed_few) = parts(FREED_AT_ONCE);
        garbage.let_go(few);
        assert_eq!((freed_few(), garbage.len(), garbage.handed_over()), (FREED_AT_ONCE, 0, 0));
        assert!(!garbage.free_some());
        let (many, freed) = parts(FREED_AT_ONCE + 2 * FREED_A_LOOK + 1);
        garbage.let_go(many);
        let (more, freed_more) = parts(FREED_AT_ONCE + 1);
        garbage.let_go(more);
        assert_eq!((freed(), freed_more()), (FREED_AT_ONCE, FREED_AT_ONCE));
        assert_eq!((garbage.len(), garbage.handed_over()), (2, 2));
        // In turn, so a large thing does not delay small ones.
        assert!(garbage.free_some() && garbage.free_some());
        assert_eq!((freed(), freed_more()), (FREED_AT_ONCE + FREED_A_LOOK, FREED_AT_ONCE + 1));
        assert!(garbage.free_some() && garbage.free_some() && !garbage.free_some());
        assert_eq!(freed(), FREED_AT_ONCE + 2 * FREED_A_LOOK + 1);
    }

    /// DEFERRED-FREE-4.
    #[test]
    fn in_the_end_all_goes_and_before_the_begin_too() {
        let garbage = DeferredFree::default();
        let (early, freed) = parts(1_000_000);
        garbage.let_go(early);
        assert_eq!((freed(), garbage.free_some()), (1_000_000, false));
        garbage.begin();
        let (before, freed) = parts(FREED_AT_ONCE + 100);
        garbage.let_go(before);
        garbage.end();
        assert_eq!((freed(), garbage.len()), (FREED_AT_ONCE + 100, 0));
        let (after, freed) = parts(1_000_000);
        garbage.let_go(after);
        assert_eq!((freed(), garbage.free_some()), (1_000_000, false));
        garbage.begin();
        let (again, freed) = parts(1_000_000);
        garbage.let_go(again);
        assert_eq!((freed(), garbage.len()), (FREED_AT_ONCE, 1));
    }
}
