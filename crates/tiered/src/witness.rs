//! What a model sees of bytes behind raw pointers: rows of the row cache, and pages of a pool.
//!
//! loom knows of each use of its own cells, and nothing of memory that is reached by an address. So
//! what hands such memory out has a *witness* with it, which is told of each look at the bytes, of
//! each change, and of their end. In a model that is a cell of loom's; in production it is nothing,
//! and takes no memory.
#![allow(unsafe_code)] // A leaf: the way from bytes to their witness.

#[cfg(loom)]
pub(crate) use self::seen::{WORDS, Witness, Witnesses, bury};
#[cfg(not(loom))]
pub(crate) use self::unseen::{WORDS, Witness, Witnesses, bury};

#[cfg(not(loom))]
mod unseen {
    use std::mem::ManuallyDrop;

    /// Words that a witness takes beside the bytes.
    pub(crate) const WORDS: usize = 0;

    /// Nobody is told.
    #[derive(Clone, Copy)]
    pub(crate) struct Witness;

    impl Witness {
        #[inline]
        pub(crate) fn new() -> Witness {
            Witness
        }

        #[inline]
        pub(crate) fn into_words(self, _: &mut [u64]) {}

        #[inline]
        pub(crate) unsafe fn at(_: *const u64) -> ManuallyDrop<Witness> {
            ManuallyDrop::new(Witness)
        }

        #[inline]
        pub(crate) fn looked(&self) {}

        #[inline]
        pub(crate) fn changed(&self) {}

        #[inline]
        pub(crate) fn ended(&self) {}
    }

    /// Those of many pieces of memory that are used again and again.
    pub(crate) struct Witnesses;

    impl Witnesses {
        #[inline]
        pub(crate) fn new() -> Witnesses {
            Witnesses
        }

        #[inline]
        pub(crate) fn of(&mut self, _: u32) -> Witness {
            Witness
        }
    }

    /// Frees something whose end was told.
    #[inline]
    pub(crate) fn bury<T>(thing: T) {
        drop(thing);
    }
}

#[cfg(loom)]
mod seen {
    use std::any::Any;
    use std::cell::RefCell;
    use std::collections::{BTreeMap, VecDeque};
    use std::mem::ManuallyDrop;
    use std::sync::Arc;

    use loom::alloc::Track;
    use spillway_base::sync::UnsafeCell;

    /// Words that a witness takes beside the bytes.
    pub(crate) const WORDS: usize = 1;
    /// So much of what was freed last is kept.
    const KEPT: usize = 64;

    thread_local! {
        static BURIED: RefCell<VecDeque<Box<dyn Any>>> = RefCell::default();
    }

    /// Stands for bytes. loom says so if it never ends.
    #[derive(Clone)]
    pub(crate) struct Witness(Arc<UnsafeCell<Option<Track<()>>>>);

    // SAFETY: loom checks each access.
    unsafe impl Send for Witness {}
    // SAFETY: as above.
    unsafe impl Sync for Witness {}

    impl Witness {
        pub(crate) fn new() -> Witness {
            Witness(Arc::new(UnsafeCell::new(Some(Track::new(())))))
        }

        /// Leaves it in the words for it.
        pub(crate) fn into_words(self, words: &mut [u64]) {
            words[0] = Arc::into_raw(self.0).expose_provenance() as u64;
        }

        /// The one that was left in words.
        ///
        /// # Safety
        /// It was, and is not dropped; what they are in is freed by [`bury`] only, together with
        /// it.
        pub(crate) unsafe fn at(words: *const u64) -> ManuallyDrop<Witness> {
            // SAFETY: as the caller says: it is where they are.
            let at = unsafe { words.read() } as usize;
            // SAFETY: as the caller says; the reference is the words' own, and stays theirs.
            let witness = unsafe { Arc::from_raw(std::ptr::with_exposed_provenance(at)) };
            ManuallyDrop::new(Witness(witness))
        }

        /// The bytes are looked at.
        pub(crate) fn looked(&self) {
            // SAFETY: loom sees to it that nobody changes it just now.
            let is_there = self.0.with(|life| unsafe { (*life).is_some() });
            assert!(is_there, "what has ended is looked at");
        }

        /// They are changed.
        pub(crate) fn changed(&self) {
            // SAFETY: as above, nor looks at it.
            let is_there = self.0.with_mut(|life| unsafe { (*life).is_some() });
            assert!(is_there, "what has ended is changed");
        }

        /// They are nobody's any more.
        pub(crate) fn ended(&self) {
            // SAFETY: as above.
            let life = self.0.with_mut(|life| unsafe { (*life).take() });
            assert!(life.is_some(), "it ends twice");
        }
    }

    /// Those of many pieces of memory that are used again and again.
    pub(crate) struct Witnesses(BTreeMap<u32, Witness>);

    impl Witnesses {
        pub(crate) fn new() -> Witnesses {
            Witnesses(BTreeMap::new())
        }

        /// The one of a number.
        pub(crate) fn of(&mut self, number: u32) -> Witness {
            self.0.entry(number).or_insert_with(Witness::new).clone()
        }
    }

    /// Frees something whose end was told, a while later: who looks at it nevertheless is to be
    /// told that it ended, and not misled.
    pub(crate) fn bury<T: 'static>(thing: T) {
        BURIED.with_borrow_mut(|buried| {
            buried.push_back(Box::new(thing));
            if buried.len() > KEPT {
                buried.pop_front();
            }
        });
    }
}
