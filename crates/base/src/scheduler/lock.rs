//! Locks and condition variables under the scheduler, with `parking_lot`'s interface. For a task,
//! each call is a scheduling point. The moment after a lock is acquired is one, too; without it, a
//! critical section without a scheduling point would be atomic to the other tasks.
//!
//! Each lock contains one of `parking_lot`'s. A task only tries that lock, and waits in the
//! scheduler if the attempt fails. A thread that is no task blocks as without the scheduler. Tasks
//! and other threads share no lock during a history.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::lock_api::{self, GuardNoSend, RawMutex as _, RawRwLock as _};

use super::{Wait, block, is_task, point, reschedule, wake};

/// A mutual exclusion lock.
pub type Mutex<T> = lock_api::Mutex<RawMutex, T>;
/// Unlocks a [`Mutex`] when it is dropped.
pub type MutexGuard<'a, T> = lock_api::MutexGuard<'a, RawMutex, T>;
/// A lock for several readers or one writer.
pub type RwLock<T> = lock_api::RwLock<RawRwLock, T>;
/// Unlocks a [`RwLock`] when it is dropped.
pub type RwLockReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRwLock, T>;
/// Unlocks a [`RwLock`] when it is dropped.
pub type RwLockWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRwLock, T>;

/// A lock under the scheduler.
pub struct RawMutex(parking_lot::RawMutex);

impl RawMutex {
    fn wait(&self) -> Wait {
        Wait::At("a mutex", std::ptr::from_ref(self) as usize)
    }
}

// SAFETY: each method forwards to `parking_lot`'s lock, which keeps the contract.
unsafe impl lock_api::RawMutex for RawMutex {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: RawMutex = RawMutex(parking_lot::RawMutex::INIT);

    type GuardMarker = GuardNoSend;

    #[track_caller]
    fn lock(&self) {
        if !is_task() {
            return self.0.lock();
        }
        point();
        while !self.0.try_lock() {
            block(self.wait(), None);
        }
        // Another task may run here and find the lock taken.
        point();
    }

    fn try_lock(&self) -> bool {
        point();
        let taken = self.0.try_lock();
        point();
        taken
    }

    unsafe fn unlock(&self) {
        // SAFETY: the caller holds the lock.
        unsafe { self.0.unlock() };
        if wake(self.wait(), false) {
            reschedule();
        }
        point();
    }

    fn is_locked(&self) -> bool {
        self.0.is_locked()
    }
}

// SAFETY: as that of `RawMutex`; a wait ends at its time.
unsafe impl lock_api::RawMutexTimed for RawMutex {
    type Duration = Duration;
    type Instant = Duration;

    fn try_lock_for(&self, timeout: Duration) -> bool {
        if !is_task() {
            return self.0.try_lock_for(timeout);
        }
        point();
        self.try_lock_until(super::now().unwrap_or_default() + timeout)
    }

    fn try_lock_until(&self, until: Duration) -> bool {
        // Only tasks come here. Other threads have no simulated time, and `try_lock_for` waits for
        // them without the scheduler.
        let left = || until.saturating_sub(super::now().unwrap_or(until));
        while !self.0.try_lock() {
            if left().is_zero() {
                return false;
            }
            block(self.wait(), Some(left()));
        }
        true
    }
}

/// A lock for readers and writers. As in `parking_lot`, new readers wait if a writer waits.
pub struct RawRwLock {
    lock: parking_lot::RawRwLock,
    /// Tasks that wait to write.
    writers_waiting: AtomicUsize,
}

impl RawRwLock {
    fn wait(&self) -> Wait {
        Wait::At("a lock for readers and writers", std::ptr::from_ref(self) as usize)
    }

    fn take_shared(&self) -> bool {
        self.writers_waiting.load(Ordering::Relaxed) == 0 && self.lock.try_lock_shared()
    }

    fn wake(&self) {
        if wake(self.wait(), false) {
            reschedule();
        }
        point();
    }
}

// SAFETY: each method forwards to `parking_lot`'s lock, which keeps the contract.
unsafe impl lock_api::RawRwLock for RawRwLock {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: RawRwLock =
        RawRwLock { lock: parking_lot::RawRwLock::INIT, writers_waiting: AtomicUsize::new(0) };

    type GuardMarker = GuardNoSend;

    #[track_caller]
    fn lock_shared(&self) {
        if !is_task() {
            return self.lock.lock_shared();
        }
        point();
        while !self.take_shared() {
            block(self.wait(), None);
        }
        point();
    }

    fn try_lock_shared(&self) -> bool {
        point();
        self.take_shared()
    }

    unsafe fn unlock_shared(&self) {
        // SAFETY: the caller holds the lock.
        unsafe { self.lock.unlock_shared() };
        self.wake();
    }

    #[track_caller]
    fn lock_exclusive(&self) {
        if !is_task() {
            return self.lock.lock_exclusive();
        }
        point();
        if self.lock.try_lock_exclusive() {
            return point();
        }
        self.writers_waiting.fetch_add(1, Ordering::Relaxed);
        while !self.lock.try_lock_exclusive() {
            block(self.wait(), None);
        }
        self.writers_waiting.fetch_sub(1, Ordering::Relaxed);
        point();
    }

    fn try_lock_exclusive(&self) -> bool {
        point();
        self.lock.try_lock_exclusive()
    }

    unsafe fn unlock_exclusive(&self) {
        // SAFETY: the caller holds the lock.
        unsafe { self.lock.unlock_exclusive() };
        self.wake();
    }
}

/// Whether a wait ended by its timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether the wait timed out.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

/// A condition variable.
#[derive(Debug, Default)]
pub struct Condvar {
    /// For threads that are not tasks. A waiter holds the gate from before it releases its lock
    /// until it sleeps, and a notifier takes the gate. So no notification comes between the two and
    /// is lost.
    gate: parking_lot::Mutex<()>,
    notified: parking_lot::Condvar,
}

impl Condvar {
    /// A condition variable without waiters.
    #[must_use]
    pub const fn new() -> Condvar {
        Condvar { gate: parking_lot::Mutex::new(()), notified: parking_lot::Condvar::new() }
    }

    fn on(&self) -> Wait {
        Wait::At("a condition variable", std::ptr::from_ref(self) as usize)
    }

    /// Returns whether a notification ended the wait.
    #[track_caller]
    fn wait_in<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, timeout: Option<Duration>) -> bool {
        // SAFETY: the guard holds the lock, and holds it again when this returns.
        let raw = unsafe { MutexGuard::mutex(guard).raw() };
        let woken = if is_task() {
            // SAFETY: as above.
            unsafe { raw.0.unlock() };
            wake(raw.wait(), false);
            // No other task runs before this one waits.
            block(self.on(), timeout)
        } else {
            let mut gate = self.gate.lock();
            // SAFETY: as above.
            unsafe { raw.0.unlock() };
            match timeout {
                Some(timeout) => !self.notified.wait_for(&mut gate, timeout).timed_out(),
                None => {
                    self.notified.wait(&mut gate);
                    true
                }
            }
        };
        raw.lock();
        woken
    }

    /// Waits for a notification.
    #[track_caller]
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        self.wait_in(guard, None);
    }

    /// Waits for a notification, for at most `timeout`.
    #[track_caller]
    pub fn wait_for<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        timeout: Duration,
    ) -> WaitTimeoutResult {
        WaitTimeoutResult(!self.wait_in(guard, Some(timeout)))
    }

    /// Waits while a condition holds.
    #[track_caller]
    pub fn wait_while<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) {
        while condition(&mut *guard) {
            self.wait(guard);
        }
    }

    /// Wakes one waiter. Returns whether there was one.
    pub fn notify_one(&self) -> bool {
        self.notify(true, |notified| notified.notify_one())
    }

    /// Wakes all waiters. Returns how many there were, or 1 for several.
    pub fn notify_all(&self) -> usize {
        usize::from(self.notify(false, |notified| notified.notify_all() > 0))
    }

    fn notify(&self, one: bool, notify: impl FnOnce(&parking_lot::Condvar) -> bool) -> bool {
        if !is_task() {
            let _gate = self.gate.lock();
            return notify(&self.notified);
        }
        let woken = wake(self.on(), one);
        reschedule();
        point();
        woken
    }
}
