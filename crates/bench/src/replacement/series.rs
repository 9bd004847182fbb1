//! What a run gave, share by share of its operations.

use serde::{Deserialize, Serialize};

use crate::measure::median;

/// Shares that a dip is measured from.
const BEFORE: usize = 10;

/// Blocks found in memory, and not, in each share of the operations.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Series {
    pub(super) shares: Vec<(f64, f64)>,
    pub(super) seconds: f64,
    /// Compactions and flushes that went on meanwhile.
    pub(super) compactions: f64,
    pub(super) flushes: f64,
}

impl Series {
    /// Of a hundred blocks that were asked for in each share, those found in memory.
    pub(super) fn rates(&self) -> Vec<f64> {
        let rate = |(hits, misses): &(f64, f64)| 100.0 * hits / (hits + misses).max(1.0);
        self.shares.iter().map(rate).collect()
    }

    /// All of them together.
    pub(super) fn rate(&self) -> f64 {
        let sum = |of: fn(&(f64, f64)) -> f64| self.shares.iter().map(of).sum::<f64>();
        let (hits, misses) = (sum(|share| share.0), sum(|share| share.1));
        100.0 * hits / (hits + misses).max(1.0)
    }

    /// Blocks that were not found.
    pub(super) fn misses(&self) -> f64 {
        self.shares.iter().map(|share| share.1).sum()
    }

    /// How far each share from one on lies below the median of those before, in points. The first have too few before them.
    pub(super) fn dips(&self, from: usize) -> Vec<f64> {
        let rates = self.rates();
        let dip = |at: usize| median(rates[at - BEFORE..at].iter().copied()) - rates[at];
        (from.max(BEFORE)..rates.len()).map(dip).collect()
    }
}
