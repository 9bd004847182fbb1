//! The windows, on one store.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use spillway_base::clock::{self, Clock};
use spillway_base::rng::Rng;

use super::waits::{Account, EndedOperation, Shares, shares_of_slowest};
use crate::measure::{Values, fresh_folder, histogram, key, progress, quantile_us, remove_folder};
use crate::store::{Store, Stores};

/// The parameters of a run.
#[derive(Clone, Debug)]
pub(super) struct PressurePlan {
    pub(super) rows: u64,
    pub(super) value_bytes: usize,
    pub(super) memory_bytes: usize,
    /// Operations a second, over all threads of their kind.
    pub(super) gets_per_s: f64,
    pub(super) puts_per_s: f64,
    pub(super) get_threads: u64,
    pub(super) put_threads: u64,
    /// The length of a window, except the compaction's.
    pub(super) window: Duration,
    /// Windows of each kind.
    pub(super) windows: usize,
    /// Rows a second that the fill puts.
    pub(super) fill_per_s: f64,
    pub(super) seed: u64,
}

/// The background work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) enum Beside {
    Quiet,
    Compaction,
    Fill,
}

impl Beside {
    const ALL: [Beside; 3] = [Beside::Quiet, Beside::Compaction, Beside::Fill];

    pub(super) fn name(self) -> &'static str {
        match self {
            Beside::Quiet => "quiet",
            Beside::Compaction => "compaction",
            Beside::Fill => "fill",
        }
    }
}

/// Operations of one kind in a window.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(super) struct Latency {
    pub(super) beside: Beside,
    pub(super) gets: bool,
    pub(super) operations_per_s: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) p999_us: f64,
    pub(super) longest_us: f64,
    /// How the slowest hundredth spent its time, if the system reports it.
    pub(super) slow: Option<Shares>,
    pub(super) seconds: f64,
    /// Bytes that compactions wrote in the window.
    pub(super) compacted_bytes: f64,
}

/// Rows of a commit of the load and of the fill.
const BATCH_ROWS: u64 = 100;
/// One row in this many is rewritten before a compaction is requested.
const ANEW: u64 = 4;

/// Runs the plan on a store in a fresh folder, which is removed.
pub(super) fn run(
    stores: &dyn Stores,
    plan: &PressurePlan,
    dir: &Path,
) -> Result<Vec<Latency>, String> {
    let folder = dir.join(stores.name());
    fresh_folder(&folder)?;
    let store = stores.open(&folder, plan.memory_bytes)?;
    let values = Values::new(plan.seed, plan.value_bytes);
    let work = PressureWork { store: &*store, plan, values };
    let bar = progress((2 + plan.windows * Beside::ALL.len()) as u64);
    bar.set_message(format!("rows loaded into {}", stores.name()));
    work.put_all(0..plan.rows, |number| number)?;
    work.store.settle()?;
    bar.inc(2);
    let mut all = Vec::new();
    for number in 0..plan.windows {
        for beside in Beside::ALL {
            bar.set_message(format!("{}, {}", stores.name(), beside.name()));
            all.extend(work.window(beside, number as u64)?);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    drop(store);
    remove_folder(&folder)?;
    Ok(all)
}

struct PressureWork<'a> {
    store: &'a dyn Store,
    plan: &'a PressurePlan,
    values: Values,
}

impl PressureWork<'_> {
    /// Puts rows in batches, without waiting for durability.
    fn put_all(
        &self,
        numbers: std::ops::Range<u64>,
        row: impl Fn(u64) -> u64,
    ) -> Result<(), String> {
        for first in numbers.clone().step_by(BATCH_ROWS as usize) {
            self.put_batch(first..(first + BATCH_ROWS).min(numbers.end), &row)?;
        }
        Ok(())
    }

    fn put_batch(
        &self,
        numbers: std::ops::Range<u64>,
        row: impl Fn(u64) -> u64,
    ) -> Result<(), String> {
        let keys: Vec<_> = numbers.clone().map(|number| key(row(number))).collect();
        let rows: Vec<_> = keys
            .iter()
            .zip(numbers)
            .map(|(key, number)| (&key[..], self.values.of(number)))
            .collect();
        self.store.commit(&rows, false)
    }

    /// A random loaded row.
    fn any(&self, number: u64) -> u64 {
        Rng::new(self.plan.seed.wrapping_add(number)).below(self.plan.rows)
    }

    fn window(&self, beside: Beside, number: u64) -> Result<[Latency; 2], String> {
        let seed = (number + 1) << 40 | (beside as u64) << 36;
        if beside == Beside::Compaction {
            self.put_all(seed..seed + self.plan.rows / ANEW, |number| self.any(number))?;
        }
        let over = AtomicBool::new(false);
        let traffic = || self.store.traffic().map_or(f64::NAN, |all| all.compaction_written_bytes);
        let (begin, compacted) = (clock::now(), traffic());
        let (gets, puts) = std::thread::scope(|scope| {
            let over = &over;
            let operations = |gets: bool| {
                let plan = self.plan;
                let (threads, per_s) = match gets {
                    true => (plan.get_threads, plan.gets_per_s),
                    false => (plan.put_threads, plan.puts_per_s),
                };
                let apart = Duration::from_secs_f64(threads as f64 / per_s);
                let spawn = |thread: u64| {
                    let begin = begin + apart.mul_f64(thread as f64 / threads as f64);
                    let seed = seed + (thread << 8) + u64::from(gets);
                    scope.spawn(move || self.operate(gets, begin, apart, seed, over))
                };
                (0..threads).map(spawn).collect::<Vec<_>>()
            };
            let (gets, puts) = (operations(true), operations(false));
            let background = self.background(beside, seed, begin);
            over.store(true, Ordering::Relaxed);
            let join = |workers: Vec<std::thread::ScopedJoinHandle<'_, _>>| {
                let mut all = Vec::new();
                for worker in workers {
                    let worked: Result<Vec<EndedOperation>, String> =
                        worker.join().unwrap_or_else(|_| Err("a worker panicked".to_owned()));
                    all.extend(worked?);
                }
                Ok::<_, String>(all)
            };
            let both = (join(gets), join(puts));
            background.and(Ok::<_, String>((both.0?, both.1?)))
        })?;
        let seconds = (clock::now() - begin).as_secs_f64();
        let compacted_bytes = traffic() - compacted;
        if beside != Beside::Quiet {
            self.store.settle()?;
        }
        let latency = |gets: bool, taken: &[EndedOperation]| {
            let latency_ns = histogram_of(taken);
            let p99_us = quantile_us(&latency_ns, 0.99);
            let slow = shares_of_slowest(taken, 0.01);
            Latency {
                beside,
                gets,
                operations_per_s: latency_ns.len() as f64 / seconds,
                p50_us: quantile_us(&latency_ns, 0.5),
                p99_us,
                p999_us: quantile_us(&latency_ns, 0.999),
                longest_us: latency_ns.max() as f64 / 1e3,
                slow,
                seconds,
                compacted_bytes,
            }
        };
        Ok([latency(true, &gets), latency(false, &puts)])
    }

    /// The background work until the window is over.
    fn background(&self, beside: Beside, seed: u64, begin: Duration) -> Result<(), String> {
        let end = begin + self.plan.window;
        match beside {
            Beside::Quiet => Clock::system().sleep(self.plan.window),
            Beside::Compaction => self.store.compact()?,
            Beside::Fill => {
                let apart = Duration::from_secs_f64(BATCH_ROWS as f64 / self.plan.fill_per_s);
                let (mut due, mut number) = (begin, seed);
                while clock::now() < end {
                    Clock::system().sleep(due.saturating_sub(clock::now()));
                    due += apart;
                    self.put_batch(number..number + BATCH_ROWS, |number| self.any(number))?;
                    number += BATCH_ROWS;
                }
            }
        }
        Ok(())
    }

    /// One operation after another, each due a fixed time after the one before.
    fn operate(
        &self,
        gets: bool,
        begin: Duration,
        apart: Duration,
        seed: u64,
        over: &AtomicBool,
    ) -> Result<Vec<EndedOperation>, String> {
        let (mut rng, mut taken) = (Rng::new(self.plan.seed ^ seed), Vec::new());
        let mut account = Account::of_this_thread();
        let (mut due, mut value) = (begin, Vec::new());
        let mut free = begin;
        // Every window has an operation, however short it is.
        while taken.is_empty() || !over.load(Ordering::Relaxed) {
            Clock::system().sleep(due.saturating_sub(clock::now()));
            let row = rng.below(self.plan.rows);
            if !gets {
                self.store.commit(&[(&key(row), self.values.of(rng.next_u64()))], true)?;
            } else if !self.store.get(&key(row), &mut value)?
                || value.len() != self.plan.value_bytes
            {
                return Err(format!("row {row} is missing"));
            }
            let end = clock::now();
            let (latency, own) = (end.saturating_sub(due), end.saturating_sub(due.max(free)));
            taken.push(EndedOperation { latency, own, spent: account.next() });
            due += apart;
            // The time to read the account counts for no operation.
            free = clock::now();
        }
        Ok(taken)
    }
}

fn histogram_of(taken: &[EndedOperation]) -> Histogram<u64> {
    let mut latency_ns = histogram();
    taken.iter().for_each(|one| latency_ns.saturating_record(one.latency.as_nanos() as u64));
    latency_ns
}
