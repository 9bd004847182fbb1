//! The command line of a run, and the run.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use indicatif::ProgressBar;
use spillway::Mechanism;

use super::series::Series;
use super::subject::{ReadTarget, Server, Within};
use super::work::{MovingPlan, Where, run};
use crate::connections::server;
use crate::machine;
use crate::measure::{
    Values, fresh_folder, in_turns, median, progress, read_through, remove_folder, rows_of,
};
use crate::plot::SeriesArgs;
use crate::report::{CommonArgs, Figure, Report, Row};
use crate::store::{SpillwayStores, Stores, load, mechanisms};

/// A hit rate at most this many points below the usual one counts as recovered.
const POINTS: f64 = 5.0;

/// Reads whose hot rows change suddenly, and how long until the new ones are found in memory.
#[derive(Args, Clone, Debug)]
pub struct MovingArgs {
    /// A server as NAME=SOCKET, to read from servers instead of stores in this process; its root
    /// has no password. May be given more than once
    #[arg(long = "server", value_name = "NAME=SOCKET", value_parser = server)]
    pub servers: Vec<(String, PathBuf)>,
    /// Memory budget of each store, in MiB; servers use their own settings
    #[arg(long, default_value_t = 64)]
    pub memory_mib: usize,
    /// Size of the data, as a multiple of the memory
    #[arg(long, default_value_t = 10.0)]
    pub data_times: f64,
    /// Bytes of each value
    #[arg(long, default_value_t = 200)]
    pub value_bytes: usize,
    /// How many rows in a thousand are hot at a time
    #[arg(long, default_value_t = 10)]
    pub hot_permille: u64,
    /// How many reads in a hundred are of hot rows
    #[arg(long, default_value_t = 95)]
    pub hot_percent: u64,
    /// Where the hot rows are
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["together", "scattered"])]
    pub place: Vec<Where>,
    /// Seconds from one jump of the hot set to the next
    #[arg(long, default_value_t = 10.0)]
    pub every: f64,
    /// Jumps
    #[arg(long, default_value_t = 3)]
    pub jumps: usize,
    /// Milliseconds of a window
    #[arg(long, default_value_t = 100)]
    pub window_ms: u64,
    /// Threads, each with one read in flight
    #[arg(long, default_value_t = 2)]
    pub threads: u64,
    /// Also run Spillway without each of these
    #[arg(long, value_parser = mechanisms(), value_delimiter = ',', default_values_t = [Mechanism::RowCache])]
    pub without: Vec<Mechanism>,
    /// Only stores of these names
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Times to run everything, in turn; the report gives medians over them
    #[arg(long, default_value_t = 1)]
    pub rounds: usize,
    /// Run a little of everything once, to check that it works
    #[arg(long)]
    pub quick: bool,
    /// Files for the results of every window
    #[command(flatten)]
    pub windows: SeriesArgs,
    /// Seed, folder and report
    #[command(flatten)]
    pub common: CommonArgs,
}

/// A run: its round, the place of the hot rows, the subject, and the results.
type MovingRun = (usize, Where, String, Series);

impl MovingArgs {
    /// Runs the reads on each store, or server, and prints the report.
    ///
    /// # Errors
    /// Invalid arguments, or the first failure of a run, as text.
    pub fn run(mut self, stores: &[&dyn Stores]) -> Result<(), String> {
        if self.quick {
            (self.memory_mib, self.every, self.jumps, self.rounds) = (16, 0.3, 1, 1);
        }
        let (report, runs) = self.measure(stores)?;
        self.write(&runs)?;
        self.common.output.give(&report)
    }

    pub(super) fn measure(
        &self,
        stores: &[&dyn Stores],
    ) -> Result<(Report, Vec<MovingRun>), String> {
        let plan = self.plan()?;
        let load = machine::load_average();
        let mut runs = Vec::new();
        let each = (plan.every.as_secs_f64() / plan.window.as_secs_f64()) as usize;
        let windows = each * (plan.jumps + 1) * self.place.len() * self.rounds;
        let mut report = empty();
        if self.servers.is_empty() {
            let without = SpillwayStores::each_without(&self.without);
            let mut stores = SpillwayStores::among(&without, stores);
            stores.retain(|stores| self.only.is_empty() || self.only.contains(&stores.name()));
            if stores.is_empty() {
                return Err("there is no store of this name".to_owned());
            }
            let bar = progress((windows * stores.len()) as u64);
            in_turns(self.rounds, &stores, |stores| {
                let ran = self.store(*stores, &plan, &bar);
                runs.extend(ran.map_err(|error| format!("{}: {error}", stores.name()))?);
                Ok(())
            })?;
            bar.finish_and_clear();
            stores.iter().for_each(|stores| report.set(stores.name(), stores.settings()));
        } else {
            for (name, socket) in &self.servers {
                let loaded = Server { socket: socket.clone() }.load(plan.rows, self.value_bytes);
                loaded.map_err(|error| format!("{name}: {error}"))?;
            }
            let bar = progress((windows * self.servers.len()) as u64);
            in_turns(self.rounds, &self.servers, |(name, socket)| {
                let ran = self.places(&Server { socket: socket.clone() }, name, &plan, &bar);
                runs.extend(ran.map_err(|error| format!("{name}: {error}"))?);
                Ok(())
            })?;
            bar.finish_and_clear();
        }
        runs.iter().for_each(|(_, place, name, series)| report.add(row(*place, name, series)));
        report.set("machine", machine::describe(&self.common.dir));
        report.set("load average", format!("{load} before, {} after", machine::load_average()));
        report.set("run", self.describe(&plan));
        Ok((report, number(runs, self.place.len())))
    }

    /// Reads from a store in a fresh folder, which is removed.
    fn store(
        &self,
        stores: &dyn Stores,
        plan: &MovingPlan,
        bar: &ProgressBar,
    ) -> Result<Vec<MovingRun>, String> {
        let folder = self.common.dir.join(stores.name());
        fresh_folder(&folder)?;
        let store = stores.open(&folder, self.memory_mib << 20)?;
        let values = Values::new(self.common.seed, self.value_bytes);
        load(&*store, &stores.name(), plan.rows, &values)?;
        store.compact()?;
        read_through(&folder)?;
        let within = Within { store: &*store, value_bytes: self.value_bytes };
        let ran = self.places(&within, &stores.name(), plan, bar)?;
        drop(store);
        remove_folder(&folder)?;
        Ok(ran)
    }

    /// Runs all places of hot rows, one after another.
    fn places(
        &self,
        subject: &dyn ReadTarget,
        name: &str,
        plan: &MovingPlan,
        bar: &ProgressBar,
    ) -> Result<Vec<MovingRun>, String> {
        let ran = |place: &Where| {
            bar.set_message(format!("{place:?}, {name}"));
            let series = run(subject, plan, *place, bar)?;
            Ok((0, *place, name.to_owned(), series))
        };
        self.place.iter().map(ran).collect()
    }

    fn plan(&self) -> Result<MovingPlan, String> {
        let rows = rows_of(self.memory_mib, self.data_times, self.value_bytes);
        let hot_rows = rows * self.hot_permille / 1000;
        let sets = self.jumps as u64 + 1;
        if hot_rows == 0 || hot_rows * sets > rows || self.hot_percent > 100 {
            return Err(
                "--hot-permille must give at least one hot row, and the hot rows of all jumps \
                        must fit the table; --hot-percent is at most 100"
                    .to_owned(),
            );
        }
        let every = Duration::try_from_secs_f64(self.every).map_err(|error| error.to_string())?;
        let window = Duration::from_millis(self.window_ms);
        if self.threads == 0 || self.rounds == 0 || self.jumps == 0 {
            return Err("a run needs a thread, a round and a jump".to_owned());
        }
        if window.is_zero() || every < window {
            return Err("a window is some time, and no longer than it is to a jump".to_owned());
        }
        Ok(MovingPlan {
            rows,
            hot_rows,
            hot_percent: self.hot_percent,
            every,
            jumps: self.jumps,
            window,
            threads: self.threads,
            seed: self.common.seed,
        })
    }

    fn describe(&self, plan: &MovingPlan) -> String {
        format!(
            "{} rows of {} bytes, {} times {} MiB of memory; {} threads, each with one read under way, {} % of reads of {} hot rows, which are \
             others every {} s, {} times; windows of {} ms; {} rounds in turn, seed {}",
            plan.rows,
            self.value_bytes,
            self.data_times,
            self.memory_mib,
            plan.threads,
            plan.hot_percent,
            plan.hot_rows,
            self.every,
            plan.jumps,
            self.window_ms,
            self.rounds,
            plan.seed
        )
    }

    pub(super) fn write(&self, runs: &[MovingRun]) -> Result<(), String> {
        let text = || {
            let mut text = "round,place,of,set,seconds since jump,reads/s,hits %\n".to_owned();
            for (round, place, name, series) in runs {
                for window in &series.0 {
                    text.push_str(&format!(
                        "{round},{},{name},{},{:.3},{:.0},{:.2}\n",
                        word(*place),
                        window.set,
                        window.since_s,
                        window.reads / window.seconds,
                        window.hits()
                    ));
                }
            }
            text
        };
        let lines = || {
            let last = runs.iter().filter(|(round, ..)| *round + 1 == self.rounds);
            let line = |(_, place, name, series): &MovingRun| {
                let hits = series.0.iter().map(super::series::Window::hits).collect();
                (format!("{name}, {}", word(*place)), hits)
            };
            last.map(line).collect()
        };
        let heading = "reads that found their row in memory, of a hundred, window by window";
        self.windows.write(text, heading, lines)
    }
}

/// The name of a place of hot rows in reports.
fn word(place: Where) -> String {
    format!("{place:?}").to_lowercase()
}

/// Numbers the rounds of runs: each round of a subject has `places` runs.
fn number(mut runs: Vec<MovingRun>, places: usize) -> Vec<MovingRun> {
    let mut seen = std::collections::BTreeMap::new();
    for (round, _, name, _) in &mut runs {
        let before = seen.entry(name.clone()).or_insert(0_usize);
        *round = *before / places;
        *before += 1;
    }
    runs
}

fn empty() -> Report {
    let figure = |name, decimals| Figure { name, decimals };
    Report::new(
        &["hot rows"],
        &[
            figure("reads/s", 0),
            figure("usual hits %", 1),
            figure("hits after jump %", 1),
            figure("recovered s", 2),
            figure("longest s", 2),
            figure("lowest reads/s", 0),
        ],
    )
}

fn row(place: Where, subject: &str, series: &Series) -> Row {
    let recovered = series.recovered(POINTS);
    Row {
        case: vec![word(place)],
        subject: subject.to_owned(),
        figures: vec![
            series.reads_per_s(),
            series.usual_hits(),
            series.hits_after_jump(),
            median(recovered.iter().copied()),
            recovered.into_iter().fold(f64::NAN, f64::max),
            series.lowest_reads_per_s(),
        ],
    }
}
