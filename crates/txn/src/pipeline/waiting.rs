//! Waiting for a commit: by a thread, which leads flushes that are in its way; by a task; by a
//! call.

use std::sync::Arc;
use std::task::Waker;

use spillway_base::thread::blocking;
use spillway_base::{Csn, Result};

use super::Pipeline;
use super::waiters::{Done, Signal};

impl Pipeline {
    /// What became of a commit: stable, failed, or not known yet.
    pub(crate) fn known(&self, csn: Csn) -> Option<Result<()>> {
        if self.snapshots.stable_csn() >= csn {
            return Some(Ok(()));
        }
        self.health().err().map(Err)
    }

    /// Waits until every commit up to `csn` is stable, leading flushes where nobody does.
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
                // Others lead, or an install is missing: sleep until told.
                Some(signal) => blocking(|| signal.wait()),
                None => signal = Some(self.waiters.register_thread(csn)),
            }
        }
    }

    /// Leads a flush that `csn` waits for, if there is one that nobody leads.
    fn lead_towards(&self, csn: Csn) -> bool {
        if self.durable() >= csn {
            return false;
        }
        let turn = self.any_turn(|lane| self.lags(lane, csn));
        // A failure is told to all who wait. It may have been of later commits, where another made
        // this one durable meanwhile.
        turn.map(|turn| drop(self.lead(turn))).is_some()
    }

    /// Has `done` called once with the outcome of a commit: by this thread, where it is known
    /// already, or by whoever learns of it. It is called with no lock held, and must not wait for
    /// long. The caller sees to the flush.
    pub(crate) fn then(&self, csn: Csn, done: Done) {
        if let Some(outcome) = self.known(csn) {
            return done(outcome);
        }
        if !self.flushers.are_running() {
            // Whom this thread finds flushing would have nobody to hand the next flush to.
            return done(self.wait(csn));
        }
        self.waiters.register_call(csn, done);
        // Whoever knew the outcome before did not see who registered.
        match self.known(csn) {
            Some(Ok(())) => self.waiters.acknowledge(self.snapshots.stable_csn()),
            Some(Err(_)) => self.waiters.tell_all(self.snapshots.stable_csn()),
            None => {}
        }
    }

    /// Polls for a commit, without leading a flush: the flushers do.
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
