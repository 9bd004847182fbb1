//! The results of a run on one store, second by second.

use serde::{Deserialize, Serialize};

use crate::measure::median;

/// A second of a run.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct WaveSecond {
    /// Operations that ended in it.
    pub(super) ended: u64,
    /// Latency of those that should have begun in it.
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) p999_us: f64,
    /// Memory that the store accounts for, and the resident memory of the process.
    pub(super) memory_bytes: u64,
    pub(super) resident_bytes: u64,
    /// Seconds that writers had to wait in it, over all of them.
    pub(super) waited_s: f64,
}

/// A phase as a whole.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Phase {
    pub(super) operations_per_s: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) p999_us: f64,
    pub(super) longest_us: f64,
}

/// A run on one store.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Run {
    pub(super) store: String,
    pub(super) settings: String,
    /// Operations a second: before the step, and from it on.
    pub(super) rates: (f64, f64),
    pub(super) budget_bytes: u64,
    pub(super) data_bytes: u64,
    /// Seconds before the step.
    pub(super) before_s: usize,
    pub(super) before: Phase,
    pub(super) step: Phase,
    /// Operations that should have begun before the end and had not.
    pub(super) left: u64,
    pub(super) seconds: Vec<WaveSecond>,
}

impl Run {
    fn step_seconds(&self) -> &[WaveSecond] {
        &self.seconds[self.before_s.min(self.seconds.len())..]
    }

    /// The slowest second of the step over its median second.
    pub(super) fn lowest_over_median(&self) -> f64 {
        let ended = || self.step_seconds().iter().map(|second| second.ended as f64);
        ended().fold(f64::INFINITY, f64::min) / median(ended())
    }

    /// The effect of the wave on the store, in lines of text.
    pub(super) fn verdict(&self) -> Vec<String> {
        let most = |of: fn(&WaveSecond) -> u64| self.seconds.iter().map(of).max().unwrap_or(0);
        let budget = self.budget_bytes as f64;
        let waited = self.step_seconds().iter().map(|second| second.waited_s);
        vec![
            format!(
                "p99 of the step over before: {:.2} ({:.2} ms over {:.2} ms)",
                self.step.p99_us / self.before.p99_us,
                self.step.p99_us / 1e3,
                self.before.p99_us / 1e3
            ),
            format!(
                "lowest second over the median of the step: {:.2}; offered {:.0} a second, served {:.0}; {} left",
                self.lowest_over_median(),
                self.rates.1,
                self.step.operations_per_s,
                self.left
            ),
            format!(
                "memory at most over the budget: {:.2} as it counts, {:.2} of the process",
                most(|second| second.memory_bytes) as f64 / budget,
                most(|second| second.resident_bytes) as f64 / budget
            ),
            format!(
                "writers waited {:.1} s in all, in {} of {} seconds",
                waited.clone().sum::<f64>(),
                waited.filter(|waited| *waited > 0.0).count(),
                self.step_seconds().len()
            ),
        ]
    }
}
