//! The command line of a run.

use std::time::Duration;

use clap::Args;

use super::{CommitsPlan, Extent, ROWS_MAX, Subject, measure, notes};
use crate::machine;
use crate::measure::{progress, quantile_us};
use crate::report::{CommonArgs, Figure, Report, Row};
use crate::store::SpillwayStores;

/// Durable commits per second as more of them are in flight.
#[derive(Args, Clone, Debug)]
pub struct CommitsArgs {
    /// Commits in flight
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 32, 128, 512])]
    pub in_flight: Vec<usize>,
    /// Rows of each transaction
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4])]
    pub rows: Vec<usize>,
    /// The most threads that keep asynchronous commits in flight, and the number that wait for each
    #[arg(long, value_delimiter = ',', default_values_t = [2])]
    pub threads: Vec<usize>,
    /// Numbers of lanes to measure besides the default [default: 1, or 4 if 1 is the default]
    #[arg(long, value_delimiter = ',')]
    pub lanes: Vec<usize>,
    /// Distinct keys
    #[arg(long, default_value_t = 1_000_000)]
    pub keys: u64,
    /// Bytes of each value
    #[arg(long, default_value_t = 10)]
    pub value_bytes: usize,
    /// Seconds of each cell that are measured, after a warm-up of a fifth of them
    #[arg(long, default_value_t = 3.0)]
    pub seconds: f64,
    /// Commits of each cell, instead of seconds
    #[arg(long)]
    pub commits: Option<u64>,
    /// Times to run everything; the report gives medians over them
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Memory budget of each store, in MiB
    #[arg(long, default_value_t = 1024)]
    pub memory_mib: usize,
    /// Only subjects whose name contains one of these
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Seed, folder and report
    #[command(flatten)]
    pub common: CommonArgs,
}

impl CommitsArgs {
    /// Runs the subjects and prints the report.
    ///
    /// # Errors
    /// Invalid arguments, or the first failure of a run, as text.
    pub fn run(&self, subjects: &[Subject<'_>]) -> Result<(), String> {
        self.common.output.give(&self.compare(subjects)?)
    }

    /// The variants of Spillway to measure: the default, and each other number of lanes.
    #[must_use]
    pub fn spillways(&self) -> Vec<SpillwayStores> {
        let usual = SpillwayStores::default();
        let lanes = if self.lanes.is_empty() {
            let usual = usual.database_settings(0).lanes_most();
            vec![if usual == 1 { 4 } else { 1 }]
        } else {
            self.lanes.clone()
        };
        let others = lanes.into_iter().map(SpillwayStores::with_lanes);
        std::iter::once(usual).chain(others).collect()
    }

    pub(super) fn plan(&self) -> Result<CommitsPlan, String> {
        if self.keys == 0
            || self.rounds == 0
            || self.threads.contains(&0)
            || self.in_flight.contains(&0)
        {
            return Err("a run needs a key, a round, a thread and a commit in flight".to_owned());
        }
        if self.rows.iter().any(|rows| !(1..=ROWS_MAX).contains(rows)) {
            return Err(format!("a transaction has 1 to {ROWS_MAX} rows"));
        }
        let time = Duration::try_from_secs_f64(self.seconds).map_err(|error| error.to_string())?;
        Ok(CommitsPlan {
            keys: self.keys,
            value_bytes: self.value_bytes,
            memory_bytes: self.memory_mib << 20,
            extent: self.commits.map_or(Extent::Time(time), Extent::Commits),
            seed: self.common.seed,
        })
    }

    pub(super) fn compare(&self, subjects: &[Subject<'_>]) -> Result<Report, String> {
        let plan = self.plan()?;
        let wanted = |name: &str| {
            self.only.is_empty() || self.only.iter().any(|part| name.contains(part.as_str()))
        };
        let subjects: Vec<_> = subjects.iter().filter(|subject| wanted(&subject.name())).collect();
        let mut report = self.empty(&subjects);
        let cells = self.rows.len() * self.in_flight.len() * self.rounds * subjects.len();
        let bar = progress(cells as u64);
        for round in 0..self.rounds {
            for &rows in &self.rows {
                for &in_flight in &self.in_flight {
                    for place in 0..subjects.len() {
                        // The order rotates each round, so that none is always first.
                        let subject = subjects[(place + round) % subjects.len()];
                        bar.set_message(format!("{}, {in_flight} in flight", subject.name()));
                        let measured = measure(subject, &plan, in_flight, rows, &self.common.dir)
                            .map_err(|error| format!("{}: {error}", subject.name()))?;
                        let commits = measured.latency_ns.len().max(1) as f64;
                        let us = |quantile| quantile_us(&measured.latency_ns, quantile);
                        report.add(Row {
                            case: vec![rows.to_string(), in_flight.to_string()],
                            subject: subject.name(),
                            figures: vec![
                                measured.latency_ns.len() as f64 / measured.elapsed.as_secs_f64(),
                                us(0.5),
                                us(0.95),
                                us(0.99),
                                us(0.999),
                                measured.cpu.as_secs_f64() * 1e6 / commits,
                                measured.threads as f64,
                                measured.syncs.1 * 1e6 / measured.syncs.0 as f64,
                                commits / measured.syncs.0 as f64,
                            ],
                        });
                        bar.inc(1);
                    }
                }
            }
        }
        bar.finish_and_clear();
        notes::add(&mut report, &subjects);
        Ok(report)
    }

    fn empty(&self, subjects: &[&Subject<'_>]) -> Report {
        let figure = |name, decimals| Figure { name, decimals };
        let figures = [
            figure("commits/s", 0),
            figure("p50 us", 0),
            figure("p95 us", 0),
            figure("p99 us", 0),
            figure("p99.9 us", 0),
            figure("cpu us", 2),
            figure("threads", 0),
            figure("sync us", 0),
            figure("commits/sync", 1),
        ];
        let mut report = Report::new(&["rows", "in flight"], &figures);
        report.set("machine", machine::describe(&self.common.dir));
        let extent = match self.commits {
            Some(commits) => format!("{commits} commits"),
            None => format!("{} s after a fifth of it unmeasured", self.seconds),
        };
        report.set(
            "run",
            format!(
                "durable commits of rows of 16 + {} bytes over {} keys, {extent} a cell, {} rounds in turn, {} MiB of \
                 memory each, seed {}; cpu is the whole process's for each commit",
                self.value_bytes, self.keys, self.rounds, self.memory_mib, self.common.seed
            ),
        );
        for subject in subjects {
            report.set(subject.name(), subject.stores.settings());
        }
        report
    }
}
