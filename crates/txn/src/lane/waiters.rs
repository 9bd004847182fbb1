//! Those who wait for their commits to become stable.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use spillway_base::{Csn, Error};

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

/// One who waits.
struct Waiting {
    csn: Csn,
    /// Whether a thread sleeps on it, which can lead a flush when woken.
    thread: bool,
    signal: Arc<Signal>,
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
        let waiting = Waiting { csn, thread: waker.is_none(), signal: signal.clone() };
        self.0.lock().waiting.push_back(waiting);
        signal
    }

    /// Wakes those whose commit is at or below `stable`.
    pub(super) fn acknowledge(&self, stable: Csn) {
        let mut ready = Vec::new();
        self.0.lock().waiting.retain(|waiting| {
            let done = waiting.csn <= stable;
            if done {
                ready.push(waiting.signal.clone());
            }
            !done
        });
        ready.iter().for_each(|signal| signal.wake());
    }

    /// Wakes the first thread that needs a flush past `durable`, to lead it. One who only waits for others'
    /// installs would go back to sleep, and the flush would have no leader.
    pub(super) fn wake_leader(&self, durable: Csn) {
        let leader = {
            let state = self.0.lock();
            let mut threads = state.waiting.iter().filter(|waiting| waiting.thread);
            threads.find(|waiting| waiting.csn > durable).map(|waiting| waiting.signal.clone())
        };
        if let Some(signal) = leader {
            signal.wake();
        }
    }

    /// Keeps the failure that ends all waiting; the first one stays.
    pub(super) fn note_failure(&self, failure: impl FnOnce() -> Error) {
        self.0.lock().failure.get_or_insert_with(failure);
    }

    /// Wakes everyone: nobody's commit becomes stable any more.
    pub(super) fn wake_all(&self) {
        let waiting = std::mem::take(&mut self.0.lock().waiting);
        waiting.iter().for_each(|waiting| waiting.signal.wake());
    }

    pub(super) fn failure(&self) -> Option<Error> {
        self.0.lock().failure.clone()
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn count(&self) -> usize {
        self.0.lock().waiting.len()
    }
}
