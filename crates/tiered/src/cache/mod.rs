//! The caches: data blocks, *tables* (an extent's block index and filters), and single rows.
//!
//! A reader follows pointers: from an extent's handle to its table, and from the table to its
//! blocks (pointer swizzling, after "Optimizing X-Engine's In-memory Read Performance"). A reader
//! that finds its block this way does not call the cache. The cache only decides which tables and
//! blocks stay in memory.
//!
//! # Guarantees
//!
//! - **BLOCK-CACHE-1 (safe reads).** An entry that a reader reached with a pin stays in memory,
//!   unchanged, until the pin is dropped, even if the cache evicts the entry meanwhile. An entry to
//!   which a reader holds a reference stays in memory until the reference is dropped.
//! - **BLOCK-CACHE-2 (a hit takes no lock and no reference count).** A hit loads a pointer, and at
//!   most sets a mark in the same word. When a pin begins and when it ends, it changes one word,
//!   which few other threads use.
//! - **BLOCK-CACHE-3 (one capacity).** Tables and blocks share one capacity: the limit of the
//!   budget, less a headroom, less all other charges. Free pages of evicted blocks
//!   ([`spillway_base::budget::Use::FreePages`]) are not among these charges, because the next
//!   blocks reuse the pages. The capacity is at least the floor and at most the ceiling of the
//!   settings. The cache exceeds the capacity only by entries that are being inserted.
//! - **BLOCK-CACHE-4 (makes room).** When another user of the budget needs memory (BUDGET-1,
//!   BUDGET-2), the budget calls the cache. The cache evicts entries of as many bytes as are
//!   needed, but keeps its floor. Then it waits briefly for the readers of these entries to leave.
//!   When the call returns, these bytes are no longer charged. If a reader has not left in time,
//!   for example because the system has preempted it, the memory of its entries is no longer
//!   charged although it is not free yet. Such memory is at most an eighth of the budget.
//! - **BLOCK-CACHE-5 (no orphans).** A block is in memory only while its table is in memory. The
//!   eviction of a table evicts its blocks too. When the last handle of an extent is dropped, the
//!   extent's table and blocks leave the cache, and nothing is inserted for this extent afterwards.
//! - **BLOCK-CACHE-6 (tables stay longer).** As long as tables hold at most their share, three
//!   quarters of the cache, a table is evicted only after all its blocks.
//! - **BLOCK-CACHE-7 (charged until freed).** Cached entries, and evicted entries that a reader may
//!   still see, are charged to the budget. BLOCK-CACHE-4 states the only exception.
//!
//! # Parts
//!
//! - [`tagged_ptr`]: pointers with marks of use in their low bits;
//! - [`spillway_reclaim::epochs`]: which readers may still see an evicted entry;
//! - [`eviction_queue`]: which entry is evicted next; [`ghost_list`]: entries that were evicted
//!   lately;
//! - [`block_cache`]: the cache of blocks and tables; [`rows`]: the cache of rows;
//! - [`cache_balancer`]: the division of memory between blocks and rows.
//!
//! One lock protects the block cache. A miss, an eviction and the drop of an extent's last handle
//! take the lock. A miss reads a device and decodes a block, so the short time under the lock
//! matters little. With one lock, all blocks have one eviction order. It chooses better victims
//! than a separate order for each of several shards would.
//!
//! Rejected: reference counts instead of epochs. Each reader of a hot block would move the cache
//! line of the block's count to its own core.
//!
//! Rejected: a hash map from block numbers to cached blocks. Each lookup of a block would compute a
//! hash, take a lock, change two counts and load several cache lines. With such a map, gets in
//! memory were 1.33 times slower (`docs/decisions/031-block-cache.md`).

mod block_cache;
mod cache_balancer;
mod eviction_queue;
mod ghost_list;
#[cfg(all(test, loom))]
mod loom_tests;
mod rows;
mod tagged_ptr;
#[cfg(all(test, not(loom)))]
mod tests;
mod trace;

pub(crate) use cache_balancer::CacheBalancer;
pub(crate) use spillway_reclaim::epochs::Pin;
pub use trace::CacheTrace;

pub(crate) use block_cache::{
    Cache, CacheSettings, Holder, Kept, QueuedBlock, QueuedTable, Seat, Sizes,
};
pub(crate) use rows::{Looked, RowCache, Tag};
