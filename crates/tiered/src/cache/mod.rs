//! What of the extents is in memory: data blocks, and *tables*, which are an extent's block index
//! and filters.
//!
//! A reader follows pointers: from an extent's handle to its table, from the table to its blocks
//! (after "Optimizing X-Engine's In-memory Read Performance", pointer swizzling). The cache decides
//! what stays in memory, and is not asked on the way.
//!
//! # Guarantees
//!
//! - **N1 (what is read is whole).** What a reader reached with a pin stays in memory, unchanged,
//!   until the pin is dropped; what it took a reference of, until that is dropped. Whatever is
//!   evicted, forgotten or replaced meanwhile.
//! - **N2 (a hit costs no lock and no count).** A hit loads a pointer, and at most sets a mark
//!   beside it, in the same word. A pin changes one word, which hardly any other thread uses, when
//!   it begins and when it ends.
//! - **N3 (one capacity).** Tables and blocks share what the budget leaves: its limit, less a
//!   headroom, less what everything else holds, but for the memory that evicted blocks were in
//!   ([`spillway_base::budget::Use::FreePages`]), which is for the next ones; at least the floor,
//!   at most the ceiling of the settings. The cache is past that only by what is being inserted.
//! - **N4 (gives way).** When others need memory (Y1, Y2), as much as they need is evicted, above
//!   the floor, and is off the budget when the cache is done giving way. It is freed once no reader
//!   is inside of it, which is waited for a moment: a reader that the system has interrupted there
//!   may keep an eighth of the budget, at the most, that is not charged any more.
//! - **N5 (no orphans).** A block is in memory only while its table is: one that is evicted takes
//!   its blocks along. What is in memory of an extent goes with the last handle of it, and nothing
//!   comes in for it afterwards.
//! - **N6 (tables stay longer).** A table is evicted before the blocks it leads to only where
//!   tables hold more than their share.
//! - **N7 (charged until freed).** What is in the cache, and what left it and may still be looked
//!   at, is charged to the budget, save for N4.
//! - **N8 (tables that were written).** A table that a flush or compaction puts in is neither a hit
//!   nor a miss, replaces nothing that is in the cache already, and is held within the same
//!   capacity (N3).
//!
//! # The parts
//!
//! [`tagged_ptr`]: a pointer that is null or leads to something in memory; marks are in its low bits.
//! [`spillway_memory::epochs`]: which readers may still look at what was taken out of a tagged pointer. [`eviction_queue`]: what is
//! evicted next. [`ghost_list`]: what was evicted lately. [`block_cache`]: the cache itself. [`rows`]:
//! single rows, beside blocks. [`cache_balancer`]: what part of the memory is for those.
//!
//! Whoever changes what is in memory, at a miss, an eviction, or the end of an extent, holds the
//! one lock of the cache. A miss reads a device and checks and decodes a block, against which the
//! lock is held for a moment; and one order over all blocks knows better than many over parts of
//! them which is the least of use.
//!
//! Rejected: to count references in place of epochs. A count that all readers of a hot block change
//! goes from core to core at each read. And a hash map from block to memory: a lookup is a hash, a
//! lock, two counts and several cache lines, for each block that a read passes. Gets in memory were
//! 1.33 times slower with one (`docs/decisions/031-block-cache.md`).

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
pub(crate) use spillway_memory::epochs::Pin;
pub use trace::CacheTrace;

pub(crate) use block_cache::{
    Cache, CacheSettings, Entrance, Held, Holder, Kept, Seat, Sizes, Table,
};
pub(crate) use rows::{Looked, RowCache, Tag};
