//! Ends statements whose clients have gone.
//!
//! A worker that runs a statement does not read its client's socket, and neither does anything
//! while a statement waits without a worker. So the thread that accepts clients checks now and then
//! the statements that have run since its last check, and ends the connections whose clients have
//! gone. That frees their locks, slots and memory. A statement that ends sooner is not checked; a
//! client may send one and disconnect without waiting for the answer.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

use crate::server::Shared;

/// Between two looks.
pub(crate) const LOOK: Duration = Duration::from_millis(500);

/// What the last look saw.
#[derive(Default)]
pub(crate) struct Vanished(Mutex<VanishedState>);

#[derive(Default)]
struct VanishedState {
    next: Duration,
    /// The phases of the sessions that ran a statement.
    running: HashMap<u64, u64>,
}

impl Vanished {
    /// Looks, if it is time. Answers when to look again; `None` when nobody is connected.
    pub(crate) fn look(&self, shared: &Shared, now: Duration) -> Option<Duration> {
        if shared.connected() == 0 {
            return None;
        }
        let mut state = self.0.lock();
        if now < state.next {
            return Some(state.next);
        }
        state.next = now + LOOK;
        let running: HashMap<u64, u64> = shared.instance.running().into_iter().collect();
        let still = running.iter().filter(|(id, phase)| state.running.get(id) == Some(phase));
        for (&id, _) in still {
            if shared.has_vanished(id) {
                shared.instance.kill(id, true);
            }
        }
        state.running = running;
        Some(state.next)
    }
}
