//! The command line of a run, and the run.

use clap::Args;
use spillway::Database;

use super::work::{Tables, Way};
use crate::machine;
use crate::measure::{fresh_folder, in_turns, progress, remove_folder};
use crate::report::{CommonArgs, Figure, Report, Row};
use crate::store::SpillwayStores;

/// Threads with and without their own cores and tables.
#[derive(Args, Clone, Debug)]
pub struct HomesArgs {
    /// Tables
    #[arg(long, default_value_t = 32)]
    pub tables: u64,
    /// Rows of each, with 16-byte keys; by default all of them take some hundred MiB
    #[arg(long, default_value_t = 100_000)]
    pub rows: u64,
    /// Bytes of each value
    #[arg(long, default_value_t = 8)]
    pub value_bytes: usize,
    /// Threads [default: the number of cores]
    #[arg(long, value_delimiter = ',')]
    pub threads: Vec<u64>,
    /// Gets of a turn, all threads together
    #[arg(long, default_value_t = 2_000_000)]
    pub gets: u64,
    /// Memory budget, in MiB
    #[arg(long, default_value_t = 1024)]
    pub memory_mib: usize,
    /// Rounds in which all take turns; the report gives medians over them
    #[arg(long, default_value_t = 7)]
    pub rounds: usize,
    /// Seed, folder and report
    #[command(flatten)]
    pub common: CommonArgs,
}

impl HomesArgs {
    /// Runs the gets and prints the report.
    ///
    /// # Errors
    /// Invalid arguments, or the first failure of a run, as text.
    pub fn run(&self) -> Result<(), String> {
        self.common.output.give(&self.compare()?)
    }

    pub(super) fn compare(&self) -> Result<Report, String> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from) as u64;
        let threads = if self.threads.is_empty() { vec![cores] } else { self.threads.clone() };
        if self.rows == 0 || self.rounds == 0 || threads.contains(&0) {
            return Err("a run needs a row, a round and a thread".to_owned());
        }
        let load = machine::load_average();
        let folder = self.common.dir.join("homes");
        fresh_folder(&folder)?;
        let settings = SpillwayStores::default().database_settings(self.memory_mib << 20);
        let db = Database::open(&folder, settings).map_err(|error| error.to_string())?;
        let seed = self.common.seed;
        let tables = Tables::fill(db.clone(), self.tables, self.rows, self.value_bytes, seed)?;
        let mut report = self.empty();
        let bar = progress((self.rounds * Way::ALL.len() * threads.len()) as u64);
        for &threads in &threads {
            // This reads everything into memory first.
            tables.get(Way::ALL[0], threads, self.gets, seed)?;
            let mut turns = 0;
            in_turns(self.rounds, &Way::ALL, |&way| {
                bar.set_message(way.name());
                turns += 1;
                let turn = tables.get(way, threads, self.gets, seed.wrapping_add(turns))?;
                report.add(Row {
                    case: vec![threads.to_string()],
                    subject: way.name().to_owned(),
                    figures: vec![turn.gets_per_s, turn.cpu_ns],
                });
                bar.inc(1);
                Ok(())
            })?;
        }
        bar.finish_and_clear();
        drop(tables);
        db.close().map_err(|error| error.to_string())?;
        remove_folder(&folder)?;
        report.set("machine", machine::describe(&self.common.dir));
        report.set("load average", format!("{load} before, {} after", machine::load_average()));
        Ok(report)
    }

    fn empty(&self) -> Report {
        let figure = |name, decimals| Figure { name, decimals };
        let mut report = Report::new(&["threads"], &[figure("gets/s", 0), figure("cpu ns", 0)]);
        report.set(
            "run",
            format!(
                "{} gets a turn, of {} tables of {} rows of 16 + {} bytes in memory, {} MiB, {} rounds in turn, seed {}",
                self.gets,
                self.tables,
                self.rows,
                self.value_bytes,
                self.memory_mib,
                self.rounds,
                self.common.seed
            ),
        );
        report
    }
}
