//! Stops the database when a thread panics in the middle of a commit (PIPE-4).
//!
//! Such a panic may leave one of these behind:
//!
//! - a place in a lane's queue that is reserved and never filled, which blocks the lane;
//! - a CSN whose commit is never installed, which blocks the stable CSN;
//! - commits that were taken out of a queue and not written, which would be lost silently.
//!
//! None of these can be repaired, because later commits already have larger CSNs. So the database
//! stops writes and reports why, as it does when the log fails (decision 006). The next opening
//! recovers the database from the log.

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
    /// Looks for a panic now, and not only when the guard is dropped.
    pub(super) fn look(&self) {
        // Under loom nothing is done: a model that panics has failed, and loom accepts no more
        // operations.
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
