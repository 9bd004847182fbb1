//! Transactions with named tables.

use std::ops::Deref;
use std::sync::Arc;

use spillway_base::range::prefix_end;
use spillway_base::{Direction, EngineKind, Error, ErrorKind, KeyRange, Result, TableId};
use spillway_txn::TransactionOptions;

use crate::directory::{self, DIRECTORY};
use crate::inner::Inner;

/// A table: one ordered key space.
pub type Table = TableId;

/// A transaction. Dropping it rolls it back.
///
/// It is a [`spillway_txn::Transaction`], and adds tables by name. Its methods take `&self`, so
/// that a scan can be open while the transaction writes. It may move between threads, but one
/// thread at a time uses it.
pub struct Transaction {
    inner: spillway_txn::Transaction,
    db: Arc<Inner>,
}

/// A transaction that has ended, which is reused for the next one of the same client. So the next
/// transaction increments no reference counts, and is not moved in memory.
pub struct Spare(Box<Transaction>);

impl Spare {
    pub(crate) fn new(inner: spillway_txn::Transaction, db: Arc<Inner>) -> Spare {
        Spare(Box::new(Transaction { inner, db }))
    }

    /// Starts a transaction.
    #[must_use]
    pub fn begin(mut self, options: TransactionOptions) -> Box<Transaction> {
        self.0.inner.begin_again(options);
        self.0
    }
}

impl Deref for Transaction {
    type Target = spillway_txn::Transaction;

    fn deref(&self) -> &spillway_txn::Transaction {
        &self.inner
    }
}

impl Transaction {
    #[inline]
    pub(crate) fn new(inner: spillway_txn::Transaction, db: Arc<Inner>) -> Transaction {
        Transaction { inner, db }
    }

    fn find(&self, name: &str) -> Result<Option<Table>> {
        let mut value = Vec::new();
        let found = self.inner.get(DIRECTORY, directory::key(name)?, &mut value)?;
        found.then(|| directory::decode(&value)).transpose()
    }

    /// The table of this name.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], and as [`spillway_txn::Transaction::get`].
    pub fn table(&self, name: &str) -> Result<Table> {
        self.find(name)?
            .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("table {name} does not exist")))
    }

    /// The names of all tables, ascending.
    ///
    /// # Errors
    /// As [`spillway_txn::Transaction::get`].
    pub fn table_names(&self) -> Result<Vec<String>> {
        Ok(self.tables("")?.into_iter().map(|(name, _)| name).collect())
    }

    /// The tables whose names begin with a prefix, ascending.
    ///
    /// # Errors
    /// As [`spillway_txn::Transaction::get`].
    pub fn tables(&self, prefix: &str) -> Result<Vec<(String, Table)>> {
        let end = prefix_end(prefix.as_bytes());
        let range = KeyRange::new(prefix.as_bytes(), end.as_deref());
        let mut tables = Vec::new();
        let mut scan = self.inner.scan(DIRECTORY, range, Direction::Forward)?;
        while scan.advance()? {
            if directory::is_table(scan.key()) {
                let name = String::from_utf8_lossy(scan.key()).into_owned();
                tables.push((name, directory::decode(scan.value())?));
            }
        }
        Ok(tables)
    }

    /// Creates a table. This transaction sees it at once, others from its commit on.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`]; [`ErrorKind::InvalidArgument`] for an empty name;
    /// [`ErrorKind::NotFound`] for an engine that this database does not have; and as
    /// [`spillway_txn::Transaction::put`].
    pub fn create_table(&self, name: &str, engine: EngineKind) -> Result<Table> {
        self.db.manager.engines().of_kind(engine)?;
        let table = self.db.numbers.next(&self.db.manager, engine)?;
        let row = directory::encode(table);
        self.inner.insert(DIRECTORY, directory::key(name)?, &row).map_err(|error| {
            match error.kind() {
                ErrorKind::DuplicateKey => {
                    Error::new(ErrorKind::AlreadyExists, format!("table {name} exists already"))
                }
                _ => error,
            }
        })?;
        self.inner.create_table(table)?;
        Ok(table)
    }

    /// Drops a table with all its rows. Its space is released when no transaction can see it any
    /// more.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], and as [`spillway_txn::Transaction::put`].
    pub fn drop_table(&self, name: &str) -> Result<()> {
        let table = self.table(name)?;
        self.inner.delete(DIRECTORY, directory::key(name)?)?;
        self.inner.drop_table(table)
    }

    /// Commits. When this returns, the commit is ordered and installed, or refused; the future
    /// resolves once it is acknowledged.
    pub fn commit(mut self) -> spillway_txn::CommitFuture {
        self.inner.commit_for_drop(|| ())
    }

    /// As [`Transaction::commit`]. Calls `installed` once the commit is installed or refused and
    /// its row locks are released, before the throttle makes the writer sleep. A caller that holds
    /// other locks releases them there.
    pub fn commit_and(mut self, installed: impl FnOnce()) -> spillway_txn::CommitFuture {
        self.inner.commit_for_drop(installed)
    }

    /// As [`Transaction::commit`], and returns a spare for the next transaction.
    pub fn commit_and_leave(mut self: Box<Self>) -> (spillway_txn::CommitFuture, Spare) {
        let commit = self.inner.commit_in_place();
        (commit, Spare(self))
    }

    /// Undoes all writes and releases the locks.
    pub fn rollback(self) {
        self.inner.rollback();
    }

    /// As [`Transaction::rollback`], and returns a spare for the next transaction.
    #[must_use]
    pub fn rollback_and_leave(mut self: Box<Self>) -> Spare {
        self.inner.rollback_in_place();
        Spare(self)
    }
}
