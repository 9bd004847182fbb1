//! Loom models of blocks in pages of a pool: a page gets another block only after all readers of
//! the old block have left.
//!
//! The blocks of these models are buffers of a page pool. They report every access to the trackers
//! of their pages ([`spillway_reclaim::loom_tracker`]). No other tool would notice an access that
//! is too late, because the page stays mapped.

use spillway_base::budget::Use;
use spillway_reclaim::pages::{Buffer, PagePools};

use super::*;

struct Paged(Seat<Paged>);

impl Holder for Paged {
    type Table = ();
    type Block = Buffer;

    fn seat(&self) -> &Seat<Paged> {
        &self.0
    }
}

const PAGE_BYTES: usize = 8 << 10;

struct Shelf {
    cache: Cache<Paged>,
    extent: Arc<Paged>,
    pools: PagePools,
    /// Held so that the pool keeps its region.
    _other: Buffer,
}

impl Drop for Shelf {
    fn drop(&mut self) {
        self.cache.forget(&self.extent);
        // The pages that it holds are released before the pool.
        self.cache.release_now();
    }
}

/// A cache with room for a table and one of these blocks. The first block is in it.
fn shelf_of(blocks: usize) -> LoomArc<Shelf> {
    let budget = Budget::new(usize::MAX);
    let pools = PagePools::new(&[PAGE_BYTES], false, &budget, Use::FreePages);
    let cache = Cache::new(CacheSettings::fixed(12 << 10), &budget);
    let extent = Arc::new(Paged(Seat::of(Some(&cache))));
    let other = filled(&pools, 0xFF);
    let shelf = Shelf { cache, extent, pools, _other: other };
    shelf.cache.seat(&shelf.extent, 1, (), blocks, TABLE);
    bring(&shelf, 0, 0);
    LoomArc::new(shelf)
}

/// Fills a buffer as a read from a device does. Before that, its page has the bytes of its last
/// user.
fn filled(pools: &PagePools, number: u8) -> Buffer {
    let mut buffer = Buffer::new(PAGE_BYTES, pools);
    let bytes = &mut buffer[..];
    (bytes[0], bytes[PAGE_BYTES - 1]) = (number, number);
    buffer
}

fn number_of(block: &Buffer) -> u8 {
    let bytes = &block[..];
    assert_eq!(bytes[0], bytes[PAGE_BYTES - 1]);
    bytes[0]
}

/// Inserts a block, as a reader that missed it.
fn bring(shelf: &Shelf, stripe: usize, index: usize) {
    let table = shelf.extent.0.table_to_keep(&shelf.cache.pin_by(stripe)).unwrap();
    let block = filled(&shelf.pools, 10 + index as u8);
    let sizes = Sizes { held: block.memory_bytes(), saved: 10 };
    shelf.cache.insert(&table, index, block, sizes);
    shelf.cache.release_now();
}

/// A reader with one pin reads a block, looks for another block, and reads the first one again.
fn read(shelf: &Shelf, stripe: usize) {
    let pin = shelf.cache.pin_by(stripe);
    let Some(table) = shelf.extent.0.table(&pin) else { return };
    let first = table.block(0, &pin);
    assert!(first.is_none_or(|block| number_of(block) == 10));
    let second = table.block(1, &pin);
    assert!(second.is_none_or(|block| number_of(block) == 11));
    assert!(first.is_none_or(|block| number_of(block) == 10), "it changed under the pin");
}

fn where_it_is(shelf: &Shelf, index: usize) -> *const u8 {
    let pin = shelf.cache.pin_by(0);
    let table = shelf.extent.0.table(&pin).expect("it is there");
    table.block(index, &pin).expect("it is there").as_ptr()
}

/// BLOCK-CACHE-1, EPOCH-1: the cache evicts the block that a reader reads, inserts another, and a
/// third block reuses the page of the first.
#[test]
fn loom_block_cache_1_a_page_that_serves_again_beside_a_reader() {
    model(3, || {
        let shelf = shelf_of(3);
        let first = where_it_is(&shelf, 0);
        let of_reader = shelf.clone();
        let reader = thread::spawn(move || read(&of_reader, 1));
        bring(&shelf, 0, 1);
        bring(&shelf, 0, 2);
        reader.join().unwrap();
        shelf.cache.release_now();
        assert_eq!(shelf.cache.in_limbo(), 0);
        let free = [filled(&shelf.pools, 1), filled(&shelf.pools, 2)];
        let serves = |at: *const u8| {
            free.iter().any(|page| page.as_ptr() == at) || where_it_is(&shelf, 2) == at
        };
        assert!(serves(first), "the first page serves again");
    });
}

/// The same with two threads. Each evicts a block for the block that it inserts, and they reuse
/// each other's pages.
#[test]
fn loom_block_cache_1_pages_that_two_pass_on_beside_a_reader() {
    model(3, || {
        let shelf = shelf_of(3);
        let of_other = shelf.clone();
        let other = thread::spawn(move || bring(&of_other, 1, 1));
        let of_reader = shelf.clone();
        let reader = thread::spawn(move || read(&of_reader, 1));
        bring(&shelf, 0, 2);
        other.join().unwrap();
        reader.join().unwrap();
        shelf.cache.release_now();
        assert_eq!(shelf.cache.in_limbo(), 0);
    });
}

/// BLOCK-CACHE-1, BLOCK-CACHE-4: the system takes back the memory of evicted blocks. From then on,
/// it reads as zeros.
#[test]
fn loom_block_cache_1_a_page_that_the_system_takes_beside_a_reader() {
    // The evicting thread yields between its checks, and each yield counts as a preemption.
    model(5, || {
        let shelf = shelf_of(2);
        let of_reader = shelf.clone();
        let reader = thread::spawn(move || read(&of_reader, 1));
        shelf.cache.give_way(usize::MAX);
        shelf.pools.give_back(usize::MAX);
        reader.join().unwrap();
    });
}

/// BLOCK-CACHE-1: a reader with a reference can still read after its block was evicted, even if it
/// has the last reference. Only then is the page reused.
#[test]
fn loom_block_cache_1_a_page_of_a_block_that_is_kept() {
    model(3, || {
        let shelf = shelf_of(3);
        let of_reader = shelf.clone();
        let reader = thread::spawn(move || {
            let pin = of_reader.cache.pin_by(1);
            let kept = of_reader.extent.0.table(&pin)?.block_to_keep(0, &pin)?;
            drop(pin);
            assert_eq!(number_of(&kept), 10);
            Some(())
        });
        bring(&shelf, 0, 1);
        bring(&shelf, 0, 2);
        reader.join().unwrap();
    });
}

/// A fault that the model must detect: pages are reused at once.
#[test]
#[should_panic(expected = "Causality violation")]
fn loom_without_waiting_a_reader_reads_another_block() {
    model(3, || {
        let shelf = shelf_of(2);
        let of_reader = shelf.clone();
        let reader = thread::spawn(move || read(&of_reader, 1));
        shelf.cache.forget(&shelf.extent);
        shelf.cache.release_unwaited();
        drop(filled(&shelf.pools, 12));
        _ = reader.join();
    });
}
