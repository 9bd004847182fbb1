//! The allocator of versions and index nodes: objects of many sizes in pages that are charged to
//! the budget.
//!
//! A page of [`PAGE_BYTES`] holds objects of one size. Each page belongs to one of several
//! *shards*, so that threads rarely contend. An object is freed into the shard of its page,
//! whichever thread frees it. When the last object of a page is freed, the slabs return the page's
//! memory to the operating system, and its charge to the budget. Objects larger than [`OBJECT_MAX`]
//! have runs of pages of their own ([`crate::runs`]).
//!
//! - **SLAB-1.** From `allocate` until `free`, an object's memory belongs to its owner alone.
//! - **SLAB-2 (charged).** The memory of every page with an object, and of every larger object, is
//!   charged to the budget. The allocator holds no lock while the budget asks holders to free
//!   memory.
//! - **SLAB-3 (pages come back).** Once all objects of a page are freed, the page's memory is
//!   returned to the system. Dropping the slabs returns all memory.
//! - **SLAB-4 (large pages).** Every page in a large page of the system has objects. When the slabs
//!   return one of these pages, they first make the system split the large page. Otherwise the
//!   system would not free the page's memory.

#![allow(unsafe_code)] // A leaf: objects in pages of mapped memory.

use std::alloc::{Layout, handle_alloc_error};
use std::ptr::NonNull;

use memmap2::{MmapMut, MmapOptions};
use spillway_base::budget::{Budget, Charge, Use};
use spillway_base::lock::Mutex;
use spillway_base::sync::atomic::{AtomicUsize, Ordering};

use crate::large_pages::{self, LARGE_PAGE_BYTES};
use crate::runs::Runs;

/// Bytes of a page.
pub(crate) const PAGE_BYTES: usize = 64 << 10;
/// Bytes of a page's header.
const HEADER_BYTES: usize = size_of::<PageHeader>().next_multiple_of(64);
/// The smallest object. It bounds the number of objects in a page.
const OBJECT_MIN: usize = 16;
const OBJECTS_MAX: usize = PAGE_BYTES / OBJECT_MIN;
/// The largest object of a page. A page has room for three of these.
const OBJECT_MAX: usize = 16 << 10;
/// Pages of a piece, which can be a large page of the system.
const PIECE_PAGES: usize = LARGE_PAGE_BYTES / PAGE_BYTES;
const SHARDS: usize = if cfg!(loom) { 1 } else { 16 };
/// Reserved address space, as a multiple of the budget. Allocations may exceed the budget for a
/// while.
const RESERVE_TIMES: usize = 4;
const RESERVE_MIN: usize = 256 << 20;
const RESERVE_MAX: usize = 1 << 42;

/// Sizes of objects: every multiple of 8 up to 512, then eight for each power of two.
fn size_class(bytes: usize) -> usize {
    let bytes = bytes.max(OBJECT_MIN);
    if bytes <= 512 {
        return bytes.div_ceil(8) - 1;
    }
    let high = (bytes - 1).ilog2() as usize;
    let step = 1 << (high - 3);
    64 + (high - 9) * 8 + (bytes - (1 << high)).div_ceil(step) - 1
}

fn class_bytes(class: usize) -> usize {
    if class < 64 {
        return (class + 1) * 8;
    }
    let (power, step) = ((class - 64) / 8 + 9, (class - 64) % 8 + 1);
    (1 << power) + step * (1 << (power - 3))
}

const CLASSES: usize = 64 + 5 * 8;

/// The header of a page, under the lock of its shard.
#[repr(C)]
struct PageHeader {
    shard: u32,
    class: u32,
    /// The number of allocated objects.
    used: u32,
    /// The first object that was never allocated.
    fresh: u32,
    /// Offset of the first freed object, which holds the offset of the next; 0 ends the list.
    free: u32,
    /// The page's position in its shard's list of pages with room, or [`NOT_LISTED`].
    listed: u32,
    /// A caller of [`Slabs::pin_page`] reads the page's objects. The page takes no new objects and
    /// is not returned.
    pinned: bool,
    /// One bit for each object, set if it is allocated.
    allocated: [u64; OBJECTS_MAX.div_ceil(64)],
}

const NOT_LISTED: u32 = u32::MAX;

impl PageHeader {
    fn capacity(&self) -> u32 {
        ((PAGE_BYTES - HEADER_BYTES) / class_bytes(self.class as usize)) as u32
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Page(NonNull<PageHeader>);

// SAFETY: the lock of the page's shard protects the header and the free objects.
unsafe impl Send for Page {}

#[derive(Default)]
struct SlabShard {
    /// Pages with room, by class.
    open: Vec<Vec<Page>>,
}

/// All pages, in one range of address space.
struct Pages {
    /// Unmapped when the slabs are dropped.
    _mapping: MmapMut,
    /// The first page. It begins at a multiple of a large page's size.
    base: NonNull<u8>,
    most: usize,
    state: Mutex<PagesState>,
}

struct PagesState {
    free: Vec<u32>,
    /// For each page that was ever in use, its shard's number plus one; 0 if it is free.
    owners: Vec<u32>,
    pieces: Vec<Piece>,
    /// The piece that [`Slabs::make_large`] works on.
    growing: Option<usize>,
    /// Pages of this piece that became free meanwhile.
    freed: Vec<usize>,
    charge: Charge,
}

/// The state of the pages that a large page consists of.
#[derive(Clone, Default)]
struct Piece {
    /// The number of pages with objects.
    in_use: usize,
    /// All its pages were in use at the last call of [`Slabs::make_large`], and have been since.
    is_full: bool,
    is_large: bool,
}

// SAFETY: the address is of plain memory, and `Slabs` controls the access to each page.
unsafe impl Send for Pages {}
// SAFETY: as above; a lock protects the rest.
unsafe impl Sync for Pages {}

impl PagesState {
    /// Notes that a page belongs to a shard, given by its number plus one, or that it is free.
    fn set_owner(&mut self, page: usize, owner: u32) {
        self.owners[page] = owner;
        let piece = page / PIECE_PAGES;
        if self.pieces.len() <= piece {
            self.pieces.resize(piece + 1, Piece::default());
        }
        let piece = &mut self.pieces[piece];
        if owner == 0 {
            piece.in_use -= 1;
            piece.is_full = false;
        } else {
            piece.in_use += 1;
        }
    }
}

/// Allocates objects. The module's page states the guarantees.
pub(crate) struct Slabs {
    pages: Pages,
    shards: Box<[Mutex<SlabShard>]>,
    budget: Budget,
    /// Objects that are too large for a page.
    pub(crate) large: Runs,
    /// Bytes of objects, as requested.
    bytes: AtomicUsize,
}

impl Slabs {
    pub(crate) fn new(budget: &Budget) -> Slabs {
        let reserve = budget.limit().saturating_mul(RESERVE_TIMES);
        let reserve = reserve.clamp(RESERVE_MIN, RESERVE_MAX).next_multiple_of(PAGE_BYTES);
        let mapped =
            MmapOptions::new().len(reserve + LARGE_PAGE_BYTES).no_reserve_swap().map_anon();
        let layout = Layout::new::<[u8; PAGE_BYTES]>();
        let mut mapping = mapped.unwrap_or_else(|_| handle_alloc_error(layout));
        let at = mapping.as_ptr().align_offset(LARGE_PAGE_BYTES);
        let base = NonNull::new(mapping[at..].as_mut_ptr()).expect("mapped memory has an address");
        let state = PagesState {
            free: Vec::new(),
            owners: Vec::new(),
            pieces: Vec::new(),
            growing: None,
            freed: Vec::new(),
            charge: budget.charge(Use::Rows, 0),
        };
        let pages =
            Pages { _mapping: mapping, base, most: reserve / PAGE_BYTES, state: Mutex::new(state) };
        let shard = || Mutex::new(SlabShard { open: (0..CLASSES).map(|_| Vec::new()).collect() });
        Slabs {
            pages,
            shards: (0..SHARDS).map(|_| shard()).collect(),
            budget: budget.clone(),
            large: Runs::new(budget),
            bytes: AtomicUsize::new(0),
        }
    }

    /// Bytes of objects that are allocated.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn used_bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes that are charged to the budget.
    pub(crate) fn charged_bytes(&self) -> usize {
        self.pages.state.lock().charge.bytes() + self.large.charged_bytes()
    }

    /// Allocates an object.
    pub(crate) fn allocate(&self, bytes: usize) -> NonNull<u8> {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if bytes > OBJECT_MAX {
            return self.large.allocate(bytes);
        }
        let class = size_class(bytes);
        let number = shard_number();
        let shard = &self.shards[number];
        if let Some(object) = allocate_in(&mut shard.lock(), class) {
            return object;
        }
        let page = self.take_page();
        let header = PageHeader {
            shard: number as u32,
            class: class as u32,
            used: 0,
            fresh: 0,
            free: 0,
            listed: NOT_LISTED,
            pinned: false,
            allocated: [0; OBJECTS_MAX.div_ceil(64)],
        };
        // SAFETY: no other thread has the page.
        unsafe { page.0.write(header) };
        self.pages.state.lock().set_owner(self.number_of(page), number as u32 + 1);
        let mut shard = shard.lock();
        list(&mut shard, page);
        allocate_in(&mut shard, class).expect("a page that is empty")
    }

    /// Frees an object.
    ///
    /// # Safety
    /// The object was allocated here with this size and is not used any more.
    pub(crate) unsafe fn free(&self, object: NonNull<u8>, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
        if bytes > OBJECT_MAX {
            // SAFETY: as for this call.
            return unsafe { self.large.free(object, bytes) };
        }
        let page = page_of(object);
        // SAFETY: the page is in use, as it has an object; its shard does not change meanwhile.
        let number = unsafe { (&raw const (*page.0.as_ptr()).shard).read() } as usize;
        let emptied = free_in(&mut self.shards[number].lock(), page, object);
        if emptied {
            self.return_page(page);
        }
    }

    fn take_page(&self) -> Page {
        // Before the lock: eviction, which the charge may cause, returns pages.
        let charge = self.budget.charge(Use::Rows, PAGE_BYTES);
        let mut state = self.pages.state.lock();
        state.charge.join(charge);
        let number = state.free.pop().map_or_else(
            || {
                let fresh = state.owners.len();
                assert!(fresh < self.pages.most, "rows take {RESERVE_TIMES} times the budget");
                state.owners.push(0);
                fresh
            },
            |free| free as usize,
        );
        drop(state);
        self.page(number)
    }

    fn number_of(&self, page: Page) -> usize {
        (page.0.as_ptr() as usize - self.pages.base.as_ptr() as usize) / PAGE_BYTES
    }

    fn return_page(&self, page: Page) {
        let number = self.number_of(page);
        let mut state = self.pages.state.lock();
        state.set_owner(number, 0);
        let piece = number / PIECE_PAGES;
        if state.growing == Some(piece) {
            state.freed.push(number);
            return;
        }
        let was_large = std::mem::take(&mut state.pieces[piece].is_large);
        drop(state);
        self.return_memory(number, was_large);
    }

    /// Returns the memory of a page without objects to the system, and its charge to the budget.
    fn return_memory(&self, number: usize, is_large: bool) {
        // SAFETY: no thread uses the page, and its bytes are written before they are read again.
        unsafe { large_pages::give_back(self.page(number).0.cast(), PAGE_BYTES, is_large) };
        let mut state = self.pages.state.lock();
        state.free.push(number as u32);
        let left = state.charge.bytes() - PAGE_BYTES;
        state.charge.resize(left);
    }

    /// Makes memory large pages of the system, at most `most` (SLAB-4). Chooses pieces whose pages
    /// have all been in use since the last call, because a piece that eviction empties soon is not
    /// worth the copy. One thread at a time calls this. Returns the number of new large pages.
    pub(crate) fn make_large(&self, most: usize) -> usize {
        let mut chosen = Vec::new();
        for (number, piece) in self.pages.state.lock().pieces.iter_mut().enumerate() {
            let is_full = piece.in_use == PIECE_PAGES;
            if std::mem::replace(&mut piece.is_full, is_full) && is_full && !piece.is_large {
                chosen.push(number);
            }
        }
        let mut made = 0;
        for number in chosen.into_iter().take(most) {
            let mut state = self.pages.state.lock();
            if !state.pieces[number].is_full {
                continue;
            }
            state.growing = Some(number);
            drop(state);
            let begin = self.page(number * PIECE_PAGES).0.cast();
            // SAFETY: the piece is mapped. Pages begin at a multiple of a large page's size.
            let is_large = unsafe { large_pages::make_large(begin) };
            let mut state = self.pages.state.lock();
            state.growing = None;
            let freed = std::mem::take(&mut state.freed);
            state.pieces[number].is_large = is_large && freed.is_empty();
            drop(state);
            freed.into_iter().for_each(|page| self.return_memory(page, is_large));
            if !is_large {
                break;
            }
            made += 1;
        }
        made
    }

    /// Bytes in large pages of the system.
    pub(crate) fn large_bytes(&self) -> usize {
        let state = self.pages.state.lock();
        state.pieces.iter().filter(|piece| piece.is_large).count() * LARGE_PAGE_BYTES
    }

    /// The number of pages that were ever in use. Their numbers are below it.
    pub(crate) fn pages(&self) -> usize {
        self.pages.state.lock().owners.len()
    }

    /// Lists the objects of a page into `objects`. Until [`Slabs::unpin_page`], the page takes no
    /// new objects and is not returned. A listed object may not be written yet, and its owner may
    /// free it meanwhile: its memory stays an object of this size. `false` if the page is not in
    /// use, or is pinned already.
    pub(crate) fn pin_page(&self, number: usize, objects: &mut Vec<NonNull<u8>>) -> bool {
        objects.clear();
        let owner = |state: &PagesState| state.owners.get(number).copied().unwrap_or(0);
        let shard = match owner(&self.pages.state.lock()) {
            0 => return false,
            owner => owner as usize - 1,
        };
        let mut locked = self.shards[shard].lock();
        if owner(&self.pages.state.lock()) as usize != shard + 1 {
            return false;
        }
        let page = self.page(number);
        // SAFETY: its shard is locked, and the shard does not change while the page has objects.
        let header = unsafe { &mut *page.0.as_ptr() };
        if header.used == 0 || header.pinned {
            return false;
        }
        header.pinned = true;
        let bytes = class_bytes(header.class as usize);
        for object in 0..header.fresh as usize {
            if header.allocated[object / 64] >> (object % 64) & 1 != 0 {
                // SAFETY: objects lie within the page.
                objects.push(unsafe { page.0.cast::<u8>().add(HEADER_BYTES + object * bytes) });
            }
        }
        if header.listed != NOT_LISTED {
            unlist(&mut locked, page);
        }
        true
    }

    /// Ends [`Slabs::pin_page`].
    pub(crate) fn unpin_page(&self, number: usize) {
        let page = self.page(number);
        // SAFETY: a pinned page is not returned.
        let shard = unsafe { (&raw const (*page.0.as_ptr()).shard).read() } as usize;
        let mut shard = self.shards[shard].lock();
        // SAFETY: its shard is locked.
        let header = unsafe { &mut *page.0.as_ptr() };
        header.pinned = false;
        if header.used == 0 {
            drop(shard);
            self.return_page(page);
        } else if header.used < header.capacity() {
            list(&mut shard, page);
        }
    }

    fn page(&self, number: usize) -> Page {
        assert!(number < self.pages.most, "a page that was in use");
        // SAFETY: there is address space for `most` pages.
        Page(unsafe { self.pages.base.add(number * PAGE_BYTES) }.cast())
    }
}

fn page_of(object: NonNull<u8>) -> Page {
    let down = |address: usize| address & !(PAGE_BYTES - 1);
    let page = object.as_ptr().map_addr(down).cast::<PageHeader>();
    Page(NonNull::new(page).expect("pages are not at address zero"))
}

fn list(shard: &mut SlabShard, page: Page) {
    // SAFETY: its shard is locked by the caller.
    let header = unsafe { &mut *page.0.as_ptr() };
    let open = &mut shard.open[header.class as usize];
    header.listed = open.len() as u32;
    open.push(page);
}

fn unlist(shard: &mut SlabShard, page: Page) {
    // SAFETY: its shard is locked by the caller.
    let header = unsafe { &mut *page.0.as_ptr() };
    let open = &mut shard.open[header.class as usize];
    let at = std::mem::replace(&mut header.listed, NOT_LISTED) as usize;
    open.swap_remove(at);
    if let Some(moved) = open.get(at) {
        // SAFETY: as above: a listed page is of this shard.
        unsafe { (*moved.0.as_ptr()).listed = at as u32 };
    }
}

fn allocate_in(shard: &mut SlabShard, class: usize) -> Option<NonNull<u8>> {
    let page = *shard.open[class].last()?;
    // SAFETY: its shard is locked by the caller.
    let header = unsafe { &mut *page.0.as_ptr() };
    let bytes = class_bytes(class);
    let offset = if header.free != 0 {
        let offset = header.free as usize;
        // SAFETY: the offset is of a freed object, which holds the offset of the next.
        header.free = unsafe { page.0.cast::<u8>().add(offset).cast::<u32>().read() };
        offset
    } else {
        let offset = HEADER_BYTES + header.fresh as usize * bytes;
        header.fresh += 1;
        offset
    };
    header.used += 1;
    let object = (offset - HEADER_BYTES) / bytes;
    header.allocated[object / 64] |= 1 << (object % 64);
    if header.used == header.capacity() {
        unlist(shard, page);
    }
    // SAFETY: offsets are within the page.
    Some(unsafe { page.0.cast::<u8>().add(offset) })
}

/// Frees an object. Returns whether the page has become empty; it then leaves the shard.
fn free_in(shard: &mut SlabShard, page: Page, object: NonNull<u8>) -> bool {
    let offset = object.as_ptr() as usize & (PAGE_BYTES - 1);
    // SAFETY: its shard is locked by the caller.
    let header = unsafe { &mut *page.0.as_ptr() };
    let number = (offset - HEADER_BYTES) / class_bytes(header.class as usize);
    let (word, bit) = (&mut header.allocated[number / 64], 1 << (number % 64));
    assert!(*word & bit != 0, "an object is freed once");
    *word &= !bit;
    // SAFETY: the object is free, and has room for a link.
    unsafe { object.cast::<u32>().write(header.free) };
    header.free = offset as u32;
    header.used -= 1;
    let (used, listed) = (header.used, header.listed);
    if header.pinned {
        return false;
    }
    if used == 0 {
        if listed != NOT_LISTED {
            unlist(shard, page);
        }
        return true;
    }
    if listed == NOT_LISTED {
        list(shard, page);
    }
    false
}

fn shard_number() -> usize {
    spillway_reclaim::epochs::stripe() % SHARDS
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use spillway_base::rng::Rng;

    /// Alignment of objects, in bytes.
    const ALIGN: usize = 8;

    #[test]
    fn classes_cover_their_sizes() {
        for bytes in 1..=OBJECT_MAX {
            let class = size_class(bytes);
            let covered = class_bytes(class);
            assert!(class < CLASSES && covered >= bytes, "{bytes} in {covered}");
            assert!(covered <= (bytes + bytes / 8 + 8).max(OBJECT_MIN), "{bytes} in {covered}");
            assert!(covered.is_multiple_of(ALIGN));
        }
    }

    /// SLAB-1 to SLAB-3.
    #[test]
    fn objects_are_their_owners_alone_and_pages_come_back() {
        let budget = Budget::new(64 << 20);
        let slabs = Slabs::new(&budget);
        let mut rng = Rng::new(7);
        let mut objects: Vec<(NonNull<u8>, usize, u8)> = Vec::new();
        let check = |&(object, bytes, mark): &(NonNull<u8>, usize, u8)| {
            // SAFETY: the object is allocated, and was filled.
            let memory = unsafe { std::slice::from_raw_parts(object.as_ptr(), bytes) };
            assert!(memory.iter().all(|byte| *byte == mark), "an object of {bytes} bytes");
        };
        for round in 0..20_000_u32 {
            if rng.below(3) > 0 {
                let most = if rng.below(50) == 0 { 20_000 } else { 600 };
                let bytes = 1 + rng.below(most) as usize;
                let object = slabs.allocate(bytes);
                // SAFETY: the object was allocated with this size.
                unsafe { object.write_bytes(round as u8, bytes) };
                objects.push((object, bytes, round as u8));
            } else if !objects.is_empty() {
                let at = rng.below(objects.len() as u64) as usize;
                let object = objects.swap_remove(at);
                check(&object);
                // SAFETY: it was allocated with this size, and is used no more.
                unsafe { slabs.free(object.0, object.1) };
            }
            if round % 997 == 0 && slabs.pages() > 0 {
                let number = rng.below(slabs.pages() as u64) as usize;
                let mut listed = Vec::new();
                if slabs.pin_page(number, &mut listed) {
                    let known = |object: &NonNull<u8>| objects.iter().any(|(at, ..)| at == object);
                    assert!(!listed.is_empty() && listed.iter().all(known));
                    assert!(!slabs.pin_page(number, &mut Vec::new()), "it is pinned");
                    slabs.unpin_page(number);
                }
            }
        }
        let used: usize = objects.iter().map(|(_, bytes, _)| bytes).sum();
        assert_eq!(slabs.used_bytes(), used);
        assert_eq!(budget.used_for(Use::Rows), slabs.charged_bytes());
        assert!(slabs.charged_bytes() >= used);
        for object in objects.drain(..) {
            check(&object);
            // SAFETY: as above.
            unsafe { slabs.free(object.0, object.1) };
        }
        assert_eq!((slabs.used_bytes(), slabs.charged_bytes(), budget.used()), (0, 0, 0));
    }

    /// SLAB-1 and SLAB-4.
    #[test]
    fn slab_4_pieces_in_use_become_large_pages_and_free_pages_of_them_come_back() {
        let budget = Budget::new(256 << 20);
        let slabs = Slabs::new(&budget);
        let begin = slabs.pages.base;
        let mut objects: Vec<(NonNull<u8>, u8)> = Vec::new();
        while slabs.pages() <= 3 * PIECE_PAGES {
            let object = slabs.allocate(4096);
            // SAFETY: the object was allocated with this size.
            unsafe { object.write_bytes(objects.len() as u8, 4096) };
            objects.push((object, objects.len() as u8));
        }
        let check = |objects: &[(NonNull<u8>, u8)]| {
            for (object, mark) in objects {
                // SAFETY: the object is allocated, and was filled.
                let memory = unsafe { std::slice::from_raw_parts(object.as_ptr(), 4096) };
                assert!(memory.iter().all(|byte| byte == mark));
            }
        };
        assert_eq!(slabs.make_large(8), 0, "pieces must be in use for a while");
        let made = slabs.make_large(8);
        check(&objects);
        if made == 0 {
            // The system has no large pages, or none that are free.
            return;
        }
        let large = made * LARGE_PAGE_BYTES;
        assert_eq!(slabs.large_bytes(), large);
        assert_eq!(large_pages::resident_bytes(begin, large), large);
        let charged = slabs.charged_bytes();
        // One page of each large page.
        let is_given = |object: NonNull<u8>| {
            let page = slabs.number_of(page_of(object));
            page.is_multiple_of(PIECE_PAGES) && page < made * PIECE_PAGES
        };
        let (given, kept): (Vec<_>, Vec<_>) =
            objects.into_iter().partition(|(object, _)| is_given(*object));
        for (object, _) in given {
            // SAFETY: it was allocated with this size, and is used no more.
            unsafe { slabs.free(object, 4096) };
        }
        check(&kept);
        let returned = charged - slabs.charged_bytes();
        assert_eq!(returned, made * PAGE_BYTES);
        assert_eq!(slabs.large_bytes(), 0);
        assert_eq!(large_pages::resident_bytes(begin, large), large - returned);
        assert_eq!((slabs.make_large(8), slabs.make_large(8)), (0, 0), "a page of each is free");
        for (object, _) in kept {
            // SAFETY: as above.
            unsafe { slabs.free(object, 4096) };
        }
        assert_eq!(budget.used(), 0);
    }

    /// SLAB-1 and SLAB-3, beside a thread that makes large pages.
    #[test]
    fn objects_keep_their_bytes_while_pieces_become_large() {
        let budget = Budget::new(256 << 20);
        let slabs = Slabs::new(&budget);
        let ended = spillway_base::sync::atomic::AtomicBool::new(false);
        let change = |seed: u64| {
            let (mut rng, mut objects) = (Rng::new(seed), Vec::new());
            for round in 0..40_000_u64 {
                // Most objects are freed together now and then, so that pieces fill and empty.
                let grows = round % 8000 < 6000;
                if grows == (rng.below(8) > 0) {
                    let object = slabs.allocate(1000);
                    // SAFETY: the object was allocated with this size.
                    unsafe { object.write_bytes(round as u8, 1000) };
                    objects.push((object, round as u8));
                } else if !objects.is_empty() {
                    let at = rng.below(objects.len() as u64) as usize;
                    let (object, mark) = objects.swap_remove(at);
                    // SAFETY: the object is allocated, and was filled.
                    let memory = unsafe { std::slice::from_raw_parts(object.as_ptr(), 1000) };
                    assert!(memory.iter().all(|byte| *byte == mark));
                    // SAFETY: it was allocated with this size, and is used no more.
                    unsafe { slabs.free(object, 1000) };
                }
            }
            for (object, _) in objects {
                // SAFETY: as above.
                unsafe { slabs.free(object, 1000) };
            }
        };
        std::thread::scope(|scope| {
            let grower = scope.spawn(|| {
                while !ended.load(Ordering::SeqCst) {
                    slabs.make_large(usize::MAX);
                }
            });
            let changers = [scope.spawn(|| change(1)), scope.spawn(|| change(2))];
            for changer in changers {
                changer.join().unwrap();
            }
            ended.store(true, Ordering::SeqCst);
            grower.join().unwrap();
        });
        assert_eq!((slabs.used_bytes(), slabs.charged_bytes(), budget.used()), (0, 0, 0));
        assert_eq!(slabs.large_bytes(), 0);
    }

    #[test]
    fn a_page_that_is_emptied_while_it_is_pinned_comes_back_afterwards() {
        let budget = Budget::new(64 << 20);
        let slabs = Slabs::new(&budget);
        let object = slabs.allocate(100);
        let mut listed = Vec::new();
        assert!(slabs.pin_page(0, &mut listed));
        assert_eq!(listed, [object]);
        // SAFETY: it was allocated with this size, and is used no more.
        unsafe { slabs.free(object, 100) };
        assert_eq!(slabs.charged_bytes(), PAGE_BYTES);
        let other = slabs.allocate(100);
        assert_eq!(slabs.charged_bytes(), 2 * PAGE_BYTES, "a pinned page takes no new objects");
        slabs.unpin_page(0);
        assert_eq!(slabs.charged_bytes(), PAGE_BYTES);
        // SAFETY: as above.
        unsafe { slabs.free(other, 100) };
    }
}
