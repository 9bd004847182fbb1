//! The engine: tables whose rows are in memory, with their log records as the only copy on disk.
//!
//! A row has an *entry* in its table's indirection array: a word that points to the row's chain of
//! versions. An install inserts the versions of a commit into their rows' chains. Once the commit
//! is durable, the engine learns the places of the commit's records in the log
//! ([`spillway_base::log_place`]). From then on a version may be evicted: the row's entry then
//! holds the place instead, and a read loads the version again.
//!
//! A checkpoint writes the entries and the indexes, and no rows. After a crash, the checkpoint and
//! the tail of the log restore the place of every row.
//!
//! The engine implements the contract of [`spillway_base::engine`]. It has these guarantees of its
//! own:
//!
//! - **MEMORY-1 (row found).** Every key of an index leads to an entry that is not empty, or to the
//!   entry of a row that is being removed. A thread that finds an entry empty looks the key up
//!   again (CHAIN-3).
//! - **MEMORY-2 (evict).** A version is evicted only if it is alone in its chain, its commit is
//!   stable, and its place is known. A read at a snapshot older than this commit then finds no row.
//! - **MEMORY-3 (checkpoint).** A checkpoint at a CSN has exactly the state that a snapshot at this
//!   CSN sees. The CSN is stable, and the places of all commits up to it are known.
//! - **MEMORY-4 (space).** The engine compacts kept segments until they take at most the allowed
//!   space: 1.75 times their live bytes, plus a fixed amount. Segments with damaged records are not
//!   compacted, and may take space beyond this. The engine releases segments without live rows
//!   after the next checkpoint. The background work writes this checkpoint itself in two cases: the
//!   segments to release take more than an eighth of the allowed space, or no commit since the last
//!   checkpoint makes one due. While the disk is full, the background work also returns the space
//!   of pages of kept segments that have no live records (HOLE-1 to HOLE-5 of `holes`).
//! - **MEMORY-5 (room).** The engine charges the memory that a commit will take when it admits the
//!   commit, so that concurrent commits fit into the budget together.
//! - **MEMORY-6 (asynchronous reads).** A statement may begin a read of an evicted row (E12) and
//!   repeat its get when the read is complete. The repeated get finds the record that was read
//!   (LOG-ROW-3), or meets the failure of the read (LOG-ROW-5). The statement has to begin another
//!   read only if later reads displaced the record, or if the row was moved or evicted again.
//!
//! # Parts
//!
//! Each part of an engine owns its state, and the page of its module states its guarantees:
//!
//! - `table_set`: the tables; [`crate::store`]: versions; [`crate::segments`]: the log segments;
//!   [`crate::pins`]: what snapshots may still read;
//! - `unplaced`: commits without places; `collector`: rows with garbage; `evictor`: the CLOCK hand;
//! - `checkpoints`: the last checkpoint, and what the next one has to include;
//! - [`crate::log_reads`]: records that were read from the log;
//! - `work_state`: requests of background work; `page_collapse`: large pages.
//!
//! An operation is a struct with the parts that it needs, such as `install::Installer` and
//! `read::RowReader`; `parts` makes them. Only a round of background work, and the beginning and
//! the end of a checkpoint, use the engine as a whole (`work`, `checkpoint`).
//!
//! # Locks
//!
//! Threads take locks in this order: `running` of `work_state` (to change the engine's files); the
//! lock of the last checkpoint; `placing` of `unplaced`; the lock of the CLOCK hand; the lock bit
//! of a row's entry; the lock of an index node, of a queue or of a single figure. Eviction does not
//! wait for the hand's lock or for lock bits, because a thread that holds a lock bit may need
//! memory, and so run eviction.
//!
//! Reads of rows take none of these locks. A change of the map of tables replaces the map as a
//! whole.

mod backup;
mod checkpoint;
mod checkpoint_space;
mod checkpoints;
mod collect;
mod collector;
mod compact;
mod cursor;
mod evict;
mod evictor;
mod holes;
mod inner;
mod inspect;
mod install;
mod load;
mod load_array;
#[cfg(all(test, loom))]
mod loom_tests;
mod metrics;
mod opening;
mod page_collapse;
mod parts;
mod prefetch;
mod put;
mod read;
mod recover;
mod removal;
mod table_set;
#[cfg(all(test, not(loom)))]
mod tests;
mod unplaced;
mod verify;
mod work;
mod work_state;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use spillway_base::batch::WriteBatch;
use spillway_base::budget::{Budget, Charge, Use};
use spillway_base::clock::Clock;
use spillway_base::engine::{
    Access, Cursor, Debt, Engine, FlushSpace, Found, GetsAhead, Horizon, Metric, RangeEstimate,
    Replayed,
};
use spillway_base::log_place::LogPlace;
use spillway_base::sync::atomic::Ordering;
use spillway_base::{
    Csn, Direction, EngineKind, Error, ErrorKind, KeyRange, Result, TableId, thread,
};
use spillway_storage::Disk;
use spillway_storage::async_reads::AsyncReadSettings;
use spillway_storage::plog::KeptSegments;

use crate::table::Table;
pub use backup::{MemoryPin, PinnedFile, is_pinned_name};
use inner::Inner;
pub use inner::{MemoryEngine, MemorySettings};
use table_set::missing;
pub use verify::{MemoryVerified, verify};

impl MemoryEngine {
    /// Opens the engine in a folder, from its last checkpoint. The rows are in segments of the redo
    /// log and in segments that left it; `log` opens both.
    ///
    /// # Errors
    /// [`ErrorKind::Corruption`], [`ErrorKind::UnsupportedFormat`], [`ErrorKind::Io`],
    /// [`ErrorKind::DiskFull`].
    pub fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        settings: MemorySettings,
        log: Arc<dyn KeptSegments>,
        horizon: Arc<dyn Horizon>,
        budget: Budget,
    ) -> Result<MemoryEngine> {
        recover::open(disk, dir, settings, log, horizon, budget).map(MemoryEngine)
    }
}

/// Time between two checks of a commit that waits for memory.
const ROOM_NAP: Duration = Duration::from_millis(2);
/// How often it checks while commits are on their way to the log: for 5 seconds.
const ROOM_TRIES: usize = 2500;
/// How often it checks while no commit is on its way, so that eviction can make room.
const IDLE_TRIES: usize = 50;

impl Inner {
    /// Waits until `fits` returns true. Rows cannot be evicted before their commits' places are
    /// known (MEMORY-2), so it waits while commits are on their way to the log, and then checks
    /// `idle_tries` times more. Returns the last result of `fits`.
    fn await_room(&self, idle_tries: usize, fits: &mut dyn FnMut() -> bool) -> bool {
        let mut idle = 0;
        for _ in 0..ROOM_TRIES {
            if fits() {
                return true;
            }
            idle = if self.unplaced.len() == 0 { idle + 1 } else { 0 };
            if idle > idle_tries || self.health.check().is_err() {
                break;
            }
            thread::blocking(|| Clock::system().sleep(ROOM_NAP));
        }
        fits()
    }
}

/// The most memory that a commit takes for each byte of its batch.
const MEMORY_PER_BYTE: usize = 3;

impl Engine for MemoryEngine {
    fn kind(&self) -> EngineKind {
        EngineKind::Memory
    }

    fn admit(&self, bytes: usize) -> Result<Option<Charge>> {
        self.0.health.check()?;
        let (budget, bytes) = (&self.0.budget, bytes * MEMORY_PER_BYTE);
        if bytes > budget.limit() {
            // It would not fit even without other commits.
            return budget.try_charge(Use::Rows, bytes).map(Some);
        }
        let mut charge = budget.try_charge(Use::Rows, bytes);
        self.0.await_room(IDLE_TRIES, &mut || {
            if charge.is_err() {
                charge = budget.try_charge(Use::Rows, bytes);
            }
            charge.is_ok()
        });
        charge.map(Some)
    }

    /// Does not wait: a replayed row takes a few bytes, whatever its size, and waiting would free
    /// none, since it can be evicted only once it is stable.
    fn admit_replay(&self, _bytes: usize) -> Result<()> {
        self.0.health.check()
    }

    fn await_memory(&self, fits: &mut dyn FnMut() -> bool) -> bool {
        self.0.await_room(0, fits)
    }

    fn install(&self, csn: Csn, batch: &WriteBatch) {
        self.0.installer().install(csn, batch);
    }

    fn replay<'w>(&self, writes: &mut dyn Iterator<Item = Replayed<'w>>) {
        self.0.installer().replay(writes);
    }

    fn wants_places(&self) -> bool {
        true
    }

    fn place_commits(&self, commits: &[(Csn, LogPlace)], _through: Csn) {
        self.0.installer().place_commits(commits);
    }

    fn keeps_segment(&self, lane: u32, segment: u64) -> bool {
        self.0.segments.keep(lane, segment)
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
        let exists = |found: &&Arc<Table>| found.exists_at(snapshot);
        let table = tables.get(&table).filter(exists).ok_or_else(|| missing(table, snapshot))?;
        self.0.reader().get(table, key, snapshot, access, value)
    }

    fn recall(
        &self,
        table: TableId,
        key: &[u8],
        snapshot: Csn,
        access: Access,
        value: &mut Vec<u8>,
    ) -> Result<Option<Found>> {
        let tables = self.0.tables.load();
        let Some(table) = tables.get(&table).filter(|table| table.exists_at(snapshot)) else {
            return Ok(None);
        };
        let found = self.0.reader().get(table, key, snapshot, access, value)?;
        // The snapshot is not registered, so collection may have removed its versions before or
        // during the read. In that case the watermark is above the snapshot by now.
        Ok((self.0.pins.watermark() <= snapshot).then_some(found))
    }

    fn prefetch(&self, table: TableId, keys: &[&[u8]], snapshot: Csn) -> usize {
        let table = self.0.tables.table_at(table, snapshot).ok();
        let table = table.filter(|_| self.0.settings.read_ahead);
        table.map_or(0, |table| self.0.ahead().of(table, keys, snapshot).all())
    }

    fn gets_ahead<'k>(
        &'k self,
        table: TableId,
        keys: &'k [&'k [u8]],
        snapshot: Csn,
    ) -> Option<Box<dyn GetsAhead + 'k>> {
        let table = self.0.tables.table_at(table, snapshot).ok()?;
        let is_worth_while = keys.len() > 1 && self.0.settings.read_ahead;
        let ahead = || Box::new(self.0.ahead().of(table, keys, snapshot)) as Box<dyn GetsAhead>;
        is_worth_while.then(ahead)
    }

    fn overlap_reads(&self) -> Vec<OwnedFd> {
        let how = AsyncReadSettings { direct: false, ..self.0.settings.async_reads };
        self.0.async_reads.open(&*self.0.disk, how)
    }

    fn begin_read(&self, table: TableId, key: &[u8], snapshot: Csn, waker: &Waker) -> bool {
        let tables = self.0.tables.load();
        let lacks =
            tables.get(&table).and_then(|table| self.0.reader().lacks(table, key, snapshot));
        lacks.is_some_and(|read| self.0.async_reads.begin(read, waker))
    }

    fn keeps_reads(&self) -> bool {
        self.0.async_reads.keeps_some()
    }

    fn submit_reads(&self) -> bool {
        self.0.async_reads.submit()
    }

    fn end_reads(&self) {
        self.0.async_reads.end();
    }

    fn newest(
        &self,
        table: TableId,
        key: &[u8],
        access: Access,
        value: &mut Vec<u8>,
    ) -> Result<Found> {
        let tables = self.0.tables.load();
        let exists = |table: &&Arc<Table>| table.dropped() == Csn::MAX;
        let table = tables
            .get(&table)
            .filter(exists)
            .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("{table:?} does not exist")))?;
        self.0.reader().get(table, key, Csn(Csn::MAX.0 - 1), access, value)
    }

    fn scan(
        &self,
        table: TableId,
        range: KeyRange<'_>,
        direction: Direction,
        snapshot: Csn,
        _access: Access,
    ) -> Result<Box<dyn Cursor>> {
        let table = self.0.tables.table_at(table, snapshot)?;
        Ok(Box::new(cursor::MemoryCursor::new(self.0.clone(), table, range, direction, snapshot)))
    }

    fn estimate(&self, table: TableId, range: KeyRange<'_>) -> RangeEstimate {
        let tables = self.0.tables.load();
        let table = tables.get(&table);
        table.map_or_else(RangeEstimate::default, |table| self.0.reader().estimate(table, range))
    }

    fn tables(&self) -> Vec<TableId> {
        let tables = self.0.tables.load();
        let exist = tables.values().filter(|table| table.dropped() == Csn::MAX);
        let mut ids: Vec<TableId> = exist.map(|table| table.id).collect();
        ids.sort_unstable();
        ids
    }

    fn persisted(&self) -> Csn {
        self.0.checkpoints.persisted(&self.0.pins)
    }

    fn recorded(&self) -> Csn {
        self.0.checkpoints.recorded()
    }

    // A checkpoint has no version above its own CSN (MEMORY-3).
    fn newest_recorded(&self) -> Csn {
        self.recorded()
    }

    fn record_persisted(&self, csn: Csn) -> Result<()> {
        if self.0.checkpoints.recorded() < csn {
            // Excludes the folding of ranges: each row of a page must have its key in the index.
            let _running = self.0.work.lock_running();
            self.0.checkpoint()?;
        }
        Ok(())
    }

    fn request_persist(&self, csn: Csn) {
        self.0.request_checkpoint(csn);
    }

    /// The log can be cut after a checkpoint, and kept segments have dead pages.
    fn give_space(&self) {
        self.0.work.seeks_space.store(true, Ordering::Release);
        self.0.request_checkpoint(self.0.pins.stable());
    }

    fn meets_full_disk(&self) -> bool {
        self.0.work.met_full_disk.load(Ordering::Acquire)
    }

    fn is_short_of_space(&self, writes: bool) -> bool {
        self.0.work.is_short_of_space(writes)
    }

    fn flush_space(&self, bytes: u64, others: u64) -> FlushSpace {
        self.0.space_check().flush_space(bytes, others)
    }

    fn unwritten_bytes(&self, bytes: u64) -> u64 {
        // Log care asks often, also while the background thread is busy.
        self.0.space_check().note();
        self.0.space_check().unwritten(bytes)
    }

    fn debt(&self) -> Debt {
        Debt::default()
    }

    fn health(&self) -> Result<()> {
        self.0.health.check()
    }

    fn metrics(&self) -> Vec<Metric> {
        self.0.metrics()
    }
}
