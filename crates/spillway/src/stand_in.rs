//! The interface of the database over a map in memory: snapshots and write buffers, but no locks,
//! no log and no engine. It lets the layers above be built while those below are.

#![allow(clippy::type_complexity)]
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use spillway_base::engine::RangeEstimate;

use crate::{
    Csn, Direction, EngineKind, Error, ErrorKind, Isolation, KeyRange, LockMode, LockWait, Result,
    Settings, TransactionOptions,
};

type Versions = Vec<(Csn, Option<Vec<u8>>)>;
type Space = BTreeMap<Vec<u8>, Versions>;

#[derive(Default)]
struct State {
    csn: Csn,
    tables_next: u32,
    names: BTreeMap<String, Table>,
    spaces: BTreeMap<Table, Space>,
}

/// A database: tables, and transactions over them. Cheap to clone.
#[derive(Clone)]
pub struct Database {
    state: Arc<Mutex<State>>,
}

/// A table: one ordered key space.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Table(u32);

impl Database {
    /// Opens the database in a folder, and creates it if there is none.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`], [`ErrorKind::Corruption`], [`ErrorKind::UnsupportedFormat`],
    /// [`ErrorKind::Io`].
    pub fn open(_path: impl AsRef<Path>, settings: Settings) -> Result<Database> {
        Database::open_in_memory(settings)
    }

    /// Opens an empty database that is gone when it is dropped.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidArgument`] for settings out of bounds.
    pub fn open_in_memory(_settings: Settings) -> Result<Database> {
        Ok(Database { state: Arc::default() })
    }

    /// Starts a transaction.
    #[must_use]
    pub fn begin(&self, options: TransactionOptions) -> Transaction {
        Transaction {
            db: self.clone(),
            options,
            snapshot: Cell::new(None),
            writes: RefCell::default(),
            undo: RefCell::default(),
        }
    }

    /// Waits for background work, closes files. Later calls fail with [`ErrorKind::Closed`].
    ///
    /// # Errors
    /// The failure that kept it from closing cleanly; nothing acknowledged is lost by it.
    pub fn close(&self) -> Result<()> {
        Ok(())
    }

    /// Estimates the keys and bytes of a range, from metadata in memory.
    #[must_use]
    pub fn estimate(&self, table: Table, range: KeyRange<'_>) -> RangeEstimate {
        let state = self.state.lock();
        let Some(space) = state.spaces.get(&table) else { return RangeEstimate::default() };
        let keys = space.keys().filter(|key| range.contains(key)).count() as u64;
        RangeEstimate { keys, bytes: keys * 100 }
    }
}

enum Write {
    Value(Table, Vec<u8>),
    Create(String, Table),
    Drop(String, Table),
}

/// A transaction. Dropping it rolls it back.
///
/// Its methods take `&self`, so that a scan can be open while the transaction writes. It may move
/// between threads and is used by one at a time.
pub struct Transaction {
    db: Database,
    options: TransactionOptions,
    snapshot: Cell<Option<Csn>>,
    writes: RefCell<BTreeMap<(Table, Vec<u8>), Option<Vec<u8>>>>,
    undo: RefCell<Vec<(Write, Option<Option<Vec<u8>>>)>>,
}

/// A point in a transaction to roll back to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Savepoint(usize);

impl Transaction {
    fn snapshot(&self) -> Csn {
        if self.snapshot.get().is_none() {
            self.snapshot.set(Some(self.db.state.lock().csn));
        }
        self.snapshot.get().unwrap_or_default()
    }

    /// The options it was started with.
    #[must_use]
    pub fn options(&self) -> TransactionOptions {
        self.options
    }

    /// Begins a statement: under READ COMMITTED the statement's reads share one new snapshot. A
    /// caller that never begins statements gets a new snapshot for each read.
    pub fn begin_statement(&self) {
        if self.options.isolation == Isolation::ReadCommitted {
            self.snapshot.set(None);
        }
    }

    /// Whether the transaction has a snapshot that later statements will share.
    #[must_use]
    pub fn snapshot_taken(&self) -> bool {
        self.snapshot.get().is_some()
    }

    /// Takes the snapshot now if there is none (START TRANSACTION WITH CONSISTENT SNAPSHOT).
    pub fn take_snapshot(&self) {
        self.snapshot();
    }

    /// Gives up the snapshot, and keeps the locks: for a first statement that met
    /// [`ErrorKind::WriteConflict`] and starts over (DESIGN, D12).
    pub fn forget_snapshot(&self) {
        self.snapshot.set(None);
    }

    /// The table of this name.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`].
    pub fn table(&self, name: &str) -> Result<Table> {
        self.db
            .state
            .lock()
            .names
            .get(name)
            .copied()
            .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("table {name} does not exist")))
    }

    /// The names of all tables, ascending.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn table_names(&self) -> Result<Vec<String>> {
        Ok(self.db.state.lock().names.keys().cloned().collect())
    }

    /// Creates a table. It is there for this transaction at once, for others from its commit on.
    ///
    /// # Errors
    /// [`ErrorKind::AlreadyExists`], and as [`Transaction::put`].
    pub fn create_table(&self, name: &str, _engine: EngineKind) -> Result<Table> {
        let mut state = self.db.state.lock();
        if state.names.contains_key(name) {
            return Err(Error::new(
                ErrorKind::AlreadyExists,
                format!("table {name} exists already"),
            ));
        }
        state.tables_next += 1;
        let table = Table(state.tables_next);
        state.names.insert(name.to_owned(), table);
        state.spaces.insert(table, Space::new());
        self.undo.borrow_mut().push((Write::Create(name.to_owned(), table), None));
        Ok(table)
    }

    /// Drops a table.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], and as [`Transaction::put`].
    pub fn drop_table(&self, name: &str) -> Result<()> {
        let table = self.table(name)?;
        self.db.state.lock().names.remove(name);
        self.undo.borrow_mut().push((Write::Drop(name.to_owned(), table), None));
        Ok(())
    }

    /// Reads a key into `value`; answers whether it is there.
    ///
    /// # Errors
    /// [`ErrorKind::Corruption`], [`ErrorKind::Io`], [`ErrorKind::NotFound`] for a table that is
    /// gone; under SERIALIZABLE also [`ErrorKind::SerializationFailure`].
    pub fn get(&self, table: Table, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let found = match self.writes.borrow().get(&(table, key.to_vec())) {
            Some(own) => own.clone(),
            None => self.committed(table, key),
        };
        value.clear();
        if let Some(found) = &found {
            value.extend_from_slice(found);
        }
        Ok(found.is_some())
    }

    fn committed(&self, table: Table, key: &[u8]) -> Option<Vec<u8>> {
        let snapshot = self.snapshot();
        let state = self.db.state.lock();
        let versions = state.spaces.get(&table)?.get(key)?;
        versions.iter().rev().find(|(csn, _)| *csn <= snapshot)?.1.clone()
    }

    /// Reads several keys of one table, in the order given.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn multi_get(&self, table: Table, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut value = Vec::new();
        keys.iter()
            .map(|key| Ok(self.get(table, key, &mut value)?.then(|| value.clone())))
            .collect()
    }

    /// Locks a key, whether it has a value or not; `false` when it was skipped.
    ///
    /// # Errors
    /// [`ErrorKind::Deadlock`] (the transaction must be rolled back), [`ErrorKind::LockTimeout`],
    /// [`ErrorKind::LockNotAvailable`], [`ErrorKind::Interrupted`], [`ErrorKind::WriteConflict`] when the
    /// transaction has a snapshot and the row is newer (not under READ COMMITTED).
    pub fn lock(
        &self,
        _table: Table,
        _key: &[u8],
        _mode: LockMode,
        _wait: LockWait,
    ) -> Result<bool> {
        Ok(true)
    }

    /// Locks a key, then reads its newest value; `Locked::Skipped` when it was skipped.
    ///
    /// # Errors
    /// As [`Transaction::lock`] and [`Transaction::get`].
    pub fn get_locked(
        &self,
        table: Table,
        key: &[u8],
        mode: LockMode,
        wait: LockWait,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        Ok(self.lock(table, key, mode, wait)? && self.get(table, key, value)?)
    }

    fn write(&self, table: Table, key: &[u8], value: Option<Vec<u8>>) -> Result<()> {
        if self.options.read_only {
            return Err(Error::new(
                ErrorKind::ReadOnlyTransaction,
                "the transaction was started read-only",
            ));
        }
        let before = self.writes.borrow_mut().insert((table, key.to_vec()), value);
        self.undo.borrow_mut().push((Write::Value(table, key.to_vec()), before));
        Ok(())
    }

    /// Gives `key` a value, after locking it.
    ///
    /// # Errors
    /// As [`Transaction::lock`]; [`ErrorKind::TransactionTooLarge`];
    /// [`ErrorKind::ReadOnlyTransaction`].
    pub fn put(&self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(table, key, Some(value.to_vec()))
    }

    /// Gives `key` a value if it has none, after locking it.
    ///
    /// # Errors
    /// [`ErrorKind::DuplicateKey`], and as [`Transaction::put`].
    pub fn insert(&self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        let mut old = Vec::new();
        if self.get(table, key, &mut old)? {
            return Err(Error::new(ErrorKind::DuplicateKey, "the key is there already"));
        }
        self.put(table, key, value)
    }

    /// Removes `key`, after locking it.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn delete(&self, table: Table, key: &[u8]) -> Result<()> {
        self.write(table, key, None)
    }

    /// A scan over a range at the statement's snapshot, with the transaction's own writes.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn scan(
        &self,
        table: Table,
        range: KeyRange<'_>,
        direction: Direction,
    ) -> Result<Scan<'_>> {
        let snapshot = self.snapshot();
        let mut rows = BTreeMap::new();
        if let Some(space) = self.db.state.lock().spaces.get(&table) {
            for (key, versions) in space.iter().filter(|(key, _)| range.contains(key)) {
                let seen = versions.iter().rev().find(|(csn, _)| *csn <= snapshot);
                if let Some((_, Some(value))) = seen {
                    rows.insert(key.clone(), value.clone());
                }
            }
        }
        let from = Bound::Included((table, range.start.to_vec()));
        for ((at, key), value) in self.writes.borrow().range((from, Bound::Unbounded)) {
            if *at != table || !range.contains(key) {
                break;
            }
            match value {
                Some(value) => rows.insert(key.clone(), value.clone()),
                None => rows.remove(key),
            };
        }
        let mut rows: Vec<_> = rows.into_iter().collect();
        if direction == Direction::Forward {
            rows.reverse();
        }
        Ok(Scan { rows, current: None, _txn: self })
    }

    /// A point to roll back to.
    #[must_use]
    pub fn savepoint(&self) -> Savepoint {
        Savepoint(self.undo.borrow().len())
    }

    /// Undoes every write since the savepoint. Locks are kept, as MySQL does.
    pub fn rollback_to(&self, savepoint: Savepoint) {
        let mut undo = self.undo.borrow_mut();
        while undo.len() > savepoint.0 {
            match undo.pop() {
                Some((Write::Value(table, key), Some(before))) => {
                    self.writes.borrow_mut().insert((table, key), before);
                }
                Some((Write::Value(table, key), None)) => {
                    self.writes.borrow_mut().remove(&(table, key));
                }
                Some((Write::Create(name, table), _)) => {
                    let mut state = self.db.state.lock();
                    state.names.remove(&name);
                    state.spaces.remove(&table);
                }
                Some((Write::Drop(name, table), _)) => {
                    self.db.state.lock().names.insert(name, table);
                }
                None => {}
            }
        }
    }

    /// Whether anything was written.
    #[must_use]
    pub fn has_writes(&self) -> bool {
        !self.undo.borrow().is_empty()
    }

    /// Waits until everything this transaction has read is durable, so that it may be told to a
    /// client (DESIGN, D2). Returns at once unless the transaction read rows that it locked.
    ///
    /// # Errors
    /// [`ErrorKind::WritesStopped`] when the log failed first.
    pub fn wait_until_told(&self) -> Result<()> {
        Ok(())
    }

    /// Cancels the transaction's waits from another thread.
    #[must_use]
    pub fn cancel_handle(&self) -> CancelHandle {
        CancelHandle(())
    }

    /// Commits. The work is queued when this returns; the future resolves once it is acknowledged.
    pub fn commit(self) -> CommitFuture {
        let mut state = self.db.state.lock();
        let csn = state.csn.next();
        let writes = std::mem::take(&mut *self.writes.borrow_mut());
        for ((table, key), value) in writes {
            if let Some(space) = state.spaces.get_mut(&table) {
                space.entry(key).or_default().push((csn, value));
            }
        }
        state.csn = csn;
        drop(state);
        self.undo.borrow_mut().clear();
        CommitFuture(Some(Ok(csn)))
    }

    /// Undoes everything and releases the locks.
    pub fn rollback(self) {}
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.rollback_to(Savepoint(0));
    }
}

/// Cancels the lock waits of a transaction, from any thread.
#[derive(Clone, Debug)]
pub struct CancelHandle(());

impl CancelHandle {
    /// Ends a wait in progress, or the next one, with [`ErrorKind::Interrupted`].
    pub fn cancel(&self) {}
}

/// A commit on its way. It resolves to the commit's CSN once the commit is acknowledged.
#[must_use = "a commit is acknowledged only when its future resolves"]
pub struct CommitFuture(Option<Result<Csn>>);

impl CommitFuture {
    /// Waits for the acknowledgement.
    ///
    /// # Errors
    /// The failure that undid or stopped the commit.
    pub fn wait(mut self) -> Result<Csn> {
        self.0.take().unwrap_or(Ok(Csn::ZERO))
    }
}

impl Future for CommitFuture {
    type Output = Result<Csn>;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        std::task::Poll::Ready(self.0.take().unwrap_or(Ok(Csn::ZERO)))
    }
}

/// A scan in progress. It borrows rows one at a time; as an `Iterator` it gives owned pairs.
pub struct Scan<'t> {
    rows: Vec<(Vec<u8>, Vec<u8>)>,
    current: Option<(Vec<u8>, Vec<u8>)>,
    _txn: &'t Transaction,
}

impl Scan<'_> {
    /// Moves to the next row; `false` past the last.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn advance(&mut self) -> Result<bool> {
        self.current = self.rows.pop();
        Ok(self.current.is_some())
    }

    /// The key of the current row; empty before the first and past the last.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        self.current.as_ref().map_or(&[], |(key, _)| key)
    }

    /// The value of the current row; empty before the first and past the last.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        self.current.as_ref().map_or(&[], |(_, value)| value)
    }
}

impl Iterator for Scan<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.advance() {
            Ok(true) => self.current.clone().map(Ok),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}
