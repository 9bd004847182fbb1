//! The command line of a run, the run, and its report.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use spillway::Database;

use super::check::check;
use super::driver::{Acknowledgement, IsolationLevel, TerminalPlan, TerminalResults, drive};
use super::inputs::TransactionKind;
use super::load::load;
use super::schema::{Placement, Scale, Tables};
use crate::commits::Extent;
use crate::machine;
use crate::measure::{fresh_folder, median, progress, quantile_us, remove_folder};
use crate::report::{CommonArgs, Figure, Report, Row};
use crate::store::SpillwayStores;

/// TPC-C through the library: binary keys, fixed layouts, no SQL, no keying or think time.
#[derive(Args, Clone, Debug)]
pub struct TpccArgs {
    /// Warehouses, 1 to 8
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4], value_parser = clap::value_parser!(u16).range(1..=8))]
    pub(super) warehouses: Vec<u16>,
    /// Threads; each runs the terminals of its share of the warehouses
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    pub(super) threads: Vec<usize>,
    /// Engines of the tables; mixed has history, orders and order lines tiered, the rest in memory
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["memory", "tiered"])]
    pub(super) engine: Vec<Placement>,
    /// Isolation of the transactions
    #[arg(long, value_enum, default_value = "snapshot")]
    pub(super) isolation: IsolationLevel,
    /// Whether terminals keep durable commits in flight, wait for each, or do not wait for the log
    #[arg(long, value_enum, default_value = "flight")]
    pub(super) durability: Acknowledgement,
    /// Commits in flight, at most, of each thread
    #[arg(long, default_value_t = 128)]
    pub(super) in_flight: usize,
    /// Seconds of each cell that are measured, after a warm-up of a fifth of them
    #[arg(long, default_value_t = 10.0)]
    pub(super) seconds: f64,
    /// Transactions of each cell, instead of seconds
    #[arg(long)]
    pub(super) transactions: Option<u64>,
    /// Times to run everything; the report gives medians over them
    #[arg(long, default_value_t = 3)]
    pub(super) rounds: usize,
    /// Items; fewer than the specification's for a first impression
    #[arg(long, default_value_t = 100_000)]
    pub(super) items: u32,
    /// Customers of each district, and orders that it begins with
    #[arg(long, default_value_t = 3000)]
    pub(super) customers: u16,
    /// Memory budget of the database, in MiB
    #[arg(long, default_value_t = 4096)]
    pub(super) memory_mib: usize,
    /// The log's folder, if not the database's
    #[arg(long)]
    pub(super) log_dir: Option<PathBuf>,
    /// Seed, folder and report
    #[command(flatten)]
    pub(super) common: CommonArgs,
}

/// One cell of the report.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct TpccCell {
    warehouses: u16,
    threads: usize,
    placement: Placement,
}

/// The index of transactions per second among the figures.
const TPS: usize = 1;

impl TpccArgs {
    /// Runs all cells and prints the report.
    ///
    /// # Errors
    /// Invalid arguments, the first failure of a run, or a violated condition, as text.
    pub fn run(&self) -> Result<(), String> {
        self.common.output.give(&self.measure()?)
    }

    pub(super) fn measure(&self) -> Result<Report, String> {
        if self.threads.contains(&0) || self.rounds == 0 || self.in_flight == 0 {
            return Err("a run needs a thread, a round and a commit in flight".to_owned());
        }
        if self.items < 100 || self.customers < 10 {
            return Err("a run needs 100 items, and 10 customers of a district".to_owned());
        }
        let time = Duration::try_from_secs_f64(self.seconds).map_err(|error| error.to_string())?;
        let extent = self.transactions.map_or(Extent::Time(time), Extent::Commits);
        let mut report = self.empty();
        let load_before = machine::load_average();
        let cells = self.warehouses.len() * self.threads.len() * self.engine.len();
        let bar = progress((cells * self.rounds) as u64);
        let mut all = Vec::new();
        for round in 0..self.rounds {
            for &warehouses in &self.warehouses {
                for &threads in &self.threads {
                    for place in 0..self.engine.len() {
                        // The order rotates each round, so that none is always first.
                        let placement = self.engine[(place + round) % self.engine.len()];
                        let cell = TpccCell { warehouses, threads, placement };
                        bar.set_message(format!("{}, {warehouses} warehouses", placement.name()));
                        let results = self.run_cell(cell, extent, round)?;
                        report.add(row(cell, &results));
                        all.push((cell, results));
                        bar.inc(1);
                    }
                }
            }
        }
        bar.finish_and_clear();
        let load = format!("{load_before} before, {} after", machine::load_average());
        report.set("load average", load);
        add_notes(&mut report, &all);
        Ok(report)
    }

    /// Loads a fresh database, runs the mix and checks the conditions.
    fn run_cell(
        &self,
        cell: TpccCell,
        extent: Extent,
        round: usize,
    ) -> Result<TerminalResults, String> {
        let name = format!("{}, {} warehouses", cell.placement.name(), cell.warehouses);
        let folder = self.common.dir.join(format!("tpcc-{}", cell.placement.name()));
        fresh_folder(&folder)?;
        let stores = SpillwayStores { log_dir: self.log_dir.clone(), ..SpillwayStores::default() };
        let scale =
            Scale { warehouses: cell.warehouses, items: self.items, customers: self.customers };
        let seed = self.common.seed.wrapping_add(round as u64);
        let plan = TerminalPlan {
            scale,
            isolation: self.isolation,
            acknowledgement: self.durability,
            in_flight: self.in_flight,
            threads: cell.threads,
            extent,
            seed,
        };
        let settings = stores.database_settings(self.memory_mib << 20);
        let run = || {
            let db = Database::open(&folder, settings)?;
            let tables = Tables::create(&db, cell.placement)?;
            load(&db, &tables, scale, seed)?;
            let results = drive(&db, &tables, &plan)?;
            let (violations, changes) = check(&db, &tables, scale)?;
            db.close()?;
            Ok((results, violations, changes))
        };
        let (results, violations, changes) =
            run().map_err(|error: spillway::Error| format!("{name}: {error}"))?;
        if let Some((condition, (count, first))) = violations.first_key_value() {
            return Err(format!(
                "{name}: condition {condition} is violated {count} times, first: {first}"
            ));
        }
        if changes != results.acknowledged {
            let told = results.acknowledged;
            return Err(format!("{name}: {changes:?} are in the tables, {told:?} acknowledged"));
        }
        remove_folder(&folder)?;
        if let Some(log_dir) = &self.log_dir {
            remove_folder(log_dir)?;
        }
        Ok(results)
    }

    fn empty(&self) -> Report {
        let figure = |name, decimals| Figure { name, decimals };
        let figures = [
            figure("tps/core", 0),
            figure("tps", 0),
            figure("tpmC", 0),
            figure("cpu us", 2),
            figure("p50 us", 0),
            figure("p99 us", 0),
            figure("log B", 0),
            figure("conflicts/1000", 2),
            figure("lock waits/1000", 2),
        ];
        let mut report = Report::new(&["warehouses", "threads"], &figures);
        report.set("machine", machine::describe(&self.common.dir));
        let extent = match self.transactions {
            Some(transactions) => format!("{transactions} transactions"),
            None => format!("{} s after a fifth of it unmeasured", self.seconds),
        };
        let commits = match self.durability {
            Acknowledgement::Flight => {
                format!("durable commits, at most {} in flight of a thread", self.in_flight)
            }
            Acknowledgement::Wait => "durable commits, each waited for".to_owned(),
            Acknowledgement::Relaxed => "commits not waited for, logged within 200 ms".to_owned(),
        };
        report.set(
            "run",
            format!(
                "TPC-C, {} items, {} customers a district, {:?} isolation, {commits}, {extent} a \
                 cell, {} rounds in turn, {} MiB of memory, seed {}; tps/core is by the whole \
                 process's processor time, tps of commits only, all conditions checked after each \
                 cell",
                self.items,
                self.customers,
                self.isolation,
                self.rounds,
                self.memory_mib,
                self.common.seed
            ),
        );
        report
    }
}

fn row(cell: TpccCell, results: &TerminalResults) -> Row {
    let (all, seconds) = (results.all(), results.elapsed.as_secs_f64());
    let count = all.len().max(1) as f64;
    let cpu_s = results.cpu.as_secs_f64();
    let conflicts: u64 = results.conflicts.iter().sum();
    Row {
        case: vec![cell.warehouses.to_string(), cell.threads.to_string()],
        subject: cell.placement.name().to_owned(),
        figures: vec![
            count / cpu_s,
            count / seconds,
            results.count(TransactionKind::NewOrder) as f64 * 60.0 / seconds,
            cpu_s * 1e6 / count,
            quantile_us(&all, 0.5),
            quantile_us(&all, 0.99),
            results.log_bytes / count,
            conflicts as f64 * 1e3 / count,
            results.lock_waits * 1e3 / count,
        ],
    }
}

/// A note for each cell: the spread of the rate, and for each kind of transaction the share, the
/// latencies and the conflicts.
fn add_notes(report: &mut Report, all: &[(TpccCell, TerminalResults)]) {
    let mut cells: Vec<TpccCell> = Vec::new();
    for (cell, _) in all {
        if !cells.contains(cell) {
            cells.push(*cell);
        }
    }
    for cell in cells {
        let results = || all.iter().filter(|(of, _)| *of == cell).map(|(_, results)| results);
        let tps: Vec<f64> = results().map(|results| row(cell, results).figures[TPS]).collect();
        let least = tps.iter().copied().fold(f64::INFINITY, f64::min);
        let most = tps.iter().copied().fold(0.0, f64::max);
        let total: u64 = results().map(|results| results.all().len()).sum();
        let rollbacks: u64 = results().map(|results| results.rollbacks).sum();
        let kinds = TransactionKind::ALL.map(|kind| {
            let us = |quantile| {
                median(
                    results()
                        .map(|results| quantile_us(&results.latency_ns[kind as usize], quantile)),
                )
            };
            let count: u64 = results().map(|results| results.count(kind)).sum();
            let conflicts: u64 = results().map(|results| results.conflicts[kind as usize]).sum();
            format!(
                "{} {:.1} % {:.0}, {:.0} ({conflicts})",
                kind.name(),
                count as f64 * 100.0 / total.max(1) as f64,
                us(0.5),
                us(0.99)
            )
        });
        report.note(format!(
            "{} of {} warehouses with {} threads: {:.0} tps ({least:.0} to {most:.0}); {rollbacks} \
             rolled back; share, median and p99 in us, and conflicts: {}.",
            cell.placement.name(),
            cell.warehouses,
            cell.threads,
            median(tps),
            kinds.join("; ")
        ));
    }
}
