//! The gate of a memtable: it admits insertions while the memtable is active, and after it is
//! sealed, shows when the last insertion has left.
//!
//! Every insertion passes the gate. So each thread counts itself in one of several cache lines,
//! together with the other counters that an insertion changes. One line for all threads would move
//! from core to core at each insertion.

use std::cell::Cell;

use spillway_base::Csn;
use spillway_base::sync::atomic::{AtomicU64, Ordering};
use spillway_base::sync::hint;

#[cfg(not(loom))]
const STRIPES: usize = 8;
#[cfg(loom)]
const STRIPES: usize = 2;

/// Looks at a stripe until somebody is given up who does not leave it.
#[cfg(not(loom))]
const PATIENCE: usize = 1000;
#[cfg(loom)]
const PATIENCE: usize = 1;

/// In a stripe's word: who is inside, below this bit; above the next 31, how many keys those who
/// left had added.
const SEALED: u64 = 1 << 31;
const INSIDE: u64 = u32::MAX as u64;
const KEYS_SHIFT: u32 = 32;

#[derive(Debug, Default)]
#[repr(align(128))]
struct GateStripe {
    word: AtomicU64,
    csn_max: AtomicU64,
}

/// Counts those inside, until it is sealed, and what they added.
#[derive(Debug, Default)]
pub(crate) struct Gate([GateStripe; STRIPES]);

/// Being inside; dropping it leaves.
#[derive(Debug)]
pub(crate) struct Inside<'a> {
    stripe: &'a GateStripe,
    keys: Cell<u64>,
}

impl Gate {
    /// Enters, unless the gate is sealed.
    pub(crate) fn enter(&self) -> Option<Inside<'_>> {
        self.enter_by(stripe())
    }

    /// Enters by one of the stripes.
    pub(super) fn enter_by(&self, stripe: usize) -> Option<Inside<'_>> {
        let stripe = &self.0[stripe];
        let inside = Inside { stripe, keys: Cell::new(0) };
        let before = stripe.word.fetch_add(1, Ordering::Acquire);
        (before & SEALED == 0).then_some(inside)
    }

    /// Lets nobody in from now on.
    pub(crate) fn seal(&self) {
        for stripe in &self.0 {
            stripe.word.fetch_or(SEALED, Ordering::AcqRel);
        }
    }

    /// Whether the gate is sealed and everyone has left: what they did is seen by the caller.
    ///
    /// One who is turned away counts as inside for a moment, so the answer may be `false` then;
    /// once it is `true`, nobody does anything inside any more.
    pub(crate) fn is_quiet(&self) -> bool {
        self.0.iter().all(|stripe| stripe.word.load(Ordering::Acquire) & INSIDE == SEALED)
    }

    /// Lets everybody who is inside leave, one stripe after the other, while others come in. Where
    /// it answers `true`, whoever entered has left, and what they did is seen by the caller, or
    /// entered so late that they see what the caller did before the call. `false` where it is
    /// sealed, or somebody stays for long.
    ///
    /// It changes each word to what it was: a load could be of an old value, from before somebody
    /// entered who does not see what the caller did.
    pub(crate) fn passed(&self) -> bool {
        let is_empty = |stripe: &GateStripe| {
            let empty = stripe.word.fetch_add(0, Ordering::AcqRel) & INSIDE == 0;
            if !empty {
                hint::spin_loop();
            }
            empty
        };
        self.0.iter().all(|stripe| (0..PATIENCE).any(|_| is_empty(stripe)))
    }

    /// Keys that those who left had added.
    pub(crate) fn keys(&self) -> usize {
        let keys = |stripe: &GateStripe| stripe.word.load(Ordering::Relaxed) >> KEYS_SHIFT;
        self.0.iter().map(keys).sum::<u64>() as usize
    }

    /// The largest CSN that was added.
    pub(crate) fn csn_max(&self) -> Csn {
        let all = self.0.iter().map(|stripe| stripe.csn_max.load(Ordering::Acquire));
        Csn(all.max().unwrap_or(0))
    }
}

impl Inside<'_> {
    /// Says that a version was added, and whether with a new key.
    pub(super) fn added(&self, csn: Csn, is_new_key: bool) {
        if self.stripe.csn_max.load(Ordering::Relaxed) < csn.0 {
            self.stripe.csn_max.fetch_max(csn.0, Ordering::AcqRel);
        }
        self.keys.set(self.keys.get() + u64::from(is_new_key));
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        let left = (self.keys.get() << KEYS_SHIFT).wrapping_sub(1);
        self.stripe.word.fetch_add(left, Ordering::Release);
    }
}

/// The stripe of the calling thread.
fn stripe() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};

    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static STRIPE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES);
    // The threads of a model are one thread of the system.
    if cfg!(loom) { 0 } else { STRIPE.with(|stripe| *stripe) }
}
