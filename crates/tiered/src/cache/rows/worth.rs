//! Decides whether lookups in the row cache pay (ROW-CACHE-7).
//!
//! A lookup that misses costs one or two cache lines, and a row that enters and is not read again
//! costs more. If a workload reads more rows than the cache can hold, all equally often, the row
//! cache costs more than it saves. So the cache measures its hit rate. While this rate is very low,
//! the cache considers only rows in a *sample* of the buckets. The rows' memory is reduced to the
//! fraction that the sample is of all buckets. So the sample's hit rate is the rate that all rows
//! would have with all of the memory. When it rises, the cache considers all rows again.
//!
//! Rejected: measuring the hit rate by rare lookups, each of any row. A row enters the cache at the
//! second miss of its key, so only the third lookup of a row can hit. Rare lookups would hardly
//! ever look the same row up three times, whatever the workload.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};

/// One bucket in this many is in the sample.
pub(super) const SAMPLE: usize = 16;
/// One in this many lookups must hit, or only the sample is considered. All rows are considered
/// again if one in `ENOUGH_SHARE` hits.
const LEAST_SHARE: u64 = 32;
const ENOUGH_SHARE: u64 = 16;
/// The hit rate is judged after this many lookups for each bucket, and after at least
/// [`LOOKS_LEAST`]. This is enough for the cache to fill with other rows after the workload has
/// changed.
const LOOKS_PER_BUCKET: u64 = 2;
const LOOKS_LEAST: u64 = 4096;
/// After this many skipped lookups of a thread, the thread judges whether lookups pay.
const PASSES: u32 = 4096;

thread_local!(static PASSES_LEFT: Cell<u32> = const { Cell::new(PASSES) });

/// The counts of lookups at the last judgement: hits and misses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Looks {
    pub(super) hits: u64,
    pub(super) misses: u64,
}

/// Its fields hardly ever change, so they have their own cache line.
#[repr(align(128))]
pub(super) struct Worth {
    is_sampled: AtomicBool,
    /// The number of buckets; zero if there are too few for a sample.
    buckets: u64,
}

impl Worth {
    /// For `buckets` buckets, a power of two. At first all rows are considered.
    pub(super) fn new(buckets: usize) -> Worth {
        let enough = buckets >= SAMPLE && !cfg!(loom);
        let buckets = if enough { buckets as u64 } else { 0 };
        Worth { is_sampled: AtomicBool::new(false), buckets }
    }

    /// A judge that always considers all rows.
    pub(super) fn never() -> Worth {
        Worth::new(0)
    }

    /// Whether only rows of the sample are considered.
    #[inline]
    pub(super) fn is_sampled(&self) -> bool {
        self.is_sampled.load(Ordering::Relaxed)
    }

    /// Whether lookups skip the rows of this bucket.
    #[inline]
    pub(super) fn passes(&self, bucket: usize) -> bool {
        self.is_sampled() && !bucket.is_multiple_of(SAMPLE)
    }

    /// Counts a skipped lookup. Returns whether the caller must judge. Usually a miss in the sample
    /// causes that, but if all lookups in the sample hit, there is none.
    #[inline]
    pub(super) fn note_pass(&self) -> bool {
        let left = PASSES_LEFT.get() - 1;
        PASSES_LEFT.set(if left == 0 { PASSES } else { left });
        left == 0
    }

    /// Judges by the lookups since the last judgement. `now` and `judged` are the counts now and
    /// then. Only one thread at a time calls it.
    pub(super) fn judge(&self, now: Looks, judged: &mut Looks) {
        let hits = now.hits.wrapping_sub(judged.hits);
        let looks = hits.wrapping_add(now.misses.wrapping_sub(judged.misses));
        let is_sampled = self.is_sampled();
        let all = (LOOKS_PER_BUCKET * self.buckets).max(LOOKS_LEAST);
        let least = if is_sampled { all / SAMPLE as u64 } else { all };
        if self.buckets == 0 || looks < least {
            return;
        }
        *judged = now;
        let changes = match is_sampled {
            true => hits * ENOUGH_SHARE >= looks,
            false => hits * LEAST_SHARE < looks,
        };
        if changes {
            self.is_sampled.store(!is_sampled, Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Counts lookups, of which `thousandths` of a thousand hit, until the next judgement. Returns
    /// whether only the sample is considered then.
    fn judged(worth: &Worth, looks: &mut (Looks, Looks), thousandths: u64) -> bool {
        let (now, before) = looks;
        let old = *before;
        while *before == old {
            now.hits += thousandths;
            now.misses += 1000 - thousandths;
            worth.judge(*now, before);
        }
        worth.is_sampled()
    }

    #[test]
    fn the_sample_is_left_for_more_than_leads_to_it() {
        let worth = Worth::new(1 << 14);
        let looks = &mut (Looks::default(), Looks::default());
        let told = [50, 32, 31, 31, 62, 40, 63, 32, 0].map(|share| judged(&worth, looks, share));
        assert_eq!(told, [false, false, true, true, true, true, false, false, true]);
    }

    #[test]
    fn of_the_sample_fewer_looks_do() {
        let worth = Worth::new(1 << 14);
        let looks = &mut (Looks::default(), Looks::default());
        assert!(judged(&worth, looks, 0));
        let of_all = looks.1.misses;
        assert!((32_000..34_000).contains(&of_all), "{of_all}");
        assert!(judged(&worth, looks, 0));
        let of_sample = looks.1.misses - of_all;
        assert!((2000..4000).contains(&of_sample), "{of_sample}");
        assert!(!worth.passes(0) && !worth.passes(SAMPLE) && worth.passes(SAMPLE + 1));
    }

    #[test]
    fn few_buckets_are_never_sampled() {
        let worth = Worth::new(SAMPLE / 2);
        let mut before = Looks::default();
        worth.judge(Looks { hits: 0, misses: 1 << 40 }, &mut before);
        assert!(!worth.is_sampled() && !worth.passes(1));
    }
}
