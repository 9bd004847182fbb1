//! Savepoints: points in a transaction's writes, in memory or spilled.

/// A point in a transaction to roll back to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Savepoint {
    /// The round of the spill (`Spill::round`), and the number of writes in the buffer, at that
    /// point.
    pub(crate) round: u32,
    pub(crate) writes: usize,
}
