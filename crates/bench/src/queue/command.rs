//! The command line of a run.

use std::time::Duration;

use clap::Args;
use spillway::Mechanism;

use super::work::{Polls, QueuePlan, run};
use crate::machine;
use crate::measure::{in_turns, progress, quantile_us};
use crate::report::{CommonArgs, Figure, Report, Row};
use crate::store::{SpillwayStores, Stores};

/// A table used as a queue: how long it takes to find its first rows, after few and after many
/// inserts and deletes.
#[derive(Args, Clone, Debug)]
pub struct QueueArgs {
    /// Numbers of inserts, and of as many deletes, after which polls are measured
    #[arg(long, value_delimiter = ',', default_values_t = [1_000_000, 50_000_000])]
    pub after: Vec<u64>,
    /// Rows in the queue
    #[arg(long, default_value_t = 1000)]
    pub length: u64,
    /// Rows of each commit, of inserts and of deletes
    #[arg(long, default_value_t = 100)]
    pub batch: u64,
    /// The most rows that come and go in a second; 0 for no limit
    #[arg(long, default_value_t = 0)]
    pub rate: u64,
    /// Bytes of each value
    #[arg(long, default_value_t = 100)]
    pub value_bytes: usize,
    /// First rows that a poll requests
    #[arg(long, value_delimiter = ',', default_values_t = [1, 10])]
    pub limit: Vec<usize>,
    /// The most polls of each measurement at rest
    #[arg(long, default_value_t = 10_000)]
    pub polls: u64,
    /// The most seconds of each measurement at rest
    #[arg(long, default_value_t = 10)]
    pub poll_seconds: u64,
    /// Milliseconds between polls while rows come and go
    #[arg(long, default_value_t = 5)]
    pub pause_ms: u64,
    /// Threads that poll while rows come and go
    #[arg(long, default_value_t = 1)]
    pub pollers: usize,
    /// Memory budget of each store, in MiB
    #[arg(long, default_value_t = 256)]
    pub memory_mib: usize,
    /// Times to run everything, the stores in turn; the report gives medians over them
    #[arg(long, default_value_t = 1)]
    pub rounds: usize,
    /// Do 10,000 and 50,000 inserts and deletes once, to check that it works
    #[arg(long)]
    pub quick: bool,
    /// Only stores of these names
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Seed, folder and report
    #[command(flatten)]
    pub common: CommonArgs,
}

impl QueueArgs {
    /// Runs the queue on each store, and on Spillway without gaps, and prints the report.
    ///
    /// # Errors
    /// Invalid arguments, or the first failure of a run, as text.
    pub fn run(mut self, stores: &[&dyn Stores]) -> Result<(), String> {
        if self.quick {
            (self.after, self.polls, self.rounds) = (vec![10_000, 50_000], 100, 1);
        }
        let report = self.measure(stores)?;
        self.common.output.give(&report)
    }

    pub(super) fn measure(&self, stores: &[&dyn Stores]) -> Result<Report, String> {
        let plan = self.plan()?;
        let without = [SpillwayStores::without(Mechanism::Gaps)];
        let mut stores = SpillwayStores::among(&without, stores);
        let wanted = |name: &String| self.only.is_empty() || self.only.contains(name);
        stores.retain(|stores| wanted(&stores.name()));
        if stores.is_empty() || self.rounds == 0 {
            return Err("a run needs a store and a round".to_owned());
        }
        let mut report = empty();
        let load = machine::load_average();
        let last = plan.after.last().copied().unwrap_or_default();
        let bar = progress(last * (self.rounds * stores.len()) as u64);
        in_turns(self.rounds, &stores, |kind| {
            let name = kind.name();
            bar.set_message(format!("rows through {name}"));
            let all = run(*kind, &plan, &self.common.dir, &bar);
            let all = all.map_err(|error| format!("{name}: {error}"))?;
            all.iter().for_each(|polls| report.add(row(name.clone(), polls)));
            Ok(())
        })?;
        bar.finish_and_clear();
        report.set("machine", machine::describe(&self.common.dir));
        report.set("load average", format!("{load} before, {} after", machine::load_average()));
        report.set(
            "run",
            format!(
                "{} rows of 16 + {} bytes in the queue, {} inserted and {} deleted by each commit, which is not waited for to be \
                 durable, {}; a poll is a scan from the table's begin, meanwhile by {} threads; {} MiB of memory each, {} rounds in turn, seed {}",
                plan.length,
                plan.value_bytes,
                plan.batch,
                plan.batch,
                match plan.rate {
                    0 => "one after the other".to_owned(),
                    rate => format!("{rate} rows a second"),
                },
                plan.pollers,
                self.memory_mib,
                self.rounds,
                plan.seed
            ),
        );
        stores.iter().for_each(|stores| report.set(stores.name(), stores.settings()));
        self.compare(&mut report);
        Ok(report)
    }

    fn plan(&self) -> Result<QueuePlan, String> {
        let counts = [self.length, self.batch, self.polls, self.pollers as u64];
        let ascending = self.after.windows(2).all(|pair| pair[0] < pair[1]);
        let some = self.after.first().is_some_and(|first| *first > 0);
        if counts.contains(&0) || self.limit.contains(&0) || !ascending || !some {
            return Err(
                "counts must be greater than 0, and those to measure after must ascend".to_owned()
            );
        }
        Ok(QueuePlan {
            after: self.after.clone(),
            length: self.length,
            batch: self.batch,
            rate: self.rate,
            value_bytes: self.value_bytes,
            limits: self.limit.clone(),
            polls: self.polls,
            polls_time: Duration::from_secs(self.poll_seconds),
            pause: Duration::from_millis(self.pause_ms),
            pollers: self.pollers,
            memory_bytes: self.memory_mib << 20,
            seed: self.common.seed,
        })
    }

    /// Notes the ratio of poll times after the most and after the fewest changes.
    fn compare(&self, report: &mut Report) {
        let (Some(first), Some(last)) = (self.after.first(), self.after.last()) else { return };
        for subject in report.subjects() {
            for limit in &self.limit {
                let of = |after: &u64, figure| {
                    let case = [after.to_string(), limit.to_string(), AT_REST.to_owned()];
                    report.median(&case, &subject, figure)
                };
                let note = format!(
                    "{subject}, limit {limit}, at rest: after {last} a poll takes {:.2} times as long as after {first}, and its \
                     99th percentile {:.2} times",
                    of(last, MEDIAN) / of(first, MEDIAN),
                    of(last, P99) / of(first, P99)
                );
                report.note(note);
            }
        }
    }
}

const AT_REST: &str = "at rest";
/// Indexes of figures.
const MEDIAN: usize = 1;
const P99: usize = 2;

fn empty() -> Report {
    let figure = |name, decimals| Figure { name, decimals };
    Report::new(
        &["after", "limit", "when"],
        &[
            figure("polls/s", 0),
            figure("p50 us", 2),
            figure("p99 us", 2),
            figure("longest us", 0),
            figure("changes/s", 0),
        ],
    )
}

fn row(subject: String, polls: &Polls) -> Row {
    let when = if polls.at_rest { AT_REST } else { "meanwhile" };
    let latency_ns = &polls.latency_ns;
    Row {
        case: vec![polls.after.to_string(), polls.limit.to_string(), when.to_owned()],
        subject,
        figures: vec![
            1e9 / latency_ns.mean(),
            quantile_us(latency_ns, 0.5),
            quantile_us(latency_ns, 0.99),
            latency_ns.max() as f64 / 1e3,
            polls.changes_per_s,
        ],
    }
}
