//! Stops the database when a thread panics in the middle of a commit (PIPE-4).
//!
//! A place that is reserved and never filled blocks its lane. A CSN that is never installed blocks
//! the stable CSN. Entries that were taken out of a queue and not written are lost silently. None
//! of these can be repaired, because later commits follow the CSN. So the database stops writes and
//! reports why, as it does when the log fails (decision 006), and the next opening recovers.

use spillway_base::{Error, ErrorKind};

use super::Pipeline;

/// Stops the database if the thread panics before this is dropped.
pub(crate) struct Guard<'p> {
    pipeline: &'p Pipeline,
    doing: &'static str,
    /// Whether the thread was already panicking.
    unwinding: bool,
}

impl Pipeline {
    /// Guards what this thread is `doing` until the guard is dropped.
    pub(crate) fn guard(&self, doing: &'static str) -> Guard<'_> {
        Guard { pipeline: self, doing, unwinding: std::thread::panicking() }
    }

    /// Stops writes after a panic.
    fn stop_after_panic(&self, doing: &str) {
        let text = format!(
            "a thread panicked while {doing}, so writes have stopped; \
             restart the database, and report what the server's log says of the panic"
        );
        self.stop(&Error::new(ErrorKind::WritesStopped, text));
        // Waiters for an install that will never finish return.
        self.snapshots.installed.abandon();
    }
}

impl Guard<'_> {
    /// Checks for a panic now, because the drop of the guard's owner acts on the result.
    pub(super) fn look(&self) {
        // A model that panics has failed, and loom accepts no more operations then.
        if !self.unwinding && std::thread::panicking() && !cfg!(loom) {
            self.pipeline.stop_after_panic(self.doing);
        }
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.look();
    }
}
