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
    /// Very soon: a call waits, whose thread may lead a flush before.
    Soon = 2,
    /// At once.
    Now = 3,
}

#[derive(Default)]
struct Flusher {
    /// The largest urgency asked for.
    asked: AtomicUsize,
    due: Mutex<Option<Duration>>,
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
            let mut due = flusher.due.lock();
            if due.is_none_or(|due| at < due) {
                *due = Some(at);
                drop(due);
                flusher.changed.notify_one();
            }
        }
    }

    /// What a flusher's thread does until it is stopped.
    pub(crate) fn run(&self, index: usize, now: impl Fn() -> Duration, flush: impl Fn()) {
        let flusher = &self.each[index];
        let mut due = flusher.due.lock();
        while !self.stop.load(Ordering::Acquire) {
            let time = now();
            match *due {
                Some(at) if at <= time => {
                    *due = None;
                    flusher.asked.store(0, Ordering::SeqCst);
                    drop(due);
                    flush();
                    due = flusher.due.lock();
                }
                Some(at) => {
                    flusher.changed.wait_for(&mut due, at - time);
                }
                None => flusher.changed.wait(&mut due),
            }
        }
    }

    /// Ends the threads.
    pub(crate) fn end(&self) {
        self.stop.store(true, Ordering::Release);
        self.running.store(false, Ordering::Release);
        for flusher in &self.each {
            drop(flusher.due.lock());
            flusher.changed.notify_all();
        }
        for thread in std::mem::take(&mut *self.threads.lock()) {
            // It ends with its loop; a panic in it has been reported by the panic hook.
            let _ = thread.join();
        }
    }
}
