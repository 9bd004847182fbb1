//! Chooses the next background job, and runs jobs in threads.
//!
//! In production, threads call [`TieredEngine::run_background_job`] in a loop, and sleep on a
//! condition variable when no job is due. A simulation calls it from its own thread, so that the
//! order of jobs is deterministic.

use std::sync::Arc;
use std::time::Duration;

use spillway_base::budget::Use;
use spillway_base::clock;
use spillway_base::thread::JoinHandle;
use spillway_base::{Csn, Error, ErrorKind, Result, thread};

use super::pace::NO_REST;
use super::wakeups::Turn;
use super::{ADMIT_WAIT, Inner, TieredEngine};
use crate::subtable::SubTable;

/// The result of [`TieredEngine::run_background_job`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum JobOutcome {
    /// A job ran; there may be more.
    Worked,
    /// No job is due.
    Idle,
}

/// Sleep of a thread whose work must wait until a commit becomes stable or a snapshot ends. Neither
/// event wakes threads.
pub(super) const NAP: Duration = Duration::from_millis(2);
/// A thread that waits for flushes checks whether any thread is flushing. After this many checks in
/// a row without one, a [`NAP`] apart, it flushes itself.
const IDLE_LOOKS: usize = 10;
/// Sleep of a thread without work.
const LONG_NAP: Duration = Duration::from_secs(1);
/// Sleep after a full disk, until the next attempt.
const DISK_FULL_NAP: Duration = Duration::from_millis(200);

impl TieredEngine {
    /// Runs the most urgent background job on the calling thread.
    ///
    /// # Errors
    /// [`ErrorKind::DiskFull`]: nothing is lost, and a later call tries again. Any other failure
    /// stops the background work (E8).
    pub fn run_background_job(&self) -> Result<JobOutcome> {
        self.run_job(true)
    }

    fn run_job(&self, compact: bool) -> Result<JobOutcome> {
        let inner = &self.0;
        let _working = inner.working()?;
        let freed = inner.context.garbage.free_some();
        let mut outcome = inner.next_job(compact);
        if freed && matches!(outcome, Ok(JobOutcome::Idle)) {
            outcome = Ok(JobOutcome::Worked);
        }
        if let Err(error) = &outcome
            && error.kind() != ErrorKind::DiskFull
        {
            inner.fail(error);
        }
        // A waiting thread that wakes rings again. A job that did nothing would wake it for that.
        if !matches!(outcome, Ok(JobOutcome::Idle)) {
            inner.wakeups.announce_room();
        }
        inner.note_flush_space();
        if compact && outcome.is_ok() {
            inner.note_now_and_then(clock::now());
        }
        outcome
    }

    /// Flushes everything that was installed before, as far as the stable CSN allows; the flushes
    /// may include later commits. If there are background threads, these do the work, because one
    /// thread more would take a core from concurrent work. The caller helps only when writers are
    /// about to be slowed.
    ///
    /// # Errors
    /// As [`TieredEngine::run_background_job`].
    pub fn flush_all(&self) -> Result<()> {
        let inner = &self.0;
        let until = inner.horizon.stable();
        inner.flushes.request(until);
        let mut idle_looks = 0;
        // Stops at the requested CSN, so that later writes do not cause more flushes.
        while inner.tables.persisted(&*inner.horizon, &[], None) < until {
            // A background thread may be flushing now, and leave more to do.
            let beside = inner.flushes.is_running();
            idle_looks = if beside { 0 } else { idle_looks + 1 };
            let is_left = inner.leaves_flushes() && idle_looks < IDLE_LOOKS;
            let is_more = match is_left {
                true => inner.has_to_flush()?,
                false => self.run_job(false)? == JobOutcome::Worked,
            };
            if is_more && !is_left {
                idle_looks = 0;
                continue;
            }
            if !is_more && !beside && !inner.flushes.is_running() {
                return Ok(());
            }
            if is_left {
                inner.wakeups.announce_work();
            }
            inner.wakeups.wait_for_room(NAP);
        }
        Ok(())
    }

    /// Merges everything of every table into Level2.
    ///
    /// # Errors
    /// As [`TieredEngine::run_background_job`].
    pub fn compact_all(&self) -> Result<()> {
        self.flush_all()?;
        // If a sub-table is split meanwhile, its halves are new sub-tables, which are merged as
        // well.
        let mut done: Vec<Arc<SubTable>> = Vec::new();
        loop {
            let parts = self.0.tables.all_parts().into_iter();
            let next = parts
                .filter(|(table, _)| table.dropped() == Csn::MAX)
                .find(|(_, part)| !done.iter().any(|done| Arc::ptr_eq(done, part)));
            // Frees slots that the compaction may need, and that must be free at the end.
            while self.0.context.garbage.free_some() {}
            let Some((table, part)) = next else { return Ok(()) };
            self.0.compact_fully(&table, &part).inspect_err(|error| {
                if error.kind() == ErrorKind::WritesStopped {
                    self.0.fail(error);
                }
            })?;
            done.push(part);
        }
    }

    /// Ends all work on the engine's files: once this returns, no work runs, and none begins again.
    /// Reads from memory still work. Reads of files work as long as no other opening has used the
    /// space of the files again; then they fail with [`ErrorKind::Closed`].
    pub fn close(&self) {
        self.0.context.closed.close();
        let is_sound = self.0.health.check().is_ok();
        self.0.fail(&Error::new(ErrorKind::Closed, "the database has been closed"));
        self.0.wakeups.wake_threads();
        let alone = self.0.working.write();
        if is_sound {
            self.0.note();
        }
        self.0.context.garbage.end();
        self.0.locks.lock().clear();
        drop(alone);
        self.0.context.async_reads.finish();
    }

    /// Starts background threads: one that only flushes, and `threads` others that do all jobs.
    ///
    /// # Errors
    /// [`ErrorKind::MemoryFull`] when the system refuses a thread.
    pub fn start_background(&self, threads: usize) -> Result<Background> {
        let mut background = Background { engine: self.clone(), threads: Vec::new() };
        self.0.wakeups.add_group();
        for number in 0..=threads.max(1) {
            let engine = self.clone();
            let name = if number == 0 { "flush".to_owned() } else { format!("compact-{number}") };
            let thread = thread::spawn(name, move || engine.background_loop(number != 0))?;
            background.threads.push(thread);
        }
        Ok(background)
    }

    fn background_loop(&self, compact: bool) {
        let inner = &self.0;
        let mut has_failed = false;
        loop {
            let announced = inner.wakeups.announced();
            let outcome = self.run_job(compact);
            let goes_on = inner.wakeups.end_turn(announced, |is_announced| match outcome {
                Ok(JobOutcome::Worked) => Turn::Work,
                Ok(JobOutcome::Idle) if is_announced => Turn::Work,
                Ok(JobOutcome::Idle) if inner.tables.has_work_later() => Turn::Sleep(NAP),
                Ok(JobOutcome::Idle) => {
                    let wait = inner.space_return.wait(clock::now());
                    Turn::Sleep(wait.map_or(LONG_NAP, |wait| wait.min(LONG_NAP)))
                }
                Err(error) if error.kind() == ErrorKind::DiskFull => Turn::Sleep(DISK_FULL_NAP),
                Err(_) => {
                    has_failed = true;
                    Turn::End
                }
            });
            if has_failed {
                inner.context.garbage.end();
            }
            if !goes_on {
                return;
            }
        }
    }

    /// Waits until the memtables have room again.
    pub(super) fn wait_for_room(&self, bytes: usize) -> Result<()> {
        let wait = || self.await_room(bytes);
        self.0.statistics.during_memory_wait(wait)
    }

    /// See [`spillway_base::engine::Engine::await_memory`].
    pub(super) fn wait_for_memory(&self, fits: &mut dyn FnMut() -> bool) -> bool {
        let inner = &self.0;
        let wait = || {
            let started = clock::now();
            loop {
                if fits() {
                    return true;
                }
                inner.wakeups.announce_work();
                // Without background threads, the caller does the work.
                let alone = inner.wakeups.is_alone();
                if alone && self.run_job(true).is_ok_and(|outcome| outcome == JobOutcome::Worked) {
                    continue;
                }
                // Flushes and compactions free the memory that they hold. So does a flush that is
                // due.
                let holds_memory = inner.flushes.is_running()
                    || inner.write_buffer.accounts().budget.used_for(Use::Compactions) > 0
                    || inner.tables.has_sealed_memtables();
                let ends = !holds_memory || inner.health.check().is_err();
                if alone || ends || clock::now() - started > ADMIT_WAIT {
                    // Extents that were held may have become free since.
                    return fits();
                }
                thread::blocking(|| inner.wakeups.wait_for_room(NAP));
            }
        };
        inner.statistics.during_memory_wait(wait)
    }

    fn await_room(&self, bytes: usize) -> Result<()> {
        let inner = &self.0;
        let limit = inner.write_buffer.limit();
        let started = clock::now();
        loop {
            inner.wakeups.announce_work();
            inner.health.check()?;
            if inner.write_buffer.has_room(bytes, limit.max(2 * bytes)) {
                return Ok(());
            }
            // Without background threads, as in a simulation, the caller does the work.
            let alone = inner.wakeups.is_alone();
            if alone && self.run_job(true).is_ok_and(|outcome| outcome == JobOutcome::Worked) {
                continue;
            }
            if inner.flushes.met_full_disk() {
                return Err(Error::new(
                    ErrorKind::DiskFull,
                    "the disk is full, so memory cannot be written out; free space to go on",
                ));
            }
            inner.health.check()?;
            if alone || clock::now() - started > ADMIT_WAIT {
                return Err(Error::new(
                    ErrorKind::MemoryFull,
                    format!(
                        "the memtables' {limit} bytes are full, and no flush made room; try again \
                         later, or raise --memory"
                    ),
                ));
            }
            thread::blocking(|| inner.wakeups.wait_for_room(NAP));
        }
    }
}

/// The background threads of an engine. Dropping this stops them after their current job.
pub struct Background {
    engine: TieredEngine,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Background {
    fn drop(&mut self) {
        let threads = self.threads.drain(..);
        self.engine.0.wakeups.stop(|| {
            // The panic hook has reported a panic.
            threads.for_each(|thread| drop(thread.join()));
        });
    }
}

impl Inner {
    fn next_job(&self, compact: bool) -> Result<JobOutcome> {
        // A job that fails with a full disk does not keep other jobs from freeing space.
        let mut full = None;
        let mut unless_full = |worked: Result<bool>| match worked {
            Err(error) if error.kind() == ErrorKind::DiskFull => {
                full = Some(error);
                Ok(false)
            }
            worked => worked,
        };
        let worked = unless_full(self.record_tables())?
            || unless_full(self.reap_tables())?
            || (compact && self.persistence.rewrite_long_manifest(&self.health)?)
            || self.write_buffer.seal_due(&self.tables, self.flushes.requested())
            || (self.wants_flush(compact) && unless_full(self.flush_one())?)
            || (compact && unless_full(self.repartition())?)
            || (compact && unless_full(self.compact_one())?)
            || (compact && unless_full(self.move_some())?)
            || self.return_space();
        self.health.note_job(full.is_some());
        match (worked, full) {
            (true, _) => Ok(JobOutcome::Worked),
            (false, Some(full)) => Err(full),
            (false, None) => Ok(JobOutcome::Idle),
        }
    }

    /// Returns free space to the file system. With background threads, it spares other work.
    fn return_space(&self) -> bool {
        let spares = self.settings.paced_compaction && !self.wakeups.is_alone();
        self.space_return.trim(&self.space, || {
            let parts = self.tables.all_parts();
            let views = parts.iter().map(|(_, part)| part.view());
            let slices = views.flat_map(|view| {
                let slices = view.levels.places().map(|(_, slice)| slice.extent.clone());
                slices.collect::<Vec<_>>()
            });
            slices.collect()
        });
        self.space_return.run(&self.space, self.settings.settle_after, spares)
    }

    /// Whether a caller leaves flushes to the background threads: writers are not about to be
    /// slowed.
    fn leaves_flushes(&self) -> bool {
        !self.wakeups.is_alone()
            && !self.flushes.met_full_disk()
            && self.write_buffer.flush_debt() < NO_REST
    }

    /// Whether a memtable could be flushed now. First seals memtables that were requested to be
    /// flushed.
    fn has_to_flush(&self) -> Result<bool> {
        let _working = self.working()?;
        let stable = self.horizon.stable();
        let is_ready = |part: &SubTable| self.flushes.ready(part, stable).is_some();
        Ok(self.write_buffer.seal_due(&self.tables, self.flushes.requested())
            || self.tables.all_parts().iter().any(|(_, part)| is_ready(part)))
    }

    /// Whether this thread should flush. While flushes are not behind, a compaction thread does not
    /// flush beside another thread, to leave cores to concurrent work.
    fn wants_flush(&self, compacts: bool) -> bool {
        let alone = self.wakeups.is_alone();
        let is_behind = || self.write_buffer.flush_debt() > 0.0;
        alone || !compacts || !self.flushes.is_running() || is_behind()
    }
}
