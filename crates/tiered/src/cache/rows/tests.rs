//! Tests the row cache alone: which rows it finds, for which snapshots, and how many bytes it
//! charges.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};

use spillway_base::rng::Rng;
use spillway_base::thread;

use super::*;
use crate::filter::hash;

const TABLE: TableId = TableId(3);

/// The share of the tests' caches.
fn half() -> Arc<CacheBalancer> {
    Arc::new(CacheBalancer::new(0.5, false))
}

/// A cache that considers all rows, even if few lookups hit.
fn cache(bytes: usize) -> (Arc<RowCache>, Budget) {
    let budget = Budget::new(bytes);
    (Arc::new(RowCache::new(half(), false, &budget).unwrap()), budget)
}

fn value_at(csn: u64) -> Vec<u8> {
    let mut value = csn.to_le_bytes().to_vec();
    value.resize(8 + csn as usize % 50, csn as u8);
    value
}

struct Reader<'c> {
    cache: &'c RowCache,
    tag: Tag,
}

impl Reader<'_> {
    /// The commit of the cached version that a snapshot sees. Checks that the value is that of this
    /// commit.
    fn get(&self, key: &[u8], snapshot: u64) -> Option<u64> {
        let mut value = vec![1, 2, 3];
        match self.cache.get(self.tag, hash(key), key, Csn(snapshot), &mut value) {
            Looked::Found(csn) => {
                assert_eq!(value, value_at(csn.0));
                Some(csn.0)
            }
            Looked::Newer | Looked::Missing(_) => None,
        }
    }

    /// A read by a snapshot that sees no version.
    fn miss(&self, key: &[u8], newest: u64) {
        let mut found = Vec::new();
        let ticket = match self.cache.get(self.tag, hash(key), key, Csn::ZERO, &mut found) {
            Looked::Missing(ticket) => ticket,
            Looked::Newer | Looked::Found(_) => return,
        };
        let value = value_at(newest);
        let unasked = |_: &mut Vec<u8>| unreachable!("what was found is the newest");
        self.cache.offer(
            (self.tag, hash(key), key),
            ticket,
            (Csn(newest), &value),
            || true,
            unasked,
        );
    }

    fn admit(&self, key: &[u8], newest: u64) {
        self.miss(key, newest);
        self.miss(key, newest);
    }

    fn commit(&self, key: &[u8], csn: u64) {
        self.cache.replace(TABLE, hash(key), key, Csn(csn), Some(&value_at(csn)));
    }
}

fn reader(cache: &RowCache) -> Reader<'_> {
    Reader { cache, tag: cache.new_era(TABLE).unwrap() }
}

#[test]
fn row_cache_1_a_snapshot_sees_its_version_or_nothing() {
    let (cache, _) = cache(1 << 20);
    let reader = reader(&cache);
    reader.admit(b"key", 5);
    let seen = [4, 5, 6, u64::MAX].map(|snapshot| reader.get(b"key", snapshot));
    assert_eq!(seen, [None, Some(5), Some(5), Some(5)]);
    assert_eq!(reader.get(b"kez", 9), None);
    // A reader of another table.
    let other = Reader { cache: &cache, tag: cache.new_era(TableId(4)).unwrap() };
    assert_eq!(other.get(b"key", 9), None);
}

#[test]
fn row_cache_1_what_a_commit_came_in_between_of_does_not_come_in() {
    let (cache, _) = cache(1 << 20);
    let reader = reader(&cache);
    reader.miss(b"key", 5);
    let key = (reader.tag, hash(b"key"), b"key".as_slice());
    let Looked::Missing(ticket) = cache.get(key.0, key.1, key.2, Csn(9), &mut Vec::new()) else {
        panic!("it is not there yet");
    };
    let five = value_at(5);
    let found = (Csn(5), five.as_slice());
    let came = cache.offer(
        key,
        ticket,
        found,
        || false,
        |value| {
            reader.commit(b"key", 6);
            value.extend_from_slice(&value_at(5));
            Some(Csn(5))
        },
    );
    // The same if the version that was found was still the newest.
    let unasked = |_: &mut Vec<u8>| unreachable!("what was found is the newest");
    assert!(!came && !cache.offer(key, ticket, found, || true, unasked));
    assert_eq!(reader.get(b"key", 9), None);
    reader.miss(b"key", 6);
    assert_eq!(reader.get(b"key", 9), Some(6));
}

#[test]
fn row_cache_2_commits_replace_what_is_there() {
    let (cache, _) = cache(1 << 20);
    let reader = reader(&cache);
    reader.admit(b"key", 5);
    reader.admit(b"other", 5);
    reader.commit(b"key", 8);
    reader.commit(b"absent", 8);
    assert_eq!([7, 8].map(|snapshot| reader.get(b"key", snapshot)), [None, Some(8)]);
    assert_eq!([b"other".as_slice(), b"absent"].map(|key| reader.get(key, 9)), [Some(5), None]);
    // Commits are installed in any order (E2).
    reader.commit(b"key", 7);
    assert_eq!(reader.get(b"key", 9), Some(8));
    // One commit puts and deletes.
    reader.commit(b"key", 9);
    cache.replace(TABLE, hash(b"key"), b"key", Csn(9), None);
    assert_eq!(reader.get(b"key", 9), None);
    let large = vec![0; ROW_BYTES_MAX];
    cache.replace(TABLE, hash(b"other"), b"other", Csn(9), Some(&large));
    assert_eq!(reader.get(b"other", 9), None, "too large to be kept");
}

#[test]
fn row_cache_3_rows_of_an_era_that_has_passed_are_not_found() {
    let (cache, _) = cache(1 << 20);
    let before = reader(&cache);
    before.admit(b"key", 5);
    let after = reader(&cache);
    assert_eq!(after.get(b"key", 9), None);
    // A commit does not know the era of the row that it replaces.
    after.commit(b"key", 7);
    assert_eq!(after.get(b"key", 9), None);
    after.admit(b"key", 7);
    assert_eq!((after.get(b"key", 9), before.get(b"key", 9)), (Some(7), None));
}

#[test]
fn row_cache_5_a_row_comes_in_when_it_is_missed_again() {
    let (cache, _) = cache(1 << 20);
    let reader = reader(&cache);
    reader.miss(b"key", 5);
    assert_eq!(reader.get(b"key", 9), None);
    reader.miss(b"key", 5);
    assert_eq!(reader.get(b"key", 9), Some(5));
    let before = cache.hits_and_misses();
    assert_eq!(before, (1, 3));
    // Rows that are read only once evict nothing, however many they are.
    let absent = |key: u64| {
        reader.miss(&key.to_be_bytes(), 5);
        reader.get(&key.to_be_bytes(), 9)
    };
    let came = (0..100_000).filter(|key| absent(*key).is_some()).count();
    assert!(came < 100, "{came} rows came in by chance");
    assert_eq!(reader.get(b"key", 9), Some(5));
}

#[test]
fn row_cache_5_who_expects_keys_has_not_looked_for_them() {
    let (cache, _) = cache(1 << 20);
    let reader = reader(&cache);
    let keys: [&[u8]; 3] = [b"there", b"absent", b"there"];
    reader.admit(keys[0], 5);
    let before = (cache.hits_and_misses(), cache.bytes());
    (0..100).for_each(|_| cache.expect_all(keys.iter().map(|key| hash(key))));
    assert_eq!((cache.hits_and_misses(), cache.bytes()), before);
    reader.miss(keys[1], 5);
    assert_eq!((reader.get(keys[0], 9), reader.get(keys[1], 9)), (Some(5), None));
}

#[test]
fn row_cache_6_rows_have_their_share_and_give_way() {
    let (cache, budget) = cache(1 << 20);
    let reader = reader(&cache);
    let empty = budget.used();
    assert!(empty > 0, "buckets are charged");
    let key = |number: u64| number.to_be_bytes();
    (0..20_000).for_each(|number| reader.admit(&key(number), 1 + number));
    let there = |from: u64, to: u64| {
        (from..to).filter(|number| reader.get(&key(*number), u64::MAX).is_some()).count()
    };
    assert!((1000..20_000).contains(&there(0, 20_000)));
    let (used, most) = (budget.used(), budget.limit() / 2);
    assert!(used <= most && used > most / 2, "{used} of {most}");
    assert!(cache.give_way(100 << 10) >= 90 << 10);
    assert!(used - budget.used() >= 90 << 10);
    while cache.held_bytes() > 0 {
        assert!(cache.give_way(usize::MAX) > 0);
    }
    assert_eq!((budget.used(), there(0, 20_000)), (empty, 0));
    // Other uses take the memory that rows may not use.
    let others = budget.charge(Use::Memtables, 900 << 10);
    (0..20_000).for_each(|number| reader.admit(&key(number), 1 + number));
    assert!(budget.used() <= budget.limit());
    drop((others, cache));
    assert_eq!(budget.used(), 0);
}

/// ROW-CACHE-6, BALANCER-3, BALANCER-4: rows beyond their share stay while no cache needs the
/// memory, up to half of it, and are evicted once blocks need it. With a fixed share, rows never
/// exceed it.
#[test]
fn row_cache_6_rows_have_what_no_cache_has() {
    // Of a size at which the number of buckets does not limit the rows.
    let key = |number: u64| [number.to_be_bytes(); 32].concat();
    for moves in [true, false] {
        let budget = Budget::new(4 << 20);
        let balance = Arc::new(CacheBalancer::new(0.25, moves));
        let cache = Arc::new(RowCache::new(balance, false, &budget).unwrap());
        let reader = reader(&cache);
        (0..100_000).for_each(|number| reader.admit(&key(number), 1 + number));
        let (alone, share) = (cache.held_bytes(), cache.capacity());
        assert_eq!(alone > 3 * share / 2, moves, "{alone} of {share}");
        assert!(cache.bytes() <= budget.limit() / 2);
        // Blocks that fit the remaining memory evict no row.
        let blocks = budget.charge(Use::Caches, 8 << 10);
        cache.weigh((1 << 20, 0));
        assert!(cache.held_bytes() >= alone - BYTES_FOR_A_ROW, "{} of {alone}", cache.held_bytes());
        // More blocks are read, and each read evicts some rows.
        let mut blocks = vec![blocks];
        for read in 0..400 {
            blocks.push(budget.charge(Use::Caches, 8 << 10));
            cache.weigh((1 << 20 | read, 0));
        }
        let (held, share) = (cache.held_bytes(), cache.capacity());
        assert!(held <= share + 2 * BYTES_FOR_A_ROW, "{held} of {share}");
        (0..10_000).for_each(|number| reader.admit(&key(number), 200_000));
        assert!(cache.held_bytes() <= share + 2 * BYTES_FOR_A_ROW, "nor do others come in");
    }
}

/// ROW-CACHE-6: rows beyond their share free requested memory at once, even if each was hit often.
/// Of two rows in a bucket, the one with fewer hits is evicted.
#[test]
fn row_cache_6_what_is_past_its_share_has_no_claim_to_stay() {
    let key = |number: u64| [number.to_be_bytes(); 32].concat();
    let budget = Budget::new(64 << 20);
    let balance = Arc::new(CacheBalancer::new(0.25, true));
    let cache = Arc::new(RowCache::new(balance, false, &budget).unwrap());
    let reader = reader(&cache);
    let all = 0..60_000;
    all.clone().for_each(|number| reader.admit(&key(number), 1));
    assert!(cache.held_bytes() > cache.capacity() + (4 << 20), "{}", cache.held_bytes());
    for number in all {
        // Seven of eight rows have been hit.
        let times = if number % 8 == 0 { 0 } else { 3 };
        for _ in 0..times {
            reader.get(&key(number), 9);
        }
    }
    let there = |number: &u64| reader.get(&key(*number), 9).is_some();
    let [hot, cold] =
        [1, 0].map(|of: u64| (0..60_000).filter(|n| n % 8 == of).filter(there).count());
    assert!(cache.give_way(2 << 20) >= 2 << 20);
    let after = [1, 0].map(|of: u64| (0..60_000).filter(|n| n % 8 == of).filter(there).count());
    let lost = [hot - after[0], cold - after[1]];
    assert!(lost[1] > 2 * lost[0], "{lost:?} of {hot} and {cold}");
}

/// If there are more rows than fit, those that are used stay.
#[test]
fn rows_that_are_used_outlast_those_that_are_not() {
    let (cache, _) = cache(1 << 20);
    let reader = reader(&cache);
    let (mut rng, hot) = (Rng::new(7), 500);
    let key = |number: u64| number.to_be_bytes();
    for round in 0..200_000 {
        let number = if round % 2 == 0 { rng.below(hot) } else { hot + rng.below(20_000) };
        if reader.get(&key(number), u64::MAX).is_none() {
            reader.miss(&key(number), 1);
        }
    }
    let there = (0..hot).filter(|number| reader.get(&key(*number), u64::MAX).is_some()).count();
    assert!(there > 475, "{there} of {hot}");
}

/// ROW-CACHE-1: a thread that tries to lock a bucket too late, or while it is locked, does not
/// unlock it.
#[test]
fn a_bucket_that_could_not_be_locked_stays_with_who_has_it() {
    let bucket = Bucket::default();
    let before = bucket.version().unwrap();
    let held = bucket.lock();
    assert!(bucket.lock_at(before).is_none());
    assert!(bucket.version().is_none() && bucket.try_lock().is_none());
    drop(held);
    let after = bucket.version().unwrap();
    assert!(after > before && bucket.lock_at(before).is_none());
    assert_eq!(bucket.version(), Some(after), "it counts who locked it, and nobody else");
}

/// ROW-CACHE-1 and ROW-CACHE-4 with concurrent readers, commits and evictions: no reader finds a
/// version that was replaced before the reader's lookup.
#[test]
fn readers_never_find_what_was_replaced_before() {
    const KEYS: usize = 40;
    let (cache, budget) = cache(256 << 10);
    let tag = cache.new_era(TABLE).unwrap();
    let newest: Arc<Vec<AtomicU64>> = Arc::new((0..KEYS).map(|_| AtomicU64::new(1)).collect());
    let installed: Arc<Vec<AtomicU64>> = Arc::new((0..KEYS).map(|_| AtomicU64::new(1)).collect());
    let ended = Arc::new(AtomicBool::new(false));
    let key = |number: usize| (number as u64).to_be_bytes();
    let mut threads = Vec::new();
    for seed in 0..3 {
        let (cache, newest, installed) = (cache.clone(), newest.clone(), installed.clone());
        let ended = ended.clone();
        let read = move || {
            let (mut rng, reader) = (Rng::new(seed), Reader { cache: &cache, tag });
            let mut found = 0_u64;
            while !ended.load(Ordering::Relaxed) {
                let number = rng.below(KEYS as u64) as usize;
                let known = installed[number].load(Ordering::Acquire);
                match reader.get(&key(number), u64::MAX) {
                    Some(csn) => {
                        assert!(csn >= known, "{csn} was replaced by {known}");
                        found += 1;
                    }
                    None => {
                        let looked = newest[number].load(Ordering::Acquire);
                        let (key, value) = (key(number), value_at(looked));
                        let all = (tag, hash(&key), key.as_slice());
                        let found = (Csn(looked), value.as_slice());
                        let newest = |value: &mut Vec<u8>| {
                            let csn = newest[number].load(Ordering::Acquire);
                            value.extend_from_slice(&value_at(csn));
                            Some(Csn(csn))
                        };
                        cache.offer(all, Ticket(None), found, || false, newest);
                    }
                }
            }
            found
        };
        threads.push(thread::spawn("reader", read).unwrap());
    }
    let (mut rng, reader) = (Rng::new(9), Reader { cache: &cache, tag });
    let mut csn = 1;
    // Goes on until there were enough hits, because a busy machine may not run the other threads
    // for long.
    while csn < 50_000 || cache.hits_and_misses().0 < 1000 {
        csn += 1;
        let number = rng.below(KEYS as u64) as usize;
        newest[number].store(csn, Ordering::Release);
        reader.commit(&key(number), csn);
        installed[number].store(csn, Ordering::Release);
        if csn.is_multiple_of(1000) {
            cache.give_way(4 << 10);
        }
    }
    ended.store(true, Ordering::Relaxed);
    let found: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
    assert!(found > 0);
    drop(cache);
    assert_eq!(budget.used(), 0);
}
