//! Compares the speed and memory of the index with other ordered maps: `BTreeMap` behind a lock,
//! `scc`'s tree and `masstree`.
//!
//! `cargo run --release -p spillway-memory --example index_speed [KEYS [MAP]]` prints, for each
//! kind of keys, million operations per second with one and with two threads, and heap bytes per
//! key. The maps take turns in three rounds, and the median round counts. A second is a second of
//! processor time of the threads. So other work on the machine has less influence, and the time
//! that a thread sleeps for a lock does not count.
#![allow(unsafe_code)] // An allocator that counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use masstree::{MassTree, RangeBound};
use scc::{Guard, TreeIndex};
use spillway_base::Direction;
use spillway_base::lock::RwLock;
use spillway_base::rng::Rng;
use spillway_base::thread::together;
use spillway_memory::index::{Entries, Index, NodeMemory};
use spillway_memory::rid::Rid;
use spillway_reclaim::epochs::Epochs;

const ROUNDS: usize = 3;
/// Entries of a scan.
const SCAN: usize = 100;

/// Counts bytes as glibc's chunks have them, while it is switched on.
struct Counting;

static COUNTS: AtomicBool = AtomicBool::new(false);
static BYTES: AtomicUsize = AtomicUsize::new(0);

fn count(layout: Layout, add: fn(&AtomicUsize, usize, Ordering) -> usize) {
    if COUNTS.load(Ordering::Relaxed) {
        add(&BYTES, (layout.size() + 8).next_multiple_of(16).max(32), Ordering::Relaxed);
    }
}

// SAFETY: the system's allocator does the work.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout, AtomicUsize::fetch_add);
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(layout, AtomicUsize::fetch_sub);
        // SAFETY: the caller's.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A map that is compared. Each answer is a number to add up, so that nothing is optimized away.
trait Map: Sync {
    fn insert(&self, key: &[u8], rid: Rid);
    fn get(&self, key: &[u8]) -> u64;
    /// Copies keys and RIDs from a key on.
    fn scan(&self, from: &[u8], out: &mut ScanBuffer) -> u64;
    fn finish(&self) {}
}

#[derive(Default)]
struct ScanBuffer {
    entries: Entries,
    keys: Vec<u8>,
    rids: Vec<u64>,
}

impl ScanBuffer {
    fn clear(&mut self) {
        self.keys.clear();
        self.rids.clear();
    }

    /// Takes an entry. Answers whether the scan goes on.
    fn take(&mut self, key: &[u8], rid: u64) -> bool {
        self.keys.extend_from_slice(key);
        self.rids.push(rid);
        self.rids.len() < SCAN
    }
}

struct OwnMap {
    epochs: Arc<Epochs>,
    index: Index,
}

impl Map for OwnMap {
    fn insert(&self, key: &[u8], rid: Rid) {
        self.index.insert(key, rid, &self.epochs.pin()).expect("keys differ");
    }

    fn get(&self, key: &[u8]) -> u64 {
        self.index.get(key, &self.epochs.pin()).map_or(0, Rid::slot)
    }

    fn scan(&self, from: &[u8], out: &mut ScanBuffer) -> u64 {
        let range = (Bound::Included(from), Bound::Unbounded);
        let pin = self.epochs.pin();
        self.index.collect(range, Direction::Forward, SCAN, &mut out.entries, &pin);
        out.entries.len() as u64
    }

    fn finish(&self) {
        (0..4).for_each(|_| self.index.reclaim());
    }
}

type LockedMap = RwLock<BTreeMap<Box<[u8]>, u64>>;

impl Map for LockedMap {
    fn insert(&self, key: &[u8], rid: Rid) {
        self.write().insert(key.into(), rid.slot());
    }

    fn get(&self, key: &[u8]) -> u64 {
        self.read().get(key).copied().unwrap_or_default()
    }

    fn scan(&self, from: &[u8], out: &mut ScanBuffer) -> u64 {
        out.clear();
        let map = self.read();
        let mut range = map.range::<[u8], _>((Bound::Included(from), Bound::Unbounded));
        while range.next().is_some_and(|(key, rid)| out.take(key, *rid)) {}
        out.rids.len() as u64
    }
}

impl Map for TreeIndex<Box<[u8]>, u64> {
    fn insert(&self, key: &[u8], rid: Rid) {
        self.insert_sync(key.into(), rid.slot()).expect("keys differ");
    }

    fn get(&self, key: &[u8]) -> u64 {
        self.peek_with(key, |_, rid| *rid).unwrap_or_default()
    }

    fn scan(&self, from: &[u8], out: &mut ScanBuffer) -> u64 {
        out.clear();
        let guard = Guard::new();
        let bounds = (Bound::Included(from), Bound::Unbounded);
        let mut range = self.range::<[u8], _>(bounds, &guard);
        while range.next().is_some_and(|(key, rid)| out.take(key, *rid)) {}
        out.rids.len() as u64
    }
}

impl Map for MassTree<u64> {
    fn insert(&self, key: &[u8], rid: Rid) {
        self.insert_with_guard(key, rid.slot(), &self.guard());
    }

    fn get(&self, key: &[u8]) -> u64 {
        self.get_with_guard(key, &self.guard()).unwrap_or_default()
    }

    fn scan(&self, from: &[u8], out: &mut ScanBuffer) -> u64 {
        out.clear();
        let (from, until) = (RangeBound::Included(from), RangeBound::Unbounded);
        self.scan(from, until, |key, rid| out.take(key, rid), &self.guard());
        out.rids.len() as u64
    }
}

fn own() -> Box<dyn Map> {
    let epochs = Arc::new(Epochs::default());
    let index = Index::new(epochs.clone(), Arc::new(NodeMemory::default()));
    Box::new(OwnMap { epochs, index })
}

const MAPS: [(&str, fn() -> Box<dyn Map>); 4] = [
    ("index", own),
    ("RwLock<BTreeMap>", || Box::new(LockedMap::default())),
    ("scc TreeIndex", || Box::new(TreeIndex::default())),
    ("masstree", || Box::new(MassTree::<u64>::new())),
];

type Keys = Vec<Vec<u8>>;

fn keys(kind: &str, count: u64) -> Keys {
    let mut rng = Rng::new(1);
    let mut keys: Keys = (0..count)
        .map(|number| match kind {
            "8 bytes, dense" => number.to_be_bytes().to_vec(),
            "8 bytes, random" => rng.next_u64().to_be_bytes().to_vec(),
            // A number of a thousand and one within it.
            "16 bytes" => [(number % 1_000).to_be_bytes(), (number / 1_000).to_be_bytes()].concat(),
            // Some twenty orders of each customer.
            _ => {
                let customer = rng.below(count / 20 + 1);
                format!("customer-{customer:011}/order-{number:013}").into_bytes()
            }
        })
        .collect();
    shuffle(&mut keys, &mut rng);
    keys
}

fn shuffle<T>(things: &mut [T], rng: &mut Rng) {
    for place in (1..things.len()).rev() {
        things.swap(place, rng.below(place as u64 + 1) as usize);
    }
}

/// Seconds that the calling thread has run on a processor.
fn seconds_run() -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    let ns = stat.split(' ').next().and_then(|ns| ns.parse::<f64>().ok());
    ns.expect("it begins with nanoseconds") / 1e9
}

/// Million operations per second of threads that share the keys.
fn speed(
    threads: usize,
    keys: &Keys,
    operation: impl Fn(&[u8], &mut ScanBuffer) -> u64 + Sync,
) -> f64 {
    let (sum, speed) = (AtomicUsize::new(0), RwLock::new(0.0));
    together(threads, |thread| {
        let mut buffer = ScanBuffer::default();
        let own = keys.iter().skip(thread).step_by(threads);
        let count = own.len();
        let start = seconds_run();
        let own: u64 = own.map(|key| operation(key, &mut buffer)).fold(0, u64::wrapping_add);
        let seconds = seconds_run() - start;
        sum.fetch_add(own as usize, Ordering::Relaxed);
        *speed.write() += count as f64 / seconds / 1e6;
    });
    assert_ne!(sum.into_inner(), 0);
    speed.into_inner()
}

/// Inserts, gets, misses, and entries of scans, in million per second.
fn round(make: fn() -> Box<dyn Map>, threads: usize, keys: &Keys, wanted: &Keys) -> [f64; 4] {
    let map = make();
    let inserts = speed(threads, keys, |key, _| {
        map.insert(key, Rid::new(7, 0));
        1
    });
    let gets = speed(threads, wanted, |key, _| map.get(key));
    let absent: Keys = wanted.iter().map(|key| [key, &b"!"[..]].concat()).collect();
    let misses = speed(threads, &absent, |key, _| map.get(key) + 1);
    let starts: Keys = wanted.iter().take(wanted.len() / 50).cloned().collect();
    let scans = speed(threads, &starts, |key, buffer| map.scan(key, buffer));
    [inserts, gets, misses, scans * SCAN as f64]
}

fn bytes_per_key(make: fn() -> Box<dyn Map>, keys: &Keys) -> f64 {
    BYTES.store(0, Ordering::Relaxed);
    COUNTS.store(true, Ordering::Relaxed);
    let map = make();
    keys.iter().for_each(|key| map.insert(key, Rid::new(7, 0)));
    map.finish();
    COUNTS.store(false, Ordering::Relaxed);
    BYTES.load(Ordering::Relaxed) as f64 / keys.len() as f64
}

fn median(mut figures: [f64; ROUNDS]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[ROUNDS / 2]
}

fn main() {
    let count = std::env::args().nth(1).map_or(1_000_000, |keys| keys.parse().expect("a number"));
    let only = std::env::args().nth(2);
    let maps: Vec<_> = MAPS
        .into_iter()
        .filter(|(name, _)| only.as_ref().is_none_or(|only| only == name))
        .collect();
    println!("{count} keys; million operations per second; scans count entries");
    for kind in ["8 bytes, dense", "8 bytes, random", "16 bytes", "40 bytes"] {
        let keys = keys(kind, count);
        let mut wanted = keys.clone();
        shuffle(&mut wanted, &mut Rng::new(2));
        println!("\n{kind:<24} threads  inserts    gets  misses   scans  bytes/key");
        for threads in [1, 2] {
            let mut figures = vec![[[0.0; 4]; ROUNDS]; maps.len()];
            for turn in 0..ROUNDS {
                for ((_, make), rounds) in maps.iter().zip(&mut figures) {
                    rounds[turn] = round(*make, threads, &keys, &wanted);
                }
            }
            for (map, (name, make)) in maps.iter().enumerate() {
                let of = |what: usize| median(figures[map].map(|figures| figures[what]));
                let [inserts, gets, misses, scans] = [0, 1, 2, 3].map(of);
                print!(
                    "  {name:<22} {threads:>7} {inserts:>8.2} {gets:>7.2} {misses:>7.2} {scans:>7.1}"
                );
                match threads {
                    1 => println!(" {:>10.1}", bytes_per_key(*make, &keys)),
                    _ => println!(),
                }
            }
        }
    }
}
