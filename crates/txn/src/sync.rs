//! Locks for code that loom checks, and the backoff of waits without a lock. The locks are those of
//! `parking_lot` in production, and those of loom in loom's models. Both have the same interface,
//! so that loom checks the code that runs in production.

use std::time::Duration;

use spillway_base::clock::Clock;
use spillway_base::sync::{hint, thread};

#[cfg(not(loom))]
pub(crate) use spillway_base::lock::{Condvar, Mutex, MutexGuard};

#[cfg(loom)]
pub(crate) use spillway_base::modelled::{Condvar, Mutex, MutexGuard};

/// The sleep between two polls of a long wait.
const NAP: Duration = Duration::from_micros(50);

/// Waits a little for another thread, and longer after more tries: the other thread may need the
/// processor, or be busy with something large.
pub(crate) fn pause(tries: &mut u32) {
    *tries = tries.saturating_add(1);
    match *tries {
        ..=64 if !cfg!(loom) => hint::spin_loop(),
        ..=256 => thread::yield_now(),
        _ => Clock::system().sleep(NAP),
    }
}

/// A fence between two sequentially consistent accesses of one thread, for loom only. Loom treats
/// such accesses as acquire and release, and models sequentially consistent fences. Production
/// needs no fence here.
pub(crate) fn model_fence() {
    #[cfg(loom)]
    loom::sync::atomic::fence(loom::sync::atomic::Ordering::SeqCst);
}
