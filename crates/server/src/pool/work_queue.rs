//! The queue of ready work that all workers take from.
//!
//! The queue has three parts. Workers empty them in this order:
//!
//! - statements that have waited for a row lock or a device read, because they may hold locks for
//!   which other statements wait;
//! - responses to commits, because their clients have waited already;
//! - commands.
//!
//! Each part is first in, first out.

use std::collections::VecDeque;
use std::sync::Arc;

use spillway_sql::SqlError;

use super::connection_slot::ConnectionSlot;

/// A piece of work for a client.
pub(super) enum Item {
    /// The outcome of the connection's commit is known.
    Answer(Arc<ConnectionSlot>, Result<(), SqlError>),
    /// The client has sent something, or its suspended statement can continue.
    Command(Arc<ConnectionSlot>),
}

/// The queue.
#[derive(Default)]
pub(super) struct WorkQueue {
    /// The connections whose suspended statements can continue.
    called: VecDeque<Arc<ConnectionSlot>>,
    answers: VecDeque<(Arc<ConnectionSlot>, Result<(), SqlError>)>,
    commands: VecDeque<Arc<ConnectionSlot>>,
}

impl WorkQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.called.is_empty() && self.answers.is_empty() && self.commands.is_empty()
    }

    /// The number of suspended statements that can continue.
    pub(super) fn called(&self) -> usize {
        self.called.len()
    }

    pub(super) fn answers(&self) -> usize {
        self.answers.len()
    }

    pub(super) fn commands(&self) -> usize {
        self.commands.len()
    }

    pub(super) fn put_called(&mut self, connection: Arc<ConnectionSlot>) {
        self.called.push_back(connection);
    }

    pub(super) fn put_answer(
        &mut self,
        connection: Arc<ConnectionSlot>,
        outcome: Result<(), SqlError>,
    ) {
        self.answers.push_back((connection, outcome));
    }

    pub(super) fn put_command(&mut self, connection: Arc<ConnectionSlot>) {
        self.commands.push_back(connection);
    }

    /// The next item. If the log is `overdue`, no command is returned: the caller writes the log
    /// first.
    pub(super) fn next(&mut self, overdue: bool) -> Option<Item> {
        if let Some(connection) = self.called.pop_front() {
            return Some(Item::Command(connection));
        }
        if let Some((connection, outcome)) = self.answers.pop_front() {
            return Some(Item::Answer(connection, outcome));
        }
        if overdue { None } else { self.commands.pop_front().map(Item::Command) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::connection_slot::ConnectionState;
    use super::*;

    fn connection(id: u64) -> Arc<ConnectionSlot> {
        Arc::new(ConnectionSlot::new(id, ConnectionState::Gone))
    }

    fn id(item: Option<Item>) -> Option<u64> {
        item.map(|item| match item {
            Item::Answer(connection, _) | Item::Command(connection) => connection.id,
        })
    }

    #[test]
    fn rows_come_before_answers_and_answers_before_commands() {
        let mut work = WorkQueue::default();
        for id in [1, 2] {
            work.put_command(connection(id));
            work.put_answer(connection(id + 2), Ok(()));
            work.put_called(connection(id + 4));
        }
        assert_eq!((work.called(), work.answers(), work.commands()), (2, 2, 2));
        let order = [(); 4].map(|()| id(work.next(true)));
        assert_eq!(order, [5, 6, 3, 4].map(Some));
        assert_eq!(id(work.next(true)), None, "the log is written before the next command");
        assert!(!work.is_empty());
        assert_eq!([(); 3].map(|()| id(work.next(false))), [Some(1), Some(2), None]);
        assert!(work.is_empty());
    }
}
