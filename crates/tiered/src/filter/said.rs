//! What filters said of late to a thread, by which it asks the processor for the block while it
//! asks the next one.
//!
//! Where a filter says yes its block is looked at next, and it is well to have asked for that
//! before. But the way to the block has two looks at memory that the processor waits for. Who asks
//! for keys that are not there needs none of it, and spends an eighth of the get on it. Of those
//! who do a filter says yes now and then, too: one yes by itself says nothing.

use std::cell::Cell;

thread_local! {
    /// The last answers, the last one in the lowest bit, set for yes. A get of a key that is there
    /// asks a filter of each sub-level, and is told yes by one.
    static SAID: Cell<u32> = const { Cell::new(u32::MAX) };
}

/// Whether some of the last answers were yes.
#[inline]
pub(crate) fn said_yes() -> bool {
    let said = SAID.get();
    // More than one bit.
    said & said.wrapping_sub(1) != 0
}

/// Notes an answer, and gives it.
#[inline]
pub(crate) fn note_said(yes: bool) -> bool {
    SAID.set(SAID.get() << 1 | u32::from(yes));
    yes
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn two_of_the_last_thirty_two_answers_tell() {
        let said = |answers: &[(bool, usize)]| {
            (0..40).for_each(|_| _ = note_said(false));
            for (yes, times) in answers {
                (0..*times).for_each(|_| _ = note_said(*yes));
            }
            said_yes()
        };
        assert!(!said(&[]) && !said(&[(true, 1)]) && said(&[(true, 2)]));
        assert!(said(&[(true, 1), (false, 30), (true, 1)]));
        assert!(!said(&[(true, 1), (false, 31), (true, 1)]));
        assert!(said(&[(true, 2), (false, 30)]) && !said(&[(true, 2), (false, 31)]));
    }
}
