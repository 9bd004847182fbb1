//! The gets, updates and inserts, on one database.

use std::path::Path;

use serde::{Deserialize, Serialize};
use spillway::{DeviceClass, Tier};
use spillway_base::clock;
use spillway_base::rng::Rng;

use crate::keys::Keys;
use crate::machine;
use crate::measure::{Values, fresh_folder, key, progress, remove_folder};
use crate::store::{SpillwayStore, SpillwayStores, Store, by_threads, load, metrics_sum};

/// The parameters of a run.
#[derive(Clone, Debug)]
pub(super) struct TemperaturePlan {
    pub(super) rows: u64,
    pub(super) value_bytes: usize,
    pub(super) memory_bytes: usize,
    /// Operations of each half.
    pub(super) operations: u64,
    pub(super) threads: u64,
    /// The shares of gets, updates and inserts.
    pub(super) mix: [u64; 3],
    pub(super) skew: f64,
    /// The number of neighbours that are equally hot.
    pub(super) together: u64,
    /// Whether there is a fast device and a slow one.
    pub(super) tiers: bool,
    pub(super) seed: u64,
}

/// The results of the second half of a run.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct TemperatureResults {
    pub(super) seconds: f64,
    pub(super) cpu_seconds: f64,
    pub(super) gets: f64,
    /// Blocks found in the cache, and blocks read.
    pub(super) hits: f64,
    pub(super) reads: f64,
    /// Those read from the fast device.
    pub(super) fast_reads: f64,
    pub(super) written_bytes: f64,
    pub(super) moved_bytes: f64,
    /// The share of extents' bytes that are on the fast device at the end.
    pub(super) fast_share: f64,
}

/// Runs the plan on a database in a fresh folder, which is removed.
pub(super) fn run(
    stores: &SpillwayStores,
    plan: &TemperaturePlan,
    dir: &Path,
) -> Result<TemperatureResults, String> {
    let folder = dir.join(&stores.name);
    fresh_folder(&folder)?;
    let mut settings = stores.database_settings(plan.memory_bytes);
    if plan.tiers {
        let dir = folder.join("slow");
        std::fs::create_dir_all(&dir).map_err(|error| error.to_string())?;
        settings.tiers = vec![Tier { class: DeviceClass::Hdd, dir, compression: None }];
    }
    let store = stores.open_with(&folder.join("data"), settings)?;
    let groups = plan.rows.div_ceil(plan.together);
    let work = TemperatureWork {
        store: &store,
        plan,
        hot: Keys::new(groups, plan.skew),
        values: Values::new(plan.seed, plan.value_bytes),
    };
    work.load(&stores.name)?;
    work.half(0)?;
    let ran = work.measure();
    drop(store);
    remove_folder(&folder)?;
    ran
}

struct TemperatureWork<'a> {
    store: &'a SpillwayStore,
    plan: &'a TemperaturePlan,
    hot: Keys,
    values: Values,
}

impl TemperatureWork<'_> {
    fn load(&self, name: &str) -> Result<(), String> {
        load(self.store, name, self.plan.rows, &self.values)?;
        self.store.compact()
    }

    fn figure(&self, names: &[&str]) -> f64 {
        metrics_sum(&self.store.db.metrics(), names)
    }

    fn measure(&self) -> Result<TemperatureResults, String> {
        // The data folder is the faster of the two.
        let fast_reads = ["tiered_ssd_reads_total"];
        let figures = || {
            [
                self.figure(&["tiered_block_cache_hits_total"]),
                self.figure(&["tiered_block_cache_misses_total"]),
                self.figure(&fast_reads),
                self.figure(&[
                    "log_flushed_bytes_total",
                    "tiered_flushed_bytes_total",
                    "tiered_compaction_written_bytes_total",
                ]),
                self.figure(&["tiered_moved_bytes_total"]),
            ]
        };
        let (before, cpu, begin) = (figures(), machine::own_time(), clock::now());
        let gets = self.half(1)?;
        let seconds = (clock::now() - begin).as_secs_f64();
        let [hits, reads, fast_reads, ..] = figures();
        self.store.settle()?;
        let [.., written_bytes, moved_bytes] = figures();
        let used = |class: &str| {
            let name = format!("tiered_{class}");
            self.figure(&[&format!("{name}_bytes")]) - self.figure(&[&format!("{name}_free_bytes")])
        };
        let slow = if self.plan.tiers { used("hdd") } else { 0.0 };
        let fast_share = used("ssd") / (used("ssd") + slow).max(1.0);
        Ok(TemperatureResults {
            seconds,
            cpu_seconds: (machine::own_time() - cpu).as_secs_f64(),
            gets: gets as f64,
            hits: hits - before[0],
            reads: reads - before[1],
            fast_reads: fast_reads - before[2],
            written_bytes: written_bytes - before[3],
            moved_bytes: moved_bytes - before[4],
            fast_share,
        })
    }

    /// One half of the operations, with all threads; returns the number of gets.
    fn half(&self, half: u64) -> Result<u64, String> {
        let plan = self.plan;
        let bar = progress(plan.operations);
        let told = |done| bar.inc(done);
        let gets = by_threads(plan.threads, |thread| self.work(half, thread, &told));
        bar.finish_and_clear();
        gets
    }

    fn work(&self, half: u64, thread: u64, told: &dyn Fn(u64)) -> Result<u64, String> {
        let plan = self.plan;
        let mut rng = Rng::new(plan.seed ^ ((2 * thread + half + 1) << 32));
        let (mut gets, mut value) = (0, Vec::new());
        let all: u64 = plan.mix.iter().sum();
        for place in (thread..plan.operations).step_by(plan.threads as usize) {
            let what = rng.below(all);
            let row = self.draw(&mut rng);
            if what < plan.mix[0] {
                gets += 1;
                if !self.store.get(&key(row), &mut value)? || value.len() != plan.value_bytes {
                    return Err(format!("row {row} is missing"));
                }
            } else {
                // Inserted rows follow all loaded rows, with a position for each operation.
                let insert = what >= plan.mix[0] + plan.mix[1];
                let row = if insert { plan.rows + half * plan.operations + place } else { row };
                self.store.commit(&[(&key(row), self.values.of(row ^ place << 32))], false)?;
            }
            if place % 1024 == thread {
                told(1024);
            }
        }
        Ok(gets)
    }

    /// A random row of a hot group.
    fn draw(&self, rng: &mut Rng) -> u64 {
        let together = self.plan.together;
        (self.hot.draw(rng) * together + rng.below(together)).min(self.plan.rows - 1)
    }
}
