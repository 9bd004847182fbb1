//! Epoch-based reclamation: an unlinked object is released when its last reader has left.
//!
//! A reader *pins*: it increments a count in a word, its *stripe*, that few other threads use. An
//! object that a writer unlinks waits in a [`Limbo`]. The thread that will release the object, the
//! *observer*, does so once it has seen each stripe without readers. A reader may pin in a stripe
//! after the observer has read this stripe. The reader and the observer both change the stripe's
//! word, and the reader changes it later. So the reader sees the object unlinked, as the observer
//! did, and cannot reach it.
//!
//! Readers may arrive at a stripe without a break, so a single count might never be zero. So a
//! stripe has two counts, and the observer waits until it has seen each of the two at zero. New
//! readers use only one count at a time, so the other count falls to zero. Then the observer lets
//! new readers use that count, and the first one falls to zero.
//!
//! # Guarantees
//!
//! - **EPOCH-1.** An object that a reader found after it pinned is not released before it unpins.
//! - **EPOCH-2.** An unlinked object is released after all readers have unpinned that were pinned
//!   when the object was unlinked, however many readers come later.
//!
//! The observer reads a stripe by a read-modify-write, not by a load, so no fence is needed. This
//! also suits the thread sanitizer, which does not understand fences.
//!
//! Rejected: a slot for each thread, into which a reader stores the current epoch, followed by a
//! fence. The fence costs as much as the read-modify-write of a pin, and threads would have to find
//! their slots.

use std::cell::Cell;

use spillway_base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Words that count readers.
#[cfg(not(loom))]
pub const STRIPES: usize = 32;
/// Words that count readers.
#[cfg(loom)]
pub const STRIPES: usize = 2;

/// The bits of each of the two counts in a stripe's word. Above the counts, the word has the hits
/// of readers that have left.
const INSIDE_BITS: u32 = 12;
const INSIDE: u64 = (1 << INSIDE_BITS) - 1;
const HITS_SHIFT: u32 = 2 * INSIDE_BITS;
const COUNTS: u64 = (1 << HITS_SHIFT) - 1;

#[derive(Default)]
#[repr(align(128))]
struct Stripe(AtomicU64);

/// The readers of one data structure.
#[derive(Default)]
pub struct Epochs {
    /// Which of the two counts new readers use.
    side: AtomicUsize,
    stripes: [Stripe; STRIPES],
    /// Hits that were moved out of the stripes.
    hits: AtomicU64,
}

/// A registered reader. It is short-lived and takes no lock.
pub struct Pin<'e> {
    epochs: &'e Epochs,
    stripe: usize,
    side: u32,
    hits: Cell<u64>,
}

/// For each of the two counts, the stripes that were not yet seen without readers.
#[derive(Clone, Copy)]
struct Waiting([u64; 2]);

impl Waiting {
    const ALL: Waiting = Waiting([u64::MAX >> (64 - STRIPES); 2]);
}

impl Epochs {
    /// Registers the calling thread as a reader.
    #[inline]
    pub fn pin(&self) -> Pin<'_> {
        self.pin_by(stripe())
    }

    /// Registers a reader in this stripe.
    #[inline]
    pub fn pin_by(&self, stripe: usize) -> Pin<'_> {
        let mut pin = Pin { epochs: self, stripe, side: 0, hits: Cell::new(0) };
        pin.enter();
        pin
    }

    /// Checks the stripes that are waited for. Returns whether none is left.
    fn look(&self, waiting: &mut Waiting) -> bool {
        for (number, stripe) in self.stripes.iter().enumerate() {
            if (waiting.0[0] | waiting.0[1]) >> number & 1 == 0 {
                continue;
            }
            let word = self.take_hits(stripe);
            for (side, left) in waiting.0.iter_mut().enumerate() {
                if word >> (side as u32 * INSIDE_BITS) & INSIDE == 0 {
                    *left &= !(1 << number);
                }
            }
        }
        let side = self.side.load(Ordering::Relaxed);
        if waiting.0[side] != 0 && waiting.0[1 - side] == 0 {
            // Lets this count become zero, too.
            self.side.store(1 - side, Ordering::Relaxed);
        }
        waiting.0 == [0, 0]
    }

    fn take_hits(&self, stripe: &Stripe) -> u64 {
        let word = stripe.0.fetch_and(COUNTS, Ordering::AcqRel);
        if word >> HITS_SHIFT > 0 {
            self.hits.fetch_add(word >> HITS_SHIFT, Ordering::Relaxed);
        }
        word
    }

    /// Hits that readers counted before they unpinned.
    pub fn hits(&self) -> u64 {
        self.stripes.iter().for_each(|stripe| _ = self.take_hits(stripe));
        self.hits.load(Ordering::Relaxed)
    }
}

impl Pin<'_> {
    #[inline]
    fn enter(&mut self) {
        self.side = self.epochs.side.load(Ordering::Relaxed) as u32;
        let one = 1 << (self.side * INSIDE_BITS);
        // Acquire: this reader cannot find an object that was unlinked before a check of the stripe
        // that found no readers.
        self.epochs.stripes[self.stripe].0.fetch_add(one, Ordering::Acquire);
    }

    #[inline]
    fn leave(&self) {
        let one = 1 << (self.side * INSIDE_BITS);
        let change = (self.hits.take() << HITS_SHIFT).wrapping_sub(one);
        // Release: a thread that sees no reader comes after all of this reader's reads.
        self.epochs.stripes[self.stripe].0.fetch_add(change, Ordering::Release);
    }

    /// Runs something that may take long, unpinned.
    pub fn outside<T>(&mut self, act: impl FnOnce() -> T) -> T {
        /// Pins again when `act` ends, also by a panic.
        struct Again<'a, 'e>(&'a mut Pin<'e>);
        impl Drop for Again<'_, '_> {
            fn drop(&mut self) {
                self.0.enter();
            }
        }
        self.leave();
        let _again = Again(self);
        act()
    }

    /// Counts a hit.
    #[inline]
    pub fn hit(&self) {
        self.hits.set(self.hits.get() + 1);
    }

    /// Whether the pin belongs to these readers.
    #[inline]
    pub fn is_of(&self, epochs: &Epochs) -> bool {
        std::ptr::eq(self.epochs, epochs)
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Things that were unlinked and are not released yet.
pub struct Limbo<T> {
    /// Unlinked since the check of the stripes for `closing` began.
    open: Vec<T>,
    /// Released once no stripe is waited for.
    closing: Vec<T>,
    /// The stripes that `closing` waits for.
    waiting: Waiting,
}

impl<T> Default for Limbo<T> {
    fn default() -> Limbo<T> {
        Limbo { open: Vec::new(), closing: Vec::new(), waiting: Waiting([0, 0]) }
    }
}

impl<T> Limbo<T> {
    /// Adds a thing that was unlinked: a reader that pins from now on cannot reach it.
    pub fn put(&mut self, thing: T) {
        self.open.push(thing);
    }

    /// The number of waiting things.
    #[must_use]
    pub fn len(&self) -> usize {
        self.open.len() + self.closing.len()
    }

    /// Takes out everything, regardless of readers. For callers that know that no reader has a
    /// pointer any more, and for models that must fail.
    pub fn drain(&mut self) -> Vec<T> {
        self.open.append(&mut self.closing);
        std::mem::take(&mut self.open)
    }

    /// Whether nothing waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Moves the things that no reader can reach any more into `out`.
    pub fn release(&mut self, epochs: &Epochs, out: &mut Vec<T>) {
        while !self.is_empty() {
            if self.closing.is_empty() {
                self.closing.append(&mut self.open);
                self.waiting = Waiting::ALL;
            }
            if !epochs.look(&mut self.waiting) {
                return;
            }
            out.append(&mut self.closing);
        }
    }
}

/// The stripe of the calling thread.
#[cfg(not(loom))]
#[inline]
#[must_use]
pub fn stripe() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};

    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static STRIPE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES);
    STRIPE.with(|stripe| *stripe)
}

#[cfg(loom)]
loom::thread_local!(static STRIPE: Cell<usize> = Cell::new(0));

/// The stripe of the calling thread: the first, unless [`go_by`] set another. Runs of a model must
/// use the same stripes.
#[cfg(loom)]
pub fn stripe() -> usize {
    STRIPE.with(Cell::get)
}

/// Sets the stripe of the calling thread.
#[cfg(loom)]
pub fn go_by(stripe: usize) {
    STRIPE.with(|own| own.set(stripe));
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn released(limbo: &mut Limbo<u32>, epochs: &Epochs) -> Vec<u32> {
        let mut out = Vec::new();
        limbo.release(epochs, &mut out);
        out
    }

    #[test]
    fn epoch_1_what_was_unlinked_waits_for_the_readers_of_that_time() {
        let (epochs, mut limbo) = (Epochs::default(), Limbo::default());
        let before = epochs.pin_by(3);
        limbo.put(1);
        assert_eq!(released(&mut limbo, &epochs), []);
        limbo.put(2);
        let after = epochs.pin_by(5);
        drop(before);
        assert_eq!(released(&mut limbo, &epochs), [1], "who came later does not matter");
        assert_eq!(released(&mut limbo, &epochs), [], "but to what went later");
        drop(after);
        assert_eq!(released(&mut limbo, &epochs), [2]);
        assert_eq!(limbo.len(), 0);
    }

    /// EPOCH-2: a stripe that is never empty, because readers overlap in it.
    #[test]
    fn epoch_2_readers_that_come_without_a_break_hold_nothing_up() {
        let (epochs, mut limbo) = (Epochs::default(), Limbo::default());
        let mut inside = epochs.pin_by(0);
        limbo.put(1);
        let mut out = Vec::new();
        for _ in 0..4 {
            limbo.release(&epochs, &mut out);
            let next = epochs.pin_by(0);
            drop(std::mem::replace(&mut inside, next));
        }
        assert_eq!(out, [1]);
    }

    #[test]
    fn one_who_goes_outside_holds_nothing_up() {
        let (epochs, mut limbo) = (Epochs::default(), Limbo::default());
        let mut pin = epochs.pin_by(1);
        limbo.put(1);
        pin.hit();
        pin.outside(|| assert_eq!(released(&mut limbo, &epochs), [1]));
        limbo.put(2);
        assert_eq!(released(&mut limbo, &epochs), []);
        pin.hit();
        drop(pin);
        assert_eq!(released(&mut limbo, &epochs), [2]);
        assert_eq!(epochs.hits(), 2);
    }
}
