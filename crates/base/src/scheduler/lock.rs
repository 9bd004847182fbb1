//! Locks and condition variables under the scheduler, with `parking_lot`'s interface. Each call is
//! a scheduling point, and so is the moment after a lock was taken: a section that has none of its
//! own would be atomic to the others.
//!
//! Only one task runs at a time, so a lock is a word and a list of those who wait. Threads that are
//! no tasks, before and after a history, spin.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::lock_api::{self, GuardSend, RawMutex as _};

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

/// Waits for another thread: by the scheduler, or without it.
#[track_caller]
fn await_other(on: Wait) {
    if is_task() {
        block(on, None);
    } else {
        std::thread::yield_now();
    }
}

/// A lock under the scheduler.
pub struct RawMutex(AtomicU8);

impl RawMutex {
    fn wait(&self) -> Wait {
        Wait::At("a mutex", std::ptr::from_ref(self) as usize)
    }

    fn take(&self) -> bool {
        self.0.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }
}

// SAFETY: the word is 1 from a successful exchange to the unlock.
unsafe impl lock_api::RawMutex for RawMutex {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: RawMutex = RawMutex(AtomicU8::new(0));

    type GuardMarker = GuardSend;

    #[track_caller]
    fn lock(&self) {
        point();
        while !self.take() {
            await_other(self.wait());
        }
        // Others find it taken.
        point();
    }

    fn try_lock(&self) -> bool {
        point();
        let taken = self.take();
        point();
        taken
    }

    unsafe fn unlock(&self) {
        self.0.store(0, Ordering::Release);
        if wake(self.wait(), false) {
            reschedule();
        }
        point();
    }

    fn is_locked(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 1
    }
}

// SAFETY: as that of `RawMutex`; a wait ends at its time.
unsafe impl lock_api::RawMutexTimed for RawMutex {
    type Duration = Duration;
    type Instant = Duration;

    fn try_lock_for(&self, timeout: Duration) -> bool {
        point();
        let Some(now) = super::now() else { return self.take() };
        self.try_lock_until(now + timeout)
    }

    fn try_lock_until(&self, until: Duration) -> bool {
        while !self.take() {
            let left = until.saturating_sub(super::now().unwrap_or(until));
            if left.is_zero() {
                return false;
            }
            block(self.wait(), Some(left));
        }
        true
    }
}

const WRITER: usize = 1 << (usize::BITS - 1);

/// A lock for readers and writers. As `parking_lot`'s does, it has new readers wait for a writer
/// that waits.
pub struct RawRwLock {
    /// Readers, or [`WRITER`].
    holders: AtomicUsize,
    writers_waiting: AtomicUsize,
}

impl RawRwLock {
    fn wait(&self) -> Wait {
        Wait::At("a lock for readers and writers", std::ptr::from_ref(self) as usize)
    }

    fn take_shared(&self) -> bool {
        let readers = self.holders.load(Ordering::Relaxed);
        readers & WRITER == 0
            && self.writers_waiting.load(Ordering::Relaxed) == 0
            && self.exchange(readers, readers + 1)
    }

    fn exchange(&self, from: usize, to: usize) -> bool {
        self.holders.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    fn wake(&self) {
        if wake(self.wait(), false) {
            reschedule();
        }
        point();
    }
}

// SAFETY: the word counts readers, or has the one writer's bit.
unsafe impl lock_api::RawRwLock for RawRwLock {
    #[allow(clippy::declare_interior_mutable_const)]
    const INIT: RawRwLock =
        RawRwLock { holders: AtomicUsize::new(0), writers_waiting: AtomicUsize::new(0) };

    type GuardMarker = GuardSend;

    #[track_caller]
    fn lock_shared(&self) {
        point();
        while !self.take_shared() {
            await_other(self.wait());
        }
        point();
    }

    fn try_lock_shared(&self) -> bool {
        point();
        self.take_shared()
    }

    unsafe fn unlock_shared(&self) {
        self.holders.fetch_sub(1, Ordering::Release);
        self.wake();
    }

    #[track_caller]
    fn lock_exclusive(&self) {
        point();
        if self.exchange(0, WRITER) {
            return point();
        }
        self.writers_waiting.fetch_add(1, Ordering::Relaxed);
        while !self.exchange(0, WRITER) {
            await_other(self.wait());
        }
        self.writers_waiting.fetch_sub(1, Ordering::Relaxed);
        point();
    }

    fn try_lock_exclusive(&self) -> bool {
        point();
        self.exchange(0, WRITER)
    }

    unsafe fn unlock_exclusive(&self) {
        self.holders.store(0, Ordering::Release);
        self.wake();
    }
}

/// Whether a wait ended at its time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    /// Whether it did.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

/// A condition variable.
#[derive(Debug, Default)]
pub struct Condvar {
    /// So that each has an address of its own.
    _place: AtomicU8,
}

impl Condvar {
    /// One that nobody waits on.
    #[must_use]
    pub const fn new() -> Condvar {
        Condvar { _place: AtomicU8::new(0) }
    }

    fn on(&self) -> Wait {
        Wait::At("a condition variable", std::ptr::from_ref(self) as usize)
    }

    #[track_caller]
    fn wait_in<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>, timeout: Option<Duration>) -> bool {
        // SAFETY: the guard holds the lock, and holds it again when this returns.
        let raw = unsafe { MutexGuard::mutex(guard).raw() };
        assert!(is_task(), "a thread that is no task waits on a condition variable");
        raw.0.store(0, Ordering::Release);
        wake(raw.wait(), false);
        // No other task runs before this one waits.
        let woken = block(self.on(), timeout);
        raw.lock();
        woken
    }

    /// Waits for a notification.
    #[track_caller]
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        self.wait_in(guard, None);
    }

    /// Waits for a notification, for so long at the most.
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

    /// Wakes one that waits. Answers whether there was one.
    pub fn notify_one(&self) -> bool {
        let woken = wake(self.on(), true);
        reschedule();
        point();
        woken
    }

    /// Wakes all that wait. Answers how many there were, or 1 for several.
    pub fn notify_all(&self) -> usize {
        let woken = wake(self.on(), false);
        reschedule();
        point();
        usize::from(woken)
    }
}
