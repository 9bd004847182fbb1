//! Who may still look at something that was taken away: readers that were there before it was.
//!
//! A reader *pins*: it counts itself in a word, its *stripe*, that few other threads use. Something
//! that is taken out of reach is kept until each stripe was seen with nobody in it. Whoever pins
//! after that look finds the thing gone: both change the stripe's word, so the one who comes later
//! sees what the earlier did before. A stripe has two counts, of which new readers use one at a
//! time: where readers come and go without a break, the other one empties all the same.
//!
//! - **X1.** What a reader found after it pinned is not released before it unpins.
//! - **X2.** What was taken away is released after every reader of that time has unpinned, however
//!   many others come.
//!
//! Words are changed by each step, and not only read, so that no fence is needed, which the thread
//! sanitizer would not see.
//!
//! Rejected: a slot for each thread, which it stores an epoch into, and a fence. It is as dear (a
//! fence for a change of a word), and threads would have to be told apart, and their slots found
//! again.

use std::cell::Cell;

use spillway_base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

#[cfg(not(loom))]
pub(super) const STRIPES: usize = 32;
#[cfg(loom)]
pub(super) const STRIPES: usize = 2;

/// Bits of each count of readers. Above both are the hits of those who left.
const INSIDE_BITS: u32 = 12;
const INSIDE: u64 = (1 << INSIDE_BITS) - 1;
const HITS_SHIFT: u32 = 2 * INSIDE_BITS;
const COUNTS: u64 = (1 << HITS_SHIFT) - 1;

#[derive(Default)]
#[repr(align(128))]
struct Stripe(AtomicU64);

/// The readers of one cache.
#[derive(Default)]
pub(crate) struct Epochs {
    /// Which of the two counts new readers use.
    side: AtomicUsize,
    stripes: [Stripe; STRIPES],
    /// Of the stripes, taken out of them.
    hits: AtomicU64,
}

/// Being a reader; it is short, and takes no lock.
pub(crate) struct Pin<'e> {
    epochs: &'e Epochs,
    stripe: usize,
    side: u32,
    hits: Cell<u64>,
}

/// What is yet to be seen empty: of each side, the stripes.
#[derive(Clone, Copy)]
struct Waiting([u64; 2]);

impl Waiting {
    const ALL: Waiting = Waiting([u64::MAX >> (64 - STRIPES); 2]);
}

impl Epochs {
    /// Pins.
    #[inline]
    pub(crate) fn pin(&self) -> Pin<'_> {
        self.pin_by(stripe())
    }

    /// Pins by one of the stripes.
    #[inline]
    pub(super) fn pin_by(&self, stripe: usize) -> Pin<'_> {
        let mut pin = Pin { epochs: self, stripe, side: 0, hits: Cell::new(0) };
        pin.enter();
        pin
    }

    /// Looks at what is waited for. Answers whether nothing is any more.
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
            // So that this one empties, too.
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

    /// Hits of all who unpinned.
    pub(crate) fn hits(&self) -> u64 {
        self.stripes.iter().for_each(|stripe| _ = self.take_hits(stripe));
        self.hits.load(Ordering::Relaxed)
    }
}

impl Pin<'_> {
    fn enter(&mut self) {
        self.side = self.epochs.side.load(Ordering::Relaxed) as u32;
        let one = 1 << (self.side * INSIDE_BITS);
        // Acquire: of who looked before, what they took away is gone.
        self.epochs.stripes[self.stripe].0.fetch_add(one, Ordering::Acquire);
    }

    fn leave(&self) {
        let one = 1 << (self.side * INSIDE_BITS);
        let change = (self.hits.take() << HITS_SHIFT).wrapping_sub(one);
        // Release: whoever sees nobody inside comes after all that was read.
        self.epochs.stripes[self.stripe].0.fetch_add(change, Ordering::Release);
    }

    /// Does something that may take long, unpinned.
    pub(crate) fn outside<T>(&mut self, act: impl FnOnce() -> T) -> T {
        /// Pins again however `act` ends.
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
    pub(super) fn hit(&self) {
        self.hits.set(self.hits.get() + 1);
    }

    /// Whether it is of these readers.
    #[inline]
    pub(super) fn is_of(&self, epochs: &Epochs) -> bool {
        std::ptr::eq(self.epochs, epochs)
    }
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        self.leave();
    }
}

/// What was taken away and is not released yet.
pub(super) struct Limbo<T> {
    /// Taken away since the stripes began to be looked at for `closing`.
    open: Vec<T>,
    closing: Vec<T>,
    waiting: Waiting,
}

impl<T> Default for Limbo<T> {
    fn default() -> Limbo<T> {
        Limbo { open: Vec::new(), closing: Vec::new(), waiting: Waiting([0, 0]) }
    }
}

impl<T> Limbo<T> {
    /// Takes in what nobody can reach any more who pins from now on.
    pub(super) fn put(&mut self, thing: T) {
        self.open.push(thing);
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.open.len() + self.closing.len()
    }

    /// Everything, waited for or not.
    #[cfg(all(test, loom))]
    pub(super) fn drain(&mut self) -> Vec<T> {
        self.open.append(&mut self.closing);
        std::mem::take(&mut self.open)
    }

    /// Gives out what no reader can look at any more.
    pub(super) fn release(&mut self, epochs: &Epochs, out: &mut Vec<T>) {
        while self.len() > 0 {
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
pub(super) fn stripe() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};

    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static STRIPE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES);
    STRIPE.with(|stripe| *stripe)
}

#[cfg(loom)]
loom::thread_local!(static STRIPE: Cell<usize> = Cell::new(0));

/// The stripe of the calling thread: the first, unless it has said otherwise. Of a model they are
/// to be the same in each run.
#[cfg(loom)]
pub(super) fn stripe() -> usize {
    STRIPE.with(Cell::get)
}

/// The calling thread goes by another stripe from now on.
#[cfg(all(test, loom))]
pub(super) fn go_by(stripe: usize) {
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
    fn x1_what_was_taken_away_waits_for_the_readers_of_that_time() {
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

    /// X2: a stripe that is never empty, as readers relieve each other in it.
    #[test]
    fn x2_readers_who_come_without_a_break_hold_nothing_up() {
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
