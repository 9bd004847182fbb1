//! Flusher threads, one for each lane. They flush commits that no thread waits for.
//!
//! A thread that does not wait for its commit requests a flush within some delay. Most threads find
//! an earlier request of the same urgency, and have nothing to do: they access one atomic variable
//! and read no clock. The flusher still misses no commit. A thread queues its commit before it
//! looks at the request, and a flusher clears the request before it looks at the queue. So if the
//! thread finds the request set, the flusher has yet to look at the queue, and will find the commit
//! there.
//!
//! If a callback waits for a commit, the request is not urgent for the flusher ([`Urgency::Soon`]):
//! an idle thread may flush the commit first, and under load some other thread always does. So a
//! flusher that has only such requests *stands by*. After each delay of [`SOON`] it checks whether
//! other threads have flushed the commits that were queued at its last check. It flushes only if
//! they have not. While it stands by, its request stays set, so threads that queue more commits
//! need not wake it.

use std::time::Duration;

use spillway_base::Csn;
use spillway_base::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use spillway_base::thread::JoinHandle;

use super::Pipeline;
use crate::sync::{Condvar, Mutex};

/// How long a commit without a waiter may stay only in memory under [`crate::Durability::Relaxed`].
pub(crate) const RELAXED: Duration = Duration::from_millis(200);

/// How long the flusher leaves a commit to flushes of other threads. This applies if a callback
/// waits for the commit, or if an engine waits until the commit is durable before it writes it to
/// its files. The commit waits for at most twice as long: other threads may lead flushes up to one
/// check, and then stop.
pub(crate) const SOON: Duration = Duration::from_millis(1);

/// How soon a flush is requested. Each class has its own due time, so a request of a class that was
/// requested already, or of a lower class, adds nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Urgency {
    /// By a time that the caller chooses.
    Timed = 0,
    /// At some time: nothing waits.
    Relaxed = 1,
    /// Very soon: a callback or an engine waits. Another thread may lead a flush before the flusher
    /// does.
    Soon = 2,
    /// At once.
    Now = 3,
}

/// The task of a flusher's thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Task {
    /// Make all that is queued durable.
    Flush,
    /// Write the queued entries, to free their room in the queue.
    MakeRoom,
}

/// The stand-by state, for commits that other threads may flush.
#[derive(Clone, Copy)]
struct StandBy {
    /// When to check.
    at: Duration,
    /// The last commit that was ordered when this began.
    ordered: Csn,
}

#[derive(Default)]
struct Wanted {
    due: Option<Duration>,
    stand_by: Option<StandBy>,
    room: bool,
}

impl Wanted {
    /// The time of the next task or check, unless there is another request.
    fn next(&self) -> Option<Duration> {
        self.due.into_iter().chain(self.stand_by.map(|stand_by| stand_by.at)).min()
    }
}

#[derive(Default)]
struct Flusher {
    /// The highest urgency requested, except [`Urgency::Soon`].
    asked: AtomicUsize,
    asked_soon: AtomicBool,
    asked_room: AtomicBool,
    wanted: Mutex<Wanted>,
    changed: Condvar,
}

/// The flushers of all lanes.
pub(crate) struct Flushers {
    each: Box<[Flusher]>,
    running: AtomicBool,
    stop: AtomicBool,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Flushers {
    pub(super) fn new(lanes: usize) -> Flushers {
        Flushers {
            each: (0..lanes).map(|_| Flusher::default()).collect(),
            running: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            threads: Mutex::default(),
        }
    }

    /// Adds the threads that serve the requests made here.
    pub(crate) fn started(&self, threads: Vec<JoinHandle<()>>) {
        self.threads.lock().extend(threads);
        self.running.store(true, Ordering::Release);
    }

    /// The number of threads to start.
    pub(crate) fn count(&self) -> usize {
        self.each.len()
    }

    pub(crate) fn are_running(&self) -> bool {
        self.running.load(Ordering::Acquire)
    }

    /// Requests room in a lane's queue.
    pub(super) fn ask_room(&self, lane: usize) {
        let flusher = &self.each[lane];
        if !flusher.asked_room.load(Ordering::Relaxed)
            && !flusher.asked_room.swap(true, Ordering::SeqCst)
        {
            flusher.wanted.lock().room = true;
            flusher.changed.notify_one();
        }
    }

    /// Stops and joins the threads.
    pub(crate) fn end(&self) {
        self.stop.store(true, Ordering::Release);
        self.running.store(false, Ordering::Release);
        for flusher in &self.each {
            drop(flusher.wanted.lock());
            flusher.changed.notify_all();
        }
        for thread in std::mem::take(&mut *self.threads.lock()) {
            // The result is ignored: if the thread panicked, the panic hook has reported it.
            let _ = thread.join();
        }
    }
}

impl Pipeline {
    /// Requests a flush, at `due` at the latest, of every lane with queued entries.
    pub(crate) fn flush_by(&self, urgency: Urgency, due: impl Fn() -> Duration) {
        let mut at = None;
        for (flusher, lane) in self.flushers.each.iter().zip(&self.lanes) {
            if !lane.has_unflushed() {
                continue;
            }
            if urgency == Urgency::Soon {
                // The order is: the caller's commit is queued, this fence, the load of the request.
                fence(Ordering::SeqCst);
                if !flusher.asked_soon.load(Ordering::SeqCst) {
                    let at = *at.get_or_insert_with(&due);
                    self.stand_by(flusher, at);
                }
                continue;
            }
            let before = flusher.asked.fetch_max(urgency as usize, Ordering::SeqCst);
            if urgency > Urgency::Timed && before >= urgency as usize {
                continue;
            }
            let at = *at.get_or_insert_with(&due);
            let mut wanted = flusher.wanted.lock();
            if wanted.due.is_none_or(|due| at < due) {
                wanted.due = Some(at);
                drop(wanted);
                flusher.changed.notify_one();
            }
        }
    }

    fn stand_by(&self, flusher: &Flusher, at: Duration) {
        let mut wanted = flusher.wanted.lock();
        if wanted.stand_by.is_none() {
            wanted.stand_by = Some(StandBy { at, ordered: self.last_ordered() });
            flusher.asked_soon.store(true, Ordering::SeqCst);
            drop(wanted);
            flusher.changed.notify_one();
        }
    }

    /// The loop of a flusher's thread.
    pub(crate) fn run_flusher(&self, index: usize, now: impl Fn() -> Duration) {
        let flusher = &self.flushers.each[index];
        let _guard = self.guard("flushing the log in the background");
        while !self.flushers.stop.load(Ordering::Acquire) {
            if let Some(task) = self.next_task(index, now()) {
                self.flush_lane(index, task);
                continue;
            }
            let mut wanted = flusher.wanted.lock();
            // A request or a stop that came before this lock was taken found no sleeping thread to
            // wake.
            if self.flushers.stop.load(Ordering::Acquire) || wanted.room {
                continue;
            }
            match wanted.next() {
                Some(at) => {
                    let left = at.saturating_sub(now());
                    if !left.is_zero() {
                        flusher.changed.wait_for(&mut wanted, left);
                    }
                }
                None => flusher.changed.wait(&mut wanted),
            }
        }
    }

    /// Whether a lane's flusher stands by.
    #[cfg(test)]
    pub(super) fn stands_by(&self, index: usize) -> bool {
        self.flushers.each[index].wanted.lock().stand_by.is_some()
    }

    /// The task of a lane's flusher at this time.
    pub(super) fn next_task(&self, index: usize, time: Duration) -> Option<Task> {
        let (flusher, lane) = (&self.flushers.each[index], &self.lanes[index]);
        let mut wanted = flusher.wanted.lock();
        let mut flush = wanted.due.is_some_and(|at| at <= time);
        if let Some(stand_by) = wanted.stand_by
            && (flush || stand_by.at <= time)
        {
            wanted.stand_by = None;
            flusher.asked_soon.store(false, Ordering::SeqCst);
            fence(Ordering::SeqCst);
            let others_flush = !self.lags(lane, stand_by.ordered);
            if lane.has_unflushed() && others_flush && !flush {
                wanted.stand_by = Some(StandBy { at: time + SOON, ordered: self.last_ordered() });
                flusher.asked_soon.store(true, Ordering::SeqCst);
            } else {
                flush |= !others_flush;
            }
        }
        let room = std::mem::take(&mut wanted.room);
        if room {
            flusher.asked_room.store(false, Ordering::SeqCst);
        }
        if flush {
            wanted.due = None;
            flusher.asked.store(0, Ordering::SeqCst);
            return Some(Task::Flush);
        }
        room.then_some(Task::MakeRoom)
    }
}
