//! The transaction manager: starts transactions, and maintains the log and the spilled rows.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use spillway_base::budget::Budget;
use spillway_base::clock::Clock;
use spillway_base::engine::{Access, Horizon};
use spillway_base::lock::Mutex;
use spillway_base::{Csn, ErrorKind, Result, TableId, thread};

use crate::engines::Engines;
use crate::options::{Durability, Frees, Isolation, TransactionOptions};
use crate::pipeline::Pipeline;
use crate::record::Note;
use crate::reserve::Reserve;
use crate::shared::{ManagerSettings, Shared, is_full};
use crate::snapshots::{LiveSnapshot, Pin, Snapshots};
use crate::transaction::{CancelHandle, Transaction};

/// The horizon of a database that is being opened. The engines are opened with it first, and then
/// the manager is.
#[derive(Clone)]
pub struct HorizonHandle(pub(crate) Arc<Snapshots>, Arc<Mutex<Option<Pin>>>);

impl HorizonHandle {
    /// The horizon of a new database.
    #[must_use]
    pub fn new() -> HorizonHandle {
        let snapshots = Snapshots::new();
        // No engine may drop a deletion until the overlays are attached (SPILL-5).
        let pin = snapshots.pin(Csn::ZERO);
        HorizonHandle(snapshots, Arc::new(Mutex::new(Some(pin))))
    }

    /// Called once the database is open and has pinned the old versions that it needs.
    pub(crate) fn opened(&self) {
        if let Some(pin) = self.1.lock().take() {
            self.0.unpin(pin);
        }
    }

    /// The horizon, for engines.
    #[must_use]
    pub fn horizon(&self) -> Arc<dyn Horizon> {
        self.0.clone()
    }
}

impl Default for HorizonHandle {
    fn default() -> HorizonHandle {
        HorizonHandle::new()
    }
}

/// The transaction manager. Cheap to clone.
#[derive(Clone)]
pub struct TransactionManager(pub(crate) Arc<Shared>);

impl TransactionManager {
    pub(crate) fn new(
        settings: ManagerSettings,
        engines: Engines,
        pipeline: Pipeline,
        reserve: Reserve,
        budget: Budget,
        clock: Clock,
    ) -> TransactionManager {
        let shared = Shared::new(settings, engines, pipeline, reserve, budget, clock);
        TransactionManager(Arc::new(shared))
    }

    /// Starts a transaction.
    #[must_use]
    #[inline]
    pub fn begin(&self, options: TransactionOptions) -> Transaction {
        Transaction::new(self.0.clone(), options, None)
    }

    /// Reads a key into `value` in its own transaction, with these options. Returns whether the key
    /// exists.
    ///
    /// The result is that of [`Transaction::get`] in a transaction that then ends. It is cheaper:
    /// it creates no transaction, and reads at a CSN that is not registered as a snapshot
    /// ([`spillway_base::engine`], E13). If versions that it may see were dropped at the same time,
    /// it repeats the read in a transaction.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    #[inline]
    pub fn get(
        &self,
        options: TransactionOptions,
        table: TableId,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        match self.recall(options, table, key, (Csn::ZERO, Access::Blocking), value)? {
            Some(found) => Ok(found),
            None => self.begin(options).get(table, key, value),
        }
    }

    /// As [`TransactionManager::get`], if the read needs no transaction. Returns `None` if it needs
    /// one, or if it would not see the commit `since`.
    ///
    /// # Errors
    /// As [`Transaction::get_with`], with this `access`.
    #[inline]
    pub fn recall(
        &self,
        options: TransactionOptions,
        table: TableId,
        key: &[u8],
        (since, access): (Csn, Access),
        value: &mut Vec<u8>,
    ) -> Result<Option<bool>> {
        let shared = &self.0;
        if options.isolation == Isolation::Serializable {
            // A SERIALIZABLE read must be registered.
            return Ok(None);
        }
        let Some(quiet) = shared.overlays.quiet() else { return Ok(None) };
        // The snapshot that a transaction without locks would take.
        let snapshot = match options.durability.unwrap_or(shared.settings.durability) {
            Durability::Commit => shared.snapshots.stable_csn(),
            Durability::Within(_) | Durability::Relaxed => shared.snapshots.installed.prefix(),
        };
        if snapshot < since {
            return Ok(None);
        }
        let engine = shared.engines.of(table)?;
        let Some(found) = engine.recall(table, key, snapshot, access, value)? else {
            return Ok(None);
        };
        if shared.overlays.quiet() != Some(quiet) {
            return Ok(None);
        }
        if !found.is_value() {
            value.clear();
        }
        Ok(Some(found.is_value()))
    }

    /// Starts a transaction whose waits `cancel` cancels. It is for a caller that runs several
    /// transactions in sequence and cancels them through one handle. The previous transaction must
    /// have ended. A cancellation that ended no wait of the previous transaction ends the first
    /// wait of this one, unless it is withdrawn ([`CancelHandle::clear`]).
    #[must_use]
    #[inline]
    pub fn begin_with(&self, options: TransactionOptions, cancel: &CancelHandle) -> Transaction {
        let mut transaction = self.spare(cancel);
        transaction.begin_again(options);
        transaction
    }

    /// A transaction that has ended, for [`Transaction::begin_again`].
    #[must_use]
    pub fn spare(&self, cancel: &CancelHandle) -> Transaction {
        Transaction::spare(self.0.clone(), cancel)
    }

    /// The engines.
    #[must_use]
    pub fn engines(&self) -> &Engines {
        &self.0.engines
    }

    /// Starts the threads, one for each lane, that flush commits for which no thread waits. Without
    /// them, as in a simulation, such a commit becomes durable with the next commit that a thread
    /// waits for, or at [`TransactionManager::flush`].
    ///
    /// # Errors
    /// [`ErrorKind::MemoryFull`] when the system refuses a thread.
    pub fn start_flusher(&self) -> Result<()> {
        let mut threads = Vec::new();
        for index in 0..self.0.pipeline.flushers.count() {
            let shared = self.0.clone();
            let run = move || shared.pipeline.run_flusher(index, || shared.clock.now());
            threads.push(thread::spawn(format!("log-flush-{index}"), run)?);
        }
        self.0.pipeline.flushers.started(threads);
        Ok(())
    }

    /// Makes every commit ordered so far durable.
    ///
    /// # Errors
    /// [`ErrorKind::WritesStopped`].
    pub fn flush(&self) -> Result<()> {
        self.0.pipeline.flush()
    }

    /// Flushes a lane of the log that has commits which are not durable, unless other threads flush
    /// all such lanes. It is for a thread that has nothing else to do. Returns `false` if there was
    /// nothing to do.
    pub fn lead_flush(&self) -> bool {
        self.0.pipeline.try_flush()
    }

    /// Enables asynchronous reads in the engines from now on, for transactions that leave their
    /// reads ([`crate::Transaction::leave_reads`]). Returns file descriptors that become readable
    /// when reads have completed. Each time one becomes readable, the caller must call
    /// [`TransactionManager::end_reads`]. The result is empty if no engine supports asynchronous
    /// reads.
    #[must_use]
    pub fn overlap_reads(&self) -> Vec<OwnedFd> {
        let descriptors: Vec<OwnedFd> =
            self.0.engines.iter().flat_map(|engine| engine.overlap_reads()).collect();
        if !descriptors.is_empty() {
            self.0.overlaps_reads.store(true, Ordering::Relaxed);
        }
        descriptors
    }

    /// Whether reads are queued for [`TransactionManager::submit_reads`].
    #[must_use]
    pub fn keeps_reads(&self) -> bool {
        self.0.engines.iter().any(|engine| engine.keeps_reads())
    }

    /// Submits the reads that were begun and queued. Returns `false` if the caller must call it
    /// again soon.
    pub fn submit_reads(&self) -> bool {
        self.0.engines.iter().filter(|engine| !engine.submit_reads()).count() == 0
    }

    /// Takes completed reads into memory and calls the wakers of the statements that left for them.
    pub fn end_reads(&self) {
        self.0.engines.iter().for_each(|engine| engine.end_reads());
    }

    /// Does one piece of the work that transactions with spilled writes leave behind: folds their
    /// writes into the tables, and deletes spilled rows that are no longer needed. Returns `false`
    /// if there is no work now.
    ///
    /// # Errors
    /// Fails as a commit does. The next call tries the failed step again.
    pub fn fold_step(&self) -> Result<bool> {
        self.0.fold_step()
    }

    /// The number of committed transactions with writes that are not yet in their tables.
    #[must_use]
    pub fn overlays(&self) -> usize {
        self.0.overlays.count()
    }

    /// Cuts the log up to the CSN up to which all engines' own files have all commits. Asks the
    /// engines to persist more if the log is long. An engine that lags or has failed holds the cut
    /// back only at the oldest segment with commits to its tables that its files may lack.
    ///
    /// # Errors
    /// [`ErrorKind::WritesStopped`], [`ErrorKind::Io`], or the failure of an engine.
    pub fn truncate_log(&self) -> Result<()> {
        let shared = &self.0;
        // An engine may count a commit as persistent once it knows the places of the commit's rows.
        shared.pipeline.tell_all_places();
        // The stable CSN is read before the engines' figures. So the figures take each commit up to
        // that CSN into account.
        let stable = shared.snapshots.stable_csn();
        let persisted = shared.pipeline.persisted(stable, shared.engines.persisted());
        // Read last, so that it takes into account what made the commits persistent.
        let note = Note { persisted, recorded: shared.engines.recorded() };
        let holds = shared.log_holds.lock();
        let truncated = if *holds == 0 {
            let mut truncated = shared.pipeline.truncate(note);
            // The cut frees space, so it may use the reserve for its note.
            if is_full(&truncated) && shared.reserve.give(Frees::Tables) {
                truncated = shared.pipeline.truncate(note);
            }
            if is_full(&truncated) { Ok(()) } else { truncated }
        } else {
            shared.pipeline.health()
        };
        drop(holds);
        if let Some(csn) = shared.pipeline.persist_target(shared.settings.log_bytes_max) {
            shared.engines.iter().for_each(|engine| engine.request_persist(csn));
        }
        let meets_full_disk = shared.engines_meet_full_disk();
        if meets_full_disk {
            shared.reserve.met_full_disk();
        }
        // The commit that dropped a table may itself have found room.
        let lacks = || shared.reserve.lacks_room() || shared.needs_segments_space();
        let seeks =
            shared.reserve.has_hope(shared.clock.now()) && (shared.reserve.is_full() || lacks());
        if seeks {
            shared.seek_space();
            // An engine may need a little space to free what a commit has released.
            if meets_full_disk {
                shared.reserve.give(Frees::Rows);
            }
        } else if shared.reserve.is_full() {
            // The engines flush no memtables: such flushes would make many small files, and free
            // slots are enough to make the reserve whole.
            shared.engines.iter().for_each(|engine| engine.give_space());
        }
        // This comes after the cut, which may have left a file to reuse. A full disk is no error
        // here: a commit that finds no room reports that itself. The log does not take the space
        // that an engine was given, or will need (RESERVE-7).
        shared.look_at_space();
        let takes_none = meets_full_disk || shared.needs_segments_space();
        let prepared = if takes_none { Ok(()) } else { shared.pipeline.prepare() };
        let prepared = match prepared {
            Err(error) if error.kind() == ErrorKind::DiskFull => Ok(()),
            prepared => prepared,
        };
        truncated.and(prepared)?;
        shared.engines.iter().try_for_each(|engine| engine.health())
    }

    /// Every commit up to this one is durable and visible.
    #[must_use]
    pub fn stable(&self) -> Csn {
        self.0.snapshots.stable_csn()
    }

    /// The CSN of the oldest open snapshot. If no snapshot is open, the CSN that the next one would
    /// have.
    #[must_use]
    pub fn oldest_snapshot(&self) -> Csn {
        let mut live = Vec::new();
        self.0.snapshots.live_snapshots(&mut live);
        live.first().copied().unwrap_or_else(|| self.stable())
    }

    /// The snapshots of open transactions, the oldest first.
    #[must_use]
    pub fn readers(&self) -> Vec<LiveSnapshot> {
        self.0.snapshots.readers()
    }

    /// Returns an error if no more writes are accepted, and why.
    ///
    /// # Errors
    /// [`ErrorKind::WritesStopped`], or the failure of an engine.
    pub fn health(&self) -> Result<()> {
        self.0.pipeline.health()?;
        self.0.engines.iter().try_for_each(|engine| engine.health())
    }

    /// Refuses new commits, and makes the commits in progress durable. Afterwards the engines that
    /// want the places of commits know all of them.
    ///
    /// # Errors
    /// [`ErrorKind::WritesStopped`].
    pub fn close(&self) -> Result<()> {
        self.0.closed.store(true, Ordering::Release);
        self.0.pipeline.flushers.end();
        self.0.pipeline.close()?;
        // Waits for the installs of all commits: only then is every commit stable, and its place
        // reported.
        self.0.newest();
        self.0.pipeline.advance();
        self.0.pipeline.tell_all_places();
        Ok(())
    }
}
