//! The command line of a run, and the run.

use std::collections::HashMap;

use clap::Args;
use spillway::Mechanism;

use super::work::{Layout, ScanPlan, ScanTask, lay, run};
use crate::machine;
use crate::measure::{fresh_folder, progress, remove_folder};
use crate::report::{CommonArgs, Figure, Report, Row};
use crate::store::{SpillwayStores, Stores, mechanisms};

/// Scans forward and backward, and gets of many keys at once, of rows in memory and on the device.
#[derive(Args, Clone, Debug)]
pub struct ScanArgs {
    /// What to measure, in order [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub tasks: Vec<ScanTask>,
    /// Where rows lie
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["one", "layers"])]
    pub layouts: Vec<Layout>,
    /// Rows of 16-byte keys
    #[arg(long, default_value_t = 1_000_000)]
    pub rows: u64,
    /// Bytes of each value
    #[arg(long, value_delimiter = ',', default_values_t = [8, 500])]
    pub value_bytes: Vec<usize>,
    /// Seeks of a turn
    #[arg(long, default_value_t = 50_000)]
    pub seeks: u64,
    /// Rows read from each
    #[arg(long, default_value_t = 100)]
    pub nexts: usize,
    /// Keys to get in a turn
    #[arg(long, default_value_t = 200_000)]
    pub gets: u64,
    /// How many of them at once
    #[arg(long, value_delimiter = ',', default_values_t = [100])]
    pub at_once: Vec<usize>,
    /// Threads that share the gets, of one key and of many at once; one thread does the rest
    #[arg(long, value_delimiter = ',', default_values_t = [1])]
    pub threads: Vec<u64>,
    /// Memory budget of each store, in MiB
    #[arg(long, default_value_t = 2048)]
    pub memory_mib: usize,
    /// Drop the store's files from the page cache before each turn; use less memory than the rows
    /// need
    #[arg(long)]
    pub cold: bool,
    /// Also run Spillway with reads past the system's page cache, as "spillway direct"
    #[arg(long)]
    pub direct: bool,
    /// Turns of each task in a round. If there are several, the first one fills caches and does not
    /// count
    #[arg(long, default_value_t = 2)]
    pub turns: usize,
    /// Times to run everything; the report gives medians over them
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Also run Spillway without each of these
    #[arg(long, value_parser = mechanisms(), value_delimiter = ',')]
    pub without: Vec<Mechanism>,
    /// Also run Spillway without the first of these, without the first two, and so on to all of
    /// them
    #[arg(long, value_parser = mechanisms(), value_delimiter = ',')]
    pub one_after_another: Vec<Mechanism>,
    /// Only stores of these names
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Seed, folder and report
    #[command(flatten)]
    pub common: CommonArgs,
}

impl ScanArgs {
    /// Runs the tasks over these stores and prints the report.
    ///
    /// # Errors
    /// Invalid arguments, or the first failure of a run, as text.
    pub fn run(&self, stores: &[&dyn Stores]) -> Result<(), String> {
        self.common.output.give(&self.compare(stores)?)
    }

    pub(super) fn compare(&self, stores: &[&dyn Stores]) -> Result<Report, String> {
        if self.rows < 2
            || self.rounds == 0
            || self.turns == 0
            || self.threads.contains(&0)
            || self.at_once.contains(&0)
        {
            return Err(
                "a run needs two rows, a round, a turn, a thread, and a key at once".to_owned()
            );
        }
        let mut without = SpillwayStores::each_without(&self.without);
        without.extend(SpillwayStores::one_after_another_without(&self.one_after_another));
        if self.direct {
            without.push(SpillwayStores::default().directly());
            let each = SpillwayStores::each_without(&self.without).into_iter();
            without.extend(each.map(SpillwayStores::directly));
        }
        let mut stores = SpillwayStores::among(&without, stores);
        stores.retain(|stores| self.only.is_empty() || self.only.contains(&stores.name()));
        let tasks = if self.tasks.is_empty() { ScanTask::ALL.to_vec() } else { self.tasks.clone() };
        let mut report = self.empty();
        let load = machine::load_average();
        let steps = self.rounds * self.value_bytes.len() * self.layouts.len() * stores.len();
        let bar = progress(steps as u64);
        for round in 0..self.rounds {
            for &value_bytes in &self.value_bytes {
                for &layout in &self.layouts {
                    let mut expected = HashMap::new();
                    for place in 0..stores.len() {
                        // The order rotates each round, so that none is always first.
                        let kind = stores[(place + round) % stores.len()];
                        bar.set_message(format!("{} {}", kind.name(), layout.name()));
                        for (what, row, checksum) in
                            self.measure(kind, layout, value_bytes, &tasks)?
                        {
                            if *expected.entry(what).or_insert(checksum) != checksum {
                                let (name, task) = (kind.name(), tasks[what.0].name());
                                return Err(format!("{name} read something else under {task}"));
                            }
                            report.add(row);
                        }
                        bar.inc(1);
                    }
                }
            }
        }
        bar.finish_and_clear();
        report.set("machine", machine::describe(&self.common.dir));
        report.set("load average", format!("{load} before, {} after", machine::load_average()));
        stores.iter().for_each(|stores| report.set(stores.name(), stores.settings()));
        Ok(report)
    }

    /// A row of the report for each task, by the number of threads and of keys at once, and a
    /// checksum of the data read.
    fn measure(
        &self,
        kind: &dyn Stores,
        layout: Layout,
        value_bytes: usize,
        tasks: &[ScanTask],
    ) -> Result<Vec<((usize, u64, usize), Row, u64)>, String> {
        let mut plan = self.plan(value_bytes);
        let folder = self.common.dir.join("scan");
        fresh_folder(&folder)?;
        let store = kind.open(&folder, self.memory_mib << 20)?;
        lay(&*store, &kind.name(), layout, &plan)?;
        let mut rows = Vec::new();
        let runs = tasks.iter().enumerate().flat_map(|(at, &task)| {
            let many = if task == ScanTask::MultiGet { &self.at_once[..] } else { &[1] };
            let share = matches!(task, ScanTask::MultiGet | ScanTask::Gets);
            let threads = if share { &self.threads[..] } else { &[1] };
            let each = threads.iter().flat_map(|threads| many.iter().map(|many| (*threads, *many)));
            each.map(move |(threads, many)| (at, task, threads, many))
        });
        for (at, task, threads, at_once) in runs {
            (plan.threads, plan.at_once) = (threads, at_once);
            // The store may have kept rows that were dropped from the page cache, so each turn uses
            // others.
            let others = if self.cold { threads << 48 | (at_once as u64) << 24 } else { 0 };
            plan.seed = self.common.seed + others;
            let mut took = run(&*store, &folder, task, &plan)?;
            for _ in 1..self.turns {
                took = run(&*store, &folder, task, &plan)?;
            }
            let each = took.rows.max(1) as f64;
            let mut name = match task {
                ScanTask::MultiGet => format!("{} of {at_once}", task.name()),
                _ => task.name().to_owned(),
            };
            if threads > 1 {
                name += &format!(" by {threads}");
            }
            let case = vec![name, layout.name().to_owned(), value_bytes.to_string()];
            let figures = vec![
                each / took.elapsed_s,
                took.elapsed_s * 1e9 / each,
                took.cpu_s * 1e9 / each,
                took.device_bytes as f64 / 1024.0 / each,
            ];
            rows.push((
                (at, threads, at_once),
                Row { case, subject: kind.name(), figures },
                took.checksum,
            ));
        }
        drop(store);
        remove_folder(&folder)?;
        Ok(rows)
    }

    fn plan(&self, value_bytes: usize) -> ScanPlan {
        ScanPlan {
            rows: self.rows,
            value_bytes,
            seeks: self.seeks,
            nexts: self.nexts,
            gets: self.gets,
            at_once: 1,
            threads: 1,
            cold: self.cold,
            seed: self.common.seed,
        }
    }

    fn empty(&self) -> Report {
        let figure = |name, decimals| Figure { name, decimals };
        let mut report = Report::new(
            &["task", "rows are in", "value B"],
            &[
                figure("rows/s", 0),
                figure("ns/row", 1),
                figure("cpu ns/row", 1),
                figure("device KiB/row", 2),
            ],
        );
        let state = if self.cold {
            "no cache at the system's"
        } else {
            "caches as the turn before left them"
        };
        report.set(
            "run",
            format!(
                "{} rows, {} seeks of {} rows, {} gets, {} rounds of {} turns, {} MiB of memory each, {state}, seed {}",
                self.rows, self.seeks, self.nexts, self.gets, self.rounds, self.turns, self.memory_mib, self.common.seed
            ),
        );
        report
    }
}
