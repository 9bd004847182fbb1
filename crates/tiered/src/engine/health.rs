//! The health of an engine: whether a failure has ended its background work, and whether its last
//! background job met a full disk.
//!
//! - **HEALTH-1 (full disk).** A full disk is not a failure. The engine records it until a
//!   background job ends without meeting a full disk.

use std::sync::atomic::{AtomicBool, Ordering};

use spillway_base::failure::Failure;
use spillway_base::{Error, Result};

/// Whether the engine has failed, and whether its last job met a full disk.
#[derive(Default)]
pub(super) struct Health {
    failure: Failure,
    met_full_disk: AtomicBool,
}

impl Health {
    /// Records a failure that ends the background work (E8).
    pub(super) fn fail(&self, error: &Error) {
        self.failure.record(error);
    }

    /// The failure that ended the background work, if there was one.
    #[inline]
    pub(super) fn check(&self) -> Result<()> {
        self.failure.check()
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
    use super::*;

    #[test]
    fn health_1_a_full_disk_is_no_failure() {
        let health = Health::default();
        for is_full in [true, false] {
            health.note_job(is_full);
            assert_eq!(health.meets_full_disk(), is_full);
            health.check().unwrap();
        }
    }
}
