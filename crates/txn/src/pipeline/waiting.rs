//! Waits for a commit. A thread that waits leads the flushes that the commit needs. A task or a
//! callback leads none.

use std::sync::Arc;
use std::task::Waker;

use spillway_base::thread::blocking;
use spillway_base::{Csn, Result};

use super::Pipeline;
use super::waiters::{Done, Signal};

impl Pipeline {
    /// The outcome of a commit: stable, failed, or not known yet.
    pub(crate) fn known(&self, csn: Csn) -> Option<Result<()>> {
        if self.snapshots.stable_csn() >= csn {
            return Some(Ok(()));
        }
        self.health().err().map(Err)
    }

    /// Waits until every commit up to `csn` is stable, and leads flushes that no other thread
    /// leads.
    pub(crate) fn wait(&self, csn: Csn) -> Result<()> {
        let mut signal: Option<Arc<Signal>> = None;
        loop {
            if let Some(outcome) = self.known(csn) {
                return outcome;
            }
            if self.lead_towards(csn) {
                continue;
            }
            match &signal {
                // Other threads lead the flushes that are needed, or an install is missing.
                Some(signal) => blocking(|| signal.wait()),
                None => signal = Some(self.waiters.register_thread(csn)),
            }
        }
    }

    /// Leads a flush that `csn` needs, if there is one without a leader.
    fn lead_towards(&self, csn: Csn) -> bool {
        if self.durable() >= csn {
            return false;
        }
        let turn = self.any_turn(|lane| self.lags(lane, csn));
        // The result is ignored. A failure is stored for all waiters, and another thread may have
        // made this commit durable before it.
        turn.map(|turn| drop(self.lead(turn))).is_some()
    }

    /// Calls `done` once with the outcome of a commit: on this thread if the outcome is known
    /// already, otherwise on the thread that learns of it. No lock is held during the call, and
    /// `done` must not block for long. The caller requests the flush.
    pub(crate) fn then(&self, csn: Csn, done: Done) {
        if let Some(outcome) = self.known(csn) {
            return done(outcome);
        }
        if !self.flushers.are_running() {
            // Without flushers no thread would flush the commit if another thread has the turn now.
            return done(self.wait(csn));
        }
        self.waiters.register_call(csn, done);
        // A thread that learned the outcome before the registration did not see it.
        match self.known(csn) {
            Some(Ok(())) => self.waiters.acknowledge(self.snapshots.stable_csn()),
            Some(Err(_)) => self.waiters.tell_all(self.snapshots.stable_csn()),
            None => {}
        }
    }

    /// Polls for a commit. The flushers lead its flush.
    pub(crate) fn poll(
        &self,
        csn: Csn,
        signal: &mut Option<Arc<Signal>>,
        waker: &Waker,
    ) -> Option<Result<()>> {
        if let Some(outcome) = self.known(csn) {
            return Some(outcome);
        }
        match signal {
            Some(signal) => signal.set_waker(waker),
            None => *signal = Some(self.waiters.register_task(csn, waker)),
        }
        self.known(csn)
    }
}
