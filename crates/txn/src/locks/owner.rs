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

    /// Whether an interruption waits for a wait to end.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.wait.get().is_some_and(|wait| wait.is_interrupted())
    }

    /// What other threads see of it.
    pub(crate) fn wait(&self) -> &Arc<Wait> {
        self.wait.get_or_init(Arc::default)
    }
}

/// The waits of one owner, one at a time. Other threads grant and interrupt them.
#[derive(Default)]
pub(crate) struct Wait {
    granted: AtomicBool,
    interrupted: AtomicBool,
    /// Held while either of the two is changed for a sleeper to see.
    changing: Mutex<()>,
    changed: Condvar,
}

impl Wait {
    /// Ends a wait under way, or the next one, with [`ErrorKind::Interrupted`].
    pub(crate) fn interrupt(&self) {
        {
            let _changing = self.changing.lock();
            self.interrupted.store(true, Ordering::Release);
        }
        self.changed.notify_all();
    }

    /// Takes back an interruption that met no wait.
    pub(crate) fn clear_interrupt(&self) {
        self.interrupted.store(false, Ordering::Release);
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Acquire)
    }

    /// Called with the shard held, before the owner is put in line.
    pub(super) fn prepare(&self) -> Result<()> {
        if self.interrupted.swap(false, Ordering::AcqRel) {
            return Err(Error::new(ErrorKind::Interrupted, "the lock wait was cancelled"));
        }
        self.granted.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// Called with the shard held, so that a grant is of the wait under way and never of the next; [`Wait::wake`]
    /// follows.
    pub(super) fn grant(&self) {
        let _changing = self.changing.lock();
        self.granted.store(true, Ordering::Release);
    }

    /// Called with no shard held. When it comes late, the owner looks and finds nothing new.
    pub(super) fn wake(&self) {
        self.changed.notify_all();
    }

    /// Waits for a grant, an interruption or the deadline. One who is next looks for a while before it sleeps.
    pub(super) fn verdict(&self, deadline: Duration, next: bool) -> Verdict {
        if next && self.spin() {
            return Verdict::Granted;
        }
        // A thread that comes back to its pool may have to wait for it, and must not do that with a lock that whoever
        // grants needs.
        blocking(|| {
            let mut changing = self.changing.lock();
            loop {
                if self.granted.load(Ordering::Acquire) {
                    return Verdict::Granted;
                }
                if self.interrupted.swap(false, Ordering::AcqRel) {
                    return Verdict::Interrupted;
                }
                let left = deadline.saturating_sub(spillway_base::clock::now());
                if left.is_zero() {
                    return Verdict::TimedOut;
                }
                self.changed.wait_for(&mut changing, left);
            }
        })
    }

    /// Looks for a grant for as long as [`SPIN`] says.
    fn spin(&self) -> bool {
        let until = spillway_base::clock::now() + SPIN;
        loop {
            if self.granted.load(Ordering::Acquire) {
                return true;
            }
            if spillway_base::clock::now() >= until {
                return false;
            }
            (0..16).for_each(|_| hint::spin_loop());
        }
    }
}
