//! The fill of one store.

use std::path::Path;
use std::time::Duration;

use hdrhistogram::Histogram;
use indicatif::ProgressBar;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use spillway_base::clock;
use spillway_base::rng::Rng;

use crate::machine::{self, resident_bytes};
use crate::measure::{
    KEY_BYTES, Values, fresh_folder, histogram, key, progress, quantile_us, remove_folder,
};
use crate::store::{Store, Stores};

/// The parameters of a run.
#[derive(Clone, Debug)]
pub(super) struct FillPlan {
    pub(super) rows: u64,
    pub(super) value_bytes: usize,
    pub(super) memory_bytes: usize,
    pub(super) threads: u64,
    /// Whether rows come in key order; each thread then has a part of the keys.
    pub(super) in_order: bool,
    /// Rows that are read back.
    pub(super) gets: u64,
    pub(super) seed: u64,
}

/// A second of a fill.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct FillSecond {
    pub(super) puts: u64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) longest_us: f64,
    pub(super) resident_bytes: u64,
}

/// The results of one store's fill.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct FillResults {
    pub(super) fill_seconds: f64,
    /// Seconds from the last put until no compaction was due.
    pub(super) settle_seconds: f64,
    pub(super) cpu_seconds: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) longest_us: f64,
    /// Seconds that writers had to wait, over all of them.
    pub(super) waited_seconds: f64,
    /// Bytes written by the store, including its log, once it has settled.
    pub(super) written_bytes: f64,
    /// The complete seconds.
    pub(super) seconds: Vec<FillSecond>,
}

/// Runs the plan on a store in a fresh folder, which is removed.
pub(super) fn run(stores: &dyn Stores, plan: &FillPlan, dir: &Path) -> Result<FillResults, String> {
    let folder = dir.join(stores.name());
    fresh_folder(&folder)?;
    let store = stores.open(&folder, plan.memory_bytes)?;
    let values = Values::new(plan.seed, plan.value_bytes);
    let fill = Fill { store: &*store, plan, values, seconds: Mutex::default() };
    let ran = fill.run(&stores.name())?;
    drop(store);
    remove_folder(&folder)?;
    Ok(ran)
}

struct Fill<'a> {
    store: &'a dyn Store,
    plan: &'a FillPlan,
    values: Values,
    /// The measurements of all threads, by second, and the memory when the first thread completed
    /// the second.
    seconds: Mutex<Vec<(Histogram<u64>, u64)>>,
}

impl Fill<'_> {
    fn run(&self, name: &str) -> Result<FillResults, String> {
        let plan = self.plan;
        let bar = progress(plan.rows);
        bar.set_message(format!("rows into {name}"));
        let (cpu, begin) = (machine::own_time(), clock::now());
        let work = |thread| self.work(thread, begin, &bar);
        let work = &work;
        std::thread::scope(|scope| {
            let workers: Vec<_> =
                (0..plan.threads).map(|thread| scope.spawn(move || work(thread))).collect();
            workers.into_iter().try_for_each(|worker| {
                worker.join().unwrap_or_else(|_| Err("a worker panicked".to_owned()))
            })
        })?;
        let filled = clock::now();
        bar.set_message(format!("{name} settles"));
        self.store.settle()?;
        let settle_seconds = (clock::now() - filled).as_secs_f64();
        let fill_seconds = (filled - begin).as_secs_f64();
        let cpu_seconds = (machine::own_time() - cpu).as_secs_f64();
        self.read_back()?;
        bar.finish_and_clear();
        let seconds = self.seconds.lock();
        let mut all = histogram();
        seconds.iter().for_each(|(latency_ns, _)| all += latency_ns);
        let whole = seconds.iter().take(fill_seconds as usize);
        let traffic = self.store.traffic();
        Ok(FillResults {
            fill_seconds,
            settle_seconds,
            cpu_seconds,
            p50_us: quantile_us(&all, 0.5),
            p99_us: quantile_us(&all, 0.99),
            longest_us: all.max() as f64 / 1e3,
            waited_seconds: self.store.pressure().waited_s,
            written_bytes: traffic.map_or(f64::NAN, |traffic| traffic.written_bytes()),
            seconds: whole.map(second).collect(),
        })
    }

    fn row(&self, index: u64) -> u64 {
        if self.plan.in_order {
            return index;
        }
        // The generator's first number differs for each seed.
        Rng::new(self.plan.seed ^ index).next_u64()
    }

    fn work(&self, thread: u64, begin: Duration, bar: &ProgressBar) -> Result<(), String> {
        let share = self.plan.rows / self.plan.threads;
        let (mut latency_ns, mut second) = (histogram(), 0);
        for index in thread * share..(thread + 1) * share {
            let number = self.row(index);
            let before = clock::now();
            self.store.commit(&[(&key(number), self.values.of(number))], false)?;
            let after = clock::now();
            let now = (after - begin).as_secs() as usize;
            if now != second {
                bar.inc(latency_ns.len());
                self.put_down(second, &mut latency_ns);
                second = now;
            }
            latency_ns.saturating_record((after - before).as_nanos() as u64);
        }
        self.put_down(second, &mut latency_ns);
        Ok(())
    }

    /// Adds one thread's measurements of a second.
    fn put_down(&self, second: usize, latency_ns: &mut Histogram<u64>) {
        let mut seconds = self.seconds.lock();
        while seconds.len() <= second {
            seconds.push((histogram(), resident_bytes()));
        }
        seconds[second].0 += &*latency_ns;
        latency_ns.reset();
    }

    fn read_back(&self) -> Result<(), String> {
        let (mut rng, mut value) = (Rng::new(self.plan.seed), Vec::new());
        let rows = self.plan.rows / self.plan.threads * self.plan.threads;
        for _ in 0..self.plan.gets {
            let number = self.row(rng.below(rows));
            if !self.store.get(&key(number), &mut value)? || value != self.values.of(number) {
                return Err(format!("row {number} is not what was put"));
            }
        }
        Ok(())
    }
}

fn second((latency_ns, resident_bytes): &(Histogram<u64>, u64)) -> FillSecond {
    FillSecond {
        puts: latency_ns.len(),
        p50_us: quantile_us(latency_ns, 0.5),
        p99_us: quantile_us(latency_ns, 0.99),
        longest_us: latency_ns.max() as f64 / 1e3,
        resident_bytes: *resident_bytes,
    }
}

/// Bytes of a row.
pub(super) fn row_bytes(value_bytes: usize) -> u64 {
    (KEY_BYTES + value_bytes) as u64
}
