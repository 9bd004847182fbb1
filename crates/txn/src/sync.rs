//! Locks for code that loom checks: `parking_lot`'s in production, and loom's behind the same
//! interface in its models, so that the checked code is the code that runs. Also backoff for waits
//! without a lock.

use std::time::Duration;

use spillway_base::clock::Clock;
use spillway_base::sync::{hint, thread};

#[cfg(not(loom))]
pub(crate) use spillway_base::lock::{Condvar, Mutex, MutexGuard};

#[cfg(loom)]
pub(crate) use spillway_base::modelled::{Condvar, Mutex, MutexGuard};

/// The sleep between two polls of a long wait.
const NAP: Duration = Duration::from_micros(50);

/// Waits a little for another thread, and longer after more fruitless tries: the other thread may
/// need the processor, or be busy with something large.
pub(crate) fn pause(tries: &mut u32) {
    *tries = tries.saturating_add(1);
    match *tries {
        ..=64 if !cfg!(loom) => hint::spin_loop(),
        ..=256 => thread::yield_now(),
        _ => Clock::system().sleep(NAP),
    }
}

/// Stands between two sequentially consistent accesses of one thread. Loom models such fences, but
/// treats the accesses as acquire and release only. Production needs no fence there.
pub(crate) fn model_fence() {
    #[cfg(loom)]
    loom::sync::atomic::fence(loom::sync::atomic::Ordering::SeqCst);
}
