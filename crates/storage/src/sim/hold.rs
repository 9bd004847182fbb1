//! Events that a test injects beside operations: it holds up syncs or reads, or runs a hook right
//! after a write.

use std::sync::Arc;

use spillway_base::lock::{Condvar, Mutex};

use super::SimDisk;

/// A hook that runs once, right after the next write to a file with some extension.
#[derive(Clone)]
pub(super) struct AfterWrite {
    pub(super) extension: &'static str,
    pub(super) hook: Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>,
}

#[derive(Default)]
struct Count {
    waiting: usize,
    released: bool,
}

/// Where syncs, or reads, wait while they are held up.
#[derive(Default)]
pub(super) struct Hold {
    held: Mutex<Count>,
    changed: Condvar,
}

impl Hold {
    /// One is held up elsewhere.
    pub(super) fn note(&self) {
        self.held.lock().waiting += 1;
        self.changed.notify_all();
    }

    /// One comes by.
    pub(super) fn pass(&self) {
        let mut held = self.held.lock();
        held.waiting += 1;
        self.changed.notify_all();
        while !held.released {
            self.changed.wait(&mut held);
        }
        held.waiting -= 1;
    }
}

/// The kind of operation that is held up.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Held {
    Syncs,
    Reads,
}

/// Operations on files, held up before they begin: [`SimDisk::hold_syncs`],
/// [`SimDisk::hold_reads`]. Dropping it lets them go on.
pub struct HeldUp {
    pub(super) disk: SimDisk,
    pub(super) what: Held,
    pub(super) hold: Arc<Hold>,
}

impl HeldUp {
    /// Waits until this many are held up.
    pub fn wait_for(&self, count: usize) {
        let mut held = self.hold.held.lock();
        while held.waiting < count {
            self.hold.changed.wait(&mut held);
        }
    }
}

impl Drop for HeldUp {
    fn drop(&mut self) {
        let mut state = self.disk.0.lock();
        match self.what {
            Held::Syncs => state.hold = None,
            Held::Reads => {
                state.hold_reads = None;
                state.ring_all();
            }
        }
        drop(state);
        self.hold.held.lock().released = true;
        self.hold.changed.notify_all();
    }
}
