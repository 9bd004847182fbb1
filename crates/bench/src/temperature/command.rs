//! The command line of a run.

use clap::Args;
use spillway::Mechanism;

use super::work::{TemperaturePlan, TemperatureResults, run};
use crate::apart;
use crate::machine;
use crate::measure::progress;
use crate::report::{CommonArgs, Figure, Report, Row};
use crate::store::SpillwayStores;

/// The effect of tracking how often extents are read: device reads and bytes written, with and
/// without.
#[derive(Args, Clone, Debug)]
pub struct TemperatureArgs {
    /// Memory budget, in MiB
    #[arg(long, default_value_t = 256)]
    pub memory_mib: usize,
    /// Size of the data, as a multiple of the memory
    #[arg(long, default_value_t = 4.0)]
    pub data_times: f64,
    /// Bytes of each value
    #[arg(long, default_value_t = 200)]
    pub value_bytes: usize,
    /// Operations of each half, over all threads; the engine learns from the first
    #[arg(long, default_value_t = 4_000_000)]
    pub operations: u64,
    /// Threads
    #[arg(long, default_value_t = 2)]
    pub threads: u64,
    /// Shares of gets, updates and inserts
    #[arg(long, value_delimiter = ',', default_values_t = [70, 25, 5])]
    pub mix: Vec<u64>,
    /// Skew of the requested rows: 0 for uniform, 0.99 for YCSB's Zipf distribution
    #[arg(long, default_value_t = 0.99)]
    pub skew: f64,
    /// Number of neighbours that are hot together, in the cases that have them
    #[arg(long, default_value_t = 10_000)]
    pub together: u64,
    /// Which cases to run
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = HotRows::ALL)]
    pub case: Vec<HotRows>,
    /// Times to run everything; the report gives medians over them
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Run a little of everything once, to check that it works
    #[arg(long)]
    pub quick: bool,
    /// Seed, folder and report
    #[command(flatten)]
    pub common: CommonArgs,
    /// Run this case alone and write its results to a file; used for the process of each run
    #[arg(long, hide = true, num_args = 3, value_names = ["STORE", "CASE", "FILE"])]
    pub child: Vec<String>,
}

/// Where the hot rows lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum HotRows {
    /// Neighbours are hot together
    Together,
    /// Hot rows are random rows
    Scattered,
    /// Neighbours are hot together, with a fast tier and a slow one
    Tiers,
}

impl HotRows {
    const ALL: [HotRows; 3] = [HotRows::Together, HotRows::Scattered, HotRows::Tiers];

    fn name(self) -> &'static str {
        match self {
            HotRows::Together => "together",
            HotRows::Scattered => "scattered",
            HotRows::Tiers => "tiers",
        }
    }
}

impl std::fmt::Display for HotRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

pub(super) fn subjects() -> [SpillwayStores; 2] {
    [SpillwayStores::default(), SpillwayStores::without(Mechanism::Temperature)]
}

impl TemperatureArgs {
    /// Runs with and without it, in separate processes, and prints the report.
    ///
    /// # Errors
    /// Invalid arguments, or the first failure of a run, as text.
    pub fn run(mut self) -> Result<(), String> {
        if self.quick {
            (self.memory_mib, self.operations, self.rounds) = (32, 20_000, 1);
        }
        let subjects = subjects();
        if let [name, case, file] = &self.child[..] {
            let stores = subjects.iter().find(|stores| stores.name == *name);
            let case = HotRows::ALL.into_iter().find(|of| of.name() == case);
            let plan = self.plan(case.ok_or("no such case")?)?;
            let ran = run(stores.ok_or("no such store")?, &plan, &self.common.dir)?;
            return apart::give(file, &ran);
        }
        if self.rounds == 0 || self.case.is_empty() {
            return Err("a run needs a round and a case".to_owned());
        }
        let mut report = empty();
        let load = machine::load_average();
        let bar = progress((self.rounds * self.case.len() * subjects.len()) as u64);
        for round in 0..self.rounds {
            for &case in &self.case {
                for place in 0..subjects.len() {
                    let name = &subjects[(place + round) % subjects.len()].name;
                    bar.set_message(format!("{name}, {case}"));
                    let ran = apart::run(&self.common.dir, &[name, case.name()]);
                    let ran = ran.map_err(|error| format!("{name}: {error}"))?;
                    report.add(self.row(case, name, &ran));
                    bar.inc(1);
                }
            }
        }
        bar.finish_and_clear();
        report.set("machine", machine::describe(&self.common.dir));
        report.set("load average", format!("{load} before, {} after", machine::load_average()));
        report.set("run", self.describe());
        self.compare(&mut report);
        self.common.output.give(&report)
    }

    pub(super) fn plan(&self, case: HotRows) -> Result<TemperaturePlan, String> {
        let memory_bytes = self.memory_mib << 20;
        let row_bytes = self.value_bytes as f64 + 16.0;
        let rows = (memory_bytes as f64 * self.data_times / row_bytes) as u64;
        let mix: [u64; 3] = self.mix.clone().try_into().map_err(|_| "the mix has three shares")?;
        let none = rows < 2 || self.threads == 0 || self.operations == 0 || self.together == 0;
        if none || mix.iter().sum::<u64>() == 0 || !(0.0..1.0).contains(&self.skew) {
            return Err(
                "rows, threads, operations and shares must be greater than 0, the skew below 1"
                    .into(),
            );
        }
        Ok(TemperaturePlan {
            rows,
            value_bytes: self.value_bytes,
            memory_bytes,
            operations: self.operations,
            threads: self.threads,
            mix,
            skew: self.skew,
            together: if case == HotRows::Scattered { 1 } else { self.together.min(rows) },
            tiers: case == HotRows::Tiers,
            seed: self.common.seed,
        })
    }

    fn describe(&self) -> String {
        format!(
            "rows of 16 + {} bytes, {} times {} MiB of memory; {} operations by {} threads, and as many before that are not measured: gets, \
             updates, inserts {:?}, skew {}, {} neighbours hot together where they are; {} rounds in turn, seed {}",
            self.value_bytes,
            self.data_times,
            self.memory_mib,
            self.operations,
            self.threads,
            self.mix,
            self.skew,
            self.together,
            self.rounds,
            self.common.seed
        )
    }

    pub(super) fn row(&self, case: HotRows, subject: &str, ran: &TemperatureResults) -> Row {
        let each = |sum: f64| sum / self.operations as f64;
        Row {
            case: vec![case.name().to_owned()],
            subject: subject.to_owned(),
            figures: vec![
                self.operations as f64 / ran.seconds,
                ran.reads / ran.gets.max(1.0),
                100.0 * ran.hits / (ran.hits + ran.reads).max(1.0),
                each(ran.written_bytes),
                100.0 * ran.fast_reads / ran.reads.max(1.0),
                100.0 * ran.fast_share,
                ran.moved_bytes / 1e6,
                each(ran.cpu_seconds * 1e6),
            ],
        }
    }

    fn compare(&self, report: &mut Report) {
        let (cases, subjects) = (report.cases(), report.subjects());
        let [with, without] = &subjects[..] else { return };
        for case in &cases {
            let of = |figure| {
                let both = [with, without].map(|subject| report.median(case, subject, figure));
                both[0] / both[1]
            };
            let note = format!(
                "{}: with temperature {:.2} times the reads from devices for each get, and {:.2} times the bytes written",
                case[0],
                of(1),
                of(3)
            );
            report.note(note);
        }
    }
}

pub(super) fn empty() -> Report {
    let figure = |name, decimals| Figure { name, decimals };
    Report::new(
        &["hot rows"],
        &[
            figure("ops/s", 0),
            figure("reads/get", 3),
            figure("cache hits %", 1),
            figure("written B/op", 1),
            figure("reads from fast %", 1),
            figure("data on fast %", 1),
            figure("moved MB", 1),
            figure("cpu us/op", 2),
        ],
    )
}
