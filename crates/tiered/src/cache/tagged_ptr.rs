//! A tagged pointer is null, or points to a cached entry. Its low bits hold marks of the entry's
//! use.
#![allow(unsafe_code)] // A leaf: pointers of `Arc`s that readers follow without a reference.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;

use spillway_base::sync::Arc;
use spillway_base::sync::atomic::{AtomicPtr, Ordering};
use spillway_reclaim::epochs::Pin;

/// The most marks. A use adds one, up to this number. The hand of the eviction removes one each
/// time it passes.
pub(super) const MARKS_MAX: usize = 3;
/// The bits of a pointer for its marks. Its target has a larger alignment.
const MARKS: usize = 3;

/// A pointer that owns a reference to its target.
///
/// A thread that links or unlinks an entry holds the lock of the cache. Readers hold a pin of the
/// cache.
pub(super) struct TaggedPtr<T>(AtomicPtr<T>, PhantomData<Arc<T>>);

/// A target that was taken out of a tagged pointer. Readers may still use it. If it is not
/// released, its memory is leaked.
pub(super) struct Unlinked<T>(ManuallyDrop<Arc<T>>);

impl<T> Unlinked<T> {
    pub(super) fn get(&self) -> &T {
        &self.0
    }

    /// Returns the reference that the tagged pointer had.
    ///
    /// # Safety
    /// Every pin that began before it was taken out of its tagged pointer has ended.
    pub(super) unsafe fn release(self) -> Arc<T> {
        ManuallyDrop::into_inner(self.0)
    }

    /// Moves it to another tagged pointer.
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
    /// The target, marked as used.
    ///
    /// # Safety
    /// The pin belongs to the epochs that are waited for before targets of this tagged pointer are
    /// released.
    #[inline]
    pub(super) unsafe fn get<'p>(&self, _pin: &'p Pin<'_>) -> Option<&'p T> {
        let word = self.0.load(Ordering::Acquire);
        let marks = word.addr() & MARKS;
        if marks < MARKS_MAX && !word.is_null() {
            // A failure is harmless: another use has marked it, or it was taken out.
            let marked = word.map_addr(|addr| addr + 1);
            let _ = self.0.compare_exchange(word, marked, Ordering::Relaxed, Ordering::Relaxed);
        }
        let thing = word.map_addr(|addr| addr & !MARKS);
        // SAFETY: the pointer is null, or from an `Arc` that was put in. The pin was taken before
        // the pointer was loaded, and belongs to the epochs that the caller names, so the reference
        // is released only after the pin.
        unsafe { thing.as_ref() }
    }

    /// The target, without marking it as used.
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

    /// Whether it has no target.
    pub(super) fn is_empty(&self) -> bool {
        self.0.load(Ordering::Acquire).is_null()
    }

    /// Removes a mark. Returns whether there was one.
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

    /// The number of marks.
    pub(super) fn marks(&self) -> usize {
        self.0.load(Ordering::Relaxed).addr() & MARKS
    }

    /// Stores a target; there must be none.
    pub(super) fn put(&self, thing: Arc<T>) {
        const { assert!(align_of::<T>() > MARKS, "marks are in the low bits") };
        let old = self.0.swap(Arc::into_raw(thing).cast_mut(), Ordering::AcqRel);
        assert!(old.is_null(), "a pointer leads to one thing");
    }

    /// Takes out the target.
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
        // If a target is left here, a reader could still see it, so it is leaked. This would be a
        // fault of the cache.
        debug_assert!(
            self.is_empty() || std::thread::panicking(),
            "a pointer goes after its thing"
        );
    }
}
