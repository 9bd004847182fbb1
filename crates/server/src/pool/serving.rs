//! Serves one connection: runs its client's steps until the client must wait, or another connection
//! has ready work.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use spillway_base::clock;
use spillway_sql::SqlError;

use super::connection_slot::{ConnectionSlot, ConnectionState, Left};
use super::{LOOKS_SOON, Pool, dedicated_worker, waker};
use crate::admission::Slot;
use crate::connection::{Client, Step};
use crate::login::Peer;

impl Pool {
    /// Serves a busy connection until its client must send more, or other work is ready.
    pub(super) fn serve(
        &self,
        connection: Arc<ConnectionSlot>,
        outcome: Option<Result<(), SqlError>>,
    ) {
        let mut outcome = outcome;
        let mut state = connection.state.lock();
        loop {
            let left = connection.look();
            LOOKS_SOON.set(true);
            dedicated_worker::begin_command();
            let step = catch_unwind(AssertUnwindSafe(|| {
                self.step(&connection, &mut state, outcome.take(), left)
            }));
            LOOKS_SOON.set(false);
            let step = match step {
                Ok(step) if self.is_to_dedicate(&connection, &step) => {
                    self.dedicate(&connection, &mut state, step)
                }
                step => step,
            };
            if !matches!(step, Ok(Step::Answers(_))) {
                self.send_kept();
            }
            if matches!(step, Ok(Step::Again | Step::End) | Err(_)) {
                // A client that sends command after command keeps this worker busy, and the end of
                // a session may have much to roll back.
                self.share();
                self.call_if_missed();
            }
            match step {
                Ok(Step::Again) => {
                    if !self.work.lock().is_empty() {
                        drop(state);
                        return self.push(connection);
                    }
                }
                Ok(Step::Commits(commit)) => {
                    drop(state);
                    return self.answer_after(commit, connection);
                }
                Ok(Step::Locked(until)) => {
                    drop(state);
                    if connection.lock(until) {
                        return self.timer.note(until);
                    }
                    state = connection.state.lock();
                }
                Ok(Step::Answers(until)) => {
                    drop(state);
                    return self.keep(connection, until);
                }
                Ok(Step::Waits(until)) => {
                    drop(state);
                    if connection.rest(until) {
                        return self.timer.note(until);
                    }
                    state = connection.state.lock();
                }
                Ok(Step::End) | Err(_) => {
                    drop(state);
                    return self.leave(&connection);
                }
            }
        }
    }

    fn step(
        &self,
        connection: &Arc<ConnectionSlot>,
        state: &mut ConnectionState,
        outcome: Option<Result<(), SqlError>>,
        left: Left,
    ) -> Step {
        let greet = |socket, address, slot: &Slot| {
            let waker = waker::waker(self.me.clone(), connection);
            let peer = Peer { id: slot.id, address, entrance: slot.entrance };
            Client::greet(socket, self.shared.clone(), peer, waker)
        };
        let Some((client, greeted)) = state.client(greet) else { return Step::End };
        if greeted && !left.stirred {
            // The login begins once the client has sent something.
            return Step::Waits(client.deadline());
        }
        if left.stirred {
            client.stir(left.ended);
        }
        if let Some(outcome) = outcome {
            return client.committed(outcome);
        }
        match client.step() {
            Step::Waits(until) if left.late && until <= clock::now() => client.expire(),
            step => step,
        }
    }

    /// Sends a client its response once the outcome of its commit is known.
    fn answer_after(&self, commit: spillway::CommitFuture, connection: Arc<ConnectionSlot>) {
        self.commits.begin();
        let pool = self.me.clone();
        LOOKS_SOON.set(true);
        commit.then(move |outcome| {
            if let Some(pool) = pool.upgrade() {
                pool.tell(connection, outcome.map(drop).map_err(SqlError::from));
            }
        });
        LOOKS_SOON.set(false);
    }

    fn tell(&self, connection: Arc<ConnectionSlot>, outcome: Result<(), SqlError>) {
        self.work.lock().put_answer(connection, outcome);
        self.commits.end();
        self.tell_of_it();
    }

    /// Removes a client. Its admission slot is released last.
    pub(super) fn leave(&self, connection: &ConnectionSlot) {
        self.connections.write().remove(&connection.id);
        let gone = std::mem::replace(&mut *connection.state.lock(), ConnectionState::Gone);
        // A panic affects only this connection.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(gone)));
    }
}
