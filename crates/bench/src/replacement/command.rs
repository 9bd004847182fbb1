//! The command line of a run, and the run.

use std::sync::Mutex;

use clap::Args;
use spillway::Mechanism;
use spillway_base::clock;

use super::series::{Series, Share};
use crate::amplification::{Mix, Plan, mix_of};
use crate::apart;
use crate::machine;
use crate::measure::{fresh_folder, progress, remove_folder, rows_of};
use crate::plot::SeriesArgs;
use crate::report::{CommonArgs, Figure, Report, Row};
use crate::store::{SpillwayStore, SpillwayStores, mechanisms, metrics_sum};

/// The block cache's hit rate over time, after figure 17 of the X-Engine paper.
#[derive(Args, Clone, Debug)]
pub struct ReplacementArgs {
    /// Memory budget, in MiB
    #[arg(long, default_value_t = 64)]
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
    /// Shares of the operations; the hits are recorded after each
    #[arg(long, default_value_t = 100)]
    pub shares: u64,
    /// Shares at the start for which no dip is reported, while the cache and Level0 fill
    #[arg(long, default_value_t = 10)]
    pub filling: usize,
    /// Threads
    #[arg(long, default_value_t = 4)]
    pub threads: u64,
    /// Shares of point gets, gets of 20 rows, updates and inserts
    #[arg(long, value_delimiter = ',', default_values_t = [42, 10, 32, 16])]
    pub mix: Vec<u64>,
    /// Skew of the rows asked for: 0 for uniform, 0.99 for YCSB's Zipf distribution
    #[arg(long, default_value_t = 0.99)]
    pub skew: f64,
    /// Percent of the rows asked for that were inserted lately; the others are of a hot set
    #[arg(long, default_value_t = 50)]
    pub recent_percent: u64,
    /// Run both without these as well
    #[arg(long, value_parser = mechanisms(), value_delimiter = ',')]
    pub without: Vec<Mechanism>,
    /// Times to run everything; the report gives medians over them
    #[arg(long, default_value_t = 1)]
    pub rounds: usize,
    /// Run a little of everything once, to check that it works
    #[arg(long)]
    pub quick: bool,
    /// Files for the hit rate of each share
    #[command(flatten)]
    pub windows: SeriesArgs,
    /// Seed, folder and report
    #[command(flatten)]
    pub common: CommonArgs,
    /// Run this subject alone and write its results to a file; each run does so in a process of its
    /// own
    #[arg(long, hide = true, num_args = 2, value_names = ["SUBJECT", "FILE"])]
    pub child: Vec<String>,
}

/// A name, and what is left out.
type Subject = (&'static str, &'static [Mechanism]);

const SUBJECTS: [Subject; 2] =
    [("spillway", &[]), ("without replacement", &[Mechanism::Replacement])];

/// What is counted of compactions that go on by themselves.
const COMPACTIONS: [&str; 5] = [
    "tiered_compactions_deletion_total",
    "tiered_compactions_intra_level0_total",
    "tiered_compactions_minor_total",
    "tiered_compactions_major_total",
    "tiered_compactions_self_major_total",
];

/// Points of a dip that counts.
const DEEP: f64 = 5.0;

impl ReplacementArgs {
    /// Runs with and without it, in processes of their own, and gives the report.
    ///
    /// # Errors
    /// What is wrong with the arguments, or the first failure of a run, in words.
    pub fn run(mut self) -> Result<(), String> {
        if self.quick {
            (self.memory_mib, self.operations, self.rounds) = (32, 20_000, 1);
        }
        if let [name, file] = &self.child[..] {
            let subject = SUBJECTS.iter().find(|(subject, _)| subject == name);
            let series = self.series_of(*subject.ok_or("no such subject")?)?;
            return apart::give(file, &series);
        }
        self.plan()?;
        let mut report = empty();
        let load = machine::load_average();
        let mut runs: Vec<(usize, String, Series)> = Vec::new();
        let bar = progress((self.rounds * SUBJECTS.len()) as u64);
        for round in 0..self.rounds {
            for place in 0..SUBJECTS.len() {
                let (name, _) = SUBJECTS[(place + round) % SUBJECTS.len()];
                bar.set_message(name);
                let ran: Result<Series, String> = apart::run(&self.common.dir, &[name]);
                let ran = ran.map_err(|error| format!("{name}: {error}"))?;
                report.add(self.row(name, &ran));
                runs.push((round, name.to_owned(), ran));
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        report.set("machine", machine::describe(&self.common.dir));
        report.set("load average", format!("{load} before, {} after", machine::load_average()));
        report.set("run", self.describe());
        self.write(&runs)?;
        self.common.output.give(&report)
    }

    pub(super) fn plan(&self) -> Result<Plan, String> {
        if self.rounds == 0 || self.shares == 0 || self.operations < self.shares {
            return Err("rounds, shares and their operations are more than nothing".to_owned());
        }
        Plan {
            rows: rows_of(self.memory_mib, self.data_times, self.value_bytes),
            value_bytes: self.value_bytes,
            memory_bytes: self.memory_mib << 20,
            operations: self.operations,
            threads: self.threads,
            mix: mix_of(&self.mix)?,
            skew: self.skew,
            recent_percent: self.recent_percent,
            sync_every: 0,
            seed: self.common.seed,
        }
        .checked()
    }

    fn describe(&self) -> String {
        format!(
            "rows of 16 + {} bytes, {} times {} MiB of memory, in the bottom level; then {} operations by {} threads in {} shares: gets, \
             gets of 20 rows, updates, inserts {:?}; {} % ask for rows inserted lately, the others for a hot set, skew {}; {} rounds \
             in turn, seed {}",
            self.value_bytes,
            self.data_times,
            self.memory_mib,
            self.operations,
            self.threads,
            self.shares,
            self.mix,
            self.recent_percent,
            self.skew,
            self.rounds,
            self.common.seed
        )
    }

    /// Runs the mix on a database in a fresh folder, which is removed.
    pub(super) fn series_of(&self, (name, without): Subject) -> Result<Series, String> {
        let plan = self.plan()?;
        let folder = self.common.dir.join("replacement");
        fresh_folder(&folder)?;
        let stores = SpillwayStores::default();
        let mut settings = stores.database_settings(plan.memory_bytes);
        settings.without.extend(without.iter().chain(&self.without));
        let store = stores.open_with(&folder, settings)?;
        let mix = Mix::new(&store, &plan);
        mix.load(name)?;
        let series = self.measure(&store, &mix);
        drop(store);
        remove_folder(&folder)?;
        series
    }

    fn measure(&self, store: &SpillwayStore, mix: &Mix<'_>) -> Result<Series, String> {
        let figure = |names: &[&str]| metrics_sum(&store.db.metrics(), names);
        // What was counted so far, and what memory is in use.
        let look = || Share {
            hits: figure(&["tiered_block_cache_hits_total"]),
            misses: figure(&["tiered_block_cache_misses_total"]),
            compactions: figure(&COMPACTIONS),
            compacting_bytes: figure(&["memory_compactions_bytes"]),
            memtable_bytes: figure(&["memory_memtables_bytes"]),
            cache_bytes: figure(&["memory_caches_bytes"]),
        };
        let flushes = || figure(&["tiered_flushes_total"]);
        let each = self.operations / self.shares;
        let (flushed, begin) = (flushes(), clock::now());
        // Operations done, and what was seen after each share of them.
        let state = Mutex::new((0, vec![look()]));
        let bar = progress(self.operations);
        mix.work(&|done| {
            bar.inc(done);
            let mut state = state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            state.0 += done;
            while state.0 / each >= state.1.len() as u64 {
                let now = look();
                state.1.push(now);
            }
        })?;
        bar.finish_and_clear();
        let seconds = (clock::now() - begin).as_secs_f64();
        let (_, seen) = state.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let between = |pair: &[Share]| Share {
            hits: pair[1].hits - pair[0].hits,
            misses: pair[1].misses - pair[0].misses,
            compactions: pair[1].compactions - pair[0].compactions,
            ..pair[1]
        };
        let shares = seen.windows(2).map(between).collect();
        Ok(Series { shares, each, seconds, flushes: flushes() - flushed })
    }

    pub(super) fn row(&self, subject: &str, series: &Series) -> Row {
        let (dips, rises) = (series.dips(self.filling), series.rises(self.filling));
        let deepest = |figures: &[f64]| figures.iter().copied().fold(0.0, f64::max);
        let deep = |figures: &[f64]| figures.iter().filter(|figure| **figure > DEEP).count() as f64;
        let compactions: f64 = series.shares.iter().map(|share| share.compactions).sum();
        Row {
            case: vec![format!("{} shares", series.shares.len())],
            subject: subject.to_owned(),
            figures: vec![
                series.rate(),
                series.rates().into_iter().fold(100.0, f64::min),
                deepest(&dips),
                deep(&dips),
                deepest(&rises),
                deep(&rises),
                series.misses() / self.operations as f64,
                self.operations as f64 / series.seconds,
                series.flushes,
                compactions,
            ],
        }
    }

    fn write(&self, runs: &[(usize, String, Series)]) -> Result<(), String> {
        let text = || {
            let columns = "round,of,share,hits %,misses/100 ops,compactions";
            let mut text = format!("{columns},compacting MiB,memtables MiB,caches MiB\n");
            let mib = |bytes: f64| bytes / f64::from(1 << 20);
            for (round, name, series) in runs {
                let lines = series.shares.iter().zip(series.rates()).zip(series.lacks());
                for (at, ((share, rate), lack)) in lines.enumerate() {
                    text.push_str(&format!(
                        "{round},{name},{at},{rate:.3},{lack:.3},{},{:.2},{:.2},{:.2}\n",
                        share.compactions,
                        mib(share.compacting_bytes),
                        mib(share.memtable_bytes),
                        mib(share.cache_bytes),
                    ));
                }
            }
            text
        };
        let lines = || {
            let last = runs.iter().filter(|(round, ..)| *round + 1 == self.rounds);
            last.map(|(_, name, series)| (name.clone(), series.rates())).collect()
        };
        self.windows.write(text, "blocks found in memory, of a hundred, over the operations", lines)
    }
}

pub(super) fn empty() -> Report {
    let figure = |name, decimals| Figure { name, decimals };
    Report::new(
        &["of"],
        &[
            figure("hits %", 2),
            figure("lowest share %", 2),
            figure("deepest dip", 2),
            figure("dips past 5", 0),
            figure("most misses/100 ops over the ten before", 2),
            figure("past 5", 0),
            figure("misses/op", 3),
            figure("ops/s", 0),
            figure("flushes", 0),
            figure("compactions", 0),
        ],
    )
}
