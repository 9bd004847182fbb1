//! The engine's settings, and what follows from them.

use std::time::Duration;

use spillway_base::Csn;

use crate::access_pattern::TableUse;
use crate::block::{BLOCK_BYTES, BlockSearch, HOT_BLOCK_BYTES};
use crate::block_search::Way;
use crate::cache::{CacheBalancer, CacheSettings};
use crate::coding::{Coding, Compression};
use crate::compaction::Policy;
use crate::extent::{AsyncReadSettings, ReadSettings};
use crate::manifest::Place;
use crate::picker::{CompactionKind, Shape};
use crate::space::{DeviceClass, Tier};

/// Settings of the tiered engine. Memory is enough; the rest has defaults that follow.
#[derive(Clone, Debug, PartialEq)]
pub struct TieredSettings {
    /// Bytes for all memtables, those being flushed included.
    pub memtables_bytes: usize,
    /// Bytes at which one memtable is switched.
    pub memtable_bytes: usize,
    /// Bytes that cached blocks, indexes and filters may have, where nothing else needs them.
    pub cache_bytes: usize,
    /// Bytes that they may have whatever else needs memory.
    pub cache_bytes_min: usize,
    /// The share of what the budget leaves to caches that single rows may have at first, which are
    /// asked for often. None of the caches is for rows at 0.
    pub row_cache_share: f64,
    /// Whether that share follows what it is worth.
    pub adaptive_share: bool,
    /// Whether a sample of the rows is looked for there while hardly any are found.
    pub row_cache_sample: bool,
    /// Whether single rows are read for who has told nobody of a snapshot
    /// ([`spillway_base::engine`], E13).
    pub recall: bool,
    /// Whether cached blocks, and the places of cached rows, are in large pages of the system,
    /// where it has them and memory is plenty.
    pub large_pages: bool,
    /// Whether gets that miss read the part of a block that they need, where it would only take the
    /// place of others.
    pub part_reads: bool,
    /// Whether a scan reads a block of a run only when it has come to where a range filter tells of
    /// a key.
    pub range_filters: bool,
    /// Whether blocks are read before a scan has come to them, and others while it goes through
    /// those.
    pub read_ahead: bool,
    /// Queues by which blocks are read beside who needs them
    /// ([`spillway_base::engine::Engine::begin_read`]), if somebody asks for that.
    pub read_queues: usize,
    /// Whether what is read so is handed over to the device several reads at once.
    pub gathered_reads: bool,
    /// Whether one that would be alone is waited for in place of that, where the caller's threads
    /// have nothing else to do.
    pub lone_waits: bool,
    /// Whether readers read data files past the system's page cache, as far as file systems can.
    /// Flushes and compactions, and what is read ahead, go past it anyway.
    pub direct_reads: bool,
    /// Bytes of a slot. Fixed when a data folder is made.
    pub slot_bytes: usize,
    /// The largest size of a data file, in bytes.
    pub file_bytes: u64,
    /// Bytes at which a sub-table is split in two.
    pub subtable_bytes: u64,
    /// The largest number of sub-tables, of all tables; each has a memtable. A table has one at
    /// least.
    pub subtables_max: usize,
    /// Cores among which the flushes and compactions of a table that is written much are to be
    /// spread, by splitting it.
    pub write_cores: usize,
    /// Sub-levels of Level0 from which on some are put together.
    pub level0_target: usize,
    /// Bytes that Level0 of a table may hold, however little is below it.
    pub level0_bytes: u64,
    /// Sub-levels of Level0 at which writers are held back the most.
    pub level0_limit: usize,
    /// The kinds of compactions that are chosen, the most important first (X-Engine, section
    /// 3.3.3). One that writers would soon be slowed without comes before all.
    pub compaction_order: Vec<CompactionKind>,
    /// Tombstones in 2 MB from which on they are compacted for their own sake.
    pub deletions_min: u64,
    /// The ceiling on space amplification: bytes of a table's extents for each that is in use in
    /// Level2, which has about one version of each row.
    pub space_max: f64,
    /// The share of what is below it that Level0 of a table may hold that is not mostly read: in a
    /// few large sub-levels, which go down for less the more there is in them.
    pub level0_share: f64,
    /// Whether what of Level0 goes down is of about one size wherever its sub-levels end, and
    /// sub-levels are put together so that room is made for many more. Without it the parts follow
    /// one sub-level, and those are put together that are the least bytes each.
    pub even_level0: bool,
    /// Whether a table that is mostly read has a quarter as many sub-levels and goes down sooner,
    /// and one that is mostly written has those of half the size (the 3D XPoint study, V-B).
    pub dynamic_level0: bool,
    /// Whether compactions rest while little is behind, so that others do not feel them.
    pub paced_compaction: bool,
    /// Whether compactions leave alone what they need not change (X-Engine, section 3.3.2). Without
    /// it they merge everything.
    pub data_reuse: bool,
    /// Folders for data files on other devices, one of each class. The data folder is the `ssd`
    /// unless another is given, from which on it takes nothing new. Level0 and Level1 are on the
    /// fastest, Level2 is on the slowest.
    pub tiers: Vec<Tier>,
    /// Bytes that blocks of Level0 and Level1 have in memory when they are full; those of Level2
    /// have 16 KiB.
    pub hot_block_bytes: usize,
    /// How blocks of Level0 and Level1 are compressed, which are written often and read often.
    pub hot_compression: Compression,
    /// How blocks of Level2 are compressed, where nearly all data is.
    pub cold_compression: Compression,
    /// How long a sub-table is not to be written to until what of it is above Level2 is compressed
    /// as Level2 is.
    pub settle_after: Duration,
    /// Whether a memtable that shares keys with little of Level1 is flushed straight there, when
    /// there is time.
    pub straight_flush: bool,
    /// Whether it is counted how often extents are read, so that compactions push down what is
    /// cold, and devices take what they are fast enough for (X-Engine, appendix C).
    pub temperature: bool,
    /// The share of what Level1 is meant to hold in which what is hot stays, although it is its
    /// turn to go down. Nothing does where a read of Level2 costs no more, which is on the same
    /// class of device and coded alike.
    pub hot_share: f64,
    /// Whether scans leap over ranges in which one before them found only tombstones.
    pub gaps: bool,
    /// Whether blocks are searched by nodes over their keys, in place of halving.
    pub block_nodes: bool,
    /// Whether those are searched by the processor's vectors.
    pub simd: bool,
    /// Whether the block index and the filters of what a flush or compaction writes are in memory
    /// when readers find it, where they are of use.
    pub warm_tables: bool,
    /// Whether what flushes and compactions read next and wrote last is under way while they merge
    /// (X-Engine, section 3.3.2).
    pub overlapped_compactions: bool,
    /// Bytes past which the manifest is rewritten.
    pub manifest_bytes: u64,
}

/// Level0 goes straight into Level2 where that has at most so many times the bytes: about what
/// majors find with Level1 at its size.
const LEVEL2_TIMES: f64 = 3.0;
/// The ceiling on space from which on Level0 and Level1 may hold what they are best served by.
const SPACE_PLENTY: f64 = 2.0;
/// What extents of Level2 may take for each byte in use, whatever the ceiling is: they are never
/// all full.
const LEVEL2_SPACE_LEAST: f64 = 1.05;
/// Larger ones take more memory and spare hardly more.
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
        // One fills and one is flushed, with room between: the larger they are, the fewer times
        // what they hold is brought together.
        let memtable_bytes = (memtables_bytes / 3).clamp(1 << 20, 128 << 20);
        TieredSettings {
            memtables_bytes,
            memtable_bytes,
            subtable_bytes: (32 * memtable_bytes as u64).max(1 << 30),
            subtables_max: (memtables_bytes / (4 << 20)).clamp(1, 1024),
            write_cores: 1,
            cache_bytes: bytes,
            cache_bytes_min: bytes / 8,
            row_cache_share: 0.25,
            adaptive_share: true,
            row_cache_sample: true,
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
            dynamic_level0: true,
            paced_compaction: true,
            data_reuse: true,
            straight_flush: true,
            gaps: true,
            block_nodes: true,
            simd: true,
            warm_tables: true,
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

    /// How they are read beside who needs that.
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

    /// What a cache may hold.
    fn cache(&self) -> CacheSettings {
        CacheSettings {
            bytes_min: self.cache_bytes_min.min(self.cache_bytes),
            bytes_max: self.cache_bytes,
            finds_ghosts: self.adaptive_share && self.row_cache_share > 0.0,
        }
    }

    /// What a table counts as that is used for something.
    fn counts_as(&self, used_for: TableUse) -> TableUse {
        if self.dynamic_level0 { used_for } else { TableUse::Mixed }
    }

    /// Bytes at which a memtable is switched, of a table that is used so.
    pub(crate) fn memtable_bytes(&self, used_for: TableUse) -> usize {
        match self.counts_as(used_for) {
            TableUse::MostlyWritten => self.memtable_bytes / 2,
            TableUse::Mixed | TableUse::MostlyRead => self.memtable_bytes,
        }
    }

    /// What a compaction may leave alone, where others may hold versions from this CSN on.
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

    /// Bytes of an extent that must be in use for it not to count as wasteful.
    pub(crate) fn used_bytes_least(&self) -> u64 {
        (self.slot_bytes as f64 / self.level2_space_max()) as u64
    }

    /// Bytes of Level2's extents for each byte in use there, past which it is put in order: a
    /// quarter of what there may be too much, unless that is hardly anything. The rest is for what
    /// is above, which is worth more: the less there may be of it, the more often all that is below
    /// is written. A ceiling over [`SPACE_PLENTY`] is for who would rather have space wasted in
    /// Level2 than written.
    fn level2_space_max(&self) -> f64 {
        let share = 1.0 + (self.space_max - 1.0) / 4.0;
        let plenty = 1.0 + (SPACE_PLENTY - 1.0) / 4.0;
        share.min(plenty).max(LEVEL2_SPACE_LEAST).max(plenty * self.space_max / SPACE_PLENTY)
    }

    /// What of Level0 and Level1 there may be for each byte of Level2.
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

    /// Bytes of a dictionary.
    pub(crate) fn dictionary_bytes(&self) -> usize {
        (self.slot_bytes / 16).min(DICTIONARY_BYTES)
    }

    /// How compaction keeps a table that is used so.
    pub(crate) fn shape(&self, used_for: TableUse) -> Shape {
        let (target, limit) = (self.level0_target, self.level0_limit);
        let (level0_target, level0_limit) = match self.counts_as(used_for) {
            TableUse::MostlyWritten | TableUse::Mixed => (target, limit),
            // A burst of writes to it is no reason to hold them back sooner.
            TableUse::MostlyRead => ((target / 4).max(1), limit),
        };
        let level0_bytes = self.level0_bytes;
        let level0_share = match self.counts_as(used_for) {
            TableUse::MostlyWritten | TableUse::Mixed => self.level0_share,
            TableUse::MostlyRead => 0.0,
        };
        // What is on devices of its own is to be on the faster one first.
        let is_one_device = self.tiers.is_empty();
        Shape {
            level0_target,
            level0_limit,
            level1_bytes_min: 2 * level0_bytes,
            level0_bytes,
            level0_share,
            level2_times: if is_one_device && self.level0_share > 0.0 { LEVEL2_TIMES } else { 0.0 },
            input_bytes: (2 * level0_bytes).max(16 * self.slot_bytes as u64),
            deletions_min: self.deletions_min,
            extent_bytes: self.slot_bytes as u64,
            block_bytes: (BLOCK_BYTES as u64).min(self.slot_bytes as u64 / 2),
            space_max: self.level2_space_max(),
            above_max: self.above_max(),
            hot_share: if self.temperature { self.hot_share } else { 0.0 },
            even_level0: self.even_level0,
        }
    }
}
