//! The database: opens and connects its parts.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use spillway_base::budget::{Budget, Use};
use spillway_base::clock::Clock;
use spillway_base::engine::{Access, Engine, Horizon, Metric, RangeEstimate, Rewrite};
use spillway_base::lock::{Mutex, RwLock};
use spillway_base::managed::{ManagedEngine, TableSize};
use spillway_base::{Csn, ErrorKind, KeyRange, Result, thread};
use spillway_memory::{MemoryEngine, MemoryInspection, MemorySettings};
use spillway_storage::async_reads::AsyncReadSettings;
use spillway_storage::plog::{KeptFiles, lanes_that_pay};
use spillway_storage::sim::SimDisk;
use spillway_storage::{Disk, RealDisk};
use spillway_tiered::offload::{Checked, Cpu, Sorts};
use spillway_tiered::{
    CompactionKind, Inspection, TableSpace, TableStatus, TieredEngine, TieredSettings,
};
use spillway_txn::{
    CancelHandle, Engines, HorizonHandle, LiveSnapshot, LogSettings, ManagerSettings,
    RecoveryReport, TransactionManager, TransactionOptions, recover,
};

use crate::directory::{self, DIRECTORY, Numbers};
use crate::folders::{data_dir, memory_dir};
use crate::inner::{Inner, Running};
use crate::log_home;
use crate::mechanism::Mechanism;
use crate::resident::resident_anonymous;
use crate::settings::Settings;
use crate::transaction::{Spare, Table, Transaction};

/// The interval between two checks whether the log can be cut.
const LOG_CARE: Duration = Duration::from_millis(500);
/// The pause before the thread that folds spilled writes checks again whether it may continue: it
/// may have to wait for readers to end or for the log to be flushed.
const FOLD_NAP: Duration = Duration::from_millis(10);
/// The pause between two checks of a thread that waits until commits are in data files.
const PERSIST_NAP: Duration = Duration::from_millis(1);
/// The cores that share one read queue. Each read takes a system call, and the calls of one queue
/// run one after another.
const CORES_PER_READ_QUEUE: usize = 4;

/// A database: tables, and transactions over them. Cheap to clone; clones share it.
///
/// Dropping the last clone closes it as [`Database::close`] does, but does not report a failure.
#[derive(Clone)]
pub struct Database(pub(crate) Arc<Inner>);

impl Database {
    /// Opens the database in a folder, and creates it if it does not exist.
    ///
    /// # Errors
    /// [`crate::ErrorKind::InUse`] while another process has it,
    /// [`crate::ErrorKind::InvalidArgument`] for settings out of bounds,
    /// [`crate::ErrorKind::Corruption`], [`crate::ErrorKind::UnsupportedFormat`],
    /// [`crate::ErrorKind::DiskFull`],
    /// [`crate::ErrorKind::Io`].
    pub fn open(path: impl AsRef<Path>, settings: Settings) -> Result<Database> {
        Database::open_in(Arc::new(RealDisk), path.as_ref(), settings, true)
    }

    /// Opens an empty database in memory. Its contents are lost when it is dropped. Segments of its
    /// log have at most 4 MiB, so that it opens quickly.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub fn open_in_memory(mut settings: Settings) -> Result<Database> {
        settings.log_segment_bytes = settings.log_segment_bytes.min(4 << 20);
        Database::open_on(Arc::new(SimDisk::new(0)), "/spillway", settings)
    }

    /// Opens the database in a folder of a disk: for simulations.
    ///
    /// # Errors
    /// As [`Database::open`].
    pub fn open_on(
        disk: Arc<dyn Disk>,
        path: impl AsRef<Path>,
        settings: Settings,
    ) -> Result<Database> {
        Database::open_in(disk, path.as_ref(), settings, false)
    }

    /// Opens a database. With `tries`, and without a setting, the measured speed of its disk
    /// determines the number of lanes of its log.
    fn open_in(
        disk: Arc<dyn Disk>,
        path: &Path,
        settings: Settings,
        tries: bool,
    ) -> Result<Database> {
        settings.validate()?;
        disk.create_dir_all(path)?;
        let lock = disk.lock(path)?;
        let home = log_home::claim(&*disk, path, settings.log_dir.as_deref())?;
        let locks = std::iter::once(lock).chain(home.lock).collect();
        let budget = Budget::new(settings.memory_bytes);
        let horizon = HorizonHandle::new();
        let tiered = TieredEngine::open(
            disk.clone(),
            &data_dir(path),
            tiered_settings(&settings),
            horizon.horizon(),
            budget.clone(),
        )?;
        if settings.check_merges {
            tiered.offload_to(Box::new(Checked(Cpu, Sorts)));
        }
        let most = settings.lanes_most();
        let lanes = if tries && settings.log_lanes.is_none() {
            lanes_that_pay(&*disk, &home.dir, most)
        } else {
            most
        };
        let log = LogSettings {
            dir: home.dir.clone(),
            segment_bytes: settings.log_segment_bytes,
            lanes,
            in_turn: !settings.background_threads,
            queue_bytes: (settings.memory_bytes / 256).clamp(64 << 10, 4 << 20),
            recovery_threads: settings.recovery_threads,
        };
        let manager_settings = ManagerSettings {
            durability: settings.durability,
            lock_wait: settings.lock_wait,
            transaction_bytes_max: settings.transaction_bytes(),
            log_bytes_max: settings.log_bytes_max,
            throttle: settings.has(Mechanism::Throttle),
        };
        let memory = open_memory(&disk, path, &home.dir, horizon.horizon(), &settings, &budget)?;
        let engines: Vec<Arc<dyn ManagedEngine>> =
            vec![Arc::new(tiered.clone()), Arc::new(memory.clone())];
        let opened = engines.iter().map(|engine| engine.clone() as Arc<dyn Engine>);
        let (manager, recovered) = recover(
            &disk,
            &log,
            manager_settings,
            &horizon,
            Engines::new(opened.collect()),
            budget.clone(),
            Clock::system(),
        )?;
        if engines.iter().all(|engine| engine.tables().is_empty()) {
            create_directory(&manager)?;
        }
        let inner = Arc::new(Inner {
            numbers: Numbers::after(directory::reserved(&manager)?),
            manager,
            engines,
            tiered,
            memory,
            budget,
            settings,
            recovered,
            disk,
            path: path.to_owned(),
            log_dir: home.dir,
            running: Mutex::new(Running { background: Vec::new(), care: Vec::new(), locks }),
            closed: RwLock::new(false),
            care: Arc::default(),
        });
        let db = Database(inner);
        if db.0.settings.background_threads {
            db.start()?;
        }
        Ok(db)
    }

    fn start(&self) -> Result<()> {
        let inner = &self.0;
        inner.manager.start_flusher()?;
        let threads = inner.settings.cores.div_ceil(2);
        let background = inner
            .engines
            .iter()
            .map(|engine| engine.start_background_threads(threads))
            .collect::<Result<_>>()?;
        let (manager, care) = (inner.manager.clone(), inner.care.clone());
        let thread = thread::spawn("log-care", move || {
            let mut stop = care.stop.lock();
            while !*stop {
                care.changed.wait_for(&mut stop, LOG_CARE);
                if !*stop {
                    // The result is ignored: the manager reports a failure to every commit.
                    let _ = manager.truncate_log();
                }
            }
        })?;
        let (manager, care) = (inner.manager.clone(), inner.care.clone());
        let folder = thread::spawn("fold", move || {
            let mut stop = care.stop.lock();
            while !*stop {
                // A failed step is retried. Commits get the failure from the manager or the engine.
                let step = || (manager.fold_step(), spillway_base::clock::now());
                let began = spillway_base::clock::now();
                let (worked, ended) = spillway_base::lock::MutexGuard::unlocked(&mut stop, step);
                if *stop {
                    break;
                }
                let nap = match worked {
                    // A step delays commits, so the thread pauses for as long as the step took.
                    Ok(true) => ended.saturating_sub(began),
                    _ if manager.overlays() > 0 => FOLD_NAP,
                    _ => LOG_CARE,
                };
                care.changed.wait_for(&mut stop, nap);
            }
        })?;
        let mut running = inner.running.lock();
        running.background = background;
        running.care = vec![thread, folder];
        Ok(())
    }

    /// Starts a transaction.
    #[must_use]
    #[inline]
    pub fn begin(&self, options: TransactionOptions) -> Transaction {
        Transaction::new(self.0.manager.begin(options), self.0.clone())
    }

    /// An ended transaction, which the first transaction of a client reuses. Each transaction then
    /// leaves itself to the next one. `cancel` cancels the waits of all of them.
    #[must_use]
    pub fn spare(&self, cancel: &CancelHandle) -> Spare {
        Spare::new(self.0.manager.spare(cancel), self.0.clone())
    }

    /// Reads a key into `value` in a transaction of its own, with these options. Returns whether
    /// the key exists. This is cheaper than starting a transaction.
    ///
    /// # Errors
    /// As [`spillway_txn::Transaction::get`].
    #[inline]
    pub fn get(
        &self,
        options: TransactionOptions,
        table: Table,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        self.0.manager.get(options, table, key, value)
    }

    /// As [`Database::get`], if the read needs neither a transaction nor a device. Returns `None`
    /// if it needs one of these, or if it would not see the commit `since`.
    ///
    /// # Errors
    /// As [`spillway_txn::Transaction::get`].
    #[inline]
    pub fn recall(
        &self,
        options: TransactionOptions,
        table: Table,
        key: &[u8],
        since: Csn,
        value: &mut Vec<u8>,
    ) -> Result<Option<bool>> {
        match self.0.manager.recall(options, table, key, (since, Access::MemoryOnly), value) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
            outcome => outcome,
        }
    }

    /// Estimates the keys and bytes of a range, from metadata in memory.
    #[must_use]
    pub fn estimate(&self, table: Table, range: KeyRange<'_>) -> RangeEstimate {
        self.0
            .engine(table)
            .map_or_else(RangeEstimate::default, |engine| engine.estimate(table, range))
    }

    /// From the moment when the commit `since` is durable, makes memtable flushes and compactions
    /// pass those values of a table through `rewrite` that they write anew anyway. `None` ends
    /// this, and so does closing the database. [`spillway_base::engine`], E11, states the
    /// guarantees.
    pub fn set_rewrite(&self, table: Table, since: Csn, rewrite: Option<Arc<dyn Rewrite>>) {
        if let Some(engine) = self.0.engine(table) {
            engine.set_rewrite(table, since, rewrite);
        }
    }

    /// Makes later reads return the values of a table only in the form in which they are stored at
    /// the call (E11), and no copies in an earlier form. Call it once no value is stored in an
    /// earlier form any more, before the caller forgets how to read that form.
    pub fn forget_forms(&self, table: Table) {
        if let Some(engine) = self.0.engine(table) {
            engine.forget_forms(table);
        }
    }

    /// The CSN at which the oldest open transaction or scan reads. If none is open, it is that of
    /// the newest durable commit. No reader needs a version of a row that was replaced at or below
    /// this CSN.
    #[must_use]
    pub fn oldest_snapshot(&self) -> Csn {
        self.0.manager.oldest_snapshot()
    }

    /// The snapshots of open transactions, the oldest first. The oldest one holds back the removal
    /// of old row versions.
    #[must_use]
    pub fn readers(&self) -> Vec<LiveSnapshot> {
        self.0.manager.readers()
    }

    /// The settings with which it was opened.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// The memory budget, for memory that a caller uses besides the database.
    #[must_use]
    pub fn budget(&self) -> &Budget {
        &self.0.budget
    }

    /// What the opening read from the log.
    #[must_use]
    pub fn recovered(&self) -> RecoveryReport {
        self.0.recovered
    }

    /// The tables of the tiered engine and their levels.
    #[must_use]
    pub fn status(&self) -> Vec<TableStatus> {
        self.0.tiered.status()
    }

    /// The space of each table on the devices, divided into keys and values, blocks that are no
    /// longer needed, and unused ends of slots.
    #[must_use]
    pub fn space(&self) -> Vec<TableSpace> {
        self.0.tiered.space()
    }

    /// A description of the tiered engine: its sub-tables, memtables, levels and slices, and the
    /// newest compactions.
    #[must_use]
    pub fn inspect(&self) -> Inspection {
        self.0.tiered.inspect()
    }

    /// A description of the memory engine: its tables, the log segments with their rows, and the
    /// last checkpoint.
    #[must_use]
    pub fn inspect_memory(&self) -> MemoryInspection {
        self.0.memory.inspect()
    }

    /// The most memory that [`Database::inspect`] and [`Database::inspect_memory`] take, in bytes.
    /// [`Inspection::bytes`] and [`MemoryInspection::bytes`] tell how much they have taken.
    #[must_use]
    pub fn inspection_bytes(&self) -> usize {
        self.0.tiered.inspection_bytes() + self.0.memory.inspection_bytes()
    }

    /// The approximate number of rows and bytes of a table, from metadata in memory.
    #[must_use]
    pub fn size(&self, table: Table) -> TableSize {
        self.0.engine(table).map_or_else(TableSize::default, |engine| engine.table_size(table))
    }

    /// Counters and gauges for users and for monitoring.
    #[must_use]
    pub fn metrics(&self) -> Vec<Metric> {
        let mut metrics = self.0.manager.metrics();
        metrics.extend(self.0.engines.iter().flat_map(|engine| engine.metrics()));
        let gauge =
            |name, help, value: usize| Metric { name, help, counter: false, value: value as f64 };
        metrics.push(gauge("memory_budget_bytes", "The memory budget.", self.0.budget.limit()));
        metrics.push(gauge(
            "memory_used_bytes",
            "Memory charged to the budget.",
            self.0.budget.used(),
        ));
        metrics.extend(Use::ALL.map(|what| {
            let (name, help) = memory_metric(what);
            gauge(name, help, self.0.budget.used_for(what))
        }));
        metrics.extend(resident_anonymous().map(|bytes| {
            let help = "Anonymous resident memory of the process, as the system counts it.";
            gauge("process_resident_anonymous_bytes", help, bytes)
        }));
        metrics
    }

    /// Fails if writes are no longer accepted. The error has the reason.
    ///
    /// # Errors
    /// [`crate::ErrorKind::WritesStopped`], or the failure of the background work.
    pub fn health(&self) -> Result<()> {
        self.0.manager.health()
    }

    /// Does one piece of background work on the calling thread. Returns `false` if there was none.
    /// It is for databases that were opened without background threads.
    ///
    /// # Errors
    /// [`crate::ErrorKind::DiskFull`], [`crate::ErrorKind::Io`],
    /// [`crate::ErrorKind::WritesStopped`],
    /// [`crate::ErrorKind::Closed`].
    pub fn run_background_job(&self) -> Result<bool> {
        let _open = self.0.open()?;
        // A full disk keeps neither the other engine nor the care of the log from freeing space.
        let mut full = None;
        for engine in &self.0.engines {
            match engine.run_background_job() {
                Err(error) if error.kind() == ErrorKind::DiskFull => full = full.or(Some(error)),
                worked => {
                    if worked? {
                        return Ok(true);
                    }
                }
            }
        }
        self.0.manager.truncate_log()?;
        if let Some(full) = full {
            return Err(full);
        }
        if self.0.manager.fold_step()? {
            return Ok(true);
        }
        if self.0.manager.overlays() > 0 {
            // The next step of a fold may need the writes of this step to be durable.
            self.0.manager.flush()?;
            return self.0.manager.fold_step();
        }
        Ok(false)
    }

    /// Flushes the log for commits that are not durable yet, unless other threads do so already. It
    /// is for a thread that has nothing else to do and commits in progress
    /// ([`crate::CommitFuture::then`]). Returns `false` if there was nothing to do.
    pub fn lead_flush(&self) -> bool {
        self.0.manager.lead_flush()
    }

    /// From now on, lookups that need a device return instead of waiting for it, if their
    /// transactions allow that ([`spillway_txn::Transaction::leave_reads`]). Returns file
    /// descriptors that become readable when reads have completed. Each time one becomes readable,
    /// the caller must call [`Database::end_reads`]. The result is empty if the system does not
    /// support asynchronous reads.
    #[must_use]
    pub fn overlap_reads(&self) -> Vec<OwnedFd> {
        self.0.manager.overlap_reads()
    }

    /// The first folder of data files in which reads cannot bypass the system's page cache,
    /// although [`Settings::direct_reads`] asks for it. Reads in that folder use the page cache.
    #[must_use]
    pub fn refuses_direct_reads(&self) -> Option<PathBuf> {
        let data = data_dir(&self.0.path);
        let tiers = self.0.settings.tiers.iter().map(|tier| tier.dir.clone());
        let mut folders = std::iter::once(data).chain(tiers);
        folders.find(|dir| self.0.settings.direct_reads && !self.0.disk.goes_past_cache(dir))
    }

    /// Whether reads of suspended statements wait to be submitted together
    /// ([`Database::submit_reads`]).
    #[must_use]
    pub fn keeps_reads(&self) -> bool {
        self.0.manager.keeps_reads()
    }

    /// Submits reads of suspended statements to their device. Returns `false` if the device has not
    /// taken all of them, and the caller must call this again soon.
    pub fn submit_reads(&self) -> bool {
        self.0.manager.submit_reads()
    }

    /// Takes data that was read into memory, and wakes the statements that wait for it.
    pub fn end_reads(&self) {
        self.0.manager.end_reads();
    }

    /// Makes all commits durable, and lets each engine write them to its own files: the tiered
    /// engine writes all memtables to data files, and the memory engine takes a checkpoint.
    ///
    /// # Errors
    /// As [`Database::run_background_job`].
    pub fn flush(&self) -> Result<()> {
        let _open = self.0.open()?;
        self.0.manager.flush()?;
        self.0.engines.iter().try_for_each(|engine| engine.persist_all())?;
        self.0.manager.truncate_log()
    }

    /// Waits until everything that was committed before the call is in the engines' own files, and
    /// recorded there. Recovery never reads those commits from the log again, and the files have
    /// the present form of the values (`spillway_base::engine`, E6, E11). Later commits do not
    /// prolong the wait.
    ///
    /// # Errors
    /// As [`Database::run_background_job`].
    pub fn persist(&self) -> Result<()> {
        self.0.manager.flush()?;
        let until = self.0.manager.stable();
        loop {
            self.flush()?;
            let _open = self.0.open()?;
            let mut engines = self.0.engines.iter();
            if engines.clone().all(|engine| engine.persisted() >= until) {
                return engines.try_for_each(|engine| engine.record_persisted(until));
            }
            // A memtable also has later commits that are not durable yet, so it cannot be flushed
            // yet.
            thread::blocking(|| Clock::system().sleep(PERSIST_NAP));
        }
    }

    /// Merges everything of every table into one sorted level.
    ///
    /// # Errors
    /// As [`Database::run_background_job`].
    pub fn compact(&self) -> Result<()> {
        let _open = self.0.open()?;
        self.0.manager.flush()?;
        self.0.engines.iter().try_for_each(|engine| engine.compact_all())
    }

    /// Makes all commits durable, stops the background work and releases the folder. Later commits
    /// fail with [`crate::ErrorKind::Closed`]. So do later reads that need a file which another
    /// opening of the folder has changed or removed; all others return what was there at the close.
    ///
    /// # Errors
    /// The failure that prevented a clean close. No acknowledged commit is lost.
    pub fn close(&self) -> Result<()> {
        self.0.close()
    }
}

/// Opens the memory engine of a database, whose rows are in segments of the log.
fn open_memory(
    disk: &Arc<dyn Disk>,
    path: &Path,
    log_dir: &Path,
    horizon: Arc<dyn Horizon>,
    settings: &Settings,
    budget: &Budget,
) -> Result<MemoryEngine> {
    let dir = memory_dir(path);
    // With a small log, fewer bytes of kept segments may be without live rows, too.
    let defaults = MemorySettings::default();
    let space_rest = defaults.space_rest.min(settings.log_bytes_max);
    let settings = MemorySettings {
        space_rest,
        async_reads: AsyncReadSettings {
            lanes: read_queues(settings),
            direct: false,
            gathers: settings.has(Mechanism::GatheredReads),
            waits_alone: settings.has(Mechanism::LoneWaits),
        },
        read_ahead: settings.has(Mechanism::ReadAhead),
        large_pages: settings.has(Mechanism::LargePages),
        recovery_threads: settings.recovery_threads,
        ..defaults
    };
    let log = Arc::new(KeptFiles::new(disk.clone(), log_dir));
    MemoryEngine::open(disk.clone(), &dir, settings, log, horizon, budget.clone())
}

/// The number of an engine's queues for asynchronous reads.
fn read_queues(settings: &Settings) -> usize {
    match settings.has(Mechanism::OverlappedReads) {
        true => settings.cores.div_ceil(CORES_PER_READ_QUEUE),
        false => 0,
    }
}

/// The settings of the tiered engine of a database.
fn tiered_settings(settings: &Settings) -> TieredSettings {
    let mut defaults = TieredSettings::for_memory(settings.memory_bytes);
    defaults.compaction_order = settings.all_in_order();
    for (mechanism, of) in [
        (Mechanism::IntraLevel0, CompactionKind::IntraLevel0),
        (Mechanism::DeletionCompactions, CompactionKind::Deletion),
        (Mechanism::SelfMajors, CompactionKind::SelfMajor),
    ] {
        defaults.compaction_order.retain(|kind| *kind != of || settings.has(mechanism));
    }
    if !settings.has(Mechanism::LargeLevel0) {
        defaults.level0_share = 0.0;
    }
    if !settings.has(Mechanism::EvenLevel0) {
        // The numbers with which Level0 performed well without this mechanism.
        (defaults.level0_target, defaults.level0_limit) = (12, 40);
    }
    if !settings.has(Mechanism::RowCache) {
        defaults.row_cache_share = 0.0;
    }
    if !settings.has(Mechanism::SmallBlocks) {
        defaults.hot_block_bytes = TieredSettings::BLOCK_BYTES;
    }
    TieredSettings {
        slot_bytes: settings.slot_bytes,
        even_level0: settings.has(Mechanism::EvenLevel0),
        paced_compaction: settings.has(Mechanism::Pacing),
        temperature: settings.has(Mechanism::Temperature),
        data_reuse: settings.has(Mechanism::Reuse),
        gaps: settings.has(Mechanism::Gaps),
        block_nodes: settings.has(Mechanism::BlockNodes),
        simd: settings.has(Mechanism::Simd),
        overlapped_compactions: settings.has(Mechanism::OverlappedCompactions),
        adaptive_share: settings.has(Mechanism::AdaptiveShare),
        recall: settings.has(Mechanism::Recall),
        large_pages: settings.has(Mechanism::LargePages),
        part_reads: settings.has(Mechanism::PartReads),
        range_filters: settings.has(Mechanism::RangeFilters),
        read_ahead: settings.has(Mechanism::ReadAhead),
        read_queues: read_queues(settings),
        gathered_reads: settings.has(Mechanism::GatheredReads),
        lone_waits: settings.has(Mechanism::LoneWaits),
        direct_reads: settings.direct_reads,
        tiers: settings.tiers.clone(),
        hot_compression: settings.hot_compression,
        cold_compression: settings.cold_compression,
        space_max: settings.space_max,
        deletions_min: settings.deletions_min,
        settle_after: settings.settle_after,
        ..defaults
    }
}

fn create_directory(manager: &TransactionManager) -> Result<()> {
    let txn = manager.begin(TransactionOptions::new());
    txn.create_table(DIRECTORY)?;
    txn.commit().wait()?;
    Ok(())
}

/// The name and the help text of the metric of a use.
fn memory_metric(what: Use) -> (&'static str, &'static str) {
    match what {
        Use::Memtables => ("memory_memtables_bytes", "Memory of memtables."),
        Use::Caches => {
            ("memory_caches_bytes", "Memory of cached rows, blocks, indexes and filters.")
        }
        Use::Transactions => ("memory_transactions_bytes", "Memory of open transactions."),
        Use::Connections => ("memory_connections_bytes", "Memory of clients' buffers and results."),
        Use::Recovery => ("memory_recovery_bytes", "Memory of the log that an opening reads."),
        Use::Compactions => {
            ("memory_compactions_bytes", "Memory of what flushes and compactions read and write.")
        }
        Use::FreePages => {
            ("memory_free_pages_bytes", "Memory of cache pages that hold no block now.")
        }
        Use::Rows => (
            "memory_rows_bytes",
            "Memory of tables of the memory engine: rows, indexes and arrays.",
        ),
        Use::Other => (
            "memory_other_bytes",
            "Resident memory beyond a fixed allowance that no other part of the budget counts.",
        ),
    }
}
