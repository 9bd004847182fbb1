//! The command line of a run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use spillway::Mechanism;

use super::plot;
use super::run::{Rate, WavePlan, run};
use super::series::Run;
use crate::apart;
use crate::machine;
use crate::report::{CommonArgs, Figure, Report, Row};
use crate::store::{SpillwayStores, Stores, mechanisms};

/// A load step over data larger than memory, second by second.
#[derive(Args, Clone, Debug)]
pub struct WaveArgs {
    /// Memory budget of each store, in MiB
    #[arg(long, default_value_t = 256)]
    pub memory_mib: usize,
    /// Size of the data, as a multiple of the memory
    #[arg(long, default_value_t = 4.0)]
    pub data_times: f64,
    /// The number of rows, instead
    #[arg(long)]
    pub rows: Option<u64>,
    /// Bytes of each value
    #[arg(long, default_value_t = 400)]
    pub value_bytes: usize,
    /// Skew of the requested rows: 0 for uniform, 0.99 for YCSB's Zipf distribution
    #[arg(long, default_value_t = 0.99)]
    pub skew: f64,
    /// Percent of the operations that are reads; the others are durable writes
    #[arg(long, default_value_t = 50)]
    pub reads_percent: u64,
    /// Seconds of the closed loop before the step
    #[arg(long, default_value_t = 20)]
    pub before: usize,
    /// Seconds of the step
    #[arg(long, default_value_t = 60)]
    pub seconds: usize,
    /// The step's rate, as a multiple of the rate before
    #[arg(long, default_value_t = 122.0)]
    pub step: f64,
    /// Operations a second in the step [default: a share of the rate that the first store sustains]
    #[arg(long)]
    pub rate: Option<f64>,
    /// The share of the rate that the first store sustains in a closed loop
    #[arg(long, default_value_t = 0.6)]
    pub share: f64,
    /// Seconds of that closed loop, of which the later half counts
    #[arg(long, default_value_t = 30)]
    pub capacity_seconds: u64,
    /// Threads of stores whose commits do not block their thread
    #[arg(long, default_value_t = 8)]
    pub threads: usize,
    /// Threads of other stores
    #[arg(long, default_value_t = 64)]
    pub waiting_threads: usize,
    /// Threads of the closed loop before the step
    #[arg(long, default_value_t = 4)]
    pub quiet_threads: usize,
    /// Times to run everything, the stores in turn
    #[arg(long, default_value_t = 1)]
    pub rounds: usize,
    /// Also run Spillway without each of these
    #[arg(long, value_parser = mechanisms(), value_delimiter = ',')]
    pub without: Vec<Mechanism>,
    /// Only stores whose name contains one of these
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Draw all runs over time into this file, as SVG
    #[arg(long, value_name = "FILE")]
    pub plot: Option<PathBuf>,
    /// Seed, folder and report
    #[command(flatten)]
    pub common: CommonArgs,
    /// Run this store alone and write its results to a file; used for the process of each run
    #[arg(long, hide = true, num_args = 3, value_names = ["STORE", "RATE", "FILE"])]
    pub child: Vec<String>,
}

impl WaveArgs {
    /// Runs the wave on each store, in separate processes, and prints the report.
    ///
    /// # Errors
    /// Invalid arguments, or the first failure of a run, as text.
    pub fn run(&self, stores: &[&dyn Stores]) -> Result<(), String> {
        let mut plan = self.plan()?;
        let without: Vec<_> =
            self.without.iter().map(|mechanism| SpillwayStores::without(*mechanism)).collect();
        let mut stores = stores.to_vec();
        stores.extend(without.iter().map(|without| without as &dyn Stores));
        if let [name, rate, file] = &self.child[..] {
            let stores = stores.iter().find(|stores| stores.name() == *name);
            plan.rate = rate.parse().map_or(plan.rate, Rate::Fixed);
            let ran = run(*stores.ok_or("no such store")?, &plan, &self.common.dir)?;
            return apart::give(file, &ran);
        }
        let wanted = |name: &str| {
            self.only.is_empty() || self.only.iter().any(|part| name.contains(part.as_str()))
        };
        let names: Vec<_> =
            stores.iter().map(|stores| stores.name()).filter(|name| wanted(name)).collect();
        if names.is_empty() {
            return Err("no store has such a name".to_owned());
        }
        let mut runs: Vec<Run> = Vec::new();
        for round in 0..self.rounds {
            for place in 0..names.len() {
                // The order rotates each round; the very first run determines the rate.
                let name = &names[(place + round) % names.len()];
                let rate = runs.first().map(|first| first.rates.1);
                let rate = self.rate.or(rate).map_or(String::new(), |rate| rate.to_string());
                let ran = apart::run(&self.common.dir, &[name, &rate]);
                runs.push(ran.map_err(|error| format!("{name}: {error}"))?);
            }
        }
        self.give(&runs)
    }

    pub(super) fn plan(&self) -> Result<WavePlan, String> {
        let memory_bytes = self.memory_mib << 20;
        let row_bytes = self.value_bytes as f64 + 16.0;
        let rows = self.rows.unwrap_or((memory_bytes as f64 * self.data_times / row_bytes) as u64);
        let rates = [Some(self.share), Some(self.step), self.rate];
        let sane = rates.into_iter().flatten().all(|rate| rate > 0.0 && rate.is_finite());
        let counts = [self.before, self.seconds, self.threads, self.waiting_threads];
        if !sane || rows < 2 || counts.contains(&0) || self.quiet_threads == 0 || self.rounds == 0 {
            return Err(
                "rates, rows, seconds, threads and rounds must be greater than 0".to_owned()
            );
        }
        if self.reads_percent > 100 || !(0.0..1.0).contains(&self.skew) {
            return Err("reads are at most 100 of a hundred, and the skew is below 1".to_owned());
        }
        let capacity = Duration::from_secs(self.capacity_seconds.max(2));
        Ok(WavePlan {
            rows,
            value_bytes: self.value_bytes,
            memory_bytes,
            skew: self.skew,
            reads_percent: self.reads_percent,
            before_s: self.before,
            step_s: self.seconds,
            times: self.step,
            rate: self.rate.map_or(Rate::Share(self.share, capacity), Rate::Fixed),
            threads: self.threads,
            waiting_threads: self.waiting_threads,
            quiet_threads: self.quiet_threads,
            seed: self.common.seed,
        })
    }

    fn give(&self, runs: &[Run]) -> Result<(), String> {
        print!("{}", self.phases(runs));
        for (number, run) in runs.iter().enumerate() {
            println!("\n{}, run {}:", run.store, number + 1);
            for line in run.verdict() {
                println!("- {line}");
            }
        }
        self.common.output.write(&seconds(runs))?;
        match &self.plot {
            Some(path) => plot::draw(runs, path),
            None => Ok(()),
        }
    }

    pub(super) fn phases(&self, runs: &[Run]) -> Report {
        let figure = |name, decimals| Figure { name, decimals };
        let mut report = Report::new(
            &["phase"],
            &[
                figure("ops/s", 0),
                figure("p50 ms", 2),
                figure("p99 ms", 2),
                figure("p99.9 ms", 2),
                figure("longest ms", 1),
            ],
        );
        report.set("machine", machine::describe(Path::new(&self.common.dir)));
        if let Some(run) = runs.first() {
            report.set(
                "run",
                format!(
                    "{} MiB of rows of 16 + {} bytes, {} MiB of memory each, {} % reads, the others durable writes, skew {}; \
                     {} s closed at {:.0}/s, then {} s open at {:.0}/s; latency counts from the moment due; seed {}",
                    run.data_bytes >> 20,
                    self.value_bytes,
                    self.memory_mib,
                    self.reads_percent,
                    self.skew,
                    self.before,
                    run.rates.0,
                    self.seconds,
                    run.rates.1,
                    self.common.seed
                ),
            );
        }
        for run in runs {
            for (name, phase) in [("before", run.before), ("step", run.step)] {
                report.add(Row {
                    case: vec![name.to_owned()],
                    subject: run.store.clone(),
                    figures: vec![
                        phase.operations_per_s,
                        phase.p50_us / 1e3,
                        phase.p99_us / 1e3,
                        phase.p999_us / 1e3,
                        phase.longest_us / 1e3,
                    ],
                });
            }
        }
        let mut settings: Vec<_> =
            runs.iter().map(|run| (run.store.clone(), run.settings.clone())).collect();
        settings.dedup();
        settings.into_iter().for_each(|(name, value)| report.set(name, value));
        report
    }
}

/// Every second of every run.
fn seconds(runs: &[Run]) -> Report {
    let names =
        ["ops/s", "p50 us", "p99 us", "p99.9 us", "memory bytes", "resident bytes", "waited s"];
    let figures = names.map(|name| Figure { name, decimals: 0 });
    let mut report = Report::new(&["run", "second"], &figures);
    for (number, run) in runs.iter().enumerate() {
        for (second, figures) in run.seconds.iter().enumerate() {
            report.add(Row {
                case: vec![(number + 1).to_string(), second.to_string()],
                subject: run.store.clone(),
                figures: vec![
                    figures.ended as f64,
                    figures.p50_us,
                    figures.p99_us,
                    figures.p999_us,
                    figures.memory_bytes as f64,
                    figures.resident_bytes as f64,
                    figures.waited_s,
                ],
            });
        }
    }
    report
}
