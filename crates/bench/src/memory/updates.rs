//! Gets and updates of rows in memory.

use std::path::Path;
use std::time::Duration;

use clap::{Args, ValueEnum};
use spillway_base::clock;
use spillway_base::rng::Rng;

use super::goals;
use super::rows::{OwnRows, StampedRows};
use crate::commits::Extent;
use crate::machine::{self, own_time};
use crate::measure::{fresh_folder, in_turns, progress, quantile_us, remove_folder};
use crate::report::{CommonArgs, Figure, Report, Row};
use crate::store::{Completions, Store, Stores};

/// The work of the threads of a cell.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum UpdatesWork {
    /// Gets of random rows.
    Gets,
    /// Overwrites of random rows, without waiting for durability.
    Relaxed,
    /// Overwrites of random rows, each waited for until it is durable; many are in flight if the
    /// store's commits do not block their thread.
    Durable,
}

impl UpdatesWork {
    fn name(self) -> &'static str {
        match self {
            UpdatesWork::Gets => "gets",
            UpdatesWork::Relaxed => "updates, not waited for",
            UpdatesWork::Durable => "updates, waited for",
        }
    }
}

/// Gets and updates of rows in memory, both engines in turn.
#[derive(Args, Clone, Debug)]
pub struct UpdatesArgs {
    /// What to measure
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["gets", "relaxed", "durable"])]
    pub work: Vec<UpdatesWork>,
    /// Rows of the table
    #[arg(long, default_value_t = 500_000)]
    pub rows: u64,
    /// Bytes of each key
    #[arg(long, value_delimiter = ',', default_values_t = [8, 16])]
    pub key_bytes: Vec<usize>,
    /// Bytes of each value
    #[arg(long, default_value_t = 100)]
    pub value_bytes: usize,
    /// Threads
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    pub threads: Vec<usize>,
    /// Waited-for commits in flight, over all threads, of stores that do not block their threads
    #[arg(long, default_value_t = 512)]
    pub in_flight: usize,
    /// Seconds of each cell that are measured, after a warm-up of a fifth of them
    #[arg(long, default_value_t = 2.0)]
    pub seconds: f64,
    /// Times to run everything; the report gives medians over them
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Memory budget of each store, in MiB
    #[arg(long, default_value_t = 1024)]
    pub memory_mib: usize,
    /// Only stores whose name contains one of these
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Seed, folder and report
    #[command(flatten)]
    pub common: CommonArgs,
}

/// The number of operations between two readings of the clock.
const BATCH: u64 = 32;

struct UpdatesCell<'a> {
    work: UpdatesWork,
    rows: &'a StampedRows,
    count: u64,
    threads: usize,
    in_flight: usize,
    extent: Extent,
    memory_bytes: usize,
    seed: u64,
}

/// The results of a thread.
struct UpdatesTally {
    /// Operations, with those of the warm-up.
    operations: u64,
    per_s: f64,
    /// Median and 99th percentile of waited-for commits.
    latency_us: (f64, f64),
    own: OwnRows,
}

impl UpdatesArgs {
    /// Runs the cells over these stores, the first of which is the memory engine, and prints the
    /// report.
    ///
    /// # Errors
    /// Invalid arguments, a wrong row, or the first failure of a run, as text.
    pub fn run(&self, stores: &[&dyn Stores]) -> Result<(), String> {
        self.common.output.give(&self.compare(stores)?)
    }

    pub(super) fn compare(&self, stores: &[&dyn Stores]) -> Result<Report, String> {
        let lacks = self.rounds == 0 || self.threads.contains(&0) || self.in_flight == 0;
        if lacks || self.threads.iter().any(|threads| *threads as u64 > self.rows) {
            return Err("a run needs a round, a commit in flight, a thread and its row".to_owned());
        }
        let time = Duration::try_from_secs_f64(self.seconds).map_err(|error| error.to_string())?;
        let wanted = |name: &str| {
            self.only.is_empty() || self.only.iter().any(|part| name.contains(part.as_str()))
        };
        let stores: Vec<_> =
            stores.iter().copied().filter(|stores| wanted(&stores.name())).collect();
        let mut report = self.empty(&stores);
        let cells = self.work.len() * self.threads.len() * self.key_bytes.len();
        let bar = progress((self.rounds * cells * stores.len()) as u64);
        // All rounds of a cell follow each other, so that the sides alternate within seconds.
        for &key_bytes in &self.key_bytes {
            let rows = StampedRows::new(key_bytes, self.value_bytes, self.common.seed)?;
            for &work in &self.work {
                for &threads in &self.threads {
                    let cell = UpdatesCell {
                        work,
                        rows: &rows,
                        count: self.rows,
                        threads,
                        in_flight: self.in_flight.max(threads),
                        extent: Extent::Time(time),
                        memory_bytes: self.memory_mib << 20,
                        seed: self.common.seed,
                    };
                    let case = [work.name().to_owned(), key_bytes.to_string(), threads.to_string()];
                    in_turns(self.rounds, &stores, |stores| {
                        bar.set_message(format!("{} {}", stores.name(), work.name()));
                        let figures = cell.run(*stores, &self.common.dir)?;
                        let (case, subject) = (case.to_vec(), stores.name());
                        report.add(Row { case, subject, figures });
                        bar.inc(1);
                        Ok(())
                    })?;
                }
            }
        }
        bar.finish_and_clear();
        goals::note_ratios(&mut report, GOAL);
        Ok(report)
    }

    fn empty(&self, stores: &[&dyn Stores]) -> Report {
        let figure = |name, decimals| Figure { name, decimals };
        let figures =
            [figure("per s", 0), figure("cpu us", 2), figure("p50 us", 1), figure("p99 us", 1)];
        let mut report = Report::new(&["work", "key B", "threads"], &figures);
        report.set("machine", machine::describe(&self.common.dir));
        report.set("load average", machine::load_average());
        report.set(
            "run",
            format!(
                "{} rows with values of {} bytes, {} s, {} rounds in turn, {} MiB of memory each, \
                 seed {}; durable on all sides where waited for, {} in flight where the store does \
                 not block",
                self.rows,
                self.value_bytes,
                self.seconds,
                self.rounds,
                self.memory_mib,
                self.common.seed,
                self.in_flight
            ),
        );
        stores.iter().for_each(|stores| report.set(stores.name(), stores.settings()));
        report
    }
}

/// The goal: the memory engine's throughput, divided by that of the others.
const GOAL: f64 = 1.5;

impl UpdatesCell<'_> {
    fn run(&self, stores: &dyn Stores, dir: &Path) -> Result<Vec<f64>, String> {
        let folder = dir.join("memory-updates");
        fresh_folder(&folder)?;
        let store = stores.open(&folder, self.memory_bytes)?;
        self.rows.load(&*store, self.count)?;
        let before = own_time();
        let (from, until) = self.extent.moments(clock::now());
        let tallies = std::thread::scope(|scope| {
            let store = &*store;
            let workers: Vec<_> = (0..self.threads)
                .map(|thread| scope.spawn(move || self.drive(store, thread, from, until)))
                .collect();
            let tallies = workers
                .into_iter()
                .map(|worker| worker.join().unwrap_or_else(|_| Err("a worker panicked".into())));
            tallies.collect::<Result<Vec<_>, String>>()
        })?;
        let cpu_us = (own_time() - before).as_secs_f64() * 1e6;
        tallies.iter().try_for_each(|tally| tally.own.check(self.rows, &*store, 1))?;
        drop(store);
        remove_folder(&folder)?;
        let operations: u64 = tallies.iter().map(|tally| tally.operations).sum();
        Ok(vec![
            tallies.iter().map(|tally| tally.per_s).sum(),
            cpu_us / operations.max(1) as f64,
            tallies.iter().map(|tally| tally.latency_us.0).fold(f64::NAN, f64::max),
            tallies.iter().map(|tally| tally.latency_us.1).fold(f64::NAN, f64::max),
        ])
    }

    fn drive(
        &self,
        store: &dyn Store,
        thread: usize,
        from: Duration,
        until: Duration,
    ) -> Result<UpdatesTally, String> {
        let own = OwnRows::new(self.count, thread, self.threads);
        let mut rng = Rng::new(self.seed.wrapping_add(thread as u64));
        if self.work == UpdatesWork::Durable {
            return self.drive_durable(store, own, &mut rng, from, until);
        }
        let (mut own, mut value) = (own, Vec::with_capacity(256));
        let (mut operations, mut begun) = (0, None);
        loop {
            let now = clock::now();
            if now >= from && begun.is_none() {
                begun = Some((now, operations));
            }
            if now >= until
                && let Some((begun, before)) = begun
                && operations > before
            {
                let measured: u64 = operations - before;
                let per_s = measured as f64 / (now - begun).as_secs_f64();
                let latency_us = (f64::NAN, f64::NAN);
                return Ok(UpdatesTally { operations, per_s, latency_us, own });
            }
            for _ in 0..BATCH {
                if self.work == UpdatesWork::Gets {
                    let number = rng.below(self.count);
                    if self.rows.read(store, number, &mut value)? != 0 {
                        return Err(format!("row {number} was not updated, and changed"));
                    }
                } else {
                    let (number, write) = own.update(rng.below(own.count()));
                    self.rows.value(number, write, &mut value);
                    store.commit(&[(self.rows.key(number).bytes(), &value)], false)?;
                }
            }
            operations += BATCH;
        }
    }

    fn drive_durable(
        &self,
        store: &dyn Store,
        mut own: OwnRows,
        rng: &mut Rng,
        from: Duration,
        until: Duration,
    ) -> Result<UpdatesTally, String> {
        let in_flight = self.in_flight.div_ceil(self.threads);
        let completions = Completions::new(from);
        let (mut operations, mut value, mut measured) = (0, Vec::with_capacity(256), false);
        loop {
            let now = clock::now();
            if now >= until && measured {
                break;
            }
            measured = now >= from;
            let (number, write) = own.update(rng.below(own.count()));
            self.rows.value(number, write, &mut value);
            let key = self.rows.key(number);
            store.begin(&[(key.bytes(), &value)], completions.one_more(now))?;
            operations += 1;
            completions.wait_below(in_flight, || store.lead());
        }
        completions.wait_below(1, || store.lead());
        let elapsed = clock::now() - from;
        let latency_ns = completions.take()?;
        let per_s = latency_ns.len() as f64 / elapsed.as_secs_f64();
        let latency_us = (quantile_us(&latency_ns, 0.5), quantile_us(&latency_ns, 0.99));
        Ok(UpdatesTally { operations, per_s, latency_us, own })
    }
}
