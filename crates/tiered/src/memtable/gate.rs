//! The gate of a memtable. It admits insertions while the memtable is active. After the memtable is
//! sealed, it shows when the last insertion has left.
//!
//! Every insertion enters the gate and leaves it. The cache line of one counter for all threads
//! would move from core to core at each insertion. So there are several *stripes*, each in a cache
//! line of its own. A thread always uses the same stripe. The stripe also has the other counters
//! that an insertion changes.

use std::cell::Cell;

use spillway_base::Csn;
use spillway_base::sync::atomic::{AtomicU64, Ordering};
use spillway_base::sync::hint;

#[cfg(not(loom))]
const STRIPES: usize = 8;
#[cfg(loom)]
const STRIPES: usize = 2;

/// The checks of a stripe after which a caller stops waiting for a thread inside it.
#[cfg(not(loom))]
const PATIENCE: usize = 1000;
#[cfg(loom)]
const PATIENCE: usize = 1;

/// The bit of a stripe's word that is set once the gate is sealed. The bits below it count the
/// threads inside; the bits above it count the keys that threads had added when they left.
const SEALED: u64 = 1 << 31;
const INSIDE: u64 = u32::MAX as u64;
const KEYS_SHIFT: u32 = 32;

#[derive(Debug, Default)]
#[repr(align(128))]
struct GateStripe {
    word: AtomicU64,
    csn_max: AtomicU64,
}

/// The gate: counts the threads inside and the keys that they added, until it is sealed.
#[derive(Debug, Default)]
pub(crate) struct Gate([GateStripe; STRIPES]);

/// A thread's presence inside the gate; dropping it leaves.
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

    /// Enters through one of the stripes.
    pub(super) fn enter_by(&self, stripe: usize) -> Option<Inside<'_>> {
        let stripe = &self.0[stripe];
        let inside = Inside { stripe, keys: Cell::new(0) };
        let before = stripe.word.fetch_add(1, Ordering::Acquire);
        (before & SEALED == 0).then_some(inside)
    }

    /// Seals the gate: no thread can enter from now on.
    pub(crate) fn seal(&self) {
        for stripe in &self.0 {
            stripe.word.fetch_or(SEALED, Ordering::AcqRel);
        }
    }

    /// Whether the gate is sealed and all threads have left. The caller then sees everything that
    /// they did.
    ///
    /// A refused thread counts as inside for a moment, and the result may be `false` because of it.
    /// After a result of `true`, no thread does anything inside any more.
    pub(crate) fn is_quiet(&self) -> bool {
        self.0.iter().all(|stripe| stripe.word.load(Ordering::Acquire) & INSIDE == SEALED)
    }

    /// Waits until all threads inside have left, one stripe after the other, while others enter.
    /// After a result of `true`, there are two kinds of threads: those that have left, whose
    /// insertions the caller sees, and those that entered during the call or later, which see what
    /// the caller did before the call. Returns `false` if the gate is sealed, or a thread stays for
    /// long.
    ///
    /// It reads each word by adding zero, because a read-modify-write returns the latest value. A
    /// load could return an older one, and so miss a thread that has entered without seeing what
    /// the caller did before the call.
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

    /// The keys that threads had added when they left.
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
    /// Records that a version was added, and whether with a new key.
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
    // All threads of a model are one thread of the system.
    if cfg!(loom) { 0 } else { STRIPE.with(|stripe| *stripe) }
}
