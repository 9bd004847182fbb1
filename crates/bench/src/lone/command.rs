//! The command line of a run, and the run.

use std::path::{Path, PathBuf};

use clap::Args;
use hdrhistogram::Histogram;
use spillway_base::clock;

use super::raw::{self, RawLog, Sync};
use crate::commits::{CommitsWork, Style, drive};
use crate::machine;
use crate::measure::{Values, fresh_folder, histogram, progress, quantile_us, remove_folder};
use crate::report::{CommonArgs, Figure, Report, Row};
use crate::store::{Store, Stores};

/// One durable writer, and raw writes of the same bytes.
#[derive(Args, Clone, Debug)]
pub struct LoneArgs {
    /// Commits of each subject in each round
    #[arg(long, default_value_t = 1000)]
    pub commits: u64,
    /// Rounds, in which the subjects take turns; the report gives medians over them
    #[arg(long, default_value_t = 15)]
    pub rounds: usize,
    /// Distinct keys
    #[arg(long, default_value_t = 1_000_000)]
    pub keys: u64,
    /// Bytes of each value
    #[arg(long, default_value_t = 10)]
    pub value_bytes: usize,
    /// Bytes of each raw write [default: what Spillway writes to its log for a commit]
    #[arg(long)]
    pub raw_bytes: Option<usize>,
    /// Size of each raw writer's file, which is overwritten again and again, in MiB
    #[arg(long, default_value_t = 64)]
    pub raw_file_mib: u64,
    /// Memory budget of each store, in MiB
    #[arg(long, default_value_t = 256)]
    pub memory_mib: usize,
    /// Put the logs and the raw writers' files under this folder instead, for example on another
    /// disk or in /dev/shm
    #[arg(long, value_name = "FOLDER")]
    pub log_dir: Option<PathBuf>,
    /// Seed, folder and report
    #[command(flatten)]
    pub common: CommonArgs,
}

/// A writer.
enum Writer {
    Store(Box<dyn Store>),
    Raw(Box<RawLog>),
}

impl LoneArgs {
    /// Runs these stores and the raw writers, and prints the report. The first store determines how
    /// many bytes the raw writers write.
    ///
    /// # Errors
    /// Invalid arguments, or the first failure of a run, as text.
    pub fn run(&self, stores: &[&dyn Stores]) -> Result<(), String> {
        self.common.output.give(&self.compare(stores)?)
    }

    pub(super) fn compare(&self, stores: &[&dyn Stores]) -> Result<Report, String> {
        if self.commits == 0 || self.rounds == 0 || self.keys == 0 {
            return Err("a run needs a commit, a round and a key".to_owned());
        }
        let folder = self.common.dir.join("lone");
        fresh_folder(&folder)?;
        if let Some(logs) = self.logs() {
            fresh_folder(&logs)?;
        }
        let (bytes, mut writers) = self.writers(stores, &folder)?;
        let mut report = self.empty(stores, bytes);
        let values = Values::new(self.common.seed, self.value_bytes);
        let bar = progress((self.rounds * writers.len()) as u64);
        for round in 0..self.rounds {
            for place in 0..writers.len() {
                // The order rotates each round, so that none is always first.
                let place = (place + round) % writers.len();
                let (name, writer) = &mut writers[place];
                bar.set_message(name.clone());
                let seed = self.common.seed.wrapping_add(round as u64);
                let (begin, cpu) = (clock::now(), machine::own_time());
                let latency_ns = self.block(writer, &values, seed)?;
                let (elapsed, cpu) = (clock::now() - begin, machine::own_time() - cpu);
                report.add(Row {
                    case: vec![
                        self.log_dir.as_ref().unwrap_or(&self.common.dir).display().to_string(),
                    ],
                    subject: name.clone(),
                    figures: vec![
                        latency_ns.len() as f64 / elapsed.as_secs_f64(),
                        quantile_us(&latency_ns, 0.5),
                        quantile_us(&latency_ns, 0.95),
                        quantile_us(&latency_ns, 0.99),
                        cpu.as_secs_f64() * 1e6 / latency_ns.len() as f64,
                    ],
                });
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        drop(writers);
        self.logs().map_or(Ok(()), |logs| remove_folder(&logs))?;
        remove_folder(&folder)?;
        Ok(report)
    }

    /// The folder of the logs, if they are not with their stores.
    fn logs(&self) -> Option<PathBuf> {
        self.log_dir.as_ref().map(|dir| dir.join("spillway-bench-lone"))
    }

    /// The folder for the log of a store. The run makes it before the store is opened.
    #[must_use]
    pub fn log_dir_of(&self, store: &str) -> Option<PathBuf> {
        self.logs().map(|logs| logs.join(store))
    }

    /// Opens all, and measures how many bytes the first store writes to its log for a commit.
    fn writers(
        &self,
        stores: &[&dyn Stores],
        folder: &Path,
    ) -> Result<(usize, Vec<(String, Writer)>), String> {
        let mut writers = Vec::new();
        let mut bytes = self.raw_bytes;
        let values = Values::new(self.common.seed, self.value_bytes);
        for kind in stores {
            let own = folder.join(kind.name());
            fresh_folder(&own)?;
            let mut writer = Writer::Store(kind.open(&own, self.memory_mib << 20)?);
            let written = |writer: &Writer| match writer {
                Writer::Store(store) => store.pressure().log_bytes,
                Writer::Raw(_) => 0,
            };
            let before = written(&writer);
            self.block(&mut writer, &values, self.common.seed)?;
            bytes.get_or_insert(((written(&writer) - before) / self.commits) as usize);
            writers.push((kind.name(), writer));
        }
        let bytes = bytes
            .filter(|bytes| *bytes > 0)
            .ok_or("give --raw-bytes: no store wrote to a log that could be measured")?;
        for sync in Sync::ALL.into_iter().filter(|sync| *sync != Sync::Ring || raw::has_rings()) {
            let name = sync.name();
            let path = self.logs().unwrap_or(folder.to_owned()).join(name.replace(' ', "-"));
            let raw = RawLog::new(&path, sync, bytes, self.raw_file_mib << 20);
            let raw = raw.map_err(|error| format!("{}: {error}", path.display()))?;
            writers.push((name.to_owned(), Writer::Raw(Box::new(raw))));
        }
        Ok((bytes, writers))
    }

    fn block(
        &self,
        writer: &mut Writer,
        values: &Values,
        seed: u64,
    ) -> Result<Histogram<u64>, String> {
        match writer {
            Writer::Store(store) => {
                let work = CommitsWork::new(values, self.keys, seed, 1);
                let mut work = work.bounded(clock::now(), std::time::Duration::MAX, self.commits);
                drive(&**store, Style::Waiting, &mut work, 1)
            }
            Writer::Raw(raw) => {
                let mut latency_ns = histogram();
                for _ in 0..self.commits {
                    let begun = clock::now();
                    raw.write().map_err(|error| error.to_string())?;
                    latency_ns.saturating_record((clock::now() - begun).as_nanos() as u64);
                }
                Ok(latency_ns)
            }
        }
    }

    fn empty(&self, stores: &[&dyn Stores], bytes: usize) -> Report {
        let figure = |name, decimals| Figure { name, decimals };
        let figures = [
            figure("commits/s", 0),
            figure("p50 us", 1),
            figure("p95 us", 1),
            figure("p99 us", 1),
            figure("cpu us", 1),
        ];
        let mut report = Report::new(&["log in"], &figures);
        report.set("machine", machine::describe(self.log_dir.as_ref().unwrap_or(&self.common.dir)));
        report.set(
            "run",
            format!(
                "one thread, each commit of 16 + {} bytes durable before the next, {} a turn, {} rounds in turn, seed {}",
                self.value_bytes, self.commits, self.rounds, self.common.seed
            ),
        );
        let rings = if raw::has_rings() { "" } else { "; the system refuses io_uring" };
        let raw = format!("{bytes} bytes a write, files of {} MiB{rings}", self.raw_file_mib);
        report.set("raw", raw);
        for kind in stores {
            report.set(kind.name(), kind.settings());
        }
        report
    }
}
