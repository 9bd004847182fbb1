//! Variations: the settings under which a history runs.

use super::super::*;
use crate::space::{DeviceClass, Tier};

/// The settings under which a history runs.
#[derive(Clone, Debug)]
pub(super) struct Variation {
    pub(super) settings: TieredSettings,
    /// Whether merges are done by two executors and compared.
    pub(super) checked: bool,
    /// Whether background threads run beside the history.
    pub(super) threads: bool,
    /// Whether compactions and flushes free space, as on a full disk (PICKER-7, COMPACTION-7).
    pub(super) short: bool,
    /// After one in this many commits, all work that is due is done.
    pub(super) lazy: u64,
    /// The number of commits that are installed but not stable.
    pub(super) lag: u64,
    /// The number of persistent commits that are installed again after an opening.
    pub(super) again: u64,
}

fn tiers_of(rng: &mut Rng) -> Vec<Tier> {
    let mut tiers = Vec::new();
    for class in DeviceClass::ALL {
        if rng.chance(1, 3) {
            let compressions =
                [None, Some(Compression::None), Some(Compression::Lz4), Some(Compression::ZSTD)];
            let compression = one_of(rng, &compressions);
            tiers.push(Tier { class, dir: format!("/{class}").into(), compression });
        }
    }
    tiers
}

fn one_of<T: Copy>(rng: &mut Rng, all: &[T]) -> T {
    all[rng.below(all.len() as u64) as usize]
}

fn mostly(rng: &mut Rng) -> bool {
    rng.chance(3, 4)
}

fn compaction_order(rng: &mut Rng) -> Vec<Kind> {
    let mut order: Vec<Kind> = Kind::ORDER.into();
    for at in (1..order.len()).rev() {
        order.swap(at, rng.below(at as u64 + 1) as usize);
    }
    order
}

/// Random settings. Each setting is named, so that a new one must be given its possible values
/// here.
fn settings(rng: &mut Rng, slot_bytes: usize) -> TieredSettings {
    let compressions = [Compression::None, Compression::Lz4, Compression::ZSTD];
    let slot = slot_bytes as u64;
    let level0_target = 1 + rng.below(4) as usize;
    let cache_bytes = one_of(rng, &[16 << 10, 256 << 10, 4 << 20]);
    TieredSettings {
        memtables_bytes: one_of(rng, &[512 << 10, 8 << 20]),
        memtable_bytes: 16 << 10 << rng.below(7),
        cache_bytes,
        cache_bytes_min: one_of(rng, &[0, cache_bytes / 4]),
        row_cache_share: if mostly(rng) { 0.25 } else { 0.0 },
        adaptive_share: rng.chance(1, 2),
        recall: mostly(rng),
        large_pages: rng.chance(1, 2),
        part_reads: rng.chance(1, 2),
        range_filters: mostly(rng),
        read_ahead: mostly(rng),
        read_queues: 1 + rng.below(2) as usize,
        gathered_reads: rng.chance(1, 2),
        lone_waits: rng.chance(1, 2),
        direct_reads: rng.chance(1, 2),
        slot_bytes,
        file_bytes: slot * one_of(rng, &[4, 16, 64]),
        subtable_bytes: one_of(rng, &[slot, 4 * slot, 64 * slot, 1 << 40]),
        subtables_max: one_of(rng, &[1, 5, 16, 64]),
        level0_target,
        level0_bytes: one_of(rng, &[8 << 10, 64 << 10]),
        level0_limit: level0_target + 2 + rng.below(10) as usize,
        compaction_order: compaction_order(rng),
        deletions_min: one_of(rng, &[1, 20, 1000]),
        space_max: one_of(rng, &[1.02, 1.25, 2.0]),
        level0_share: one_of(rng, &[0.0, 0.125, 1.0]),
        even_level0: rng.chance(1, 2),
        paced_compaction: rng.chance(1, 2),
        data_reuse: mostly(rng),
        tiers: tiers_of(rng),
        hot_block_bytes: 512 << rng.below(6),
        hot_compression: one_of(rng, &compressions),
        cold_compression: one_of(rng, &compressions),
        settle_after: one_of(rng, &[Duration::ZERO, Duration::MAX, Duration::MAX]),
        temperature: mostly(rng),
        hot_share: one_of(rng, &[0.0, 0.5, 1.0, 1.0]),
        gaps: mostly(rng),
        block_nodes: mostly(rng),
        simd: rng.chance(1, 2),
        overlapped_compactions: mostly(rng),
        manifest_bytes: one_of(rng, &[512, 8 << 10, 1 << 20]),
    }
}

pub(super) fn variation(rng: &mut Rng, slot_bytes: usize) -> Variation {
    Variation {
        settings: settings(rng, slot_bytes),
        checked: rng.chance(2, 3),
        threads: rng.chance(1, 4),
        lazy: one_of(rng, &[2, 10, 100]),
        lag: one_of(rng, &[0, 0, 3, 40]),
        again: one_of(rng, &[0, 0, 5, 1000]),
        short: rng.chance(1, 4),
    }
}
