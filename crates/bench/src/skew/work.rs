//! The reads, on one store.

use std::path::Path;

use indicatif::ProgressBar;
use spillway_base::clock;
use spillway_base::rng::Rng;

use crate::keys::Keys;
use crate::machine::{self, Cpu};
use crate::measure::{Values, fresh_folder, key, read_through, remove_folder};
use crate::store::{CacheHits, Store, Stores, by_threads, load};

/// The reads of one step after a jump, as a fraction of the measured reads.
const STEP_SHARE: u64 = 50;
/// The caches have recovered once at most this many times as many blocks are read for the new rows.
const RECOVERED: f64 = 1.1;

/// The parameters of a run.
#[derive(Clone, Debug)]
pub(super) struct SkewPlan {
    pub(super) rows: u64,
    pub(super) value_bytes: usize,
    pub(super) memory_bytes: usize,
    /// The unmeasured and the measured reads of each skew.
    pub(super) warm: u64,
    pub(super) reads: u64,
    pub(super) threads: u64,
    pub(super) skews: Vec<f64>,
    pub(super) seed: u64,
}

/// Reads of one skew.
pub(super) struct SkewResults {
    pub(super) skew: f64,
    pub(super) reads_per_s: f64,
    pub(super) cpu_us: f64,
    /// The kernel's part of that.
    pub(super) kernel_us: f64,
    /// The shares of the reads, and of the requested blocks, that were in memory, if the store
    /// reports them.
    pub(super) rows_hit: Option<f64>,
    pub(super) blocks_hit: Option<f64>,
    /// Blocks read from the device for each read, if the store reports them.
    pub(super) device_reads: Option<f64>,
    /// After all popular rows are exchanged for others at once: the reads until the caches are as
    /// good as before; infinite if the measured number of reads did not suffice. `None` if the
    /// store does not report its caches, or no rows are more popular than others.
    pub(super) recovered_after: Option<f64>,
}

/// Runs the plan on a store in a fresh folder, which is removed; `bar` advances by one for each
/// read.
pub(super) fn run(
    stores: &dyn Stores,
    plan: &SkewPlan,
    dir: &Path,
    bar: &ProgressBar,
) -> Result<Vec<SkewResults>, String> {
    let folder = dir.join(stores.name());
    fresh_folder(&folder)?;
    let store = stores.open(&folder, plan.memory_bytes)?;
    load(&*store, &stores.name(), plan.rows, &Values::new(plan.seed, plan.value_bytes))?;
    store.compact()?;
    read_through(&folder)?;
    let measure = |skew: &f64| measure(&*store, plan, *skew, bar);
    let all = plan.skews.iter().map(measure).collect::<Result<_, _>>()?;
    drop(store);
    remove_folder(&folder)?;
    Ok(all)
}

fn measure(
    store: &dyn Store,
    plan: &SkewPlan,
    skew: f64,
    bar: &ProgressBar,
) -> Result<SkewResults, String> {
    let keys = Keys::new(plan.rows, skew);
    let asked = |row| row;
    read(store, plan, (&keys, &asked), plan.warm, 1, bar)?;
    let (before, kernel) = (store.cache_hits(), Cpu::own());
    let (cpu, begin) = (machine::own_time(), clock::now());
    read(store, plan, (&keys, &asked), plan.reads, 2, bar)?;
    let seconds = (clock::now() - begin).as_secs_f64();
    let cpu = machine::own_time() - cpu;
    let kernel = Cpu::own().since(kernel).system;
    let hits = store.cache_hits().zip(before).map(|(after, before)| after.since(before));
    let share = |hits: f64, misses: f64| hits / (hits + misses).max(1.0);
    let reads = plan.reads as f64;
    let device_reads = hits.map(|hits| hits.blocks_missed / reads);
    let recovered_after = match device_reads.filter(|_| skew > 0.0) {
        Some(before) => Some(recover(store, plan, &keys, before, bar)?),
        None => None,
    };
    Ok(SkewResults {
        skew,
        reads_per_s: reads / seconds,
        cpu_us: cpu.as_secs_f64() * 1e6 / reads,
        kernel_us: kernel.as_secs_f64() * 1e6 / reads,
        rows_hit: hits.map(|hits| hits.rows_hit / reads),
        blocks_hit: hits.map(|hits: CacheHits| share(hits.blocks_hit, hits.blocks_missed)),
        device_reads,
        recovered_after,
    })
}

/// Exchanges the popular rows, and returns the number of reads until about `before` blocks are read
/// for each again.
fn recover(
    store: &dyn Store,
    plan: &SkewPlan,
    keys: &Keys,
    before: f64,
    bar: &ProgressBar,
) -> Result<f64, String> {
    let step = (plan.reads / STEP_SHARE).max(1);
    let others = |row| (row + plan.rows / 2) % plan.rows;
    let missed = || store.cache_hits().map_or(f64::NAN, |hits| hits.blocks_missed);
    for done in 0..STEP_SHARE {
        let earlier = missed();
        read(store, plan, (keys, &others), step, 3 + done, bar)?;
        if missed() - earlier <= RECOVERED * before * step as f64 {
            return Ok((step * (done + 1)) as f64);
        }
    }
    Ok(f64::INFINITY)
}

/// This many reads, over all threads, of drawn rows that are then mapped to others.
fn read(
    store: &dyn Store,
    plan: &SkewPlan,
    (keys, taken_for): (&Keys, &(dyn Fn(u64) -> u64 + Sync)),
    reads: u64,
    phase: u64,
    bar: &ProgressBar,
) -> Result<(), String> {
    let all = by_threads(plan.threads, |thread| {
        let mut rng = Rng::new(plan.seed ^ (phase << 40) ^ (thread << 32));
        let mut value = Vec::new();
        let mut done = 0;
        for _ in (thread..reads).step_by(plan.threads as usize) {
            let row = taken_for(keys.draw(&mut rng));
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
