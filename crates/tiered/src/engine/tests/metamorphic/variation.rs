//! How a history happens.

use super::super::*;
use crate::space::{DeviceClass, Tier};

/// How it happens.
#[derive(Clone, Debug)]
pub(super) struct Variation {
    pub(super) settings: TieredSettings,
    /// Merges are carried out twice, and compared.
    pub(super) checked: bool,
    /// Work is done beside what happens.
    pub(super) threads: bool,
    /// One in so many commits is followed by all the work there is.
    pub(super) lazy: u64,
    /// So many commits are installed and not stable.
    pub(super) lag: u64,
    /// Commits that are persistent and yet installed again after an opening.
    pub(super) again: u64,
}

fn tiers_of(rng: &mut Rng) -> Vec<Tier> {
    let mut tiers = Vec::new();
    for class in DeviceClass::ALL {
        if rng.chance(1, 3) {
            let compressions =
                [None, Some(Compression::None), Some(Compression::Lz4), Some(Compression::ZSTD)];
            let compression = compressions[rng.below(4) as usize];
            tiers.push(Tier { class, dir: format!("/{class}").into(), compression });
        }
    }
    tiers
}

pub(super) fn variation(rng: &mut Rng, slot_bytes: usize) -> Variation {
    let compression = |rng: &mut Rng| {
        [Compression::None, Compression::Lz4, Compression::ZSTD][rng.below(3) as usize]
    };
    let mut compaction_order: Vec<Kind> = Kind::ORDER.into();
    for at in (1..compaction_order.len()).rev() {
        compaction_order.swap(at, rng.below(at as u64 + 1) as usize);
    }
    let slot = slot_bytes as u64;
    let level0_target = 1 + rng.below(4) as usize;
    let settings = TieredSettings {
        paced_compaction: rng.chance(1, 2),
        data_reuse: rng.chance(3, 4),
        straight_flush: rng.chance(1, 2),
        tiers: tiers_of(rng),
        hot_block_bytes: 512 << rng.below(6),
        hot_compression: compression(rng),
        cold_compression: compression(rng),
        settle_after: if rng.chance(1, 4) { Duration::ZERO } else { Duration::MAX },
        subtable_bytes: [slot, 4 * slot, 64 * slot, 1 << 40][rng.below(4) as usize],
        subtables_max: [1, 5, 16, 64][rng.below(4) as usize],
        write_cores: 1 + rng.below(4) as usize,
        temperature: rng.chance(1, 2),
        memtable_bytes: 16 << 10 << rng.below(7),
        cache_bytes: [16 << 10, 256 << 10, 4 << 20][rng.below(3) as usize],
        cache_bytes_min: 0,
        row_cache_share: if rng.chance(3, 4) { 0.25 } else { 0.0 },
        swizzling: rng.chance(3, 4),
        range_filters: rng.chance(3, 4),
        read_ahead: rng.chance(3, 4),
        direct_reads: rng.chance(1, 2),
        slot_bytes,
        file_bytes: slot * [4, 16, 64][rng.below(3) as usize],
        compaction_order,
        deletions_min: [1, 20, 1000][rng.below(3) as usize],
        space_max: [1.05, 1.25, 2.0][rng.below(3) as usize],
        level0_target,
        level0_limit: level0_target + 2 + rng.below(10) as usize,
        even_level0: rng.chance(1, 2),
        dynamic_level0: rng.chance(1, 2),
        block_nodes: rng.chance(3, 4),
        simd: rng.chance(1, 2),
        ..small()
    };
    // Of one choice three settings: more of them would make all others of every seed.
    let warm = rng.below(9);
    let settings = TieredSettings {
        replacement: warm / 3 < 2,
        warm_tables: warm % 3 < 2,
        part_reads: warm.is_multiple_of(2),
        adaptive_share: rng.chance(1, 2),
        row_cache_sample: rng.chance(1, 2),
        manifest_bytes: [512, 8 << 10, 1 << 20][rng.below(3) as usize],
        ..settings
    };
    Variation {
        settings,
        checked: rng.chance(2, 3),
        threads: rng.chance(1, 4),
        lazy: [2, 10, 100][rng.below(3) as usize],
        lag: [0, 0, 3, 40][rng.below(4) as usize],
        again: [0, 0, 5, 1000][rng.below(4) as usize],
    }
}
