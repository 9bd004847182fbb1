//! A tagged pointer: null, or a pointer to a cached entry with marks of its use in the low bits.
#![allow(unsafe_code)] // A leaf: pointers of `Arc`s that readers follow without a reference.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;

use spillway_base::sync::Arc;
use spillway_base::sync::atomic::{AtomicPtr, Ordering};
use spillway_reclaim::epochs::Pin;

/// The most marks: a use adds one, up to these, and the eviction's hand takes one away each time it
/// comes by.
pub(super) const MARKS_MAX: usize = 3;
/// What a pointer has its marks in; what it leads to is aligned to more.
const MARKS: usize = 3;

/// A pointer, which owns a reference of what it leads to.
///
/// A thread that links or unlinks an entry holds the lock of the cache. Readers hold a pin of it.
pub(super) struct TaggedPtr<T>(AtomicPtr<T>, PhantomData<Arc<T>>);

/// Something that was taken out of a tagged pointer. Readers may still look at it: if it is not
/// released it stays in memory for good.
pub(super) struct Unlinked<T>(ManuallyDrop<Arc<T>>);

impl<T> Unlinked<T> {
    pub(super) fn get(&self) -> &T {
        &self.0
    }

    /// The reference that the tagged pointer had.
    ///
    /// # Safety
    /// Every pin that began before it was taken out of its tagged pointer has ended.
    pub(super) unsafe fn release(self) -> Arc<T> {
        ManuallyDrop::into_inner(self.0)
    }

    /// Another tagged pointer is to lead to it.
    pub(super) fn relink(self, pointer: &TaggedPtr<T>) {
        pointer.put(ManuallyDrop::into_inner(self.0));
    }
}

impl<T> Default for TaggedPtr<T> {
    fn default() -> TaggedPtr<T> {
        TaggedPtr(AtomicPtr::new(std::ptr::null_mut()), PhantomData)
    }
}

impl<T> TaggedPtr<T> {
    /// What it leads to, marked as used.
    ///
    /// # Safety
    /// The pin is of the readers that are waited for before what was in this tagged pointer is
    /// released.
    #[inline]
    pub(super) unsafe fn get<'p>(&self, _pin: &'p Pin<'_>) -> Option<&'p T> {
        let word = self.0.load(Ordering::Acquire);
        let marks = word.addr() & MARKS;
        if marks < MARKS_MAX && !word.is_null() {
            // Whether it succeeds matters little: another use has marked it, or it is gone.
            let marked = word.map_addr(|addr| addr + 1);
            let _ = self.0.compare_exchange(word, marked, Ordering::Relaxed, Ordering::Relaxed);
        }
        let thing = word.map_addr(|addr| addr & !MARKS);
        // SAFETY: it is null, or from an `Arc` that was put in, whose reference is released only
        // after this pin, which was there when the pointer was: the caller says whose pin it is.
        unsafe { thing.as_ref() }
    }

    /// What it leads to, without a mark: nobody uses it.
    ///
    /// # Safety
    /// As [`TaggedPtr::get`].
    pub(super) unsafe fn peek<'p>(&self, _pin: &'p Pin<'_>) -> Option<&'p T> {
        let thing = self.0.load(Ordering::Acquire).map_addr(|addr| addr & !MARKS);
        // SAFETY: as in `get`.
        unsafe { thing.as_ref() }
    }

    /// As [`TaggedPtr::get`], with a reference that outlives the pin.
    ///
    /// # Safety
    /// As [`TaggedPtr::get`].
    pub(super) unsafe fn get_arc(&self, pin: &Pin<'_>) -> Option<Arc<T>> {
        // SAFETY: as the caller says.
        let thing = unsafe { self.get(pin) }?;
        // SAFETY: it is in an `Arc`, one of whose references is not released before the pin is
        // dropped.
        unsafe {
            Arc::increment_strong_count(thing);
            Some(Arc::from_raw(thing))
        }
    }

    /// Whether there is nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.0.load(Ordering::Acquire).is_null()
    }

    /// Takes a mark away. Answers whether there was one.
    pub(super) fn unmark(&self) -> bool {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if word.addr() & MARKS == 0 {
                return false;
            }
            let fewer = word.map_addr(|addr| addr - 1);
            match self.0.compare_exchange(word, fewer, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
    }

    /// How many marks there are.
    pub(super) fn marks(&self) -> usize {
        self.0.load(Ordering::Relaxed).addr() & MARKS
    }

    /// Puts something in, where nothing is.
    pub(super) fn put(&self, thing: Arc<T>) {
        const { assert!(align_of::<T>() > MARKS, "marks are in the low bits") };
        let old = self.0.swap(Arc::into_raw(thing).cast_mut(), Ordering::AcqRel);
        assert!(old.is_null(), "a pointer leads to one thing");
    }

    /// Takes out what is there.
    pub(super) fn take(&self) -> Option<Unlinked<T>> {
        let word = self.0.swap(std::ptr::null_mut(), Ordering::AcqRel);
        let thing = word.map_addr(|addr| addr & !MARKS);
        // SAFETY: a pointer in a tagged pointer is from an `Arc` that was put in, and is taken out
        // once: here.
        (!thing.is_null()).then(|| Unlinked(ManuallyDrop::new(unsafe { Arc::from_raw(thing) })))
    }
}

impl<T> Drop for TaggedPtr<T> {
    fn drop(&mut self) {
        // A reader could still see an entry that is left there, so it is not released. This would
        // be a fault of the cache.
        debug_assert!(
            self.is_empty() || std::thread::panicking(),
            "a pointer goes after its thing"
        );
    }
}
