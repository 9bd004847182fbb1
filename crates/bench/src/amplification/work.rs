//! The mix, on one store.

use std::path::Path;

use serde::{Deserialize, Serialize};
use spillway_base::clock;
use spillway_base::rng::Rng;

use crate::keys::Keys;
use crate::machine::{self, Io};
use crate::measure::{Values, fresh_folder, key, progress, remove_folder};
use crate::store::{Store, Stores, Traffic, by_threads, load};

/// The parameters of a run.
#[derive(Clone, Debug)]
pub(crate) struct AmplificationPlan {
    pub(crate) rows: u64,
    pub(crate) value_bytes: usize,
    pub(crate) memory_bytes: usize,
    pub(crate) operations: u64,
    pub(crate) threads: u64,
    /// The shares of gets, gets of ranges, updates and inserts.
    pub(crate) mix: [u64; 4],
    pub(crate) skew: f64,
    /// The percentage of operations that use recently inserted rows.
    pub(crate) recent_percent: u64,
    /// Each thread waits for every Nth of its writes to be durable; 0 for none.
    pub(crate) sync_every: u64,
    pub(crate) seed: u64,
}

impl AmplificationPlan {
    /// Checks the plan.
    pub(crate) fn checked(self) -> Result<AmplificationPlan, String> {
        let all: u64 = self.mix.iter().sum();
        if self.rows < 2 || self.threads == 0 || self.operations == 0 || all == 0 {
            return Err("rows, threads, operations and the mix must be greater than 0".to_owned());
        }
        if self.recent_percent > 100 || !(0.0..1.0).contains(&self.skew) {
            return Err("a share is at most 100 of a hundred, and the skew is below 1".to_owned());
        }
        Ok(self)
    }
}

/// The shares of a mix, from the arguments.
pub(crate) fn mix_of(shares: &[u64]) -> Result<[u64; 4], String> {
    shares.try_into().map_err(|_| "the mix has four shares".to_owned())
}

/// The results of a run on one store.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct AmplificationResults {
    pub(super) seconds: f64,
    pub(super) cpu_seconds: f64,
    /// Bytes of keys and values that were updated and inserted.
    pub(super) asked_bytes: f64,
    pub(super) traffic: Traffic,
    pub(super) io: Io,
}

/// Rows of a get of a range.
const RANGE_ROWS: usize = 20;
/// A recently inserted row is one of the last this many.
const RECENT_ROWS: u64 = 100_000;
/// The number of operations after which a thread reports its progress.
const TOLD: u64 = 256;

/// Runs the plan on a store in a fresh folder, which is removed.
pub(super) fn run(
    stores: &dyn Stores,
    plan: &AmplificationPlan,
    dir: &Path,
) -> Result<AmplificationResults, String> {
    let folder = dir.join(stores.name());
    fresh_folder(&folder)?;
    let store = stores.open(&folder, plan.memory_bytes)?;
    let mix = Mix::new(&*store, plan);
    mix.load(&stores.name())?;
    let ran = measure(&mix)?;
    drop(store);
    remove_folder(&folder)?;
    Ok(ran)
}

fn measure(mix: &Mix<'_>) -> Result<AmplificationResults, String> {
    let Mix { store, plan, .. } = *mix;
    let traffic = || store.traffic().ok_or("this store does not tell what it writes");
    let (before, io, cpu, begin) = (traffic()?, Io::own(), machine::own_time(), clock::now());
    let bar = progress(plan.operations);
    let writes = mix.work(&|done| bar.inc(done))?;
    let seconds = (clock::now() - begin).as_secs_f64();
    bar.finish_and_clear();
    store.settle()?;
    let traffic = traffic()?.since(before);
    Ok(AmplificationResults {
        seconds,
        cpu_seconds: (machine::own_time() - cpu).as_secs_f64(),
        asked_bytes: writes as f64 * (key(0).len() + plan.value_bytes) as f64,
        traffic,
        io: Io::own().since(io),
    })
}

/// The mix of a plan, on a store.
pub(crate) struct Mix<'a> {
    store: &'a dyn Store,
    plan: &'a AmplificationPlan,
    hot: Keys,
    recent: Keys,
    values: Values,
}

impl<'a> Mix<'a> {
    pub(crate) fn new(store: &'a dyn Store, plan: &'a AmplificationPlan) -> Mix<'a> {
        Mix {
            store,
            plan,
            hot: Keys::new(plan.rows, plan.skew),
            recent: Keys::new(RECENT_ROWS, plan.skew),
            values: Values::new(plan.seed, plan.value_bytes),
        }
    }

    /// Brings all rows into the bottom level.
    pub(crate) fn load(&self, name: &str) -> Result<(), String> {
        load(self.store, name, self.plan.rows, &self.values)?;
        self.store.compact()
    }

    /// Executes all operations, and reports the number done from time to time. Returns the number
    /// of writes.
    pub(crate) fn work(&self, told: &(dyn Fn(u64) + Sync)) -> Result<u64, String> {
        by_threads(self.plan.threads, |thread| self.work_of(thread, told))
    }

    /// One thread's share of the operations; returns the number of writes.
    fn work_of(&self, thread: u64, told: &dyn Fn(u64)) -> Result<u64, String> {
        let plan = self.plan;
        let mut rng = Rng::new(plan.seed ^ ((thread + 1) << 32));
        let (mut inserted, mut writes, mut value, mut untold) = (0, 0, Vec::new(), 0);
        let all: u64 = plan.mix.iter().sum();
        for place in (thread..plan.operations).step_by(plan.threads as usize) {
            let what = rng.below(all);
            let [get, range, update, _] = plan.mix;
            let mut write = |row: u64, version: u64| {
                writes += 1;
                let durable = plan.sync_every > 0 && writes % plan.sync_every == 0;
                self.store.commit(&[(&key(row), self.values.of(row ^ version))], durable)
            };
            if what < get {
                let row = self.draw(thread, inserted, &mut rng);
                if !self.store.get(&key(row), &mut value)? || value.len() != plan.value_bytes {
                    return Err(format!("row {row} is missing"));
                }
            } else if what < get + range {
                let row = self.draw(thread, inserted, &mut rng);
                let mut first = None;
                let mut visit =
                    |key: &[u8], _: &[u8]| _ = first.get_or_insert_with(|| key.to_vec());
                self.store.seek(&key(row), RANGE_ROWS, &mut visit)?;
                if first.as_deref() != Some(&key(row)[..]) {
                    return Err(format!("row {row} is missing in a range"));
                }
            } else if what < get + range + update {
                write(self.draw(thread, inserted, &mut rng), place << 32)?;
            } else {
                write(self.own_row(thread, inserted), 0)?;
                inserted += 1;
            }
            untold += 1;
            if untold == TOLD {
                told(std::mem::take(&mut untold));
            }
        }
        told(untold);
        Ok(writes)
    }

    /// The row of a thread's insert with this number. Inserted rows follow the loaded rows, and
    /// threads take turns.
    fn own_row(&self, thread: u64, number: u64) -> u64 {
        self.plan.rows + number * self.plan.threads + thread
    }

    /// A loaded row, or one that this thread has inserted.
    fn draw(&self, thread: u64, inserted: u64, rng: &mut Rng) -> u64 {
        if rng.chance(self.plan.recent_percent, 100) {
            let ago = self.recent.draw_rank(rng);
            if ago < inserted {
                return self.own_row(thread, inserted - 1 - ago);
            }
        }
        self.hot.draw(rng)
    }
}
