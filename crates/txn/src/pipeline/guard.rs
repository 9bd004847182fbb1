//! What stops the database when a thread panics with a commit in its hands (PIPE-4).
//!
//! A place that is reserved and never filled holds up its lane, a CSN that is never installed holds
//! up the stable CSN, and entries that were taken out of a queue and not written are lost without a
//! trace. None of these can be repaired: others have built on the CSN. So the database stops writes
//! and says why, as it does when the log fails (D6), and the next opening recovers.

use spillway_base::{Error, ErrorKind};

use super::Pipeline;

/// Stops the database when the thread panics before this is dropped.
pub(crate) struct Guard<'p> {
    pipeline: &'p Pipeline,
    doing: &'static str,
    /// Whether the thread was panicking before.
    unwinding: bool,
}

impl Pipeline {
    /// Guards what this thread is `doing` until the guard is dropped.
    pub(crate) fn guard(&self, doing: &'static str) -> Guard<'_> {
        Guard { pipeline: self, doing, unwinding: std::thread::panicking() }
    }

    /// A thread has panicked.
    fn stop_after_panic(&self, doing: &str) {
        let text = format!(
            "a thread panicked while {doing}, so writes have stopped; \
             restart the database, and report what the server's log says of the panic"
        );
        self.stop(&Error::new(ErrorKind::WritesStopped, text));
        // Those who wait for an install that will never be over go on.
        self.snapshots.installed.abandon();
    }
}

impl Guard<'_> {
    /// Looks now, as what the drop of the guard's owner does next depends on it.
    pub(super) fn look(&self) {
        // A model that panics has failed, and loom takes no more operations then.
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
