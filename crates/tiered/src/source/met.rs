//! Counts the code paths that sources took on this thread, so that tests can check that they cover
//! each path.

use std::cell::Cell;

use spillway_base::Direction;

/// The origin of several rows that were lent together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Of {
    Memtable,
    /// Entries of a block, each of which is a row.
    Beside,
    /// As `Beside`, with a search for another source's key in the block.
    Sought,
    /// As `Sought`, backwards, if the block has that key too.
    There,
    /// Entries of a block that had to be checked one by one.
    Each,
}

/// The number of times that several rows were lent, by origin, direction, and without or with a key
/// of another source as the limit.
pub(crate) type Lent = [[[u64; 2]; 2]; 5];

thread_local! {
    static LOOKED: Cell<u64> = const { Cell::new(0) };
    static ASKED: Cell<u64> = const { Cell::new(0) };
    static LENT: Cell<Lent> = const { Cell::new([[[0; 2]; 2]; 5]) };
}

/// Counts a key of a memtable that an extension visited.
pub(super) fn look() {
    LOOKED.set(LOOKED.get() + 1);
}

/// Counts keys of a memtable that were prefetched together in order to be passed.
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

/// The keys of memtables that extensions have visited since the last call.
pub(crate) fn looked() -> u64 {
    LOOKED.take()
}

/// The keys of memtables that were prefetched together in order to be passed, since the last call.
pub(crate) fn asked() -> u64 {
    ASKED.take()
}

/// The counts of lent rows since the last call.
pub(crate) fn lent() -> Lent {
    LENT.take()
}

/// Asserts that rows were lent together more than `floor` times: from memtables and blocks, in both
/// directions, alone and before another source's next key. A key is searched for only if there is
/// one, and only backwards does the source check whether the block has it.
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
