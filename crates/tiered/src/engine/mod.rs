//! The engine: tables, and the background work that flushes, compacts, splits and moves their data.
//!
//! # Parts
//!
//! Each part of an engine owns its state, and the page of its module states its guarantees:
//!
//! - `table_set`: the tables; `persistence`: the manifest, and what is persistent;
//! - `write_buffer`: the memory of memtables; `flush_schedule`: their flushes;
//! - `level_storage`: where the levels' data is stored; `compaction_shapes`: the figures, such as
//!   sizes of levels, by which the picker chooses compactions; `debt`: how far the work is behind;
//! - `space_return`: the return of free space to the file system;
//! - `health`: failures; `wakeups`: waiting threads; `statistics` and `stats_snapshot`: counts.
//!
//! Of these parts, `get` has access only to `table_set`, and `install` only to `table_set`,
//! `persistence`, `write_buffer` and `wakeups`; both also use the caches. The background jobs have
//! access to all parts: `jobs` chooses the next job, and `flush`, `work`, `partition`, `moves`,
//! `slice_split` and `range_tombstones` run it.
//!
//! # Locks
//!
//! Threads take locks in this order: `working` (shared for work on the engine's files, exclusive
//! for closing the engine); the lock of the manifest (to record and publish edits; most of a
//! rewrite of the manifest runs without it); the lock of the map of tables (to replace the map);
//! the locks of a table or sub-table; locks of single figures.
//!
//! Reads of rows take none of these locks: a change replaces the map of tables, or the view of a
//! sub-table, as a whole. Installing a write takes only the lock of its sub-table, and only to seal
//! a full memtable.
//!
//! # Memory
//!
//! The engine seals a memtable when it is full. When all memtables together exceed half of their
//! share of the budget, and no sealed memtable waits for its flush, the engine seals the largest.
//! When the share is used up, [`TieredEngine::admit`] waits for a flush, and returns an error if no
//! flush makes room.

mod change;
mod coding;
mod compaction_shapes;
mod debt;
mod estimate;
mod flush;
mod flush_schedule;
mod get;
mod health;
mod inspect;
mod install;
mod jobs;
mod level_storage;
mod managed;
mod metadata;
mod moves;
mod pace;
mod partition;
mod pending_extents;
mod persistence;
mod pin;
mod prefetch;
mod range_tombstones;
mod reuse_counts;
mod scan;
mod slice_split;
mod space_return;
mod statistics;
mod stats_snapshot;
mod status;
mod table_set;
#[cfg(all(test, not(loom)))]
mod tests;
mod wakeups;
mod work;
mod write_buffer;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use arc_swap::ArcSwap;
use spillway_base::batch::WriteBatch;
use spillway_base::budget::{Budget, Charge};
use spillway_base::clock;
use spillway_base::engine::{
    Access, Cursor, Debt, Engine, FlushSpace, Found, GetsAhead, Horizon, Metric, RangeEstimate,
    Replayed, Rewrite,
};
use spillway_base::lock::{Mutex, RwLock, RwLockReadGuard};
use spillway_base::{Csn, Direction, EngineKind, Error, ErrorKind, KeyRange, Result, TableId};
use spillway_storage::{ALIGN, Disk, DiskLock};

use crate::cache::RowCache;
use crate::compaction::{Accelerator, Cpu};
use crate::engine::prefetch::GetsReadahead;
use crate::extent::{ExtentHandle, ExtentRead, ReadContext};
use crate::filter;
use crate::level::{Levels, LevelsEdit, Slice};
use crate::manifest::{Edit, Manifest, TableState};
use crate::memtable::Accounts;
use crate::settings::TieredSettings;
use crate::space::{Claimed, SpaceManager, claim};
use crate::subtable::SubTable;
use crate::table::Table;
use crate::table_visibility::{TableVisibility, next_engine};
use compaction_shapes::CompactionShapes;
use debt::LevelsDebt;
use flush_schedule::FlushSchedule;
use get::PointReader;
use health::Health;
use install::Installer;
pub use jobs::{Background, JobOutcome};
use level_storage::LevelStorage;
pub use metadata::{EditCost, LettingGo, Metadata};
use persistence::Persistence;
pub use pin::{Copied, ExtentCopy, Pin};
use space_return::SpaceReturn;
use statistics::EngineStatistics;
use stats_snapshot::StatsSnapshots;
pub use status::{LevelStatus, TableStatus};
use table_set::{NewSubTables, TableSet, Tables, table_at};
use wakeups::Wakeups;
use write_buffer::WriteBuffer;

/// The longest that an installer waits for a flush.
const ADMIT_WAIT: Duration = Duration::from_secs(10);
/// The largest batch: formats store the length of a value and of a block in four bytes.
const BATCH_BYTES_MAX: usize = 1 << 30;

/// The parts of an engine.
struct Inner {
    settings: TieredSettings,
    horizon: Arc<dyn Horizon>,
    write_buffer: WriteBuffer,
    space: Arc<SpaceManager>,
    /// The locks of the tiers' folders, until the engine is closed.
    locks: Mutex<Vec<Box<dyn DiskLock>>>,
    context: Arc<ReadContext>,
    level_storage: LevelStorage,
    tables: TableSet,
    persistence: Persistence,
    flushes: FlushSchedule,
    health: Health,
    wakeups: Wakeups,
    levels_debt: LevelsDebt,
    compaction_shapes: CompactionShapes,
    /// Work on the files holds it shared. The closing of the engine takes it exclusively.
    working: RwLock<()>,
    space_return: SpaceReturn,
    /// The executor of merges.
    accelerator: ArcSwap<Box<dyn Accelerator>>,
    statistics: EngineStatistics,
    stats_snapshots: StatsSnapshots,
}

impl Drop for Inner {
    fn drop(&mut self) {
        // No thread is left that would free the rest.
        self.context.garbage.end();
    }
}

/// The tiered engine. [`spillway_base::engine`] states its guarantees. Cheap to clone.
#[derive(Clone)]
pub struct TieredEngine(Arc<Inner>);

impl TieredEngine {
    /// Opens the tables of a folder, or begins without tables.
    ///
    /// # Errors
    /// [`ErrorKind::Corruption`], [`ErrorKind::UnsupportedFormat`], [`ErrorKind::InvalidArgument`],
    /// [`ErrorKind::DiskFull`], [`ErrorKind::Io`].
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        settings: TieredSettings,
        horizon: Arc<dyn Horizon>,
        budget: Budget,
    ) -> Result<TieredEngine> {
        if !settings.slot_bytes.is_multiple_of(ALIGN) {
            return Err(Error::invalid(format!(
                "slots of {} bytes are no whole pages",
                settings.slot_bytes
            )));
        }
        disk.create_dir_all(dir)?;
        let Claimed { folders, locks } = claim(&*disk, dir, &settings.tiers)?;
        let slot_bytes = settings.slot_bytes as u32;
        let manifest = Manifest::open(disk.clone(), dir, slot_bytes, settings.manifest_bytes)?;
        let state = manifest.state();
        let used = state.tables.values().flat_map(|table| table.extents.values());
        let space = Arc::new(SpaceManager::open(
            disk,
            folders,
            settings.slot_bytes as u64,
            settings.file_bytes,
            used.map(|extent| (extent.meta.slots, extent.meta.len)),
        )?);
        let balance = Arc::new(settings.cache_balancer());
        let rows = RowCache::new(balance, settings.large_pages, &budget);
        let context = ReadContext::new(settings.reads(), rows, &budget);
        if settings.read_ahead {
            context.queues.allow();
        }
        let accounts = Accounts::new(budget, settings.memtable_bytes);
        let new_parts = NewSubTables {
            accounts: accounts.clone(),
            gaps: settings.gaps,
            gap_figures: Arc::default(),
        };
        let number = next_engine();
        let mut tables = Tables::default();
        for (&id, stored) in &state.tables {
            let dictionaries = context.dictionaries.of(id);
            stored.dictionaries(|dictionary| dictionaries.add(Arc::new(dictionary)))?;
            let mut edit = LevelsEdit::default();
            for stored in stored.extents.values() {
                let extent = ExtentHandle::new(id, stored.meta.clone(), &space, &context)?;
                edit.added.extend(stored.slices().map(|(place, meta)| {
                    extent.change_live_bytes(meta.bytes, 0);
                    (*place, Slice::new(meta.clone(), extent.clone()))
                }));
            }
            edit.ranges = Some(Arc::new(stored.ranges.clone()));
            let levels = Levels::default().apply(&edit);
            let levels = levels
                .map_err(|error| error.context(format_args!("{id:?} in {}", dir.display())))?;
            let parts = parts_of((id, stored), state.persisted, &levels, &new_parts)
                .map_err(|error| error.context(format_args!("{id:?} in {}", dir.display())))?;
            let standing = TableVisibility::new(number, id, stored.created);
            tables.insert(id, Arc::new(Table::new(standing, parts, true)));
        }
        let level_storage = LevelStorage::new(&settings, &space);
        let compaction_shapes = CompactionShapes::new(&settings, level_storage.keeps_hot());
        let write_buffer = WriteBuffer::new(&settings, accounts, horizon.clone());
        let engine = TieredEngine(Arc::new(Inner {
            level_storage,
            settings,
            horizon,
            write_buffer,
            space,
            locks: Mutex::new(locks),
            context,
            tables: TableSet::new(number, tables, new_parts),
            persistence: Persistence::new(manifest),
            flushes: FlushSchedule::default(),
            health: Health::default(),
            wakeups: Wakeups::default(),
            levels_debt: LevelsDebt::default(),
            compaction_shapes,
            working: RwLock::new(()),
            space_return: SpaceReturn::default(),
            accelerator: ArcSwap::from_pointee(Box::new(Cpu)),
            statistics: EngineStatistics::default(),
            stats_snapshots: StatsSnapshots::new(dir.to_owned(), clock::now()),
        }));
        engine.0.begin();
        Ok(engine)
    }

    /// Sets the executor of merges for flushes and compactions that begin from now on; [`Cpu`] is
    /// the default.
    pub fn offload_to(&self, accelerator: Box<dyn Accelerator>) {
        self.0.accelerator.store(Arc::new(accelerator));
    }
}

impl Inner {
    /// The reader of single keys.
    #[inline]
    fn point_reader(&self) -> PointReader<'_> {
        PointReader { tables: &self.tables, context: &self.context }
    }

    /// The installer of commits.
    #[inline]
    fn installer(&self) -> Installer<'_> {
        Installer {
            tables: &self.tables,
            persistence: &self.persistence,
            write_buffer: &self.write_buffer,
            rows: self.context.rows.as_ref(),
            wakeups: &self.wakeups,
        }
    }

    /// Begins after an opening.
    fn begin(&self) {
        self.refresh_debt();
        self.note_flush_space();
        self.context.garbage.begin();
    }

    /// Recomputes the debt of all tables' levels, after one of them changed.
    fn refresh_debt(&self) {
        self.levels_debt.refresh(&self.tables, &self.compaction_shapes);
    }

    /// The debt of memtables and levels.
    fn debt(&self) -> Debt {
        self.levels_debt.with_flush(self.write_buffer.flush_debt())
    }

    /// Records a failure that ends the background work (E8).
    fn fail(&self, error: &Error) {
        self.health.fail(error);
        self.wakeups.announce_room();
    }

    /// Begins work, unless the engine has failed or was closed.
    fn working(&self) -> Result<RwLockReadGuard<'_, ()>> {
        let working = self.working.read();
        self.health.check()?;
        Ok(working)
    }

    /// The CSN up to which everything is persistent now (E6).
    fn compute_persisted(&self) -> Csn {
        // E8: it does not rise after a failure.
        if self.health.check().is_ok() {
            let persisted = self.tables.persisted(&*self.horizon, &[], None);
            self.persistence.raise_persisted(persisted);
        }
        self.persistence.persisted()
    }
}

/// The sub-tables that the manifest records. Everything up to the persistent CSN is in extents of
/// each table.
fn parts_of(
    (id, stored): (TableId, &TableState),
    persisted: Csn,
    levels: &Levels,
    new_parts: &NewSubTables,
) -> Result<Vec<SubTable>> {
    if let Some(slice) = stored.astride() {
        let extent = slice.extent;
        return Err(Error::corruption(format!("a slice of {extent} is in two sub-tables")));
    }
    let starts: Vec<_> = stored.parts.iter().collect();
    let mut parts = Vec::with_capacity(starts.len());
    for (at, (start, flushed)) in starts.iter().enumerate() {
        let end = starts.get(at + 1).map(|(end, _)| (*end).clone());
        let levels = levels.within(KeyRange::new(start, end.as_deref()));
        let bounds = ((*start).clone(), end);
        let flushed = persisted.max(**flushed);
        parts.push(new_parts.make(id, bounds, flushed, levels));
    }
    Ok(parts)
}

impl Engine for TieredEngine {
    fn kind(&self) -> EngineKind {
        EngineKind::Tiered
    }

    fn admit(&self, bytes: usize) -> Result<Option<Charge>> {
        if bytes > BATCH_BYTES_MAX {
            return Err(Error::new(
                ErrorKind::TransactionTooLarge,
                format!("a batch of {bytes} bytes is past the engine's limit of {BATCH_BYTES_MAX}"),
            ));
        }
        let inner = &self.0;
        inner.health.check()?;
        if inner.write_buffer.has_room(bytes, inner.write_buffer.limit()) {
            return Ok(None);
        }
        self.wait_for_room(bytes).map(|()| None)
    }

    fn await_memory(&self, fits: &mut dyn FnMut() -> bool) -> bool {
        self.wait_for_memory(fits)
    }

    fn install(&self, csn: Csn, batch: &WriteBatch) {
        self.0.installer().install(csn, batch);
    }

    fn replay<'w>(&self, writes: &mut dyn Iterator<Item = Replayed<'w>>) {
        let tables = self.0.tables.load();
        let installer = self.0.installer();
        for Replayed { csn, op, .. } in writes {
            if op.table().engine() == Some(EngineKind::Tiered) {
                installer.write(&tables, csn, op);
            }
        }
    }

    fn get(
        &self,
        table: TableId,
        key: &[u8],
        snapshot: Csn,
        access: Access,
        value: &mut Vec<u8>,
    ) -> Result<Found> {
        let tables = self.0.tables.load();
        let table = table_at(&tables, table, snapshot)?;
        self.0.point_reader().get(table, key, snapshot, access, value)
    }

    fn recall(
        &self,
        table: TableId,
        key: &[u8],
        snapshot: Csn,
        access: Access,
        value: &mut Vec<u8>,
    ) -> Result<Option<Found>> {
        if !self.0.settings.recall {
            return Ok(None);
        }
        self.0.point_reader().recall(table, key, snapshot, access, value)
    }

    fn prefetch(&self, table: TableId, keys: &[&[u8]], snapshot: Csn) -> usize {
        let tables = self.0.tables.load();
        let Some(table) = tables.get(&table).filter(|table| table.exists_at(snapshot)) else {
            return 0;
        };
        GetsReadahead::new(&self.0.context, self.0.space.disk(), table, keys, snapshot).all()
    }

    fn gets_ahead<'k>(
        &'k self,
        table: TableId,
        keys: &'k [&'k [u8]],
        snapshot: Csn,
    ) -> Option<Box<dyn GetsAhead + 'k>> {
        let tables = self.0.tables.load();
        let table = tables.get(&table).filter(|table| table.exists_at(snapshot))?;
        let ahead =
            || GetsReadahead::new(&self.0.context, self.0.space.disk(), table, keys, snapshot);
        let is_worth_while = keys.len() > 1 && self.0.context.queues.are_allowed();
        is_worth_while.then(|| Box::new(ahead()) as Box<dyn GetsAhead>)
    }

    fn expect(&self, keys: &[&[u8]]) {
        if let Some(rows) = &self.0.context.rows {
            rows.expect_all(keys.iter().map(|key| filter::hash(key)));
        }
    }

    fn overlap_reads(&self) -> Vec<OwnedFd> {
        let inner = &self.0;
        inner.context.async_reads.open(inner.space.disk(), inner.settings.async_reads())
    }

    fn begin_read(&self, table: TableId, key: &[u8], snapshot: Csn, waker: &Waker) -> bool {
        let tables = self.0.tables.load();
        let Some(table) = tables.get(&table) else { return false };
        let lacks = table.parts().of(key).view_now().missing(key, snapshot, &mut Vec::new());
        let Some((extent, what)) = lacks else { return false };
        let read = ExtentRead { extent: extent.clone(), missing: what };
        let begun = self.0.context.async_reads.begin(read, waker);
        if begun {
            self.0.context.note_ghost_miss_of_row(filter::hash(key), &extent);
        }
        begun
    }

    fn keeps_reads(&self) -> bool {
        self.0.context.async_reads.keeps_some()
    }

    fn submit_reads(&self) -> bool {
        self.0.context.async_reads.submit()
    }

    fn end_reads(&self) {
        self.0.context.async_reads.end();
    }

    fn newest(
        &self,
        table: TableId,
        key: &[u8],
        access: Access,
        value: &mut Vec<u8>,
    ) -> Result<Found> {
        self.0
            .point_reader()
            .newest(table, key, access, value)?
            .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("{table:?} does not exist")))
    }

    fn scan(
        &self,
        table: TableId,
        range: KeyRange<'_>,
        direction: Direction,
        snapshot: Csn,
        _access: Access,
    ) -> Result<Box<dyn Cursor>> {
        let tables = self.0.tables.load();
        let table = table_at(&tables, table, snapshot)?;
        let parts = table.parts();
        let parts = parts.within(range);
        let late = self.0.settings.range_filters;
        Ok(scan::cursor_over(parts, range, direction, snapshot, late))
    }

    fn estimate(&self, table: TableId, range: KeyRange<'_>) -> RangeEstimate {
        let tables = self.0.tables.load();
        tables.get(&table).map(|table| estimate::estimate(table, range)).unwrap_or_default()
    }

    fn set_rewrite(&self, table: TableId, since: Csn, rewrite: Option<Arc<dyn Rewrite>>) {
        if let Some(table) = self.0.tables.load().get(&table) {
            table.set_rewrite(since, rewrite);
        }
    }

    fn forget_forms(&self, table: TableId) {
        if let (Some(rows), Some(table)) = (&self.0.context.rows, self.0.tables.load().get(&table))
        {
            table.begin_era(rows);
        }
    }

    fn tables(&self) -> Vec<TableId> {
        self.0.tables.ids()
    }

    fn persisted(&self) -> Csn {
        self.0.compute_persisted()
    }

    fn recorded(&self) -> Csn {
        self.0.persistence.recorded()
    }

    fn newest_recorded(&self) -> Csn {
        self.0.persistence.manifest().state().newest()
    }

    fn record_persisted(&self, csn: Csn) -> Result<()> {
        let inner = &self.0;
        let _working = inner.working()?;
        let persisted = || inner.tables.persisted(&*inner.horizon, &[], None);
        let recorded = inner.persistence.record_persisted(&inner.health, csn, persisted);
        if let Err(error) = &recorded
            && error.kind() != ErrorKind::DiskFull
        {
            inner.fail(error);
        }
        recorded
    }

    fn request_persist(&self, csn: Csn) {
        self.0.flushes.request(csn);
        self.0.wakeups.announce_work();
    }

    fn give_space(&self) {
        self.0.space_return.request_all();
        if self.0.compaction_shapes.seek_space(clock::now()) {
            self.0.space_return.request_trim();
        }
        self.0.wakeups.announce_work();
    }

    fn meets_full_disk(&self) -> bool {
        self.0.health.meets_full_disk()
    }

    fn is_short_of_space(&self, _writes: bool) -> bool {
        self.0.flushes.is_short_of_space()
    }

    fn unwritten_bytes(&self, bytes: u64) -> u64 {
        self.0.write_buffer.unflushed() as u64 + bytes
    }

    fn flush_space(&self, bytes: u64, others: u64) -> FlushSpace {
        self.0.flush_space(bytes + others)
    }

    fn debt(&self) -> Debt {
        self.0.debt()
    }

    fn awaits_durable(&self) -> Csn {
        self.0.flushes.awaits_durable()
    }

    fn health(&self) -> Result<()> {
        self.0.health.check()
    }

    fn metrics(&self) -> Vec<Metric> {
        self.0.metrics()
    }
}

/// The edit that records a table.
fn create_edit(table: &Table) -> Edit {
    Edit::CreateTable { table: table.id, created: table.created }
}
