//! The health of an engine: whether a failure has ended its background work, and whether its last
//! background job met a full disk.
//!
//! - **HEALTH-1 (the first failure).** The first failure is kept, and every later check returns it.
//! - **HEALTH-2 (no lock).** A check of a sound engine takes no lock, because each commit checks.
//! - **HEALTH-3 (full disk).** A full disk is no failure. It is noted until a job meets none.

use std::sync::atomic::{AtomicBool, Ordering};

use spillway_base::lock::Mutex;
use spillway_base::{Error, Result};

/// Whether the engine has failed, and the failure.
#[derive(Default)]
pub(super) struct Health {
    failure: Mutex<Option<Error>>,
    /// Whether there is a failure. It is checked often, without the lock of `failure`.
    failed: AtomicBool,
    met_full_disk: AtomicBool,
}

impl Health {
    /// Records a failure that ends the background work (E8).
    pub(super) fn fail(&self, error: &Error) {
        self.failure.lock().get_or_insert_with(|| error.clone());
        self.failed.store(true, Ordering::Release);
    }

    /// The failure that ended the background work, if there was one.
    #[inline]
    pub(super) fn check(&self) -> Result<()> {
        if !self.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        self.failure.lock().clone().map_or(Ok(()), Err)
    }

    /// Records whether the last background job met a full disk.
    pub(super) fn note_job(&self, met_full_disk: bool) {
        self.met_full_disk.store(met_full_disk, Ordering::Release);
    }

    /// Whether the last background job met a full disk.
    pub(super) fn meets_full_disk(&self) -> bool {
        self.met_full_disk.load(Ordering::Acquire)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use spillway_base::ErrorKind;

    use super::*;

    #[test]
    fn health_1_the_first_failure_stays() {
        let health = Health::default();
        health.check().unwrap();
        for kind in [ErrorKind::WritesStopped, ErrorKind::Closed] {
            health.fail(&Error::new(kind, "a test"));
            assert_eq!(health.check().unwrap_err().kind(), ErrorKind::WritesStopped);
        }
    }

    #[test]
    fn health_3_a_full_disk_is_no_failure() {
        let health = Health::default();
        for is_full in [true, false] {
            health.note_job(is_full);
            assert_eq!(health.meets_full_disk(), is_full);
            health.check().unwrap();
        }
    }
}
