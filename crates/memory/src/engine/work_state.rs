//! The state of the background work.
//!
//! - **MEMORY-WORK-1 (one at a time).** A thread holds `running` while it changes the engine's
//!   files. After a close no thread begins to change them.

use std::sync::Arc;
use std::time::Duration;

use spillway_base::budget::GiveWay;
use spillway_base::lock::{Condvar, Mutex, MutexGuard};
use spillway_base::managed::ClosedFlag;
use spillway_base::sync::atomic::{AtomicBool, Ordering};
use spillway_base::{ErrorKind, Result};

/// The state that the background thread shares with the threads that request work.
#[derive(Default)]
pub(super) struct Work {
    pub(super) asked: Mutex<bool>,
    pub(super) changed: Condvar,
    /// Held while a thread works on the engine's files.
    pub(super) running: Mutex<()>,
    pub(super) closed: ClosedFlag,
    pub(super) settled: AtomicBool,
    /// Whether the last round of work met a full disk.
    pub(super) met_full_disk: AtomicBool,
    /// Whether the last round of work could not write a requested checkpoint for this reason.
    pub(super) lacks_space: AtomicBool,
    /// Whether commits to the engine's tables, and other commits, have to ask for space, because
    /// little is free (`checkpoint_space.rs`).
    pub(super) nears_full_disk: [AtomicBool; 2],
    /// What the next checkpoint needs after a commit to the engine's tables, and after another
    /// one, as last summed, and the time of that.
    pub(super) checkpoint_need: Mutex<([u64; 2], Duration)>,
    /// Whether the engine was asked for space since the last round that could return it.
    pub(super) seeks_space: AtomicBool,
    pub(super) giver: Mutex<Option<Arc<dyn GiveWay>>>,
}

impl Work {
    /// Keeps the callback of the budget alive as long as the engine.
    pub(super) fn keep_giver(&self, giver: Arc<dyn GiveWay>) {
        *self.giver.lock() = Some(giver);
    }

    /// Notes how a requested checkpoint ended, or that none is requested.
    pub(super) fn note_checkpoint(&self, outcome: &Result<()>) {
        let is_full = outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::DiskFull);
        self.lacks_space.store(is_full, Ordering::Release);
    }

    /// Whether a commit has to ask for space. `writes` is whether it changes the engine's tables.
    pub(super) fn is_short_of_space(&self, writes: bool) -> bool {
        let nears_full_disk = &self.nears_full_disk[usize::from(!writes)];
        self.lacks_space.load(Ordering::Acquire) || nears_full_disk.load(Ordering::Acquire)
    }

    /// Prevents other threads from working on the engine's files.
    pub(super) fn lock_running(&self) -> MutexGuard<'_, ()> {
        self.running.lock()
    }

    /// Whether the engine is closed: no background work begins any more.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.is_closed()
    }

    pub(super) fn ask(&self) {
        *self.asked.lock() = true;
        self.changed.notify_all();
    }
}
