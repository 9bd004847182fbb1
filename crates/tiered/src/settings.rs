//! The engine's settings, and the limits that follow from them.

use std::time::Duration;

use spillway_base::Csn;
use spillway_storage::async_reads::AsyncReadSettings;

use crate::block::{BLOCK_BYTES, BlockSearch, HOT_BLOCK_BYTES};
use crate::block_search::Way;
use crate::cache::{CacheBalancer, CacheSettings};
use crate::coding::{Coding, Compression};
use crate::compaction::Policy;
use crate::extent::ReadSettings;
use crate::manifest::Place;
use crate::picker::{CompactionKind, Shape};
use crate::space::{DeviceClass, Tier};

/// Settings of the tiered engine. [`TieredSettings::for_memory`] derives all of them from a memory
/// budget.
#[derive(Clone, Debug, PartialEq)]
pub struct TieredSettings {
    /// Bytes of all memtables, including those that are being flushed.
    pub memtables_bytes: usize,
    /// Bytes at which a memtable is sealed.
    pub memtable_bytes: usize,
    /// The most bytes of cached blocks, indexes and filters.
    pub cache_bytes: usize,
    /// Bytes that the block cache keeps even if other uses need memory.
    pub cache_bytes_min: usize,
    /// The row cache's initial share of the memory that the budget leaves to caches; 0 for no row
    /// cache.
    pub row_cache_share: f64,
    /// Whether the row cache's share follows the measured worth of cached rows.
    pub adaptive_share: bool,
    /// Whether single rows can be read without a registered snapshot ([`spillway_base::engine`],
    /// E13).
    pub recall: bool,
    /// Whether cached blocks, and the row cache's table, are in large pages of the system, if it
    /// has them and memory is plenty.
    pub large_pages: bool,
    /// Whether a get that misses reads only the needed part of a block, if the whole block would
    /// only evict others.
    pub part_reads: bool,
    /// Whether a scan reads a block of a run only when it comes to a key that a range filter
    /// announces.
    pub range_filters: bool,
    /// Whether scans and multi-gets read blocks before they need them.
    pub read_ahead: bool,
    /// Queues for asynchronous reads ([`spillway_base::engine::Engine::begin_read`]), if a caller
    /// asks for them.
    pub read_queues: usize,
    /// Whether asynchronous reads are submitted to the device several at once.
    pub gathered_reads: bool,
    /// Whether a reader waits for the device if its read would be the only one and the caller's
    /// threads have nothing else to do.
    pub lone_waits: bool,
    /// Whether readers, flushes and compactions bypass the system's page cache, as far as file
    /// systems can. Readahead bypasses it anyway.
    pub direct_reads: bool,
    /// Bytes of a slot. Fixed when a data folder is created.
    pub slot_bytes: usize,
    /// The largest size of a data file, in bytes.
    pub file_bytes: u64,
    /// Bytes at which a sub-table is split in two.
    pub subtable_bytes: u64,
    /// The largest number of sub-tables, of all tables; each has a memtable. A table has one at
    /// least.
    pub subtables_max: usize,
    /// Sub-levels of Level0 from which on intra-Level0 compactions merge some.
    pub level0_target: usize,
    /// Bytes that Level0 of a table may hold even if little is below it.
    pub level0_bytes: u64,
    /// Sub-levels of Level0 at which writers are slowed the most.
    pub level0_limit: usize,
    /// The kinds of compactions, the most important first (X-Engine, section 3.3.3). A compaction
    /// that relieves writers precedes all of them.
    pub compaction_order: Vec<CompactionKind>,
    /// The fewest tombstones of a slice for which a deletion compaction is due.
    pub deletions_min: u64,
    /// The ceiling on space amplification: bytes of a table's extents for each byte that is in use
    /// in Level2, which has about one version of each row.
    pub space_max: f64,
    /// Bytes that Level0 may hold, as a share of the bytes below it.
    pub level0_share: f64,
    /// Whether minor compactions take parts of Level0 of about equal size, wherever its sub-levels
    /// end, and intra-Level0 compactions write the fewest bytes for each memtable that Level0 can
    /// then take before it must merge as much again. Without it, the parts follow one sub-level,
    /// and an intra-Level0 compaction writes the fewest bytes for each sub-level that it removes.
    pub even_level0: bool,
    /// Whether compactions pause while the debt is small, so that they do not slow concurrent work.
    pub paced_compaction: bool,
    /// Whether compactions reuse slices and blocks that they need not change (X-Engine, section
    /// 3.3.2). Without it they merge everything.
    pub data_reuse: bool,
    /// Folders for data files on other devices, one of each class. The data folder is the `ssd`
    /// unless another folder is given as that; then it takes no new files. Level0 and Level1 are on
    /// the fastest class, Level2 on the slowest.
    pub tiers: Vec<Tier>,
    /// Bytes in memory of a full block of Level0 and Level1; blocks of Level2 have 16 KiB.
    pub hot_block_bytes: usize,
    /// The compression of blocks of Level0 and Level1, which are written and read often.
    pub hot_compression: Compression,
    /// The compression of blocks of Level2, which has nearly all data.
    pub cold_compression: Compression,
    /// Time without writes to a sub-table after which its data above Level2 is compressed as Level2
    /// is.
    pub settle_after: Duration,
    /// Whether reads of extents are counted, so that compactions push cold data down and hot data
    /// moves to faster devices (X-Engine, appendix C).
    pub temperature: bool,
    /// The share of Level1's target in which hot data stays although it is due to go down. None
    /// stays if a read of Level2 costs no more: the same class of device and the same coding.
    pub hot_share: f64,
    /// Whether scans skip ranges in which an earlier scan found only tombstones.
    pub gaps: bool,
    /// Whether blocks are searched by nodes over their keys instead of by binary search.
    pub block_nodes: bool,
    /// Whether those nodes are searched by vector instructions.
    pub simd: bool,
    /// Whether flushes and compactions read ahead and write behind while they merge (X-Engine,
    /// section 3.3.2).
    pub overlapped_compactions: bool,
    /// Bytes of a manifest past which it is rewritten.
    pub manifest_bytes: u64,
}

/// A minor compaction goes straight into Level2 if it overlaps less than this many times its own
/// bytes there: about the ratio in major compactions when Level1 is at its target size.
const LEVEL2_TIMES: f64 = 3.0;
/// The ceiling on space from which on Level0 and Level1 may have the size that performs best.
const SPACE_PLENTY: f64 = 2.0;
/// The bytes that extents of Level2 may take for each byte in use, even under a lower ceiling:
/// extents are never all full.
const LEVEL2_SPACE_LEAST: f64 = 1.05;
/// The size of dictionaries. Larger ones take more memory and hardly save more space.
const DICTIONARY_BYTES: usize = 16 << 10;

impl TieredSettings {
    /// Bytes that blocks of Level2 have in memory when they are full.
    pub const BLOCK_BYTES: usize = BLOCK_BYTES;

    /// How blocks are searched.
    pub(crate) fn block_search(&self) -> BlockSearch {
        match (self.block_nodes, self.simd) {
            (false, _) => BlockSearch::Halving,
            (true, false) => BlockSearch::Nodes(Way::Scalar),
            (true, true) => BlockSearch::best(),
        }
    }

    /// The settings for a memory budget, in bytes.
    #[must_use]
    pub fn for_memory(bytes: usize) -> TieredSettings {
        let memtables_bytes = (bytes / 4).max(4 << 20);
        // A third of the memory for each memtable: one fills while another is flushed, with some
        // room between. The larger the memtables, the fewer times their data is merged.
        let memtable_bytes = (memtables_bytes / 3).clamp(1 << 20, 128 << 20);
        TieredSettings {
            memtables_bytes,
            memtable_bytes,
            subtable_bytes: (32 * memtable_bytes as u64).max(1 << 30),
            subtables_max: (memtables_bytes / (4 << 20)).clamp(1, 1024),
            cache_bytes: bytes,
            cache_bytes_min: bytes / 8,
            row_cache_share: 0.25,
            adaptive_share: true,
            recall: true,
            large_pages: true,
            part_reads: true,
            range_filters: true,
            read_ahead: true,
            read_queues: 1,
            gathered_reads: true,
            lone_waits: true,
            direct_reads: false,
            slot_bytes: 2 << 20,
            file_bytes: 1 << 30,
            level0_target: 14,
            level0_bytes: 2 * memtable_bytes as u64,
            level0_limit: 46,
            level0_share: 1.0 / 8.0,
            compaction_order: CompactionKind::ORDER.into(),
            deletions_min: 1000,
            space_max: 2.0,
            even_level0: true,
            paced_compaction: true,
            data_reuse: true,
            gaps: true,
            block_nodes: true,
            simd: true,
            overlapped_compactions: true,
            tiers: Vec::new(),
            hot_block_bytes: HOT_BLOCK_BYTES,
            hot_compression: Compression::None,
            cold_compression: Compression::ZSTD,
            settle_after: Duration::from_secs(10),
            temperature: true,
            hot_share: 0.5,
            manifest_bytes: 4 << 20,
        }
    }

    /// How extents are read.
    pub(crate) fn reads(&self) -> ReadSettings {
        ReadSettings {
            cache: self.cache(),
            search: self.block_search(),
            temperature: self.temperature,
            direct: self.direct_reads,
            large_pages: self.large_pages,
            part_reads: self.part_reads,
        }
    }

    /// The settings of asynchronous reads of extents.
    pub(crate) fn async_reads(&self) -> AsyncReadSettings {
        AsyncReadSettings {
            lanes: self.read_queues,
            direct: self.direct_reads,
            gathers: self.gathered_reads,
            waits_alone: self.lone_waits,
        }
    }

    /// The division of cache memory between rows and blocks.
    pub(crate) fn cache_balancer(&self) -> CacheBalancer {
        CacheBalancer::new(self.row_cache_share, self.adaptive_share)
    }

    /// The size limits of the cache.
    fn cache(&self) -> CacheSettings {
        CacheSettings {
            bytes_min: self.cache_bytes_min.min(self.cache_bytes),
            bytes_max: self.cache_bytes,
            finds_ghosts: self.adaptive_share && self.row_cache_share > 0.0,
        }
    }

    /// What a compaction may reuse unchanged, if other levels may hold versions from `others_from`
    /// on.
    pub(crate) fn reuse_policy(&self, place: Place, others_from: Csn) -> Policy {
        let extent = self.slot_bytes as u64;
        Policy {
            reuse: self.data_reuse,
            others_from,
            slice_bytes_min: extent / 8,
            used_bytes_min: extent / 2,
            coding_min: Coding::Stored,
            block_bytes: self.block_bytes_at(place),
        }
    }

    /// Bytes that blocks at a place have in memory when they are full.
    pub(crate) fn block_bytes_at(&self, place: Place) -> usize {
        match place {
            Place::Level0(_) | Place::Level1 => self.hot_block_bytes,
            Place::Level2 => BLOCK_BYTES,
        }
    }

    /// The bytes of an extent that must be in use; an extent with fewer counts as wasteful.
    pub(crate) fn used_bytes_least(&self) -> u64 {
        (self.slot_bytes as f64 / self.level2_space_max()) as u64
    }

    /// The bytes of Level2's extents for each byte in use there, past which compactions merge
    /// extents of Level2. Level2 gets a quarter of the space that may be wasted, or a little more
    /// if that is very little. The levels above get the rest, where it is worth more: the smaller
    /// they must be, the more often all data below is rewritten. If the ceiling is above
    /// [`SPACE_PLENTY`], Level2 may waste more, because such a setting prefers wasted space to
    /// writes.
    fn level2_space_max(&self) -> f64 {
        let share = 1.0 + (self.space_max - 1.0) / 4.0;
        let plenty = 1.0 + (SPACE_PLENTY - 1.0) / 4.0;
        share.min(plenty).max(LEVEL2_SPACE_LEAST).max(plenty * self.space_max / SPACE_PLENTY)
    }

    /// The bytes that Level0 and Level1 may have for each byte of Level2.
    fn above_max(&self) -> f64 {
        (self.space_max / self.level2_space_max() - 1.0).max(0.0)
    }

    /// The class of device that a place is meant for.
    pub(crate) fn class_at(place: Place) -> DeviceClass {
        match place {
            Place::Level0(_) | Place::Level1 => DeviceClass::Fast,
            Place::Level2 => DeviceClass::Hdd,
        }
    }

    /// Whether blocks at a place have range filters: where runs have few of a table's rows.
    pub(crate) fn has_range_filters(place: Place) -> bool {
        !matches!(place, Place::Level2)
    }

    /// How blocks are compressed at a place, on a device of a class.
    pub(crate) fn compression_at(&self, place: Place, class: DeviceClass) -> Compression {
        let tier = self.tiers.iter().find(|tier| tier.class == class);
        tier.and_then(|tier| tier.compression).unwrap_or(match place {
            Place::Level0(_) | Place::Level1 => self.hot_compression,
            Place::Level2 => self.cold_compression,
        })
    }

    /// After this many flushed bytes, past reads of an extent weigh half as much.
    pub(crate) fn half_life(&self) -> u64 {
        4 * self.memtables_bytes as u64
    }

    /// Bytes of a dictionary.
    pub(crate) fn dictionary_bytes(&self) -> usize {
        (self.slot_bytes / 16).min(DICTIONARY_BYTES)
    }

    /// The shape that compactions give to a table.
    pub(crate) fn shape(&self) -> Shape {
        // With several devices, no data skips Level1, which is on the fastest one.
        let is_one_device = self.tiers.is_empty();
        Shape {
            level0_target: self.level0_target,
            level0_limit: self.level0_limit,
            level1_bytes_min: 2 * self.level0_bytes,
            level0_bytes: self.level0_bytes,
            level0_share: self.level0_share,
            level2_times: if is_one_device && self.level0_share > 0.0 { LEVEL2_TIMES } else { 0.0 },
            input_bytes: (2 * self.level0_bytes).max(16 * self.slot_bytes as u64),
            deletions_min: self.deletions_min,
            extent_bytes: self.slot_bytes as u64,
            block_bytes: (BLOCK_BYTES as u64).min(self.slot_bytes as u64 / 2),
            space_max: self.level2_space_max(),
            above_max: self.above_max(),
            hot_share: if self.temperature { self.hot_share } else { 0.0 },
            even_level0: self.even_level0,
            short_of_space: None,
        }
    }
}
