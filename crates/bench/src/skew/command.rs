//! The command line of a run.

use clap::Args;
use spillway::Mechanism;

use super::work::{SkewPlan, SkewResults, run};
use crate::machine;
use crate::measure::{in_turns, progress, rows_of};
use crate::report::{CommonArgs, Figure, Report, Row};
use crate::store::{SpillwayStores, Stores, mechanisms};

/// Point reads of data larger than memory, from uniform to very skewed: rates, and hits of each
/// cache.
#[derive(Args, Clone, Debug)]
pub struct SkewArgs {
    /// Memory budget of each store, in MiB
    #[arg(long, default_value_t = 64)]
    pub memory_mib: usize,
    /// Size of the data, as a multiple of the memory
    #[arg(long, default_value_t = 10.0)]
    pub data_times: f64,
    /// Bytes of each value
    #[arg(long, default_value_t = 200)]
    pub value_bytes: usize,
    /// Exponents of Zipf distributions of the requested rows; 0 for uniform
    #[arg(long, value_delimiter = ',', default_values_t = [0.0, 0.6, 0.8, 0.99, 1.2])]
    pub skew: Vec<f64>,
    /// Reads before the measurement, over all threads
    #[arg(long, default_value_t = 1_000_000)]
    pub warm: u64,
    /// Measured reads, over all threads
    #[arg(long, default_value_t = 1_000_000)]
    pub reads: u64,
    /// Threads
    #[arg(long, default_value_t = 2)]
    pub threads: u64,
    /// Also run Spillway without each of these
    #[arg(
        long,
        value_parser = mechanisms(),
        value_delimiter = ',',
        default_values_t = [Mechanism::PartReads, Mechanism::RowCache, Mechanism::AdaptiveShare]
    )]
    pub without: Vec<Mechanism>,
    /// Only stores of these names
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Times to run everything, the stores in turn; the report gives medians over them
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Run a little of everything once, to check that it works
    #[arg(long)]
    pub quick: bool,
    /// Seed, folder and report
    #[command(flatten)]
    pub common: CommonArgs,
}

impl SkewArgs {
    /// Runs the reads on each store and prints the report.
    ///
    /// # Errors
    /// Invalid arguments, or the first failure of a run, as text.
    pub fn run(mut self, stores: &[&dyn Stores]) -> Result<(), String> {
        if self.quick {
            (self.memory_mib, self.warm, self.reads, self.rounds) = (16, 20_000, 20_000, 1);
        }
        let report = self.measure(stores)?;
        self.common.output.give(&report)
    }

    pub(super) fn measure(&self, stores: &[&dyn Stores]) -> Result<Report, String> {
        let plan = self.plan()?;
        let without = SpillwayStores::each_without(&self.without);
        let mut stores = SpillwayStores::among(&without, stores);
        stores.retain(|stores| self.only.is_empty() || self.only.contains(&stores.name()));
        if stores.is_empty() || self.rounds == 0 {
            return Err("a run needs a store and a round".to_owned());
        }
        let mut report = empty();
        let load = machine::load_average();
        let each = (plan.warm + plan.reads) * plan.skews.len() as u64;
        let bar = progress(each * (self.rounds * stores.len()) as u64);
        in_turns(self.rounds, &stores, |kind| {
            let name = kind.name();
            bar.set_message(format!("reads of {name}"));
            let all = run(*kind, &plan, &self.common.dir, &bar);
            let all = all.map_err(|error| format!("{name}: {error}"))?;
            all.iter().for_each(|ran| report.add(row(name.clone(), ran)));
            Ok(())
        })?;
        bar.finish_and_clear();
        report.set("machine", machine::describe(&self.common.dir));
        report.set("load average", format!("{load} before, {} after", machine::load_average()));
        report.set(
            "run",
            format!(
                "{} rows of 16 + {} bytes, all in one level, {} MiB of memory each, {} reads of {} threads after {} that are not counted, \
                 {} rounds in turn, seed {}",
                plan.rows,
                plan.value_bytes,
                self.memory_mib,
                plan.reads,
                plan.threads,
                plan.warm,
                self.rounds,
                plan.seed
            ),
        );
        stores.iter().for_each(|stores| report.set(stores.name(), stores.settings()));
        Ok(report)
    }

    fn plan(&self) -> Result<SkewPlan, String> {
        let memory_bytes = self.memory_mib << 20;
        let rows = rows_of(self.memory_mib, self.data_times, self.value_bytes);
        let none = rows < 2 || self.threads == 0 || self.reads == 0 || self.skew.is_empty();
        if none || self.skew.iter().any(|skew| !(0.0..10.0).contains(skew)) {
            return Err(
                "rows, threads and reads must be greater than 0, and there must be a skew, from 0 to 10"
                    .into(),
            );
        }
        Ok(SkewPlan {
            rows,
            value_bytes: self.value_bytes,
            memory_bytes,
            warm: self.warm,
            reads: self.reads,
            threads: self.threads,
            skews: self.skew.clone(),
            seed: self.common.seed,
        })
    }
}

fn empty() -> Report {
    let figure = |name, decimals| Figure { name, decimals };
    Report::new(
        &["skew"],
        &[
            figure("reads/s", 0),
            figure("CPU us", 2),
            figure("rows hit %", 1),
            figure("blocks hit %", 1),
            figure("blocks read", 3),
            figure("kernel us", 2),
            figure("recovered k", 0),
        ],
    )
}

fn row(subject: String, ran: &SkewResults) -> Row {
    let percent = |share: Option<f64>| share.map_or(f64::NAN, |share| share * 100.0);
    Row {
        case: vec![ran.skew.to_string()],
        subject,
        figures: vec![
            ran.reads_per_s,
            ran.cpu_us,
            percent(ran.rows_hit),
            percent(ran.blocks_hit),
            ran.device_reads.unwrap_or(f64::NAN),
            ran.kernel_us,
            ran.recovered_after.map_or(f64::NAN, |reads| reads / 1e3),
        ],
    }
}
