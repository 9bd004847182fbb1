//! Temperatures: how often extents were read lately (X-Engine, appendix C: "access frequency in a
//! recent window").
//!
//! Each eighth of an extent's blocks, a *region*, has a count of reads. The eight counts share one
//! word with the number of the epoch in which they were last changed. An *epoch* is an amount of
//! work, not of time: it ends when a fixed number of reads for each extent has been counted. So a
//! temperature compares an extent with the others, whatever the load, and an idle database forgets
//! nothing. Written bytes advance the epoch, too. Without them, the temperatures of a table that is
//! only written would never decay.
//!
//! # Guarantees
//! - **TEMPERATURE-1.** A read takes no lock for its count. Twelve of thirteen reads only decrement
//!   a thread-local counter. The thirteenth is counted by a plain store to the extent's word. Each
//!   sixteenth counted read, which is one read in 208, also adds to the shared count of the epoch.
//! - **TEMPERATURE-2.** Each epoch halves all counts. The next use of a count halves it, once for
//!   each epoch that has ended since its last change. The temperature of an extent that is read as
//!   often as the average is about [`MEAN`] at the beginning of an epoch, and about twice [`MEAN`]
//!   at its end.
//! - **TEMPERATURE-3.** A temperature belongs to blocks. The temperature of a slice is computed
//!   from the counts of its blocks' regions, scaled up to a whole extent. Moving an extent or
//!   re-linking a slice changes no temperature.
//! - **TEMPERATURE-4.** The output of a compaction inherits the temperature of the input that it
//!   replaces, by key. The output of a flush begins cold.
//! - **TEMPERATURE-5.** Temperatures only influence choices among correct actions. So it is
//!   harmless that two threads may lose a count, and that a restart loses all.
//!
//! Each get counts as a read of the block that it searches. A scan counts as a read only of the
//! block where it begins, so a full scan warms nothing. Reads of compactions, checks and backups do
//! not count.

use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

#[cfg(all(test, not(loom)))]
mod tests;

/// One in `EACH` reads of a thread is counted. It is a prime, so the sample does not correlate with
/// transactions.
const EACH: u32 = 13;
/// The counted reads that a thread reports at once.
const TOLD: u32 = 16;
/// The counted reads for each extent in an epoch.
const MEAN: u64 = 16;
/// The least number of extents from which the length of an epoch is computed.
const EXTENTS_LEAST: u64 = 8;
/// Regions of an extent.
pub(crate) const REGIONS: usize = 8;
/// The bits of a count. The epoch takes the rest of the word.
const BITS: usize = 6;
pub(crate) const COUNT_MOST: u64 = (1 << BITS) - 1;
const COUNTS: u64 = (1 << (REGIONS * BITS)) - 1;

/// The temperature from which on an extent is among the hottest.
pub(crate) const HOTTEST: u32 = 16 * MEAN as u32;
/// The temperature from which on data is hot: it is read at least twice as often as the average.
pub const HOT: u32 = 4 * MEAN as u32;
/// The temperature below which data is cold: it is read at most half as often as the average.
pub const COLD: u32 = MEAN as u32 / 2;

thread_local! {
    /// Reads until the next one that is counted.
    static LEFT: Cell<u32> = const { Cell::new(EACH) };
    /// The counted reads that were not reported yet.
    static UNTOLD: Cell<u32> = const { Cell::new(0) };
}

/// A measure of recent reads.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(crate) struct Temperature(pub(crate) u32);

/// The meaning of a temperature. Moving warm data does not pay, so it stays where it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Warmth {
    Cold,
    Warm,
    Hot,
}

impl Temperature {
    pub(crate) fn warmth(self) -> Warmth {
        match self.0 {
            HOT.. => Warmth::Hot,
            COLD.. => Warmth::Warm,
            _ => Warmth::Cold,
        }
    }
}

/// Determines the epochs, for all extents of an engine.
pub(crate) struct Thermometer {
    /// Whether reads are counted.
    is_on: bool,
    epoch: AtomicU32,
    /// The counted reads in this epoch, plus the writes in the same unit.
    passed: AtomicU64,
    extents: AtomicU64,
}

impl Thermometer {
    pub(crate) fn new(is_on: bool) -> Thermometer {
        let (epoch, passed, extents) = (AtomicU32::new(0), AtomicU64::new(0), AtomicU64::new(0));
        Thermometer { is_on, epoch, passed, extents }
    }

    /// Adds an extent.
    pub(crate) fn add_extent(&self) {
        self.extents.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes an extent.
    pub(crate) fn remove_extent(&self) {
        self.extents.fetch_sub(1, Ordering::Relaxed);
    }

    /// The number of completed epochs; it wraps around after many.
    pub(crate) fn epochs(&self) -> u32 {
        self.epoch.load(Ordering::Relaxed)
    }

    fn epoch(&self) -> u16 {
        self.epochs() as u16
    }

    /// The counted reads of an epoch.
    fn epoch_reads(&self) -> u64 {
        MEAN * self.extents.load(Ordering::Relaxed).max(EXTENTS_LEAST)
    }

    /// Counts `bytes` written bytes; `epoch_bytes` of them would complete an epoch.
    pub(crate) fn note_written(&self, bytes: u64, epoch_bytes: u64) {
        let share = bytes as f64 / epoch_bytes.max(1) as f64;
        self.pass((share * self.epoch_reads() as f64) as u64);
    }

    fn pass(&self, reads: u64) {
        let passed = self.passed.fetch_add(reads, Ordering::Relaxed) + reads;
        let epochs = passed / self.epoch_reads();
        // Of several threads that find the epoch complete, one ends it.
        let end = |now| (now >= passed && epochs > 0).then(|| now - passed);
        if epochs > 0 && self.passed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, end).is_ok()
        {
            self.epoch.fetch_add(epochs as u32, Ordering::Relaxed);
        }
    }
}

/// The counts of an extent's regions.
#[derive(Default)]
pub(crate) struct Readings(AtomicU64);

impl Readings {
    /// Counts a read of one of an extent's blocks, if it is in the thread's sample.
    pub(crate) fn note_read(&self, block: usize, blocks: usize, thermometer: &Thermometer) {
        let left = LEFT.get() - 1;
        LEFT.set(if left == 0 { EACH } else { left });
        if left == 0 && thermometer.is_on {
            self.count(block, blocks, thermometer);
        }
    }

    #[cold]
    fn count(&self, block: usize, blocks: usize, thermometer: &Thermometer) {
        let untold = UNTOLD.get() + 1;
        UNTOLD.set(untold % TOLD);
        if untold == TOLD {
            thermometer.pass(u64::from(TOLD));
        }
        self.add(block, blocks, 1, thermometer);
    }

    /// The counts as of an epoch.
    fn at(&self, epoch: u16) -> u64 {
        let word = self.0.load(Ordering::Relaxed);
        let passed = usize::from(epoch.wrapping_sub((word >> (REGIONS * BITS)) as u16));
        if passed >= BITS {
            return 0;
        }
        let kept = COUNT_MOST >> passed;
        let mask = (0..REGIONS).fold(0, |mask, region| mask | kept << (region * BITS));
        (word & COUNTS) >> passed & mask
    }

    /// Counts reads of one of an extent's blocks.
    pub(crate) fn add(
        &self,
        block: usize,
        blocks: usize,
        mut reads: u64,
        thermometer: &Thermometer,
    ) {
        let epoch = thermometer.epoch();
        let mut counts = self.at(epoch);
        for region in regions_of(block, blocks) {
            let more = reads.min(COUNT_MOST - count_of(counts, region));
            counts += more << (region * BITS);
            reads -= more;
        }
        // Another thread's count may be lost (TEMPERATURE-5).
        self.0.store(u64::from(epoch) << (REGIONS * BITS) | counts, Ordering::Relaxed);
    }

    /// The count of each region.
    pub(crate) fn regions(&self, thermometer: &Thermometer) -> [u64; REGIONS] {
        let counts = self.at(thermometer.epoch());
        std::array::from_fn(|region| count_of(counts, region))
    }

    /// Takes over the counts of an extent with the same blocks.
    pub(crate) fn take_over(&self, old: &Readings) {
        self.0.store(old.0.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// The temperature of some of an extent's blocks.
    pub(crate) fn temperature(
        &self,
        of: Range<usize>,
        blocks: usize,
        thermometer: &Thermometer,
    ) -> Temperature {
        of_blocks(&self.regions(thermometer), of, blocks)
    }
}

/// The temperature of some of an extent's blocks, from the counts of its regions.
pub(crate) fn of_blocks(counts: &[u64; REGIONS], of: Range<usize>, blocks: usize) -> Temperature {
    let reads: f64 = (0..REGIONS)
        .map(|region| {
            let all = blocks_of(region, blocks);
            let common = all.end.min(of.end).saturating_sub(all.start.max(of.start));
            counts[region] as f64 * common as f64 / all.len().max(1) as f64
        })
        .sum();
    Temperature((reads * blocks as f64 / of.len().max(1) as f64).round() as u32)
}

fn count_of(counts: u64, region: usize) -> u64 {
    counts >> (region * BITS) & COUNT_MOST
}

/// The regions of a block. With fewer blocks than regions, a block has several: once the count of
/// one is full, reads are counted in the next.
pub(crate) fn regions_of(block: usize, blocks: usize) -> Range<usize> {
    if blocks >= REGIONS {
        let region = (block * REGIONS / blocks).min(REGIONS - 1);
        return region..region + 1;
    }
    (block * REGIONS).div_ceil(blocks)..((block + 1) * REGIONS).div_ceil(blocks)
}

/// The blocks of a region of an extent with this many blocks.
pub(crate) fn blocks_of(region: usize, blocks: usize) -> Range<usize> {
    if blocks >= REGIONS {
        return (region * blocks).div_ceil(REGIONS)..((region + 1) * blocks).div_ceil(REGIONS);
    }
    let block = region * blocks / REGIONS;
    block..block + 1
}
