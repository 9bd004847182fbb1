//! The checkpoints of an engine: the last one, and whether another is requested.

use std::sync::Arc;
use std::time::Duration;

use spillway_base::Csn;
use spillway_base::clock;
use spillway_base::lock::Mutex;
use spillway_base::sync::atomic::{AtomicU64, Ordering};

use crate::manifest::Manifest;

/// The checkpoints of an engine.
pub(super) struct Checkpoints {
    /// The one that an opening would read. Held by who writes the next.
    pub(super) last: Mutex<Manifest>,
    /// The same, for those who only look, and when it was written in this opening. Empty if there
    /// is none.
    pub(super) shown: Mutex<Option<(Arc<Manifest>, Option<Duration>)>>,
    /// Its CSN.
    pub(super) recorded: AtomicU64,
    /// The CSN of the one that this opening read.
    pub(super) opened_at: Csn,
    /// The next number of a file.
    pub(super) files: AtomicU64,
    /// A checkpoint is asked for, of commits up to this one.
    pub(super) requested: AtomicU64,
}

impl Checkpoints {
    pub(super) fn new(last: Manifest) -> Checkpoints {
        Checkpoints {
            recorded: AtomicU64::new(last.csn.0),
            opened_at: last.csn,
            files: AtomicU64::new(last.files),
            requested: AtomicU64::new(0),
            shown: Mutex::new((last.number > 0).then(|| (Arc::new(last.clone()), None))),
            last: Mutex::new(last),
        }
    }

    pub(super) fn recorded(&self) -> Csn {
        Csn(self.recorded.load(Ordering::Acquire))
    }

    pub(super) fn opened_at(&self) -> Csn {
        self.opened_at
    }

    /// The one that an opening would read.
    pub(super) fn last(&self) -> Manifest {
        self.last.lock().clone()
    }

    /// The one that an opening would read, and its age if this opening wrote it. It does not wait
    /// for a checkpoint that is being written.
    pub(super) fn shown(&self) -> Option<(Arc<Manifest>, Option<Duration>)> {
        let (manifest, written) = self.shown.lock().clone()?;
        let age = written.map(|written| clock::now().saturating_sub(written));
        Some((manifest, age))
    }

    /// Keeps the next checkpoint from being written.
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

    /// Whether one is asked for that would have more than the last.
    pub(super) fn is_requested(&self) -> bool {
        self.requested.load(Ordering::Acquire) > self.recorded().0
    }
}
