//! What filters said of late to a thread, by which it asks the processor for the block while it asks the next one.
//!
//! Where a filter says yes its block is looked at next, and it is well to have asked for that before. But the way to the block has two looks at memory that
//! the processor waits for. Who asks for keys that are not there needs none of it, and spends an eighth of the get on it.

use std::cell::Cell;

thread_local! {
    /// The last answers, the last one in the lowest bit, set for yes. A get of a key that is there asks a filter of each sub-level, and is told yes by one.
    static SAID: Cell<u16> = const { Cell::new(u16::MAX) };
}

/// Whether one of the last answers was yes.
#[inline]
pub(crate) fn said_yes() -> bool {
    SAID.get() != 0
}

/// Notes an answer, and gives it.
#[inline]
pub(crate) fn note_said(yes: bool) -> bool {
    SAID.set(SAID.get() << 1 | u16::from(yes));
    yes
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_yes_is_remembered_for_sixteen_answers() {
        let after = |answers: usize| {
            note_said(true);
            (0..answers).for_each(|_| _ = note_said(false));
            said_yes()
        };
        assert!(after(0) && after(15) && !after(16) && !after(40));
    }
}
