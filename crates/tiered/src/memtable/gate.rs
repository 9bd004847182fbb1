//! The gate of a memtable: lets installs in while it is active, and tells when the last one has
//! left once it is not.

use spillway_base::sync::atomic::{AtomicU32, Ordering};

const SEALED: u32 = 1 << 31;

/// Counts those inside, until it is sealed.
#[derive(Debug)]
pub(crate) struct Gate(AtomicU32);

/// Being inside; dropping it leaves.
#[derive(Debug)]
pub(crate) struct Inside<'a>(&'a Gate);

impl Gate {
    /// An open gate with nobody inside.
    pub(crate) fn new() -> Gate {
        Gate(AtomicU32::new(0))
    }

    /// Enters, unless the gate is sealed.
    pub(crate) fn enter(&self) -> Option<Inside<'_>> {
        let inside = Inside(self);
        let before = self.0.fetch_add(1, Ordering::Acquire);
        (before & SEALED == 0).then_some(inside)
    }

    /// Lets nobody in from now on.
    pub(crate) fn seal(&self) {
        self.0.fetch_or(SEALED, Ordering::AcqRel);
    }

    /// Whether the gate is sealed and everyone has left: what they did is seen by the caller.
    ///
    /// One who is turned away counts as inside for a moment, so the answer may be `false` then; once
    /// it is `true`, nobody does anything inside any more.
    pub(crate) fn is_quiet(&self) -> bool {
        self.0.load(Ordering::Acquire) == SEALED
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Release);
    }
}
