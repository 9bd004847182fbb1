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
use crate::reserve::Reserve;
use crate::shared::{ManagerSettings, Shared, is_full};
use crate::snapshots::{LiveSnapshot, Pin, Snapshots};
use crate::transaction::{CancelHandle, Transaction};

/// The horizon of a database that is being opened: engines are opened with it, then the manager.
#[derive(Clone)]
pub struct HorizonHandle(pub(crate) Arc<Snapshots>, Arc<Mutex<Option<Pin>>>);

impl HorizonHandle {
    /// The horizon of a new database.
    #[must_use]
    pub fn new() -> HorizonHandle {
        let snapshots = Snapshots::new();
        // Until overlays are attached, no deletion is forgotten (SPILL-5).
        let pin = snapshots.pin(Csn::ZERO);
        HorizonHandle(snapshots, Arc::new(Mutex::new(Some(pin))))
    }

    /// The database is open: what it needs of old versions it has pinned by itself.
    pub(crate) fn opened(&self) {
        if let Some(pin) = self.1.lock().take() {
            self.0.unpin(pin);
        }
    }

    /// For engines.
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

    /// Reads a key into `value` in a transaction of its own, with these options; answers whether it
    /// is there.
    ///
    /// The result is that of [`Transaction::get`] in a transaction that then ends. It is cheaper:
    /// it makes no transaction, and does not register its snapshot ([`spillway_base::engine`],
    /// E13), unless versions that it may see were dropped just then.
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

    /// As [`TransactionManager::get`], where no transaction is needed for it; `None` where one is,
    /// and where it would not see the commit `since`.
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
            // Others must know what it read.
            return Ok(None);
        }
        let Some(quiet) = shared.overlays.quiet() else { return Ok(None) };
        // As a transaction that has locked nothing takes it.
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

    /// Starts a transaction whose waits `cancel` cancels: for who runs one after another, and is to
    /// be reached by the same handle. The one before must have ended. A cancellation that met no
    /// wait of that one meets this one's first, unless it is taken back ([`CancelHandle::clear`]).
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

    /// Starts the threads, one for each lane, that flush commits for which nobody waits. Without
    /// them, as in a simulation, they become durable with the next commit that is waited for, or at
    /// [`TransactionManager::flush`].
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

    /// Writes to the log what is ordered and not durable, unless another thread does already. For a
    /// thread that has nothing else to do. `false` when there was nothing to do.
    pub fn lead_flush(&self) -> bool {
        self.0.pipeline.try_flush()
    }

    /// Has the engines read beside who needs what they read, from now on, where transactions leave
    /// such reads ([`crate::Transaction::leave_reads`]). Answers what is readable when some are
    /// over, for [`TransactionManager::end_reads`] to be called then, each time that one has become
    /// so; nothing where no engine can.
    #[must_use]
    pub fn overlap_reads(&self) -> Vec<OwnedFd> {
        let descriptors: Vec<OwnedFd> =
            self.0.engines.iter().flat_map(|engine| engine.overlap_reads()).collect();
        if !descriptors.is_empty() {
            self.0.overlaps_reads.store(true, Ordering::Relaxed);
        }
        descriptors
    }

    /// Whether [`TransactionManager::submit_reads`] has something to hand over.
    #[must_use]
    pub fn keeps_reads(&self) -> bool {
        self.0.engines.iter().any(|engine| engine.keeps_reads())
    }

    /// Hands over to devices what was begun and kept. `false` where it is to be called again soon.
    pub fn submit_reads(&self) -> bool {
        self.0.engines.iter().filter(|engine| !engine.submit_reads()).count() == 0
    }

    /// Takes what was read into memory, and calls those who have left for it.
    pub fn end_reads(&self) {
        self.0.engines.iter().for_each(|engine| engine.end_reads());
    }

    /// Does one piece of the work that transactions leave behind which wrote more than memory
    /// holds: their writes go into the tables, and what nobody needs is deleted. `false` when there
    /// is none to do now.
    ///
    /// # Errors
    /// Fails as a commit does. The next call tries the failed step again.
    pub fn fold_step(&self) -> Result<bool> {
        self.0.fold_step()
    }

    /// How many committed transactions have writes that are not yet in their tables.
    #[must_use]
    pub fn overlays(&self) -> usize {
        self.0.overlays.count()
    }

    /// Cuts the log where the engines' own files have it all, and asks the engines for more when it
    /// is long. An engine that lags, or has failed, keeps the log only from the oldest segment on
    /// if the log has commits of its tables that its files may lack.
    ///
    /// # Errors
    /// [`ErrorKind::WritesStopped`], [`ErrorKind::Io`], or the failure of an engine.
    pub fn truncate_log(&self) -> Result<()> {
        let shared = &self.0;
        // An engine may count as persistent what it knows the place of.
        shared.pipeline.tell_all_places();
        // Before the figures: what an engine has by them then holds of each commit up to here.
        let stable = shared.snapshots.stable_csn();
        let persisted = shared.pipeline.persisted(stable, shared.engines.persisted());
        let holds = shared.log_holds.lock();
        let truncated = if *holds == 0 {
            let mut truncated = shared.pipeline.truncate(persisted);
            // The cut frees space.
            if is_full(&truncated) && shared.reserve.give(Frees::Tables) {
                truncated = shared.pipeline.truncate(persisted);
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
        if shared.reserve.has_hope(shared.clock.now()) && shared.reserve.is_full() {
            shared.seek_space();
            // An engine may need a little space to free what a commit has let go of.
            if meets_full_disk {
                shared.reserve.give(Frees::Rows);
            }
        } else if shared.reserve.is_full() {
            // Flushes would make many small files here. Free slots are enough to make the reserve
            // whole.
            shared.engines.iter().for_each(|engine| engine.give_space());
        }
        // After the cut, which may have left a file to use again. A commit that finds no room says
        // so itself.
        let prepared = match shared.pipeline.prepare() {
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

    /// The commit as of which the oldest open snapshot reads; where none is open, the one as of
    /// which the next would.
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

    /// Why no more writes are accepted, if so.
    ///
    /// # Errors
    /// [`ErrorKind::WritesStopped`], or the failure of an engine.
    pub fn health(&self) -> Result<()> {
        self.0.pipeline.health()?;
        self.0.engines.iter().try_for_each(|engine| engine.health())
    }

    /// Refuses new commits, and makes those under way durable. The engines that want the places of
    /// commits have those of all.
    ///
    /// # Errors
    /// [`ErrorKind::WritesStopped`].
    pub fn close(&self) -> Result<()> {
        self.0.closed.store(true, Ordering::Release);
        self.0.pipeline.flushers.end();
        self.0.pipeline.close()?;
        // Until what is ordered is installed, it is not stable.
        self.0.newest();
        self.0.pipeline.advance();
        self.0.pipeline.tell_all_places();
        Ok(())
    }
}
