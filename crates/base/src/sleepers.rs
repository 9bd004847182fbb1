//! The workers of a pool, which sleep in a poller, and the bell, by which another thread wakes one
//! of them.
//!
//! Workers take work from a shared queue. A worker that finds none sleeps in a poller, such as an
//! epoll instance, which wakes one worker for one event. But some work is no event of the poller:
//! another thread puts it into the queue. That thread wakes a sleeper by the *bell*, a source of
//! events that the poller watches besides the others. A ring of the bell costs a system call, so
//! the thread leaves it out if no worker sleeps, or if no worker has heard an earlier ring yet.
//!
//! If a thread leaves out a ring that was needed, work stays in the queue until some later event,
//! which may never come. So this module fixes the order of the steps, and loom checks it.
//!
//! # Guarantees
//!
//! - **SLEEPERS-1.** Work that is queued before a call of [`Sleepers::wake_one`] is found: by a
//!   worker that is awake and looks at the queue before it sleeps, or by one that the bell wakes.
//! - **SLEEPERS-2.** A thread that is not a worker may take events from the poller and queue their
//!   work ([`Sleepers::relieve`]). No sleeper sees these events, and the bell may be among them. So
//!   if there is then work in the queue, `relieve` wakes one sleeper, or returns that no worker
//!   sleeps and another worker is needed.
//!
//! The caller's part: it pushes work into the queue before it calls `wake_one`, it looks at the
//! queue after each [`Sleepers::sleep`], and it calls [`Sleepers::heard`] when the poller reports
//! the bell.

use crate::sync::atomic::Ordering::SeqCst;
use crate::sync::atomic::{AtomicBool, AtomicUsize};

/// The number of sleeping workers, and whether a ring is on its way to one of them.
#[derive(Debug)]
pub struct Sleepers {
    asleep: AtomicUsize,
    /// The bell was rung, and no thread has heard it yet.
    rung: AtomicBool,
}

impl Default for Sleepers {
    fn default() -> Sleepers {
        Sleepers::new()
    }
}

impl Sleepers {
    /// No worker sleeps.
    #[must_use]
    pub fn new() -> Sleepers {
        Sleepers { asleep: AtomicUsize::new(0), rung: AtomicBool::new(false) }
    }

    /// The number of workers that sleep or are about to.
    #[must_use]
    pub fn asleep(&self) -> usize {
        self.asleep.load(SeqCst)
    }

    /// Counts the calling worker as asleep, then calls `wait` unless `is_idle` returns false. The
    /// count rises first, so a thread that queues work after `is_idle` has read the queue sees a
    /// sleeper and rings the bell.
    pub fn sleep<T>(&self, is_idle: impl FnOnce() -> bool, wait: impl FnOnce() -> T) -> Option<T> {
        self.asleep.fetch_add(1, SeqCst);
        let woken = is_idle().then(wait);
        self.asleep.fetch_sub(1, SeqCst);
        woken
    }

    /// Wakes one sleeper to check the queue, if any worker sleeps and no ring is on its way.
    pub fn wake_one(&self, ring: impl FnOnce()) {
        if self.asleep() > 0 && !self.rung.swap(true, SeqCst) {
            ring();
        }
    }

    /// Records that the poller has reported the bell to the calling thread.
    pub fn heard(&self) {
        self.rung.store(false, SeqCst);
    }

    /// For a thread that is not a worker (SLEEPERS-2). `collect` takes the poller's events and
    /// queues their work. If there is work then, this wakes one sleeper. Returns whether there is
    /// work and no worker sleeps, so that another worker is needed.
    pub fn relieve(
        &self,
        collect: impl FnOnce(),
        has_work: impl FnOnce() -> bool,
        ring: impl FnOnce(),
    ) -> bool {
        collect();
        if !has_work() {
            return false;
        }
        self.wake_one(ring);
        self.asleep() == 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_ring_is_left_out_where_it_wakes_nobody() {
        let sleepers = Sleepers::new();
        let rings = Cell::new(0);
        let wake = || sleepers.wake_one(|| rings.set(rings.get() + 1));
        wake();
        assert_eq!(rings.get(), 0, "nobody sleeps");
        let woken = sleepers.sleep(
            || sleepers.asleep() == 1,
            || {
                (0..3).for_each(|_| wake());
                rings.get()
            },
        );
        assert_eq!((woken, sleepers.asleep()), (Some(1), 0));
        assert_eq!(sleepers.sleep(|| false, || ()), None);
        sleepers.heard();
        sleepers.sleep(|| true, wake);
        assert_eq!(rings.get(), 2);
    }

    #[test]
    fn another_worker_is_needed_where_there_is_work_and_nobody_sleeps() {
        let sleepers = Sleepers::new();
        assert!(!sleepers.relieve(|| (), || false, || panic!("no work")));
        assert!(sleepers.relieve(|| (), || true, || panic!("nobody sleeps")));
        let rung = Cell::new(false);
        let is_needed =
            sleepers.sleep(|| true, || sleepers.relieve(|| (), || true, || rung.set(true)));
        assert_eq!((is_needed, rung.get()), (Some(false), true));
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
