//! Locks for what loom checks: `parking_lot`'s in production, and loom's under the same interface,
//! so that the code that is checked is the code that runs. And waiting for what has no lock.

use std::time::Duration;

use spillway_base::clock::Clock;
use spillway_base::sync::{hint, thread};

#[cfg(not(loom))]
pub(crate) use spillway_base::lock::{Condvar, Mutex, MutexGuard};

#[cfg(loom)]
pub(crate) use spillway_base::modelled::{Condvar, Mutex, MutexGuard};

/// Between two looks, once a wait is long.
const NAP: Duration = Duration::from_micros(50);

/// Waits a little for another thread, and longer the more often it was in vain: it may need the
/// processor, or be at work on something large.
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
