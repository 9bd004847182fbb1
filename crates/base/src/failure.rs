//! The failure that ends the work of an engine.
//!
//! - **FAILURE-1 (the first).** The first failure is kept, and every later check returns it.
//! - **FAILURE-2 (no lock).** A check takes no lock if there is no failure, because each commit
//!   checks.

use crate::lock::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::{Error, Result};

/// Whether an engine has failed, and the first failure.
#[derive(Default, Debug)]
pub struct Failure {
    first: Mutex<Option<Error>>,
    /// Whether there is a failure. It is checked often, without the lock.
    failed: AtomicBool,
}

impl Failure {
    /// Records a failure, which ends the engine's work (E8 of [`crate::engine`]).
    pub fn record(&self, error: &Error) {
        self.first.lock().get_or_insert_with(|| error.clone());
        self.failed.store(true, Ordering::Release);
    }

    /// Checks that there is no failure.
    ///
    /// # Errors
    /// The first failure.
    #[inline]
    pub fn check(&self) -> Result<()> {
        if !self.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        self.first.lock().clone().map_or(Ok(()), Err)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn failure_1_the_first_failure_stays() {
        let failure = Failure::default();
        failure.check().unwrap();
        for kind in [ErrorKind::WritesStopped, ErrorKind::Closed] {
            failure.record(&Error::new(kind, "a test"));
            assert_eq!(failure.check().unwrap_err().kind(), ErrorKind::WritesStopped);
        }
    }
}
