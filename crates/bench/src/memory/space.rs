//! Disk space of rows that are overwritten many times, beside a busy tiered table.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use spillway::EngineKind;
use spillway_base::clock;
use spillway_base::rng::Rng;

use super::goals::verdict;
use super::rows::{OwnRows, RowSizes, StampedRows};
use super::work::{disk_bytes, metric};
use crate::keys::Keys;
use crate::machine;
use crate::measure::{files_below, fresh_folder, progress, remove_folder};
use crate::report::{CommonArgs, Figure, Report, Row};
use crate::store::{SpillwayStore, SpillwayStores, Store};

/// Disk space of rows that are overwritten many times, beside a busy tiered table.
#[derive(Args, Clone, Debug)]
pub struct MemorySpaceArgs {
    /// The memory table's rows, in MiB of their own bytes
    #[arg(long, default_value_t = 256)]
    pub data_mib: u64,
    /// Passes, each of which overwrites as many rows as the table has
    #[arg(long, default_value_t = 10)]
    pub passes: u64,
    /// Exponents of Zipf's distribution; 0 is uniform
    #[arg(long, value_delimiter = ',', default_values_t = [0.0, 0.99])]
    pub skew: Vec<f64>,
    /// Rows of the tiered table for each row of the memory table; 0 for none
    #[arg(long, default_value_t = 0.25)]
    pub tiered: f64,
    /// The rows
    #[command(flatten)]
    pub sizes: RowSizes,
    /// Memory budget, in MiB
    #[arg(long, default_value_t = 2048)]
    pub memory_mib: usize,
    /// Bytes of log past which checkpoints are due, in MiB [default: half of the data]
    #[arg(long)]
    pub log_mib: Option<u64>,
    /// Seed, folder and report
    #[command(flatten)]
    pub common: CommonArgs,
}

/// The goal: the most bytes on disk, divided by the live bytes.
const SPACE_GOAL: f64 = 2.5;
/// The goal: the least throughput of a pass, divided by that of the first pass.
const THROUGHPUT_GOAL: f64 = 0.8;
/// The number of operations between two measurements of the disk space.
const BATCH: u64 = 1 << 16;

impl MemorySpaceArgs {
    /// Runs the passes and prints the report.
    ///
    /// # Errors
    /// Invalid arguments, a wrong row, or the first failure of a run, as text.
    pub fn run(&self) -> Result<(), String> {
        self.common.output.give(&self.measure()?)
    }

    pub(super) fn measure(&self) -> Result<Report, String> {
        if self.data_mib == 0 || self.passes < 2 || !(0.0..=100.0).contains(&self.tiered) {
            return Err("a run needs a MiB of rows and two passes".to_owned());
        }
        let rows = self.sizes.rows(self.common.seed)?;
        let mut report = self.empty(&rows);
        let bar = progress(self.skew.len() as u64 * self.passes);
        for &skew in &self.skew {
            self.overwrite(skew, &rows, &mut report, &|| bar.inc(1))?;
        }
        bar.finish_and_clear();
        self.note_goals(&mut report);
        Ok(report)
    }

    fn log_bytes_max(&self) -> u64 {
        self.log_mib.unwrap_or_else(|| (self.data_mib / 2).max(1)) << 20
    }

    fn empty(&self, rows: &StampedRows) -> Report {
        let figure = |name, decimals| Figure { name, decimals };
        let mut report = Report::new(
            &["skew", "pass"],
            &[
                figure("updates/s", 0),
                figure("longest ms", 1),
                figure("disk over live, end", 2),
                figure("most", 2),
                figure("log MiB", 0),
                figure("kept MiB", 0),
                figure("checkpoint MiB", 0),
                figure("tiered updates/s", 0),
            ],
        );
        report.set("machine", machine::describe(&self.common.dir));
        report.set("load average", machine::load_average());
        report.set(
            "run",
            format!(
                "{} MiB of rows of {} bytes, overwritten {} times by one thread, not waited for; \
                 {} times as many rows in a tiered table of the same database, which another \
                 thread overwrites meanwhile; checkpoints past {} MiB of log; the disk's bytes are \
                 those of the log, its kept segments and checkpoints; seed {}",
                self.data_mib,
                rows.row_bytes(),
                self.passes,
                self.tiered,
                self.log_bytes_max() >> 20,
                self.common.seed
            ),
        );
        report
    }

    fn overwrite(
        &self,
        skew: f64,
        rows: &StampedRows,
        report: &mut Report,
        passed: &dyn Fn(),
    ) -> Result<(), String> {
        let folder = self.common.dir.join("memory-space");
        fresh_folder(&folder)?;
        let stores = SpillwayStores::in_memory_engine();
        let mut settings = stores.database_settings(self.memory_mib << 20);
        settings.log_bytes_max = self.log_bytes_max();
        let store = stores.open_with(&folder, settings)?;
        let tiered = store.another("tiered", EngineKind::Tiered)?;
        let count = (self.data_mib << 20) / rows.row_bytes() as u64;
        let beside = (count as f64 * self.tiered) as u64;
        rows.load(&store, count)?;
        rows.load(&tiered, beside)?;
        store.settle()?;
        let mut cell = SpaceCell {
            folder: &folder,
            live_bytes: (count * rows.row_bytes() as u64) as f64,
            keys: Keys::new(count, skew),
            own: OwnRows::new(count, 0, 1),
            rng: Rng::new(self.common.seed),
            rows,
        };
        let (done, tiered_updates) = (AtomicBool::new(false), std::sync::atomic::AtomicU64::new(0));
        let own_beside = std::thread::scope(|scope| {
            let busy = scope.spawn(|| {
                let (mut own, mut rng) = (OwnRows::new(beside, 0, 1), Rng::new(9));
                let mut value = Vec::new();
                while own.count() > 0 && !done.load(Ordering::Relaxed) {
                    let (number, write) = own.update(rng.below(own.count()));
                    rows.value(number, write, &mut value);
                    tiered.commit(&[(rows.key(number).bytes(), &value)], false)?;
                    tiered_updates.fetch_add(1, Ordering::Relaxed);
                }
                Ok::<_, String>(own)
            });
            let mut passes = || -> Result<(), String> {
                for pass in 1..=self.passes {
                    let before = (tiered_updates.load(Ordering::Relaxed), clock::now());
                    let mut figures = cell.pass(&store)?;
                    let updates = tiered_updates.load(Ordering::Relaxed) - before.0;
                    figures.push(updates as f64 / (clock::now() - before.1).as_secs_f64());
                    report.add(Row {
                        case: vec![skew.to_string(), format!("{pass:2}")],
                        subject: "spillway memory engine".to_owned(),
                        figures,
                    });
                    passed();
                }
                Ok(())
            };
            let outcome = passes();
            done.store(true, Ordering::Relaxed);
            let own_beside =
                busy.join().unwrap_or_else(|_| Err("the tiered writer panicked".to_owned()));
            outcome.and(own_beside)
        })?;
        cell.own.check(rows, &store, 1)?;
        own_beside.check(rows, &tiered, 1)?;
        drop((tiered, store));
        remove_folder(&folder)
    }

    fn note_goals(&self, report: &mut Report) {
        let mut notes = Vec::new();
        for skew in &self.skew {
            let skew = skew.to_string();
            let of = |figure: usize| -> Vec<f64> {
                let rows = report.rows().iter().filter(|row| row.case[0] == skew);
                rows.map(|row| row.figures[figure]).collect()
            };
            let most = |figure| of(figure).into_iter().fold(f64::NEG_INFINITY, f64::max);
            let per_s = of(0);
            let later = per_s[1..].iter().copied().fold(f64::INFINITY, f64::min);
            let (space, stall) = (most(3), most(1));
            let kept = later / per_s[0];
            notes.push(format!(
                "skew {skew}: at most {space:.2} times the live bytes on disk; goal {SPACE_GOAL}: \
                 {}",
                verdict(space <= SPACE_GOAL)
            ));
            notes.push(format!(
                "skew {skew}: the slowest pass has {kept:.2} of the first one's throughput; goal \
                 {THROUGHPUT_GOAL}: {}; the longest stall of an update is {stall:.1} ms",
                verdict(kept >= THROUGHPUT_GOAL)
            ));
        }
        notes.into_iter().for_each(|note| report.note(note));
    }
}

struct SpaceCell<'a> {
    folder: &'a Path,
    live_bytes: f64,
    keys: Keys,
    own: OwnRows,
    rng: Rng,
    rows: &'a StampedRows,
}

/// Bytes on disk of the log and the memory engine.
struct DiskUse {
    log: f64,
    kept: f64,
    checkpoints: f64,
}

impl DiskUse {
    fn of(folder: &Path, store: &SpillwayStore) -> Result<DiskUse, String> {
        let is_kept = |path: &PathBuf| path.extension().is_some_and(|kind| kind == "kept");
        let (kept, log): (Vec<_>, Vec<_>) =
            files_below(&folder.join("log"))?.into_iter().partition(is_kept);
        let engine = files_below(&folder.join("memory"))?;
        // The engine must agree that it has kept segments, or the wrong files are counted.
        if kept.is_empty() && metric(&store.db, "memory_engine_kept_bytes") > 0.0 {
            return Err("no file of a kept segment was found".to_owned());
        }
        Ok(DiskUse {
            log: disk_bytes(&log) as f64,
            kept: disk_bytes(&kept) as f64,
            checkpoints: disk_bytes(&engine) as f64,
        })
    }

    fn total(&self) -> f64 {
        self.log + self.kept + self.checkpoints
    }
}

impl SpaceCell<'_> {
    /// Overwrites as many rows as the table has. Returns all figures except the last.
    fn pass(&mut self, store: &SpillwayStore) -> Result<Vec<f64>, String> {
        let (mut value, mut longest, mut time) = (Vec::new(), Duration::ZERO, Duration::ZERO);
        let mut most: f64 = 0.0;
        let mut updates = 0;
        while updates < self.own.count() {
            let begun = clock::now();
            let mut last = begun;
            for _ in 0..BATCH.min(self.own.count() - updates) {
                let (number, write) = self.own.update(self.keys.draw(&mut self.rng));
                self.rows.value(number, write, &mut value);
                store.commit(&[(self.rows.key(number).bytes(), &value)], false)?;
                let now = clock::now();
                longest = longest.max(now - last);
                last = now;
                updates += 1;
            }
            time += last - begun;
            most = most.max(DiskUse::of(self.folder, store)?.total());
        }
        let end = DiskUse::of(self.folder, store)?;
        let mib = |bytes: f64| bytes / f64::from(1 << 20);
        Ok(vec![
            updates as f64 / time.as_secs_f64(),
            longest.as_secs_f64() * 1e3,
            end.total() / self.live_bytes,
            most / self.live_bytes,
            mib(end.log),
            mib(end.kept),
            mib(end.checkpoints),
        ])
    }
}
