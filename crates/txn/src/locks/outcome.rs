//! The outcomes of lock requests.

/// The outcome of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Acquired {
    /// The owner holds the lock now, and did not hold it in this mode before, or only by a range
    /// lock.
    New,
    /// The owner held it already.
    Held,
    /// Another owner holds it, and the caller asked to skip such rows.
    Skipped,
}

/// How a lock was taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// It was not held before.
    New,
    /// It was held in a weaker mode.
    Upgraded,
    /// A range lock of the owner covers it, and it has no line.
    Covered,
    /// It was held in this mode or a stronger one.
    Held,
}

impl Taken {
    /// By a waiter, which may hold a shared lock.
    pub(super) fn in_line(upgrade: bool) -> Taken {
        if upgrade { Taken::Upgraded } else { Taken::New }
    }
}
