//! J1 in every order of steps: who puts a row in, beside commits that replace it, and readers, of whose snapshots nobody knows.

use spillway_base::sync::atomic::{AtomicU64, Ordering};
use spillway_base::sync::{Arc, model, thread};

use super::*;

const TABLE: TableId = TableId(1);
const KEY: &[u8] = b"key";

struct Shelf {
    cache: RowCache,
    tag: Tag,
    /// Stands for the memtable: the newest version.
    newest: AtomicU64,
}

impl Shelf {
    fn new() -> Arc<Shelf> {
        let cache = RowCache::of(
            1,
            std::sync::Arc::new(Balance::new(1.0, false)),
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

    /// A read that misses the row here, finds it elsewhere, and offers what it has found.
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

/// Who reads after a commit finds no version before it.
#[test]
fn j1_who_puts_a_row_in_beside_a_commit() {
    model(3, || {
        let shelf = Shelf::new();
        let beside = shelf.clone();
        let admits = thread::spawn(move || beside.admit());
        shelf.commit(2);
        assert!(shelf.get().is_none_or(|csn| csn == 2));
        admits.join().unwrap();
        assert!(shelf.get().is_none_or(|csn| csn == 2));
    });
}

/// The same of who has found a version behind a look here, and has only the count of the bucket from before that to go by.
#[test]
fn j1_who_offers_what_it_has_found_beside_a_commit() {
    model(3, || {
        let shelf = Shelf::new();
        // It is asked for again (J5).
        shelf.cache.seen.again(0);
        let beside = shelf.clone();
        let offers = thread::spawn(move || beside.read_and_offer());
        shelf.commit(2);
        assert!(shelf.get().is_none_or(|csn| csn == 2));
        offers.join().unwrap();
        assert!(shelf.get().is_none_or(|csn| csn == 2));
        shelf.read_and_offer();
        assert_eq!(shelf.get(), Some(2), "nobody is in its way now");
    });
}

/// A reader, beside a commit that takes away what it may look at.
#[test]
fn j4_a_reader_beside_a_commit() {
    model(3, || {
        let shelf = Shelf::new();
        shelf.admit();
        let beside = shelf.clone();
        let reads = thread::spawn(move || beside.get());
        shelf.commit(2);
        assert_eq!(shelf.get(), Some(2));
        assert!(matches!(reads.join().unwrap(), Some(1 | 2)));
    });
}

/// Who has taken a snapshot, and told nobody, finds what it sees or nothing, and not what was there before.
#[test]
fn j1_a_reader_that_nobody_knows_of_beside_commits() {
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
