//! The block cache over numbered blocks without contents. A benchmark replays a trace of reads with
//! it, and counts the hits.

use std::sync::Arc;

use spillway_base::budget::Budget;

use super::{Cache, CacheSettings, Holder, Seat, Sizes};

/// Blocks of an extent.
const BLOCKS: u64 = 128;
const BLOCK: Sizes = Sizes { held: 16 << 10, saved: 16 << 10 };
const TABLE: Sizes = Sizes { held: 24 << 10, saved: 20 << 10 };

struct Extent(Seat<Extent>);

impl Holder for Extent {
    type Table = ();
    type Block = ();

    fn seat(&self) -> &Seat<Extent> {
        &self.0
    }
}

/// The cache of the tiered engine over numbered blocks without contents.
pub struct CacheTrace {
    cache: Cache<Extent>,
    extents: Vec<Arc<Extent>>,
}

impl CacheTrace {
    /// A cache with memory for this many of all blocks, tables and blocks together.
    #[must_use]
    pub fn new(capacity_blocks: u64, all_blocks: u64) -> CacheTrace {
        let settings = CacheSettings::fixed(capacity_blocks as usize * BLOCK.held);
        let cache = Cache::new(settings, &Budget::new(usize::MAX));
        let extent = |_| Arc::new(Extent(Seat::of(Some(&cache))));
        let extents = (0..all_blocks.div_ceil(BLOCKS)).map(extent).collect();
        CacheTrace { cache, extents }
    }

    /// Reads a block. Returns whether it was cached.
    pub fn read(&mut self, block: u64) -> bool {
        let (number, index) = (block / BLOCKS, (block % BLOCKS) as usize);
        let extent = &self.extents[number as usize];
        let mut pin = self.cache.pin();
        let table = extent.0.table(&pin);
        if table.is_some_and(|table| table.block(index, &pin).is_some()) {
            return true;
        }
        let table = extent.0.table_to_keep(&pin);
        pin.outside(|| {
            let table = table
                .unwrap_or_else(|| self.cache.seat(extent, number, (), BLOCKS as usize, TABLE));
            self.cache.insert(&table, index, (), BLOCK);
        });
        false
    }
}

impl Drop for CacheTrace {
    fn drop(&mut self) {
        self.extents.iter().for_each(|extent| self.cache.forget(extent));
    }
}
