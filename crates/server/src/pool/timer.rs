//! Decides when to check for clients that have been silent for too long.
//!
//! The check is a sweep over all connections, on the thread that accepts clients. A sweep finds the
//! connections whose deadline has passed, and the earliest deadline of the others. The thread
//! sleeps until that deadline.
//!
//! If a connection begins to wait with an earlier deadline, the timer writes to an eventfd, the
//! *alarm*. This wakes the thread, which sweeps and then sleeps until the new deadline. When a
//! connection becomes busy, the timer keeps the connection's deadline. So a sweep may find no
//! connection that is due. In return, a command usually costs only one load of an atomic in the
//! timer.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};

pub(super) struct Timer {
    alarm: OwnedFd,
    /// When a sweep is due, in nanoseconds of the clock.
    next_ns: AtomicU64,
}

impl Timer {
    pub(super) fn new() -> io::Result<Timer> {
        let alarm = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Timer { alarm, next_ns: AtomicU64::new(u64::MAX) })
    }

    pub(super) fn alarm(&self) -> BorrowedFd<'_> {
        self.alarm.as_fd()
    }

    /// Records the deadline of a connection that is not busy any more.
    pub(super) fn note(&self, until: Duration) {
        let until_ns = until.as_nanos() as u64;
        if until_ns < self.next_ns.load(SeqCst)
            && until_ns < self.next_ns.fetch_min(until_ns, SeqCst)
        {
            self.ring();
        }
    }

    /// Makes a sweep due at once.
    pub(super) fn ring(&self) {
        // The counter never overflows.
        let _ = rustix::io::write(&self.alarm, &1_u64.to_ne_bytes());
    }

    /// Finds the connections that are due: `look` handles these and returns the earliest deadline
    /// of the connections that wait. Returns when to sweep again.
    pub(super) fn sweep(&self, look: impl FnOnce() -> Option<Duration>) -> Option<Duration> {
        let _ = rustix::io::read(&self.alarm, &mut [0; 8]);
        // Store this first: a connection that begins to wait during the sweep, and that the sweep
        // misses, then finds no earlier time here, so it records its own.
        self.next_ns.store(u64::MAX, SeqCst);
        let due_ns = look().map_or(u64::MAX, |due| due.as_nanos() as u64);
        let next_ns = due_ns.min(self.next_ns.fetch_min(due_ns, SeqCst));
        (next_ns < u64::MAX).then_some(Duration::from_nanos(next_ns))
    }
}
