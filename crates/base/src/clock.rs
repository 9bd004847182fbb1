//! The clock: the only place where time is read or waited for (decision 009).
//!
//! Code whose behaviour depends on time holds a [`Clock`], which a test or a simulation can drive
//! by hand. Code that only reports durations calls [`now`].
#![allow(clippy::disallowed_methods)]

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The wall time at which a simulation begins, since the Unix epoch.
#[cfg(debug_assertions)]
const SIMULATED_EPOCH: Duration = Duration::from_secs(1_700_000_000);

/// Time since the process first called this, on the machine's monotonic clock.
#[must_use]
pub fn now() -> Duration {
    #[cfg(debug_assertions)]
    if let Some(now) = crate::scheduler::now() {
        return now;
    }
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed()
}

/// Time since the Unix epoch, on the machine's wall clock.
#[must_use]
pub fn wall() -> Duration {
    #[cfg(debug_assertions)]
    if let Some(now) = crate::scheduler::now() {
        return SIMULATED_EPOCH + now;
    }
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// A clock: the machine's, or one that a test moves.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    manual_ns: Option<Arc<AtomicU64>>,
}

impl Clock {
    /// The machine's clock.
    #[must_use]
    pub fn system() -> Clock {
        Clock::default()
    }

    /// A clock that stands still until [`Clock::advance`]; sleeping on it advances it.
    #[must_use]
    pub fn manual() -> Clock {
        Clock { manual_ns: Some(Arc::new(AtomicU64::new(0))) }
    }

    /// Monotonic time.
    #[must_use]
    pub fn now(&self) -> Duration {
        match &self.manual_ns {
            None => now(),
            Some(ns) => Duration::from_nanos(ns.load(Ordering::SeqCst)),
        }
    }

    /// Waits for `duration`.
    pub fn sleep(&self, duration: Duration) {
        match &self.manual_ns {
            #[cfg(debug_assertions)]
            None if crate::scheduler::is_task() => crate::scheduler::sleep(duration),
            None => std::thread::sleep(duration),
            Some(_) => self.advance(duration),
        }
    }

    /// Moves a manual clock. It has no effect on the machine's clock.
    pub fn advance(&self, duration: Duration) {
        if let Some(ns) = &self.manual_ns {
            ns.fetch_add(duration.as_nanos() as u64, Ordering::SeqCst);
        }
    }
}
