//! Options of a transaction.

use std::fmt;
use std::time::Duration;

use spillway_base::batch::{Op, WriteBatch};

/// When a commit is acknowledged (decision 002).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Durability {
    /// Once it is durable.
    #[default]
    Commit,
    /// Once it is installed. It becomes durable at most this much later.
    Within(Duration),
    /// Once it is installed. It becomes durable at some later time.
    Relaxed,
}

/// Formats a durability as settings and clients write it: `commit`, `none`, or a delay such as `2s`
/// or `200ms`.
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

/// The isolation level of a transaction (decision 012).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Isolation {
    /// Each statement reads its own snapshot.
    ReadCommitted,
    /// Snapshot isolation; the first committer wins.
    #[default]
    RepeatableRead,
    /// Serializable snapshot isolation.
    Serializable,
}

/// The strength of a row lock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum LockMode {
    /// Other transactions may hold the lock too, in shared mode.
    Shared,
    /// No other transaction may hold the lock.
    Exclusive,
}

/// How a request treats a lock that another transaction holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LockWait {
    /// Queue for the lock, for at most the transaction's lock wait time.
    #[default]
    Wait,
    /// Fail at once with [`spillway_base::ErrorKind::LockNotAvailable`].
    NoWait,
    /// Skip the row, as if it did not exist.
    SkipLocked,
}

/// How much disk space a transaction's commit frees. A commit that frees space may use the reserve.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Frees {
    /// Nothing.
    #[default]
    Nothing,
    /// The space of rows, once a compaction has merged their deletions with them.
    Rows,
    /// The space of whole tables, soon after the commit.
    Tables,
}

impl Frees {
    /// Classifies a batch: `Tables` if it drops a table, `Rows` if it only deletes.
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
    /// The isolation level.
    pub isolation: Isolation,
    /// Refuse writes and locks.
    pub read_only: bool,
    /// When its commit is acknowledged; `None` takes the database's setting.
    pub durability: Option<Durability>,
    /// How long it waits for a lock; `None` takes the database's setting.
    pub lock_wait: Option<Duration>,
    /// Under REPEATABLE READ: whether changes and locking reads act on the newest committed
    /// versions, as in InnoDB. Such a transaction never fails with
    /// [`spillway_base::ErrorKind::WriteConflict`].
    pub acts_on_newest: bool,
    /// Under REPEATABLE READ: whether the snapshot stays where it is. Otherwise the transaction
    /// remembers its reads, and may move its snapshot forward instead of failing with a conflict.
    pub keeps_snapshot: bool,
    /// The space that its commit helps to free, if its own writes do not show it. A commit that
    /// frees space may use the disk's reserve.
    pub frees: Frees,
}

impl TransactionOptions {
    /// The defaults.
    #[must_use]
    pub fn new() -> TransactionOptions {
        TransactionOptions::default()
    }

    /// Sets the isolation level.
    #[must_use]
    pub fn isolation(mut self, isolation: Isolation) -> TransactionOptions {
        self.isolation = isolation;
        self
    }

    /// Sets whether the transaction refuses writes and locks.
    #[must_use]
    pub fn read_only(mut self, read_only: bool) -> TransactionOptions {
        self.read_only = read_only;
        self
    }

    /// Sets the durability.
    #[must_use]
    pub fn durability(mut self, durability: Durability) -> TransactionOptions {
        self.durability = Some(durability);
        self
    }

    /// Sets how long the transaction waits for a lock.
    #[must_use]
    pub fn lock_wait(mut self, lock_wait: Duration) -> TransactionOptions {
        self.lock_wait = Some(lock_wait);
        self
    }

    /// Sets whether changes act on the newest committed versions under REPEATABLE READ.
    #[must_use]
    pub fn acts_on_newest(mut self, acts_on_newest: bool) -> TransactionOptions {
        self.acts_on_newest = acts_on_newest;
        self
    }

    /// Sets how much space the commit frees, which decides how much of the disk's reserve it may
    /// use.
    #[must_use]
    pub fn frees(mut self, frees: Frees) -> TransactionOptions {
        self.frees = frees;
        self
    }

    /// Sets whether the snapshot stays where it is, or may move forward if every read would return
    /// the same at the newer one.
    #[must_use]
    pub fn keeps_snapshot(mut self, keeps_snapshot: bool) -> TransactionOptions {
        self.keeps_snapshot = keeps_snapshot;
        self
    }
}
