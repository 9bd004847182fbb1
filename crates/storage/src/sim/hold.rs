//! What a test has happen beside an operation: syncs that are held up, and something that is done right after a write.

use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use super::SimDisk;

/// What is done once, right after the next write to a file of some kind.
#[derive(Clone)]
pub(super) struct AfterWrite {
    pub(super) extension: &'static str,
    pub(super) hook: Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>,
}

#[derive(Default)]
struct Held {
    waiting: usize,
    released: bool,
}

/// Where syncs wait while they are held up.
#[derive(Default)]
pub(super) struct Hold {
    held: Mutex<Held>,
    changed: Condvar,
}

impl Hold {
    /// A sync comes by.
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

/// Syncs of files, held up before they begin: [`SimDisk::hold_syncs`]. Dropping it lets them go on.
pub struct HeldSyncs {
    pub(super) disk: SimDisk,
    pub(super) hold: Arc<Hold>,
}

impl HeldSyncs {
    /// Waits until this many syncs are held up.
    pub fn wait_for(&self, count: usize) {
        let mut held = self.hold.held.lock();
        while held.waiting < count {
            self.hold.changed.wait(&mut held);
        }
    }
}

impl Drop for HeldSyncs {
    fn drop(&mut self) {
        self.disk.0.lock().hold = None;
        self.hold.held.lock().released = true;
        self.hold.changed.notify_all();
    }
}
