//! A transaction as the lock table sees it.

use std::cell::{Cell, OnceCell, RefCell};
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::Duration;

use smallvec::SmallVec;
use spillway_base::stall::Pending;
use spillway_base::sync::atomic::{AtomicBool, Ordering};
use spillway_base::sync::hint;
use spillway_base::thread::blocking;
use spillway_base::{Error, ErrorKind, Result};

use super::Acquired;
use super::line::{LockKey, Taken, Target, lock_bytes};
use super::ranges::Folded;
use crate::options::LockMode;
use crate::sync::{Condvar, Mutex};

/// How long one who is next looks for its grant before it sleeps. Who changes a hot row in a
/// statement that commits by itself holds it for less than a thread takes to fall asleep and wake.
const SPIN: Duration = if cfg!(loom) { Duration::ZERO } else { Duration::from_micros(5) };

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Granted,
    Deadlock,
    Interrupted,
    TimedOut,
}

/// Holds and waits for locks, for one transaction and by one thread at a time. What other threads
/// need of it, its
/// [`Wait`], is made when it first waits or may be interrupted.
pub(crate) struct LockOwner {
    pub(super) id: u64,
    /// The hashes of the keys held. A hash that two keys share is there twice, and by that both are
    /// given back.
    pub(super) held: RefCell<SmallVec<[u64; 4]>>,
    /// What its locks were folded into, if they were.
    pub(super) folded: RefCell<Option<Box<Folded>>>,
    /// Bytes that its locks are charged for (LOCK-8).
    pub(super) bytes: Cell<usize>,
    wait: OnceCell<Arc<Wait>>,
    /// Whether its waits do not hold the thread up, where there is somebody to call.
    leaves: Cell<bool>,
    /// The wait that was left behind.
    pub(super) left: RefCell<Option<Box<Left>>>,
    /// Waits that ended with the lock.
    pub(super) waits_granted: Cell<u64>,
}

/// A wait that its thread has left; the owner stands in line.
pub(super) struct Left {
    pub(super) key: LockKey,
    pub(super) mode: LockMode,
    /// Whether the owner holds a share.
    pub(super) upgrade: bool,
    pub(super) timeout: Duration,
    pub(super) from: Duration,
    /// Its place in the ledger of whoever waits.
    pub(super) _counted: Option<Pending>,
}

impl Left {
    pub(super) fn deadline(&self) -> Duration {
        self.from.saturating_add(self.timeout)
    }
}

impl LockOwner {
    /// The owner of this number, which no other of the same table has.
    pub(crate) fn new(id: u64) -> LockOwner {
        LockOwner {
            id,
            held: RefCell::default(),
            folded: RefCell::default(),
            bytes: Cell::new(0),
            wait: OnceCell::new(),
            leaves: Cell::new(false),
            left: RefCell::default(),
            waits_granted: Cell::new(0),
        }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// As [`LockOwner::new`], with waits that it has after another owner, which has ended.
    pub(crate) fn waiting_by(id: u64, wait: Arc<Wait>) -> LockOwner {
        LockOwner { wait: OnceCell::from(wait), ..LockOwner::new(id) }
    }

    /// How many of its waits have ended with the lock. The count never falls.
    pub(crate) fn waits_granted(&self) -> u64 {
        self.waits_granted.get()
    }

    /// Whether it holds any lock.
    pub(crate) fn holds_any(&self) -> bool {
        !self.held.borrow().is_empty() || self.has_ranges()
    }

    /// Whether some of its locks were folded into ranges.
    pub(crate) fn has_ranges(&self) -> bool {
        self.folded.borrow().is_some()
    }

    /// Bytes that its locks are charged for.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Whether it holds so many row locks, and enough of them since they were folded last.
    pub(crate) fn holds_lines(&self, at_least: usize) -> bool {
        let folded = self.folded.borrow();
        let fold_from = folded.as_ref().map_or(0, |folded| folded.fold_from);
        self.held.borrow().len() >= at_least.max(fold_from)
    }

    /// Has its waits from now on left behind, and the waker of its [`Wait`] called when it is worth
    /// going on with one; or not any more.
    pub(crate) fn leave_waits(&self, leave: bool) {
        self.leaves.set(leave);
    }

    /// Who is called in place of the thread, where waits are left behind.
    pub(super) fn waker(&self) -> Option<&Waker> {
        if self.leaves.get() { self.wait.get()?.waker() } else { None }
    }

    /// Whether it has left a wait behind.
    pub(crate) fn has_left(&self) -> bool {
        self.left.borrow().is_some()
    }

    /// When the wait that was left behind will have taken too long.
    pub(crate) fn left_until(&self) -> Option<Duration> {
        self.left.borrow().as_ref().map(|left| left.deadline())
    }

    /// Notes a lock that the table has given it.
    pub(super) fn took(&self, target: Target<'_>, taken: Taken) -> Acquired {
        if taken == Taken::New {
            self.held.borrow_mut().push(target.hash);
            self.bytes.set(self.bytes.get() + lock_bytes(target.key.len()));
        }
        if taken == Taken::Held { Acquired::Held } else { Acquired::New }
    }

    /// Whether an interruption waits for a wait to end.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.wait.get().is_some_and(|wait| wait.is_interrupted())
    }

    /// Makes it another owner, of this number, with the same waits. It has given back what it held.
    pub(crate) fn renew(&mut self, id: u64) {
        debug_assert!(!self.holds_any() && !self.has_left());
        self.id = id;
        self.leaves.set(false);
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
    /// Who is called when a wait or a read is over that the owner has left.
    waker: OnceLock<Waker>,
    /// Held while either of the two is changed for a sleeper to see. Who is called in place of a
    /// sleeper.
    changing: Mutex<Option<Waker>>,
    changed: Condvar,
}

impl Wait {
    /// Ends a wait under way, or the next one, with [`ErrorKind::Interrupted`].
    pub(crate) fn interrupt(&self) {
        {
            let _changing = self.changing.lock();
            self.interrupted.store(true, Ordering::Release);
        }
        self.wake();
    }

    /// Sets who is called when what was left is over; the first one stays.
    pub(crate) fn set_waker(&self, waker: Waker) {
        let _ = self.waker.set(waker);
    }

    /// Who is called when what was left is over.
    pub(crate) fn waker(&self) -> Option<&Waker> {
        self.waker.get()
    }

    /// Takes back an interruption that met no wait.
    pub(crate) fn clear_interrupt(&self) {
        self.interrupted.store(false, Ordering::Release);
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Acquire)
    }

    /// Called with the shard held, before the owner is put in line; or by an owner that is in none,
    /// before it leaves a read. With a waker, nobody sleeps.
    pub(crate) fn prepare(&self, waker: Option<Waker>) -> Result<()> {
        if self.interrupted.swap(false, Ordering::AcqRel) {
            return Err(Error::new(ErrorKind::Interrupted, "the lock wait was cancelled"));
        }
        let mut changing = self.changing.lock();
        self.granted.store(false, Ordering::Relaxed);
        *changing = waker;
        Ok(())
    }

    /// Called with the shard held, so that a grant is of the wait under way and never of the next;
    /// [`Wait::wake`] follows.
    pub(super) fn grant(&self) {
        let _changing = self.changing.lock();
        self.granted.store(true, Ordering::Release);
    }

    /// Called with no shard held. When it comes late, the owner looks and finds nothing new.
    pub(super) fn wake(&self) {
        self.changed.notify_all();
        // It stays: this may be late, and of the wait before the one that it is there for.
        let waker = self.changing.lock().clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether the wait is over, and how it ended.
    pub(super) fn look(&self, deadline: Duration) -> Option<Verdict> {
        let _changing = self.changing.lock();
        self.outcome(deadline.saturating_sub(spillway_base::clock::now()))
    }

    /// As [`Wait::look`], with `changing` held and this much time left.
    fn outcome(&self, left: Duration) -> Option<Verdict> {
        if self.granted.load(Ordering::Acquire) {
            return Some(Verdict::Granted);
        }
        if self.interrupted.swap(false, Ordering::AcqRel) {
            return Some(Verdict::Interrupted);
        }
        left.is_zero().then_some(Verdict::TimedOut)
    }

    /// Waits for a grant, an interruption or the deadline. One who is next looks for a while before
    /// it sleeps.
    pub(super) fn verdict(&self, deadline: Duration, next: bool) -> Verdict {
        if next && self.spin() {
            return Verdict::Granted;
        }
        // A thread that comes back to its pool may have to wait for it, and must not do that with a
        // lock that whoever grants needs.
        blocking(|| {
            let mut changing = self.changing.lock();
            loop {
                let left = deadline.saturating_sub(spillway_base::clock::now());
                if let Some(verdict) = self.outcome(left) {
                    return verdict;
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
