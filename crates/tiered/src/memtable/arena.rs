//! The arena of a memtable: a bump allocator whose memory is freed all at once.
#![allow(unsafe_code)] // A leaf: raw memory for keys, versions and nodes.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use spillway_base::budget::{Budget, Use};
use spillway_base::lock::Mutex;
use spillway_base::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use spillway_reclaim::pages::{PAGE_ALIGN, Page, PagePool};

/// The bytes of the first chunk. A memtable of a few rows should take a few kilobytes, so chunks
/// begin small and grow with the arena. In models the first chunk suffices, because loom does not
/// model the lock that adding a chunk takes.
const CHUNK_BYTES_MIN: usize = if cfg!(loom) { 64 << 10 } else { 2 << 10 };
const CHUNK_BYTES_MAX: usize = 256 << 10;
/// Chunks begin at a cache line of the processor.
const CHUNK_ALIGN: usize = PAGE_ALIGN;

/// A pool for the chunks of full size, which are nearly all the memory of memtables. It keeps up to
/// `spare_bytes` free bytes, so that a memtable's memory is reused for the next one.
pub(super) fn chunks(spare_bytes: usize, budget: &Budget) -> PagePool {
    PagePool::new(CHUNK_BYTES_MAX, spare_bytes, budget, Use::Memtables)
}

struct Chunk {
    memory: NonNull<u8>,
    bytes: usize,
    used: AtomicUsize,
    /// The page, if the memory is not from the heap.
    page: Option<Page>,
}

impl Chunk {
    fn new(bytes: usize, pool: &PagePool) -> Chunk {
        let bytes = bytes.next_multiple_of(CHUNK_ALIGN);
        let used = AtomicUsize::new(0);
        if bytes == pool.page_bytes() {
            let page = pool.take();
            return Chunk { memory: page.memory(), bytes, used, page: Some(page) };
        }
        let layout = Chunk::layout(bytes);
        // SAFETY: the layout's size is not zero: callers ask for at least one chunk or one node.
        let memory = unsafe { alloc(layout) };
        let Some(memory) = NonNull::new(memory) else { handle_alloc_error(layout) };
        Chunk { memory, bytes, used, page: None }
    }

    fn layout(bytes: usize) -> Layout {
        Layout::from_size_align(bytes, CHUNK_ALIGN).expect("a chunk is far below the address space")
    }

    fn take(&self, bytes: usize) -> Option<NonNull<u8>> {
        let offset = self.used.fetch_add(bytes, Ordering::Relaxed);
        if offset + bytes > self.bytes {
            return None;
        }
        // SAFETY: `offset + bytes` is inside the chunk's allocation, checked above.
        Some(unsafe { self.memory.add(offset) })
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if self.page.is_none() {
            // SAFETY: `memory` came from `alloc` with this layout, and is freed once, here.
            unsafe { dealloc(self.memory.as_ptr(), Chunk::layout(self.bytes)) }
        }
    }
}

/// The arena. All memory that it handed out lives until it is dropped.
pub(super) struct Arena {
    align: usize,
    pool: PagePool,
    current: AtomicPtr<Chunk>,
    // Boxed, so that a chunk does not move while the list grows: `current` points to it.
    #[allow(clippy::vec_box)]
    chunks: Mutex<Vec<Box<Chunk>>>,
    bytes: AtomicUsize,
}

// SAFETY: a chunk's memory is only reached through disjoint ranges given out by `take`, whose
// counter is atomic; the list of chunks is behind a mutex.
unsafe impl Send for Arena {}
// SAFETY: as for `Send`.
unsafe impl Sync for Arena {}

impl Arena {
    /// An arena whose memory is aligned to `align` bytes, a power of two up to 64, with chunks of a
    /// pool of [`chunks`].
    pub(super) fn new(align: usize, pool: &PagePool) -> Arena {
        assert!(align.is_power_of_two() && align <= CHUNK_ALIGN, "chunks are aligned to this");
        let mut first = Box::new(Chunk::new(CHUNK_BYTES_MIN, pool));
        let current: *mut Chunk = &mut *first;
        Arena {
            align,
            pool: pool.clone(),
            current: AtomicPtr::new(current),
            bytes: AtomicUsize::new(first.bytes),
            chunks: Mutex::new(vec![first]),
        }
    }

    /// Bytes of all chunks.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Memory of this size with the arena's alignment. It is never handed out again.
    pub(super) fn allocate(&self, bytes: usize) -> NonNull<u8> {
        let bytes = bytes.next_multiple_of(self.align);
        if bytes > CHUNK_BYTES_MAX / 4 {
            return self.allocate_alone(bytes);
        }
        loop {
            let current = self.current.load(Ordering::Acquire);
            // SAFETY: a chunk that was ever current stays in `chunks`, boxed, until the arena is
            // dropped.
            if let Some(memory) = unsafe { &*current }.take(bytes) {
                return memory;
            }
            let mut chunks = self.chunks.lock();
            if self.current.load(Ordering::Acquire) != current {
                continue;
            }
            let size = self.bytes().clamp(CHUNK_BYTES_MIN, CHUNK_BYTES_MAX).max(4 * bytes);
            let mut next = Box::new(Chunk::new(size, &self.pool));
            self.bytes.fetch_add(next.bytes, Ordering::Relaxed);
            let pointer: *mut Chunk = &mut *next;
            chunks.push(next);
            self.current.store(pointer, Ordering::Release);
        }
    }

    /// A separate chunk for a large allocation. The current chunk stays in use, because replacing
    /// it would waste its rest.
    fn allocate_alone(&self, bytes: usize) -> NonNull<u8> {
        let own = Box::new(Chunk::new(bytes, &self.pool));
        self.bytes.fetch_add(own.bytes, Ordering::Relaxed);
        let memory = own.take(bytes);
        self.chunks.lock().push(own);
        memory.expect("a new chunk holds what it was made for")
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn something_large_leaves_the_current_chunk_to_others() {
        let arena = Arena::new(16, &chunks(0, &Budget::new(usize::MAX)));
        arena.allocate(16);
        let before = arena.bytes();
        for large in [CHUNK_BYTES_MAX / 4 + 1, 3 << 20] {
            arena.allocate(large);
        }
        let large = (CHUNK_BYTES_MAX / 4 + CHUNK_ALIGN) + (3 << 20);
        arena.allocate(16);
        assert_eq!(arena.bytes(), before + large);
    }
}
