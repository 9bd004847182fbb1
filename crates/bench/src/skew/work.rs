//! The reads, on one store.

use std::path::Path;

use indicatif::ProgressBar;
use spillway_base::clock;
use spillway_base::rng::Rng;

use crate::keys::Keys;
use crate::machine;
use crate::measure::{Values, fresh_folder, key, remove_folder};
use crate::store::{CacheHits, Store, Stores, by_threads, load};

/// What a run does.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) rows: u64,
    pub(super) value_bytes: usize,
    pub(super) memory_bytes: usize,
    /// Reads of each skew before those that are measured, and of these.
    pub(super) warm: u64,
    pub(super) reads: u64,
    pub(super) threads: u64,
    pub(super) skews: Vec<f64>,
    pub(super) seed: u64,
}

/// Reads of one skew.
pub(super) struct Ran {
    pub(super) skew: f64,
    pub(super) reads_per_s: f64,
    pub(super) cpu_us: f64,
    /// Of the reads, and of the blocks that were looked for, the shares that were in memory, where the store tells.
    pub(super) rows_hit: Option<f64>,
    pub(super) blocks_hit: Option<f64>,
    /// Blocks read from the device for each read, where the store tells.
    pub(super) device_reads: Option<f64>,
}

/// Runs the plan on a store in a fresh folder, which is removed; `bar` moves by a read.
pub(super) fn run(
    stores: &dyn Stores,
    plan: &Plan,
    dir: &Path,
    bar: &ProgressBar,
) -> Result<Vec<Ran>, String> {
    let folder = dir.join(stores.name());
    fresh_folder(&folder)?;
    let store = stores.open(&folder, plan.memory_bytes)?;
    load(&*store, &stores.name(), plan.rows, &Values::new(plan.seed, plan.value_bytes))?;
    store.compact()?;
    let measure = |skew: &f64| measure(&*store, plan, *skew, bar);
    let all = plan.skews.iter().map(measure).collect::<Result<_, _>>()?;
    drop(store);
    remove_folder(&folder)?;
    Ok(all)
}

fn measure(store: &dyn Store, plan: &Plan, skew: f64, bar: &ProgressBar) -> Result<Ran, String> {
    let keys = Keys::new(plan.rows, skew);
    read(store, plan, &keys, plan.warm, 1, bar)?;
    let (before, cpu, begin) = (store.cache_hits(), machine::own_time(), clock::now());
    read(store, plan, &keys, plan.reads, 2, bar)?;
    let seconds = (clock::now() - begin).as_secs_f64();
    let cpu = machine::own_time() - cpu;
    let hits = store.cache_hits().zip(before).map(|(after, before)| after.since(before));
    let share = |hits: f64, misses: f64| hits / (hits + misses).max(1.0);
    let reads = plan.reads as f64;
    Ok(Ran {
        skew,
        reads_per_s: reads / seconds,
        cpu_us: cpu.as_secs_f64() * 1e6 / reads,
        rows_hit: hits.map(|hits| hits.rows_hit / reads),
        blocks_hit: hits.map(|hits: CacheHits| share(hits.blocks_hit, hits.blocks_missed)),
        device_reads: hits.map(|hits| hits.blocks_missed / reads),
    })
}

/// So many reads, over all threads.
fn read(
    store: &dyn Store,
    plan: &Plan,
    keys: &Keys,
    reads: u64,
    phase: u64,
    bar: &ProgressBar,
) -> Result<(), String> {
    let all = by_threads(plan.threads, |thread| {
        let mut rng = Rng::new(plan.seed ^ (phase << 40) ^ (thread << 32));
        let mut value = Vec::new();
        let mut done = 0;
        for _ in (thread..reads).step_by(plan.threads as usize) {
            let row = keys.draw(&mut rng);
            if !store.get(&key(row), &mut value)? || value.len() != plan.value_bytes {
                return Err(format!("row {row} is missing"));
            }
            done += 1;
            if done % 4096 == 0 {
                bar.inc(4096);
            }
        }
        Ok(done)
    });
    all.map(|_| ())
}
