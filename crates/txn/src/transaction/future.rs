//! The future of a commit.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use spillway_base::stall::{Cause, Pending};
use spillway_base::{Csn, Result};

use crate::options::Durability;
use crate::pipeline::{RELAXED, SOON, Signal};
use crate::shared::Shared;

enum CommitState {
    Done(Result<Csn>),
    Waiting(Arc<Shared>, Csn),
}

/// A commit in progress. It resolves to the commit's CSN once the commit is acknowledged (decision
/// 002); a read-only commit resolves to the CSN at which it read. Dropping the future does not
/// undo the commit.
#[must_use = "a commit is acknowledged only when its future resolves"]
pub struct CommitFuture {
    state: CommitState,
    signal: Option<Arc<Signal>>,
}

impl CommitFuture {
    pub(super) fn done(outcome: Result<Csn>) -> CommitFuture {
        CommitFuture { state: CommitState::Done(outcome), signal: None }
    }

    /// The future of a commit in progress.
    pub(super) fn waiting(shared: Arc<Shared>, csn: Csn) -> CommitFuture {
        CommitFuture { state: CommitState::Waiting(shared, csn), signal: None }
    }

    /// The future of a commit that is acknowledged now; `None` if the commit must be waited for.
    pub(super) fn at_once(
        shared: &Shared,
        csn: Csn,
        durability: Durability,
    ) -> Option<CommitFuture> {
        let relaxed = match durability {
            Durability::Commit if csn <= shared.snapshots.stable_csn() => None,
            Durability::Commit => return None,
            Durability::Within(delay) => Some(delay),
            Durability::Relaxed => Some(RELAXED),
        };
        if let Some(delay) = relaxed {
            shared.flush_within(delay);
            // The caller's next transaction must see the commit.
            if !shared.snapshots.installed.wait(csn) {
                let stopped = shared.pipeline.health().map(|()| csn);
                return Some(CommitFuture::done(stopped));
            }
        }
        Some(CommitFuture::done(Ok(csn)))
    }

    /// Waits for the acknowledgement.
    ///
    /// # Errors
    /// The failure that undid or stopped the commit.
    pub fn wait(mut self) -> Result<Csn> {
        match std::mem::replace(&mut self.state, CommitState::Done(Ok(Csn::ZERO))) {
            CommitState::Done(outcome) => outcome,
            CommitState::Waiting(shared, csn) => shared.wait(csn).map(|()| csn),
        }
    }
}

impl CommitFuture {
    /// The CSN of the commit, if it has one, even if the commit is never acknowledged.
    #[must_use]
    pub fn ordered(&self) -> Option<Csn> {
        match &self.state {
            CommitState::Done(outcome) => outcome.as_ref().ok().copied(),
            CommitState::Waiting(_, csn) => Some(*csn),
        }
    }

    /// The outcome of the commit, if it is known already.
    #[must_use]
    pub fn known(&self) -> Option<Result<Csn>> {
        match &self.state {
            CommitState::Done(outcome) => Some(outcome.clone()),
            CommitState::Waiting(shared, csn) => Some(shared.pipeline.known(*csn)?.map(|()| *csn)),
        }
    }

    /// Calls `done` once with the acknowledgement or the failure. No thread has to sleep until
    /// then. This thread calls `done` if the outcome is known already; otherwise the thread that
    /// learns the outcome calls it. `done` must not block for long. The flushers soon flush the
    /// log. A caller with many commits in progress and nothing else to do may lead that flush
    /// itself ([`crate::TransactionManager::lead_flush`]).
    pub fn then(mut self, done: impl FnOnce(Result<Csn>) + Send + 'static) {
        match std::mem::replace(&mut self.state, CommitState::Done(Ok(Csn::ZERO))) {
            CommitState::Done(outcome) => done(outcome),
            CommitState::Waiting(shared, csn) => {
                let wait = Pending::begin(Cause::Commit);
                let told = move |outcome: Result<()>| {
                    drop(wait);
                    done(outcome.map(|()| csn));
                };
                shared.pipeline.then(csn, Box::new(told));
                shared.flush_within(SOON);
            }
        }
    }
}

impl Drop for CommitFuture {
    fn drop(&mut self) {
        if let CommitState::Waiting(shared, _) = &self.state {
            // No thread waits for the commit and leads its flush.
            shared.flush_within(Duration::ZERO);
        }
    }
}

impl Future for CommitFuture {
    type Output = Result<Csn>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let outcome = match &this.state {
            CommitState::Done(outcome) => outcome.clone(),
            CommitState::Waiting(shared, csn) => {
                match shared.pipeline.poll(*csn, &mut this.signal, context.waker()) {
                    Some(outcome) => outcome.map(|()| *csn),
                    None => {
                        shared.flush_within(Duration::ZERO);
                        return Poll::Pending;
                    }
                }
            }
        };
        this.state = CommitState::Done(outcome.clone());
        Poll::Ready(outcome)
    }
}
