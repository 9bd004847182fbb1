//! The health of an engine: the failure that ended its work, if there was one.
//!
//! - **ENGINE-FAILURE-1 (the first failure).** The first failure is kept, and every later check
//!   returns it.
//! - **ENGINE-FAILURE-2 (no lock).** A check of a sound engine takes no lock, because each commit
//!   checks.

use spillway_base::lock::Mutex;
use spillway_base::sync::atomic::{AtomicBool, Ordering};
use spillway_base::{Error, Result};

/// Whether the engine has failed, and the failure.
#[derive(Default)]
pub(super) struct Health {
    failure: Mutex<Option<Error>>,
    /// Whether there is a failure. It is checked often, without the lock of `failure`.
    failed: AtomicBool,
}

impl Health {
    /// Records a failure that ends the engine's work (E8 of [`spillway_base::engine`]).
    pub(super) fn fail(&self, error: &Error) {
        self.failure.lock().get_or_insert_with(|| error.clone());
        self.failed.store(true, Ordering::Release);
    }

    /// The failure that ended the engine's work, if there was one.
    #[inline]
    pub(super) fn check(&self) -> Result<()> {
        if !self.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        self.failure.lock().clone().map_or(Ok(()), Err)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use spillway_base::ErrorKind;

    use super::*;

    #[test]
    fn engine_failure_1_the_first_failure_stays() {
        let health = Health::default();
        health.check().unwrap();
        for kind in [ErrorKind::Corruption, ErrorKind::Closed] {
            health.fail(&Error::new(kind, "a test"));
            assert_eq!(health.check().unwrap_err().kind(), ErrorKind::Corruption);
        }
    }
}
