//! Allocation of nodes and leaves.
#![allow(unsafe_code)] // A leaf: allocation.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::array;
use std::ptr::NonNull;
// The counts order no other accesses, so loom need not explore them.
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::slab::Slabs;
use spillway_reclaim::epochs;
use spillway_reclaim::loom_tracker::{LoomTracker, WORDS, free_tracked};

/// The alignment of an allocation. Its size is rounded up to a multiple.
const ALIGN: usize = 8;
/// Bytes before each allocation, for its tracker in loom models.
const TRACKER_BYTES: usize = WORDS * size_of::<u64>();
/// Words of a striped count. A thread always changes the same one.
const STRIPES: usize = 8;

/// The allocator of nodes and leaves: slabs that are charged to the budget, or the global
/// allocator.
#[derive(Default)]
pub struct NodeMemory {
    slabs: Option<Slabs>,
    bytes: StripedCount,
}

impl NodeMemory {
    /// An allocator that charges the budget.
    pub(crate) fn charged(slabs: Slabs) -> NodeMemory {
        // Loom models track each allocation, and slabs cannot.
        let slabs = if cfg!(loom) { None } else { Some(slabs) };
        NodeMemory { slabs, bytes: StripedCount::default() }
    }

    /// Bytes that are charged to the budget.
    pub(crate) fn charged_bytes(&self) -> usize {
        self.slabs.as_ref().map_or(0, Slabs::charged_bytes)
    }

    /// As [`Slabs::make_large`].
    pub(crate) fn make_large(&self, most: usize) -> usize {
        self.slabs.as_ref().map_or(0, |slabs| slabs.make_large(most))
    }

    /// As [`Slabs::large_bytes`].
    pub(crate) fn large_bytes(&self) -> usize {
        self.slabs.as_ref().map_or(0, Slabs::large_bytes)
    }

    /// Allocates memory, aligned to 8 bytes. Its contents are undefined.
    #[must_use]
    pub fn alloc(&self, size: usize) -> NonNull<u8> {
        let size = size.next_multiple_of(ALIGN);
        self.bytes.add(size as u64);
        if let Some(slabs) = &self.slabs {
            return slabs.allocate(size);
        }
        let layout = layout(size);
        // SAFETY: the size is not zero.
        let Some(base) = NonNull::new(unsafe { alloc(layout) }) else { handle_alloc_error(layout) };
        let mut words = [0; WORDS];
        LoomTracker::new().into_words(&mut words);
        // SAFETY: in loom models the layout has these words before the memory.
        unsafe { base.cast().write(words) };
        // SAFETY: as above.
        unsafe { base.add(TRACKER_BYTES) }
    }

    /// Frees memory.
    ///
    /// # Safety
    /// [`NodeMemory::alloc`] returned the memory for this size, and no thread accesses it any more.
    pub unsafe fn free(&self, memory: NonNull<u8>, size: usize) {
        let size = size.next_multiple_of(ALIGN);
        self.bytes.subtract(size as u64);
        if let Some(slabs) = &self.slabs {
            // SAFETY: `alloc` allocated it there with this size.
            return unsafe { slabs.free(memory, size) };
        }
        // SAFETY: the tracker is before the memory, which is not freed yet.
        unsafe { tracker(memory).ended() };
        // SAFETY: the layout has these bytes before the memory.
        let base = unsafe { memory.sub(TRACKER_BYTES) };
        free_tracked(FreedMemory { base, layout: layout(size) });
    }

    /// Bytes that are allocated.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.sum()
    }
}

fn layout(size: usize) -> Layout {
    Layout::from_size_align(TRACKER_BYTES + size, ALIGN).expect("a key is shorter than memory")
}

/// The tracker of allocated memory.
///
/// # Safety
/// [`NodeMemory::alloc`] returned the memory, and it is not freed.
unsafe fn tracker(memory: NonNull<u8>) -> std::mem::ManuallyDrop<LoomTracker> {
    // SAFETY: `alloc` stored the tracker in the words before the memory.
    unsafe { LoomTracker::at(memory.as_ptr().sub(TRACKER_BYTES).cast()) }
}

/// Reports to loom a read of memory that does not change after its publication.
///
/// # Safety
/// [`NodeMemory::alloc`] returned the memory, and it is not freed.
#[inline]
pub(super) unsafe fn looked(memory: NonNull<u8>) {
    // SAFETY: the caller's.
    unsafe { tracker(memory).looked() };
}

/// Reports to loom that memory was written.
///
/// # Safety
/// [`NodeMemory::alloc`] returned the memory, and it is not freed.
#[inline]
pub(super) unsafe fn changed(memory: NonNull<u8>) {
    // SAFETY: the caller's.
    unsafe { tracker(memory).changed() };
}

/// Memory that returns to the allocator when it is dropped.
struct FreedMemory {
    base: NonNull<u8>,
    layout: Layout,
}

impl Drop for FreedMemory {
    fn drop(&mut self) {
        // SAFETY: in loom models the words hold the tracker, and no other code drops it.
        let mut tracker = unsafe { LoomTracker::at(self.base.as_ptr().cast()) };
        // SAFETY: it is not used again.
        unsafe { std::mem::ManuallyDrop::drop(&mut tracker) };
        // SAFETY: `alloc` allocated this with this layout, and `free` was called once.
        unsafe { dealloc(self.base.as_ptr(), self.layout) };
    }
}

/// The memory of one index.
pub(super) struct IndexMemory {
    memory: Arc<NodeMemory>,
    bytes: StripedCount,
}

impl IndexMemory {
    pub(super) fn new(memory: Arc<NodeMemory>) -> IndexMemory {
        IndexMemory { memory, bytes: StripedCount::default() }
    }

    pub(super) fn alloc(&self, size: usize) -> NonNull<u8> {
        self.bytes.add(size as u64);
        self.memory.alloc(size)
    }

    /// # Safety
    /// As for [`NodeMemory::free`].
    pub(super) unsafe fn free(&self, memory: NonNull<u8>, size: usize) {
        self.bytes.subtract(size as u64);
        // SAFETY: the caller's.
        unsafe { self.memory.free(memory, size) };
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.sum()
    }
}

#[derive(Default)]
#[repr(align(128))]
struct CountStripe(AtomicU64);

/// A count in several words, so that threads rarely contend for a cache line.
pub(super) struct StripedCount([CountStripe; STRIPES]);

impl Default for StripedCount {
    fn default() -> StripedCount {
        StripedCount(array::from_fn(|_| CountStripe::default()))
    }
}

impl StripedCount {
    pub(super) fn add(&self, change: u64) {
        self.0[epochs::stripe() % STRIPES].0.fetch_add(change, Ordering::Relaxed);
    }

    pub(super) fn subtract(&self, change: u64) {
        self.0[epochs::stripe() % STRIPES].0.fetch_sub(change, Ordering::Relaxed);
    }

    /// The sum. It may miss changes that are in progress, and is never negative.
    pub(super) fn sum(&self) -> u64 {
        let sum = self.0.iter().map(|stripe| stripe.0.load(Ordering::Relaxed));
        let sum = sum.fold(0, u64::wrapping_add);
        if sum > u64::MAX / 2 { 0 } else { sum }
    }
}
