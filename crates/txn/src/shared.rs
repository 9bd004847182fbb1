//! The state that the transactions of a database share, and how they admit, install and await
//! commits.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use spillway_base::batch::WriteBatch;
use spillway_base::budget::{Budget, Charge, Use};
use spillway_base::clock::Clock;
use spillway_base::engine::{Debt, Engine, FlushSpace};
use spillway_base::lock::Mutex;
use spillway_base::stall::{Cause, Tally};
use spillway_base::{Csn, EngineKind, EngineSet, ErrorKind, Result, TableId};

use crate::engines::Engines;
use crate::locks::Locks;
use crate::options::{Durability, Frees, TransactionOptions};
use crate::overlay::{Folder, Overlays};
use crate::pipeline::{self, Pipeline, RELAXED, Room, SAMPLE, SOON, Terms, Urgency};
use crate::reserve::{HOPE, Reserve};
use crate::serializable::Serializable;
use crate::snapshots::Snapshots;
use crate::throttle::{SLIGHT, Throttle};

/// The settings that all transactions of a database share.
#[derive(Clone, Debug)]
pub struct ManagerSettings {
    /// When a commit is acknowledged, unless its transaction sets it.
    pub durability: Durability,
    /// How long a transaction waits for a lock, unless it sets this itself.
    pub lock_wait: Duration,
    /// The most bytes of one transaction's writes that are kept in memory; more are spilled.
    pub transaction_bytes_max: usize,
    /// The bytes of log above which the engines are asked to persist the commits in it.
    pub log_bytes_max: u64,
    /// Whether the throttle slows writers when the engines are behind. It can be switched off for
    /// measurements.
    pub throttle: bool,
}

/// The time between two checks whether a full disk has room again.
const LOOK: Duration = Duration::from_millis(10);

pub(crate) fn is_full<T>(outcome: &Result<T>) -> bool {
    outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::DiskFull)
}

/// The bytes for which there must be room before a transaction locks its first row.
const ROOM_BYTES: usize = 64 << 10;
/// A larger batch asks the engines for space even if much is free.
const LARGE_BATCH: usize = 32 << 20;

pub(crate) struct Shared {
    pub(crate) settings: ManagerSettings,
    pub(crate) snapshots: Arc<Snapshots>,
    pub(crate) engines: Engines,
    pub(crate) pipeline: Pipeline,
    pub(crate) locks: Locks,
    pub(crate) serializable: Serializable,
    /// Committed transactions whose spilled writes are still to be folded.
    pub(crate) overlays: Overlays,
    pub(crate) folder: Folder,
    pub(crate) budget: Budget,
    _queues: Charge,
    pub(crate) clock: Clock,
    pub(crate) throttle: Throttle,
    pub(crate) reserve: Reserve,
    /// The waits for a full disk to have room again.
    pub(crate) disk_waits: Tally,
    /// The waits of sleeping threads for commits to be acknowledged.
    pub(crate) commit_waits: Tally,
    pub(crate) closed: AtomicBool,
    /// Whether a thread takes the engines' asynchronous reads into memory.
    pub(crate) overlaps_reads: AtomicBool,
    /// The number of threads that read the log while its writers are active. It is locked while the
    /// log is cut, and the log is cut only if it is zero.
    pub(crate) log_holds: Mutex<usize>,
}

/// Memory that engines keep for a batch until it is installed.
pub(crate) type EngineMemory = [Option<Charge>; EngineKind::COUNT];

/// What a batch needs to be logged and installed.
pub(crate) struct Admission<'l> {
    pub(crate) room: Room<'l>,
    pub(crate) memory: EngineMemory,
}

impl Shared {
    pub(crate) fn new(
        settings: ManagerSettings,
        engines: Engines,
        pipeline: Pipeline,
        reserve: Reserve,
        budget: Budget,
        clock: Clock,
    ) -> Shared {
        let snapshots = pipeline.snapshots.clone();
        Shared {
            settings,
            serializable: Serializable::new(snapshots.clone(), &budget),
            snapshots,
            engines,
            _queues: budget.charge(Use::Transactions, pipeline.queue_bytes()),
            pipeline,
            locks: Locks::new(),
            overlays: Overlays::new(),
            folder: Folder::default(),
            budget,
            clock,
            throttle: Throttle::default(),
            reserve,
            disk_waits: Tally::default(),
            commit_waits: Tally::default(),
            closed: AtomicBool::new(false),
            overlaps_reads: AtomicBool::new(false),
            log_holds: Mutex::new(0),
        }
    }

    /// Whether lookups may return instead of waiting for a device.
    pub(crate) fn overlaps_reads(&self) -> bool {
        self.overlaps_reads.load(Ordering::Relaxed)
    }

    pub(crate) fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) {
            return Err(pipeline::closed());
        }
        Ok(())
    }

    /// Requests an early log flush if an engine's flush debt is above `debt`. An engine frees
    /// memory by flushing memtables, but only memtables whose commits are durable, and commits that
    /// no thread waits for become durable late. Up to a debt of [`SLIGHT`], the log flush is
    /// requested only if a memtable flush waits for a commit: a log flush is not free, because the
    /// lane's queue may fill while the lane syncs, and writers then stop.
    fn make_room(&self, engines: EngineSet, debt: f64) -> Result<()> {
        // Without flushers, which combine the requests, each commit that requests a log flush would
        // cost a sync.
        let debt = if self.pipeline.flushers.are_running() { debt } else { debt.max(SLIGHT) };
        let behind = self.engines.in_set(engines).any(|engine| {
            let flush = engine.debt().flush;
            flush > debt
                && (flush > SLIGHT || engine.awaits_durable() > self.snapshots.stable_csn())
        });
        if behind { self.hasten_flush() } else { Ok(()) }
    }

    /// Requests an early flush of the log; without flushers, flushes it at once.
    fn hasten_flush(&self) -> Result<()> {
        if !self.pipeline.has_unflushed() {
            return Ok(());
        }
        if self.pipeline.flushers.are_running() {
            self.flush_within(SOON);
            return Ok(());
        }
        self.pipeline.flush()
    }

    /// Waits, for a bounded time, until there is room for commits to a table in its engine's memory
    /// and in the log's queue. A transaction calls this before it locks its first row. If it waited
    /// only after that, other transactions would wait for its rows meanwhile. Other transactions
    /// may use the room before the transaction commits, so the commit checks again.
    pub(crate) fn await_room(&self, table: TableId) -> Result<()> {
        let Some(kind) = table.engine() else { return Ok(()) };
        self.pipeline.await_queue();
        // An engine cannot flush the memory of commits that are still in the queue, because they
        // are not durable.
        let _ = self.make_room(EngineSet::one(kind), SLIGHT);
        // Other failures are left to the commit: rows can still be locked and read.
        match self.engines.of_kind(kind).map(|engine| engine.admit(ROOM_BYTES)) {
            Ok(Err(error)) if error.kind() == ErrorKind::MemoryFull => Err(error),
            _ => Ok(()),
        }
    }

    /// Charges a transaction's memory to the budget. If memory is short, it waits, for a bounded
    /// time, for memory that will be freed: that of the engines' background work, and that of rows
    /// whose commits are not durable yet.
    pub(crate) fn charge_transaction(&self, bytes: usize) -> Result<Charge> {
        self.budget.try_charge(Use::Transactions, bytes).or_else(|full| {
            // A failure of the log is ignored here. The next commit reports it.
            let _ = self.hasten_flush();
            let mut charge = None;
            let mut fits = || {
                charge = self.budget.try_charge(Use::Transactions, bytes).ok();
                charge.is_some()
            };
            self.engines.iter().any(|engine| engine.await_memory(&mut fits));
            charge.ok_or(full)
        })
    }

    /// Makes sure that a batch can be logged and installed. It waits only if memory, the log or the
    /// disk has no room. Under steady load [`Shared::slow_down`] slows writers before that happens.
    pub(crate) fn admit(
        &self,
        batch: &WriteBatch,
        options: &TransactionOptions,
    ) -> Result<Admission<'_>> {
        let durability = options.durability.unwrap_or(self.settings.durability);
        self.check_open()?;
        // Engines look from time to time whether space gets short. One large batch may take all of
        // it in between.
        let is_short = batch.as_bytes().len() > LARGE_BATCH
            || self
                .engines
                .by_kind()
                .any(|(kind, engine)| engine.is_short_of_space(batch.engines().contains(kind)));
        if !is_short && !self.reserve.is_full() {
            let admitted = self.admit_at_once(batch, durability);
            if !is_full(&admitted) {
                return admitted;
            }
            self.reserve.met_full_disk();
        }
        self.admit_on_full_disk(batch, durability, options.frees.max(Frees::of(batch)))
    }

    /// Admits a batch on a disk that was found full, or soon may be. A batch that frees space may
    /// use the reserve. Any other batch waits until the reserve is whole (RESERVE-2) and the
    /// engines have space for it (RESERVE-7).
    fn admit_on_full_disk(
        &self,
        batch: &WriteBatch,
        durability: Durability,
        frees: Frees,
    ) -> Result<Admission<'_>> {
        let started = self.clock.now();
        self.leave_engines_space(batch);
        loop {
            let mut outcome = Err(self.reserve.refusal());
            // The reserve is not made whole while an engine still needs space that it was given in
            // order to free more.
            let lends = self.reserve.has_hope(self.clock.now()) && self.engines_meet_full_disk();
            let space = match frees {
                Frees::Nothing => self.flush_space(batch),
                Frees::Rows | Frees::Tables => FlushSpace::Enough,
            };
            if space != FlushSpace::Enough {
                self.reserve.met_full_disk();
            } else if !lends && self.reserve.make_whole() {
                outcome = self.admit_at_once(batch, durability);
            }
            if frees == Frees::Nothing {
                if outcome.is_ok() {
                    self.reserve.found_room();
                }
            } else {
                if is_full(&outcome) {
                    outcome = self.admit_by_reserve(batch, frees);
                }
                if outcome.is_ok() && self.reserve.is_full() {
                    self.reserve.hope(self.clock.now());
                }
            }
            let now = self.clock.now();
            let flushes = space == FlushSpace::AfterFlush && now - started < HOPE;
            // Without background threads nothing would free space during the wait.
            let waits =
                self.pipeline.flushers.are_running() && (flushes || self.reserve.has_hope(now));
            if !is_full(&outcome) || !waits {
                return outcome;
            }
            self.seek_space();
            self.disk_waits.during(Cause::Log, &self.clock, || self.clock.sleep(LOOK));
            self.check_open()?;
        }
    }

    /// The space that the engines of a batch have to write it to their files later, and that others
    /// have for what they must still write.
    fn flush_space(&self, batch: &WriteBatch) -> FlushSpace {
        // A new segment of the log must leave the space for the engines. It is a small one
        // (`leave_engines_space`).
        let segment = self.pipeline.segment_for(batch.as_bytes().len());
        let engines = self.engines.iter().filter(|engine| {
            let is_written = batch.engines().contains(engine.kind());
            is_written || engine.is_short_of_space(false) && engine.unwritten_bytes(0) > 0
        });
        let lacks = engines.map(|engine| {
            let batch_bytes = batch.bytes_of(engine.kind()) as u64;
            engine.flush_space(batch_bytes, segment + self.unwritten_beside(engine))
        });
        lacks
            .filter(|space| *space != FlushSpace::Enough)
            .reduce(|one, other| if one == other { one } else { FlushSpace::Lacking })
            .unwrap_or(FlushSpace::Enough)
    }

    /// The bytes that other engines have yet to write, perhaps to the same device.
    fn unwritten_beside(&self, engine: &Arc<dyn Engine>) -> u64 {
        let others = self.engines.iter().filter(|other| other.kind() != engine.kind());
        others.map(|other| other.unwritten_bytes(0)).sum()
    }

    /// Admits a batch that frees space. Each time the log has no room, a part of the reserve is
    /// released. An engine that is full and cannot write its memory out takes the batch all the
    /// same, if parts of the reserve cover the batch's bytes (RESERVE-3).
    fn admit_by_reserve(&self, batch: &WriteBatch, frees: Frees) -> Result<Admission<'_>> {
        let bytes = batch.as_bytes().len();
        let room = loop {
            let admitted = self.pipeline.admit(bytes);
            if !is_full(&admitted) || !self.reserve.give(frees) {
                break admitted?;
            }
        };
        let mut memory = EngineMemory::default();
        let written = |(kind, _): &(EngineKind, _)| batch.engines().contains(*kind);
        for (kind, engine) in self.engines.by_kind().filter(written) {
            let bytes = batch.bytes_of(kind);
            let admitted = engine.admit(bytes);
            if !is_full(&admitted) || !self.reserve.lend(frees, bytes) {
                memory[kind.index()] = admitted?;
            }
        }
        Ok(Admission { room, memory })
    }

    /// Makes the log leave the space that the engines need after a batch, as far as it can
    /// (RESERVE-7), until log care finds that no engine is short of space.
    fn leave_engines_space(&self, batch: &WriteBatch) {
        let bytes = self.engines.iter().map(|engine| {
            let batch_bytes = batch.bytes_of(engine.kind()) as u64;
            engine.unwritten_bytes(batch_bytes)
        });
        self.pipeline.leave_free(bytes.sum());
    }

    /// Lets engines notice that space gets short, or that there is enough again.
    pub(crate) fn look_at_space(&self) {
        self.engines.iter().for_each(|engine| _ = engine.unwritten_bytes(0));
        if !self.engines.iter().any(|engine| engine.is_short_of_space(true)) {
            self.pipeline.leave_free(0);
        }
    }

    /// Whether the engines would lack space after one more segment of the log.
    pub(crate) fn needs_segments_space(&self) -> bool {
        let lacks = |engine: &Arc<dyn Engine>| {
            let others = || self.reserve.segment_bytes() + self.unwritten_beside(engine);
            engine.is_short_of_space(false) && engine.flush_space(0, others()) != FlushSpace::Enough
        };
        self.engines.iter().any(lacks)
    }

    pub(crate) fn engines_meet_full_disk(&self) -> bool {
        self.engines.iter().any(|engine| engine.meets_full_disk())
    }

    /// Makes the engines' background work return the space that commits on a full disk have freed.
    pub(crate) fn seek_space(&self) {
        self.flush_within(Duration::ZERO);
        let stable = self.snapshots.stable_csn();
        for engine in self.engines.iter() {
            engine.request_persist(stable);
            engine.give_space();
        }
    }

    fn admit_at_once(&self, batch: &WriteBatch, durability: Durability) -> Result<Admission<'_>> {
        // A commit that must be durable is usually waited for by a thread, which leads the log
        // flush. So such a commit requests one only from a larger debt on.
        let engines = batch.engines();
        self.make_room(engines, if durability == Durability::Commit { SLIGHT } else { 0.0 })?;
        let mut memory = EngineMemory::default();
        for (kind, engine) in self.engines.by_kind().filter(|(kind, _)| engines.contains(*kind)) {
            memory[kind.index()] = engine.admit(batch.bytes_of(kind))?;
        }
        // This comes last: it charges a large batch without a refusal, and an engine may wait for
        // memory that other commits have.
        let room = self.pipeline.admit(batch.as_bytes().len())?;
        Ok(Admission { room, memory })
    }

    /// Waits for a commit to be acknowledged.
    pub(crate) fn wait(&self, csn: Csn) -> Result<()> {
        if let Some(outcome) = self.pipeline.known(csn) {
            return outcome;
        }
        self.commit_waits.during(Cause::Commit, &self.clock, || self.pipeline.wait(csn))
    }

    /// The debt of the engine that is furthest behind.
    pub(crate) fn debt(&self) -> Debt {
        let debts = self.engines.iter().map(|engine| engine.debt());
        debts.max_by(|a, b| a.total().total_cmp(&b.total())).unwrap_or_default()
    }

    /// Makes a writer sleep as long as the debts of the engines that it wrote to require. The
    /// writer's commit is installed, and the writer holds no lock. `bytes` has the number of bytes
    /// that it wrote to each engine.
    pub(crate) fn slow_down(&self, bytes: [usize; EngineKind::COUNT], durability: Durability) {
        if !self.settings.throttle {
            return;
        }
        // A flush of the commit is requested before the sleep, so that neither the commit nor
        // threads that wait for it are delayed by the sleep.
        let asleep = || {
            self.flush_within(match durability {
                Durability::Commit => Duration::ZERO,
                Durability::Within(delay) => delay,
                Durability::Relaxed => RELAXED,
            });
        };
        for (kind, engine) in self.engines.by_kind() {
            if bytes[kind.index()] > 0 {
                let written = (kind, bytes[kind.index()]);
                self.throttle.pass(&self.clock, written, || engine.debt(), asleep);
            }
        }
    }

    /// Orders and installs a commit. When this returns, the transaction's locks may be released.
    /// `numbered` is called with the commit's CSN before any transaction can see the commit.
    pub(crate) fn commit(
        &self,
        admission: Admission<'_>,
        batch: &WriteBatch,
        terms: Terms<'_, impl Iterator<Item = TableId>>,
        numbered: impl FnOnce(Csn),
    ) -> Result<Csn> {
        let drops = !terms.dropped.is_empty();
        let Admission { room, memory } = admission;
        let csn = self.pipeline.enqueue(room, batch, terms, numbered)?;
        self.install(csn, batch);
        drop(memory);
        if drops {
            // The space of the dropped tables comes back later. Until then a commit that finds the
            // disk full waits for it.
            self.reserve.hope(self.clock.now());
        }
        Ok(csn)
    }

    /// Installs a commit that was ordered.
    pub(crate) fn install(&self, csn: Csn, batch: &WriteBatch) {
        let guard = self.pipeline.guard("installing a commit");
        let start = csn.0.is_multiple_of(SAMPLE).then(|| self.clock.now());
        for engine in self.engines.in_set(batch.engines()) {
            engine.install(csn, batch);
        }
        if let Some(start) = start {
            let took = (self.clock.now() - start).as_nanos() as u64 * SAMPLE;
            self.pipeline.counts.install_ns.fetch_add(took, Ordering::Relaxed);
        }
        drop(guard);
        self.pipeline.installed(csn);
    }

    /// A CSN for a snapshot that sees every commit which had a CSN before the call, so every commit
    /// whose locks were released. Waits for the installs of these commits. Once a panic has stopped
    /// the database, it is the largest CSN up to which every commit is installed.
    pub(crate) fn newest(&self) -> Csn {
        let ordered = self.pipeline.last_ordered();
        if self.snapshots.installed.wait(ordered) {
            ordered
        } else {
            self.snapshots.installed.prefix()
        }
    }

    /// Requests a log flush by the flushers within `delay`.
    pub(crate) fn flush_within(&self, delay: Duration) {
        let urgency = match delay {
            Duration::ZERO => Urgency::Now,
            SOON => Urgency::Soon,
            RELAXED => Urgency::Relaxed,
            _ => Urgency::Timed,
        };
        self.pipeline.flush_by(urgency, || self.clock.now() + delay);
    }
}
