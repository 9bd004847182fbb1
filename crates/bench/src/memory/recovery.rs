//! Opening after a kill: the checkpoint, and the tail of the log.

use std::path::{Path, PathBuf};

use clap::Args;
use serde::{Deserialize, Serialize};
use spillway_base::clock;
use spillway_base::rng::Rng;

use super::goals::verdict;
use super::rows::{OwnRows, RowSizes, StampedRows};
use crate::machine::{self, Cpu};
use crate::measure::{files_below, fresh_folder, progress, remove_folder};
use crate::recovery::{forget, read, report_and_wait, run_and_kill};
use crate::report::{CommonArgs, Figure, Report, Row};
use crate::store::{SpillwayStore, SpillwayStores, Store};

/// Opening after a kill, with and without a tail of the log after the checkpoint.
#[derive(Args, Clone, Debug)]
pub struct MemoryRecoveryArgs {
    /// Rows of the table, in MiB of their own bytes
    #[arg(long, default_value_t = 512)]
    pub data_mib: u64,
    /// Updates after the checkpoint, in MiB of their own bytes
    #[arg(long, default_value_t = 64)]
    pub tail_mib: u64,
    /// The rows
    #[command(flatten)]
    pub sizes: RowSizes,
    /// Threads to open with
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    pub threads: Vec<usize>,
    /// Openings of each kind; the report gives medians over them
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Seed, folder and report
    #[command(flatten)]
    pub common: CommonArgs,
    /// Run a task and wait to be killed; used for the child processes
    #[arg(long, hide = true)]
    pub child: Option<String>,
}

/// The task of a child process.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
enum RecoveryTask {
    /// Puts all rows and writes a checkpoint.
    Load,
    /// Updates rows after the checkpoint.
    Tail,
    /// Opens with this many threads, with the tail or without one.
    Open { threads: usize, tail: bool },
}

/// The result of an opening.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct OpenedMemory {
    /// The seconds until the first query was answered.
    pub(super) seconds: f64,
    pub(super) cpu_seconds: f64,
    pub(super) commits: u64,
    pub(super) log_bytes: u64,
}

/// The goal: the most seconds until the first query is answered.
const FIRST_GOAL: f64 = 1.0;
/// The goal: the least rate of replaying the tail, divided by the disk's rate of reads.
const TAIL_GOAL: f64 = 0.5;
/// The goal: the least rate of two threads, divided by that of one.
const THREADS_GOAL: f64 = 1.7;
/// One row in this many is read back after an opening.
const CHECKED: usize = 101;
const ALONE: &str = "reading the log alone";

impl MemoryRecoveryArgs {
    /// Runs the processes and prints the report.
    ///
    /// # Errors
    /// Invalid arguments, a wrong row, or the first failure of a run, as text.
    pub fn run(&self) -> Result<(), String> {
        if let Some(task) = &self.child {
            let task = serde_json::from_str(task).map_err(|error| error.to_string())?;
            return self.serve(task);
        }
        if self.rounds == 0 || self.threads.contains(&0) || self.count()? == 0 {
            return Err("a run needs a round, a thread and a MiB".to_owned());
        }
        let mut report = self.empty()?;
        fresh_folder(&self.folder())?;
        let bar = progress(2 * (1 + self.rounds * self.threads.len()) as u64);
        for tail in [false, true] {
            bar.set_message(if tail { "writing the tail" } else { "writing the rows" });
            self.run_child(if tail { RecoveryTask::Tail } else { RecoveryTask::Load })?;
            bar.inc(1);
            for _ in 0..self.rounds {
                self.add_disk(&mut report, tail)?;
                for &threads in &self.threads {
                    bar.set_message(format!("opening with {threads} threads"));
                    forget(&files_below(&self.folder())?)?;
                    let opened = self.run_child(RecoveryTask::Open { threads, tail })?;
                    let opened: OpenedMemory =
                        serde_json::from_str(&opened).map_err(|error| error.to_string())?;
                    report.add(opened.row(tail, threads));
                    bar.inc(1);
                }
            }
        }
        bar.finish_and_clear();
        remove_folder(&self.folder())?;
        self.note_goals(&mut report);
        self.common.output.give(&report)
    }

    fn folder(&self) -> PathBuf {
        self.common.dir.join("memory-recovery")
    }

    fn rows(&self) -> Result<StampedRows, String> {
        self.sizes.rows(self.common.seed)
    }

    fn count(&self) -> Result<u64, String> {
        Ok((self.data_mib << 20) / self.rows()?.row_bytes() as u64)
    }

    fn run_child(&self, task: RecoveryTask) -> Result<String, String> {
        let task = serde_json::to_string(&task).map_err(|error| error.to_string())?;
        run_and_kill(&["--child", &task], |_| ())
    }

    fn empty(&self) -> Result<Report, String> {
        let figure = |name, decimals| Figure { name, decimals };
        let mut report = Report::new(
            &["tail"],
            &[
                figure("s to the first answer", 3),
                figure("cpu s", 2),
                figure("commits", 0),
                figure("MiB of log", 1),
                figure("MiB/s", 0),
            ],
        );
        report.set("machine", machine::describe(&self.common.dir));
        report.set("load average", machine::load_average());
        report.set(
            "run",
            format!(
                "{} rows of {} bytes ({} MiB), a checkpoint, then {} MiB of updates of one random \
                 row each; killed, then opened {} times, with all files out of the page cache; \
                 seed {}",
                self.count()?,
                self.rows()?.row_bytes(),
                self.data_mib,
                self.tail_mib,
                self.rounds,
                self.common.seed
            ),
        );
        Ok(report)
    }

    /// Adds the time to read only the log, measured in turn with the openings.
    fn add_disk(&self, report: &mut Report, tail: bool) -> Result<(), String> {
        let files = files_below(&self.folder().join("log"))?;
        let files: Vec<_> = files.into_iter().filter(|path| is_log(path)).collect();
        forget(&files)?;
        let (bytes, time) = read(&files)?;
        let (mib, seconds) = (bytes as f64 / f64::from(1 << 20), time.as_secs_f64());
        report.add(Row {
            case: vec![tail_name(tail).to_owned()],
            subject: ALONE.to_owned(),
            figures: vec![seconds, f64::NAN, f64::NAN, mib, mib / seconds],
        });
        Ok(())
    }

    /// In a child process: executes the task, reports, and waits to be killed.
    fn serve(&self, task: RecoveryTask) -> Result<(), String> {
        match task {
            RecoveryTask::Load => report_and_wait("loaded", self.load()?),
            RecoveryTask::Tail => {
                let store = self.open(1)?;
                self.each_update(&mut |rows, number, write, last| {
                    let mut value = Vec::new();
                    rows.value(number, write, &mut value);
                    store.commit(&[(rows.key(number).bytes(), &value)], last)
                })?;
                report_and_wait("written", store)
            }
            RecoveryTask::Open { threads, tail } => {
                let (opened, store) = self.reopen(threads, tail)?;
                let line = serde_json::to_string(&opened).map_err(|error| error.to_string())?;
                report_and_wait(&line, store)
            }
        }
    }

    pub(super) fn load(&self) -> Result<SpillwayStore, String> {
        let store = self.open(1)?;
        self.rows()?.load(&store, self.count()?)?;
        store.db.flush().map_err(|error| error.to_string())?;
        Ok(store)
    }

    /// Visits every update of the tail, which is the same each time: the row, its write, and
    /// whether the update is the last one.
    pub(super) fn each_update(
        &self,
        update: &mut dyn FnMut(&StampedRows, u64, u64, bool) -> Result<(), String>,
    ) -> Result<OwnRows, String> {
        let rows = self.rows()?;
        let updates = (self.tail_mib << 20) / rows.row_bytes() as u64;
        let mut own = OwnRows::new(self.count()?, 0, 1);
        let mut rng = Rng::new(self.common.seed);
        for done in 1..=updates {
            let (number, write) = own.update(rng.below(own.count()));
            update(&rows, number, write, done == updates)?;
        }
        Ok(own)
    }

    pub(super) fn open(&self, threads: usize) -> Result<SpillwayStore, String> {
        let stores = SpillwayStores::in_memory_engine();
        let bytes = (self.data_mib + 2 * self.tail_mib) << 20;
        let mut settings = stores.database_settings((bytes as usize * 3).max(64 << 20));
        // Only the benchmark requests checkpoints.
        settings.log_bytes_max = u64::MAX;
        settings.background_threads = false;
        settings.recovery_threads = threads;
        stores.open_with(&self.folder(), settings)
    }

    /// Opens, answers a query, and checks rows.
    pub(super) fn reopen(
        &self,
        threads: usize,
        tail: bool,
    ) -> Result<(OpenedMemory, SpillwayStore), String> {
        let rows = self.rows()?;
        let mut value = Vec::new();
        let (begin, before) = (clock::now(), Cpu::own());
        let store = self.open(threads)?;
        rows.read(&store, self.count()? / 3, &mut value)?;
        let recovered = store.db.recovered();
        let opened = OpenedMemory {
            seconds: (clock::now() - begin).as_secs_f64(),
            cpu_seconds: Cpu::own().since(before).total().as_secs_f64(),
            commits: recovered.commits,
            log_bytes: recovered.bytes,
        };
        let expected = if tail {
            self.each_update(&mut |_, _, _, _| Ok(()))?
        } else {
            OwnRows::new(self.count()?, 0, 1)
        };
        expected.check(&rows, &store, CHECKED)?;
        Ok((opened, store))
    }

    fn note_goals(&self, report: &mut Report) {
        let case = |tail| [tail_name(tail).to_owned()];
        let seconds = |tail, threads: usize| report.median(&case(tail), &subject(threads), 0);
        // The time for the tail is the difference between an opening with it and one without.
        let rate = |threads: usize| {
            let mib = |tail| report.median(&case(tail), &subject(threads), 3);
            (mib(true) - mib(false)) / (seconds(true, threads) - seconds(false, threads))
        };
        let disk = report.median(&case(true), ALONE, 4);
        let mut notes = Vec::new();
        for &threads in &self.threads {
            let (bare, whole) = (seconds(false, threads), seconds(true, threads));
            notes.push(format!(
                "{threads} threads: the first query is answered after {bare:.2} s without a tail \
                 and {whole:.2} s with; goal below {FIRST_GOAL} s: {}",
                verdict(whole < FIRST_GOAL)
            ));
            let rate = rate(threads);
            notes.push(format!(
                "{threads} threads: the tail is replayed at {rate:.0} MiB/s, {:.2} of the disk's \
                 {disk:.0}; goal {TAIL_GOAL}: {}",
                rate / disk,
                verdict(rate >= TAIL_GOAL * disk)
            ));
        }
        if self.threads.contains(&1) && self.threads.contains(&2) {
            let (rates, opens) = (rate(2) / rate(1), seconds(true, 1) / seconds(true, 2));
            notes.push(format!(
                "two threads replay the tail at {rates:.2} times the rate of one, and open \
                 {opens:.2} times as fast; goal {THREADS_GOAL}: {}",
                verdict(rates >= THREADS_GOAL)
            ));
        }
        notes.into_iter().for_each(|note| report.note(note));
    }
}

impl OpenedMemory {
    fn row(&self, tail: bool, threads: usize) -> Row {
        let mib = self.log_bytes as f64 / f64::from(1 << 20);
        let commits = self.commits as f64;
        Row {
            case: vec![tail_name(tail).to_owned()],
            subject: subject(threads),
            figures: vec![self.seconds, self.cpu_seconds, commits, mib, mib / self.seconds],
        }
    }
}

fn tail_name(tail: bool) -> &'static str {
    if tail { "with" } else { "without" }
}

fn subject(threads: usize) -> String {
    format!("opening, {threads} threads")
}

/// Whether recovery reads the file.
fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "plog")
}
