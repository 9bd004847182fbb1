//! A bucket of the row cache: one cache line with pointers to a few rows, and a lock that counts
//! how often it was taken.
#![allow(unsafe_code)] // The only place that pairs pointers to rows with readers to wait for.

use std::ptr::NonNull;

use spillway_base::prefetch;
use spillway_base::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use spillway_base::sync::{hint, thread};
use spillway_reclaim::epochs::Pin;

use super::row::{CachedRow, RemovedRow, RowRef};

/// Rows of a bucket.
pub(super) const WAYS: usize = if cfg!(loom) { 1 } else { 7 };
/// The most marks of a row: a use adds one.
const MARKS_MAX: usize = 3;
/// The bits of a pointer for its marks. Rows have a larger alignment.
const MARKS: usize = 3;
/// The upper bits of a pointer, from this one on, hold a part of the hash of the row's key. No
/// address of a process has bits there.
const PRINT_SHIFT: u32 = 48;
const ADDRESS: usize = (1 << PRINT_SHIFT) - 1 - MARKS;
/// Set while a thread has the bucket locked. The bits above it count the locks.
const LOCKED: u64 = 1;
/// The cache lines of a row that are prefetched while its reader takes a pin. They cover a small
/// row at any alignment.
const PREFETCHED_LINES: usize = 2;
/// The checks of a locked bucket before the thread yields.
const SPINS: usize = if cfg!(loom) { 0 } else { 64 };

/// The part of a key's hash that the pointer holds. A lookup compares keys only if these parts are
/// equal.
fn print_of(hash: u64) -> usize {
    (hash & 0xFFFF) as usize
}

/// Rows of keys whose hashes begin alike.
#[repr(align(64))]
pub(super) struct Bucket {
    state: AtomicU64,
    slots: [AtomicPtr<u64>; WAYS],
}

impl Default for Bucket {
    fn default() -> Bucket {
        Bucket {
            state: AtomicU64::new(0),
            slots: std::array::from_fn(|_| AtomicPtr::new(std::ptr::null_mut())),
        }
    }
}

/// The row to which a slot's pointer points.
#[inline]
fn row_of(word: *mut u64) -> Option<NonNull<u64>> {
    NonNull::new(word.map_addr(|addr| addr & ADDRESS))
}

impl Bucket {
    /// Prefetches the bucket, which will be locked soon.
    #[inline]
    pub(super) fn prefetch(&self) {
        prefetch::line(std::ptr::from_ref(self));
    }

    /// The version: how often the bucket was locked. `None` while it is locked.
    pub(super) fn version(&self) -> Option<u64> {
        // Acquire: later reads see the writes of earlier lock holders.
        let state = self.state.load(Ordering::Acquire);
        (state & LOCKED == 0).then_some(state)
    }

    /// Whether it was empty a moment ago.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.iter().all(|slot| slot.load(Ordering::Relaxed).is_null())
    }

    /// Whether a row of this hash may be in the bucket. Prefetches that row. Needs no pin.
    #[inline]
    pub(super) fn may_have(&self, hash: u64) -> bool {
        let print = print_of(hash);
        let is_alike = |word: &*mut u64| word.addr() >> PRINT_SHIFT == print && !word.is_null();
        let mut words = self.slots.iter().map(|slot| slot.load(Ordering::Relaxed));
        let found = words.find(is_alike).and_then(row_of);
        if let Some(row) = found {
            prefetch::lines(row.as_ptr(), PREFETCHED_LINES);
        }
        found.is_some()
    }

    /// The row for which `is_it` returns `true`, marked as used.
    ///
    /// # Safety
    /// The pin belongs to the epochs that are waited for before rows that left this bucket are
    /// released.
    #[inline]
    pub(super) unsafe fn find<'p>(
        &self,
        hash: u64,
        _pin: &'p Pin<'_>,
        is_it: impl Fn(RowRef<'p>) -> bool,
    ) -> Option<RowRef<'p>> {
        let print = print_of(hash);
        for slot in &self.slots {
            let word = slot.load(Ordering::Acquire);
            if word.addr() >> PRINT_SHIFT != print {
                continue;
            }
            let Some(row) = row_of(word) else { continue };
            // SAFETY: the pointer is from a row that was put in. The pin was taken before the
            // pointer was loaded, and belongs to the epochs that the caller names, so the row is
            // released only after the pin.
            let row = unsafe { RowRef::from_raw(row) };
            if !is_it(row) {
                continue;
            }
            if word.addr() & MARKS < MARKS_MAX {
                // A failure is harmless: another use has marked the row, or it was taken out.
                let marked = word.map_addr(|addr| addr + 1);
                let _ = slot.compare_exchange(word, marked, Ordering::Relaxed, Ordering::Relaxed);
            }
            return Some(row);
        }
        None
    }

    fn take_lock(&self, state: u64) -> Option<LockedBucket<'_>> {
        let locked =
            self.state.compare_exchange(state, state | LOCKED, Ordering::AcqRel, Ordering::Relaxed);
        // Create the guard only if the bucket is locked, because dropping a guard unlocks.
        locked.is_ok().then(|| LockedBucket { bucket: self, state })
    }

    /// Locks the bucket, unless it is locked, or was locked after it had this version.
    pub(super) fn lock_at(&self, version: u64) -> Option<LockedBucket<'_>> {
        self.take_lock(version)
    }

    /// Locks the bucket, unless it is locked.
    pub(super) fn try_lock(&self) -> Option<LockedBucket<'_>> {
        self.take_lock(self.version()?)
    }

    /// Waits until the bucket is unlocked, and locks it.
    pub(super) fn lock(&self) -> LockedBucket<'_> {
        let mut spins = 0;
        loop {
            if let Some(held) = self.try_lock() {
                return held;
            }
            spins += 1;
            if spins > SPINS { thread::yield_now() } else { hint::spin_loop() }
        }
    }
}

impl Drop for Bucket {
    fn drop(&mut self) {
        // Nearly all buckets of a database that was used little.
        if self.is_empty() {
            return;
        }
        let mut held = self.lock();
        for at in 0..WAYS {
            if let Some(gone) = held.take(at) {
                // SAFETY: the bucket is borrowed exclusively, so no reader uses it.
                drop(unsafe { gone.release() });
            }
        }
    }
}

/// A locked bucket. Dropping it unlocks the bucket, and advances its version.
pub(super) struct LockedBucket<'b> {
    bucket: &'b Bucket,
    state: u64,
}

impl LockedBucket<'_> {
    /// The row of a slot.
    pub(super) fn row(&self, at: usize) -> Option<RowRef<'_>> {
        let row = row_of(self.bucket.slots[at].load(Ordering::Acquire))?;
        // SAFETY: it is from a row that was put in, and a thread that takes it out has the bucket
        // locked.
        Some(unsafe { RowRef::from_raw(row) })
    }

    /// The slot of the row for which `is_it` returns `true`.
    pub(super) fn find(&self, hash: u64, is_it: impl Fn(RowRef<'_>) -> bool) -> Option<usize> {
        let print = print_of(hash);
        (0..WAYS).find(|at| {
            let word = self.bucket.slots[*at].load(Ordering::Relaxed);
            word.addr() >> PRINT_SHIFT == print && self.row(*at).is_some_and(&is_it)
        })
    }

    /// The slot for a new row: a free one, or that of the row with the fewest marks. In the latter
    /// case each row loses a mark.
    pub(super) fn place(&self) -> usize {
        let marks = |at: usize| {
            if self.row(at).is_none() { 0 } else { 1 + self.marks(at) }
        };
        let at = (0..WAYS).min_by_key(|at| marks(*at)).expect("a bucket has slots");
        if marks(at) > 0 {
            (0..WAYS).for_each(|at| _ = self.unmark(at));
        }
        at
    }

    /// The part of the key's hash in a slot's pointer.
    pub(super) fn print(&self, at: usize) -> u64 {
        (self.bucket.slots[at].load(Ordering::Relaxed).addr() >> PRINT_SHIFT) as u64
    }

    /// The marks of a slot's row.
    pub(super) fn marks(&self, at: usize) -> usize {
        self.bucket.slots[at].load(Ordering::Relaxed).addr() & MARKS
    }

    /// Puts a row with `marks` marks into a slot, and takes out the previous row. Returns the bytes
    /// of the new row; zero if its address uses the bits of the marks or the hash part, so that it
    /// cannot be put in.
    pub(super) fn put(
        &mut self,
        at: usize,
        hash: u64,
        row: CachedRow,
        marks: usize,
    ) -> (usize, Option<RemovedRow>) {
        let bytes = row.get().memory_bytes();
        let raw = row.into_raw();
        if raw.as_ptr().addr() & !ADDRESS != 0 {
            // SAFETY: it is the row's pointer, and no other slot or thread owns it.
            drop(unsafe { CachedRow::from_raw(raw) });
            return (0, self.take(at));
        }
        let extra = print_of(hash) << PRINT_SHIFT | marks.min(MARKS_MAX);
        let word = raw.as_ptr().map_addr(|addr| addr | extra);
        (bytes, self.swap(at, word))
    }

    /// Takes a row out of its slot.
    pub(super) fn take(&mut self, at: usize) -> Option<RemovedRow> {
        self.swap(at, std::ptr::null_mut())
    }

    fn swap(&mut self, at: usize, word: *mut u64) -> Option<RemovedRow> {
        let old = row_of(self.bucket.slots[at].swap(word, Ordering::AcqRel))?;
        // SAFETY: a pointer in a slot is from a row that was put in, and is taken out once: here.
        Some(RemovedRow::new(unsafe { CachedRow::from_raw(old) }))
    }

    /// Removes a mark from a row. Returns whether there was one.
    pub(super) fn unmark(&self, at: usize) -> bool {
        let slot = &self.bucket.slots[at];
        let mut word = slot.load(Ordering::Relaxed);
        while word.addr() & MARKS != 0 {
            let fewer = word.map_addr(|addr| addr - 1);
            match slot.compare_exchange(word, fewer, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
        false
    }
}

impl Drop for LockedBucket<'_> {
    fn drop(&mut self) {
        self.bucket.state.store(self.state + LOCKED + 1, Ordering::Release);
    }
}
