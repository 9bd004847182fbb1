//! Reports to loom each memory access through a raw pointer.
//!
//! loom sees accesses to its own cells only, not accesses by address. Code that hands out memory by
//! address (rows of a row cache, pages of a pool) keeps a [`LoomTracker`] for that memory, and
//! reports to it each read, each write and the end of the memory's life. Under `--cfg loom` a
//! tracker is a loom cell. Otherwise it is empty, and its methods do nothing.
#![allow(unsafe_code)] // A leaf: a tracker is found by the address of its memory.

#[cfg(loom)]
pub use self::modelled::{LoomTracker, LoomTrackers, WORDS, free_tracked};
#[cfg(not(loom))]
pub use self::plain::{LoomTracker, LoomTrackers, WORDS, free_tracked};

#[cfg(not(loom))]
mod plain {
    use std::mem::ManuallyDrop;

    /// The number of words that a tracker takes in addition to the memory.
    pub const WORDS: usize = 0;

    /// The tracker of one piece of memory.
    #[derive(Clone, Copy, Default)]
    pub struct LoomTracker;

    impl LoomTracker {
        /// A tracker of memory that begins its life now.
        #[inline]
        #[must_use]
        pub fn new() -> LoomTracker {
            LoomTracker
        }

        /// Stores the tracker in the [`WORDS`] words reserved for it.
        #[inline]
        pub fn into_words(self, _: &mut [u64]) {}

        /// The tracker that [`LoomTracker::into_words`] stored.
        ///
        /// # Safety
        /// The words hold a tracker whose memory [`free_tracked`] has not freed.
        #[inline]
        #[must_use]
        pub unsafe fn at(_: *const u64) -> ManuallyDrop<LoomTracker> {
            ManuallyDrop::new(LoomTracker)
        }

        /// Reports a read.
        #[inline]
        pub fn looked(&self) {}

        /// Reports a write.
        #[inline]
        pub fn changed(&self) {}

        /// Reports the end of the memory's life.
        #[inline]
        pub fn ended(&self) {}
    }

    /// The trackers of numbered pieces of memory that are used again and again.
    #[derive(Default)]
    pub struct LoomTrackers;

    impl LoomTrackers {
        /// No trackers yet.
        #[inline]
        #[must_use]
        pub fn new() -> LoomTrackers {
            LoomTrackers
        }

        /// The tracker of this number.
        #[inline]
        pub fn of(&mut self, _: u32) -> LoomTracker {
            LoomTracker
        }
    }

    /// Frees memory whose end was reported.
    #[inline]
    pub fn free_tracked<T>(thing: T) {
        drop(thing);
    }
}

#[cfg(loom)]
mod modelled {
    use std::any::Any;
    use std::cell::RefCell;
    use std::collections::{BTreeMap, VecDeque};
    use std::mem::ManuallyDrop;
    use std::sync::Arc;

    use loom::alloc::Track;
    use spillway_base::sync::UnsafeCell;

    /// The number of words that a tracker takes in addition to the memory.
    pub const WORDS: usize = 1;
    /// Pieces of freed memory that are kept, so that a late read finds the tracker.
    const KEPT_MAX: usize = 64;

    thread_local! {
        static FREED: RefCell<VecDeque<Box<dyn Any>>> = RefCell::default();
    }

    /// The tracker of one piece of memory. loom reports a leak if the memory's life never ends.
    #[derive(Clone)]
    pub struct LoomTracker(Arc<UnsafeCell<Option<Track<()>>>>);

    // SAFETY: loom checks each access.
    unsafe impl Send for LoomTracker {}
    // SAFETY: as above.
    unsafe impl Sync for LoomTracker {}

    impl Default for LoomTracker {
        fn default() -> LoomTracker {
            LoomTracker::new()
        }
    }

    impl LoomTracker {
        /// A tracker of memory that begins its life now.
        #[must_use]
        pub fn new() -> LoomTracker {
            LoomTracker(Arc::new(UnsafeCell::new(Some(Track::new(())))))
        }

        /// Stores the tracker in the [`WORDS`] words reserved for it.
        pub fn into_words(self, words: &mut [u64]) {
            words[0] = Arc::into_raw(self.0).expose_provenance() as u64;
        }

        /// The tracker that [`LoomTracker::into_words`] stored.
        ///
        /// # Safety
        /// The words hold a tracker whose memory [`free_tracked`] has not freed.
        #[must_use]
        pub unsafe fn at(words: *const u64) -> ManuallyDrop<LoomTracker> {
            // SAFETY: the caller says that the words are there.
            let at = unsafe { words.read() } as usize;
            // SAFETY: the caller says that they hold a tracker. The reference stays the words' own.
            let tracker = unsafe { Arc::from_raw(std::ptr::with_exposed_provenance(at)) };
            ManuallyDrop::new(LoomTracker(tracker))
        }

        /// Reports a read.
        pub fn looked(&self) {
            // SAFETY: loom checks that no write is concurrent.
            let is_alive = self.0.with(|life| unsafe { (*life).is_some() });
            assert!(is_alive, "memory is read after its end");
        }

        /// Reports a write.
        pub fn changed(&self) {
            // SAFETY: loom checks that no access is concurrent.
            let is_alive = self.0.with_mut(|life| unsafe { (*life).is_some() });
            assert!(is_alive, "memory is written after its end");
        }

        /// Reports the end of the memory's life.
        pub fn ended(&self) {
            // SAFETY: as above.
            let life = self.0.with_mut(|life| unsafe { (*life).take() });
            assert!(life.is_some(), "memory ends twice");
        }
    }

    /// The trackers of numbered pieces of memory that are used again and again.
    #[derive(Default)]
    pub struct LoomTrackers(BTreeMap<u32, LoomTracker>);

    impl LoomTrackers {
        /// No trackers yet.
        #[must_use]
        pub fn new() -> LoomTrackers {
            LoomTrackers::default()
        }

        /// The tracker of this number.
        pub fn of(&mut self, number: u32) -> LoomTracker {
            self.0.entry(number).or_insert_with(LoomTracker::new).clone()
        }
    }

    /// Frees memory whose end was reported, some time later, so that a read after the end finds the
    /// tracker and fails.
    pub fn free_tracked<T: 'static>(thing: T) {
        FREED.with_borrow_mut(|freed| {
            freed.push_back(Box::new(thing));
            if freed.len() > KEPT_MAX {
                freed.pop_front();
            }
        });
    }
}
