//! What is ready.

use std::collections::VecDeque;
use std::sync::Arc;

use spillway_sql::SqlError;

use super::seat::Seat;

/// Something to do for a client.
pub(super) enum Item {
    /// Its commit is known.
    Answer(Arc<Seat>, Result<(), SqlError>),
    /// Something came from it.
    Command(Arc<Seat>),
}

/// The queue that all workers take from.
#[derive(Default)]
pub(super) struct Work {
    pub(super) answers: VecDeque<(Arc<Seat>, Result<(), SqlError>)>,
    pub(super) commands: VecDeque<Arc<Seat>>,
}

impl Work {
    pub(super) fn is_empty(&self) -> bool {
        self.answers.is_empty() && self.commands.is_empty()
    }

    /// Answers first: somebody has waited for them. No command where the log is to be written before.
    pub(super) fn next(&mut self, overdue: bool) -> Option<Item> {
        if let Some((seat, outcome)) = self.answers.pop_front() {
            return Some(Item::Answer(seat, outcome));
        }
        if overdue { None } else { self.commands.pop_front().map(Item::Command) }
    }
}
