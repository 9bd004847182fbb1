//! The command line of a run, and the run.

use std::path::{Path, PathBuf};

use clap::Args;

use super::child::{Load, Opened, run_and_kill, serve};
use super::{Recoverable, SpillwayRecovery, logs};
use crate::machine;
use crate::measure::{fresh_folder, progress, remove_folder};
use crate::report::{CommonArgs, Figure, Report, Row};

/// How long it takes to open after a crash.
#[derive(Args, Clone, Debug)]
pub struct RecoveryArgs {
    /// Log to recover from, in MiB; the machine needs half as much memory again
    #[arg(long, value_delimiter = ',', default_values_t = [1024, 4096, 8192])]
    pub log_mib: Vec<u64>,
    /// Threads that Spillway opens with [default: all cores, and 1]
    #[arg(long, value_delimiter = ',')]
    pub threads: Vec<usize>,
    /// Lanes of Spillway's log [default: as Spillway chooses]
    #[arg(long)]
    pub lanes: Option<usize>,
    /// Bytes of each value
    #[arg(long, default_value_t = 400)]
    pub value_bytes: usize,
    /// Openings of each log; the report gives medians over them
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Only stores whose name contains one of these
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,
    /// Seed, folder and report
    #[command(flatten)]
    pub common: CommonArgs,
    /// Write or open this store and wait to be killed: the task of the processes that are
    #[arg(long, hide = true, num_args = 3, value_names = ["STORE", "MIB", "WHAT"])]
    pub child: Vec<String>,
}

impl RecoveryArgs {
    /// The variants of Spillway that these arguments select.
    #[must_use]
    pub fn spillway(&self) -> SpillwayRecovery {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = if self.threads.is_empty() {
            let mut threads = vec![cores, 1];
            threads.dedup();
            threads
        } else {
            self.threads.clone()
        };
        let lanes = spillway::Settings::default().lanes_most();
        SpillwayRecovery { lanes: self.lanes.unwrap_or(lanes), threads }
    }

    /// Runs the stores and prints the report.
    ///
    /// # Errors
    /// Invalid arguments, or the first failure of a run, as text.
    pub fn run(&self, stores: &[&dyn Recoverable]) -> Result<(), String> {
        if self.rounds == 0 || self.log_mib.contains(&0) || self.threads.contains(&0) {
            return Err("a run needs a round, a MiB of log and a thread".to_owned());
        }
        if let [name, mib, what] = &self.child[..] {
            let stores = stores.iter().find(|stores| stores.name() == *name);
            let mib = mib.parse().map_err(|_| "the log's size is no number")?;
            return serve(
                what,
                *stores.ok_or("no such store")?,
                &self.folder(name),
                self.load(mib),
            );
        }
        let wanted = |name: &str| {
            self.only.is_empty() || self.only.iter().any(|part| name.contains(part.as_str()))
        };
        let stores: Vec<_> = stores.iter().filter(|stores| wanted(&stores.name())).collect();
        let mut report = self.empty(&stores);
        for &mib in &self.log_mib {
            for stores in &stores {
                self.measure(**stores, mib, &mut report)
                    .map_err(|error| format!("{}, {mib} MiB: {error}", stores.name()))?;
            }
        }
        self.common.output.give(&report)
    }

    fn load(&self, mib: u64) -> Load {
        Load { log_bytes: mib << 20, value_bytes: self.value_bytes, seed: self.common.seed }
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.common.dir.join(format!("recovery-{name}"))
    }

    fn measure(
        &self,
        stores: &dyn Recoverable,
        mib: u64,
        report: &mut Report,
    ) -> Result<(), String> {
        let name = stores.name();
        let folder = self.folder(&name);
        fresh_folder(&folder)?;
        let ways = stores.threads();
        let steps = (1 + self.rounds * (1 + ways.len())) as u64;
        let bar = progress(steps * mib);
        bar.set_message(format!("{name}: writing {mib} MiB of log"));
        let size = mib.to_string();
        let written = |share: f64| bar.set_position((share * mib as f64) as u64);
        let rows = run_and_kill(&["--child", &name, &size, "write"], written)?;
        bar.set_position(mib);
        for round in 0..self.rounds {
            bar.set_message(format!("{name}: opening after {mib} MiB of log, round {}", round + 1));
            let files = stores.log_files(&folder)?;
            logs::forget(&files)?;
            let (bytes, alone) = logs::read(&files)?;
            let alone = alone.as_secs_f64();
            report.add(row(
                mib,
                format!("{name}: reading its log alone"),
                bytes,
                alone,
                alone,
                0.0,
            ));
            bar.inc(mib);
            for threads in &ways {
                logs::forget(&stores.log_files(&folder)?)?;
                let what = format!("{threads}:{rows}");
                let opened = run_and_kill(&["--child", &name, &size, &what], |_| ())?;
                let opened: Opened =
                    serde_json::from_str(&opened).map_err(|error| error.to_string())?;
                let subject = format!("{name}, {threads} threads");
                let (seconds, cpu) = (opened.seconds, opened.cpu_seconds);
                report.add(row(mib, subject, bytes, seconds, alone, cpu));
                bar.inc(mib);
            }
        }
        bar.finish_and_clear();
        remove_folder(&folder)
    }

    fn empty(&self, stores: &[&&dyn Recoverable]) -> Report {
        let figure = |name, decimals| Figure { name, decimals };
        let figures = [
            figure("MiB/s of log", 0),
            figure("seconds", 2),
            figure("of the disk's reads", 2),
            figure("cpu seconds", 2),
        ];
        let mut report = Report::new(&["log MiB"], &figures);
        report.set("machine", machine::describe(Path::new(&self.common.dir)));
        report.set(
            "run",
            format!(
                "commits of one row of 16 + {} bytes, all of them only in the log, which is out of the page cache; killed, \
                 then opened {} times; seed {}",
                self.value_bytes, self.rounds, self.common.seed
            ),
        );
        for stores in stores {
            report.set(stores.name(), stores.settings());
        }
        report
    }
}

fn row(mib: u64, subject: String, bytes: u64, seconds: f64, alone: f64, cpu: f64) -> Row {
    let rate = bytes as f64 / f64::from(1 << 20) / seconds;
    Row { case: vec![mib.to_string()], subject, figures: vec![rate, seconds, alone / seconds, cpu] }
}
