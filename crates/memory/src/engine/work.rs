//! Runs the engine's background work, and implements [`spillway_base::managed`] for the database.

use std::sync::Arc;
use std::time::Duration;

use spillway_base::clock::Clock;
use spillway_base::engine::Engine;
use spillway_base::managed::{BackgroundThreads, ManagedEngine, TableSize};
use spillway_base::sync::atomic::{AtomicBool, Ordering};
use spillway_base::{Csn, ErrorKind, Result, TableId, thread};

use super::inner::{Inner, MemoryEngine};

/// How often the background thread looks for work without a request.
const NAP: Duration = Duration::from_millis(20);
/// As [`NAP`], after a round of work met a full disk.
const FULL_DISK_NAP: Duration = Duration::from_millis(250);
/// While there are commits, which cause checkpoints, kept segments without live rows may take the
/// allowed space divided by this.
const WAITING_SHARE: u64 = 8;

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
        if self.persisted() < self.0.pins.stable() || self.0.segments.bytes_waiting() > 0 {
            self.0.checkpoint()?;
        }
        Ok(())
    }

    fn compact_all(&self) -> Result<()> {
        let _running = self.0.work.running.lock();
        self.0.settle_once()?;
        self.0.keys().load_all(&self.0.tables)?;
        self.0.rows().collect_all();
        self.0.checkpoint()?;
        while self.0.log_compaction().compact()? {
            self.0.checkpoint()?;
        }
        Ok(())
    }

    fn table_size(&self, table: TableId) -> TableSize {
        let tables = self.0.tables.load();
        tables
            .get(&table)
            .map_or_else(TableSize::default, |table| self.0.reader().table_size(table))
    }

    fn close(&self) {
        self.0.work.closed.close();
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

    pub(super) fn settle_once(&self) -> Result<()> {
        if !self.work.settled.load(Ordering::SeqCst) {
            self.checkpoint_files().settle()?;
            self.work.settled.store(true, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Does one round of work. Returns whether there was any.
    fn job(&self) -> Result<bool> {
        let _running = self.work.running.lock();
        if self.work.is_closed() {
            return Ok(false);
        }
        self.health.check()?;
        if self.settings.large_pages {
            self.page_collapse.run(Clock::system().now(), &self.tables, &self.store.slabs);
        }
        self.space_check().note();
        let worked = self.work_once();
        self.space_check().note();
        let is_full = worked.as_ref().is_err_and(|error| error.kind() == ErrorKind::DiskFull);
        self.work.met_full_disk.store(is_full, Ordering::Release);
        // The next round tries again.
        if is_full { Ok(false) } else { worked }
    }

    fn work_once(&self) -> Result<bool> {
        let mut checkpoint = Ok(());
        if self.needs_checkpoint() {
            let before = self.checkpoints.recorded();
            checkpoint = self.checkpoint();
            self.work.note_checkpoint(&checkpoint);
            match &checkpoint {
                Ok(()) => return Ok(self.checkpoints.recorded() > before),
                // The dropped rows of the rest of this round make the next checkpoint smaller.
                Err(error) if error.kind() == ErrorKind::DiskFull => {}
                Err(error) => return Err(error.clone()),
            }
        } else {
            self.work.note_checkpoint(&checkpoint);
        }
        match self.keys().load_some(&self.tables, &self.work) {
            Ok(false) => {}
            Ok(true) => return Ok(true),
            Err(error) => {
                self.health.record(&error);
                return Err(error);
            }
        }
        self.segments.note_kept_if_changed()?;
        let mut worked = self.rows().collect_all();
        worked |= self.removal().fold_ranges();
        worked |= self.removal().drop_tables();
        checkpoint?;
        worked |= self.release_dead()?;
        worked |= self.return_space()?;
        let compacted = self.log_compaction().compact();
        if let Err(error) = &compacted
            && error.kind() != ErrorKind::DiskFull
        {
            self.health.record(error);
        }
        Ok(worked | compacted?)
    }

    /// Whether a requested commit is persistent only after a checkpoint. Commits to other engines'
    /// tables need none.
    fn needs_checkpoint(&self) -> bool {
        self.checkpoints.requested() > self.checkpoints.persisted(&self.pins)
    }

    /// If space is sought, returns the space of dead pages of kept segments (HOLE-1 to HOLE-5). If
    /// there are none, log compaction makes some. Returns whether there were any.
    pub(super) fn return_space(&self) -> Result<bool> {
        if !self.work.seeks_space.swap(false, Ordering::AcqRel) {
            return Ok(false);
        }
        let holes = self.holes();
        let mut dead = holes.find();
        let compacted = dead.is_empty() && self.log_compaction().compact_into_room()?;
        if compacted {
            dead = holes.find();
            // There may be more.
            self.work.seeks_space.store(true, Ordering::Release);
        }
        if dead.is_empty() && !compacted {
            return Ok(false);
        }
        Ok(self.checkpoint_if(|_, _| true)? && (holes.punch(&dead) || compacted))
    }

    /// Releases segments without live rows. Segments that lost their last row after the last
    /// checkpoint wait for the next one. It is written here if they take much space, or if there
    /// are no commits that would cause it (MEMORY-4). Returns whether any segment was released.
    fn release_dead(&self) -> Result<bool> {
        let before = self.counts.released.load(Ordering::Relaxed);
        let has_commits = self.checkpoints.lacks_commits();
        let waiting = self.segments.bytes_waiting();
        let (_, live) = self.segments.kept_bytes();
        if waiting > 0
            && (!has_commits || waiting > self.settings.space_allowed(live) / WAITING_SHARE)
        {
            self.checkpoint()?;
        } else if self.segments.has_dead() {
            self.checkpoint_files().remove_files(&self.checkpoints.last())?;
        }
        Ok(self.counts.released.load(Ordering::Relaxed) > before)
    }
}

impl std::fmt::Debug for MemoryEngine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryEngine").field("tables", &self.tables()).finish_non_exhaustive()
    }
}
