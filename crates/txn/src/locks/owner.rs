//! A transaction as the lock table sees it.

use std::cell::{OnceCell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;
use spillway_base::sync::atomic::{AtomicBool, Ordering};
use spillway_base::sync::hint;
use spillway_base::thread::blocking;
use spillway_base::{Error, ErrorKind, Result};

use super::Acquired;
use super::line::{Taken, Target};
use crate::sync::{Condvar, Mutex};

/// How long one who is next looks for its grant before it sleeps. Who changes a hot row in a statement that commits by
/// itself holds it for less than a thread takes to fall asleep and wake.
const SPIN: Duration = if cfg!(loom) { Duration::ZERO } else { Duration::from_micros(5) };

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Granted,
    Deadlock,
    Interrupted,
    TimedOut,
}

/// Holds and waits for locks, for one transaction and by one thread at a time. What other threads need of it, its
/// [`Wait`], is made when it first waits or may be interrupted.
pub(crate) struct LockOwner {
    pub(super) id: u64,
    /// The hashes of the keys held. A hash that two keys share is there twice, and by that both are given back.
    pub(super) held: RefCell<SmallVec<[u64; 4]>>,
    wait: OnceCell<Arc<Wait>>,
}

impl LockOwner {
    /// The owner of this number, which no other of the same table has.
    pub(crate) fn new(id: u64) -> LockOwner {
        LockOwner { id, held: RefCell::default(), wait: OnceCell::new() }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Whether it holds any lock.
    pub(crate) fn holds_any(&self) -> bool {
        !self.held.borrow().is_empty()
    }

    /// Notes a lock that the table has given it.
    pub(super) fn took(&self, target: Target<'_>, taken: Taken) -> Acquired {
        if taken == Taken::New {
            self.held.borrow_mut().push(target.hash);
        }
        if taken == Taken::Held { Acquired::Held } else { Acquired::New }
    }

    /// What other threads see of it.
    pub(crate) fn wait(&self) -> &Arc<Wait> {
        self.wait.get_or_init(Arc::default)
    }
}

#[derive(Default)]
struct State {
    granted: bool,
    interrupted: bool,
}

/// The waits of one owner, one at a time. Other threads grant and interrupt them.
#[derive(Default)]
pub(crate) struct Wait {
    state: Mutex<State>,
    changed: Condvar,
    /// As the state has it, for one who looks without a lock.
    granted: AtomicBool,
}

impl Wait {
    /// Ends a wait under way, or the next one, with [`ErrorKind::Interrupted`].
    pub(crate) fn interrupt(&self) {
        self.state.lock().interrupted = true;
        self.changed.notify_all();
    }

    /// Takes back an interruption that met no wait.
    pub(crate) fn clear_interrupt(&self) {
        self.state.lock().interrupted = false;
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.state.lock().interrupted
    }

    /// Called with the shard held, before the owner is put in line.
    pub(super) fn prepare(&self) -> Result<()> {
        let mut state = self.state.lock();
        if std::mem::take(&mut state.interrupted) {
            return Err(Error::new(ErrorKind::Interrupted, "the lock wait was cancelled"));
        }
        state.granted = false;
        self.granted.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Called with the shard held, so that a grant is of the wait under way and never of the next; [`Wait::wake`]
    /// follows.
    pub(super) fn grant(&self) {
        self.state.lock().granted = true;
        self.granted.store(true, Ordering::Release);
    }

    /// Called with no shard held. When it comes late, the owner looks and finds nothing new.
    pub(super) fn wake(&self) {
        self.changed.notify_all();
    }

    /// Looks for a grant without sleeping, for as long as [`SPIN`] says.
    pub(super) fn spin(&self) {
        let until = spillway_base::clock::now() + SPIN;
        while !self.granted.load(Ordering::Acquire) && spillway_base::clock::now() < until {
            (0..16).for_each(|_| hint::spin_loop());
        }
    }

    /// Waits for a grant, an interruption or the deadline.
    pub(super) fn verdict(&self, deadline: Duration) -> Verdict {
        // A thread that comes back to its pool may have to wait for it, and must not do that with the state held, which
        // whoever grants needs.
        blocking(|| {
            let mut state = self.state.lock();
            loop {
                if state.granted {
                    return Verdict::Granted;
                }
                if std::mem::take(&mut state.interrupted) {
                    return Verdict::Interrupted;
                }
                let left = deadline.saturating_sub(spillway_base::clock::now());
                if left.is_zero() {
                    return Verdict::TimedOut;
                }
                self.changed.wait_for(&mut state, left);
            }
        })
    }
}
