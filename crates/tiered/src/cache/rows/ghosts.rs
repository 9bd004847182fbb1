//! The ghosts of rows: rows that were evicted lately. With a fixed amount of additional memory, the
//! cache would still hold these rows (`super::super::cache_balancer`). Only the ghosts of a sample
//! of the buckets are recorded.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// One bucket in this many is in the sample.
pub(super) const SAMPLE: usize = 4;
/// The rows that are remembered of a bucket.
const EACH: usize = 8;
/// Time is counted in evicted bytes, in units of this fraction of the budget.
const UNITS: usize = 1024;
/// The word of an empty place: hash part 0 and a time in the middle of the range. The time wraps
/// around. While this time counts as recent, a lookup of a row with hash part 0 finds the empty
/// place by mistake.
const NOTHING: u32 = 1 << 15;

/// The evicted rows of a bucket: for each, a part of its key's hash and the time at which it left.
#[derive(Debug)]
#[repr(align(32))]
struct GhostGroup([AtomicU32; EACH]);

/// The rows that were evicted recently.
pub(super) struct Ghosts {
    groups: Box<[GhostGroup]>,
    /// The bytes that were evicted in all.
    left: AtomicU64,
    unit: u64,
}

fn word(hash: u64, time: u16) -> u32 {
    (hash as u32 & 0xFFFF) << 16 | u32::from(time)
}

impl Ghosts {
    /// The ghosts for `buckets` buckets and a budget of `budget` bytes.
    pub(super) fn new(buckets: usize, budget: usize) -> Ghosts {
        let group = |_| GhostGroup(std::array::from_fn(|_| AtomicU32::new(NOTHING)));
        Ghosts {
            groups: (0..buckets / SAMPLE).map(group).collect(),
            left: AtomicU64::new(0),
            unit: (budget / UNITS).max(1) as u64,
        }
    }

    /// The bytes of memory for `buckets` buckets.
    pub(super) fn bytes_of(buckets: usize) -> usize {
        buckets / SAMPLE * size_of::<GhostGroup>()
    }

    #[inline]
    fn group(&self, bucket: usize) -> Option<&GhostGroup> {
        if bucket.is_multiple_of(SAMPLE) { self.groups.get(bucket / SAMPLE) } else { None }
    }

    fn now(&self) -> u16 {
        (self.left.load(Ordering::Relaxed) / self.unit) as u16
    }

    /// Counts evicted rows of this many bytes.
    pub(super) fn have_left(&self, bytes: usize) {
        self.left.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Records that the row of a hash leaves a bucket, which the caller has locked. Only the lowest
    /// bits of the hash are kept.
    pub(super) fn leaves(&self, bucket: usize, hash: u64) {
        let Some(GhostGroup(words)) = self.group(bucket) else { return };
        let now = self.now();
        let age = |word: &AtomicU32| now.wrapping_sub(word.load(Ordering::Relaxed) as u16);
        let oldest = words.iter().max_by_key(|word| age(word)).expect("a group has places");
        oldest.store(word(hash, now), Ordering::Relaxed);
    }

    /// Whether the row of a hash left its bucket within the last `within` evicted bytes. `false`
    /// for buckets that are not in the sample.
    #[inline]
    pub(super) fn left_lately(&self, bucket: usize, hash: u64, within: usize) -> bool {
        let Some(GhostGroup(words)) = self.group(bucket) else { return false };
        let (now, most) = (self.now(), (within as u64 / self.unit) as u16);
        words.iter().any(|known| {
            let known = known.load(Ordering::Relaxed);
            known >> 16 == hash as u32 & 0xFFFF && now.wrapping_sub(known as u16) <= most
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn rows_are_known_that_left_lately() {
        let ghosts = Ghosts::new(16, 1 << 20);
        assert!((0..1 << 16).all(|hash| !ghosts.left_lately(4, hash, 16 << 10)));
        for hash in 0..20 {
            ghosts.leaves(4, hash);
            ghosts.leaves(5, hash);
            ghosts.have_left(1 << 10);
        }
        let known = |bucket: usize, within: usize| {
            (0..100).filter(|hash| ghosts.left_lately(bucket, *hash, within)).collect::<Vec<_>>()
        };
        assert_eq!(known(4, 5 << 10), [15, 16, 17, 18, 19]);
        assert_eq!(known(4, 1 << 20).len(), EACH, "as many as there are places");
        assert_eq!((known(0, 1 << 20), known(5, 1 << 20)), (vec![], vec![]));
        ghosts.have_left(100 << 10);
        assert_eq!(known(4, 16 << 10), []);
    }
}
