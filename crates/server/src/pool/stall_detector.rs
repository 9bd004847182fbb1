//! The stall detector: starts one more worker if all workers run long statements while work is
//! ready.
//!
//! The detector runs on the thread that accepts clients. It checks the workers once in every
//! [`STALL`], as long as no worker sleeps.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::Pool;

/// How long ready work waits at most, roughly, while all workers run long statements.
const STALL: Duration = Duration::from_millis(20);

impl Pool {
    /// Schedules a check of whether all workers are stuck, unless one is scheduled. Returns whether
    /// this call scheduled it.
    pub(super) fn begin_watch(&self, now: Duration) -> bool {
        let at_ns = (now + STALL).as_nanos() as u64;
        self.watch_at_ns.compare_exchange(0, at_ns, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }

    /// Checks whether all workers are stuck, if the check is due. Returns when to check again.
    pub(super) fn watch(&self, now: Duration) -> Option<Duration> {
        let at = Duration::from_nanos(self.watch_at_ns.load(Ordering::SeqCst));
        if at.is_zero() || now < at {
            return (!at.is_zero()).then_some(at);
        }
        if self.thread_pool.shrink() && self.thread_pool.sleeping() > 0 {
            self.watch_at_ns.store(0, Ordering::SeqCst);
            // A worker that woke before that store saw a scheduled check, and so did not schedule
            // one.
            if self.thread_pool.sleeping() > 0 || !self.begin_watch(now) {
                return None;
            }
        } else {
            self.help_out();
            self.watch_at_ns.store((now + STALL).as_nanos() as u64, Ordering::SeqCst);
        }
        Some(now + STALL)
    }

    /// Adds a worker if work is ready and no worker has taken any since the last check.
    fn help_out(&self) {
        self.hand_over(Duration::ZERO);
        let taken = self.taken.load(Ordering::SeqCst);
        let before = self.taken_before.swap(taken, Ordering::SeqCst);
        if taken == before {
            let collect = || {
                self.collect(&mut Vec::new(), false);
            };
            let has_work = || !self.work.lock().is_empty();
            // SLEEPERS-2: no sleeping worker sees an event that this thread has taken.
            if self.thread_pool.sleepers.relieve(collect, has_work, || self.ring()) {
                if !self.thread_pool.is_short() {
                    self.thread_pool.stretch();
                }
                self.call_if_missed();
            }
        }
    }
}
