//! The block cache: data blocks by extent and number, in shards, each swept by a clock hand.
//!
//! A hit takes its shard's lock for reading and sets a mark; only an insertion takes it for
//! writing, and sweeps: a marked entry loses its mark, an unmarked one goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RwLock;
use rustc_hash::FxHashMap;
use spillway_base::budget::{Budget, Charge, Use};

use crate::extent_meta::ExtentId;

const SHARDS: usize = 32;
/// What an entry costs beside its value: the map's and the ring's share.
const ENTRY_BYTES: usize = 64;

/// A data block's address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct BlockKey {
    pub(crate) extent: ExtentId,
    pub(crate) block: u32,
}

struct Entry<V> {
    key: BlockKey,
    value: Arc<V>,
    bytes: usize,
    marked: AtomicBool,
}

struct Shard<V> {
    places: FxHashMap<BlockKey, usize>,
    ring: Vec<Entry<V>>,
    hand: usize,
    charge: Charge,
}

impl<V> Shard<V> {
    fn remove(&mut self, place: usize) {
        let entry = self.ring.swap_remove(place);
        self.places.remove(&entry.key);
        if let Some(moved) = self.ring.get(place) {
            self.places.insert(moved.key, place);
        }
        self.charge.resize(self.charge.bytes() - entry.bytes);
    }

    /// Evicts until at most `bytes` are held.
    fn shrink_to(&mut self, bytes: usize) {
        while self.charge.bytes() > bytes && !self.ring.is_empty() {
            self.hand %= self.ring.len();
            let marked = self.ring[self.hand].marked.get_mut();
            if std::mem::take(marked) {
                self.hand += 1;
            } else {
                self.remove(self.hand);
            }
        }
    }
}

/// Data blocks in memory, up to a number of bytes.
pub(crate) struct BlockCache<V> {
    shards: Vec<RwLock<Shard<V>>>,
    capacity: usize,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl<V> BlockCache<V> {
    /// A cache of at most `capacity` bytes, charged to the budget.
    pub(crate) fn new(capacity: usize, budget: &Budget) -> BlockCache<V> {
        let shard = || Shard {
            places: FxHashMap::default(),
            ring: Vec::new(),
            hand: 0,
            charge: budget.charge(Use::Caches, 0),
        };
        BlockCache {
            shards: (0..SHARDS).map(|_| RwLock::new(shard())).collect(),
            capacity,
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }

    fn shard(&self, key: BlockKey) -> &RwLock<Shard<V>> {
        let mixed = (key.extent.0 << 8 ^ u64::from(key.block)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        &self.shards[(mixed >> 59) as usize % SHARDS]
    }

    /// The block, if it is here.
    pub(crate) fn get(&self, key: BlockKey) -> Option<Arc<V>> {
        let shard = self.shard(key).read();
        let found = shard.places.get(&key).map(|&place| {
            let entry = &shard.ring[place];
            if !entry.marked.load(Ordering::Relaxed) {
                entry.marked.store(true, Ordering::Relaxed);
            }
            entry.value.clone()
        });
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Keeps a block of `bytes` bytes, unless it alone would fill a shard.
    pub(crate) fn insert(&self, key: BlockKey, value: Arc<V>, bytes: usize) {
        let bytes = bytes + ENTRY_BYTES;
        let room = self.capacity / SHARDS;
        if bytes > room {
            return;
        }
        let mut shard = self.shard(key).write();
        if shard.places.contains_key(&key) {
            return;
        }
        shard.shrink_to(room - bytes);
        let place = shard.ring.len();
        shard.places.insert(key, place);
        shard.ring.push(Entry { key, value, bytes, marked: AtomicBool::new(false) });
        let held = shard.charge.bytes() + bytes;
        shard.charge.resize(held);
    }

    /// Drops the blocks of an extent that is gone.
    pub(crate) fn forget(&self, extent: ExtentId, blocks: u32) {
        for block in 0..blocks {
            let key = BlockKey { extent, block };
            let shard = self.shard(key);
            if shard.read().places.contains_key(&key) {
                let mut shard = shard.write();
                if let Some(&place) = shard.places.get(&key) {
                    shard.remove(place);
                }
            }
        }
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.shards.iter().map(|shard| shard.read().charge.bytes()).sum()
    }

    /// How many look-ups found their block, and how many did not.
    pub(crate) fn hits_and_misses(&self) -> (u64, u64) {
        (self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
    }
}
