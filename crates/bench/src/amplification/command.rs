//! The command line of a run.

use std::path::Path;

use clap::Args;
use spillway::Mechanism;

use super::work::{AmplificationPlan, AmplificationResults, mix_of, run};
use crate::apart;
use crate::machine;
use crate::measure::{progress, rows_of};
use crate::report::{CommonArgs, Figure, Report, Row};
use crate::store::{SpillwayStores, Stores, mechanisms};

/// Bytes written and read for each operation of a write-heavy mix, after figure 20 of the X-Engine
/// paper.
#[derive(Args, Clone, Debug)]
pub struct AmplificationArgs {
    /// Memory budget of each store, in MiB
    #[arg(long, default_value_t = 256)]
    pub memory_mib: usize,
    /// Size of the data, as a multiple of the memory
    #[arg(long, default_value_t = 4.0)]
    pub data_times: f64,
    /// Bytes of each value
    #[arg(long, default_value_t = 200)]
    pub value_bytes: usize,
    /// Operations, over all threads
    #[arg(long, default_value_t = 4_000_000)]
    pub operations: u64,
    /// Threads
    #[arg(long, default_value_t = 4)]
    pub threads: u64,
    /// Shares of point gets, gets of 20 rows, updates and inserts
    #[arg(long, value_delimiter = ',', default_values_t = [42, 10, 32, 16])]
    pub mix: Vec<u64>,
    /// Skew of the requested rows: 0 for uniform, 0.99 for YCSB's Zipf distribution
    #[arg(long, default_value_t = 0.99)]
    pub skew: f64,
    /// Percent of the requested rows that were inserted recently; the others are from a hot set
    #[arg(long, default_value_t = 50)]
    pub recent_percent: u64,
    /// Wait for every Nth write of a thread to be durable; 0 for none
    #[arg(long, value_delimiter = ',', default_values_t = [0, 100])]
    pub sync_every: Vec<u64>,
    /// Times to run everything; the report gives medians over them
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Run a little of everything once, to check that it works
    #[arg(long)]
    pub quick: bool,
    /// Also run Spillway without each of these
    #[arg(long, value_parser = mechanisms(), value_delimiter = ',', default_values_t = [Mechanism::Reuse, Mechanism::LargeLevel0, Mechanism::AdaptiveShare])]
    pub without: Vec<Mechanism>,
    /// Only stores of these names
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Seed, folder and report
    #[command(flatten)]
    pub common: CommonArgs,
    /// Run this store alone and write its results to a file; used for the process of each run
    #[arg(long, hide = true, num_args = 3, value_names = ["STORE", "SYNC", "FILE"])]
    pub child: Vec<String>,
}

impl AmplificationArgs {
    /// Runs the stores, and Spillway without the given mechanisms, in separate processes, and
    /// prints the report.
    ///
    /// # Errors
    /// Invalid arguments, or the first failure of a run, as text.
    pub fn run(mut self, stores: &[&dyn Stores]) -> Result<(), String> {
        if self.quick {
            (self.memory_mib, self.operations, self.rounds) = (32, 20_000, 1);
        }
        let without = SpillwayStores::each_without(&self.without);
        let mut stores = SpillwayStores::among(&without, stores);
        if let [name, sync, file] = &self.child[..] {
            let stores = stores.iter().find(|stores| stores.name() == *name);
            let plan = self.plan(sync.parse().map_err(|_| "how often to sync is no number")?)?;
            let ran = run(*stores.ok_or("no such store")?, &plan, &self.common.dir)?;
            return apart::give(file, &ran);
        }
        stores.retain(|stores| self.only.is_empty() || self.only.contains(&stores.name()));
        if stores.is_empty() || self.rounds == 0 || self.sync_every.is_empty() {
            return Err("a run needs a store, a round, and to know how often to sync".to_owned());
        }
        let mut report = empty();
        let load = machine::load_average();
        let bar = progress((self.rounds * self.sync_every.len() * stores.len()) as u64);
        for round in 0..self.rounds {
            for sync in &self.sync_every {
                for place in 0..stores.len() {
                    let name = stores[(place + round) % stores.len()].name();
                    bar.set_message(format!("{name}, a sync each {sync}"));
                    let ran = apart::run(&self.common.dir, &[&name, &sync.to_string()]);
                    let ran = ran.map_err(|error| format!("{name}: {error}"))?;
                    report.add(self.row(*sync, name, &ran));
                    bar.inc(1);
                }
            }
        }
        bar.finish_and_clear();
        report.set("machine", machine::describe(Path::new(&self.common.dir)));
        report.set("load average", format!("{load} before, {} after", machine::load_average()));
        report.set("run", self.describe(&self.plan(0)?));
        stores.iter().for_each(|stores| report.set(stores.name(), stores.settings()));
        self.compare(&mut report);
        self.common.output.give(&report)
    }

    pub(super) fn plan(&self, sync_every: u64) -> Result<AmplificationPlan, String> {
        AmplificationPlan {
            rows: rows_of(self.memory_mib, self.data_times, self.value_bytes),
            value_bytes: self.value_bytes,
            memory_bytes: self.memory_mib << 20,
            operations: self.operations,
            threads: self.threads,
            mix: mix_of(&self.mix)?,
            skew: self.skew,
            recent_percent: self.recent_percent,
            sync_every,
            seed: self.common.seed,
        }
        .checked()
    }

    fn describe(&self, plan: &AmplificationPlan) -> String {
        let [get, range, update, insert] = plan.mix;
        format!(
            "{} rows of 16 + {} bytes in the bottom level, {} MiB of memory each; then {} operations by {} threads: {get} gets, \
             {range} gets of 20 rows, {update} updates, {insert} inserts; {} % ask for rows inserted lately, the others \
             for a hot set, skew {}; {} rounds in turn, seed {}",
            plan.rows,
            plan.value_bytes,
            self.memory_mib,
            plan.operations,
            plan.threads,
            plan.recent_percent,
            plan.skew,
            self.rounds,
            plan.seed
        )
    }

    pub(super) fn row(&self, sync: u64, subject: String, ran: &AmplificationResults) -> Row {
        let each = |bytes: f64| bytes / self.operations as f64;
        let traffic = &ran.traffic;
        let written = traffic.written_bytes();
        let read = ran.io.read_calls_bytes as f64 + traffic.uncounted_read_bytes;
        Row {
            case: vec![if sync == 0 { "none".to_owned() } else { sync.to_string() }],
            subject,
            figures: vec![
                self.operations as f64 / ran.seconds,
                each(written),
                each(traffic.log_bytes),
                each(traffic.flushed_bytes),
                each(traffic.compaction_written_bytes),
                each(ran.io.device_written_bytes as f64),
                written / ran.asked_bytes,
                each(read),
                each(ran.io.device_read_bytes as f64),
                each(traffic.compaction_read_bytes),
                each(ran.cpu_seconds * 1e6),
            ],
        }
    }

    /// Adds notes: the bytes that the first store writes and reads, as a share of each other
    /// store's.
    fn compare(&self, report: &mut Report) {
        let (cases, subjects) = (report.cases(), report.subjects());
        for case in &cases {
            for other in &subjects[1..] {
                let share = |figure| {
                    report.median(case, &subjects[0], figure) / report.median(case, other, figure)
                };
                let note = format!(
                    "sync each {}: for each operation {} writes {:.2} of what {other} writes ({:.2} to devices), and reads {:.2} of \
                     what it reads ({:.2} from devices)",
                    case[0],
                    subjects[0],
                    share(WRITTEN),
                    share(DEVICE_WRITTEN),
                    share(READ),
                    share(DEVICE_READ)
                );
                report.note(note);
            }
        }
    }
}

/// Indexes of figures.
const WRITTEN: usize = 1;
const DEVICE_WRITTEN: usize = 5;
const READ: usize = 7;
const DEVICE_READ: usize = 8;

pub(super) fn empty() -> Report {
    let figure = |name, decimals| Figure { name, decimals };
    Report::new(
        &["sync each"],
        &[
            figure("ops/s", 0),
            figure("written B/op", 1),
            figure("log B/op", 1),
            figure("flush B/op", 1),
            figure("compaction B/op", 1),
            figure("device written B/op", 1),
            figure("written/asked", 2),
            figure("read B/op", 1),
            figure("device read B/op", 1),
            figure("compaction read B/op", 1),
            figure("cpu us/op", 2),
        ],
    )
}
