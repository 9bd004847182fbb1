//! The bytes that checkpoints write, and the rate of updates during checkpoints.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use spillway_base::clock::{self, Clock};
use spillway_base::rng::Rng;

use super::goals::verdict;
use super::rows::{OwnRows, RowSizes, StampedRows};
use super::work::metric;
use crate::machine;
use crate::measure::{fresh_folder, median, progress, remove_folder};
use crate::report::{CommonArgs, Figure, Report, Row};
use crate::store::{SpillwayStore, SpillwayStores, Store};

/// Bytes written by checkpoints, and updates during them.
#[derive(Args, Clone, Debug)]
pub struct CheckpointArgs {
    /// Rows of the table
    #[arg(long, default_value_t = 1_000_000)]
    pub rows: u64,
    /// The rows
    #[command(flatten)]
    pub sizes: RowSizes,
    /// Threads that update
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    pub threads: Vec<usize>,
    /// Seconds of each window, with and without checkpoints
    #[arg(long, default_value_t = 4.0)]
    pub seconds: f64,
    /// Seconds from the beginning of one checkpoint to that of the next, unless a checkpoint takes
    /// longer
    #[arg(long, default_value_t = 2.0)]
    pub every: f64,
    /// Windows of each kind, in turn; the report gives medians over them
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// Memory budget, in MiB
    #[arg(long, default_value_t = 2048)]
    pub memory_mib: usize,
    /// Seed, folder and report
    #[command(flatten)]
    pub common: CommonArgs,
}

/// The goal: the most bytes of a checkpoint, divided by those of the rows.
const BYTES_GOAL: f64 = 0.15;
/// The goal: the least throughput during checkpoints, divided by that without them.
const UPDATES_GOAL: f64 = 0.9;
/// Bytes of each write that shows the disk's rate.
const WRITE_BYTES: usize = 4 << 20;
/// The number of operations between two readings of the clock.
const BATCH: u64 = 32;
const WHOLE: &str = "one of all rows";
const BESIDE: &str = "updates beside them";
const ALONE: &str = "updates alone";

impl CheckpointArgs {
    /// Runs the windows and prints the report.
    ///
    /// # Errors
    /// Invalid arguments, a wrong row, or the first failure of a run, as text.
    pub fn run(&self) -> Result<(), String> {
        self.common.output.give(&self.measure()?)
    }

    pub(super) fn measure(&self) -> Result<Report, String> {
        let lacks = self.rows == 0 || self.rounds == 0 || self.threads.contains(&0);
        if lacks || self.threads.iter().any(|threads| *threads as u64 > self.rows) {
            return Err("a run needs a round, and a row for each thread".to_owned());
        }
        let rows = self.sizes.rows(self.common.seed)?;
        let mut report = self.empty(&rows);
        let bar = progress(self.threads.len() as u64);
        for &threads in &self.threads {
            self.measure_with(threads, &rows, &mut report)?;
            bar.inc(1);
        }
        bar.finish_and_clear();
        self.note_goals(&mut report);
        Ok(report)
    }

    fn empty(&self, rows: &StampedRows) -> Report {
        let figure = |name, decimals| Figure { name, decimals };
        let mut report = Report::new(
            &["threads"],
            &[
                figure("updates/s", 0),
                figure("checkpoints", 0),
                figure("MiB each", 1),
                figure("of the data", 3),
                figure("s each", 2),
                figure("s to write the data", 2),
            ],
        );
        report.set("machine", machine::describe(&self.common.dir));
        report.set(
            "run",
            format!(
                "{} rows of {} bytes; a checkpoint of all of them, then windows of {} s in turn \
                 with one every {} s and without, {} of each; updates of random rows, not waited \
                 for; seed {}",
                self.rows,
                rows.row_bytes(),
                self.seconds,
                self.every,
                self.rounds,
                self.common.seed
            ),
        );
        report
    }

    fn measure_with(
        &self,
        threads: usize,
        rows: &StampedRows,
        report: &mut Report,
    ) -> Result<(), String> {
        let folder = self.common.dir.join("memory-checkpoint");
        fresh_folder(&folder)?;
        let stores = SpillwayStores::in_memory_engine();
        let mut settings = stores.database_settings(self.memory_mib << 20);
        // Only the benchmark requests checkpoints.
        settings.log_bytes_max = u64::MAX;
        let store = stores.open_with(&folder, settings)?;
        rows.load(&store, self.rows)?;
        let data_bytes = self.rows * rows.row_bytes() as u64;
        let mut add = |subject: &str, updates: f64, figures: Checkpoints, written_s: f64| {
            let each = |total: f64| total / figures.count;
            report.add(Row {
                case: vec![threads.to_string()],
                subject: subject.to_owned(),
                figures: vec![
                    updates,
                    figures.count,
                    each(figures.bytes) / f64::from(1 << 20),
                    each(figures.bytes) / data_bytes as f64,
                    each(figures.seconds),
                    written_s,
                ],
            });
        };
        let mut own: Vec<_> =
            (0..threads).map(|thread| OwnRows::new(self.rows, thread, threads)).collect();
        for round in 0..self.rounds {
            let mut both = [true, false];
            both.rotate_left(round % 2);
            for beside in both {
                let (updates, found) = self.window(&store, rows, &mut own, beside, round)?;
                add(if beside { BESIDE } else { ALONE }, updates, found, f64::NAN);
            }
        }
        own.iter().try_for_each(|own| own.check(rows, &store, 1))?;
        // All rows have changed since the last checkpoint.
        let mut values = Vec::new();
        for (thread, own) in own.iter_mut().enumerate() {
            for place in 0..own.count() {
                let (number, write) = own.update(place);
                rows.value(number, write, &mut values);
                let durable = thread + 1 == threads && place + 1 == own.count();
                store.commit(&[(rows.key(number).bytes(), &values)], durable)?;
            }
        }
        let whole = Checkpoints::one(&store)?;
        let written_s = write_alone(&folder.join("alone"), data_bytes)?;
        add(WHOLE, f64::NAN, whole, written_s);
        drop(store);
        self.reopen(&folder, rows, &own)?;
        remove_folder(&folder)
    }

    /// Checks that an opening finds every row, all of which are in the last checkpoint.
    fn reopen(&self, folder: &Path, rows: &StampedRows, own: &[OwnRows]) -> Result<(), String> {
        let stores = SpillwayStores::in_memory_engine();
        let store = stores.open_with(folder, stores.database_settings(self.memory_mib << 20))?;
        own.iter().try_for_each(|own| own.check(rows, &store, 1))
    }

    /// Updates per second in one window, and its checkpoints.
    fn window(
        &self,
        store: &SpillwayStore,
        rows: &StampedRows,
        own: &mut [OwnRows],
        beside: bool,
        round: usize,
    ) -> Result<(f64, Checkpoints), String> {
        let done = AtomicBool::new(false);
        let until = clock::now() + Duration::from_secs_f64(self.seconds);
        std::thread::scope(|scope| {
            let workers: Vec<_> = own
                .iter_mut()
                .enumerate()
                .map(|(thread, own)| {
                    let seed = self.common.seed ^ ((round as u64) << 8) ^ thread as u64;
                    scope.spawn(move || update_until(store, rows, own, seed, until))
                })
                .collect();
            let checkpoints = scope.spawn(|| {
                let mut all = Checkpoints::default();
                while beside && !done.load(Ordering::Relaxed) {
                    let begun = clock::now();
                    all.add(Checkpoints::one(store)?);
                    let next = begun + Duration::from_secs_f64(self.every);
                    while clock::now() < next && !done.load(Ordering::Relaxed) {
                        Clock::system().sleep(Duration::from_millis(5));
                    }
                }
                Ok(all)
            });
            let updates = workers
                .into_iter()
                .map(|worker| worker.join().unwrap_or_else(|_| Err("a worker panicked".into())));
            let updates: Result<f64, String> = updates.sum();
            done.store(true, Ordering::Relaxed);
            let checkpoints = checkpoints.join().unwrap_or_else(|_| Err("it panicked".to_owned()));
            Ok((updates?, checkpoints?))
        })
    }

    fn note_goals(&self, report: &mut Report) {
        for case in report.cases() {
            let share = report.median(&case, WHOLE, 3);
            report.note(format!(
                "{} threads: a checkpoint of all rows writes {:.1} % of their bytes; goal at most \
                 {:.0} %: {}",
                case[0],
                share * 100.0,
                BYTES_GOAL * 100.0,
                verdict(share <= BYTES_GOAL)
            ));
            let of = |subject: &str| -> Vec<f64> {
                let rows = report.rows().iter();
                let rows = rows.filter(|row| row.case == case && row.subject == subject);
                rows.map(|row| row.figures[0]).collect()
            };
            let kept =
                median(of(BESIDE).iter().zip(of(ALONE)).map(|(beside, alone)| beside / alone));
            report.note(format!(
                "{} threads: beside checkpoints updates have {kept:.2} of their throughput; goal \
                 {UPDATES_GOAL}: {}",
                case[0],
                verdict(kept >= UPDATES_GOAL)
            ));
        }
    }
}

/// The totals of several checkpoints.
#[derive(Clone, Copy, Debug, Default)]
struct Checkpoints {
    count: f64,
    bytes: f64,
    seconds: f64,
}

impl Checkpoints {
    fn one(store: &SpillwayStore) -> Result<Checkpoints, String> {
        let now = || {
            let bytes = metric(&store.db, "memory_engine_checkpoint_bytes_total");
            (metric(&store.db, "memory_engine_checkpoints_total"), bytes, clock::now())
        };
        let before = now();
        store.db.flush().map_err(|error| error.to_string())?;
        let after = now();
        if after.0 <= before.0 {
            return Err("a flush made no checkpoint".to_owned());
        }
        let seconds = (after.2 - before.2).as_secs_f64();
        Ok(Checkpoints { count: after.0 - before.0, bytes: after.1 - before.1, seconds })
    }

    fn add(&mut self, more: Checkpoints) {
        self.count += more.count;
        self.bytes += more.bytes;
        self.seconds += more.seconds;
    }
}

/// Updates random rows until a given time. Returns the updates per second.
fn update_until(
    store: &SpillwayStore,
    rows: &StampedRows,
    own: &mut OwnRows,
    seed: u64,
    until: Duration,
) -> Result<f64, String> {
    let (mut rng, mut value, mut updates) = (Rng::new(seed), Vec::new(), 0);
    let begun = clock::now();
    loop {
        let now = clock::now();
        if now >= until && updates > 0 {
            return Ok(updates as f64 / (now - begun).as_secs_f64());
        }
        for _ in 0..BATCH {
            let (number, write) = own.update(rng.below(own.count()));
            rows.value(number, write, &mut value);
            store.commit(&[(rows.key(number).bytes(), &value)], false)?;
        }
        updates += BATCH;
    }
}

/// The seconds to write and sync this many bytes to a file.
fn write_alone(path: &Path, bytes: u64) -> Result<f64, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", path.display());
    let piece = vec![7; WRITE_BYTES];
    let begun = clock::now();
    let mut file = File::create(path).map_err(failed)?;
    let mut left = bytes as usize;
    while left > 0 {
        let now = left.min(piece.len());
        file.write_all(&piece[..now]).map_err(failed)?;
        left -= now;
    }
    file.sync_all().map_err(failed)?;
    let seconds = (clock::now() - begun).as_secs_f64();
    std::fs::remove_file(path).map_err(failed)?;
    Ok(seconds)
}
