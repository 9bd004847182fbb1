//! Gets and updates of data from half to several times the memory budget.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use clap::Args;
use spillway::EngineKind;
use spillway_base::clock;
use spillway_base::rng::Rng;

use super::rows::{OwnRows, StampedRows};
use super::work::{engines, metric};
use crate::keys::Keys;
use crate::machine;
use crate::measure::{files_below, fresh_folder, in_turns, progress, remove_folder};
use crate::report::{CommonArgs, Figure, Report, Row};
use crate::store::{SpillwayStore, SpillwayStores, Store};

/// Gets and updates of data smaller and larger than the memory budget.
#[derive(Args, Clone, Debug)]
pub struct MemoryEvictionArgs {
    /// Memory budget of each store, in MiB
    #[arg(long, default_value_t = 128)]
    pub memory_mib: usize,
    /// Sizes of the data, as multiples of the budget
    #[arg(long, value_delimiter = ',', default_values_t = [0.5, 1.0, 2.0, 4.0])]
    pub times: Vec<f64>,
    /// Exponents of Zipf's distribution; 0 is uniform
    #[arg(long, value_delimiter = ',', default_values_t = [0.0, 0.99])]
    pub skew: Vec<f64>,
    /// Percent of the operations that update; the others get
    #[arg(long, value_delimiter = ',', default_values_t = [0, 50])]
    pub updates: Vec<u32>,
    /// Bytes of each key
    #[arg(long, default_value_t = 8)]
    pub key_bytes: usize,
    /// Bytes of each value; with small ones the keys alone outgrow the budget
    #[arg(long, default_value_t = 400)]
    pub value_bytes: usize,
    /// Seconds of each cell that are measured, after as long a warm-up
    #[arg(long, default_value_t = 2.0)]
    pub seconds: f64,
    /// Times to run everything; the report gives medians over them
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Seed, folder and report
    #[command(flatten)]
    pub common: CommonArgs,
}

/// The number of operations between two readings of the clock.
const BATCH: u64 = 32;
/// The number of reads that measure the cost of one read.
const READS: u64 = 20_000;

impl MemoryEvictionArgs {
    /// Runs the cells and prints the report.
    ///
    /// # Errors
    /// Invalid arguments, a wrong row, or the first failure of a run, as text.
    pub fn run(&self) -> Result<(), String> {
        self.common.output.give(&self.measure()?)
    }

    pub(super) fn measure(&self) -> Result<Report, String> {
        let positive = self.times.iter().all(|times| *times > 0.0);
        if self.rounds == 0 || self.memory_mib == 0 || !positive {
            return Err("a run needs a round, a MiB and data".to_owned());
        }
        let mut report = self.empty()?;
        let bar = progress((self.rounds * 2 * self.times.len() * self.skew.len()) as u64);
        for &skew in &self.skew {
            for &times in &self.times {
                in_turns(self.rounds, &engines(), |stores| {
                    bar.set_message(format!("{} {times} times", stores.name));
                    self.measure_store(stores, times, skew, &mut report)?;
                    bar.inc(1);
                    Ok(())
                })?;
            }
        }
        bar.finish_and_clear();
        self.note_steps(&mut report);
        Ok(report)
    }

    fn empty(&self) -> Result<Report, String> {
        let figure = |name, decimals| Figure { name, decimals };
        let mut report = Report::new(
            &["work", "skew", "data"],
            &[
                figure("per s", 0),
                figure("us each", 2),
                figure("missed", 3),
                figure("us a read alone", 2),
                figure("evicted", 0),
            ],
        );
        report.set("machine", machine::describe(&self.common.dir));
        report.set("load average", machine::load_average());
        let rows = StampedRows::new(self.key_bytes, self.value_bytes, self.common.seed)?;
        report.set(
            "run",
            format!(
                "rows of {} bytes, as many as take these times {} MiB, one thread, {} s after as \
                 long a warm-up, {} rounds in turn; missed is the share of operations that read \
                 the log; a read alone is a pread of a row's bytes at a random place of the files \
                 just read; seed {}",
                rows.row_bytes(),
                self.memory_mib,
                self.seconds,
                self.rounds,
                self.common.seed
            ),
        );
        Ok(report)
    }

    fn measure_store(
        &self,
        stores: &SpillwayStores,
        times: f64,
        skew: f64,
        report: &mut Report,
    ) -> Result<(), String> {
        let folder = self.common.dir.join("memory-eviction");
        fresh_folder(&folder)?;
        let rows = StampedRows::new(self.key_bytes, self.value_bytes, self.common.seed)?;
        let memory_bytes = self.memory_mib << 20;
        let count = (memory_bytes as f64 * times / rows.row_bytes() as f64) as u64;
        let store = stores.open_with(&folder, stores.database_settings(memory_bytes))?;
        rows.load(&store, count)?;
        store.settle()?;
        let mut cell = EvictionCell {
            memory: stores.engine == EngineKind::Memory,
            keys: Keys::new(count, skew),
            own: OwnRows::new(count, 0, 1),
            rng: Rng::new(self.common.seed),
            rows: &rows,
            value: Vec::new(),
        };
        for &updates in &self.updates {
            cell.work(&store, updates, self.seconds)?;
            let read_us = if cell.memory { read_alone(&folder, &rows)? } else { f64::NAN };
            let before = cell.counts(&store);
            let (operations, seconds) = cell.work(&store, updates, self.seconds)?;
            let after = cell.counts(&store);
            let operations = operations as f64;
            let case = [work_name(updates), skew.to_string(), format!("{times} times")];
            report.add(Row {
                case: case.to_vec(),
                subject: stores.name.clone(),
                figures: vec![
                    operations / seconds,
                    seconds * 1e6 / operations,
                    (after.0 - before.0) / operations,
                    read_us,
                    after.1 - before.1,
                ],
            });
        }
        cell.own.check(&rows, &store, 17)?;
        drop(store);
        remove_folder(&folder)
    }

    /// Adds notes: the time of a miss, from the memory engine's times with and without misses.
    fn note_steps(&self, report: &mut Report) {
        let [memory, _] = engines();
        let Some(smallest) = self.times.iter().copied().reduce(f64::min) else { return };
        for case in report.cases() {
            let base = [case[0].clone(), case[1].clone(), format!("{smallest} times")];
            let of = |case: &[String], figure| report.median(case, &memory.name, figure);
            let (us, missed, read_us) = (of(&case, 1), of(&case, 2), of(&case, 3));
            let hit_us = of(&base, 1);
            let miss_us = if missed > 0.0 { (us - hit_us) / missed } else { f64::NAN };
            report.note(format!(
                "{}: {us:.2} us each, of which {hit_us:.2} at {smallest} times the memory; \
                 {missed:.3} missed, so {miss_us:.2} us for each miss; a read alone takes \
                 {read_us:.2}",
                case.join(", ")
            ));
        }
    }
}

fn work_name(updates: u32) -> String {
    match updates {
        0 => "gets".to_owned(),
        updates => format!("{updates} % updates"),
    }
}

struct EvictionCell<'a> {
    memory: bool,
    keys: Keys,
    own: OwnRows,
    rng: Rng,
    rows: &'a StampedRows,
    value: Vec<u8>,
}

impl EvictionCell<'_> {
    /// The reads of the log and the evicted rows; zero for other engines.
    fn counts(&self, store: &SpillwayStore) -> (f64, f64) {
        if !self.memory {
            return (f64::NAN, f64::NAN);
        }
        let of = |name| metric(&store.db, name);
        (of("memory_engine_log_reads_total"), of("memory_engine_evicted_total"))
    }

    /// Runs operations for some seconds, and checks the result of each get. Returns the number of
    /// operations and their time.
    fn work(
        &mut self,
        store: &SpillwayStore,
        updates: u32,
        seconds: f64,
    ) -> Result<(u64, f64), String> {
        let (begun, mut operations) = (clock::now(), 0);
        let until = begun + Duration::from_secs_f64(seconds);
        loop {
            let now = clock::now();
            if now >= until && operations > 0 {
                return Ok((operations, (now - begun).as_secs_f64()));
            }
            for _ in 0..BATCH {
                let number = self.keys.draw(&mut self.rng);
                if self.rng.below(100) < u64::from(updates) {
                    let (number, write) = self.own.update(number);
                    self.rows.value(number, write, &mut self.value);
                    let key = self.rows.key(number);
                    store.commit(&[(key.bytes(), &self.value)], false)?;
                } else {
                    self.own.check_one(self.rows, store, number, &mut self.value)?;
                }
            }
            operations += BATCH;
        }
    }
}

/// The microseconds to read a row's bytes at a random position of the log's files.
fn read_alone(folder: &Path, rows: &StampedRows) -> Result<f64, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    let mut files = Vec::new();
    for path in files_below(&folder.join("log"))? {
        let Ok(file) = File::open(&path) else { continue };
        let len = file.metadata().map_err(failed)?.len();
        if len > 2 * rows.row_bytes() as u64 {
            files.push((file, len));
        }
    }
    if files.is_empty() {
        return Ok(f64::NAN);
    }
    let (mut rng, mut bytes) = (Rng::new(1), vec![0; rows.row_bytes()]);
    let begun = clock::now();
    for _ in 0..READS {
        let (file, len) = &files[rng.below(files.len() as u64) as usize];
        let at = rng.below(len - bytes.len() as u64);
        file.read_exact_at(&mut bytes, at).map_err(failed)?;
    }
    Ok((clock::now() - begun).as_secs_f64() * 1e6 / READS as f64)
}
