//! loom's locks under `parking_lot`'s interface, for models. `try_lock` fails in a model wherever
//! it can fail in production.
//!
//! loom switches threads only before an operation that it models, and releasing a lock is not such
//! an operation. So a critical section without such an operation would be one step for loom, and
//! another thread's `try_lock` would never find the lock held. For this reason each lock has a
//! counter, which loom models. A thread increments the counter after it has acquired the lock, and
//! `try_lock` increments the counter before its attempt. So loom runs the attempt before, during
//! and after the critical section. The increments are relaxed and order nothing.
//!
//! Code that never calls `try_lock` needs no such counter. If a critical section has no effect that
//! a thread without the lock can see, no thread can tell whether the holder of the lock was
//! preempted.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use loom::sync::atomic::{AtomicUsize, Ordering};

/// A mutex that does not poison.
#[derive(Debug, Default)]
pub struct Mutex<T> {
    inner: loom::sync::Mutex<T>,
    visits: AtomicUsize,
}

/// Holds a [`Mutex`]. It has no guard only inside [`Condvar::wait`].
pub struct MutexGuard<'a, T>(Option<loom::sync::MutexGuard<'a, T>>);

impl<T> Mutex<T> {
    /// A mutex around `value`.
    pub fn new(value: T) -> Mutex<T> {
        Mutex { inner: loom::sync::Mutex::new(value), visits: AtomicUsize::new(0) }
    }

    fn visit(&self) {
        self.visits.fetch_add(1, Ordering::Relaxed);
    }

    /// Takes the lock.
    ///
    /// # Panics
    /// When a thread has panicked while it held the lock.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let guard = self.inner.lock().expect("no thread panics with a lock");
        self.visit();
        MutexGuard(Some(guard))
    }

    /// Takes the lock if no thread holds it.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.visit();
        let guard = self.inner.try_lock().ok()?;
        self.visit();
        Some(MutexGuard(Some(guard)))
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("a guard holds its lock")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.0.as_mut().expect("a guard holds its lock")
    }
}

/// A condition variable.
#[derive(Debug, Default)]
pub struct Condvar(loom::sync::Condvar);

impl Condvar {
    /// Waits to be notified.
    ///
    /// # Panics
    /// When a thread has panicked while it held the lock.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let inner = guard.0.take().expect("a guard holds its lock");
        guard.0 = Some(self.0.wait(inner).expect("no thread panics with a lock"));
    }

    /// As [`Condvar::wait`], because time does not pass in a model.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _timeout: Duration) {
        self.wait(guard);
    }

    /// Wakes all waiting threads.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }

    /// Wakes one waiting thread.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }
}
