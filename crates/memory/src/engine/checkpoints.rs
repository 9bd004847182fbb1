//! The checkpoints of an engine: the last one, and what the next one has to include.
//!
//! - **CHECKPOINTS-1 (persistent).** A commit up to [`Checkpoints::persisted`] survives without the
//!   log: the last durable checkpoint includes it, or it changed no table of the engine.
//! - **CHECKPOINTS-2 (one).** One checkpoint is written at a time. Readers of the last checkpoint
//!   do not wait while the next one is written, except in [`Checkpoints::last`].
//! - **CHECKPOINTS-3 (numbers).** The engine gives each file number once, even if the checkpoint
//!   that uses it fails.

use std::sync::Arc;
use std::time::Duration;

use spillway_base::Csn;
use spillway_base::clock;
use spillway_base::lock::Mutex;
use spillway_base::sync::atomic::{AtomicU64, Ordering};

use crate::manifest::Manifest;
use crate::pins::Pins;

/// The checkpoints of an engine.
pub(super) struct Checkpoints {
    /// The last durable checkpoint. The lock is held while the next is written.
    pub(super) last: Mutex<Manifest>,
    /// A copy for readers that must not wait, and when it was written if that was since the
    /// opening. `None` if there is no checkpoint.
    pub(super) shown: Mutex<Option<(Arc<Manifest>, Option<Duration>)>>,
    /// The CSN of the last durable checkpoint.
    pub(super) recorded: AtomicU64,
    /// The CSN of the checkpoint that this opening read.
    pub(super) opened_at: Csn,
    /// The next number of a file.
    pub(super) files: AtomicU64,
    /// The newest commit that a requested checkpoint must include.
    pub(super) requested: AtomicU64,
    /// The newest commit that was installed or replayed.
    newest: AtomicU64,
}

impl Checkpoints {
    pub(super) fn new(last: Manifest) -> Checkpoints {
        Checkpoints {
            recorded: AtomicU64::new(last.csn.0),
            opened_at: last.csn,
            files: AtomicU64::new(last.files),
            requested: AtomicU64::new(0),
            newest: AtomicU64::new(0),
            shown: Mutex::new((last.number > 0).then(|| (Arc::new(last.clone()), None))),
            last: Mutex::new(last),
        }
    }

    pub(super) fn recorded(&self) -> Csn {
        Csn(self.recorded.load(Ordering::Acquire))
    }

    /// Notes a commit that changes a table of the engine, before the change.
    pub(super) fn note_commit(&self, csn: Csn) {
        self.newest.fetch_max(csn.0, Ordering::SeqCst);
    }

    /// Whether there were commits since the last checkpoint.
    pub(super) fn lacks_commits(&self) -> bool {
        Csn(self.newest.load(Ordering::SeqCst)) > self.recorded()
    }

    /// Commits up to this CSN survive without the log (E6): the commits of the last checkpoint or,
    /// if nothing was installed since, all stable commits (CHECKPOINTS-1).
    pub(super) fn persisted(&self, pins: &Pins) -> Csn {
        // Read before `newest`: a stable commit is installed, so `newest` includes it.
        let stable = pins.stable();
        let recorded = self.recorded();
        let newest = Csn(self.newest.load(Ordering::SeqCst));
        if newest <= recorded { recorded.max(stable) } else { recorded }
    }

    pub(super) fn opened_at(&self) -> Csn {
        self.opened_at
    }

    /// The last durable checkpoint.
    pub(super) fn last(&self) -> Manifest {
        self.last.lock().clone()
    }

    /// The last durable checkpoint, and its age if it was written since the opening. Does not wait
    /// for a checkpoint that is being written.
    pub(super) fn shown(&self) -> Option<(Arc<Manifest>, Option<Duration>)> {
        let (manifest, written) = self.shown.lock().clone()?;
        let age = written.map(|written| clock::now().saturating_sub(written));
        Some((manifest, age))
    }

    /// Prevents the next checkpoint.
    #[cfg(all(test, not(loom)))]
    pub(super) fn hold(&self) -> impl Drop + '_ {
        self.last.lock()
    }

    pub(super) fn next_file(&self) -> u64 {
        self.files.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn request(&self, csn: Csn) {
        self.requested.fetch_max(csn.0, Ordering::AcqRel);
    }

    pub(super) fn requested(&self) -> Csn {
        Csn(self.requested.load(Ordering::Acquire))
    }
}
