//! The command line of a run, and the run.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::Args;
use serde::{Deserialize, Serialize};
use spillway_base::clock;
use spillway_storage::{Disk, RealDisk};
use spillway_tiered::TieredEngine;
use spillway_tiered::metadata::{EditCost, LettingGo, Metadata};

use crate::measure::{fresh_folder, median, progress, remove_folder};
use crate::report::{CommonArgs, Figure, Report, Row};
use crate::{apart, machine};

/// The cost of the metadata of very much data.
#[derive(Args, Clone, Debug)]
pub struct MetadataArgs {
    /// Extents of 2 MiB in the manifest: 500,000 are 1 TB
    #[arg(long, default_value_t = 500_000)]
    pub extents: u64,
    /// Tables among which they are divided
    #[arg(long, default_value_t = 4)]
    pub tables: u32,
    /// Sub-tables of each table, one case each; 512 MiB of memory allow 32 in all
    #[arg(long, value_delimiter = ',', default_value = "1,8,64")]
    pub subtables: Vec<u64>,
    /// Changes of a slice's level; the report gives their median
    #[arg(long, default_value_t = 21)]
    pub edits: usize,
    /// Slices all over the tables that are changed while a reader keeps its view
    #[arg(long, default_value_t = 1000)]
    pub changed: usize,
    /// Memory of the engine that opens it, in MiB
    #[arg(long, default_value_t = 512)]
    pub memory_mib: usize,
    /// Rounds, in which the cases take turns
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Seed, folder and report
    #[command(flatten)]
    pub common: CommonArgs,
    /// The task of a child process
    #[arg(long, hide = true, num_args = 2)]
    pub child: Vec<String>,
}

/// The results of an opening and of the changes after it.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(super) struct MetadataFigures {
    pub(super) slices: u64,
    pub(super) open_s: f64,
    pub(super) open_cpu_s: f64,
    /// The resident memory that it adds to the process.
    pub(super) resident_bytes: u64,
    pub(super) record_ms: f64,
    pub(super) install_ms: f64,
    pub(super) list_ms: f64,
    pub(super) rewrite_ms: f64,
    /// The longest change: without other work, and while the manifest is rewritten, in the
    /// background or with changes waiting for it.
    pub(super) alone_ms: f64,
    pub(super) beside_ms: f64,
    pub(super) held_ms: f64,
    /// The time to release an old view: for a reader that leaves most of the freeing to the
    /// background, for the background, and for a reader that frees everything itself.
    pub(super) leave_ms: f64,
    pub(super) later_ms: f64,
    pub(super) free_ms: f64,
    pub(super) manifest_bytes: u64,
}

fn in_words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// The time of a rewrite of the manifest, and that of the longest change during it.
struct Rewritten {
    took: Duration,
    bytes: u64,
    edit_max: Duration,
}

/// Rewrites the manifest while a slice's level is changed again and again.
fn rewrite(engine: &TieredEngine, beside: bool) -> Result<Rewritten, String> {
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let rewriter = scope.spawn(|| {
            let begin = clock::now();
            let bytes = engine.rewrite_manifest(beside);
            let took = clock::now() - begin;
            is_done.store(true, Ordering::Release);
            bytes.map(|bytes| (took, bytes)).map_err(in_words)
        });
        let mut edit_max = Duration::ZERO;
        loop {
            let cost = engine.rehearse_edit().map_err(in_words)?.unwrap_or_default();
            edit_max = edit_max.max(cost.recorded_max);
            if is_done.load(Ordering::Acquire) {
                break;
            }
        }
        let (took, bytes) = rewriter.join().expect("the rewrite does not panic")?;
        Ok(Rewritten { took, bytes, edit_max })
    })
}

impl MetadataArgs {
    /// Creates the folders, opens each in a separate process, and prints the report.
    ///
    /// # Errors
    /// Invalid arguments, or the first failure, as text.
    pub fn run(&self) -> Result<(), String> {
        if let [folder, file] = &self.child[..] {
            return apart::give(file, &self.open(Path::new(folder))?);
        }
        let report = self.compare(|folder, dir| {
            let folder = folder.to_str().ok_or("the folder's name is not UTF-8")?;
            apart::run(dir, &[folder])
        })?;
        self.common.output.give(&report)
    }

    pub(super) fn compare(
        &self,
        open: impl Fn(&Path, &Path) -> Result<MetadataFigures, String>,
    ) -> Result<Report, String> {
        if self.rounds == 0 || self.edits == 0 || self.subtables.is_empty() {
            return Err("a run needs a case, an edit and a round".to_owned());
        }
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let dir = self.common.dir.join("metadata");
        let mut report = self.empty();
        let bar = progress((self.subtables.len() * (1 + self.rounds)) as u64);
        let folder = |subtables: u64| dir.join(subtables.to_string());
        for &subtables in &self.subtables {
            bar.set_message(format!("making {subtables} sub-tables of each"));
            fresh_folder(&folder(subtables))?;
            let Self { extents, tables, .. } = *self;
            let all = Metadata { extents, tables, subtables, seed: self.common.seed };
            all.make(&disk, &folder(subtables)).map_err(in_words)?;
            bar.inc(1);
        }
        for _ in 0..self.rounds {
            for &subtables in &self.subtables {
                bar.set_message(format!("opening {subtables} sub-tables of each"));
                let taken = open(&folder(subtables), &dir)?;
                report.add(Self::row(subtables, &taken));
                bar.inc(1);
            }
        }
        bar.finish_and_clear();
        remove_folder(&dir)?;
        Ok(report)
    }

    /// Opens a folder, changes a slice's level several times, and rewrites the manifest.
    pub(super) fn open(&self, folder: &Path) -> Result<MetadataFigures, String> {
        let before = machine::resident_bytes();
        let (begin, cpu) = (clock::now(), machine::own_time());
        let engine = Metadata::open(Arc::new(RealDisk), folder, self.memory_mib << 20);
        let engine = engine.map_err(in_words)?;
        let (open, cpu) = (clock::now() - begin, machine::own_time() - cpu);
        let resident_bytes = machine::resident_bytes().saturating_sub(before);
        let costs: Vec<EditCost> = (0..self.edits)
            .map(|_| engine.rehearse_edit().map(Option::unwrap_or_default).map_err(in_words))
            .collect::<Result<_, _>>()?;
        let median_ms = |of: fn(&EditCost) -> f64| 1e3 * median(costs.iter().map(of));
        let alone = costs.iter().map(|cost| cost.recorded_max).max().unwrap_or_default();
        let goings: Vec<LettingGo> = (0..self.edits.min(5))
            .map(|_| engine.rehearse_letting_go(self.changed).map_err(in_words))
            .collect::<Result<_, _>>()?;
        let going_ms = |of: fn(&LettingGo) -> f64| 1e3 * median(goings.iter().map(of));
        let held = rewrite(&engine, false)?;
        let beside = rewrite(&engine, true)?;
        let levels = engine.space().into_iter().flat_map(|table| table.levels);
        Ok(MetadataFigures {
            slices: levels.map(|level| level.slices).sum(),
            open_s: open.as_secs_f64(),
            open_cpu_s: cpu.as_secs_f64(),
            resident_bytes,
            record_ms: median_ms(|cost| cost.recorded.as_secs_f64()),
            install_ms: median_ms(|cost| cost.installed.as_secs_f64()),
            list_ms: median_ms(|cost| cost.as_a_list.as_secs_f64()),
            rewrite_ms: 1e3 * beside.took.as_secs_f64(),
            alone_ms: 1e3 * alone.as_secs_f64(),
            beside_ms: 1e3 * beside.edit_max.as_secs_f64(),
            held_ms: 1e3 * held.edit_max.as_secs_f64(),
            leave_ms: going_ms(|going| going.left.as_secs_f64()),
            later_ms: going_ms(|going| going.later.as_secs_f64()),
            free_ms: going_ms(|going| going.freed.as_secs_f64()),
            manifest_bytes: beside.bytes,
        })
    }

    fn row(subtables: u64, taken: &MetadataFigures) -> Row {
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        let figures = vec![
            taken.slices as f64 / taken.open_s,
            taken.open_s,
            taken.open_cpu_s,
            mib(taken.resident_bytes),
            taken.resident_bytes as f64 / taken.slices.max(1) as f64,
            mib(taken.manifest_bytes),
            taken.record_ms,
            taken.install_ms,
            taken.list_ms,
            taken.rewrite_ms,
            taken.alone_ms,
            taken.beside_ms,
            taken.held_ms,
            taken.leave_ms,
            taken.later_ms,
            taken.free_ms,
        ];
        Row { case: vec![subtables.to_string()], subject: "spillway".to_owned(), figures }
    }

    fn empty(&self) -> Report {
        let figure = |name, decimals| Figure { name, decimals };
        let figures = [
            figure("slices/s opened", 0),
            figure("open s", 2),
            figure("open cpu s", 2),
            figure("resident MiB", 0),
            figure("B/slice", 0),
            figure("manifest MiB", 1),
            figure("record ms", 2),
            figure("view ms", 3),
            figure("list ms", 3),
            figure("rewrite ms", 0),
            figure("alone ms", 2),
            figure("beside ms", 2),
            figure("held ms", 2),
            figure("leave ms", 3),
            figure("later ms", 3),
            figure("free ms", 3),
        ];
        let mut report = Report::new(&["sub-tables of each"], &figures);
        report.set("machine", machine::describe(&self.common.dir));
        report.set(
            "run",
            format!(
                "{} extents of 2 MiB in {} tables, {} MiB of memory, {} edits, {} rounds in turn, seed {}",
                self.extents, self.tables, self.memory_mib, self.edits, self.rounds, self.common.seed
            ),
        );
        report
    }
}
