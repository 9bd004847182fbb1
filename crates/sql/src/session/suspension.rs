//! A statement that has left its thread while it waits, and the waker of its session.

use std::task::Waker;
use std::time::Duration;

use spillway_types::Value;

use super::compiled::Slot;

/// A statement that has left its thread, and the input to run it again.
pub(super) struct SuspendedStatement {
    pub(super) slot: Slot,
    pub(super) params: Vec<Value>,
    /// Whether its transaction began with this statement.
    pub(super) opened: bool,
    /// How often the statement has left its thread.
    pub(super) times: usize,
    /// When the statement must have ended. Waits do not extend it.
    pub(super) deadline: Option<Duration>,
}

/// The suspended statement of a session, if it has one.
#[derive(Default)]
pub(super) struct Suspension {
    /// Statements leave their thread only if there is a waker to call.
    waker: Option<Waker>,
    statement: Option<SuspendedStatement>,
}

impl Suspension {
    /// Lets statements leave their thread from now on.
    pub(super) fn set_waker(&mut self, waker: Waker) {
        self.waker = Some(waker);
    }

    /// Makes statements wait on their thread, until the returned waker is put back.
    pub(super) fn take_waker(&mut self) -> Option<Waker> {
        self.waker.take()
    }

    pub(super) fn put_waker_back(&mut self, waker: Option<Waker>) {
        self.waker = waker;
    }

    /// Whether statements may leave their thread.
    pub(super) fn is_possible(&self) -> bool {
        self.waker.is_some()
    }

    pub(super) fn suspend(&mut self, statement: SuspendedStatement) {
        self.statement = Some(statement);
    }

    /// Takes the suspended statement, to continue it.
    pub(super) fn take(&mut self) -> Option<SuspendedStatement> {
        self.statement.take()
    }

    pub(super) fn is_suspended(&self) -> bool {
        self.statement.is_some()
    }

    /// Whether the open transaction began with the suspended statement.
    pub(super) fn opened_transaction(&self) -> bool {
        self.statement.as_ref().is_some_and(|statement| statement.opened)
    }
}
