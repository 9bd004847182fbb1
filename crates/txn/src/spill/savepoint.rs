//! Savepoints: points in a transaction's writes, in memory or spilled.

/// A point in a transaction to roll back to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Savepoint {
    /// How often the buffer was spilled before it (`spill`), and the number of writes in it.
    pub(crate) round: u32,
    pub(crate) writes: usize,
}
