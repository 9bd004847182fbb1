//! Threads that flush what nobody waits for, one for each lane.
//!
//! Whoever leaves a commit behind asks with the delay that will do. Most ask for what was asked
//! before: then one look at an atomic is all, and no clock is read. A flusher takes the question
//! back before it looks at the queue, so whoever finds it asked has its commit in the queue that
//! will be looked at.
//!
//! A commit that is told of by a call asks for little: a thread that has nothing else to do may
//! flush it first, and under load one always does. So a flusher that was asked for no more only
//! stands by ([`Urgency::Soon`]): each time that passes it looks whether others have flushed what
//! was there the last time, and flushes only where nobody has. As long as there is something in the
//! queue it stays asked, and nobody has to wake it.

use std::time::Duration;

use spillway_base::Csn;
use spillway_base::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use spillway_base::thread::JoinHandle;

use super::Pipeline;
use crate::sync::{Condvar, Mutex};
use crate::transaction::SOON;

/// How soon a flush is wanted. A class comes with a due time of its own; who asks for a class that
/// was asked for, or for less, has nothing to add.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Urgency {
    /// By a time of the asker's own.
    Timed = 0,
    /// Some time: nobody waits.
    Relaxed = 1,
    /// Very soon: a call waits, whose thread may lead a flush before, or an engine does.
    Soon = 2,
    /// At once.
    Now = 3,
}

/// What a flusher's thread has to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Task {
    /// Make all that is queued durable.
    Flush,
    /// Write what is queued, so that its room in the queue is free.
    MakeRoom,
}

/// Standing by, for commits that others may flush.
#[derive(Clone, Copy)]
struct StandBy {
    /// When to look.
    at: Duration,
    /// Every commit up to here was ordered when this began.
    ordered: Csn,
}

#[derive(Default)]
struct Wanted {
    due: Option<Duration>,
    stand_by: Option<StandBy>,
    room: bool,
}

impl Wanted {
    /// When there will be something to do or to look at, unless asked anew.
    fn next(&self) -> Option<Duration> {
        self.due.into_iter().chain(self.stand_by.map(|stand_by| stand_by.at)).min()
    }
}

#[derive(Default)]
struct Flusher {
    /// The largest urgency asked for, but for [`Urgency::Soon`].
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

    /// Takes the threads over, which do what is asked for here.
    pub(crate) fn started(&self, threads: Vec<JoinHandle<()>>) {
        self.threads.lock().extend(threads);
        self.running.store(true, Ordering::Release);
    }

    /// How many threads there should be.
    pub(crate) fn count(&self) -> usize {
        self.each.len()
    }

    pub(crate) fn are_running(&self) -> bool {
        self.running.load(Ordering::Acquire)
    }

    /// Asks for room in a lane's queue.
    pub(super) fn ask_room(&self, lane: usize) {
        let flusher = &self.each[lane];
        if !flusher.asked_room.load(Ordering::Relaxed)
            && !flusher.asked_room.swap(true, Ordering::SeqCst)
        {
            flusher.wanted.lock().room = true;
            flusher.changed.notify_one();
        }
    }

    /// Ends the threads.
    pub(crate) fn end(&self) {
        self.stop.store(true, Ordering::Release);
        self.running.store(false, Ordering::Release);
        for flusher in &self.each {
            drop(flusher.wanted.lock());
            flusher.changed.notify_all();
        }
        for thread in std::mem::take(&mut *self.threads.lock()) {
            // It ends with its loop; a panic in it has been reported by the panic hook.
            let _ = thread.join();
        }
    }
}

impl Pipeline {
    /// Asks the flushers for a flush, at `due` at the latest, of every lane that has something
    /// queued.
    pub(crate) fn flush_by(&self, urgency: Urgency, due: impl Fn() -> Duration) {
        let mut at = None;
        for (flusher, lane) in self.flushers.each.iter().zip(&self.lanes) {
            if !lane.has_unflushed() {
                continue;
            }
            if urgency == Urgency::Soon {
                // After the caller's commit was queued, before the look at whether the flusher will
                // look for it.
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

    /// What a flusher's thread does until it is stopped.
    pub(crate) fn run_flusher(&self, index: usize, now: impl Fn() -> Duration) {
        let flusher = &self.flushers.each[index];
        let _guard = self.guard("flushing the log in the background");
        while !self.flushers.stop.load(Ordering::Acquire) {
            if let Some(task) = self.next_task(index, now()) {
                self.flush_lane(index, task);
                continue;
            }
            let mut wanted = flusher.wanted.lock();
            // Whoever asked or stopped it before did not see it sleep.
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

    /// What a lane's flusher has to do at this time.
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
