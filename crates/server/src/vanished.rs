//! Ends statements whose clients have disconnected.
//!
//! While a worker runs a statement, the worker does not read the client's socket. While a suspended
//! statement waits, no thread reads its client's socket. So the thread that accepts clients
//! periodically checks the statements that were already running at its previous check. If the
//! client of such a statement has disconnected, the thread ends the connection, which frees the
//! connection's locks, slot and memory.
//!
//! A client may send a short statement and disconnect without waiting for the response. Such a
//! statement still takes effect, because it ends before the check.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;

use crate::server::Shared;

/// The interval between two checks.
pub(crate) const LOOK: Duration = Duration::from_millis(500);

/// What the last check found.
#[derive(Default)]
pub(crate) struct Vanished(Mutex<VanishedState>);

#[derive(Default)]
struct VanishedState {
    next: Duration,
    /// For each session that ran a statement, its phase, which tells its statements apart.
    running: HashMap<u64, u64>,
}

impl Vanished {
    /// Checks, if it is time. Returns when to check again; `None` if no client is connected.
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
