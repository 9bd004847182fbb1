//! Those who wait for their commits to become stable.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use spillway_base::{Csn, Error, Result};

use crate::sync::{Condvar, Mutex};

#[derive(Default)]
struct SignalState {
    woken: bool,
    waker: Option<Waker>,
}

/// Wakes one waiter, thread or task.
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

    /// Sleeps until woken; a wake-up that came before counts.
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

/// What is called with a commit's outcome.
pub(crate) type Done = Box<dyn FnOnce(Result<()>) + Send>;

enum Who {
    /// A thread sleeps, which can lead a flush when woken.
    Thread(Arc<Signal>),
    Task(Arc<Signal>),
    Call(Done),
}

impl Who {
    fn tell(self, outcome: Result<()>) {
        match self {
            // They look for themselves.
            Who::Thread(signal) | Who::Task(signal) => signal.wake(),
            Who::Call(done) => done(outcome),
        }
    }
}

/// One who waits.
struct Waiting {
    csn: Csn,
    who: Who,
}

/// Who can see to the next flush.
pub(super) enum Leader {
    /// A thread that was woken for it.
    Woken,
    /// Nobody of those who wait can, and some need it.
    Missing,
    /// Nobody needs it.
    None,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Waiting>,
    failure: Option<Error>,
}

/// Everyone who waits, and the failure that ended all waiting, if there was one.
///
/// Who registers looks at the outcome again after it, and who changes the outcome wakes after that: one of the
/// two finds the other.
#[derive(Default)]
pub(super) struct Waiters(Mutex<State>);

impl Waiters {
    /// Registers one who waits for `csn`; a waker makes it a task.
    pub(super) fn register(&self, csn: Csn, waker: Option<&Waker>) -> Arc<Signal> {
        let signal = Arc::new(Signal::default());
        if let Some(waker) = waker {
            signal.set_waker(waker);
        }
        let who = match waker {
            Some(_) => Who::Task(signal.clone()),
            None => Who::Thread(signal.clone()),
        };
        self.0.lock().waiting.push_back(Waiting { csn, who });
        signal
    }

    /// Registers a call for when `csn` is known.
    pub(super) fn register_call(&self, csn: Csn, done: Done) {
        self.0.lock().waiting.push_back(Waiting { csn, who: Who::Call(done) });
    }

    /// Tells those whose commit is at or below `stable`.
    pub(super) fn acknowledge(&self, stable: Csn) {
        let ready: VecDeque<Waiting> = {
            let waiting = &mut self.0.lock().waiting;
            let (ready, rest) = waiting.drain(..).partition(|waiting| waiting.csn <= stable);
            *waiting = rest;
            ready
        };
        ready.into_iter().for_each(|waiting| waiting.who.tell(Ok(())));
    }

    /// Wakes the first thread that needs a flush past `durable`, to lead it. One who only waits for others'
    /// installs would go back to sleep, and the flush would have no leader.
    pub(super) fn wake_leader(&self, durable: Csn) -> Leader {
        let leader = {
            let state = self.0.lock();
            let mut needy = state.waiting.iter().filter(|waiting| waiting.csn > durable).peekable();
            if needy.peek().is_none() {
                return Leader::None;
            }
            needy.find_map(|waiting| match &waiting.who {
                Who::Thread(signal) => Some(signal.clone()),
                Who::Task(_) | Who::Call(_) => None,
            })
        };
        let Some(signal) = leader else { return Leader::Missing };
        signal.wake();
        Leader::Woken
    }

    /// Keeps the failure that ends all waiting; the first one stays.
    pub(super) fn note_failure(&self, failure: impl FnOnce() -> Error) {
        self.0.lock().failure.get_or_insert_with(failure);
    }

    /// Tells everyone: no commit above `stable` becomes so any more.
    pub(super) fn tell_all(&self, stable: Csn) {
        let (waiting, failure) = {
            let mut state = self.0.lock();
            (std::mem::take(&mut state.waiting), state.failure.clone())
        };
        for Waiting { csn, who } in waiting {
            let failed = failure.clone().filter(|_| csn > stable);
            who.tell(failed.map_or(Ok(()), Err));
        }
    }

    pub(super) fn failure(&self) -> Option<Error> {
        self.0.lock().failure.clone()
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn count(&self) -> usize {
        self.0.lock().waiting.len()
    }
}
