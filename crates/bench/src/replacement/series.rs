//! The results of a run, share by share of its operations.

use serde::{Deserialize, Serialize};

use crate::measure::median;

/// Shares that a dip is measured from.
const BEFORE: usize = 10;

/// What was seen in a share of the operations.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Share {
    /// Blocks found in memory, and not.
    pub(super) hits: f64,
    pub(super) misses: f64,
    /// Compactions that ended.
    pub(super) compactions: f64,
    /// Bytes of memory that flushes and compactions had at its end, and those of memtables and of
    /// caches.
    pub(super) compacting_bytes: f64,
    pub(super) memtable_bytes: f64,
    pub(super) cache_bytes: f64,
}

/// Shares of the operations, one after another.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Series {
    pub(super) shares: Vec<Share>,
    /// Operations of each.
    pub(super) each: u64,
    pub(super) seconds: f64,
    /// Flushes that went on meanwhile.
    pub(super) flushes: f64,
}

impl Series {
    /// Of a hundred blocks that were asked for in each share, those found in memory.
    pub(super) fn rates(&self) -> Vec<f64> {
        let rate = |share: &Share| 100.0 * share.hits / (share.hits + share.misses).max(1.0);
        self.shares.iter().map(rate).collect()
    }

    /// Blocks that were not found for each hundred operations of each share. How many are asked for
    /// hangs on how many sub-levels there are, and those of a merged one that nobody asks for any
    /// more were mostly in memory; this counts what had to be read alone.
    pub(super) fn lacks(&self) -> Vec<f64> {
        let lack = |share: &Share| 100.0 * share.misses / self.each.max(1) as f64;
        self.shares.iter().map(lack).collect()
    }

    /// All of them together.
    pub(super) fn rate(&self) -> f64 {
        let (hits, misses) = (self.sum(|share| share.hits), self.misses());
        100.0 * hits / (hits + misses).max(1.0)
    }

    /// Blocks that were not found.
    pub(super) fn misses(&self) -> f64 {
        self.sum(|share| share.misses)
    }

    fn sum(&self, of: impl Fn(&Share) -> f64) -> f64 {
        self.shares.iter().map(of).sum()
    }

    /// How far each share from one on lies below the median of those before, in points. The first
    /// have too few before them.
    pub(super) fn dips(&self, from: usize) -> Vec<f64> {
        falls(&self.rates(), from)
    }

    /// How many more blocks had to be read for a hundred operations of each share from one on than
    /// in the median of those before.
    pub(super) fn rises(&self, from: usize) -> Vec<f64> {
        let lacks: Vec<f64> = self.lacks().iter().map(|lack| -lack).collect();
        falls(&lacks, from)
    }
}

/// How far each figure from one on lies below the median of the [`BEFORE`] before it.
fn falls(figures: &[f64], from: usize) -> Vec<f64> {
    let fall = |at: usize| median(figures[at - BEFORE..at].iter().copied()) - figures[at];
    (from.max(BEFORE)..figures.len()).map(fall).collect()
}
