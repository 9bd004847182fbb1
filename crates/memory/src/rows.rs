//! A table's indirection array: it maps slots to rows, in partitions (HiEngine, section 4.1).
//!
//! A partition has 2^20 entries of 8 bytes in reserved address space. The operating system
//! allocates each page of a partition at the first write to the page. A directory of two levels
//! points to the partitions.
//!
//! - **ROWS-1 (stable).** A slot that was allocated is not allocated again until it is freed.
//! - **ROWS-2 (locked).** One thread at a time holds an entry's lock. Readers take no lock.
//! - **ROWS-3 (dirty).** If a thread changes an entry under its lock, it marks the entry's page
//!   dirty before it releases the lock. The page stays dirty until a checkpoint takes the mark. The
//!   checkpoint that takes the mark reads the changed entry.
//! - **ROWS-4 (charged).** Every page with a slot that was ever allocated is charged to the budget.

#![allow(unsafe_code)] // A leaf: words in mapped memory.

use std::ptr::NonNull;
use std::sync::OnceLock;

#[cfg(not(loom))]
use memmap2::{MmapMut, MmapOptions};
use rustc_hash::FxHashMap;
use spillway_base::budget::{Budget, Charge, Use};
#[cfg(not(loom))]
use spillway_base::lock::Mutex;
#[cfg(loom)]
use spillway_base::modelled::Mutex;
use spillway_base::sync::atomic::{AtomicU64, Ordering, fence};
use spillway_base::sync::hint;
use spillway_reclaim::epochs::stripe;

use crate::large_pages::{self, LARGE_PAGE_BYTES};
use crate::rid::Rid;
use crate::version::Word;

/// Entries of a page of 4 KiB, which a checkpoint writes as a whole.
pub(crate) const PAGE_ENTRIES: u64 = 512;
pub(crate) const PAGE_BYTES: usize = PAGE_ENTRIES as usize * 8;
#[cfg(not(loom))]
const PARTITION_BITS: u32 = 20;
/// Loom's atomics cannot be zeroed memory, so a model constructs all entries of its one partition.
#[cfg(loom)]
const PARTITION_BITS: u32 = 9;
const PARTITION_ENTRIES: u64 = 1 << PARTITION_BITS;
const PARTITION_PAGES: u64 = PARTITION_ENTRIES / PAGE_ENTRIES;
/// Entries of a large page of the system.
const LARGE_PAGE_ENTRIES: u64 = LARGE_PAGE_BYTES as u64 / 8;
/// Partitions of a directory's second level.
const DIRECTORY: usize = 256;
/// Lists of free slots; several, so that threads rarely contend for one.
const FREE_LISTS: usize = 8;
/// Slots that a list takes at a time. They are adjacent, so that rows inserted by one thread are
/// adjacent.
const TAKEN_AT_ONCE: u64 = 32;
/// A checkpoint has every page in which a row was ever put, and slots are taken in order. So it
/// lacks only pages whose slots threads had taken and not used yet, fewer than this.
const PAGES_UNUSED: u64 = 4096;
/// How often a thread tries a lock before it yields its core.
const SPINS: u32 = 64;

struct Partition {
    /// Never shrinks; unmapped with the partition.
    #[cfg(not(loom))]
    memory: MmapMut,
    /// The offset of the first entry, which begins at a multiple of a large page's size.
    #[cfg(not(loom))]
    begin: usize,
    #[cfg(loom)]
    entries: Box<[RowEntry]>,
    /// One bit for each page.
    dirty: Box<[AtomicU64]>,
}

impl Partition {
    #[cfg(loom)]
    fn map() -> Partition {
        let entries = (0..PARTITION_ENTRIES).map(|_| RowEntry(AtomicU64::new(0))).collect();
        Partition { entries, dirty: Box::new([AtomicU64::new(0)]) }
    }

    #[cfg(loom)]
    fn entry(&self, at: u64) -> &RowEntry {
        &self.entries[at as usize]
    }

    #[cfg(not(loom))]
    fn map() -> Partition {
        let mut options = MmapOptions::new();
        let bytes = PARTITION_ENTRIES as usize * 8 + LARGE_PAGE_BYTES;
        let options = options.len(bytes).no_reserve_swap();
        let memory = options.map_anon().unwrap_or_else(|_| {
            std::alloc::handle_alloc_error(std::alloc::Layout::new::<[u8; PAGE_BYTES]>())
        });
        let begin = memory.as_ptr().align_offset(LARGE_PAGE_BYTES);
        let dirty = (0..PARTITION_PAGES / 64).map(|_| AtomicU64::new(0)).collect();
        Partition { memory, begin, dirty }
    }

    #[cfg(not(loom))]
    fn entry(&self, at: u64) -> &RowEntry {
        debug_assert!(at < PARTITION_ENTRIES);
        // SAFETY: the memory has PARTITION_ENTRIES entries from `begin` on, is aligned to a page,
        // and is only accessed as atomic words. Zeroed memory is an empty entry.
        unsafe { &*self.memory.as_ptr().add(self.begin).cast::<RowEntry>().add(at as usize) }
    }
}

/// An entry of the array.
#[repr(transparent)]
pub(crate) struct RowEntry(AtomicU64);

impl RowEntry {
    pub(crate) fn load(&self) -> Word {
        Word(self.0.load(Ordering::Acquire)).unlocked()
    }

    fn try_lock(&self) -> Option<Word> {
        let word = Word(self.0.load(Ordering::Relaxed));
        if word.is_locked() {
            return None;
        }
        let locked = word.locked().0;
        let exchange =
            self.0.compare_exchange(word.0, locked, Ordering::Acquire, Ordering::Relaxed);
        exchange.is_ok().then_some(word)
    }

    fn lock(&self) -> Word {
        let mut spins = 0;
        loop {
            if let Some(word) = self.try_lock() {
                return word;
            }
            spins += 1;
            if spins < SPINS {
                hint::spin_loop();
            } else {
                spillway_base::sync::thread::yield_now();
            }
        }
    }
}

/// An entry that this thread has locked. Dropping it releases the lock.
pub(crate) struct LockedRow<'r> {
    rows: &'r Rows,
    entry: &'r RowEntry,
    slot: u64,
    word: Word,
}

impl LockedRow<'_> {
    pub(crate) fn word(&self) -> Word {
        self.word
    }

    pub(crate) fn slot(&self) -> u64 {
        self.slot
    }

    /// Changes the entry. Readers see the new word at once.
    pub(crate) fn set(&mut self, word: Word) {
        self.set_as_it_was(word);
        self.mark();
    }

    /// As [`LockedRow::set`], but does not mark the page: a checkpoint would write the same entry.
    pub(crate) fn set_as_it_was(&mut self, word: Word) {
        self.word = word;
        self.entry.0.store(word.locked().0, Ordering::Release);
    }

    /// Marks the entry's page dirty, so that the next checkpoint writes it.
    pub(crate) fn mark(&self) {
        self.rows.mark(self.slot / PAGE_ENTRIES);
    }
}

impl Drop for LockedRow<'_> {
    fn drop(&mut self) {
        self.entry.0.store(self.word.0, Ordering::Release);
    }
}

#[derive(Default)]
struct FreeSlots {
    /// Freed slots, with their next generations.
    freed: Vec<(u64, u32)>,
    /// Slots that were never used.
    fresh: std::ops::Range<u64>,
}

/// The slots of a checkpoint that have no row.
pub(crate) struct EmptySlots {
    /// One bit for each slot before `end`, set if the slot is empty.
    bits: Vec<u64>,
    end: u64,
}

impl EmptySlots {
    /// Whether the checkpoint has the slot, with or without a row.
    pub(crate) fn cover(&self, slot: u64) -> bool {
        slot < self.end
    }

    /// The number of slots with rows.
    pub(crate) fn rows(&self) -> u64 {
        self.end - self.bits.iter().map(|bits| u64::from(bits.count_ones())).sum::<u64>()
    }

    /// The empty slots in descending order, with their generations; 0 for a slot that is not in
    /// `generations`.
    pub(crate) fn with_generations(&self, generations: &[(u64, u32)]) -> Vec<(u64, u32)> {
        let generations: FxHashMap<u64, u32> = generations.iter().copied().collect();
        let is_empty = |slot: &u64| self.bits[*slot as usize / 64] & 1 << (slot % 64) != 0;
        let with_generation = |slot| (slot, generations.get(&slot).copied().unwrap_or(0));
        (0..self.end).rev().filter(is_empty).map(with_generation).collect()
    }
}

/// The entries of a page.
pub(crate) type PageEntries = [Word; PAGE_ENTRIES as usize];

/// A load of pages from the files of a checkpoint, the newest file first. Several threads load the
/// pages of a file.
pub(crate) struct PageLoad<'r> {
    rows: &'r Rows,
    /// Pages have numbers below this one.
    pages_end: u64,
    /// Whether one of the files before had a page.
    is_loaded: Vec<bool>,
    /// One bit for each slot, set if the slot is empty.
    empty: Vec<u64>,
}

impl PageLoad<'_> {
    /// The words that have a bit for each slot of a page.
    pub(crate) const PAGE_WORDS: usize = PAGE_ENTRIES as usize / 64;

    /// Whether the array can have a page of this number.
    pub(crate) fn may_have(&self, page: u64) -> bool {
        page < self.pages_end
    }

    /// Whether a file before this one had the page.
    pub(crate) fn is_loaded(&self, page: u64) -> bool {
        self.is_loaded.get(page as usize) == Some(&true)
    }

    /// Sets the entries of a page, which stays clean. Returns the empty slots as bits.
    pub(crate) fn load(&self, page: u64, words: &PageEntries) -> [u64; PageLoad::PAGE_WORDS] {
        let partition = self.rows.make_partition(page / PARTITION_PAGES);
        let begin = (page * PAGE_ENTRIES) & (PARTITION_ENTRIES - 1);
        let mut empty = [0; PageLoad::PAGE_WORDS];
        for (at, word) in words.iter().enumerate() {
            partition.entry(begin + at as u64).0.store(word.0, Ordering::Release);
            empty[at / 64] |= u64::from(*word == Word::EMPTY) << (at % 64);
        }
        empty
    }

    /// Notes a page that was loaded from a file. `false` if it was noted before.
    pub(crate) fn note_loaded(&mut self, page: u64, empty: [u64; PageLoad::PAGE_WORDS]) -> bool {
        let page = page as usize;
        if page >= self.is_loaded.len() {
            self.is_loaded.resize(page + 1, false);
            self.empty.resize((page + 1) * PageLoad::PAGE_WORDS, u64::MAX);
        }
        self.empty[page * PageLoad::PAGE_WORDS..][..PageLoad::PAGE_WORDS].copy_from_slice(&empty);
        !std::mem::replace(&mut self.is_loaded[page], true)
    }

    /// Ends the load, and charges the pages. Returns the slots whose entries are empty. No writer
    /// takes them before [`Rows::free_all`].
    pub(crate) fn end(self) -> EmptySlots {
        let pages = self.is_loaded.len() as u64;
        for partition in 0..pages.div_ceil(PARTITION_PAGES) {
            self.rows.make_partition(partition);
        }
        let end = pages * PAGE_ENTRIES;
        self.rows.end.store(end, Ordering::Release);
        let charge = self.rows.budget.charge(Use::Rows, pages as usize * PAGE_BYTES);
        self.rows.charge.lock().join(charge);
        EmptySlots { bits: self.empty, end }
    }
}

/// The array of a table. The module's page says what it guarantees.
pub(crate) struct Rows {
    directory: Box<[OnceLock<Box<[OnceLock<Partition>]>>]>,
    free: Box<[Mutex<FreeSlots>]>,
    /// The first slot that was never taken.
    end: AtomicU64,
    budget: Budget,
    /// The charge for pages with slots before `end`.
    charge: Mutex<Charge>,
    /// The number of large pages of the system, all at the begin of the array.
    large_pages: AtomicU64,
}

impl Rows {
    pub(crate) fn new(budget: &Budget) -> Rows {
        Rows {
            directory: (0..DIRECTORY).map(|_| OnceLock::new()).collect(),
            free: (0..FREE_LISTS).map(|_| Mutex::default()).collect(),
            end: AtomicU64::new(0),
            budget: budget.clone(),
            charge: Mutex::new(budget.charge(Use::Rows, 0)),
            large_pages: AtomicU64::new(0),
        }
    }

    /// The first slot that was never taken.
    pub(crate) fn end(&self) -> u64 {
        self.end.load(Ordering::Acquire)
    }

    /// Bytes that are charged to the budget.
    pub(crate) fn bytes(&self) -> usize {
        self.charge.lock().bytes()
    }

    /// Makes memory whose slots were all taken large pages of the system, at most `most`. One
    /// thread at a time calls this. Returns the number of new large pages.
    pub(crate) fn make_large(&self, most: usize) -> usize {
        let mut made = 0;
        if cfg!(loom) {
            return made;
        }
        while made < most {
            let slot = self.large_pages.load(Ordering::Relaxed) * LARGE_PAGE_ENTRIES;
            if slot + LARGE_PAGE_ENTRIES > self.end() {
                break;
            }
            let Some(entry) = self.entry(slot) else { break };
            // SAFETY: a partition is mapped as a whole, and has whole large pages.
            if !unsafe { large_pages::make_large(NonNull::from(entry).cast()) } {
                break;
            }
            self.large_pages.fetch_add(1, Ordering::Relaxed);
            made += 1;
        }
        made
    }

    /// Bytes in large pages of the system.
    pub(crate) fn large_bytes(&self) -> usize {
        self.large_pages.load(Ordering::Relaxed) as usize * LARGE_PAGE_BYTES
    }

    /// The entry of a slot. `None` if the slot's partition does not exist.
    #[inline]
    pub(crate) fn entry(&self, slot: u64) -> Option<&RowEntry> {
        let partition = self.partition(slot >> PARTITION_BITS)?;
        Some(partition.entry(slot & (PARTITION_ENTRIES - 1)))
    }

    #[inline]
    fn partition(&self, number: u64) -> Option<&Partition> {
        let number = number as usize;
        self.directory.get(number / DIRECTORY)?.get()?[number % DIRECTORY].get()
    }

    fn make_partition(&self, number: u64) -> &Partition {
        let number = number as usize;
        let second = self.directory[number / DIRECTORY]
            .get_or_init(|| (0..DIRECTORY).map(|_| OnceLock::new()).collect());
        second[number % DIRECTORY].get_or_init(Partition::map)
    }

    /// Locks the entry of a slot, which must have been taken.
    pub(crate) fn lock(&self, slot: u64) -> LockedRow<'_> {
        let entry = self.entry(slot).expect("a slot that was taken");
        let word = entry.lock();
        LockedRow { rows: self, entry, slot, word }
    }

    /// As [`Rows::lock`], but returns `None` if another thread holds the lock.
    pub(crate) fn try_lock(&self, slot: u64) -> Option<LockedRow<'_>> {
        let entry = self.entry(slot)?;
        let word = entry.try_lock()?;
        Some(LockedRow { rows: self, entry, slot, word })
    }

    /// Takes a free slot (ROWS-1).
    pub(crate) fn take(&self) -> Rid {
        let own = stripe() % FREE_LISTS;
        let free = &self.free[own];
        loop {
            let mut list = free.lock();
            if let Some((slot, generation)) = list.freed.pop() {
                return Rid::new(slot, generation);
            }
            if let Some(slot) = list.fresh.next() {
                return Rid::new(slot, 0);
            }
            drop(list);
            let freed = self.freed_elsewhere(own);
            let fresh = if freed.is_empty() { self.grow() } else { 0..0 };
            let mut list = free.lock();
            list.freed.extend(freed);
            // Another thread may have grown the array for the same list.
            let more = std::mem::replace(&mut list.fresh, fresh);
            list.freed.extend(more.map(|slot| (slot, 0)));
        }
    }

    /// Takes some freed slots of other lists. The thread that collects deleted rows inserts none,
    /// so its list would only grow.
    fn freed_elsewhere(&self, own: usize) -> Vec<(u64, u32)> {
        let others = (1..FREE_LISTS).map(|step| &self.free[(own + step) % FREE_LISTS]);
        for list in others {
            let freed = &mut list.lock().freed;
            if !freed.is_empty() {
                return freed.split_off(freed.len().saturating_sub(TAKEN_AT_ONCE as usize));
            }
        }
        Vec::new()
    }

    /// Adds slots at the array's end. It holds no lock while it charges the budget, because that
    /// may evict.
    fn grow(&self) -> std::ops::Range<u64> {
        let begin = self.end.fetch_add(TAKEN_AT_ONCE, Ordering::AcqRel);
        let end = begin + TAKEN_AT_ONCE;
        assert!(end <= Rid::SLOTS_MAX.min((DIRECTORY * DIRECTORY) as u64 * PARTITION_ENTRIES));
        self.make_partition(begin >> PARTITION_BITS);
        if begin.is_multiple_of(PAGE_ENTRIES) {
            let charge = self.budget.charge(Use::Rows, PAGE_BYTES);
            self.charge.lock().join(charge);
        }
        begin..end
    }

    /// Frees a slot. Its entry is empty, and no reader has its RID any more.
    pub(crate) fn free(&self, rid: Rid) {
        let next = rid.generation().wrapping_add(1);
        self.free[stripe() % FREE_LISTS].lock().freed.push((rid.slot(), next));
    }

    /// The page's bit is usually set already, so this loads the word, which other threads share,
    /// instead of changing it. A fence orders the change of the entry before this load. On the
    /// checkpoint's side, another orders the clearing of the bit before the load of the entry. So
    /// either this finds the bit cleared, or the checkpoint finds the change (ROWS-3).
    fn mark(&self, page: u64) {
        let partition = self.partition(page / PARTITION_PAGES).expect("a page that was taken");
        let page = page % PARTITION_PAGES;
        let (word, bit) = (&partition.dirty[page as usize / 64], 1 << (page % 64));
        fence(Ordering::SeqCst);
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::AcqRel);
        }
    }

    /// Marks every page that has slots.
    pub(crate) fn mark_all(&self) {
        (0..self.end().div_ceil(PAGE_ENTRIES)).for_each(|page| self.mark(page));
    }

    /// The number of dirty pages.
    pub(crate) fn dirty_pages(&self) -> u64 {
        let partitions = self.end().div_ceil(PAGE_ENTRIES * PARTITION_PAGES);
        let partitions = (0..partitions).filter_map(|number| self.partition(number));
        let words = partitions.flat_map(|partition| &partition.dirty);
        words.map(|word| u64::from(word.load(Ordering::Relaxed).count_ones())).sum()
    }

    /// Clears the mark of a page, and returns whether the page was dirty.
    pub(crate) fn take_mark(&self, page: u64) -> bool {
        let Some(partition) = self.partition(page / PARTITION_PAGES) else { return false };
        let page = page % PARTITION_PAGES;
        let (word, bit) = (&partition.dirty[page as usize / 64], 1 << (page % 64));
        let taken = word.load(Ordering::Acquire) & bit != 0
            && word.fetch_and(!bit, Ordering::AcqRel) & bit != 0;
        fence(Ordering::SeqCst);
        taken
    }

    /// Marks a page again that a checkpoint could not write after it took the mark.
    pub(crate) fn mark_again(&self, page: u64) {
        self.mark(page);
    }

    /// Begins to load pages of a checkpoint, whose files have this many pages, before anything else
    /// uses the array.
    pub(crate) fn begin_load(&self, pages: u64) -> PageLoad<'_> {
        let most = Rid::SLOTS_MAX / PAGE_ENTRIES;
        let pages_end = pages.saturating_add(PAGES_UNUSED).min(most);
        PageLoad { rows: self, pages_end, is_loaded: Vec::new(), empty: Vec::new() }
    }

    /// Frees slots, given with their next generations. Writers take the last one first.
    pub(crate) fn free_all(&self, slots: Vec<(u64, u32)>) {
        self.free[0].lock().freed.extend(slots);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::version::Place;

    fn place(offset: u32) -> Word {
        Word::place(Place { handle: 1, offset, class: 9 })
    }

    #[test]
    fn rows_1_slots_come_back_in_another_generation() {
        let rows = Rows::new(&Budget::new(1 << 20));
        let first: Vec<Rid> = (0..100).map(|_| rows.take()).collect();
        let mut slots: Vec<u64> = first.iter().map(|rid| rid.slot()).collect();
        slots.sort_unstable();
        slots.dedup();
        assert_eq!(slots.len(), 100);
        rows.free(first[7]);
        let again = rows.take();
        assert_eq!((again.slot(), again.generation()), (first[7].slot(), 1));
        assert!(again != first[7]);
    }

    #[test]
    fn rows_2_3_a_change_marks_its_page_and_readers_see_it_under_the_lock() {
        let rows = Rows::new(&Budget::new(1 << 20));
        let rid = rows.take();
        let mut locked = rows.lock(rid.slot());
        assert!(rows.try_lock(rid.slot()).is_none());
        locked.set(place(5));
        assert_eq!(rows.entry(rid.slot()).unwrap().load(), place(5));
        drop(locked);
        assert!(rows.take_mark(0) && !rows.take_mark(0));
        assert_eq!(rows.lock(rid.slot()).word(), place(5));
        assert!(!rows.take_mark(0), "nothing was changed");
    }

    #[test]
    fn rows_4_pages_are_charged_and_a_loaded_array_knows_its_free_slots() {
        let budget = Budget::new(1 << 20);
        let rows = Rows::new(&budget);
        (0..PAGE_ENTRIES + 1).for_each(|_| _ = rows.take());
        assert_eq!((rows.bytes(), budget.used()), (2 * PAGE_BYTES, 2 * PAGE_BYTES));
        let loaded = Rows::new(&budget);
        let mut words = [place(1); PAGE_ENTRIES as usize];
        words[3] = Word::EMPTY;
        let mut load = loaded.begin_load(1);
        let bits = load.load(2, &words);
        assert!(!load.is_loaded(2) && load.note_loaded(2, bits) && load.is_loaded(2));
        assert!(!load.is_loaded(1) && !load.note_loaded(2, bits));
        let empty = load.end();
        assert_eq!(loaded.bytes(), 3 * PAGE_BYTES);
        assert_eq!(empty.rows(), PAGE_ENTRIES - 1);
        assert!(loaded.take().slot() >= 3 * PAGE_ENTRIES, "free slots have no generation yet");
        (1..TAKEN_AT_ONCE).for_each(|_| _ = loaded.take());
        let slots = empty.with_generations(&[(2 * PAGE_ENTRIES + 3, 8)]);
        assert_eq!(slots[0], (2 * PAGE_ENTRIES + 3, 8));
        loaded.free_all(slots);
        let mut free: Vec<u64> = (0..2 * PAGE_ENTRIES + 1).map(|_| loaded.take().slot()).collect();
        free.sort_unstable();
        assert_eq!((free[0], free[2 * PAGE_ENTRIES as usize]), (0, 2 * PAGE_ENTRIES + 3));
        assert!(loaded.take().slot() >= 3 * PAGE_ENTRIES);
        assert!(!loaded.take_mark(2));
    }

    #[test]
    fn entries_stay_when_their_memory_becomes_large_pages() {
        let rows = Rows::new(&Budget::new(8 << 20));
        let slots: Vec<u64> =
            (0..PARTITION_ENTRIES + LARGE_PAGE_ENTRIES).map(|_| rows.take().slot()).collect();
        let changed = || slots.iter().step_by(97);
        changed().for_each(|slot| rows.lock(*slot).set(place(*slot as u32)));
        let made = rows.make_large(3) + rows.make_large(9);
        // None on systems without large pages. The array's memory is this and not more.
        let most = (PARTITION_ENTRIES / LARGE_PAGE_ENTRIES) as usize + 1;
        assert!(made <= most && rows.large_bytes() == made * LARGE_PAGE_BYTES);
        assert_eq!(rows.make_large(9), 0);
        for slot in changed() {
            assert_eq!(rows.entry(*slot).unwrap().load(), place(*slot as u32));
        }
    }
}
