//! Tests the block cache alone: which entries it keeps, which it evicts, and how many bytes it
//! charges.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use spillway_base::budget::{Budget, GiveWay, Use, Worth};
use spillway_base::rng::Rng;

use super::*;

/// Blocks of a table.
const BLOCKS: usize = 16;
const BLOCK: Sizes = Sizes { held: 16 << 10, saved: 16 << 10 };
const TABLE: Sizes = Sizes { held: 8 << 10, saved: 8 << 10 };

/// Stands for the bytes of an entry. Counts live instances, and detects a read after its drop.
struct Bytes {
    number: usize,
    alive: AtomicBool,
    all: Arc<AtomicUsize>,
}

impl Bytes {
    fn new(number: usize, all: &Arc<AtomicUsize>) -> Bytes {
        all.fetch_add(1, Ordering::Relaxed);
        Bytes { number, alive: AtomicBool::new(true), all: all.clone() }
    }

    fn read(&self) -> usize {
        assert!(self.alive.load(Ordering::Relaxed), "it was released under a reader");
        self.number
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        self.alive.store(false, Ordering::Relaxed);
        self.all.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Extent {
    number: usize,
    seat: Seat<Extent>,
    shelf: Arc<Shelf>,
}

impl Holder for Extent {
    type Table = Bytes;
    type Block = Bytes;

    fn seat(&self) -> &Seat<Extent> {
        &self.seat
    }
}

impl Drop for Extent {
    fn drop(&mut self) {
        self.shelf.cache.forget(self);
    }
}

struct Shelf {
    cache: Cache<Extent>,
    /// The number of tables and blocks in memory.
    alive: Arc<AtomicUsize>,
}

impl GiveWay for Shelf {
    fn worth(&self) -> Worth {
        Worth::Cached
    }

    fn give_way(&self, bytes: usize) -> usize {
        self.cache.give_way(bytes);
        0
    }
}

impl Shelf {
    fn with(settings: CacheSettings, budget: &Budget) -> Arc<Shelf> {
        let shelf = Arc::new(Shelf { cache: Cache::new(settings, budget), alive: Arc::default() });
        let weak: Weak<Shelf> = Arc::downgrade(&shelf);
        budget.gives_way(weak);
        shelf
    }

    fn of(bytes: usize) -> Arc<Shelf> {
        Shelf::with(CacheSettings::fixed(bytes), &Budget::new(usize::MAX))
    }

    fn extent(self: &Arc<Shelf>, number: usize) -> Arc<Extent> {
        Arc::new(Extent { number, seat: Seat::of(Some(&self.cache)), shelf: self.clone() })
    }

    fn table(&self, extent: &Arc<Extent>) -> Arc<QueuedTable<Extent>> {
        let pin = self.cache.pin();
        let found = extent.seat.table_to_keep(&pin);
        found.unwrap_or_else(|| {
            let content = Bytes::new(extent.number, &self.alive);
            self.cache.seat(extent, extent.number as u64, content, BLOCKS, TABLE)
        })
    }

    /// Reads a block, and returns whether it was in memory.
    fn read(&self, extent: &Arc<Extent>, index: usize) -> bool {
        let table = self.table(extent);
        let pin = self.cache.pin();
        if let Some(block) = table.block(index, &pin) {
            assert_eq!(block.read(), index);
            return true;
        }
        drop(pin);
        self.cache.insert(&table, index, Bytes::new(index, &self.alive), BLOCK);
        false
    }

    fn alive(&self) -> usize {
        self.cache.release_now();
        self.alive.load(Ordering::Relaxed)
    }

    fn has(&self, extent: &Arc<Extent>, index: usize) -> bool {
        let pin = self.cache.pin();
        extent.seat.table(&pin).is_some_and(|table| table.block(index, &pin).is_some())
    }
}

/// Evicted entries are released in groups. Entries that wait for their group are released when the
/// cache is dropped.
#[test]
fn block_cache_7_nothing_stays_in_memory_when_the_cache_is_dropped() {
    let shelf = Shelf::of(1 << 20);
    let alive = shelf.alive.clone();
    let extent = shelf.extent(1);
    shelf.read(&extent, 2);
    drop(extent);
    assert_eq!(alive.load(Ordering::Relaxed), 2, "it is released with the next ones");
    drop(shelf);
    assert_eq!(alive.load(Ordering::Relaxed), 0);
}

#[test]
fn block_cache_1_what_was_reached_stays_until_the_pin_is_dropped() {
    let shelf = Shelf::of(1 << 20);
    let extent = shelf.extent(7);
    shelf.read(&extent, 3);
    let mut pin = shelf.cache.pin();
    let table = extent.seat.table(&pin).unwrap();
    let block = table.block(3, &pin).unwrap();
    let kept = table.block_to_keep(3, &pin).unwrap();
    shelf.cache.forget(&extent);
    assert!(extent.seat.table(&pin).is_none());
    assert_eq!(shelf.alive(), 2);
    assert_eq!((table.read(), block.read()), (7, 3));
    pin.outside(|| assert_eq!(shelf.alive(), 1, "the block has a reference"));
    drop(pin);
    assert_eq!(kept.read(), 3);
    drop(kept);
    assert_eq!(shelf.alive(), 0);
}

#[test]
#[should_panic(expected = "a pin is of the cache whose it keeps")]
fn block_cache_1_a_pin_of_another_cache_is_none() {
    let (shelf, other) = (Shelf::of(1 << 20), Shelf::of(1 << 20));
    let extent = shelf.extent(1);
    let pin = other.cache.pin();
    extent.seat.table(&pin);
}

/// BLOCK-CACHE-3: the capacity is what the budget leaves, between the floor and the ceiling.
#[test]
fn block_cache_3_one_capacity_follows_what_others_use() {
    let budget = Budget::new(32 << 20);
    let settings = CacheSettings { bytes_min: 4 << 20, bytes_max: 24 << 20, finds_ghosts: false };
    let shelf = Shelf::with(settings, &budget);
    let extents: Vec<_> = (0..200).map(|number| shelf.extent(number)).collect();
    let fill = || {
        for extent in &extents {
            (0..BLOCKS).for_each(|index| _ = shelf.read(extent, index));
        }
        let (held, charged) = shelf.cache.held_and_charged();
        let (blocks, tables) = shelf.cache.bytes();
        assert_eq!(blocks + tables, held);
        assert_eq!(budget.used_for(Use::Caches), charged);
        assert!(charged < held + (1 << 20), "{charged} of {held}");
        held
    };
    let near = |held: usize, mib: usize| (mib << 20) - held < 64 << 10;
    assert!(near(fill(), 24), "the ceiling");
    let mut others = budget.charge(Use::Memtables, 15 << 20);
    // A headroom of a thirty-second is left.
    assert!(near(fill(), 16));
    others.resize(40 << 20);
    assert!(near(fill(), 4), "the floor");
    others.resize(0);
    assert!(near(fill(), 24));
    drop(extents);
    shelf.cache.release_now();
    assert_eq!(budget.used(), 0, "BLOCK-CACHE-5, BLOCK-CACHE-7");
}

#[test]
fn block_cache_4_memory_is_there_for_others_when_they_are_told_so() {
    let budget = Budget::new(32 << 20);
    let settings = CacheSettings { bytes_min: 2 << 20, bytes_max: usize::MAX, finds_ghosts: false };
    let shelf = Shelf::with(settings, &budget);
    let extents: Vec<_> = (0..200).map(|number| shelf.extent(number)).collect();
    for extent in &extents {
        (0..BLOCKS).for_each(|index| _ = shelf.read(extent, index));
    }
    let before = budget.used();
    assert!(before > 30 << 20);
    let sort = budget.try_charge(Use::Connections, 20 << 20).unwrap();
    assert!(budget.used() <= budget.limit());
    drop(sort);
    for extent in &extents {
        (0..BLOCKS).for_each(|index| _ = shelf.read(extent, index));
    }
    // A reader that was interrupted: an eighth of the budget is no longer charged, although the
    // reader may still be inside this memory.
    let pin = shelf.cache.pin();
    let part = budget.try_charge(Use::Connections, 4 << 20).unwrap();
    assert!(budget.used() <= budget.limit());
    assert!(budget.try_charge(Use::Connections, 4 << 20).is_err(), "and no more");
    let (held, charged) = shelf.cache.held_and_charged();
    assert!(held < 25 << 20 && charged > held, "BLOCK-CACHE-7: it is told to go, and charged");
    assert!(held > 20 << 20, "and only as much as was asked for");
    drop((pin, part));
    let all = budget.try_charge(Use::Connections, 30 << 20).unwrap();
    assert_eq!(shelf.cache.held_and_charged().1, budget.used_for(Use::Caches));
    assert!(budget.used_for(Use::Caches) <= 2 << 20, "down to the floor");
    assert!(budget.try_charge(Use::Connections, 2 << 20).is_err(), "and no further");
    drop(all);
}

#[test]
fn block_cache_5_what_is_in_memory_of_an_extent_goes_with_it() {
    let shelf = Shelf::of(8 << 20);
    let extent = shelf.extent(1);
    (0..BLOCKS).for_each(|index| _ = shelf.read(&extent, index));
    let table = shelf.table(&extent);
    assert_eq!(shelf.alive(), BLOCKS + 1);
    drop(extent);
    assert_eq!(shelf.alive(), 1, "somebody has the table");
    // A reader that returns from the device too late.
    let block = shelf.cache.insert(&table, 0, Bytes::new(0, &shelf.alive), BLOCK);
    assert_eq!(shelf.cache.held_and_charged(), (0, 0));
    assert_eq!(block.read(), 0);
    drop((block, table));
    assert_eq!(shelf.alive(), 0);
}

#[test]
fn block_cache_5_a_moved_extent_keeps_what_is_in_memory() {
    let shelf = Shelf::of(8 << 20);
    let (old, new) = (shelf.extent(1), shelf.extent(1));
    shelf.read(&old, 5);
    shelf.cache.hand_over(&old, &new);
    assert!(!shelf.has(&old, 5) && shelf.has(&new, 5));
    drop(old);
    assert!(shelf.has(&new, 5));
    drop(new);
    assert_eq!(shelf.alive(), 0);
}

/// BLOCK-CACHE-6: random reads of blocks of many extents. Few blocks fit the cache, and all tables
/// do.
#[test]
fn block_cache_6_tables_stay_while_blocks_come_and_go() {
    let tables = 100;
    let shelf = Shelf::of(tables * (TABLE.held + (1 << 10)) * 2);
    let extents: Vec<_> = (0..tables).map(|number| shelf.extent(number)).collect();
    let mut rng = Rng::new(1);
    let mut missed = 0;
    for round in 0..20_000 {
        let extent = &extents[rng.below(tables as u64) as usize];
        if round > 2000 && extent.seat.table(&shelf.cache.pin()).is_none() {
            missed += 1;
        }
        shelf.read(extent, rng.below(BLOCKS as u64) as usize);
    }
    assert!(missed < 20, "{missed} tables were read again");
    assert!(shelf.cache.bytes().0 > 0);
}

/// BLOCK-CACHE-6: tables alone would fill the cache.
#[test]
fn block_cache_6_tables_leave_room_for_blocks() {
    let shelf = Shelf::of(1 << 20);
    let extents: Vec<_> = (0..500).map(|number| shelf.extent(number)).collect();
    for extent in &extents {
        shelf.table(extent);
    }
    (0..BLOCKS).for_each(|index| _ = shelf.read(&extents[0], index));
    for extent in &extents {
        shelf.table(extent);
        shelf.read(extent, 0);
    }
    let (blocks, tables) = shelf.cache.bytes();
    assert!(tables <= (1 << 20) / 4 * 3, "{tables}");
    assert!(blocks >= 160 << 10, "{blocks}");
}

/// Blocks that are read often stay during a scan of ten times the capacity.
#[test]
fn a_scan_does_not_drive_out_what_is_read_often() {
    let shelf = Shelf::of(4 << 20);
    let hot: Vec<_> = (0..10).map(|number| shelf.extent(number)).collect();
    let read_hot = || {
        let all = hot.iter().flat_map(|extent| (0..BLOCKS).map(move |index| (extent, index)));
        all.filter(|(extent, index)| !shelf.read(extent, *index)).count()
    };
    (0..5).for_each(|_| _ = read_hot());
    assert_eq!(read_hot(), 0);
    for number in 100..260 {
        let extent = shelf.extent(number);
        (0..BLOCKS).for_each(|index| _ = shelf.read(&extent, index));
    }
    assert_eq!(read_hot(), 0);
}

/// A block that is too large is read, but not cached.
#[test]
fn something_larger_than_all_is_not_kept() {
    let shelf = Shelf::of(10 << 10);
    let extent = shelf.extent(1);
    assert!(!shelf.read(&extent, 1) && !shelf.read(&extent, 1));
    let table = shelf.table(&extent);
    let huge = Sizes { held: 1 << 30, saved: 1 << 30 };
    let block = shelf.cache.insert(&table, 2, Bytes::new(2, &shelf.alive), huge);
    assert_eq!(block.read(), 2);
    assert!(!shelf.has(&extent, 2));
}

/// Readers, misses, evictions, drops of extents and requests for memory at the same time: nothing
/// is read after its drop, and nothing is left at the end.
#[test]
fn races_of_readers_with_evictions_and_ends() {
    let budget = Budget::new(2 << 20);
    let settings =
        CacheSettings { bytes_min: 64 << 10, bytes_max: usize::MAX, finds_ghosts: false };
    let shelf = Shelf::with(settings, &budget);
    let places: Vec<parking_lot::Mutex<Arc<Extent>>> =
        (0..16).map(|number| parking_lot::Mutex::new(shelf.extent(number))).collect();
    let rounds = if cfg!(debug_assertions) { 4000 } else { 40_000 };
    spillway_base::thread::together(4, |thread| {
        let mut rng = Rng::new(thread as u64);
        for round in 0..rounds {
            let place = &places[rng.below(16) as usize];
            let extent = place.lock().clone();
            let index = rng.below(BLOCKS as u64) as usize;
            shelf.read(&extent, index);
            if rng.chance(1, 50) {
                *place.lock() = shelf.extent(extent.number + 16);
            }
            if round % 100 == thread {
                drop(budget.try_charge(Use::Transactions, 1 << 20));
            }
        }
    });
    let (hits, misses) = shelf.cache.hits_and_misses();
    assert!(hits > 0 && misses > 0, "{hits} {misses}");
    drop(places);
    assert_eq!(shelf.alive(), 0);
    assert_eq!((shelf.cache.held_and_charged(), budget.used()), ((0, 0), 0));
}
