//! Loom models of the block cache: readers run beside evictions, moves and drops of the entries
//! that they read, in every order of steps and with every value that a load may return.

#![allow(unsafe_code)] // The tests read loom cells.

mod pages;

use std::sync::Arc;

use spillway_base::budget::Budget;
use spillway_base::sync::{Arc as LoomArc, UnsafeCell, model, thread};
use spillway_reclaim::epochs::{Epochs, Limbo};

use super::tagged_ptr::{TaggedPtr, Unlinked};
use super::*;

/// Stands for the bytes of an entry. Its drop is a write to them, which must not race with any
/// access.
struct Bytes(UnsafeCell<u32>);

impl Bytes {
    fn new(number: u32) -> Bytes {
        Bytes(UnsafeCell::new(number))
    }

    fn read(&self) -> u32 {
        // SAFETY: nothing is written before the drop.
        self.0.with(|number| unsafe { *number })
    }
}

// SAFETY: loom checks each access.
unsafe impl Sync for Bytes {}

impl Drop for Bytes {
    fn drop(&mut self) {
        // SAFETY: this is the drop. The models must show that no thread reads meanwhile.
        self.0.with_mut(|number| unsafe { *number = u32::MAX });
    }
}

struct Extent(Seat<Extent>);

impl Holder for Extent {
    type Table = Bytes;
    type Block = Bytes;

    fn seat(&self) -> &Seat<Extent> {
        &self.0
    }
}

const TABLE: Sizes = Sizes { held: 10, saved: 10 };
const BLOCK: Sizes = Sizes { held: 10 << 10, saved: 10 };

struct Shelf {
    cache: Cache<Extent>,
    extent: Arc<Extent>,
}

impl Drop for Shelf {
    fn drop(&mut self) {
        self.cache.forget(&self.extent);
    }
}

/// A cache with room for a table and one of its two blocks.
fn shelf() -> LoomArc<Shelf> {
    shelf_of(2)
}

/// A cache with room for a table and one of these blocks. The first block is in it.
fn shelf_of(blocks: usize) -> LoomArc<Shelf> {
    let budget = Budget::new(usize::MAX);
    let cache = Cache::new(CacheSettings::fixed(12 << 10), &budget);
    let extent = Arc::new(Extent(Seat::of(Some(&cache))));
    let table = cache.seat(&extent, 1, Bytes::new(1), blocks, TABLE);
    cache.insert(&table, 0, Bytes::new(10), BLOCK);
    LoomArc::new(Shelf { cache, extent })
}

/// A point read of a block. Returns what it read, if the block was cached.
fn read(shelf: &Shelf, stripe: usize, index: usize) -> Option<u32> {
    let pin = shelf.cache.pin_by(stripe);
    let table = shelf.extent.0.table(&pin)?;
    assert_eq!(table.read(), 1);
    table.block(index, &pin).map(|block| block.read())
}

/// Inserts a block, as a reader that missed it.
fn bring(shelf: &Shelf, stripe: usize, index: u32) {
    let table = shelf.extent.0.table_to_keep(&shelf.cache.pin_by(stripe)).unwrap();
    let block = Bytes::new(10 + index);
    shelf.cache.insert(&table, index as usize, block, BLOCK);
    shelf.cache.release_now();
}

/// BLOCK-CACHE-1: the cache evicts the block that a reader reads, and inserts another.
#[test]
fn loom_block_cache_1_a_reader_in_a_block_that_is_evicted() {
    model(3, || {
        let shelf = shelf();
        let of_reader = shelf.clone();
        let reader = thread::spawn(move || {
            if let Some(found) = read(&of_reader, 1, 0) {
                assert_eq!(found, 10);
            }
        });
        let table = shelf.extent.0.table_to_keep(&shelf.cache.pin_by(0)).unwrap();
        shelf.cache.insert(&table, 1, Bytes::new(11), BLOCK);
        assert_eq!(read(&shelf, 0, 0), None, "it is taken out");
        shelf.cache.release_now();
        reader.join().unwrap();
        shelf.cache.release_now();
        assert_eq!(shelf.cache.in_limbo(), 0, "and released once nobody is inside");
    });
}

/// BLOCK-CACHE-1, BLOCK-CACHE-3: two threads evict, each for the block that it inserts, while a
/// third reads an evicted block.
#[test]
fn loom_block_cache_1_evictions_that_contend() {
    model(3, || {
        let shelf = shelf_of(3);
        let of_other = shelf.clone();
        let other = thread::spawn(move || bring(&of_other, 1, 1));
        let of_reader = shelf.clone();
        let reader = thread::spawn(move || {
            if let Some(found) = read(&of_reader, 1, 0) {
                assert_eq!(found, 10);
            }
        });
        bring(&shelf, 0, 2);
        other.join().unwrap();
        reader.join().unwrap();
        shelf.cache.release_now();
        let found: Vec<_> = (0..3).filter_map(|index| read(&shelf, 0, index)).collect();
        assert!(found == [11] || found == [12], "{found:?}: one fits");
        assert_eq!(shelf.cache.in_limbo(), 0);
    });
}

/// BLOCK-CACHE-1: two readers that missed the same block insert it, and a third reads it. Only one
/// of the two copies is cached and charged.
#[test]
fn loom_block_cache_1_a_block_that_two_bring() {
    model(3, || {
        let shelf = shelf();
        let of_other = shelf.clone();
        let other = thread::spawn(move || bring(&of_other, 1, 1));
        let of_reader = shelf.clone();
        let reader = thread::spawn(move || {
            let found = [read(&of_reader, 1, 1), read(&of_reader, 1, 1)];
            assert!(found[0].is_none() || found[1].is_some(), "it went again");
            assert!(found.iter().all(|found| found.is_none_or(|found| found == 11)));
        });
        bring(&shelf, 0, 1);
        other.join().unwrap();
        reader.join().unwrap();
        shelf.cache.release_now();
        assert_eq!((read(&shelf, 0, 0), read(&shelf, 0, 1)), (None, Some(11)));
        let one = TABLE.held + BLOCK.held;
        assert!((one..one + BLOCK.held).contains(&shelf.cache.held_and_charged().0));
        assert_eq!(shelf.cache.in_limbo(), 0);
    });
}

/// BLOCK-CACHE-1: a reader with a reference can still read after the extent and the cache are gone.
#[test]
fn loom_block_cache_1_a_reference_outlives_the_extent() {
    model(3, || {
        let shelf = shelf();
        let of_reader = shelf.clone();
        let reader = thread::spawn(move || {
            let pin = of_reader.cache.pin_by(1);
            let table = of_reader.extent.0.table_to_keep(&pin)?;
            drop(pin);
            let pin = of_reader.cache.pin_by(1);
            let block = table.block(0, &pin).map(|block| block.read());
            assert_eq!(table.read(), 1);
            block
        });
        shelf.cache.forget(&shelf.extent);
        shelf.cache.release_now();
        let found = reader.join().unwrap();
        assert!(found.is_none_or(|found| found == 10));
    });
}

/// BLOCK-CACHE-5: a block arrives from the device while the last handle of its extent is dropped.
#[test]
fn loom_block_cache_5_a_block_that_comes_too_late() {
    model(3, || {
        let shelf = shelf();
        let table = shelf.extent.0.table_to_keep(&shelf.cache.pin_by(0)).unwrap();
        let of_reader = shelf.clone();
        let reader = thread::spawn(move || {
            let block = of_reader.cache.insert(&table, 1, Bytes::new(11), BLOCK);
            assert_eq!((table.read(), block.read()), (1, 11), "who has a reference reads on");
        });
        shelf.cache.forget(&shelf.extent);
        reader.join().unwrap();
        shelf.cache.release_now();
        assert_eq!((shelf.cache.held_and_charged(), shelf.cache.in_limbo()), ((0, 0), 0));
    });
}

/// BLOCK-CACHE-1: an extent moves to another location, while a thread reads it by its old handle
/// and the cache evicts its table and blocks. All of them are released exactly once.
#[test]
fn loom_block_cache_1_a_table_that_is_handed_over_beside_a_reader_and_an_eviction() {
    model(3, || {
        let shelf = shelf();
        let moved = Arc::new(Extent(Seat::of(Some(&shelf.cache))));
        let of_reader = shelf.clone();
        let reader = thread::spawn(move || {
            assert!(read(&of_reader, 1, 0).is_none_or(|found| found == 10));
        });
        let of_other = shelf.clone();
        let other = thread::spawn(move || of_other.cache.give_way(usize::MAX));
        shelf.cache.hand_over(&shelf.extent, &moved);
        {
            let pin = shelf.cache.pin_by(0);
            assert!(shelf.extent.0.table(&pin).is_none(), "it is not there any more");
            let table = moved.0.table(&pin);
            let block = table.and_then(|table| table.block(0, &pin).map(|block| block.read()));
            assert!(block.is_none_or(|block| block == 10));
        }
        other.join().unwrap();
        reader.join().unwrap();
        shelf.cache.forget(&moved);
        shelf.cache.release_now();
        assert_eq!((shelf.cache.held_and_charged(), shelf.cache.in_limbo()), ((0, 0), 0));
    });
}

/// A mark that is set during an eviction, or while the hand passes, changes no other bit of the
/// word.
#[test]
fn loom_marks_do_not_bring_back_what_is_gone() {
    model(3, || {
        let shelf = shelf();
        let of_reader = shelf.clone();
        let reader = thread::spawn(move || (read(&of_reader, 1, 0), read(&of_reader, 1, 0)));
        shelf.cache.give_way(usize::MAX);
        assert_eq!(read(&shelf, 0, 0), None);
        let (first, second) = reader.join().unwrap();
        assert!(first.is_some() || second.is_none(), "it came back");
        shelf.cache.release_now();
        assert_eq!(shelf.cache.in_limbo(), 0);
    });
}

/// EPOCH-1: while a release waits for a reader's first pin, the reader pins again, and is counted
/// by the epochs' other count. The release waits for this pin as well.
#[test]
fn loom_epoch_1_a_reader_that_comes_by_both_counts() {
    // The two threads take turns.
    model(5, || {
        let (pointer, epochs) = (TaggedPtr::default(), Epochs::default());
        pointer.put(LoomArc::new(QueuedBlock::new(Bytes::new(1))));
        let both = LoomArc::new((pointer, epochs));
        let of_reader = both.clone();
        let reader = thread::spawn(move || {
            let (pointer, epochs) = &*of_reader;
            for _ in 0..2 {
                let pin = epochs.pin_by(1);
                // SAFETY: these readers are waited for.
                let found = unsafe { pointer.get(&pin) };
                assert!(found.is_none_or(|found| (1..=3).contains(&found.read())));
            }
        });
        let (pointer, epochs) = &*both;
        let (mut limbo, mut gone) = (Limbo::default(), Vec::new());
        let release = |limbo: &mut Limbo<Unlinked<QueuedBlock<Bytes>>>, gone: &mut Vec<_>| {
            limbo.release(epochs, gone);
            // SAFETY: all readers that could have reached it have unpinned.
            gone.drain(..).for_each(|thing: Unlinked<_>| drop(unsafe { thing.release() }));
        };
        for number in 2..=3 {
            limbo.put(pointer.take().expect("it was put in"));
            pointer.put(LoomArc::new(QueuedBlock::new(Bytes::new(number))));
            release(&mut limbo, &mut gone);
        }
        reader.join().unwrap();
        limbo.put(pointer.take().expect("it was put in"));
        release(&mut limbo, &mut gone);
        assert_eq!(limbo.len(), 0);
    });
}

/// A fault that the model must detect: removed entries are released at once.
#[test]
#[should_panic(expected = "Causality violation")]
fn loom_without_waiting_a_reader_reads_what_is_gone() {
    model(3, || {
        let shelf = shelf();
        let of_reader = shelf.clone();
        let reader = thread::spawn(move || read(&of_reader, 1, 0));
        shelf.cache.forget(&shelf.extent);
        shelf.cache.release_unwaited();
        _ = reader.join();
    });
}
