//! Events that a test injects between operations or during them: it holds up syncs or reads, or
//! runs a hook right after a write.

use std::sync::Arc;

use spillway_base::lock::{Condvar, Mutex};

/// A hook that runs once, right after the next write to a file with some extension.
#[derive(Clone)]
pub(super) struct AfterWrite {
    pub(super) extension: &'static str,
    pub(super) hook: Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>,
}

#[derive(Default)]
pub(super) struct Count {
    pub(super) waiting: usize,
    pub(super) released: bool,
}

/// The place where syncs or reads wait while they are held up.
#[derive(Default)]
pub(super) struct Hold {
    pub(super) held: Mutex<Count>,
    pub(super) changed: Condvar,
}

impl Hold {
    /// Counts an operation that is held up elsewhere.
    pub(super) fn note(&self) {
        self.held.lock().waiting += 1;
        self.changed.notify_all();
    }

    /// Holds up the calling operation until it is released.
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
