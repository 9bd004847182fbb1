//! The command line of a run.

use std::time::Duration;

use clap::Args;
use spillway::Mechanism;

use super::waits::Shares;
use super::work::{Latency, PressurePlan, run};
use crate::apart;
use crate::machine;
use crate::measure::progress;
use crate::report::{CommonArgs, Figure, Report, Row};
use crate::store::{SpillwayStores, Stores, mechanisms};

/// Gets and durable puts at a fixed rate, with and without background compactions.
#[derive(Args, Clone, Debug)]
pub struct PressureArgs {
    /// Memory budget of each store, in MiB
    #[arg(long, default_value_t = 256)]
    pub memory_mib: usize,
    /// Size of the data, as a multiple of the memory
    #[arg(long, default_value_t = 4.0)]
    pub data_times: f64,
    /// Bytes of each value
    #[arg(long, default_value_t = 400)]
    pub value_bytes: usize,
    /// Gets a second
    #[arg(long, default_value_t = 2000.0)]
    pub gets: f64,
    /// Durable puts a second
    #[arg(long, default_value_t = 500.0)]
    pub puts: f64,
    /// Threads that get
    #[arg(long, default_value_t = 2)]
    pub get_threads: u64,
    /// Threads that put
    #[arg(long, default_value_t = 4)]
    pub put_threads: u64,
    /// Rows a second that the background fill puts
    #[arg(long, default_value_t = 30_000.0)]
    pub fill: f64,
    /// Seconds of a window
    #[arg(long, default_value_t = 10.0)]
    pub seconds: f64,
    /// Windows of each kind in a run
    #[arg(long, default_value_t = 3)]
    pub windows: usize,
    /// Times to run everything, the stores in turn; the report gives medians over them and their
    /// windows
    #[arg(long, default_value_t = 1)]
    pub rounds: usize,
    /// Run a little of everything once, to check that it works
    #[arg(long)]
    pub quick: bool,
    /// Also run Spillway without each of these
    #[arg(long, value_parser = mechanisms(), value_delimiter = ',', default_values_t = [Mechanism::Pacing])]
    pub without: Vec<Mechanism>,
    /// Only stores of these names
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Seed, folder and report
    #[command(flatten)]
    pub common: CommonArgs,
    /// Run this store alone and write its results to a file; used for the process of each run
    #[arg(long, hide = true, num_args = 2, value_names = ["STORE", "FILE"])]
    pub child: Vec<String>,
}

impl PressureArgs {
    /// Runs the stores, and Spillway without the given mechanisms, in separate processes, and
    /// prints the report.
    ///
    /// # Errors
    /// Invalid arguments, or the first failure of a run, as text.
    pub fn run(mut self, stores: &[&dyn Stores]) -> Result<(), String> {
        if self.quick {
            (self.memory_mib, self.seconds, self.windows, self.rounds) = (32, 1.0, 1, 1);
        }
        let plan = self.plan()?;
        let without = SpillwayStores::each_without(&self.without);
        let mut stores = SpillwayStores::among(&without, stores);
        if let [name, file] = &self.child[..] {
            let stores = stores.iter().find(|stores| stores.name() == *name);
            let ran = run(*stores.ok_or("no such store")?, &plan, &self.common.dir)?;
            return apart::give(file, &ran);
        }
        stores.retain(|stores| self.only.is_empty() || self.only.contains(&stores.name()));
        if stores.is_empty() || self.rounds == 0 {
            return Err("a run needs a store and a round".to_owned());
        }
        let mut report = empty();
        let load = machine::load_average();
        let bar = progress((self.rounds * stores.len()) as u64);
        for round in 0..self.rounds {
            for place in 0..stores.len() {
                // The order rotates each round, so that none is always first.
                let name = stores[(place + round) % stores.len()].name();
                bar.set_message(name.clone());
                let ran: Result<Vec<Latency>, _> = apart::run(&self.common.dir, &[&name]);
                let ran = ran.map_err(|error| format!("{name}: {error}"))?;
                ran.iter().for_each(|latency| report.add(row(&name, latency)));
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        report.set("machine", machine::describe(&self.common.dir));
        report.set("load average", format!("{load} before, {} after", machine::load_average()));
        report.set("run", self.describe(&plan));
        stores.iter().for_each(|stores| report.set(stores.name(), stores.settings()));
        compare(&mut report);
        self.common.output.give(&report)
    }

    pub(super) fn plan(&self) -> Result<PressurePlan, String> {
        let memory_bytes = self.memory_mib << 20;
        let row_bytes = self.value_bytes as f64 + 16.0;
        let rows = (memory_bytes as f64 * self.data_times / row_bytes) as u64;
        let rates = [self.gets, self.puts, self.fill, self.seconds];
        let sane = rates.iter().all(|rate| rate.is_finite() && *rate > 0.0);
        if !sane || rows < 4 || self.get_threads == 0 || self.put_threads == 0 || self.windows == 0
        {
            return Err(
                "rates, rows, seconds, threads and windows must be greater than 0".to_owned()
            );
        }
        Ok(PressurePlan {
            rows,
            value_bytes: self.value_bytes,
            memory_bytes,
            gets_per_s: self.gets,
            puts_per_s: self.puts,
            get_threads: self.get_threads,
            put_threads: self.put_threads,
            window: Duration::from_secs_f64(self.seconds),
            windows: self.windows,
            fill_per_s: self.fill,
            seed: self.common.seed,
        })
    }

    fn describe(&self, plan: &PressurePlan) -> String {
        format!(
            "{} rows of 16 + {} bytes, {} MiB of memory each; {} gets a second by {} threads and {} durable puts by {}, of rows all \
             alike; latency counts from the moment due; windows of {} s, {} of each kind in turn, {} rounds; the fill puts {} rows a \
             second, not waiting for them to be durable; seed {}",
            plan.rows,
            plan.value_bytes,
            self.memory_mib,
            self.gets,
            self.get_threads,
            self.puts,
            self.put_threads,
            self.seconds,
            self.windows,
            self.rounds,
            self.fill,
            plan.seed
        )
    }
}

/// Notes the ratios of the latencies during a compaction and during a fill to the quiet latency.
pub(super) fn compare(report: &mut Report) {
    for subject in report.subjects() {
        for what in [GETS, PUTS] {
            let of = |beside: &str, figure| {
                report.median(&[what.to_owned(), beside.to_owned()], &subject, figure)
            };
            let times = |beside: &str, figure| of(beside, figure) / of("quiet", figure);
            let note = format!(
                "{subject}, {what}: over quiet windows the median is {:.2} times with a compaction and {:.2} times with a fill, the \
                 99th percentile {:.2} and {:.2} times",
                times("compaction", MEDIAN),
                times("fill", MEDIAN),
                times("compaction", P99),
                times("fill", P99)
            );
            report.note(note);
        }
    }
}

const GETS: &str = "gets";
const PUTS: &str = "durable puts";
/// Indexes of figures.
const MEDIAN: usize = 1;
const P99: usize = 2;

pub(super) fn empty() -> Report {
    let figure = |name, decimals| Figure { name, decimals };
    Report::new(
        &["what", "beside"],
        &[
            figure("ops/s", 0),
            figure("p50 us", 1),
            figure("p99 us", 1),
            figure("p99.9 us", 1),
            figure("longest ms", 1),
            figure("slow: queued %", 0),
            figure("slow: ran %", 0),
            figure("window s", 1),
            figure("compacted MiB/s", 1),
        ],
    )
}

pub(super) fn row(subject: &str, latency: &Latency) -> Row {
    let what = if latency.gets { GETS } else { PUTS };
    let percent =
        |share: fn(Shares) -> f64| latency.slow.map_or(f64::NAN, |slow| share(slow) * 100.0);
    Row {
        case: vec![what.to_owned(), latency.beside.name().to_owned()],
        subject: subject.to_owned(),
        figures: vec![
            latency.operations_per_s,
            latency.p50_us,
            latency.p99_us,
            latency.p999_us,
            latency.longest_us / 1e3,
            percent(|slow| slow.queued),
            percent(|slow| slow.ran),
            latency.seconds,
            latency.compacted_bytes / f64::from(1 << 20) / latency.seconds,
        ],
    }
}
