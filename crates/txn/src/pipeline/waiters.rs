//! The waiters for stable commits: sleeping threads, tasks with a waker, and callbacks.
//!
//! Waiting threads are few, so they are in one ordered map under one lock. A thread takes that lock
//! to go to sleep, to wake the next leader after its turn, and to wake sleepers whose outcome it
//! has changed. There may be thousands of tasks and callbacks, so they are spread over several
//! heaps, each with a lock. The least CSN of each heap can be read without the lock.
//!
//! No waiter misses its outcome. A waiter registers first, and then checks the outcome again. A
//! thread that changes the outcome stores the change first, and then looks for waiters. Both have a
//! sequentially consistent fence between their two steps. So the waiter sees the change, or the
//! thread sees the waiter.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::task::Waker;

use spillway_base::sync::atomic::{AtomicU64, Ordering, fence};
use spillway_base::{Csn, Error, Result};

use super::thread_number::thread_number;
use crate::sync::{Condvar, Mutex};

#[derive(Default)]
struct SignalState {
    woken: bool,
    waker: Option<Waker>,
}

/// Wakes one waiter, a thread or a task.
#[derive(Default)]
pub(crate) struct Signal {
    state: Mutex<SignalState>,
    changed: Condvar,
}

impl Signal {
    pub(super) fn wake(&self) {
        let mut state = self.state.lock();
        state.woken = true;
        let waker = state.waker.take();
        drop(state);
        self.changed.notify_one();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Sleeps until woken. Returns at once if it was woken before the call.
    pub(super) fn wait(&self) {
        let mut state = self.state.lock();
        while !std::mem::take(&mut state.woken) {
            self.changed.wait(&mut state);
        }
    }

    pub(super) fn set_waker(&self, waker: &Waker) {
        self.state.lock().waker = Some(waker.clone());
    }
}

/// The callback for a commit's outcome.
pub(crate) type Done = Box<dyn FnOnce(Result<()>) + Send>;

enum Who {
    Task(Arc<Signal>),
    Call(Done),
}

impl Who {
    fn tell(self, outcome: Result<()>) {
        match self {
            // The task polls for the outcome itself.
            Who::Task(signal) => signal.wake(),
            Who::Call(done) => done(outcome),
        }
    }
}

/// A waiter without a thread.
struct Waiting {
    csn: Csn,
    who: Who,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Waiting) -> bool {
        self.csn == other.csn
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Waiting) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Waiting) -> std::cmp::Ordering {
        self.csn.cmp(&other.csn)
    }
}

#[cfg(not(loom))]
const SHARDS: usize = 16;
#[cfg(loom)]
const SHARDS: usize = 1;

/// Some of the tasks and callbacks, the least CSN first.
#[repr(align(128))]
struct WaiterShard {
    /// The least CSN in the heap; `u64::MAX` if it is empty.
    least: AtomicU64,
    heap: Mutex<BinaryHeap<Reverse<Waiting>>>,
}

impl WaiterShard {
    fn new() -> WaiterShard {
        WaiterShard { least: AtomicU64::new(u64::MAX), heap: Mutex::default() }
    }

    fn push(&self, waiting: Waiting) {
        let csn = waiting.csn;
        let mut heap = self.heap.lock();
        heap.push(Reverse(waiting));
        self.least.fetch_min(csn.0, Ordering::Relaxed);
    }

    /// Moves the waiters at or below `stable` to `ready`.
    fn ready(&self, stable: Csn, ready: &mut Vec<Waiting>) {
        if self.least.load(Ordering::Relaxed) > stable.0 {
            return;
        }
        let mut heap = self.heap.lock();
        while heap.peek().is_some_and(|Reverse(first)| first.csn <= stable) {
            ready.extend(heap.pop().map(|Reverse(first)| first));
        }
        let least = heap.peek().map_or(u64::MAX, |Reverse(first)| first.csn.0);
        self.least.store(least, Ordering::Relaxed);
    }
}

#[derive(Default)]
struct Threads {
    sleeping: BTreeMap<(Csn, u64), Arc<Signal>>,
    /// The number of registrations so far.
    count: u64,
    failure: Option<Error>,
}

/// Reports the outcome to each waiter. If a callback panics, the other waiters still get their
/// outcome, and the panic then resumes (PIPE-4).
fn tell_each(waiting: Vec<Waiting>, outcome: impl Fn(Csn) -> Result<()>) {
    let mut panicked = None;
    for Waiting { csn, who } in waiting {
        let tell = AssertUnwindSafe(|| who.tell(outcome(csn)));
        if let Err(panic) = catch_unwind(tell) {
            panicked.get_or_insert(panic);
        }
    }
    // Resuming in a thread that already unwinds would abort the process.
    if let Some(panic) = panicked.filter(|_| !std::thread::panicking()) {
        resume_unwind(panic);
    }
}

/// All waiters, and the failure that ended all waiting, if there was one.
pub(super) struct Waiters {
    threads: Mutex<Threads>,
    /// A lower bound of the CSNs that threads wait for.
    least: AtomicU64,
    shards: Box<[WaiterShard]>,
}

impl Waiters {
    pub(super) fn new() -> Waiters {
        Waiters {
            threads: Mutex::default(),
            least: AtomicU64::new(u64::MAX),
            shards: (0..SHARDS).map(|_| WaiterShard::new()).collect(),
        }
    }

    /// Registers a thread that will sleep on the signal.
    pub(super) fn register_thread(&self, csn: Csn) -> Arc<Signal> {
        let signal = Arc::new(Signal::default());
        let mut threads = self.threads.lock();
        threads.count += 1;
        let key = (csn, threads.count);
        threads.sleeping.insert(key, signal.clone());
        self.least.fetch_min(csn.0, Ordering::Relaxed);
        drop(threads);
        fence(Ordering::SeqCst);
        signal
    }

    /// Registers a task.
    pub(super) fn register_task(&self, csn: Csn, waker: &Waker) -> Arc<Signal> {
        let signal = Arc::new(Signal::default());
        signal.set_waker(waker);
        self.push(Waiting { csn, who: Who::Task(signal.clone()) });
        signal
    }

    /// Registers a callback for the outcome of `csn`.
    pub(super) fn register_call(&self, csn: Csn, done: Done) {
        self.push(Waiting { csn, who: Who::Call(done) });
    }

    fn push(&self, waiting: Waiting) {
        self.shards[thread_number() % SHARDS].push(waiting);
        fence(Ordering::SeqCst);
    }

    /// Wakes and calls the waiters at or below `stable`, which the caller has stored before.
    pub(super) fn acknowledge(&self, stable: Csn) {
        fence(Ordering::SeqCst);
        if self.least.load(Ordering::Relaxed) <= stable.0 {
            let mut threads = self.threads.lock();
            let rest = threads.sleeping.split_off(&(stable.next(), 0));
            let ready = std::mem::replace(&mut threads.sleeping, rest);
            self.note_least(&threads);
            drop(threads);
            ready.values().for_each(|signal| signal.wake());
        }
        let mut ready = Vec::new();
        self.shards.iter().for_each(|shard| shard.ready(stable, &mut ready));
        tell_each(ready, |_| Ok(()));
    }

    fn note_least(&self, threads: &Threads) {
        let least = threads.sleeping.keys().next().map_or(u64::MAX, |(csn, _)| csn.0);
        self.least.store(least, Ordering::Relaxed);
    }

    /// Wakes a thread that waits for a commit past `durable`, so that it leads the next flush. A
    /// thread that waits for an earlier commit waits only for installs: it would go back to sleep,
    /// and the flush would have no leader.
    pub(super) fn wake_leader(&self, durable: Csn) {
        let leader = {
            let threads = self.threads.lock();
            let mut needy = threads.sleeping.range((durable.next(), 0)..);
            needy.next().map(|(_, signal)| signal.clone())
        };
        if let Some(signal) = leader {
            signal.wake();
        }
    }

    /// Keeps the failure that ends all waiting; the first one stays.
    pub(super) fn note_failure(&self, failure: impl FnOnce() -> Error) {
        self.threads.lock().failure.get_or_insert_with(failure);
    }

    /// Wakes and calls all waiters after a failure. Commits above `stable` have failed, because the
    /// stable CSN does not move any more.
    pub(super) fn tell_all(&self, stable: Csn) {
        let (sleeping, failure) = {
            let mut threads = self.threads.lock();
            let sleeping = std::mem::take(&mut threads.sleeping);
            self.note_least(&threads);
            (sleeping, threads.failure.clone())
        };
        sleeping.values().for_each(|signal| signal.wake());
        let mut waiting = Vec::new();
        self.shards.iter().for_each(|shard| shard.ready(Csn::MAX, &mut waiting));
        tell_each(waiting, |csn| match &failure {
            Some(failure) if csn > stable => Err(failure.clone()),
            _ => Ok(()),
        });
    }

    pub(super) fn failure(&self) -> Option<Error> {
        self.threads.lock().failure.clone()
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn count(&self) -> usize {
        self.threads.lock().sleeping.len()
    }
}
