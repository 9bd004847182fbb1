//! The transaction manager: what transactions of a database share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use spillway_base::batch::WriteBatch;
use spillway_base::budget::Budget;
use spillway_base::clock::Clock;
use spillway_base::engine::{Engine, Horizon, Metric};
use spillway_base::stall::Cause;
use spillway_base::{Csn, EngineKind, Error, ErrorKind, Result, TableId, thread};

use crate::lane::{self, Lane, Room};
use crate::locks::Locks;
use crate::options::{Durability, TransactionOptions};
use crate::serializable::Serializable;
use crate::snapshots::Snapshots;
use crate::stalls::Stalls;
use crate::throttle::{SLIGHT, Throttle};
use crate::transaction::Transaction;

/// What all transactions of a database have in common.
#[derive(Clone, Debug)]
pub struct ManagerSettings {
    /// When a commit is acknowledged, unless its transaction says otherwise.
    pub durability: Durability,
    /// How long a transaction waits for a lock, unless it says otherwise.
    pub lock_wait: Duration,
    /// Bytes that one transaction may write.
    pub transaction_bytes_max: usize,
    /// Bytes of log past which the engines are asked to write what it holds.
    pub log_bytes_max: u64,
}

/// The horizon of a database that is being opened: engines are opened with it, then the manager.
#[derive(Clone)]
pub struct HorizonHandle(pub(crate) Arc<Snapshots>);

impl HorizonHandle {
    /// The horizon of a new database.
    #[must_use]
    pub fn new() -> HorizonHandle {
        HorizonHandle(Snapshots::new())
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

/// The engines of a database, by kind.
#[derive(Clone, Default)]
pub struct Engines {
    engines: Vec<Arc<dyn Engine>>,
}

impl Engines {
    /// These engines, at most one of each kind.
    #[must_use]
    pub fn new(engines: Vec<Arc<dyn Engine>>) -> Engines {
        Engines { engines }
    }

    /// The engine of this kind.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when the database has none.
    pub fn of_kind(&self, kind: EngineKind) -> Result<&Arc<dyn Engine>> {
        self.engines.iter().find(|engine| engine.kind() == kind).ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("this database has no {kind:?} engine"))
        })
    }

    /// The engine that keeps this table.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] when the database has none.
    pub fn of(&self, table: TableId) -> Result<&Arc<dyn Engine>> {
        let Some(kind) = table.engine() else {
            return Err(Error::new(ErrorKind::NotFound, format!("{table:?} has no known engine")));
        };
        self.of_kind(kind)
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Engine>> {
        self.engines.iter()
    }

    /// What the engines' own files hold, at an opening, before anything is installed.
    pub(crate) fn reopened_at(&self) -> Csn {
        self.iter().map(|engine| engine.persisted()).max().unwrap_or(Csn::ZERO)
    }

    /// Every commit up to this one is in the engines' own files.
    pub(crate) fn persisted(&self) -> Csn {
        self.iter().map(|engine| engine.persisted()).min().unwrap_or(Csn::MAX)
    }
}

struct Flusher {
    due: Mutex<Option<Duration>>,
    changed: Condvar,
    stop: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
}

pub(crate) struct Shared {
    pub(crate) settings: ManagerSettings,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) engines: Engines,
    pub(crate) lane: Lane,
    pub(crate) locks: Locks,
    pub(crate) serializable: Serializable,
    pub(crate) budget: Budget,
    pub(crate) clock: Clock,
    throttle: Throttle,
    pub(crate) stalls: Stalls,
    transactions_next: AtomicU64,
    closed: AtomicBool,
    flusher: Flusher,
}

impl Shared {
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(lane::closed());
        }
        Ok(())
    }

    /// Has what is ordered made durable where the engines are behind by more than this: they write, and so make room,
    /// only of what is durable, and commits that nobody waits for are flushed later.
    fn make_room(&self, debt: f64) -> Result<()> {
        let behind = self.engines.iter().any(|engine| engine.debt().flush > debt);
        if !behind || !self.lane.has_unflushed() {
            return Ok(());
        }
        if self.flusher.thread.lock().is_some() {
            self.flush_within(Duration::ZERO);
            return Ok(());
        }
        self.lane.flush()
    }

    /// Makes sure that a batch can be logged and installed. It waits only where memory or the log have no room; what slows
    /// writers before that is [`Shared::slow_down`].
    pub(crate) fn admit(&self, batch: &WriteBatch, durability: Durability) -> Result<Room<'_>> {
        self.check_open()?;
        // Most who asked for durability wait for it, and flush by that.
        self.make_room(if durability == Durability::Commit { SLIGHT } else { 0.0 })?;
        let bytes = batch.as_bytes().len();
        let room = self.lane.admit(bytes)?;
        self.engines.iter().try_for_each(|engine| engine.admit(bytes))?;
        Ok(room)
    }

    /// Waits for a commit to be acknowledged.
    pub(crate) fn wait(&self, csn: Csn) -> Result<()> {
        if let Some(outcome) = self.lane.known(csn) {
            return outcome;
        }
        self.stalls.commit.during(Cause::Commit, &self.clock, || self.lane.wait(csn))
    }

    /// Has a writer whose commit is installed, and who holds no lock, sleep as the debt asks.
    pub(crate) fn slow_down(&self, bytes: usize) {
        let debts = || self.engines.iter().map(|engine| engine.debt());
        let debt = || debts().max_by(|a, b| a.total().total_cmp(&b.total())).unwrap_or_default();
        // The commit, and what waits for it to be durable, need not sleep too.
        self.throttle.pass(&self.clock, bytes, debt, || self.flush_within(Duration::ZERO));
    }

    /// Orders and installs a commit. Its locks may go when this returns.
    pub(crate) fn commit(
        &self,
        room: Room<'_>,
        batch: &WriteBatch,
        touched: impl Iterator<Item = TableId>,
        dropped: &[TableId],
    ) -> Result<Csn> {
        let csn = self.lane.enqueue(room, batch, touched, dropped)?;
        for engine in self.engines.iter() {
            engine.install(csn, batch);
        }
        self.lane.installed(csn);
        Ok(csn)
    }

    /// A snapshot number that covers every commit whose locks were given back before the call.
    pub(crate) fn newest(&self) -> Csn {
        let ordered = self.lane.last_ordered();
        self.snapshots.installed.wait(ordered);
        ordered
    }

    /// Asks that what is ordered now be flushed within `delay`, by the flusher thread.
    pub(crate) fn flush_within(&self, delay: Duration) {
        let due = self.clock.now() + delay;
        let mut at = self.flusher.due.lock();
        if at.is_none_or(|at| due < at) {
            *at = Some(due);
            drop(at);
            self.flusher.changed.notify_one();
        }
    }

    fn run_flusher(&self) {
        let mut due = self.flusher.due.lock();
        while !self.flusher.stop.load(Ordering::Acquire) {
            let now = self.clock.now();
            match *due {
                Some(at) if at <= now => {
                    *due = None;
                    drop(due);
                    // A failure is kept by the lane and told to every commit.
                    let _ = self.lane.flush();
                    due = self.flusher.due.lock();
                }
                Some(at) => {
                    self.flusher.changed.wait_for(&mut due, at - now);
                }
                None => self.flusher.changed.wait(&mut due),
            }
        }
    }
}

/// The transaction manager. Cheap to clone.
#[derive(Clone)]
pub struct TransactionManager(pub(crate) Arc<Shared>);

impl TransactionManager {
    pub(crate) fn new(
        settings: ManagerSettings,
        snapshots: Arc<Snapshots>,
        engines: Engines,
        lane: Lane,
        budget: Budget,
        clock: Clock,
    ) -> TransactionManager {
        TransactionManager(Arc::new(Shared {
            settings,
            serializable: Serializable::new(snapshots.clone()),
            snapshots,
            engines,
            lane,
            locks: Locks::new(),
            budget,
            clock,
            throttle: Throttle::default(),
            stalls: Stalls::default(),
            transactions_next: AtomicU64::new(1),
            closed: AtomicBool::new(false),
            flusher: Flusher {
                due: Mutex::new(None),
                changed: Condvar::new(),
                stop: AtomicBool::new(false),
                thread: Mutex::new(None),
            },
        }))
    }

    /// Starts a transaction.
    #[must_use]
    pub fn begin(&self, options: TransactionOptions) -> Transaction {
        let id = self.0.transactions_next.fetch_add(1, Ordering::Relaxed);
        Transaction::new(self.0.clone(), id, options)
    }

    /// The engines.
    #[must_use]
    pub fn engines(&self) -> &Engines {
        &self.0.engines
    }

    /// Starts the thread that flushes commits for which nobody waits. Without it, as in a simulation, they
    /// become durable with the next commit that is waited for, or at [`TransactionManager::flush`].
    ///
    /// # Errors
    /// [`ErrorKind::MemoryFull`] when the system refuses a thread.
    pub fn start_flusher(&self) -> Result<()> {
        let shared = self.0.clone();
        let handle = thread::spawn("log-flusher", move || shared.run_flusher())?;
        let shared = Arc::downgrade(&self.0);
        self.0.lane.set_flusher(move || {
            if let Some(shared) = shared.upgrade() {
                shared.flush_within(Duration::ZERO);
            }
        });
        *self.0.flusher.thread.lock() = Some(handle);
        Ok(())
    }

    /// Makes every commit ordered so far durable.
    ///
    /// # Errors
    /// [`ErrorKind::WritesStopped`].
    pub fn flush(&self) -> Result<()> {
        self.0.lane.flush()
    }

    /// Writes to the log what is ordered and not durable, unless another thread does already. For a thread that has
    /// nothing else to do. `false` when there was nothing to do.
    pub fn lead_flush(&self) -> bool {
        self.0.lane.try_flush()
    }

    /// Cuts the log where the engines' own files have it all, and asks the engines for more when it is long.
    ///
    /// # Errors
    /// [`ErrorKind::WritesStopped`], [`ErrorKind::Io`], or the failure of an engine.
    pub fn truncate_log(&self) -> Result<()> {
        let shared = &self.0;
        // What a failed engine keeps in memory, and perhaps more, is in the log alone.
        shared.engines.iter().try_for_each(|engine| engine.health())?;
        let persisted = shared.engines.persisted().min(shared.snapshots.stable_csn());
        let truncated = shared.lane.truncate(persisted);
        if shared.lane.log_bytes() > shared.settings.log_bytes_max {
            let stable = shared.snapshots.stable_csn();
            shared.engines.iter().for_each(|engine| engine.request_persist(stable));
        }
        // After the cut, which may have left a file to use again. A commit that finds no room says so itself.
        match shared.lane.prepare() {
            Err(error) if error.kind() == ErrorKind::DiskFull => truncated,
            prepared => truncated.and(prepared),
        }
    }

    /// Every commit up to this one is durable and visible.
    #[must_use]
    pub fn stable(&self) -> Csn {
        self.0.snapshots.stable_csn()
    }

    /// Why no more writes are accepted, if so.
    ///
    /// # Errors
    /// [`ErrorKind::WritesStopped`], or the failure of an engine.
    pub fn health(&self) -> Result<()> {
        self.0.lane.health()?;
        self.0.engines.iter().try_for_each(|engine| engine.health())
    }

    /// Refuses new commits, and makes those under way durable.
    ///
    /// # Errors
    /// [`ErrorKind::WritesStopped`].
    pub fn close(&self) -> Result<()> {
        self.0.closed.store(true, Ordering::Release);
        self.0.flusher.stop.store(true, Ordering::Release);
        drop(self.0.flusher.due.lock());
        self.0.flusher.changed.notify_all();
        if let Some(thread) = self.0.flusher.thread.lock().take() {
            // It ends with its loop; a panic in it has been reported by the panic hook.
            let _ = thread.join();
        }
        self.0.lane.close()
    }

    /// Figures for people and for monitoring.
    #[must_use]
    pub fn metrics(&self) -> Vec<Metric> {
        let lane = &self.0.lane;
        let load = |value: &AtomicU64| value.load(Ordering::Relaxed) as f64;
        let counter = |name, help, value| Metric { name, help, counter: true, value };
        let gauge = |name, help, value| Metric { name, help, counter: false, value };
        let mut metrics = vec![
            counter("commits_total", "Commits ordered.", load(&lane.counts.commits)),
            counter("log_flushes_total", "Log flushes.", load(&lane.counts.flushes)),
            counter("log_flushed_bytes_total", "Bytes flushed.", load(&lane.counts.flushed_bytes)),
            counter(
                "log_flush_seconds_total",
                "Time spent in log flushes.",
                load(&lane.counts.flush_ns) / 1e9,
            ),
            gauge("log_bytes", "Bytes of log kept for recovery.", lane.log_bytes() as f64),
            gauge("stable_csn", "The stable CSN.", self.stable().0 as f64),
        ];
        metrics.extend(self.0.throttle.metrics());
        metrics.extend(self.0.stalls.metrics());
        metrics
    }
}
