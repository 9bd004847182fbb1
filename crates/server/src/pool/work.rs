//! What is ready.

use std::collections::VecDeque;
use std::sync::Arc;

use spillway_sql::SqlError;

use super::seat::Seat;

/// Something to do for a client.
pub(super) enum Item {
    /// Its commit is known.
    Answer(Arc<Seat>, Result<(), SqlError>),
    /// It has something to go on with: what came from it, or a statement that had to wait.
    Command(Arc<Seat>),
}

/// The queue that all workers take from.
#[derive(Default)]
pub(super) struct Work {
    /// Those whose statements were left for a row.
    pub(super) called: VecDeque<Arc<Seat>>,
    pub(super) answers: VecDeque<(Arc<Seat>, Result<(), SqlError>)>,
    pub(super) commands: VecDeque<Arc<Seat>>,
}

impl Work {
    pub(super) fn is_empty(&self) -> bool {
        self.called.is_empty() && self.answers.is_empty() && self.commands.is_empty()
    }

    /// Those who have got a row first, since others wait for them; then answers, since somebody has waited for them. No command
    /// where the log is to be written before.
    pub(super) fn next(&mut self, overdue: bool) -> Option<Item> {
        if let Some(seat) = self.called.pop_front() {
            return Some(Item::Command(seat));
        }
        if let Some((seat, outcome)) = self.answers.pop_front() {
            return Some(Item::Answer(seat, outcome));
        }
        if overdue { None } else { self.commands.pop_front().map(Item::Command) }
    }
}
