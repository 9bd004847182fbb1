//! INDEX-1 to INDEX-4 against a model, by one thread and by several.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use spillway_base::rng::Rng;
use spillway_base::thread::together;

use super::*;

type Model = BTreeMap<Vec<u8>, Rid>;

struct Bench {
    epochs: Arc<Epochs>,
    memory: Arc<NodeMemory>,
    index: Index,
}

impl Bench {
    fn new() -> Bench {
        let (epochs, memory) = (Arc::new(Epochs::default()), Arc::new(NodeMemory::default()));
        let index = Index::new(epochs.clone(), memory.clone());
        Bench { epochs, memory, index }
    }

    fn insert(&self, key: &[u8], rid: Rid) -> Result<(), Rid> {
        self.index.insert(key, rid, &self.epochs.pin())
    }

    fn remove(&self, key: &[u8], rid: Rid) -> bool {
        self.index.remove(key, rid, &self.epochs.pin())
    }

    fn get(&self, key: &[u8]) -> Option<Rid> {
        self.index.get(key, &self.epochs.pin())
    }

    fn collect(
        &self,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        direction: Direction,
        most: usize,
    ) -> Vec<(Vec<u8>, Rid)> {
        let mut out = Entries::default();
        self.index.collect(range, direction, most, &mut out, &self.epochs.pin());
        assert!(out.len() <= most && out.is_empty() == out.iter().next().is_none());
        out.iter().map(|(key, rid)| (key.to_vec(), rid)).collect()
    }

    fn all(&self) -> Vec<(Vec<u8>, Rid)> {
        self.collect((Bound::Unbounded, Bound::Unbounded), Direction::Forward, usize::MAX)
    }

    /// Checks the shape of each node, and that the nodes account for all memory. There are no
    /// readers.
    fn assert_shape(&self) {
        let (mut entries, mut keys, mut bytes) = (vec![self.index.slot.load()], 0, 0);
        while let Some(entry) = entries.pop() {
            bytes += entry.memory().map_or(0, |memory| memory.size());
            match entry.kind() {
                EntryKind::Empty => assert_eq!(self.index.len(), 0),
                EntryKind::Tail(..) => keys += 1,
                EntryKind::Node(node) => {
                    node.assert_shape();
                    keys += u64::from(node.ends_here().is_some());
                    entries.extend(node.children().map(|(_, child)| child));
                }
            }
        }
        assert_eq!(keys, self.index.len());
        self.index.reclaim();
        assert_eq!(bytes, self.index.bytes());
    }

    fn assert_is(&self, model: &Model) {
        assert_eq!(self.index.len(), model.len() as u64);
        assert_eq!(self.index.is_empty(), model.is_empty());
        assert!(self.all().into_iter().eq(model.clone()));
        self.assert_shape();
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        let (memory, epochs) = (self.memory.clone(), self.epochs.clone());
        self.index = Index::new(epochs, memory);
        assert!(std::thread::panicking() || self.memory.bytes() == 0);
    }
}

fn rid(number: u64) -> Rid {
    Rid::new(number, 0)
}

/// Makes keys of a kind that is hard for the tree.
fn key(kind: u64, rng: &mut Rng) -> Vec<u8> {
    let letters = |rng: &mut Rng, len: u64, letters: &[u8]| -> Vec<u8> {
        (0..rng.below(len + 1)).map(|_| letters[rng.below(letters.len() as u64) as usize]).collect()
    };
    match kind {
        // Prefixes of each other, and the empty key.
        0 => letters(rng, 6, &[0, 1, 0xFF]),
        // Large nodes on two levels.
        1 => vec![rng.below(4) as u8 * 85, rng.next_u64() as u8],
        // Common prefixes of several lengths, longer than a word.
        2 => {
            let mut key = vec![b'p'; 20 * rng.below(4) as usize];
            key.extend(letters(rng, 3, &[0, b'p', 0xFF]));
            key.extend(vec![b'q'; 17 * rng.below(3) as usize]);
            key.extend(letters(rng, 2, &[0, b'q', 0xFF]));
            key
        }
        // A chain in which each key is a prefix of the next.
        3 => vec![7; rng.below(300) as usize],
        // Dense numbers.
        4 => rng.below(2_000).to_be_bytes().to_vec(),
        // Sparse numbers with a tail.
        _ => {
            let mut key = rng.below(500).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes().to_vec();
            key.extend(letters(rng, 2, b"ab"));
            key
        }
    }
}

const KINDS: u64 = 6;

fn bound(key: &[u8], rng: &mut Rng) -> Bound<Vec<u8>> {
    match rng.below(5) {
        0 => Bound::Unbounded,
        1 | 2 => Bound::Included(key.to_vec()),
        _ => Bound::Excluded(key.to_vec()),
    }
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

fn is_within(key: &[u8], low: &Bound<Vec<u8>>, high: &Bound<Vec<u8>>) -> bool {
    let above = match low {
        Bound::Included(low) => key >= low.as_slice(),
        Bound::Excluded(low) => key > low.as_slice(),
        Bound::Unbounded => true,
    };
    let below = match high {
        Bound::Included(high) => key <= high.as_slice(),
        Bound::Excluded(high) => key < high.as_slice(),
        Bound::Unbounded => true,
    };
    above && below
}

/// INDEX-2 in one thread.
fn assert_scans(bench: &Bench, model: &Model, kind: u64, rng: &mut Rng) {
    for _ in 0..20 {
        let (one, two) = (key(kind, rng), key(kind, rng));
        // Sometimes the range is empty.
        let (least, most) = if rng.chance(1, 10) {
            (one, two)
        } else {
            (one.clone().min(two.clone()), one.max(two))
        };
        let (low, high) = (bound(&least, rng), bound(&most, rng));
        let mut inside: Vec<_> = model
            .iter()
            .filter(|(key, _)| is_within(key, &low, &high))
            .map(|(key, rid)| (key.clone(), *rid))
            .collect();
        let limit = if rng.chance(1, 2) { usize::MAX } else { rng.below(8) as usize };
        let found = bench.collect((as_slice(&low), as_slice(&high)), Direction::Forward, limit);
        assert!(found.iter().eq(inside.iter().take(limit)), "{low:?} {high:?} {limit}");
        let found = bench.collect((as_slice(&high), as_slice(&low)), Direction::Backward, limit);
        inside.reverse();
        assert!(found.iter().eq(inside.iter().take(limit)), "{low:?} {high:?} {limit}");
        let estimate = bench.index.estimate(as_slice(&low), as_slice(&high));
        assert!(estimate <= model.len() as u64);
    }
}

#[test]
fn index_1_and_2_random_operations_are_those_of_a_map() {
    for seed in 0..if cfg!(debug_assertions) { 12 } else { 120 } {
        let (kind, mut rng) = (seed % KINDS, Rng::new(seed));
        let (bench, mut model) = (Bench::new(), Model::new());
        // First mostly insertions, then mostly removals, until no key is left.
        for percent in [80, 50, 20] {
            for number in 0..1_500 {
                let key = key(kind, &mut rng);
                if rng.below(100) < percent {
                    let expected = match model.get(&key) {
                        Some(there) => Err(*there),
                        None => Ok(()),
                    };
                    assert_eq!(bench.insert(&key, rid(number)), expected);
                    model.entry(key.clone()).or_insert(rid(number));
                } else if let Some(there) = model.get(&key).copied() {
                    assert!(!bench.remove(&key, rid(1 << 30)), "another row's");
                    assert!(bench.remove(&key, there));
                    model.remove(&key);
                } else {
                    assert!(!bench.remove(&key, rid(0)));
                }
                assert_eq!(bench.get(&key), model.get(&key).copied());
                if number % 100 == 0 {
                    assert_scans(&bench, &model, kind, &mut rng);
                    bench.assert_shape();
                }
            }
            bench.assert_is(&model);
        }
        while let Some((key, rid)) = model.pop_last() {
            assert!(bench.remove(&key, rid));
        }
        bench.assert_is(&model);
        assert_eq!(bench.index.bytes(), 0);
    }
}

/// Nodes of all kinds, grown and shrunk in three orders, with and without a key that ends there.
#[test]
fn nodes_grow_and_shrink_at_each_threshold() {
    let mut rng = Rng::new(5);
    let mut shuffled: Vec<u8> = (0..=255).collect();
    for place in (1..shuffled.len()).rev() {
        shuffled.swap(place, rng.below(place as u64 + 1) as usize);
    }
    let ascending: Vec<u8> = (0..=255).collect();
    let descending: Vec<u8> = (0..=255).rev().collect();
    let orders = [ascending, descending, shuffled];
    for (number, prefix) in [&b""[..], b"prefix", &[0xFF; 70]].into_iter().enumerate() {
        for rest in [&b""[..], b"rest"] {
            for order in &orders {
                let removal = &orders[number];
                let (bench, mut model) = (Bench::new(), Model::new());
                if !rest.is_empty() {
                    bench.insert(prefix, rid(300)).unwrap();
                    model.insert(prefix.to_vec(), rid(300));
                }
                let key = |byte: u8| [prefix, &[byte], rest].concat();
                for byte in order {
                    bench.insert(&key(*byte), rid(u64::from(*byte))).unwrap();
                    model.insert(key(*byte), rid(u64::from(*byte)));
                    bench.assert_is(&model);
                }
                for byte in removal {
                    assert!(bench.remove(&key(*byte), rid(u64::from(*byte))));
                    model.remove(&key(*byte));
                    bench.assert_is(&model);
                    assert_eq!(bench.get(&key(*byte)), None);
                }
            }
        }
    }
}

/// INDEX-2, for every set of short keys with the bytes at both ends of the order, among them keys
/// that are prefixes of others, keys of zero bytes and the empty key. Each set differs from the one
/// before in one key. Seeks between siblings have to go on in the next or last node (libart 51 and
/// 56, go-adaptive-radix-tree 4 and 28, unodb 850).
#[test]
fn index_2_every_set_of_short_keys_answers_every_bound() {
    let mut keys: Vec<Vec<u8>> = vec![Vec::new()];
    for first in [0, 1, 0xFF] {
        keys.push(vec![first]);
        keys.extend([0, 0xFF].map(|second| vec![first, second]));
    }
    let probes: Vec<Vec<u8>> =
        keys.iter().flat_map(|key| [key.clone(), [key, &[0x80][..]].concat()]).collect();
    let (bench, mut model) = (Bench::new(), Model::new());
    for number in 1..1_u64 << keys.len() {
        // The bit in which two successive Gray codes differ.
        let key = &keys[number.trailing_zeros() as usize];
        match model.remove(key) {
            Some(there) => assert!(bench.remove(key, there)),
            None => {
                bench.insert(key, rid(number)).unwrap();
                model.insert(key.clone(), rid(number));
            }
        }
        bench.assert_shape();
        for probe in &probes {
            assert_eq!(bench.get(probe), model.get(probe).copied());
            for bound in [Bound::Included(probe.as_slice()), Bound::Excluded(probe.as_slice())] {
                let above = model.range::<[u8], _>((bound, Bound::Unbounded));
                let above = above.map(|(key, rid)| (key.clone(), *rid));
                let range = (bound, Bound::Unbounded);
                let found = bench.collect(range, Direction::Forward, usize::MAX);
                assert!(found.into_iter().eq(above), "{bound:?} {model:?}");
                let below = model.range::<[u8], _>((Bound::Unbounded, bound)).rev();
                let below = below.map(|(key, rid)| (key.clone(), *rid));
                let found = bench.collect(range, Direction::Backward, usize::MAX);
                assert!(found.into_iter().eq(below), "{bound:?} {model:?}");
            }
        }
    }
}

/// INDEX-3: keys of up to 64 KiB, prefixes of each other, so that the tree is 2,000 nodes deep.
#[test]
fn index_3_long_keys_are_keys() {
    let long = vec![b'x'; 64 << 10];
    let (bench, mut model) = (Bench::new(), Model::new());
    let cuts = (0..2_000).map(|cut| cut * 32).chain([64 << 10]);
    for (number, cut) in cuts.clone().enumerate() {
        bench.insert(&long[..cut], rid(number as u64)).unwrap();
        model.insert(long[..cut].to_vec(), rid(number as u64));
    }
    let range = (Bound::Excluded(&long[..63_900]), Bound::Unbounded);
    let found = bench.collect(range, Direction::Forward, 4);
    assert_eq!(
        found.iter().map(|(key, _)| key.len()).collect::<Vec<_>>(),
        [63_904, 63_936, 63_968, 65_536]
    );
    let range = (Bound::Unbounded, Bound::Included(&long[..63_968]));
    let found = bench.collect(range, Direction::Backward, 4);
    assert_eq!(found.iter().map(|(key, _)| key.len()).collect::<Vec<_>>(), [65_536, 63_968]);
    bench.assert_shape();
    for (number, cut) in cuts.enumerate() {
        if number % 3 > 0 {
            assert!(bench.remove(&long[..cut], rid(number as u64)));
            model.remove(&long[..cut]);
        }
        assert_eq!(bench.get(&long[..cut]).is_some(), number % 3 == 0);
    }
    bench.assert_is(&model);
}

#[test]
fn estimates_are_near() {
    let (dense, sparse) = (Bench::new(), Bench::new());
    let mut rng = Rng::new(3);
    for number in 0..50_000_u64 {
        dense.insert(&number.to_be_bytes(), rid(number)).unwrap();
        sparse.insert(&rng.next_u64().to_be_bytes(), rid(number)).unwrap();
    }
    let estimate = |bench: &Bench, low: u64, high: u64| {
        let (low, high) = (low.to_be_bytes(), high.to_be_bytes());
        bench.index.estimate(Bound::Included(&low), Bound::Excluded(&high))
    };
    for _ in 0..1_000 {
        let low = rng.below(50_000);
        let high = low + rng.below(50_000 - low + 1);
        let found = estimate(&dense, low, high) as f64;
        let actual = (high - low) as f64;
        assert!(found >= actual * 0.8 - 1.0 && found <= actual * 1.2 + 1.0, "{found} {actual}");

        let (one, two) = (rng.next_u64(), rng.next_u64());
        let actual = one.abs_diff(two) as f64 / u64::MAX as f64 * 50_000.0;
        let found = estimate(&sparse, one.min(two), one.max(two)) as f64;
        assert!((found - actual).abs() < 3_000.0 + actual * 0.3, "{found} {actual}");
    }
    assert_eq!(estimate(&dense, 60_000, u64::MAX), 0);
    let all = (Bound::Unbounded, Bound::Unbounded);
    assert_eq!(dense.index.estimate(all.0, all.1), 50_000);
    for width in 0..20 {
        assert_eq!(estimate(&dense, 1_000, 1_000 + width), width, "within a node it is exact");
    }
}

/// INDEX-4: memory that a pinned reader may reach is kept, and all other memory is freed.
#[test]
fn index_4_memory_comes_back_when_readers_leave() {
    let bench = Bench::new();
    let insert = |number: u64| bench.insert(&number.to_be_bytes(), rid(number)).unwrap();
    (0..5_000).for_each(insert);
    let reader = bench.epochs.pin();
    let full = bench.index.bytes();
    for number in 0..5_000_u64 {
        assert!(bench.remove(&number.to_be_bytes(), rid(number)));
    }
    bench.index.reclaim();
    assert!(bench.index.bytes() >= full);
    drop(reader);
    bench.index.reclaim();
    assert_eq!(bench.index.bytes(), 0);
    // Writers reclaim without a call of `reclaim`.
    for round in 0..50_000_u64 {
        insert(round % 7);
        assert!(bench.remove(&(round % 7).to_be_bytes(), rid(round % 7)));
    }
    assert!(bench.index.bytes() < 200_000, "{}", bench.index.bytes());
}

/// Keys whose changes split, grow, shrink and merge the same few nodes.
fn contended_keys() -> Vec<Vec<u8>> {
    let mut keys =
        vec![b"".to_vec(), b"a".to_vec(), b"ab".to_vec(), vec![b'a'; 40], vec![b'a'; 41]];
    keys.extend((0..20).map(|byte| vec![b'a', b'b', b'c', byte]));
    keys.extend((0..4).map(|byte| [&[b'a'; 30][..], &[byte], b"rest"].concat()));
    keys.extend((0..60).map(|byte| vec![b'z', 4 * byte]));
    keys
}

/// Scans until `is_done`, and checks INDEX-2: it finds the keys of `always`, in order.
fn scan_beside(bench: &Bench, always: &Model, is_done: impl Fn() -> bool, seed: u64) {
    let (mut rng, mut out) = (Rng::new(seed), Entries::default());
    let always: Vec<_> = always.keys().cloned().collect();
    while !is_done() {
        let from = always[rng.below(always.len() as u64) as usize].as_slice();
        let most = rng.below(40) as usize + 1;
        let is_forward = rng.chance(1, 2);
        let direction = if is_forward { Direction::Forward } else { Direction::Backward };
        // The other end of some scans is at a key that writers insert and remove.
        let ends = [&b"a"[..], &[b'a'; 41], b"abc\x07", b"abc\xFF", b"z\x50", b"zz"];
        let end = ends[rng.below(ends.len() as u64) as usize];
        let end =
            Some(end).filter(|end| rng.chance(1, 2) && is_forward == (from < *end) && from != *end);
        let range = (Bound::Included(from), end.map_or(Bound::Unbounded, Bound::Excluded));
        bench.index.collect(range, direction, most, &mut out, &bench.epochs.pin());
        let keys: Vec<_> = out.iter().map(|(key, _)| key).collect();
        assert_eq!(keys[0], from);
        let is_inside = |key: &[u8]| end.is_none_or(|end| is_forward == (key < end) && key != end);
        assert!(keys.iter().all(|key| is_inside(key)), "a scan leaves its range");
        assert!(keys.is_sorted_by(|one, two| if is_forward { one < two } else { one > two }));
        let last = keys[keys.len() - 1];
        let is_between = |key: &[u8]| match direction {
            Direction::Forward => key >= from && (key <= last || keys.len() < most),
            Direction::Backward => key <= from && (key >= last || keys.len() < most),
        };
        let expected = always.iter().filter(|key| is_between(key) && is_inside(key));
        for key in expected {
            assert!(keys.contains(&key.as_slice()), "{key:?}");
        }
    }
}

/// Three threads insert and remove the same keys, each with its own RIDs, and two scan.
fn contend(seed: u64, rounds: u64) {
    const WRITERS: usize = 3;
    let (bench, keys) = (Bench::new(), contended_keys());
    // Every fifth key is always there.
    let always: Model = keys.iter().step_by(5).map(|key| (key.clone(), rid(1 << 20))).collect();
    for (key, rid) in &always {
        bench.insert(key, *rid).unwrap();
    }
    let (writing, inserted) = (AtomicU64::new(WRITERS as u64), AtomicU64::new(0));
    let failed = AtomicBool::new(false);
    /// Ends the scans even if a writer panics.
    struct Leave<'a>(&'a AtomicU64, &'a AtomicBool);
    impl Drop for Leave<'_> {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
            self.1.fetch_or(std::thread::panicking(), Ordering::SeqCst);
        }
    }
    together(WRITERS + 2, |thread| {
        if thread >= WRITERS {
            let is_done = || writing.load(Ordering::SeqCst) == 0;
            return scan_beside(&bench, &always, is_done, seed * 10 + thread as u64);
        }
        let _leave = Leave(&writing, &failed);
        let mut rng = Rng::new(seed * 100 + thread as u64);
        let mut own: Model = Model::new();
        for round in 0..rounds {
            let key = &keys[rng.below(keys.len() as u64) as usize];
            let own_rid = rid(round << 2 | thread as u64);
            match own.get(key).copied() {
                Some(there) => {
                    // No other thread removes it.
                    assert_eq!(bench.get(key), Some(there));
                    assert_eq!(bench.insert(key, own_rid), Err(there));
                    if rng.chance(2, 3) {
                        assert!(bench.remove(key, there));
                        own.remove(key);
                    }
                }
                None => match bench.insert(key, own_rid) {
                    Ok(()) => {
                        own.insert(key.clone(), own_rid);
                    }
                    Err(there) if always.contains_key(key) => assert_eq!(there, rid(1 << 20)),
                    Err(there) => assert_ne!(there.slot() & 3, thread as u64),
                },
            }
            assert!(!bench.remove(key, rid(1 << 30)));
        }
        for (key, rid) in &own {
            assert_eq!(bench.get(key), Some(*rid));
            inserted.fetch_add(
                u64::from(rng.chance(1, 2) || !bench.remove(key, *rid)),
                Ordering::SeqCst,
            );
        }
    });
    assert!(!failed.load(Ordering::SeqCst));
    assert_eq!(bench.index.len(), always.len() as u64 + inserted.load(Ordering::SeqCst));
    assert_eq!(bench.all().len() as u64, bench.index.len());
    bench.assert_shape();
}

#[test]
fn threads_that_write_the_same_keys_agree() {
    for seed in 0..8 {
        contend(seed, if cfg!(debug_assertions) { 6_000 } else { 60_000 });
    }
}

/// Threads fill and empty the index again and again, so that the root slot changes too.
#[test]
fn threads_that_empty_the_index_agree() {
    let bench = Bench::new();
    let keys: [&[u8]; 4] = [b"", b"a", b"ab", b"b"];
    together(3, |thread| {
        let mut rng = Rng::new(thread as u64);
        let own = rid(thread as u64);
        for _ in 0..if cfg!(debug_assertions) { 10_000 } else { 200_000 } {
            let key = keys[rng.below(4) as usize];
            if bench.insert(key, own).is_ok() {
                assert_eq!(bench.get(key), Some(own));
                assert!(bench.remove(key, own));
            }
        }
    });
    bench.assert_is(&Model::new());
}

/// Each thread adds its share of many keys, and removes some of them.
#[test]
fn threads_that_write_many_keys_lose_none() {
    let bench = Bench::new();
    let count = if cfg!(debug_assertions) { 20_000 } else { 200_000 };
    let key = |number: u64| {
        let mut key = (number * 0x9E37_79B9).to_be_bytes().to_vec();
        key.truncate(4 + number as usize % 5);
        key.extend(number.to_be_bytes());
        key
    };
    together(4, |thread| {
        let own = || (0..count).filter(|number| number % 4 == thread as u64);
        for number in own() {
            bench.insert(&key(number), rid(number)).unwrap();
        }
        for number in own().filter(|number| number % 3 == 0) {
            assert!(bench.remove(&key(number), rid(number)));
        }
    });
    let model: Model = (0..count)
        .filter(|number| number % 3 > 0)
        .map(|number| (key(number), rid(number)))
        .collect();
    bench.assert_is(&model);
    for number in 0..count {
        assert_eq!(bench.get(&key(number)).is_some(), number % 3 > 0);
    }
}
