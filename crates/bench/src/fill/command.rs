//! The command line of a run.

use clap::Args;
use spillway::Mechanism;

use super::work::{FillPlan, FillResults, row_bytes, run};
use crate::apart;
use crate::machine;
use crate::measure::{median, progress};
use crate::report::{CommonArgs, Figure, Report, Row};
use crate::store::{SpillwayStores, Stores, mechanisms};

/// A fill at full speed to many times the memory, second by second.
#[derive(Args, Clone, Debug)]
pub struct FillArgs {
    /// Rows to put, in GiB of keys and values; the disk needs twice as much
    #[arg(long, default_value_t = 20.0)]
    pub gib: f64,
    /// Memory budget of each store, in MiB
    #[arg(long, default_value_t = 1024)]
    pub memory_mib: usize,
    /// Bytes of each value
    #[arg(long, default_value_t = 400)]
    pub value_bytes: usize,
    /// Threads
    #[arg(long, default_value_t = 2)]
    pub threads: u64,
    /// The order of the rows
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [Order::Random, Order::Sequential])]
    pub order: Vec<Order>,
    /// Rows to read back afterwards
    #[arg(long, default_value_t = 10_000)]
    pub gets: u64,
    /// Times to run everything, the stores in turn; the report gives medians over them
    #[arg(long, default_value_t = 1)]
    pub rounds: usize,
    /// Fill 100 MiB with 32 MiB of memory once, to check that it works
    #[arg(long)]
    pub quick: bool,
    /// Also run Spillway without each of these
    #[arg(long, value_parser = mechanisms(), value_delimiter = ',', default_values_t = [Mechanism::LargeLevel0])]
    pub without: Vec<Mechanism>,
    /// Only stores of these names
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Seed, folder and report; the files get every second of every run
    #[command(flatten)]
    pub common: CommonArgs,
    /// Run this store alone and write its results to a file; used for the process of each run
    #[arg(long, hide = true, num_args = 3, value_names = ["STORE", "ORDER", "FILE"])]
    pub child: Vec<String>,
}

/// The order of the rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Order {
    /// Random
    Random,
    /// In key order, a part of the keys for each thread
    Sequential,
}

impl Order {
    pub(super) fn name(self) -> &'static str {
        match self {
            Order::Random => "random",
            Order::Sequential => "sequential",
        }
    }
}

impl FillArgs {
    /// Fills the stores, in separate processes, and prints the report.
    ///
    /// # Errors
    /// Invalid arguments, or the first failure of a run, as text.
    pub fn run(mut self, stores: &[&dyn Stores]) -> Result<(), String> {
        if self.quick {
            (self.gib, self.memory_mib, self.rounds) = (0.1, 32, 1);
        }
        let without = SpillwayStores::each_without(&self.without);
        let mut stores = SpillwayStores::among(&without, stores);
        if let [name, order, file] = &self.child[..] {
            let stores = stores.iter().find(|stores| stores.name() == *name);
            let order =
                if order == Order::Random.name() { Order::Random } else { Order::Sequential };
            let ran = run(*stores.ok_or("no such store")?, &self.plan(order)?, &self.common.dir)?;
            return apart::give(file, &ran);
        }
        stores.retain(|stores| self.only.is_empty() || self.only.contains(&stores.name()));
        if stores.is_empty() || self.rounds == 0 || self.order.is_empty() {
            return Err("a run needs a store, a round and an order".to_owned());
        }
        let (mut report, mut seconds) = (empty(), empty_seconds());
        let load = machine::load_average();
        let bar = progress((self.rounds * self.order.len() * stores.len()) as u64);
        for round in 0..self.rounds {
            for &order in &self.order {
                for place in 0..stores.len() {
                    let name = stores[(place + round) % stores.len()].name();
                    bar.set_message(format!("{name}, {}", order.name()));
                    let ran: Result<FillResults, _> =
                        apart::run(&self.common.dir, &[&name, order.name()]);
                    let ran = ran.map_err(|error| format!("{name}: {error}"))?;
                    report.add(self.row(order, &name, &ran));
                    second_rows(round, order, &name, &ran).for_each(|row| seconds.add(row));
                    bar.inc(1);
                }
            }
        }
        bar.finish_and_clear();
        report.set("machine", machine::describe(&self.common.dir));
        report.set("load average", format!("{load} before, {} after", machine::load_average()));
        report.set(
            "run",
            format!(
                "{:.1} GiB of rows of 16 + {} bytes by {} threads, {} MiB of memory each; no put is waited for to be durable; {} \
                 rounds in turn, seed {}",
                self.gib,
                self.value_bytes,
                self.threads,
                self.memory_mib,
                self.rounds,
                self.common.seed
            ),
        );
        stores.iter().for_each(|stores| report.set(stores.name(), stores.settings()));
        print!("{report}");
        self.common.output.write(&seconds)
    }

    pub(super) fn plan(&self, order: Order) -> Result<FillPlan, String> {
        let bytes = self.gib * f64::from(1 << 30);
        let rows = (bytes / row_bytes(self.value_bytes) as f64) as u64;
        if !bytes.is_finite() || self.threads == 0 || rows < self.threads {
            return Err("each thread needs a row".to_owned());
        }
        Ok(FillPlan {
            rows,
            value_bytes: self.value_bytes,
            memory_bytes: self.memory_mib << 20,
            threads: self.threads,
            in_order: order == Order::Sequential,
            gets: self.gets,
            seed: self.common.seed,
        })
    }

    pub(super) fn row(&self, order: Order, subject: &str, ran: &FillResults) -> Row {
        let bytes = self.gib * f64::from(1 << 30);
        let rows = bytes / row_bytes(self.value_bytes) as f64;
        let puts = || ran.seconds.iter().map(|second| second.puts as f64);
        let lowest = puts().fold(f64::INFINITY, f64::min);
        let mib = f64::from(1 << 20);
        let resident = ran.seconds.iter().map(|second| second.resident_bytes).max().unwrap_or(0);
        Row {
            case: vec![order.name().to_owned()],
            subject: subject.to_owned(),
            figures: vec![
                rows / ran.fill_seconds,
                bytes / mib / ran.fill_seconds,
                lowest,
                lowest / median(puts()),
                ran.p50_us,
                ran.p99_us,
                ran.longest_us / 1e3,
                ran.waited_seconds,
                ran.settle_seconds,
                ran.written_bytes / bytes,
                ran.cpu_seconds * 1e6 / rows,
                resident as f64 / mib,
            ],
        }
    }
}

pub(super) fn empty() -> Report {
    let figure = |name, decimals| Figure { name, decimals };
    Report::new(
        &["order"],
        &[
            figure("puts/s", 0),
            figure("MiB/s", 1),
            figure("lowest second", 0),
            figure("lowest/median", 2),
            figure("p50 us", 1),
            figure("p99 us", 1),
            figure("longest ms", 1),
            figure("waited s", 1),
            figure("settled after s", 1),
            figure("written/put", 2),
            figure("cpu us", 2),
            figure("resident MiB", 0),
        ],
    )
}

fn empty_seconds() -> Report {
    let names = ["puts/s", "p50 us", "p99 us", "longest us", "resident bytes"];
    Report::new(&["run", "order", "second"], &names.map(|name| Figure { name, decimals: 0 }))
}

fn second_rows<'a>(
    round: usize,
    order: Order,
    subject: &'a str,
    ran: &'a FillResults,
) -> impl Iterator<Item = Row> + 'a {
    ran.seconds.iter().enumerate().map(move |(number, second)| Row {
        case: vec![(round + 1).to_string(), order.name().to_owned(), number.to_string()],
        subject: subject.to_owned(),
        figures: vec![
            second.puts as f64,
            second.p50_us,
            second.p99_us,
            second.longest_us,
            second.resident_bytes as f64,
        ],
    })
}
