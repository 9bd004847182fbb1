//! Loom models of ROW-CACHE-1 and ROW-CACHE-4: threads insert and evict rows, concurrently with
//! commits that replace these rows and with readers at unregistered snapshots, in every order of
//! steps.

use spillway_base::sync::atomic::{AtomicU64, Ordering};
use spillway_base::sync::{Arc, model, thread};
use spillway_reclaim::epochs::go_by;

use super::*;

const TABLE: TableId = TableId(1);
const KEY: &[u8] = b"key";

struct Shelf {
    cache: RowCache,
    tag: Tag,
    /// Stands for the memtable: the newest installed version.
    newest: AtomicU64,
}

impl Shelf {
    fn new() -> Arc<Shelf> {
        let cache = RowCache::of(
            1,
            std::sync::Arc::new(CacheBalancer::new(1.0, false)),
            false,
            &Budget::new(1 << 20),
        );
        let tag = cache.new_era(TABLE).unwrap();
        Arc::new(Shelf { cache, tag, newest: AtomicU64::new(1) })
    }

    fn admit(&self) {
        let _ = self.cache.admit(self.tag, 0, KEY, |value| {
            let csn = self.newest.load(Ordering::Acquire);
            value.push(csn as u8);
            Some(Csn(csn))
        });
    }

    /// A read that misses the row in the cache, finds it in the memtable, and offers it to the
    /// cache.
    fn read_and_offer(&self) {
        let looked = self.cache.get(self.tag, 0, KEY, Csn::MAX, &mut Vec::new());
        let Looked::Missing(ticket) = looked else { return };
        let csn = self.newest.load(Ordering::Acquire);
        let (key, found) = ((self.tag, 0, KEY), (Csn(csn), &[csn as u8][..]));
        self.cache.offer(key, ticket, found, || true, |_| None);
    }

    fn commit(&self, csn: u64) {
        self.newest.store(csn, Ordering::Release);
        self.cache.replace(TABLE, 0, KEY, Csn(csn), Some(&[csn as u8]));
    }

    fn get(&self) -> Option<u64> {
        let mut value = Vec::new();
        let Looked::Found(csn) = self.cache.get(self.tag, 0, KEY, Csn::MAX, &mut value) else {
            return None;
        };
        assert_eq!(value, [csn.0 as u8]);
        Some(csn.0)
    }
}

/// Runs `act` on the shelf in another thread.
fn beside<T: Send + 'static>(
    shelf: &Arc<Shelf>,
    work: impl FnOnce(&Shelf) -> T + Send + 'static,
) -> thread::JoinHandle<T> {
    let shelf = shelf.clone();
    thread::spawn(move || work(&shelf))
}

/// A thread inserts the row beside a commit. A read after the commit finds no version from before
/// it.
#[test]
fn row_cache_1_who_puts_a_row_in_beside_a_commit() {
    model(3, || {
        let shelf = Shelf::new();
        let admits = beside(&shelf, |shelf| shelf.admit());
        shelf.commit(2);
        assert!(shelf.get().is_none_or(|csn| csn == 2));
        admits.join().unwrap();
        assert!(shelf.get().is_none_or(|csn| csn == 2));
    });
}

/// The same for a reader that missed the row here, found a version in the memtable, and offers it.
/// It knows only the bucket's lock count from before its lookup.
#[test]
fn row_cache_1_who_offers_what_it_has_found_beside_a_commit() {
    model(3, || {
        let shelf = Shelf::new();
        // The key is missed a second time (ROW-CACHE-5).
        shelf.cache.seen.again(0);
        let offers = beside(&shelf, |shelf| shelf.read_and_offer());
        shelf.commit(2);
        assert!(shelf.get().is_none_or(|csn| csn == 2));
        offers.join().unwrap();
        assert!(shelf.get().is_none_or(|csn| csn == 2));
        shelf.read_and_offer();
        assert_eq!(shelf.get(), Some(2), "nobody is in its way now");
    });
}

/// A reader beside a commit that removes the row that it may be reading.
#[test]
fn row_cache_4_a_reader_beside_a_commit() {
    model(3, || {
        let shelf = Shelf::new();
        shelf.admit();
        let reads = beside(&shelf, |shelf| shelf.get());
        shelf.commit(2);
        assert_eq!(shelf.get(), Some(2));
        assert!(matches!(reads.join().unwrap(), Some(1 | 2)));
    });
}

/// A reader at an unregistered snapshot finds the version that the snapshot sees, or nothing. It
/// never finds an earlier version.
#[test]
fn row_cache_1_a_reader_that_nobody_knows_of_beside_commits() {
    model(3, || {
        let shelf = Shelf::new();
        shelf.admit();
        let stable = Arc::new(AtomicU64::new(1));
        let (beside, at) = (shelf.clone(), stable.clone());
        let reads = thread::spawn(move || {
            let csn = at.load(Ordering::Acquire);
            let mut value = Vec::new();
            if let Looked::Found(found) = beside.cache.get(beside.tag, 0, KEY, Csn(csn), &mut value)
            {
                assert!(found == Csn(csn) && value == [csn as u8]);
            }
        });
        for csn in 2..=3 {
            shelf.commit(csn);
            stable.store(csn, Ordering::Release);
        }
        reads.join().unwrap();
    });
}

/// Two keys of one bucket, which has room for one row.
const OTHER: &[u8] = b"other";
const OTHER_HASH: u64 = 1;

impl Shelf {
    /// Inserts the row of the other key, as a lookup does that misses it here and finds it
    /// elsewhere. Inserts nothing if another thread has the bucket locked.
    fn admit_other(&self) {
        let _ = self.cache.admit(self.tag, OTHER_HASH, OTHER, |value| {
            value.push(7);
            Some(Csn(7))
        });
    }

    fn get_other(&self) -> bool {
        let mut value = Vec::new();
        match self.cache.get(self.tag, OTHER_HASH, OTHER, Csn::MAX, &mut value) {
            Looked::Found(csn) => {
                assert!(csn == Csn(7) && value == [7]);
                true
            }
            _ => false,
        }
    }

    /// Evicts all it can. A row that was inserted and not used since has one mark, so the hand
    /// passes it once before it evicts the row.
    fn evict(&self) {
        self.cache.give_way(usize::MAX);
    }

    /// Called when no other thread uses the cache: evicted rows are released, and the charge equals
    /// the rows' bytes (ROW-CACHE-6).
    fn settle(&self) {
        self.cache.release_all();
        assert!(self.cache.stripes.iter().all(|stripe| lock(&stripe.left).limbo.is_empty()));
        let there = self.cache.buckets.iter().map(|bucket| {
            let held = bucket.lock();
            (0..WAYS).filter_map(|way| Some(held.row(way)?.memory_bytes())).sum::<usize>()
        });
        let there = there.sum::<usize>();
        assert_eq!(self.cache.held(), there);
        assert_eq!(lock(&self.cache.charge).bytes(), self.cache.fixed_bytes + there);
    }
}

/// ROW-CACHE-1, ROW-CACHE-4, ROW-CACHE-6: a reader, while another thread evicts the row that it may
/// be reading, and a commit replaces the row.
#[test]
fn row_cache_4_a_reader_beside_an_eviction_and_a_commit() {
    model(2, || {
        let shelf = Shelf::new();
        shelf.admit();
        let reads = beside(&shelf, |shelf| shelf.get());
        let evicts = beside(&shelf, |shelf| {
            go_by(1);
            shelf.evict();
        });
        shelf.commit(2);
        assert!(shelf.get().is_none_or(|csn| csn == 2), "it is older than a commit that is done");
        assert!(reads.join().unwrap().is_none_or(|csn| csn <= 2));
        evicts.join().unwrap();
        assert!(shelf.get().is_none_or(|csn| csn == 2));
        shelf.settle();
    });
}

/// ROW-CACHE-1, ROW-CACHE-4, ROW-CACHE-6: the same, and the row of another key takes the slot.
#[test]
fn row_cache_4_a_reader_beside_a_row_that_takes_the_place_and_a_commit() {
    model(2, || {
        let shelf = Shelf::new();
        shelf.admit();
        let reads = beside(&shelf, |shelf| {
            go_by(1);
            shelf.get()
        });
        let comes = beside(&shelf, |shelf| {
            shelf.admit_other();
            shelf.get_other()
        });
        shelf.commit(2);
        assert!(shelf.get().is_none_or(|csn| csn == 2), "it is older than a commit that is done");
        assert!(reads.join().unwrap().is_none_or(|csn| csn <= 2));
        let came = comes.join().unwrap();
        assert_eq!(came, shelf.get_other());
        assert_eq!(shelf.get(), (!came).then_some(2));
        shelf.settle();
    });
}

/// ROW-CACHE-1: a reader misses a row here, finds a version elsewhere and offers it. Meanwhile a
/// commit replaces the row, and the new row is evicted. The bucket is as empty as it was at the
/// miss, but the offered row must not be inserted.
#[test]
fn row_cache_1_an_offer_beside_a_commit_and_an_eviction() {
    model(3, || {
        let shelf = Shelf::new();
        shelf.cache.seen.again(0);
        let offers = beside(&shelf, |shelf| {
            go_by(1);
            shelf.read_and_offer();
        });
        shelf.commit(2);
        assert!(shelf.get().is_none_or(|csn| csn == 2));
        shelf.evict();
        assert!(shelf.get().is_none_or(|csn| csn == 2));
        offers.join().unwrap();
        assert!(shelf.get().is_none_or(|csn| csn == 2));
        shelf.settle();
    });
}

/// ROW-CACHE-4, ROW-CACHE-6: two threads evict at the same time, each with its own stripe of
/// evicted rows, beside a reader for which both wait.
#[test]
fn row_cache_4_a_reader_beside_two_that_evict() {
    model(2, || {
        let shelf = Shelf::new();
        shelf.admit();
        let reads = beside(&shelf, |shelf| shelf.get());
        let evicts = beside(&shelf, |shelf| {
            go_by(1);
            shelf.evict();
        });
        shelf.evict();
        assert!(reads.join().unwrap().is_none_or(|csn| csn == 1));
        evicts.join().unwrap();
        shelf.settle();
    });
}
