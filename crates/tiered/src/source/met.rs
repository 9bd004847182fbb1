//! Counts the code paths that sources took on this thread: tests check that they cover them.

use std::cell::Cell;

use spillway_base::Direction;

/// Where several rows came from at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Of {
    Memtable,
    /// Entries of a block, each of which is a row.
    Beside,
    /// Of those: where another source's key was sought in the block.
    Sought,
    /// Of those: backwards, where the block has that key too.
    There,
    /// Entries of a block that had to be looked at.
    Each,
}

/// Times that there were several rows: of what, forward and backward, and without and with a key of
/// another source that they have to come before.
pub(crate) type Lent = [[[u64; 2]; 2]; 5];

thread_local! {
    static LOOKED: Cell<u64> = const { Cell::new(0) };
    static ASKED: Cell<u64> = const { Cell::new(0) };
    static LENT: Cell<Lent> = const { Cell::new([[[0; 2]; 2]; 5]) };
}

/// A look ahead came to a key of a memtable.
pub(super) fn look() {
    LOOKED.set(LOOKED.get() + 1);
}

/// Keys of a memtable were asked for at once, to be passed.
pub(super) fn ask(keys: usize) {
    ASKED.set(ASKED.get() + keys as u64);
}

pub(super) fn lend(of: Of, direction: Direction, before: Option<&[u8]>, rows: usize) {
    if rows > 1 {
        let mut all = LENT.get();
        let backward = usize::from(direction == Direction::Backward);
        all[of as usize][backward][usize::from(before.is_some())] += 1;
        LENT.set(all);
    }
}

/// Keys of memtables that looks ahead have come to since this was asked.
pub(crate) fn looked() -> u64 {
    LOOKED.take()
}

/// Keys of memtables that were asked for at once, to be passed, since this was asked.
pub(crate) fn asked() -> u64 {
    ASKED.take()
}

/// Rows that were handed out since the last call.
pub(crate) fn lent() -> Lent {
    LENT.take()
}

/// Asserts that rows were taken together more than so many times: of memtables and blocks, in both
/// directions, alone and before another source's next key. Only where there is one is it sought,
/// and only backwards is it asked whether the block has it.
pub(crate) fn check_all(lent: &Lent, floor: u64) {
    for (of, [forward, backward]) in lent.iter().enumerate() {
        let is = |one: Of| of == one as usize;
        let (is_sought, is_there) = (is(Of::Sought), is(Of::There));
        let counts = [
            (forward[0], is_sought || is_there),
            (forward[1], is_there),
            (backward[0], is_sought),
            (backward[1], false),
        ];
        for (count, is_never) in counts {
            assert!(if is_never { count == 0 } else { count > floor }, "{of}: {lent:?}");
        }
    }
}
