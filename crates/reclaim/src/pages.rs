//! Pools of pages of one size, apart from the allocator's heap.
//!
//! Memtables and cached blocks are nearly all of a database's memory. Any thread allocates and
//! frees them, in any order. A heap with an arena for each thread then holds more than twice the
//! memory in use, because freed pieces of one thread lie between used pieces of another. Pages of
//! one size do not fragment: the next allocation gets a freed page, so the process has as much
//! memory as the budget counts.
//!
//! A pool maps *regions* of 2 MiB and takes pages from the first region that has one, so that the
//! last regions become empty. The pool may keep a number of spare bytes in free pages. It unmaps an
//! empty region if the free pages of the pool take more than these spare bytes. Thanks to the spare
//! bytes, the memory of a flushed memtable serves the next memtable without page faults. If memory
//! is short, [`PagePool::trim`] returns memory of regions that are in use: those pages of the
//! system that lie completely within free pages of the pool.
//!
//! With pages of several sizes ([`PagePools`]), free pages of one size cannot serve another size.
//! If the blocks of a cache become smaller, half of its memory can end up in free pages of the
//! larger size. So when a pool has to take memory from the system for a page, the pools return the
//! same amount of memory in free pages to the system. They return nothing once their free pages
//! take less than a small part of the budget (`SLACK_SHARE`).
//!
//! The regions of a cache's pools are huge pages of the system, if one region for each pool would
//! take at most a small part of the budget (`LARGE_SHARE`). Without huge pages, the read of nearly
//! every cache line of a block misses the processor's TLB. Once a pool returns a part of such a
//! region to the system, it excludes the region from huge pages. Otherwise the system could make
//! the region a huge page again, and so add memory that the budget does not count.
//!
//! Rejected: huge pages for memtables. At the first access to a region, the system clears two
//! megabytes, and may first move other memory to obtain them in one piece. A put would wait for
//! that. For a cache the delay matters less, because the thread has just waited for a device to
//! read the block.
#![allow(unsafe_code)] // A leaf: pages of mapped memory, and the bytes in them.

use std::alloc::{Layout, handle_alloc_error};
use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use memmap2::{Advice, MmapMut, UncheckedAdvice};
use rustix::mm::{Advice as MadviseAdvice, madvise};
use spillway_base::budget::{Budget, Charge, Use};
#[cfg(not(loom))]
use spillway_base::lock::{Mutex, MutexGuard};
#[cfg(loom)]
use spillway_base::sync::{Mutex, MutexGuard};

use crate::loom_tracker::{LoomTracker, LoomTrackers};

/// Pages begin at a cache line of the processor.
pub const PAGE_ALIGN: usize = 64;
/// Bytes of a region.
const REGION_BYTES: usize = 2 << 20;
/// Large pages are used if the memory that they may leave unused is at most one in this many bytes
/// of the budget.
const LARGE_SHARE: usize = 64;
/// An array uses large pages if it fills at least this many.
const LARGE_PAGES_MIN: usize = 4;
/// The page size of the system, the unit in which it takes memory back.
pub const SYSTEM_PAGE_BYTES: usize = 4 << 10;

/// A pool of pages. Cheap to clone.
#[derive(Clone)]
pub struct PagePool(Arc<Inner>);

struct Inner {
    page_bytes: usize,
    /// The most bytes of free pages that are kept if whole regions are free.
    spare_bytes: usize,
    /// Whether regions should be large pages.
    large: bool,
    state: Mutex<State>,
}

struct State {
    regions: Vec<Option<Region>>,
    /// The regions with a free page.
    open: BTreeSet<usize>,
    /// The regions among them with a free page that has memory of the system.
    free_in: BTreeSet<usize>,
    /// The charge for free pages that have memory of the system. Users charge for the pages in use.
    free: Charge,
}

struct Region {
    /// The start of its memory.
    memory: NonNull<u8>,
    /// The mapping, which is unmapped when the region is dropped. No page of the region is in use
    /// then: a page holds its pool, and the pool drops a region before its own end only when the
    /// region is empty.
    mapping: MmapMut,
    /// The offset of the region in the mapping.
    begin: usize,
    /// Whether it should be a large page.
    large: bool,
    /// Free pages that have memory of the system.
    free: Vec<u32>,
    /// Free pages whose inside was returned to the system ([`inside`]).
    hollow: Vec<u32>,
    /// The first page that was never handed out. No page after it was.
    fresh: u32,
    /// The trackers of pages.
    trackers: LoomTrackers,
}

// SAFETY: a region is plain memory. `Page` states which thread may access which page of it.
unsafe impl Send for Region {}

impl Region {
    fn map(large: bool) -> Region {
        // A large page begins at a multiple of its size, and a mapping at a multiple of a small
        // page.
        let more = if large { REGION_BYTES - SYSTEM_PAGE_BYTES } else { 0 };
        let mapped = MmapMut::map_anon(REGION_BYTES + more).ok();
        let found = mapped.and_then(|mut map| {
            let begin = if large { map.as_ptr().align_offset(REGION_BYTES) } else { 0 };
            Some((NonNull::new(map.get_mut(begin..)?.as_mut_ptr())?, begin, map))
        });
        let Some((memory, begin, mapping)) = found else {
            handle_alloc_error(
                Layout::from_size_align(REGION_BYTES, PAGE_ALIGN).expect("it is small"),
            )
        };
        if large {
            // Advise for all of the mapping, so that the system can join it with its neighbours. If
            // this fails, small pages suffice.
            let _ = mapping.advise(Advice::HugePage);
        }
        let (free, hollow) = (Vec::new(), Vec::new());
        let trackers = LoomTrackers::new();
        Region { memory, mapping, begin, large, free, hollow, fresh: 0, trackers }
    }

    fn in_use(&self) -> usize {
        self.fresh as usize - self.free.len() - self.hollow.len()
    }

    /// The bytes of the system's memory that free pages hold.
    fn free_bytes(&self, page_bytes: usize) -> usize {
        let rest = |page: &u32| page_bytes - inside(*page, page_bytes).len();
        self.free.len() * page_bytes + self.hollow.iter().map(rest).sum::<usize>()
    }

    /// The bytes of the system's memory that the next page to be taken holds.
    fn free_bytes_of_next(&self, page_bytes: usize) -> usize {
        match (self.free.last(), self.hollow.last()) {
            (Some(_), _) => page_bytes,
            (None, Some(page)) => page_bytes - inside(*page, page_bytes).len(),
            (None, None) => 0,
        }
    }

    /// Gives the inside of a free page back to the system. Returns how many bytes the system took.
    fn hollow_out(&mut self, page: u32, page_bytes: usize) -> usize {
        let inside = inside(page, page_bytes);
        if std::mem::take(&mut self.large) {
            let _ = self.mapping.advise(Advice::NoHugePage);
        }
        self.trackers.of(page).changed();
        // SAFETY: the page is in no buffer, so no reference to its bytes exists. They are zeros
        // when they are read again.
        let taken = unsafe {
            self.mapping.unchecked_advise_range(
                UncheckedAdvice::DontNeed,
                self.begin + inside.start,
                inside.len(),
            )
        };
        match taken {
            Ok(()) => {
                self.hollow.push(page);
                inside.len()
            }
            Err(_) => {
                self.free.push(page);
                0
            }
        }
    }
}

/// The part of a page that consists of whole pages of the system, as offsets in its region.
fn inside(page: u32, page_bytes: usize) -> std::ops::Range<usize> {
    let start = page as usize * page_bytes;
    let (from, to) = (start.next_multiple_of(SYSTEM_PAGE_BYTES), start + page_bytes);
    from..(to - to % SYSTEM_PAGE_BYTES).max(from)
}

impl PagePool {
    /// A pool of pages of this size. Free pages are charged to the budget as this use. If whole
    /// regions are free, at most `spare_bytes` of them are kept.
    pub fn new(page_bytes: usize, spare_bytes: usize, budget: &Budget, what: Use) -> PagePool {
        assert!(page_bytes.is_multiple_of(PAGE_ALIGN) && (1..=REGION_BYTES).contains(&page_bytes));
        let free = budget.charge(what, 0);
        let (open, free_in) = (BTreeSet::new(), BTreeSet::new());
        let state = State { regions: Vec::new(), open, free_in, free };
        let state = Mutex::new(state);
        PagePool(Arc::new(Inner { page_bytes, spare_bytes, large: false, state }))
    }

    /// A pool whose regions are large pages, if the system has them. It has no pages yet. It keeps
    /// one free region, because clearing two megabytes takes longer than reading and decoding a
    /// block, and the frame of a block may be the only page of its size.
    fn in_large(page_bytes: usize, budget: &Budget, what: Use) -> PagePool {
        let mut pool = PagePool::new(page_bytes, REGION_BYTES, budget, what);
        Arc::get_mut(&mut pool.0).expect("it was just made").large = true;
        pool
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> usize {
        self.0.page_bytes
    }

    /// Takes a page. Its contents are those that its last user left.
    pub fn take(&self) -> Page {
        self.take_telling().0
    }

    /// As [`PagePool::take`]. Also returns whether the system must provide memory for the page.
    fn take_telling(&self) -> (Page, bool) {
        let mut state = self.0.lock();
        let grows = state.free_in.is_empty();
        let first = if grows { &state.open } else { &state.free_in }.first().copied();
        let number = first.unwrap_or_else(|| state.map(self.0.large));
        let region = state.regions[number].as_mut().expect("an open region is mapped");
        let held = region.free_bytes_of_next(self.0.page_bytes);
        let taken = region.free.pop().or_else(|| region.hollow.pop());
        let index = taken.unwrap_or_else(|| {
            region.fresh += 1;
            region.fresh - 1
        });
        let offset = index as usize * self.0.page_bytes;
        // SAFETY: the region has `self.0.pages()` pages, and `index` is below that: such a region
        // would not be open.
        let memory = unsafe { region.memory.add(offset) };
        let tracker = region.trackers.of(index);
        let (full, none_free) = (region.in_use() == self.0.pages(), region.free.is_empty());
        if full {
            state.open.remove(&number);
        }
        if none_free {
            state.free_in.remove(&number);
        }
        let free = state.free.bytes();
        state.free.resize(free - held);
        drop(state);
        (Page { memory, region: number, index, pool: self.0.clone(), tracker }, grows)
    }

    /// The bytes of free pages that have memory of the system.
    fn free_bytes(&self) -> usize {
        self.0.lock().free.bytes()
    }

    /// Returns about `bytes` bytes of free pages to the system, or as many as there are. Returns
    /// how many bytes the system took.
    fn shrink(&self, bytes: usize) -> usize {
        let mut state = self.0.lock();
        let state = &mut *state;
        let mut all = 0;
        while all < bytes
            && let Some(number) = state.free_in.last().copied()
        {
            let region = state.regions[number].as_mut().expect("an open region is mapped");
            let page = region.free.pop().expect("it has a free page");
            let taken = region.hollow_out(page, self.0.page_bytes);
            if region.free.is_empty() {
                state.free_in.remove(&number);
            }
            let free = state.free.bytes();
            state.free.resize(free - taken);
            all += taken;
            if taken == 0 {
                // The system took nothing, so further attempts are useless.
                break;
            }
        }
        all
    }

    /// Returns free pages in regions that are in use to the system, as far as possible.
    pub fn trim(&self) {
        let mut state = self.0.lock();
        let page_bytes = self.0.page_bytes;
        for region in state.regions.iter_mut().flatten() {
            let free = std::mem::take(&mut region.free);
            free.into_iter().for_each(|page| _ = region.hollow_out(page, page_bytes));
        }
        let regions = state.regions.iter().flatten();
        let left = regions.map(|region| region.free_bytes(page_bytes)).sum();
        state.free.resize(left);
        let State { regions, free_in, .. } = &mut *state;
        // A page that the system did not take stays free.
        free_in.retain(|number| {
            regions[*number].as_ref().is_some_and(|region| !region.free.is_empty())
        });
    }

    /// The bytes of mapped regions, and of free pages that were in use before.
    #[cfg(all(test, not(loom)))]
    fn mapped_and_free(&self) -> (usize, usize) {
        let state = self.0.lock();
        (state.regions.iter().flatten().count() * REGION_BYTES, state.free.bytes())
    }
}

impl Inner {
    /// The number of pages of a region.
    fn pages(&self) -> usize {
        REGION_BYTES / self.page_bytes
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        let guard = self.state.lock();
        #[cfg(loom)]
        let guard = guard.expect("no thread panics with the lock");
        guard
    }
}

impl State {
    fn map(&mut self, large: bool) -> usize {
        let vacant = self.regions.iter().position(Option::is_none);
        let number = vacant.unwrap_or(self.regions.len());
        if vacant.is_none() {
            self.regions.push(None);
        }
        self.regions[number] = Some(Region::map(large));
        self.open.insert(number);
        number
    }
}

/// Whether a budget can afford to waste `bytes` bytes.
fn has_plenty(budget: &Budget, bytes: usize) -> bool {
    bytes <= budget.limit() / LARGE_SHARE
}

/// Collects the values of an iterator. They are in large pages if the system has them,
/// `may_be_large` is set, and they fill several.
pub fn in_large<T>(values: impl ExactSizeIterator<Item = T>, may_be_large: bool) -> Box<[T]> {
    let mut memory: Vec<T> = Vec::with_capacity(values.len());
    let bytes = values.len() * size_of::<T>();
    if may_be_large && bytes >= LARGE_PAGES_MIN * REGION_BYTES {
        let begin: *mut u8 = memory.as_mut_ptr().cast();
        let first = begin.align_offset(REGION_BYTES);
        let len = (bytes - first.min(bytes)) / REGION_BYTES * REGION_BYTES;
        let pages = begin.wrapping_add(first).cast();
        // SAFETY: these are whole pages within memory that was just allocated. The call does not
        // change their content.
        let _ = unsafe { madvise(pages, len, MadviseAdvice::LinuxHugepage) };
    }
    memory.extend(values);
    memory.into()
}

/// Pools of pages of several sizes, for buffers of any size.
#[derive(Clone)]
pub struct PagePools {
    pools: Box<[PagePool]>,
    /// The bytes of free pages in all pools that a growing pool does not ask the others to return.
    slack_bytes: usize,
}

/// Free pages may take one in this many bytes of the budget although other pools could use the
/// memory.
const SLACK_SHARE: usize = 64;

impl PagePools {
    /// Pools of pages of these sizes, which ascend. Regions are large pages if `may_be_large` is
    /// set and the budget is much larger than they are. Each pool then keeps one free region;
    /// otherwise it keeps none.
    pub fn new(page_bytes: &[usize], may_be_large: bool, budget: &Budget, what: Use) -> PagePools {
        assert!(page_bytes.is_sorted(), "the first size that fits is the best");
        let large = may_be_large && has_plenty(budget, page_bytes.len() * REGION_BYTES);
        let pools = page_bytes.iter().map(|bytes| match large {
            true => PagePool::in_large(*bytes, budget, what),
            false => PagePool::new(*bytes, 0, budget, what),
        });
        PagePools { pools: pools.collect(), slack_bytes: budget.limit() / SLACK_SHARE }
    }

    /// A page with room for `len` bytes, if there is a size of which they fill more than half.
    fn take(&self, len: usize) -> Option<Page> {
        let pool = self.for_bytes(len)?;
        let (page, grows) = pool.take_telling();
        if grows {
            self.make_up_for(pool.page_bytes());
        }
        Some(page)
    }

    /// The bytes of free pages that have memory of the system.
    pub fn free_bytes(&self) -> usize {
        self.pools.iter().map(PagePool::free_bytes).sum()
    }

    /// Returns up to `bytes` bytes of free pages to the system, as far as they exceed
    /// `slack_bytes`.
    fn make_up_for(&self, bytes: usize) {
        let past = self.free_bytes().saturating_sub(self.slack_bytes);
        self.give_back(bytes.min(past));
    }

    /// Returns about `bytes` bytes of free pages to the system, or as many as there are. Returns
    /// how many bytes the system took.
    pub fn give_back(&self, bytes: usize) -> usize {
        let mut given = 0;
        for pool in &self.pools {
            if given >= bytes {
                break;
            }
            given += pool.shrink(bytes - given);
        }
        given
    }

    /// The pool with the smallest pages that have room for `len` bytes, if the bytes fill more than
    /// half of a page.
    fn for_bytes(&self, len: usize) -> Option<&PagePool> {
        let fits = self.pools.iter().find(|pool| len <= pool.page_bytes());
        fits.filter(|pool| len > pool.page_bytes() / 2)
    }

    /// Returns free pages in regions that are in use to the system, as far as possible.
    pub fn trim(&self) {
        self.pools.iter().for_each(PagePool::trim);
    }
}

/// A page. Only its holder uses it until it is dropped.
pub struct Page {
    memory: NonNull<u8>,
    region: usize,
    index: u32,
    pool: Arc<Inner>,
    tracker: LoomTracker,
}

// SAFETY: the memory of a page belongs to this page alone.
unsafe impl Send for Page {}
// SAFETY: a shared page hands out only its address.
unsafe impl Sync for Page {}

impl Page {
    /// The start of its memory, aligned to [`PAGE_ALIGN`].
    pub fn memory(&self) -> NonNull<u8> {
        self.memory
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let pool = &self.pool;
        self.tracker.changed();
        if cfg!(debug_assertions) {
            // Makes a read of returned memory visible.
            // SAFETY: the page is of this size and, until the lines below, of this holder.
            unsafe { self.memory.write_bytes(0xDD, pool.page_bytes) };
        }
        let mut state = pool.lock();
        let state = &mut *state;
        let region = state.regions[self.region].as_mut().expect("a region with a page is mapped");
        region.free.push(self.index);
        state.free_in.insert(self.region);
        let free = state.free.bytes() + pool.page_bytes;
        if region.in_use() == 0 && free > pool.spare_bytes {
            let used_before = region.free_bytes(pool.page_bytes);
            state.regions[self.region] = None;
            state.open.remove(&self.region);
            state.free_in.remove(&self.region);
            state.free.resize(free - used_before);
        } else {
            state.open.insert(self.region);
            state.free.resize(free);
        }
    }
}

/// Bytes in a page of a pool that holds nothing else, or in the heap if they would waste half of a
/// page.
pub struct Buffer {
    bytes: NonNull<[u8]>,
    /// The page, if the bytes are not in the heap.
    page: Option<Page>,
}

// SAFETY: the bytes are this buffer's alone, in a page or a box that are `Send`.
unsafe impl Send for Buffer {}
// SAFETY: through a shared buffer they are only read.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// A buffer of `len` bytes of arbitrary value.
    pub fn new(len: usize, pools: &PagePools) -> Buffer {
        let Some(page) = pools.take(len) else { return Buffer::from(Box::from(vec![0; len])) };
        Buffer { bytes: NonNull::slice_from_raw_parts(page.memory, len), page: Some(page) }
    }

    /// Extends the buffer to `len` bytes: its own, followed by arbitrary ones. The bytes do not
    /// move if their page has room.
    ///
    /// # Panics
    /// When it has more than `len` bytes.
    pub fn lengthened(mut self, len: usize, pools: Option<&PagePools>) -> Buffer {
        assert!(self.len() <= len, "a buffer is made longer, never shorter");
        if let Some(page) = self.page.as_ref().filter(|page| len <= page.pool.page_bytes) {
            self.bytes = NonNull::slice_from_raw_parts(page.memory, len);
            return self;
        }
        let mut longer = match pools {
            Some(pools) => Buffer::new(len, pools),
            None => Buffer::from(Box::from(vec![0; len])),
        };
        longer[..self.len()].copy_from_slice(&self);
        longer
    }

    /// The bytes of memory that it takes.
    pub fn memory_bytes(&self) -> usize {
        self.page.as_ref().map_or(self.bytes.len(), |page| page.pool.page_bytes)
    }
}

impl From<Box<[u8]>> for Buffer {
    fn from(bytes: Box<[u8]>) -> Buffer {
        Buffer { bytes: NonNull::from(Box::leak(bytes)), page: None }
    }
}

impl From<&[u8]> for Buffer {
    fn from(bytes: &[u8]) -> Buffer {
        Buffer::from(Box::from(bytes))
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.page.is_none() {
            // SAFETY: the bytes were leaked from a box in `from`, and come back once, here.
            drop(unsafe { Box::from_raw(self.bytes.as_ptr()) });
        }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        if let Some(page) = &self.page {
            page.tracker.looked();
        }
        // SAFETY: in a page, `len` is at most its size, and all of it has a value: the system maps
        // zeros, and pages of this pool hold nothing but bytes afterwards. Only this
        // buffer refers to the page, or to the former box.
        unsafe { self.bytes.as_ref() }
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        if let Some(page) = &self.page {
            page.tracker.changed();
        }
        // SAFETY: as above, and the buffer is borrowed for writing.
        unsafe { self.bytes.as_mut() }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
