//! The engine's background work, behind the database's interface ([`spillway_base::managed`]).

use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use spillway_base::clock::Clock;
use spillway_base::engine::{Engine, Metric};
use spillway_base::managed::{BackgroundThreads, ManagedEngine, TableSize};
use spillway_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use spillway_base::{Csn, Direction, ErrorKind, Result, TableId, thread};

use super::inner::{Inner, MemoryEngine, Tables};
use super::load::KeyScan;
use crate::index::Entries;
use crate::large_pages::are_allowed;
use crate::store::Retired;
use crate::table::{DeletedRange, Table};
use crate::version::{Target, Word};

/// How often the background thread looks for work without a request.
const NAP: Duration = Duration::from_millis(20);
/// As [`NAP`], after a round of work met a full disk.
const FULL_DISK_NAP: Duration = Duration::from_millis(250);
/// How often the background work makes memory large pages of the system.
const LARGE_PAGES_EVERY: Duration = Duration::from_secs(1);
/// How many large pages it makes at most. The copy of one takes less than a millisecond.
const LARGE_PAGES_AT_ONCE: usize = 128;
/// Rows of a range that are folded under one pin.
const FOLDED: usize = 256;
/// While there are commits, which cause checkpoints, kept segments without live rows may take the
/// allowed space divided by this.
const WAITING_SHARE: u64 = 8;
/// Rows from which a table's size is estimated.
const SAMPLED: usize = 32;

struct Thread {
    engine: Arc<Inner>,
    stop: Arc<AtomicBool>,
    handle: Option<thread::JoinHandle<()>>,
}

impl BackgroundThreads for Thread {}

impl Drop for Thread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        self.engine.work.ask();
        if let Some(handle) = self.handle.take() {
            // The panic hook has reported a panic of the thread.
            let _ = handle.join();
        }
    }
}

impl ManagedEngine for MemoryEngine {
    fn start_background_threads(&self, _threads: usize) -> Result<Box<dyn BackgroundThreads>> {
        self.0.settle_once()?;
        let stop = Arc::new(AtomicBool::new(false));
        let (engine, stopped) = (self.0.clone(), stop.clone());
        let body = move || {
            while !stopped.load(Ordering::SeqCst) {
                // `job` keeps a failure, and `health` reports it.
                let worked = engine.job().unwrap_or(false);
                let is_full = engine.work.met_full_disk.load(Ordering::Acquire);
                let mut asked = engine.work.asked.lock();
                if !worked && !*asked {
                    let nap = if is_full { FULL_DISK_NAP } else { NAP };
                    engine.work.changed.wait_for(&mut asked, nap);
                }
                *asked = false;
            }
        };
        let handle = Some(thread::spawn("memory-engine", body)?);
        Ok(Box::new(Thread { engine: self.0.clone(), stop, handle }))
    }

    fn run_background_job(&self) -> Result<bool> {
        self.0.settle_once()?;
        self.0.job()
    }

    fn persist_all(&self) -> Result<()> {
        let _running = self.0.work.running.lock();
        self.0.settle_once()?;
        if self.0.persisted() < self.0.pins.stable() || self.0.segments.bytes_waiting() > 0 {
            self.0.checkpoint()?;
        }
        Ok(())
    }

    fn compact_all(&self) -> Result<()> {
        let _running = self.0.work.running.lock();
        self.0.settle_once()?;
        self.0.load_all()?;
        self.0.collect_all();
        self.0.checkpoint()?;
        while self.0.compact()? {
            self.0.checkpoint()?;
        }
        Ok(())
    }

    fn table_size(&self, table: TableId) -> TableSize {
        self.0.table_size(table)
    }

    fn close(&self) {
        self.0.work.closed.store(true, Ordering::SeqCst);
        // Waits for a checkpoint or a compaction that is running.
        drop(self.0.work.running.lock());
        self.0.async_reads.finish();
    }
}

impl Inner {
    pub(super) fn request_checkpoint(&self, csn: Csn) {
        self.checkpoints.request(csn);
        self.work.ask();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.work.closed.load(Ordering::SeqCst)
    }

    pub(super) fn settle_once(&self) -> Result<()> {
        if !self.work.settled.load(Ordering::SeqCst) {
            self.settle()?;
            self.work.settled.store(true, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Does one round of work. Returns whether there was any.
    fn job(&self) -> Result<bool> {
        let _running = self.work.running.lock();
        if self.is_closed() {
            return Ok(false);
        }
        self.health()?;
        self.make_large_pages(Clock::system().now());
        let worked = self.work_once();
        let is_full = worked.as_ref().is_err_and(|error| error.kind() == ErrorKind::DiskFull);
        self.work.met_full_disk.store(is_full, Ordering::Release);
        // The next round tries again.
        if is_full { Ok(false) } else { worked }
    }

    /// Makes memory large pages of the system, if it has been in use for `LARGE_PAGES_EVERY`.
    pub(super) fn make_large_pages(&self, now: Duration) {
        if !self.settings.large_pages {
            return;
        }
        let mut last = self.work.large_pages.lock();
        let (then, are_allowed) = *last.get_or_insert_with(|| (now, are_allowed()));
        if now.saturating_sub(then) < LARGE_PAGES_EVERY || !are_allowed {
            return;
        }
        let mut left = LARGE_PAGES_AT_ONCE;
        left -= self.nodes.make_large(left);
        for table in self.tables.load().values() {
            left -= table.rows.make_large(left);
        }
        self.store.slabs.make_large(left);
        *last = Some((now, are_allowed));
    }

    fn work_once(&self) -> Result<bool> {
        let mut checkpoint = Ok(());
        if self.needs_checkpoint() {
            let before = self.checkpoints.recorded();
            checkpoint = self.checkpoint();
            match &checkpoint {
                Ok(()) => return Ok(self.checkpoints.recorded() > before),
                // The dropped rows of the rest of this round make the next checkpoint smaller.
                Err(error) if error.kind() == ErrorKind::DiskFull => {}
                Err(error) => return Err(error.clone()),
            }
        }
        match self.load_some() {
            Ok(false) => {}
            Ok(true) => return Ok(true),
            Err(error) => {
                self.fail(&error);
                return Err(error);
            }
        }
        self.segments.note_kept_if_changed()?;
        let mut worked = self.collect_all();
        worked |= self.fold_ranges();
        worked |= self.drop_tables();
        checkpoint?;
        worked |= self.release_dead()?;
        let compacted = self.compact();
        if let Err(error) = &compacted
            && error.kind() != ErrorKind::DiskFull
        {
            self.fail(error);
        }
        Ok(worked | compacted?)
    }

    /// Whether a requested commit is persistent only after a checkpoint. Commits to other engines'
    /// tables need none.
    fn needs_checkpoint(&self) -> bool {
        self.checkpoints.requested() > self.persisted()
    }

    /// Releases segments without live rows. Segments that lost their last row after the last
    /// checkpoint wait for the next one. It is written here if they take much space, or if there
    /// are no commits that would cause it (MEMORY-4). Returns whether any segment was released.
    fn release_dead(&self) -> Result<bool> {
        let before = self.counts.released.load(Ordering::Relaxed);
        let has_commits = Csn(self.newest.load(Ordering::SeqCst)) > self.checkpoints.recorded();
        let waiting = self.segments.bytes_waiting();
        let (_, live) = self.kept_bytes();
        if waiting > 0 && (!has_commits || waiting > self.space_allowed(live) / WAITING_SHARE) {
            self.checkpoint()?;
        } else if self.segments.has_dead() {
            self.remove_files(&self.checkpoints.last())?;
        }
        Ok(self.counts.released.load(Ordering::Relaxed) > before)
    }

    /// Removes the versions that a range hides from all snapshots. `false` if some cannot be
    /// removed yet.
    pub(super) fn fold_range(&self, table: &Arc<Table>, range: &DeletedRange) -> bool {
        let (mut entries, mut last, mut whole) = (Entries::default(), None::<Vec<u8>>, true);
        loop {
            let from = match &last {
                Some(last) => Bound::Excluded(last.as_slice()),
                None => Bound::Included(range.start.as_slice()),
            };
            let until = range.end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
            let pin = self.store.pin();
            table.index.collect((from, until), Direction::Forward, FOLDED, &mut entries, &pin);
            for at in 0..entries.len() {
                whole &= self.fold_row(table, entries.key(at), range);
            }
            let Some(end) = entries.len().checked_sub(1) else { return whole };
            last = Some(entries.key(end).to_vec());
        }
    }

    /// Removes the versions of a row that a range hides. `false` if some cannot be removed yet.
    fn fold_row(&self, table: &Arc<Table>, key: &[u8], range: &DeletedRange) -> bool {
        let mut pin = self.store.pin();
        let Some(rid) = table.index.get(key, &pin) else { return true };
        // A place has no CSN, so the record is read.
        let mut cold = table.rows.entry(rid.slot()).map_or(Word::EMPTY, |entry| entry.load());
        while let Target::Version(at) = cold.target() {
            cold = self.store.version(at, &pin).next();
        }
        let cold = cold.as_place();
        let hidden = match cold {
            Some(place) => {
                let mut value = Vec::new();
                let access = spillway_base::engine::Access::Blocking;
                let read = pin.outside(|| self.read_place(table, key, place, access, &mut value));
                match read {
                    Ok(csn) => csn <= range.upto,
                    Err(_) => return false,
                }
            }
            None => false,
        };
        let Some(rid) = table.index.get(key, &pin) else { return true };
        let mut entry = table.rows.lock(rid.slot());
        let mut retired = Vec::new();
        // Finds the first hidden version, and the version above it.
        let (mut above, mut word) = (None, entry.word());
        let first = loop {
            match word.target() {
                Target::Version(at) => {
                    let version = self.store.version(at, &pin);
                    if version.csn() <= range.upto {
                        break word;
                    }
                    above = Some(at);
                    word = version.next();
                }
                Target::Place(place) if Some(place) == cold && hidden => break word,
                Target::Place(place) if Some(place) != cold => return false,
                Target::Place(_) | Target::Empty => return true,
            }
        };
        let mut word = first;
        while let Target::Version(at) = word.target() {
            if self.store.version(at, &pin).place().is_err() {
                return false;
            }
            word = self.store.version(at, &pin).next();
        }
        if let Target::Place(place) = word.target()
            && (Some(place) != cold || !hidden)
        {
            return false;
        }
        match above {
            Some(above) => self.store.version(above, &pin).set_next(Word::EMPTY),
            None => {
                entry.set(Word::EMPTY);
                table.index.remove(key, rid, &pin);
                retired.push(Retired::Slot(table.clone(), rid));
            }
        }
        let chain = crate::chain::Chain {
            store: &self.store,
            segments: &self.segments,
            entry: &mut entry,
            pin: &pin,
        };
        chain.retire_from(first, &mut retired);
        drop(entry);
        self.store.retire(retired);
        true
    }

    /// Removes all rows of a table that no snapshot sees any more. `false` if some cannot be
    /// removed yet.
    pub(super) fn empty_table(&self, table: &Arc<Table>) -> bool {
        let pin = self.store.pin();
        let (mut whole, mut retired) = (true, Vec::new());
        for slot in 0..table.rows.end() {
            let mut entry = table.rows.lock(slot);
            let mut word = entry.word();
            let mut placed = true;
            while let Target::Version(at) = word.target() {
                placed &= self.store.version(at, &pin).place().is_ok();
                word = self.store.version(at, &pin).next();
            }
            if !placed {
                whole = false;
                continue;
            }
            let first = entry.word();
            if first == Word::EMPTY {
                continue;
            }
            entry.set(Word::EMPTY);
            let chain = crate::chain::Chain {
                store: &self.store,
                segments: &self.segments,
                entry: &mut entry,
                pin: &pin,
            };
            chain.retire_from(first, &mut retired);
        }
        self.store.retire(retired);
        whole
    }

    fn table_size(&self, id: TableId) -> TableSize {
        let tables = self.tables.load();
        let Some(table) = tables.get(&id) else { return TableSize::default() };
        let mut pin = self.store.pin();
        let mut entries = Entries::default();
        let all = (Bound::Unbounded, Bound::Unbounded);
        // If the keys cannot be read, the size has no bytes.
        let scan = KeyScan::first(all, SAMPLED);
        let _ = self.collect_keys(table, scan, &mut entries, &mut pin);
        let rows = table.keys();
        let sampled = (entries.len() as u64).max(1);
        let used_bytes = self.sampled_bytes(table, &entries, &pin) * rows / sampled;
        TableSize { rows, used_bytes, free_bytes: 0 }
    }

    /// Bytes of the kept segments, and of the live records in them.
    pub(super) fn kept_bytes(&self) -> (u64, u64) {
        let (mut bytes, mut live) = (0, 0);
        for (segment, len) in self.segments.kept() {
            bytes += len;
            live += segment.live();
        }
        (bytes, live)
    }

    pub(super) fn metrics(&self) -> Vec<Metric> {
        let gauge =
            |name, help, value: u64| Metric { name, help, counter: false, value: value as f64 };
        let tables = self.tables.load();
        let (kept, live) = self.kept_bytes();
        let rows = tables.values().map(|table| table.keys()).sum();
        let arrays = tables.values().map(|table| table.rows.bytes() as u64).sum();
        let mut metrics = vec![
            gauge("memory_engine_tables", "Tables of the memory engine.", tables.len() as u64),
            gauge("memory_engine_rows", "Keys in the indexes of the memory engine.", rows),
            gauge(
                "memory_engine_version_bytes",
                "Memory of versions of rows.",
                self.store.slabs.charged_bytes() as u64,
            ),
            gauge(
                "memory_engine_index_bytes",
                "Memory of indexes.",
                self.nodes.charged_bytes() as u64,
            ),
            gauge("memory_engine_array_bytes", "Memory of indirection arrays.", arrays),
            gauge(
                "memory_engine_large_page_bytes",
                "Of the memory of versions, indexes and arrays, the bytes in large pages.",
                self.large_page_bytes(&tables),
            ),
            gauge(
                "memory_engine_kept_bytes",
                "Bytes of the log segments that are kept for their rows.",
                kept,
            ),
            gauge("memory_engine_live_bytes", "Of those, the bytes of current rows.", live),
            gauge(
                "memory_engine_held_bytes",
                "Memory of records that were read from the log and that no get has taken.",
                self.log.held_bytes() as u64,
            ),
            gauge(
                "memory_engine_unplaced_commits",
                "Commits whose place in the log is not known yet.",
                self.unplaced.len() as u64,
            ),
            gauge(
                "memory_engine_uncollected_rows",
                "Rows with versions that wait to be collected.",
                self.collector.len() as u64,
            ),
            gauge(
                "memory_engine_uncollected_bytes",
                "Memory of versions that wait to be collected, estimated from a sample of the rows.",
                self.uncollected_bytes(),
            ),
            gauge(
                "memory_engine_watermark_csn",
                "The commit up to which only the newest version of each row is kept.",
                self.pins.watermark().0,
            ),
        ];
        metrics.extend(self.count_metrics());
        metrics
    }

    fn large_page_bytes(&self, tables: &Tables) -> u64 {
        let arrays: usize = tables.values().map(|table| table.rows.large_bytes()).sum();
        (self.store.slabs.large_bytes() + self.nodes.large_bytes() + arrays) as u64
    }

    fn count_metrics(&self) -> Vec<Metric> {
        let figure =
            |name, help, value: u64| Metric { name, help, counter: true, value: value as f64 };
        let count =
            |name, help, value: &AtomicU64| figure(name, help, value.load(Ordering::Relaxed));
        let counts = &self.counts;
        let [read, prefetched, read_ahead] = self.log.counts();
        let (begun, shared) = self.async_reads.begun_and_shared();
        vec![
            figure("memory_engine_log_reads_total", "Rows that were read from the log.", read),
            figure(
                "memory_engine_prefetched_total",
                "Of these, rows read together for several gets.",
                prefetched,
            ),
            figure(
                "memory_engine_read_ahead_total",
                "Of these, rows that scans read together.",
                read_ahead,
            ),
            figure(
                "memory_engine_reads_begun_total",
                "Asynchronous reads of rows for waiting statements.",
                begun,
            ),
            figure(
                "memory_engine_reads_shared_total",
                "Statements that joined an asynchronous read in progress.",
                shared,
            ),
            count("memory_engine_evicted_total", "Rows that left memory.", &counts.evicted),
            count(
                "memory_engine_collected_total",
                "Versions and rows that were collected in the background.",
                &counts.collected,
            ),
            count("memory_engine_checkpoints_total", "Checkpoints.", &counts.checkpoints),
            count(
                "memory_engine_checkpoint_bytes_total",
                "Bytes that checkpoints wrote.",
                &counts.checkpoint_bytes,
            ),
            count(
                "memory_engine_compacted_bytes_total",
                "Bytes that log compaction wrote.",
                &counts.compacted_bytes,
            ),
            count(
                "memory_engine_released_segments_total",
                "Kept segments that were removed.",
                &counts.released,
            ),
        ]
    }
}

impl std::fmt::Debug for MemoryEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryEngine").field("tables", &self.tables()).finish_non_exhaustive()
    }
}
