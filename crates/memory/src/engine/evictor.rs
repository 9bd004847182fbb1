//! The state of eviction.
//!
//! - **EVICTOR-1 (one at a time).** One thread at a time evicts: it holds the lock of the CLOCK
//!   hands. A second thread would visit the same rows.

use spillway_base::lock::Mutex;
use spillway_base::sync::atomic::{AtomicU64, Ordering};

/// The positions of the CLOCK algorithm.
#[derive(Default)]
pub(super) struct Hands {
    /// The next page.
    pub(super) page: usize,
    /// The address from which the next large version is looked for.
    pub(super) large: usize,
}

/// The positions of the CLOCK algorithm, and what was evicted.
#[derive(Default)]
pub(super) struct Evictor {
    /// The lock is held while a thread evicts.
    pub(super) hands: Mutex<Hands>,
    /// Rows that left memory.
    evicted: AtomicU64,
}

impl Evictor {
    /// Counts rows that left memory or moved.
    pub(super) fn count(&self, evicted: usize) {
        self.evicted.fetch_add(evicted as u64, Ordering::Relaxed);
    }

    pub(super) fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }
}
