//! Divides the cache memory between single rows and blocks, by the device reads that a little more
//! memory for each would save.
//!
//! The reads that a cached row saves depend on the workload. If a workload reads few of the rows of
//! each block, a byte of cached rows saves more reads than a byte of cached blocks. For scans,
//! cached rows save no reads. The workload is not known in advance, and it changes.
//!
//! So the balancer compares two *sides*: the rows, and the blocks with the tables. Each side
//! remembers the keys of the entries that it evicted last, its *ghosts* (after ARC: Megiddo, Modha,
//! "ARC: a self-tuning, low overhead replacement cache", 2003). With a fixed amount of additional
//! memory, the side would still hold these entries.
//!
//! The *ghost miss cost* of a side is the number of bytes that readers read from a device because
//! the entry that they need is a ghost. With a little more memory, the side would save these reads.
//! With a little less memory, it would cause about as many additional reads. So memory moves to the
//! side with the higher ghost miss cost.
//!
//! # Guarantees
//!
//! - **BALANCER-1 (to where it is worth more).** The share of rows rises while the ghost miss cost
//!   of rows is higher than that of blocks and tables, and falls while it is lower. Both costs are
//!   bytes that were read from a device: a miss of a row whose block was in memory costs nothing.
//! - **BALANCER-2 (steady).** The share does not change while both costs are about equal. After a
//!   change, the share does not change again until readers have read many more bytes. Steps are
//!   small. They grow only while successive steps go in the same direction.
//! - **BALANCER-3 (bounds).** The share stays between [`SHARE_LEAST`] and [`SHARE_MOST`].
//! - **BALANCER-4 (within the budget).** The balancer changes only the limit of rows. After it has
//!   lowered this limit, each read of a block from a device evicts some rows, and blocks take the
//!   memory of these rows. After it has raised the limit, new rows evict blocks (ROW-CACHE-6,
//!   BLOCK-CACHE-3). While there is memory that no cache uses, rows may exceed their share, up to
//!   [`SHARE_MOST`], until blocks need this memory.
//! - **BALANCER-5 (hits cost nothing).** The balancer counts no hits. It counts evictions and
//!   misses. For rows, it counts them only in a sample of the buckets.
//!
//! BALANCER-4 lets rows exceed their share because only device reads change the share. While all
//! blocks are in memory there are no device reads, so otherwise the row cache could not grow.
//!
//! Rejected: hill climbing, as in Caffeine. It changes the share, compares the bytes that were read
//! before and after the change, and continues in the better direction. But a compaction changes the
//! bytes that are read more than a step of the share does. So the comparison would mostly measure
//! compactions.
//!
//! Rejected: simulating other shares with a sample of the keys ("miniature simulations"). A cached
//! row saves a device read only if its block is not in memory. Whether the block is in memory
//! depends on the reads of all its rows, and the sample has only a few of them.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use spillway_base::lock::Mutex;

/// The least and the largest share of rows in the memory that the budget leaves to caches.
pub(super) const SHARE_LEAST: f64 = 1.0 / 64.0;
pub(super) const SHARE_MOST: f64 = 0.5;
/// The ghosts of each side stand for this fraction of the memory for caches.
pub(super) const GHOST_SHARE: usize = 16;
/// Both sides are weighed again after reads of this fraction of the memory for caches.
const READ_SHARE: u64 = 4;
/// The smallest and the largest step.
const STEP_LEAST: f64 = 1.0 / 128.0;
const STEP_MOST: f64 = 1.0 / 32.0;
/// One side's ghost miss cost must exceed the other's by this fraction of their sum.
const AHEAD: f64 = 1.0 / 10.0;
/// The fraction of the earlier ghost miss costs that still counts at the next weighing.
const REMEMBERED: f64 = 0.5;
/// The unit of a stored share.
const WHOLE: f64 = (1_u32 << 24) as f64;

/// The state that is kept from one weighing to the next.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Scale {
    share: f64,
    /// The last step: positive towards rows, negative away from them, zero for none.
    step: f64,
    rows: f64,
    blocks: f64,
}

impl Scale {
    fn new(share: f64) -> Scale {
        Scale { share, step: 0.0, rows: 0.0, blocks: 0.0 }
    }

    /// Adds the ghost miss cost of each side since the last weighing, and moves the share
    /// (BALANCER-1 to BALANCER-3).
    fn weigh(&mut self, rows: u64, blocks: u64) {
        self.rows = self.rows * REMEMBERED + rows as f64;
        self.blocks = self.blocks * REMEMBERED + blocks as f64;
        let ahead = self.rows - self.blocks;
        if ahead.abs() <= (self.rows + self.blocks) * AHEAD {
            self.step = 0.0;
            return;
        }
        let size = if self.step * ahead > 0.0 { 2.0 * self.step.abs() } else { STEP_LEAST };
        self.step = size.min(STEP_MOST).copysign(ahead);
        self.share = (self.share + self.step).clamp(SHARE_LEAST, SHARE_MOST);
    }
}

/// The division of cache memory between rows and blocks.
pub(crate) struct CacheBalancer {
    /// The share, in units of 1 / [`WHOLE`].
    share: AtomicU32,
    /// Whether the share moves.
    moves: bool,
    /// When this many bytes have been read in all, both sides are weighed again.
    due: AtomicU64,
    scale: Mutex<(Scale, GhostMissCosts)>,
}

/// The bytes of each side's ghost misses since the beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct GhostMissCosts {
    pub(super) rows: u64,
    pub(super) others: u64,
}

impl CacheBalancer {
    /// A balancer with this initial share of rows, which is fixed unless it `moves`.
    pub(crate) fn new(share: f64, moves: bool) -> CacheBalancer {
        CacheBalancer {
            share: AtomicU32::new((share * WHOLE) as u32),
            moves,
            due: AtomicU64::new(0),
            scale: Mutex::new((Scale::new(share), GhostMissCosts::default())),
        }
    }

    /// The share that rows may have now.
    pub(crate) fn share(&self) -> f64 {
        f64::from(self.share.load(Ordering::Relaxed)) / WHOLE
    }

    /// Whether the share moves. If it does not, ghost misses need not be counted.
    pub(super) fn moves(&self) -> bool {
        self.moves
    }

    /// Whether both sides are due to be weighed. `read` is the number of bytes read since the
    /// beginning, and `caches` the memory for caches.
    pub(super) fn is_due(&self, read: u64, caches: usize) -> bool {
        let due = self.due.load(Ordering::Relaxed);
        if !self.moves || read < due {
            return false;
        }
        let next = read + (caches as u64 / READ_SHARE).max(1);
        let is_mine = self.due.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed);
        is_mine.is_ok()
    }

    /// Moves the share by the ghost miss costs, whose totals since the beginning are `now`.
    pub(super) fn weigh(&self, now: GhostMissCosts) {
        let Some(mut scale) = self.scale.try_lock() else { return };
        let (scale, before) = &mut *scale;
        let [rows, others] =
            [now.rows.wrapping_sub(before.rows), now.others.wrapping_sub(before.others)];
        *before = now;
        scale.weigh(rows, others);
        self.share.store((scale.share * WHOLE) as u32, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use spillway_base::rng::Rng;

    use super::*;

    /// Weighs sides whose ghost misses follow from the share, with noise. Returns the share after
    /// each weighing.
    fn shares(scale: &mut Scale, rounds: usize, regrets: impl Fn(f64) -> [f64; 2]) -> Vec<f64> {
        let mut rng = Rng::new(5);
        let mut noisy = |regret: f64| (regret * (0.9 + rng.below(200) as f64 / 1000.0)) as u64;
        let weigh = |_| {
            let [rows, blocks] = regrets(scale.share);
            let (rows, blocks) = (noisy(rows), noisy(blocks));
            scale.weigh(rows, blocks);
            scale.share
        };
        (0..rounds).map(weigh).collect()
    }

    /// BALANCER-1: the more memory a side has, the less it gains from each byte, as in Zipf
    /// distributions.
    #[test]
    fn balancer_1_the_share_goes_to_where_both_regret_alike() {
        for best in [0.05, 0.2, 0.4] {
            for begin in [0.02, 0.25, 0.5] {
                let mut scale = Scale::new(begin);
                let regrets = |share: f64| [1e6 * best / share, 1e6 * (1.0 - best) / (1.0 - share)];
                let shares = shares(&mut scale, 200, regrets);
                let far = shares[60..].iter().map(|share| (share - best).abs()).fold(0.0, f64::max);
                assert!(far < best / 2.0, "{best} from {begin}: {far}");
            }
        }
    }

    /// BALANCER-2: with noise, when both sides have equal ghost misses.
    #[test]
    fn balancer_2_it_stays_where_both_regret_alike() {
        let mut scale = Scale::new(0.25);
        let shares = shares(&mut scale, 1000, |_| [1e6, 1e6]);
        assert!(shares.iter().all(|share| *share == 0.25), "{shares:?}");
        let mut scale = Scale::new(0.25);
        let moved =
            [(9, 1), (9, 1), (9, 1), (1, 99), (1, 9), (5, 5), (0, 0)].map(|(rows, blocks)| {
                let before = scale.share;
                scale.weigh(rows * 100, blocks * 100);
                ((scale.share - before) / STEP_LEAST).round() as i32
            });
        assert_eq!(moved, [1, 2, 4, -1, -2, -4, -4], "what was regretted fades");
    }

    #[test]
    fn balancer_3_it_has_bounds() {
        let mut scale = Scale::new(0.25);
        (0..100).for_each(|_| scale.weigh(100, 0));
        assert!((scale.share - SHARE_MOST).abs() < 1e-9);
        (0..100).for_each(|_| scale.weigh(0, 100));
        assert!((scale.share - SHARE_LEAST).abs() < 1e-9);
    }

    #[test]
    fn balancer_2_it_is_weighed_when_much_was_read() {
        let balance = CacheBalancer::new(0.25, true);
        let due = [0, 1, 249, 250, 251, 600].map(|read| balance.is_due(read, 1000));
        assert_eq!(due, [true, false, false, true, false, true]);
        assert!(!CacheBalancer::new(0.25, false).is_due(1 << 40, 1000));
    }
}
