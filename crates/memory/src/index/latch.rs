//! A version and a lock in one word (optimistic lock coupling).
//!
//! A reader reads the version, then the data, then checks that the version is the same. A writer
//! locks the latch only if the latch still has the version that the writer has read. So data that
//! the writer read before is still valid, and the writer need not read it again.
//!
//! - **LATCH-1.** If a reader loads data that a writer stored after the reader had read the
//!   version, the reader's check fails. The reason: the writer locked the latch, and so changed its
//!   word, before it stored the data. The data is stored with Release and loaded with Acquire. So a
//!   reader that has loaded the stored data then finds the word changed. No version repeats, so the
//!   changed word differs from the version that the reader has read.
//!
//! A thread waits for a latch only in [`Latch::read`], where it holds no latch. A thread that holds
//! a latch only tries to lock another, so latches cannot deadlock.
//!
//! Leis et al. mark nodes that were replaced, so that a reader does not use them. No mark is needed
//! here. A thread that replaces a node locks the node and its parent. A reader first reads the
//! version of the node and then checks the version of the parent again. If the node was locked
//! before the reader read the node's version, the check of the parent fails. If it was locked
//! later, the check of the node fails.

use spillway_base::sync::atomic::{AtomicU64, Ordering};
use spillway_base::sync::{hint, thread};

const LOCKED: u64 = 1;
const ONE_CHANGE: u64 = 2;

/// How often a thread spins before it yields. In loom models it yields at once.
const SPINS_MAX: u32 = if cfg!(loom) { 0 } else { 64 };

/// A node changed during an operation, so the operation must restart.
#[derive(Debug)]
pub(super) struct Conflict;

/// Waits between attempts: first spins, then yields the core.
#[derive(Default)]
pub(super) struct Patience {
    tries: u32,
}

impl Patience {
    pub(super) fn wait(&mut self) {
        if self.tries < SPINS_MAX {
            self.tries += 1;
            hint::spin_loop();
        } else {
            // The holder is a few instructions from its release, but may have been preempted.
            thread::yield_now();
        }
    }
}

pub(super) struct Latch(AtomicU64);

impl Latch {
    pub(super) fn new() -> Latch {
        Latch(AtomicU64::new(0))
    }

    /// The version. Waits while a writer holds the lock.
    #[inline]
    pub(super) fn read(&self) -> u64 {
        let version = self.0.load(Ordering::Acquire);
        if version & LOCKED == 0 { version } else { self.read_later() }
    }

    #[cold]
    fn read_later(&self) -> u64 {
        let mut patience = Patience::default();
        loop {
            patience.wait();
            let version = self.0.load(Ordering::Acquire);
            if version & LOCKED == 0 {
                return version;
            }
        }
    }

    /// Fails if a writer has locked the latch since the version was read (LATCH-1).
    #[inline]
    pub(super) fn check(&self, version: u64) -> Result<(), Conflict> {
        if self.0.load(Ordering::Relaxed) == version { Ok(()) } else { Err(Conflict) }
    }

    /// Locks, or fails if a writer has locked the latch since the version was read.
    pub(super) fn lock_at(&self, version: u64) -> Result<Locked<'_>, Conflict> {
        let locked = version | LOCKED;
        match self.0.compare_exchange(version, locked, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => Ok(Locked { latch: self, end: version + ONE_CHANGE }),
            Err(_) => Err(Conflict),
        }
    }
}

/// A held lock. Dropping it publishes the next version.
pub(super) struct Locked<'a> {
    latch: &'a Latch,
    end: u64,
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.latch.0.store(self.end, Ordering::Release);
    }
}
