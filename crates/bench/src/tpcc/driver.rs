//! The terminals: threads that run the mix. A terminal waits for each commit, or keeps several
//! commits in flight.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, Scope, ScopedJoinHandle, Thread};
use std::time::Duration;

use clap::ValueEnum;
use hdrhistogram::Histogram;
use parking_lot::Mutex;
use spillway::{
    CancelHandle, Csn, Database, Durability, Error, ErrorKind, Isolation, Spare, TransactionOptions,
};
use spillway_base::clock::{self, Clock};

use super::check::Changes;
use super::inputs::{Draws, TransactionInput, TransactionKind};
use super::schema::{Scale, Tables};
use super::transactions::{Executor, Wish};
use crate::commits::Extent;
use crate::machine::own_time;
use crate::store::metrics_sum;

/// Kinds of transactions.
const KINDS: usize = TransactionKind::ALL.len();

/// How a terminal treats its commits. There is no mode without a log: the library has none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum Acknowledgement {
    /// Durable commits, several of which are in flight while the terminal continues.
    Flight,
    /// Durable commits; the terminal waits for each.
    Wait,
    /// Acknowledged when installed; the log is written within 200 ms.
    Relaxed,
}

/// The isolation of the transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum IsolationLevel {
    /// Snapshot isolation, in which TPC-C's transactions are serializable (Fekete et al., 2005).
    Snapshot,
    /// The same, but changes and locking reads act on the newest versions, as in InnoDB. Each row
    /// that a transaction changes is locked before it is read, and no transaction changes columns
    /// that another one reads without a lock. So the outcome is the same.
    Newest,
    /// Serializable snapshot isolation.
    Serializable,
}

/// The parameters of a run over a loaded database.
#[derive(Clone, Copy, Debug)]
pub(super) struct TerminalPlan {
    pub(super) scale: Scale,
    pub(super) isolation: IsolationLevel,
    pub(super) acknowledgement: Acknowledgement,
    /// Commits in flight, at most, of each thread.
    pub(super) in_flight: usize,
    pub(super) threads: usize,
    pub(super) extent: Extent,
    pub(super) seed: u64,
}

impl TerminalPlan {
    fn options(&self, kind: TransactionKind) -> TransactionOptions {
        let isolation = match self.isolation {
            IsolationLevel::Snapshot | IsolationLevel::Newest => Isolation::RepeatableRead,
            IsolationLevel::Serializable => Isolation::Serializable,
        };
        let durability = match self.acknowledgement {
            Acknowledgement::Flight | Acknowledgement::Wait => Durability::Commit,
            Acknowledgement::Relaxed => Durability::Relaxed,
        };
        TransactionOptions::new()
            .isolation(isolation)
            .acts_on_newest(self.isolation == IsolationLevel::Newest)
            .durability(durability)
            .read_only(kind.reads_only())
    }

    /// The warehouses of a thread: each belongs to one thread, or several threads share one.
    fn warehouses(&self, thread: usize) -> Vec<u16> {
        let count = usize::from(self.scale.warehouses);
        let own = (thread % count..count).step_by(self.threads);
        own.map(|index| index as u16 + 1).collect()
    }
}

/// The results of a run.
pub(super) struct TerminalResults {
    /// Of the transactions that began in the measured time, by kind.
    pub(super) latency_ns: [Histogram<u64>; KINDS],
    /// Attempts that a conflict, a deadlock or a serialization failure ended, by kind.
    pub(super) conflicts: [u64; KINDS],
    /// New-orders of an item that does not exist.
    pub(super) rollbacks: u64,
    /// The measured time.
    pub(super) elapsed: Duration,
    /// The process's processor time in it.
    pub(super) cpu: Duration,
    /// Bytes written to the log in it.
    pub(super) log_bytes: f64,
    /// Waits for row locks in it.
    pub(super) lock_waits: f64,
    /// The changes that were acknowledged, also before the measured time (TPCC-5).
    pub(super) acknowledged: Changes,
}

impl TerminalResults {
    /// The transactions of a kind that were acknowledged in the measured time.
    pub(super) fn count(&self, kind: TransactionKind) -> u64 {
        self.latency_ns[kind as usize].len()
    }

    /// The latencies of all kinds together.
    pub(super) fn all(&self) -> Histogram<u64> {
        let mut all = latencies();
        self.latency_ns.iter().for_each(|latency_ns| all += latency_ns);
        all
    }
}

/// Latencies from a microsecond to a minute, to a hundredth: small, since each commit touches one.
fn latencies() -> Histogram<u64> {
    Histogram::new_with_bounds(1000, 60_000_000_000, 2).expect("the bounds are in order")
}

/// The commits of one thread: those in flight, and the outcomes of those that ended.
struct Commits {
    in_flight: AtomicUsize,
    owner: Thread,
    ended: Mutex<EndedCommits>,
}

struct EndedCommits {
    /// Transactions that began earlier are not measured.
    from: Duration,
    latency_ns: [Histogram<u64>; KINDS],
    acknowledged: [u64; KINDS],
    failure: Option<Error>,
}

impl Commits {
    fn new(from: Duration) -> Arc<Commits> {
        let latency_ns = std::array::from_fn(|_| latencies());
        let ended = EndedCommits { from, latency_ns, acknowledged: [0; KINDS], failure: None };
        Arc::new(Commits {
            in_flight: AtomicUsize::new(0),
            owner: std::thread::current(),
            ended: Mutex::new(ended),
        })
    }

    fn end(&self, kind: TransactionKind, begun: Duration, outcome: spillway::Result<Csn>) {
        let latency = clock::now().saturating_sub(begun);
        let mut ended = self.ended.lock();
        match outcome {
            Ok(_) => {
                ended.acknowledged[kind as usize] += 1;
                if begun >= ended.from {
                    ended.latency_ns[kind as usize].saturating_record(latency.as_nanos() as u64);
                }
            }
            Err(error) => {
                ended.failure.get_or_insert(error);
            }
        }
    }

    /// Waits until fewer than `limit` commits are in flight, and helps to write them to the log.
    fn wait_below(&self, limit: usize, db: &Database) {
        while self.in_flight.load(Ordering::Acquire) >= limit {
            if !db.lead_flush() && self.in_flight.load(Ordering::Acquire) >= limit {
                // A thread that ends a commit counts it and then unparks this thread.
                std::thread::park();
            }
        }
    }
}

/// A thread's work.
struct Terminal<'a> {
    db: &'a Database,
    plan: &'a TerminalPlan,
    executor: Executor<'a>,
    commits: Arc<Commits>,
    spare: Option<Spare>,
    conflicts: [u64; KINDS],
    rollbacks: u64,
}

impl Terminal<'_> {
    /// Runs transactions until `until`, and at most `most`.
    fn run(&mut self, thread: usize, until: Duration, most: u64) -> spillway::Result<()> {
        let warehouses = self.plan.warehouses(thread);
        let from = self.commits.ended.lock().from;
        let mut draws = Draws::new(self.plan.seed.wrapping_add(thread as u64), self.plan.scale);
        for _ in 0..most {
            let begun = clock::now();
            if begun >= until {
                break;
            }
            let warehouse = warehouses[draws.rng.below(warehouses.len() as u64) as usize];
            let input = draws.transaction(warehouse);
            // TPCC-3
            while !self.attempt(warehouse, &input, begun, from)? {
                self.conflicts[input.kind() as usize] += u64::from(begun >= from);
            }
        }
        self.commits.wait_below(1, self.db);
        self.commits.ended.lock().failure.take().map_or(Ok(()), Err)
    }

    /// Runs a transaction once; `false` if a conflict ended it.
    fn attempt(
        &mut self,
        warehouse: u16,
        input: &TransactionInput,
        begun: Duration,
        from: Duration,
    ) -> spillway::Result<bool> {
        let kind = input.kind();
        let spare = self.spare.take().unwrap_or_else(|| self.db.spare(&CancelHandle::default()));
        let txn = spare.begin(self.plan.options(kind));
        match self.executor.run(&txn, warehouse, input) {
            Ok(Wish::Commit) => {}
            Ok(Wish::Rollback) => {
                self.spare = Some(txn.rollback_and_leave());
                self.rollbacks += u64::from(begun >= from);
                return Ok(true);
            }
            Err(error) => {
                self.spare = Some(txn.rollback_and_leave());
                return if is_conflict(&error) { Ok(false) } else { Err(error) };
            }
        }
        let (commit, spare) = txn.commit_and_leave();
        self.spare = Some(spare);
        match commit.known() {
            Some(Err(error)) if is_conflict(&error) => return Ok(false),
            Some(_) => self.commits.end(kind, begun, commit.wait()),
            None if self.plan.acknowledgement == Acknowledgement::Flight => {
                let commits = self.commits.clone();
                commits.in_flight.fetch_add(1, Ordering::Relaxed);
                commit.then(move |outcome| {
                    commits.end(kind, begun, outcome);
                    commits.in_flight.fetch_sub(1, Ordering::Release);
                    commits.owner.unpark();
                });
                self.commits.wait_below(self.plan.in_flight, self.db);
            }
            None => self.commits.end(kind, begun, commit.wait()),
        }
        Ok(true)
    }
}

/// Whether a transaction with this error is to be run again.
fn is_conflict(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WriteConflict | ErrorKind::Deadlock | ErrorKind::SerializationFailure
    )
}

/// The log's bytes and the waits for row locks, so far.
fn counters(db: &Database) -> [f64; 2] {
    let metrics = db.metrics();
    ["log_flushed_bytes_total", "stall_lock_total"].map(|name| metrics_sum(&metrics, &[name]))
}

/// Starts a thread with a name, by which profilers distinguish terminals from the load.
fn spawn<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> ScopedJoinHandle<'scope, T> {
    let named = Builder::new().name("terminal".to_owned());
    named.spawn_scoped(scope, work).expect("the system has a thread left")
}

/// Runs the mix. All commits have ended when it returns.
///
/// # Errors
/// The first failure of a thread that is no conflict.
pub(super) fn drive(
    db: &Database,
    tables: &Tables,
    plan: &TerminalPlan,
) -> spillway::Result<TerminalResults> {
    let (from, until) = plan.extent.moments(clock::now());
    let mut before = (own_time(), counters(db));
    let (terminals, cpu) = std::thread::scope(|scope| {
        let work = |thread: usize| {
            let mut terminal = Terminal {
                db,
                plan,
                executor: Executor::new(tables),
                commits: Commits::new(from),
                spare: None,
                conflicts: [0; KINDS],
                rollbacks: 0,
            };
            let most = plan.extent.share(thread, plan.threads);
            terminal.run(thread, until, most).map(|()| terminal)
        };
        let workers: Vec<_> =
            (0..plan.threads).map(|thread| spawn(scope, move || work(thread))).collect();
        if let Some(warm_up) = from.checked_sub(clock::now()) {
            Clock::system().sleep(warm_up);
            before = (own_time(), counters(db));
        }
        let terminals: Vec<_> = workers
            .into_iter()
            .map(|worker| worker.join().expect("a terminal does not panic"))
            .collect();
        (terminals, own_time() - before.0)
    });
    let elapsed = clock::now() - from;
    let after = counters(db);
    let mut results = TerminalResults {
        latency_ns: std::array::from_fn(|_| latencies()),
        conflicts: [0; KINDS],
        rollbacks: 0,
        elapsed,
        cpu,
        log_bytes: after[0] - before.1[0],
        lock_waits: after[1] - before.1[1],
        acknowledged: Changes::default(),
    };
    for terminal in terminals {
        let terminal = terminal?;
        let ended = terminal.commits.ended.lock();
        for kind in 0..KINDS {
            results.latency_ns[kind] += &ended.latency_ns[kind];
            results.conflicts[kind] += terminal.conflicts[kind];
        }
        results.rollbacks += terminal.rollbacks;
        let of = |kind: TransactionKind| ended.acknowledged[kind as usize];
        results.acknowledged.new_orders += of(TransactionKind::NewOrder);
        results.acknowledged.payments += of(TransactionKind::Payment);
    }
    Ok(results)
}
