//! A statement that has left its thread to wait for a row, and the waker of its session.

use std::task::Waker;
use std::time::Duration;

use spillway_types::Value;

use super::compiled::Slot;

/// A statement that has left its thread, and with what it runs again.
pub(super) struct SuspendedStatement {
    pub(super) slot: Slot,
    pub(super) params: Vec<Value>,
    /// Whether its transaction began with it.
    pub(super) opened: bool,
    /// How often it has left its thread.
    pub(super) times: usize,
    /// When it must have ended, which does not move while it waits.
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
    /// Statements may leave their thread from now on.
    pub(super) fn set_waker(&mut self, waker: Waker) {
        self.waker = Some(waker);
    }

    /// Has statements wait on their thread, until the waker that this returns is put back.
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
