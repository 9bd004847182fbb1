//! Counts the responses that wait for their commits, and decides when a worker writes the log for
//! these commits.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use spillway_base::clock;

/// A worker writes the log before any other work once a commit has waited this long.
pub(super) const OVERDUE: Duration = Duration::from_micros(300);

#[derive(Default)]
pub(super) struct Commits {
    waiting: AtomicUsize,
    /// When the first commit began after the log was last written, in nanoseconds of the clock;
    /// zero if there is none.
    since_ns: AtomicU64,
    leading: AtomicBool,
}

impl Commits {
    /// Records that a response waits for its commit.
    pub(super) fn begin(&self) {
        self.waiting.fetch_add(1, SeqCst);
        if self.since_ns.load(SeqCst) == 0 {
            // The clock began with the process, so the time is not zero.
            let now_ns = clock::now().as_nanos() as u64;
            let _ = self.since_ns.compare_exchange(0, now_ns, SeqCst, SeqCst);
        }
    }

    /// Records that the outcome of a response's commit is known.
    pub(super) fn end(&self) {
        self.waiting.fetch_sub(1, SeqCst);
    }

    /// The number of responses that wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(SeqCst)
    }

    /// Whether a commit has waited for too long, and no worker writes the log.
    pub(super) fn are_overdue(&self) -> bool {
        if self.waiting() == 0 || self.leading.load(SeqCst) {
            return false;
        }
        let since_ns = self.since_ns.load(SeqCst);
        since_ns > 0 && clock::now() > Duration::from_nanos(since_ns) + OVERDUE
    }

    /// Writes the log in this thread. If another worker is writing it already, returns `false`, and
    /// that worker writes the rest when it is done.
    pub(super) fn lead(&self, write: impl FnOnce() -> bool) -> bool {
        if self.leading.swap(true, SeqCst) {
            return false;
        }
        self.since_ns.store(0, SeqCst);
        let led = write();
        self.leading.store(false, SeqCst);
        led
    }
}
