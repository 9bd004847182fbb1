//! A pass over the rows of a table in key order, in transactions of a limited number of rows each,
//! while other sessions read and write the table. A [`Visitor`] processes each row.
//!
//! # Guarantees
//!
//! - **TABLE-PASS-1.** The pass visits every row that existed when the pass began and still exists
//!   when the pass reaches its key. The pass may also visit rows that were inserted meanwhile.
//! - **TABLE-PASS-2.** The pass visits a row with its newest values, under a row lock that the pass
//!   holds until its transaction ends.
//! - **TABLE-PASS-3.** Each transaction of the pass is limited in rows, in bytes of these rows and
//!   in bytes written. So a transaction of a client that needs the lock of a visited row waits for
//!   at most one transaction of the pass. The pass waits for a row lock only while it holds no
//!   other lock, so it cannot be part of a deadlock.
//!
//!   A visitor that rewrites a row changes the row. So the rewrite may cause a conflict in a
//!   transaction with an older snapshot (`ddl/refresh`).
//! - **TABLE-PASS-4.** If a visitor records the progress of the pass, the transaction that commits
//!   the visitor's writes also commits this record.

use std::time::Duration;

use spillway::{
    Database, Direction, ErrorKind, Isolation, KeyRange, LockMode, LockWait, Transaction,
    TransactionOptions, successor,
};

use crate::catalog::{TableDef, unawaited};
use crate::errors::{Result, SqlError};

/// The most rows in one transaction. [`BATCH_BYTES`] is the approximate limit of the bytes written.
const BATCH_ROWS: usize = 1000;
pub(super) const BATCH_BYTES: usize = 256 << 10;

/// How long a pass waits for a row lock before it checks whether it must stop.
const LOCK_WAIT: Duration = Duration::from_secs(1);

pub(crate) struct Pass<'a> {
    pub(crate) db: &'a Database,
    pub(crate) table: &'a TableDef,
    /// Whether the pass must stop.
    pub(crate) stopped: &'a dyn Fn() -> bool,
    /// Called with each transaction of the pass that may have to be interrupted.
    pub(crate) begun: &'a dyn Fn(&Transaction),
}

/// Processes the rows that a pass visits.
pub(super) trait Visitor {
    /// The mode in which the visited rows are locked.
    const LOCK: LockMode;
    /// The approximate limit of the bytes of rows and their keys that one transaction reads.
    const READ_BYTES: usize;

    /// Processes a row, given by its key and its bytes. Returns the approximate number of bytes
    /// written for it.
    fn row(&mut self, txn: &Transaction, key: &[u8], bytes: &[u8]) -> Result<usize>;

    /// Called before the commit: records that the rows up to a key are done.
    fn done(&mut self, txn: &Transaction, last: &[u8]) -> Result<()>;

    /// Called once other transactions see the committed rows and may lock them. This is before the
    /// pass waits until the commit is durable, or sleeps because writers are slowed down.
    fn installed(&mut self) {}
}

impl Pass<'_> {
    /// Visits some rows after `last` in one transaction, and advances `last`. Visits none if
    /// another transaction holds the lock of the first row for too long. Returns `false` if there
    /// are no more rows.
    pub(super) fn visit<V: Visitor>(&self, last: &mut Vec<u8>, visitor: &mut V) -> Result<bool> {
        let keys = self.next_keys(last, V::READ_BYTES)?;
        if keys.is_empty() {
            return Ok(false);
        }
        self.check_stopped()?;
        let done = self.visit_first(&keys, visitor)?;
        if let Some(key) = keys[..done].last() {
            last.clone_from(key);
        }
        Ok(true)
    }

    /// Fails with 1317 if the pass must stop.
    pub(super) fn check_stopped(&self) -> Result<()> {
        match (self.stopped)() {
            true => Err(SqlError::new(1317, "Query execution was interrupted")),
            false => Ok(()),
        }
    }

    fn next_keys(&self, last: &[u8], bytes_max: usize) -> Result<Vec<Vec<u8>>> {
        let start = if last.is_empty() { Vec::new() } else { successor(last) };
        let txn = self.db.begin(unawaited().read_only(true));
        let range = KeyRange::new(&start, None);
        let mut scan = txn.scan(self.table.rows(), range, Direction::Forward)?;
        let (mut keys, mut bytes) = (Vec::new(), 0);
        while keys.len() < BATCH_ROWS && bytes < bytes_max && scan.advance()? {
            bytes += scan.key().len() + scan.value().len();
            keys.push(scan.key().to_vec());
        }
        Ok(keys)
    }

    /// Visits rows from the front of `keys` in one transaction, up to a row that is locked. The
    /// next transaction begins with that row, and so can wait for it (TABLE-PASS-3). Returns the
    /// number of visited rows.
    fn visit_first<V: Visitor>(&self, keys: &[Vec<u8>], visitor: &mut V) -> Result<usize> {
        let options = TransactionOptions::new().isolation(Isolation::ReadCommitted);
        let txn = self.db.begin(options.lock_wait(LOCK_WAIT));
        (self.begun)(&txn);
        let mut bytes = Vec::new();
        let (mut done, mut written) = (0, 0);
        for key in keys {
            if written >= BATCH_BYTES {
                break;
            }
            let wait = if done == 0 { LockWait::Wait } else { LockWait::NoWait };
            match txn.get_locked(self.table.rows(), key, V::LOCK, wait, &mut bytes) {
                Ok(true) => written += visitor.row(&txn, key, &bytes)?,
                Ok(false) => {}
                Err(error) if error.kind() == ErrorKind::LockNotAvailable => break,
                Err(error) if error.kind() == ErrorKind::LockTimeout => return Ok(0),
                Err(error) => return Err(error.into()),
            }
            done += 1;
        }
        if let Some(last) = keys[..done].last() {
            visitor.done(&txn, last)?;
        }
        txn.commit_and(|| visitor.installed()).wait()?;
        Ok(done)
    }

    /// The estimated percentage of the rows before a key.
    pub(crate) fn percent(&self, last: &[u8]) -> u64 {
        let keys = |end| self.db.estimate(self.table.rows(), KeyRange::new(&[], end)).keys;
        (keys(Some(last)) * 100 / keys(None).max(1)).min(99)
    }
}
