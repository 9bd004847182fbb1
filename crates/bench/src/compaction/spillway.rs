//! The tiered engine with two runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use spillway_base::batch::{Op, WriteBatch};
use spillway_base::budget::Budget;
use spillway_base::engine::{Access, Engine, Horizon};
use spillway_base::{Csn, Direction, EngineKind, KeyRange, TableId};
use spillway_storage::RealDisk;
use spillway_tiered::{Compression, TieredEngine, TieredSettings};

use super::{CompactionWork, Put, Reuse, Rows, RunsStore, RunsStores};
use crate::store::metrics_sum;

/// Opens the tiered engine without a log.
#[derive(Clone, Copy, Debug)]
pub struct SpillwayRuns {
    /// Whether its compactions reuse data.
    pub data_reuse: bool,
    /// Whether its compactions overlap I/O with merging.
    pub overlapped: bool,
}

impl SpillwayRuns {
    /// The default, without either mechanism, and without both.
    pub const ALL: [SpillwayRuns; 4] = [
        SpillwayRuns { data_reuse: true, overlapped: true },
        SpillwayRuns { data_reuse: true, overlapped: false },
        SpillwayRuns { data_reuse: false, overlapped: true },
        SpillwayRuns { data_reuse: false, overlapped: false },
    ];
}

/// The memory for caches; memtables are as large as the runs need.
const MEMORY_BYTES: usize = 256 << 20;
/// An upper bound of the memory of a row in a memtable.
const MEMTABLE_ROW_BYTES: u64 = 256;
/// Rows of a batch.
const BATCH_ROWS: usize = 1000;
/// Rows of the lower run that are flushed together.
const CHUNK_ROWS: u64 = 4_000_000;

impl RunsStores for SpillwayRuns {
    fn name(&self) -> String {
        match (self.data_reuse, self.overlapped) {
            (true, true) => "spillway",
            (true, false) => "spillway without overlap",
            (false, true) => "spillway without reuse",
            (false, false) => "spillway without reuse and overlap",
        }
        .to_owned()
    }

    fn settings(&self) -> String {
        let settings = settings(0);
        let overlap = if self.overlapped {
            ""
        } else {
            ", overlapped_compactions off: each read and write is waited for"
        };
        let reuse = if self.data_reuse { "" } else { ", data_reuse off: everything is merged" };
        format!(
            "the tiered engine alone; extents of {} MiB, no compression, one thread, files synced{reuse}{overlap}",
            settings.slot_bytes >> 20
        )
    }

    fn open(&self, dir: &Path, upper_rows: u64) -> Result<Box<dyn RunsStore>, String> {
        let horizon = Arc::new(Newest::default());
        // The lower run is built in the same way in all cases, so that only the compaction differs.
        let first = settings(upper_rows.max(CHUNK_ROWS));
        let then = TieredSettings {
            data_reuse: self.data_reuse,
            overlapped_compactions: self.overlapped,
            ..first.clone()
        };
        let engine = open(dir, first, &horizon)?;
        let csn = Csn::ZERO;
        let mut store = SpillwayRunsStore { dir: dir.to_owned(), then, engine, horizon, csn };
        let mut batch = WriteBatch::new();
        batch.push(Op::CreateTable(table()));
        store.install(&batch);
        Ok(Box::new(store))
    }
}

fn settings(memtable_rows: u64) -> TieredSettings {
    let memtable_bytes = (memtable_rows * MEMTABLE_ROW_BYTES) as usize;
    TieredSettings {
        // The memtable is switched only when a run is complete.
        memtable_bytes,
        memtables_bytes: 4 * memtable_bytes,
        hot_compression: Compression::None,
        cold_compression: Compression::None,
        ..TieredSettings::for_memory(MEMORY_BYTES)
    }
}

fn open(
    dir: &Path,
    settings: TieredSettings,
    horizon: &Arc<Newest>,
) -> Result<TieredEngine, String> {
    let budget = Budget::new(2 * settings.memtables_bytes + MEMORY_BYTES);
    TieredEngine::open(Arc::new(RealDisk), dir, settings, horizon.clone(), budget).map_err(in_words)
}

/// Everything installed is stable, and no reader has an older snapshot.
#[derive(Default)]
struct Newest(AtomicU64);

impl Horizon for Newest {
    fn stable(&self) -> Csn {
        Csn(self.0.load(Ordering::Acquire))
    }

    fn installed(&self) -> Csn {
        self.stable()
    }

    fn live_snapshots(&self, out: &mut Vec<Csn>) {
        out.clear();
        out.push(self.stable());
    }
}

fn table() -> TableId {
    TableId::new(EngineKind::Tiered, 1)
}

struct SpillwayRunsStore {
    dir: PathBuf,
    /// The settings after the lower run is built.
    then: TieredSettings,
    engine: TieredEngine,
    horizon: Arc<Newest>,
    csn: Csn,
}

impl SpillwayRunsStore {
    fn install(&mut self, batch: &WriteBatch) {
        self.csn = Csn(self.csn.0 + 1);
        self.engine.install(self.csn, batch);
        self.horizon.0.store(self.csn.0, Ordering::Release);
    }

    /// Installs rows and flushes them in chunks; returns their number.
    fn load(&mut self, rows: &Rows<'_>, chunk: u64) -> Result<u64, String> {
        let (mut batch, mut loaded) = (WriteBatch::new(), 0);
        rows(&mut |key, value| {
            batch.push(Op::Put { table: table(), key, value });
            loaded += 1;
            if batch.len() == BATCH_ROWS || loaded % chunk == 0 {
                self.install(&batch);
                batch = std::mem::take(&mut batch).cleared();
            }
            if loaded % chunk == 0 {
                self.engine.flush_all().map_err(in_words)?;
            }
            Ok(())
        })?;
        self.install(&batch);
        self.engine.flush_all().map_err(in_words)?;
        Ok(loaded)
    }

    /// Checks that Level0 is one sub-level of this many rows, or empty, and all other rows are in
    /// Level2.
    fn check(&self, level0_rows: u64) -> Result<(), String> {
        let status = self.engine.status();
        let table = status.first().ok_or("the table is gone")?;
        let [level0, level1, _] = table.levels;
        let sublevels = u64::from(level0_rows > 0);
        if (level0.versions, table.sublevels, level1.versions) != (level0_rows, sublevels, 0) {
            return Err(format!("the runs are not where they should be: {table:?}"));
        }
        Ok(())
    }
}

impl RunsStore for SpillwayRunsStore {
    fn lower(&mut self, rows: &Rows<'_>) -> Result<(), String> {
        self.load(rows, CHUNK_ROWS)?;
        self.engine.compact_all().map_err(in_words)?;
        self.engine.close();
        self.engine = open(&self.dir, self.then.clone(), &self.horizon)?;
        self.check(0)
    }

    fn upper(&mut self, rows: &Rows<'_>) -> Result<(), String> {
        let loaded = self.load(rows, u64::MAX)?;
        self.check(loaded)
    }

    fn compact(&mut self) -> Result<(), String> {
        self.engine.compact_all().map_err(in_words)?;
        self.check(0)
    }

    fn work(&self) -> CompactionWork {
        let metrics = self.engine.metrics();
        let value = |name: &str| metrics_sum(&metrics, &[name]);
        CompactionWork {
            read_bytes: value("tiered_compaction_read_bytes_total"),
            written_bytes: value("tiered_compaction_written_bytes_total"),
            reuse: Some(Reuse {
                relinked_slices: value("tiered_relinked_slices_total"),
                relinked_bytes: value("tiered_relinked_bytes_total"),
                carried_blocks: value("tiered_carried_blocks_total"),
                carried_bytes: value("tiered_carried_bytes_total"),
                merged_blocks: value("tiered_merged_blocks_total"),
                merged_bytes: value("tiered_merged_bytes_total"),
            }),
        }
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, String> {
        let found = self.engine.get(table(), key, self.csn, Access::Blocking, value);
        found.map(|found| found.is_value()).map_err(in_words)
    }

    fn scan(&self, visit: &mut Put<'_>) -> Result<(), String> {
        let (all, forward) = (KeyRange::ALL, Direction::Forward);
        let cursor = self.engine.scan(table(), all, forward, self.csn, Access::Blocking);
        let mut cursor = cursor.map_err(in_words)?;
        while cursor.next(Access::Blocking).map_err(in_words)? {
            visit(cursor.key(), cursor.value())?;
        }
        Ok(())
    }
}

fn in_words(error: spillway_base::Error) -> String {
    error.to_string()
}
