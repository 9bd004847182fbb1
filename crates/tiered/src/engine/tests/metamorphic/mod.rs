//! Metamorphic tests: one history runs under many settings. Every read must return the result of a
//! model, so it returns the same result under all settings.
//!
//! A history is a list of steps: writes, reads, compactions, splits and joins of sub-tables, closes
//! and crashes of the engine. It does not depend on the settings. Each opening chooses new
//! settings, a random [`Variation`]: sizes, levels, reuse, codings, tiers, threads and the order of
//! compactions. `SPILLWAY_SEED` selects the histories, and `SPILLWAY_ROUNDS` sets their number.

mod history;
mod merges;
mod model;
mod reads;
mod run;
mod variation;

use history::steps_of;
use run::Run;

use super::*;
use crate::source::met;

/// The runs of each history.
const RUNS: u64 = 3;

/// The events that have occurred, over all runs.
#[derive(Default, Debug)]
struct Seen {
    /// The engines' counters.
    counters: BTreeMap<&'static str, f64>,
    dictionaries: usize,
    /// The number of merges that two executors did.
    compared: u64,
    reads: u64,
    openings: u64,
    restores: u64,
}

/// Metrics that may stay zero: waits, which do not occur here; events that need a full device or a
/// larger row cache; hot slices that stay, which with so few reads depends on the speed of threads
/// (`temperature` tests them); and merges with different results.
const NOT_COUNTED: [&str; 6] = [
    REFUSED,
    "tiered_kept_bytes_total",
    "stall_memory_total",
    "stall_memory_seconds_total",
    "tiered_tier_displaced_slots_total",
    "tiered_row_cache_ghost_miss_bytes_total",
];

const REFUSED: &str = "tiered_refused_merges_total";

impl Seen {
    /// Adds the counters of an engine that is about to end.
    fn add(&mut self, engine: &TieredEngine) {
        for metric in engine.metrics().into_iter().filter(|metric| metric.counter) {
            *self.counters.entry(metric.name).or_default() += metric.value;
        }
        let inner = &engine.0;
        let has_one = |id: &TableId| inner.context.dictionaries.of(*id).newest().is_some();
        self.dictionaries += inner.tables.load().keys().filter(|id| has_one(id)).count();
    }

    /// Checks that every event that an engine counts has occurred: each kind of compaction, reuse,
    /// caching, readahead and moves.
    fn check_all(&self) {
        let counted = self.counters.iter().filter(|(name, _)| !NOT_COUNTED.contains(name));
        let never: Vec<_> = counted.filter(|(_, count)| **count == 0.0).collect();
        assert!(never.is_empty(), "{never:?} of {self:?}");
        assert_eq!(self.counters[REFUSED], 0.0, "OFFLOAD-1");
        assert!(self.compared > 500 && self.dictionaries > 0 && self.restores > 0, "{self:?}");
    }
}

/// EXTENT-MOVE-1, COMPACTION-1, E4: a history returns the same results for every read under all
/// settings.
#[test]
fn one_history_answers_the_same_under_all_settings() {
    let number = |name| std::env::var(name).ok().and_then(|value: String| value.parse().ok());
    let first: u64 = number("SPILLWAY_SEED").unwrap_or(3);
    let rounds = number("SPILLWAY_ROUNDS").unwrap_or(6);
    let mut seen = Seen::default();
    met::lent();
    for seed in first..first + rounds {
        let slot_bytes = 16 << 10 << (2 * (seed % 2));
        let steps = steps_of(seed, 700, slot_bytes as u64);
        for number in 0..RUNS {
            let mut run = Run::new(seed * 100 + number, &mut seen, slot_bytes);
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                steps.iter().for_each(|step| run.step(step));
                run.finish();
            }));
            if let Err(panic) = done {
                eprintln!("SPILLWAY_SEED={seed}, run {number}: {:?}", run.variation);
                std::panic::resume_unwind(panic);
            }
        }
    }
    let lent = met::lent();
    eprintln!("{seen:?}, lent {lent:?}");
    if std::env::var_os("SPILLWAY_SEED").is_none() {
        seen.check_all();
        met::check_all(&lent, 20);
    }
}
