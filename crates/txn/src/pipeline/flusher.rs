//! Threads that flush what nobody waits for, one for each lane.
//!
//! Whoever leaves a commit behind asks with the delay that will do. Most ask for what was asked before: then one look at
//! an atomic is all, and no clock is read. A flusher takes the question back before it looks at the queue, so whoever
//! finds it asked has its commit in the queue that will be looked at.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::lane::Lane;

/// How soon a flush is wanted. A class comes with a due time of its own; who asks for a class that was asked for, or for
/// less, has nothing to add.
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

#[derive(Default)]
struct Wanted {
    due: Option<Duration>,
    room: bool,
}

impl Wanted {
    /// What is to be done at this time.
    fn take(&mut self, time: Duration) -> Option<Task> {
        if self.due.is_some_and(|at| at <= time) {
            *self = Wanted::default();
            return Some(Task::Flush);
        }
        std::mem::take(&mut self.room).then_some(Task::MakeRoom)
    }
}

#[derive(Default)]
struct Flusher {
    /// The largest urgency asked for.
    asked: AtomicUsize,
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

    /// Takes the threads over, which call [`Flushers::run`].
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

    /// Asks for a flush of every lane that has something queued.
    pub(super) fn ask(&self, urgency: Urgency, due: impl Fn() -> Duration, lanes: &[Lane]) {
        let mut at = None;
        for (flusher, lane) in self.each.iter().zip(lanes) {
            if !lane.has_unflushed() {
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

    /// What a flusher's thread does until it is stopped.
    pub(crate) fn run(&self, index: usize, now: impl Fn() -> Duration, work: impl Fn(Task)) {
        let flusher = &self.each[index];
        let mut wanted = flusher.wanted.lock();
        while !self.stop.load(Ordering::Acquire) {
            let time = now();
            match wanted.take(time) {
                Some(task) => {
                    if task == Task::Flush {
                        flusher.asked.store(0, Ordering::SeqCst);
                    }
                    flusher.asked_room.store(false, Ordering::SeqCst);
                    drop(wanted);
                    work(task);
                    wanted = flusher.wanted.lock();
                }
                None => match wanted.due {
                    Some(at) => drop(flusher.changed.wait_for(&mut wanted, at - time)),
                    None => flusher.changed.wait(&mut wanted),
                },
            }
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
