//! Locks for what loom checks: `parking_lot`'s in production, and loom's under the same interface, so that the
//! code that is checked is the code that runs. And waiting for what has no lock.

use std::time::Duration;

use spillway_base::clock::Clock;
use spillway_base::sync::{hint, thread};

#[cfg(not(loom))]
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};

#[cfg(loom)]
pub(crate) use modelled::{Condvar, Mutex, MutexGuard};

/// Between two looks, once a wait is long.
const NAP: Duration = Duration::from_micros(50);

/// Waits a little for another thread, and longer the more often it was in vain: it may need the processor, or be at work on
/// something large.
pub(crate) fn pause(tries: &mut u32) {
    *tries = tries.saturating_add(1);
    match *tries {
        ..=64 if !cfg!(loom) => hint::spin_loop(),
        ..=256 => thread::yield_now(),
        _ => Clock::system().sleep(NAP),
    }
}

/// Stands between two accesses of one thread that are sequentially consistent. A model knows such
/// fences, and takes such accesses for acquire and release only. Production needs no fence there.
pub(crate) fn model_fence() {
    #[cfg(loom)]
    loom::sync::atomic::fence(loom::sync::atomic::Ordering::SeqCst);
}

#[cfg(loom)]
mod modelled {
    use std::ops::{Deref, DerefMut};
    use std::time::Duration;

    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    /// Empty only inside [`Condvar::wait`].
    pub(crate) struct MutexGuard<'a, T>(Option<loom::sync::MutexGuard<'a, T>>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Mutex<T> {
            Mutex(loom::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard(Some(self.0.lock().expect("no thread panics with a lock")))
        }

        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            Some(MutexGuard(Some(self.0.try_lock().ok()?)))
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

    #[derive(Debug, Default)]
    pub(crate) struct Condvar(loom::sync::Condvar);

    impl Condvar {
        pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            let inner = guard.0.take().expect("a guard holds its lock");
            guard.0 = Some(self.0.wait(inner).expect("no thread panics with a lock"));
        }

        /// Time does not pass in a model.
        pub(crate) fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _timeout: Duration) {
            self.wait(guard);
        }

        pub(crate) fn notify_all(&self) {
            self.0.notify_all();
        }

        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }
    }
}
