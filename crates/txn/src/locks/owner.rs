//! The owner of locks: a transaction's part in the lock table.

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

use super::key::{LockKey, Target, lock_bytes};
use super::outcome::{Acquired, Taken};
use super::span::FoldedSpans;
use crate::options::LockMode;
use crate::sync::{Condvar, Mutex};

/// How long the waiter at the front spins before it sleeps. A statement with its own commit holds a
/// row's lock for less time than a thread takes to fall asleep and wake.
const SPIN: Duration = if cfg!(loom) { Duration::ZERO } else { Duration::from_micros(5) };

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Granted,
    Deadlock,
    Interrupted,
    TimedOut,
}

/// Holds and waits for locks, for one transaction and by one thread at a time. Its [`Wait`], which
/// other threads use, is created when it first waits or may be interrupted.
pub(crate) struct LockOwner {
    pub(super) id: u64,
    /// The hashes of the locked keys. A hash that two keys share is there twice, so that both are
    /// released.
    pub(super) held: RefCell<SmallVec<[u64; 4]>>,
    /// The spans into which its locks were folded, if they were.
    pub(super) folded: RefCell<Option<Box<FoldedSpans>>>,
    /// The bytes that its locks are charged for (LOCK-8).
    pub(super) bytes: Cell<usize>,
    wait: OnceCell<Arc<Wait>>,
    /// Whether its waits return instead of blocking the thread. This has an effect only if a waker
    /// is set.
    leaves: Cell<bool>,
    /// The wait in progress without a blocked thread.
    pub(super) left: RefCell<Option<Box<Left>>>,
    /// The number of waits that ended because the lock was granted.
    pub(super) waits_granted: Cell<u64>,
}

/// A wait in progress without a blocked thread. The owner is in the line.
pub(super) struct Left {
    pub(super) key: LockKey,
    pub(super) mode: LockMode,
    /// Whether the owner holds a shared lock.
    pub(super) upgrade: bool,
    pub(super) timeout: Duration,
    pub(super) from: Duration,
    /// Counts the wait as pending.
    pub(super) _counted: Option<Pending>,
}

impl Left {
    pub(super) fn deadline(&self) -> Duration {
        self.from.saturating_add(self.timeout)
    }
}

impl LockOwner {
    /// The owner with this number, which is unique within a lock table.
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

    /// As [`LockOwner::new`], with the [`Wait`] of an earlier owner that has ended.
    pub(crate) fn waiting_by(id: u64, wait: Arc<Wait>) -> LockOwner {
        LockOwner { wait: OnceCell::from(wait), ..LockOwner::new(id) }
    }

    /// The number of its waits that ended because the lock was granted. It never falls.
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

    /// The bytes that its locks are charged for.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.get()
    }

    /// Whether it holds at least this many row locks, and enough new ones since its last fold.
    pub(crate) fn holds_lines(&self, at_least: usize) -> bool {
        let folded = self.folded.borrow();
        let fold_from = folded.as_ref().map_or(0, |folded| folded.fold_from);
        self.held.borrow().len() >= at_least.max(fold_from)
    }

    /// Sets whether its waits return instead of blocking the thread, so that the waker of its
    /// [`Wait`] is called when one can continue.
    pub(crate) fn leave_waits(&self, leave: bool) {
        self.leaves.set(leave);
    }

    /// The waker to call instead of waking the thread, if waits do not block.
    pub(super) fn waker(&self) -> Option<&Waker> {
        if self.leaves.get() { self.wait.get()?.waker() } else { None }
    }

    /// Whether it has a wait in progress without a blocked thread.
    pub(crate) fn has_left(&self) -> bool {
        self.left.borrow().is_some()
    }

    /// The deadline of the wait without a blocked thread.
    pub(crate) fn left_until(&self) -> Option<Duration> {
        self.left.borrow().as_ref().map(|left| left.deadline())
    }

    /// Records a lock that the table has granted.
    pub(super) fn took(&self, target: Target<'_>, taken: Taken) -> Acquired {
        if taken == Taken::New {
            self.held.borrow_mut().push(target.hash);
            self.bytes.set(self.bytes.get() + lock_bytes(target.key.len()));
        }
        if taken == Taken::Held { Acquired::Held } else { Acquired::New }
    }

    /// Whether an interruption is pending.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.wait.get().is_some_and(|wait| wait.is_interrupted())
    }

    /// Turns it into another owner, with this number and the same [`Wait`]. It must have released
    /// its locks.
    pub(crate) fn renew(&mut self, id: u64) {
        debug_assert!(!self.holds_any() && !self.has_left());
        self.id = id;
        self.leaves.set(false);
    }

    /// The part that other threads use.
    pub(crate) fn wait(&self) -> &Arc<Wait> {
        self.wait.get_or_init(Arc::default)
    }
}

/// The waits of one owner, one at a time. Other threads grant and interrupt them.
#[derive(Default)]
pub(crate) struct Wait {
    granted: AtomicBool,
    interrupted: AtomicBool,
    /// Called when a wait or a read that did not block the owner is over.
    waker: OnceLock<Waker>,
    /// The waker to call instead of waking a sleeping thread. The mutex is locked while `granted`
    /// or `interrupted` changes, so that a thread that falls asleep misses no change.
    changing: Mutex<Option<Waker>>,
    changed: Condvar,
}

impl Wait {
    /// Ends the wait in progress, or the next one, with [`ErrorKind::Interrupted`].
    pub(crate) fn interrupt(&self) {
        {
            let _changing = self.changing.lock();
            self.interrupted.store(true, Ordering::Release);
        }
        self.wake();
    }

    /// Sets the waker for waits and reads that do not block; the first one stays.
    pub(crate) fn set_waker(&self, waker: Waker) {
        let _ = self.waker.set(waker);
    }

    /// The waker for waits and reads that do not block.
    pub(crate) fn waker(&self) -> Option<&Waker> {
        self.waker.get()
    }

    /// Withdraws an interruption that met no wait.
    pub(crate) fn clear_interrupt(&self) {
        self.interrupted.store(false, Ordering::Release);
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Acquire)
    }

    /// Prepares a wait. Called with the shard locked, before the owner joins the line, or by an
    /// owner in no line, before it leaves a read to the device. With a waker, no thread will sleep.
    pub(crate) fn prepare(&self, waker: Option<Waker>) -> Result<()> {
        if self.interrupted.swap(false, Ordering::AcqRel) {
            return Err(Error::new(ErrorKind::Interrupted, "the lock wait was cancelled"));
        }
        let mut changing = self.changing.lock();
        self.granted.store(false, Ordering::Relaxed);
        *changing = waker;
        Ok(())
    }

    /// Grants the wait in progress. Called with the shard locked, so that the owner cannot begin
    /// another wait meanwhile. A call of [`Wait::wake`] follows.
    pub(super) fn grant(&self) {
        let _changing = self.changing.lock();
        self.granted.store(true, Ordering::Release);
    }

    /// Wakes the owner. Called with no shard locked. If the call comes late, the owner wakes and
    /// finds nothing new.
    pub(super) fn wake(&self) {
        self.changed.notify_all();
        // The waker is not removed: this call may be late and belong to an earlier wait, and the
        // waker to the present one.
        let waker = self.changing.lock().clone();
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The outcome of the wait, if it is over.
    pub(super) fn look(&self, deadline: Duration) -> Option<Verdict> {
        let _changing = self.changing.lock();
        self.outcome(deadline.saturating_sub(spillway_base::clock::now()))
    }

    /// As [`Wait::look`], with `changing` locked and this much time left.
    fn outcome(&self, left: Duration) -> Option<Verdict> {
        if self.granted.load(Ordering::Acquire) {
            return Some(Verdict::Granted);
        }
        if self.interrupted.swap(false, Ordering::AcqRel) {
            return Some(Verdict::Interrupted);
        }
        left.is_zero().then_some(Verdict::TimedOut)
    }

    /// Waits for a grant, an interruption or the deadline. The waiter at the front spins before it
    /// sleeps.
    pub(super) fn verdict(&self, deadline: Duration, next: bool) -> Verdict {
        if next && self.spin() {
            return Verdict::Granted;
        }
        // This part is declared as blocking before the mutex is locked: the declaration itself may
        // wait, and the granting thread needs the mutex.
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

    /// Spins for a grant for up to [`SPIN`].
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
