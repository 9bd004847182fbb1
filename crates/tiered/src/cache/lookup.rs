//! Where blocks are, by extent and number: what readers ask who do not follow pointers, so that it
//! can be measured what those bring.

use std::sync::atomic::{AtomicU64, Ordering};

use rustc_hash::FxHashMap;
use spillway_base::lock::RwLock;

use super::epochs::Pin;
use super::residence::{Held, Holder, Kept, Seat, Table};

const SHARDS: usize = 32;

type Shard<T> = RwLock<FxHashMap<(u64, u32), Kept<T>>>;

/// Maps with a lock each, by key.
struct Map<T>([Shard<T>; SHARDS]);

impl<T> Default for Map<T> {
    fn default() -> Map<T> {
        Map(std::array::from_fn(|_| RwLock::default()))
    }
}

impl<T> Map<T> {
    fn shard(&self, (extent, block): (u64, u32)) -> &Shard<T> {
        let mixed = (extent << 8 ^ u64::from(block)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        &self.0[(mixed >> 59) as usize % SHARDS]
    }

    fn get(&self, key: (u64, u32)) -> Option<Kept<T>> {
        self.shard(key).read().get(&key).cloned()
    }

    fn insert(&self, key: (u64, u32), thing: &Kept<T>) {
        self.shard(key).write().insert(key, thing.clone());
    }

    fn remove(&self, key: (u64, u32)) {
        // What it refers to is not dropped with the lock held.
        let gone = self.shard(key).write().remove(&key);
        drop(gone);
    }
}

/// What is in a cache.
pub(crate) struct Lookup<H: Holder> {
    tables: Map<Table<H>>,
    blocks: Map<Held<H::Block>>,
    hits: AtomicU64,
}

impl<H: Holder> Default for Lookup<H> {
    fn default() -> Lookup<H> {
        Lookup { tables: Map::default(), blocks: Map::default(), hits: AtomicU64::new(0) }
    }
}

impl<H: Holder> Lookup<H> {
    /// The table of an extent, marked as used at its seat.
    pub(crate) fn table(&self, key: u64, seat: &Seat<H>, pin: &Pin<'_>) -> Option<Kept<Table<H>>> {
        let found = self.tables.get((key, 0));
        seat.table(pin);
        found
    }

    /// A block, marked as used at its table.
    pub(crate) fn block(
        &self,
        table: &Table<H>,
        index: usize,
        pin: &Pin<'_>,
    ) -> Option<Kept<Held<H::Block>>> {
        let found = self.blocks.get((table.key(), index as u32));
        table.mark(index, pin);
        if found.is_some() {
            self.hits.fetch_add(1, Ordering::Relaxed);
        }
        found
    }

    pub(super) fn insert_table(&self, key: u64, table: &Kept<Table<H>>) {
        self.tables.insert((key, 0), table);
    }

    pub(super) fn remove_table(&self, key: u64) {
        self.tables.remove((key, 0));
    }

    pub(super) fn insert_block(&self, key: u64, index: u32, block: &Kept<Held<H::Block>>) {
        self.blocks.insert((key, index), block);
    }

    pub(super) fn remove_block(&self, key: u64, index: u32) {
        self.blocks.remove((key, index));
    }

    pub(super) fn hits(&self) -> u64 {
        self.hits.load(Ordering::Relaxed)
    }
}
