//! What a caller chooses for a transaction.

use std::fmt;
use std::time::Duration;

use spillway_base::batch::{Op, WriteBatch};

/// When a commit is acknowledged (DESIGN, D2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// Once it is durable.
    #[default]
    Commit,
    /// Once it is installed; it becomes durable at most this much later.
    Within(Duration),
    /// Once it is installed; it becomes durable some time after.
    Relaxed,
}

/// As settings and clients write it: `commit`, `none`, or a delay such as `2s` or `200ms`.
impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Durability::Commit => f.write_str("commit"),
            Durability::Relaxed => f.write_str("none"),
            Durability::Within(delay) if delay.subsec_millis() == 0 => {
                write!(f, "{}s", delay.as_secs())
            }
            Durability::Within(delay) => write!(f, "{}ms", delay.as_millis()),
        }
    }
}

/// How far transactions are kept apart (DESIGN, D12).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Isolation {
    /// Each statement reads a snapshot of its own.
    ReadCommitted,
    /// Snapshot isolation, first committer wins.
    #[default]
    RepeatableRead,
    /// Serializable snapshot isolation.
    Serializable,
}

/// The strength of a row lock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LockMode {
    /// Others may share it.
    Shared,
    /// Nobody else may hold it.
    Exclusive,
}

/// What to do about a lock that another transaction holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LockWait {
    /// Wait in line for as long as the transaction's options say.
    #[default]
    Wait,
    /// Fail at once with [`spillway_base::ErrorKind::LockNotAvailable`].
    NoWait,
    /// Answer as if the row were not there.
    SkipLocked,
}

/// What a transaction's commit frees of the disk, so that it may use the space that is kept for
/// that.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Frees {
    /// Nothing.
    #[default]
    Nothing,
    /// The space of rows, once it was merged with them.
    Rows,
    /// The space of whole tables, soon.
    Tables,
}

impl Frees {
    /// What a batch frees: tables where it drops one, rows where it only deletes.
    pub(crate) fn of(batch: &WriteBatch) -> Frees {
        let deletes = |op: Op<'_>| matches!(op, Op::Delete { .. } | Op::DeleteRange { .. });
        if batch.iter().any(|op| matches!(op, Op::DropTable(_))) {
            Frees::Tables
        } else if batch.iter().all(deletes) {
            Frees::Rows
        } else {
            Frees::Nothing
        }
    }
}

/// Options of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct TransactionOptions {
    /// How far it is kept apart from others.
    pub isolation: Isolation,
    /// Refuse writes and locks.
    pub read_only: bool,
    /// When its commit is acknowledged; `None` is as the database's settings say.
    pub durability: Option<Durability>,
    /// How long it waits for a lock; `None` is as the database's settings say.
    pub lock_wait: Option<Duration>,
    /// Under REPEATABLE READ: whether changes and locking reads act on the newest committed
    /// versions, and so are never refused with [`spillway_base::ErrorKind::WriteConflict`], as
    /// InnoDB does it.
    pub acts_on_newest: bool,
    /// Under REPEATABLE READ: whether the snapshot is never moved forward in place of a conflict,
    /// and what is read is not remembered for that.
    pub keeps_snapshot: bool,
    /// What its commit helps to free of the disk, where its own writes do not show it. A commit
    /// that frees space may use the disk's reserve.
    pub frees: Frees,
}

impl TransactionOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> TransactionOptions {
        TransactionOptions::default()
    }

    /// With this isolation level.
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> TransactionOptions {
        self.isolation = isolation;
        self
    }

    /// Refusing writes and locks, or not.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> TransactionOptions {
        self.read_only = read_only;
        self
    }

    /// With this durability.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> TransactionOptions {
        self.durability = Some(durability);
        self
    }

    /// Waiting this long for a lock.
    #[must_use]
    pub fn lock_wait(mut self, lock_wait: Duration) -> TransactionOptions {
        self.lock_wait = Some(lock_wait);
        self
    }

    /// Acting on the newest committed versions under REPEATABLE READ, or on the snapshot's alone.
    #[must_use]
    pub fn acts_on_newest(mut self, acts_on_newest: bool) -> TransactionOptions {
        self.acts_on_newest = acts_on_newest;
        self
    }

    /// Using the disk's reserve as a commit that frees so much.
    #[must_use]
    pub fn frees(mut self, frees: Frees) -> TransactionOptions {
        self.frees = frees;
        self
    }

    /// Keeping its snapshot as it is, or moving it forward where that makes no difference to what
    /// it has read.
    #[must_use]
    pub fn keeps_snapshot(mut self, keeps_snapshot: bool) -> TransactionOptions {
        self.keeps_snapshot = keeps_snapshot;
        self
    }
}
