//! A transaction: its snapshot, locks and writes, its commit and its rollback.
//!
//! # Snapshots (decision 012)
//!
//! A transaction that reads before it locks takes the stable CSN as its snapshot. A transaction
//! that locks first takes its snapshot at its first read after that. This snapshot includes the
//! newest version of each row that the transaction has locked by then, whether or not the version's
//! commit is durable. So these rows are never newer than the snapshot. A row that the transaction
//! locks later may be newer. In this case the transaction moves its snapshot forward, if its
//! earlier reads allow it ([`refresh`]).
//!
//! A snapshot that was taken after a lock may be above the stable CSN. So the transaction may have
//! read commits that are not durable. [`Transaction::wait_until_told`] waits until these commits
//! are durable. A transaction that writes need not call it: its own commit has a larger CSN, and is
//! acknowledged only after these commits.
//!
//! The newest version of a locked row is installed, because its writer installed it before it
//! released the lock. So a transaction that changes rows by their keys need not wait until all
//! commits with smaller CSNs are installed. Only the acknowledgement of its own commit waits for
//! them.
//!
//! # Locking reads
//!
//! A locking read reads the newest version. Under REPEATABLE READ and above, a version newer than
//! the snapshot means that another transaction committed first. The read then fails with
//! [`ErrorKind::WriteConflict`], unless the transaction can move its snapshot forward, or acts on
//! the newest versions (NEWEST-1).
//!
//! A check for uniqueness reads the newest state, whatever the snapshot: [`Transaction::insert`]
//! checks one key, and [`Transaction::scan_newest`] reads a range. After such a check, or after a
//! conflict, the transaction may hold the lock of a row that is newer than its snapshot. So when
//! the transaction locks that key again, it compares the row with the snapshot again.

mod buffer;
mod commit;
mod future;
mod lock;
mod lock_memory;
mod newest;
mod range;
mod reads;
mod refresh;
mod scan;
mod spare;
mod spilled;

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use smallvec::SmallVec;
use spillway_base::budget::Charge;
use spillway_base::engine::{Access, Engine, Found};
use spillway_base::{Csn, Direction, Error, ErrorKind, KeyRange, Result, TableId};

use crate::locks::{Acquired, LockOwner, Wait};
use crate::options::{Durability, Isolation, LockMode, LockWait, TransactionOptions};
use crate::pipeline;
use crate::shared::Shared;
use crate::snapshots::{Live, Reader};
use crate::spill::{Savepoint, Spill};
use buffer::WriteBuffer;
pub use future::CommitFuture;
use lock_memory::LockMemory;
pub use range::Met;
use refresh::Reads;
pub use refresh::{ColumnsRead, ReadsMark};
pub use scan::Scan;

/// A transaction charges the budget in steps of this many bytes.
const CHARGE_STEP: usize = 64 << 10;

/// Bytes that a transaction may write without a charge. The charge of its client's connection or
/// thread covers them. Small transactions avoid a charge because it writes to four places in memory
/// that all threads share.
const FREE_BYTES: usize = 4 << 10;
/// The number of keys of a `multi_get` whose memory is prefetched at once. The processor can have
/// about as many cache misses in flight.
const EXPECTED_TOGETHER: usize = 16;

/// A transaction. Dropping it rolls it back.
///
/// Its methods take `&self`, so that a scan can be open while the transaction writes. It may move
/// between threads, but one thread at a time uses it.
pub struct Transaction {
    /// `None` once it has moved to the future of the commit.
    shared: Option<Arc<Shared>>,
    options: TransactionOptions,
    owner: LockOwner,
    /// Registered with the manager's snapshots, and released there.
    snapshot: RefCell<Option<Live>>,
    /// Under READ COMMITTED: whether a statement has begun. The reads of a statement share a
    /// snapshot.
    in_statement: Cell<bool>,
    writes: RefCell<WriteBuffer>,
    /// The writes that are no longer in memory.
    spill: RefCell<Option<Box<Spill>>>,
    /// The savepoints that still exist, ascending, and how often each was requested.
    savepoints: RefCell<SmallVec<[(Savepoint, u32); 2]>>,
    charge: RefCell<Option<Charge>>,
    lock_memory: LockMemory,
    /// The newest commit that a read of this transaction depends on.
    seen: Cell<Csn>,
    /// The largest CSN of the newest versions that were read.
    newest_read: Cell<Csn>,
    /// The reads at the snapshot, if the snapshot may be moved forward.
    reads: RefCell<Reads>,
    /// The number of open scans at the snapshot.
    scans_open: Cell<usize>,
    /// Whether it may hold the lock of a key that has a version newer than its snapshot.
    unchecked: Cell<bool>,
    /// The largest CSN of the newest versions of the locked keys. `None` if not all of them were
    /// read. A snapshot that is taken later must see them.
    locked_at: Cell<Option<Csn>>,
    /// When the running statement's waits for locks end, in addition to their timeout.
    waits_end: Cell<Option<Duration>>,
    /// Whether lookups return instead of waiting for a device.
    leaves_reads: Cell<bool>,
    /// Until when the caller waits for its waker, if a lookup returned instead of waiting for a
    /// device.
    reads_until: Cell<Option<Duration>>,
    ended: Cell<bool>,
}

/// Cancels the lock waits of a transaction from any thread, or those of several consecutive
/// transactions ([`crate::TransactionManager::begin_with`]).
#[derive(Clone, Default)]
pub struct CancelHandle(Arc<Wait>);

impl CancelHandle {
    /// Ends the wait in progress, or the next one, with [`ErrorKind::Interrupted`].
    pub fn cancel(&self) {
        self.0.interrupt();
    }

    /// Withdraws a cancellation that has not ended a wait.
    pub fn clear(&self) {
        self.0.clear_interrupt();
    }

    /// Whether a cancellation is pending.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.is_interrupted()
    }
}

impl Transaction {
    #[inline]
    pub(crate) fn new(
        shared: Arc<Shared>,
        options: TransactionOptions,
        wait: Option<Arc<Wait>>,
    ) -> Transaction {
        let id = next_id();
        Transaction {
            shared: Some(shared),
            options,
            owner: match wait {
                Some(wait) => LockOwner::waiting_by(id, wait),
                None => LockOwner::new(id),
            },
            snapshot: RefCell::new(None),
            in_statement: Cell::new(false),
            writes: RefCell::default(),
            spill: RefCell::new(None),
            savepoints: RefCell::default(),
            charge: RefCell::new(None),
            lock_memory: LockMemory::new(),
            seen: Cell::new(Csn::ZERO),
            newest_read: Cell::new(Csn::ZERO),
            reads: RefCell::default(),
            scans_open: Cell::new(0),
            unchecked: Cell::new(false),
            locked_at: Cell::new(Some(Csn::ZERO)),
            waits_end: Cell::new(None),
            leaves_reads: Cell::new(false),
            reads_until: Cell::new(None),
            ended: Cell::new(false),
        }
    }

    fn shared(&self) -> &Shared {
        self.shared.as_deref().expect("a transaction that has not ended has its manager")
    }

    /// The options that it was started with.
    #[must_use]
    pub fn options(&self) -> TransactionOptions {
        self.options
    }

    /// Its number, which no other transaction of this process has
    /// ([`crate::TransactionManager::readers`]).
    #[must_use]
    pub fn id(&self) -> u64 {
        self.owner.id()
    }

    fn reader(&self) -> Reader {
        Reader::now(self.owner.id())
    }

    /// The CSN at which it reads, if it has read.
    #[must_use]
    pub fn snapshot_csn(&self) -> Option<Csn> {
        self.snapshot.borrow().as_ref().map(Live::csn)
    }

    fn durability(&self) -> Durability {
        self.options.durability.unwrap_or(self.shared().settings.durability)
    }

    fn serializable(&self) -> bool {
        self.options.isolation == Isolation::Serializable
    }

    fn engine(&self, table: TableId) -> Result<&Arc<dyn Engine>> {
        self.shared().engines.of(table)
    }

    /// Begins a statement. Under READ COMMITTED the statement's reads share one new snapshot. A
    /// caller that never begins statements gets a new snapshot for each read.
    pub fn begin_statement(&self) {
        self.reads.borrow_mut().begin_statement();
        if self.options.isolation == Isolation::ReadCommitted {
            self.in_statement.set(true);
            self.hold(None);
        }
    }

    /// Whether the transaction has a snapshot that later statements will share.
    #[must_use]
    pub fn snapshot_taken(&self) -> bool {
        self.options.isolation != Isolation::ReadCommitted && self.snapshot.borrow().is_some()
    }

    /// Takes the snapshot now if there is none (START TRANSACTION WITH CONSISTENT SNAPSHOT).
    pub fn take_snapshot(&self) {
        self.snapshot();
    }

    /// Replaces the snapshot by one that includes every commit that has released its locks, durable
    /// or not. Waits until these commits, and all with smaller CSNs, are installed. This is for
    /// callers that keep writers out by other means than row locks, and must see all that the
    /// writers have committed before. Under READ COMMITTED the next read takes another snapshot.
    pub fn take_newest_snapshot(&self) {
        self.forget_snapshot();
        if self.serializable() {
            self.shared().serializable.enter(self.owner.id());
        }
        let newest = self.shared().snapshots.register(self.reader(), || self.shared().newest());
        self.hold(Some(newest));
    }

    /// Releases the snapshot and keeps the locks. This is for a first statement that met
    /// [`ErrorKind::WriteConflict`] and starts over.
    pub fn forget_snapshot(&self) {
        if self.serializable() && !self.has_writes() {
            // No client has seen the reads at this snapshot, so they need not be serializable.
            self.shared().serializable.aborted(self.owner.id());
        }
        self.hold(None);
        self.reads.borrow_mut().clear();
        // The next snapshot is taken with the locks held, and is as new as any of their rows.
        self.unchecked.set(false);
        self.locked_at.set(None);
    }

    /// Replaces the snapshot, and releases the old one.
    fn hold(&self, snapshot: Option<Live>) {
        if let Some(old) = self.snapshot.replace(snapshot) {
            self.shared().snapshots.release(old);
        }
    }

    /// The CSN at which reads happen now.
    fn snapshot(&self) -> Csn {
        let mut held = self.snapshot.borrow_mut();
        let each_read =
            self.options.isolation == Isolation::ReadCommitted && !self.in_statement.get();
        if let (Some(snapshot), false) = (&*held, each_read) {
            return snapshot.csn();
        }
        if held.is_none() && self.serializable() {
            self.shared().serializable.enter(self.owner.id());
        }
        let snapshots = &self.shared().snapshots;
        let holds = self.owner.holds_any();
        if !holds && self.durability() == Durability::Commit {
            return snapshots.follow(&mut held, self.reader(), || snapshots.stable_csn());
        }
        snapshots.follow(&mut held, self.reader(), || match self.locked_at.get() {
            None if holds => self.shared().newest(),
            locked_at => {
                snapshots.installed.wait(locked_at.unwrap_or_default());
                snapshots.installed.prefix()
            }
        })
    }

    /// Notes that a read depends on a commit. A client may not see the result before that commit is
    /// durable (decision 002).
    fn note_seen(&self, csn: Csn) {
        if self.durability() == Durability::Commit {
            self.seen.set(self.seen.get().max(csn));
        }
    }

    /// Reads a key into `value`; returns whether it exists.
    ///
    /// # Errors
    /// [`ErrorKind::Corruption`], [`ErrorKind::Io`], [`ErrorKind::NotFound`] for a table that no
    /// longer exists; under SERIALIZABLE also [`ErrorKind::SerializationFailure`]; after
    /// [`Transaction::leave_reads`] also [`ErrorKind::WouldBlock`] and [`ErrorKind::Interrupted`].
    pub fn get(&self, table: TableId, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.get_with(table, key, Access::Blocking, value)
    }

    /// As [`Transaction::get`], from memory only if `access` says so (decision 011).
    ///
    /// # Errors
    /// As [`Transaction::get`], and [`ErrorKind::WouldBlock`].
    pub fn get_with(
        &self,
        table: TableId,
        key: &[u8],
        access: Access,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        value.clear();
        if let Some(there) = self.own(table, key, value)? {
            return Ok(there);
        }
        if self.writes.borrow().created(table) {
            return Ok(false);
        }
        let snapshot = self.snapshot();
        if self.serializable() {
            self.shared().serializable.read(self.owner.id(), snapshot, table, key)?;
        }
        self.note_read(table, key);
        let found = match access {
            Access::Blocking => self.look_up(table, key, Some(snapshot), value)?,
            _ => self.look_up_from(table, key, Some(snapshot), access, value)?,
        };
        self.note_seen(found.csn().unwrap_or(Csn::ZERO));
        Ok(self.is_there(table, key, found, value))
    }

    /// Whether a lookup found a value that no range deletion of this transaction hides.
    fn is_there(&self, table: TableId, key: &[u8], found: Found, value: &mut Vec<u8>) -> bool {
        let Found::Value(csn) = found else { return false };
        if self.writes.borrow().hides(table, key, csn) {
            value.clear();
            return false;
        }
        true
    }

    /// Reads the newest version of a key that this transaction has locked. If the read fails or
    /// would block, the CSN of that version is unknown. Then a snapshot, taken already or later,
    /// may not include it.
    fn get_newest(&self, table: TableId, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        let found = self.look_up(table, key, None, value).inspect_err(|_| {
            self.unchecked.set(true);
            self.locked_at.set(None);
        })?;
        let csn = found.csn().unwrap_or(Csn::ZERO);
        self.note_newest(csn);
        self.locked_at.set(self.locked_at.get().map(|newest| newest.max(csn)));
        Ok(self.is_there(table, key, found, value))
    }

    /// Reads several keys of one table, in the order given. Keys that are not in memory are read
    /// from the device together.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn multi_get(&self, table: TableId, keys: &[&[u8]]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut value = Vec::new();
        let mut values = Vec::with_capacity(keys.len());
        let mut left = Vec::new();
        for (at, key) in keys.iter().enumerate() {
            if at.is_multiple_of(EXPECTED_TOGETHER) {
                let expected = &keys[at..keys.len().min(at + EXPECTED_TOGETHER)];
                self.engine(table)?.expect(expected);
            }
            match self.get_with(table, key, Access::MemoryOnly, &mut value) {
                Ok(found) => values.push(found.then(|| value.clone())),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    values.push(None);
                    left.push(at);
                }
                Err(error) => return Err(error),
            }
        }
        let lacking: Vec<&[u8]> = left.iter().map(|at| keys[*at]).collect();
        let mut ahead = match lacking.len() {
            0 | 1 => None,
            _ => self.engine(table)?.gets_ahead(table, &lacking, self.snapshot()),
        };
        for (place, at) in left.into_iter().enumerate() {
            if let Some(ahead) = &mut ahead {
                ahead.wait_for(place);
            }
            let found = self.get(table, keys[at], &mut value)?;
            values[at] = found.then(|| value.clone());
        }
        Ok(values)
    }

    fn check_writable(&self) -> Result<()> {
        if self.options.read_only {
            return Err(Error::new(
                ErrorKind::ReadOnlyTransaction,
                "the transaction was started read-only",
            ));
        }
        Ok(())
    }

    /// Gives `key` a value, after locking it.
    ///
    /// # Errors
    /// As [`Transaction::lock`]; [`ErrorKind::TransactionTooLarge`];
    /// [`ErrorKind::ReadOnlyTransaction`].
    pub fn put(&self, table: TableId, key: &[u8], value: &[u8]) -> Result<()> {
        self.write(table, key, Some(value))
    }

    /// Removes `key`, after locking it.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn delete(&self, table: TableId, key: &[u8]) -> Result<()> {
        self.write(table, key, None)
    }

    /// Locks `key`, then sets it to a value or removes it, without comparing it with the snapshot.
    /// This is for a key that depends on another key, as an index entry depends on its row. The
    /// caller has locked the other key, and that lock has compared the other key with the snapshot.
    ///
    /// # Errors
    /// As [`Transaction::put`], without [`ErrorKind::WriteConflict`].
    pub fn put_following(&self, table: TableId, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.check_writable()?;
        if self.acquire(table, key, LockMode::Exclusive, LockWait::Wait)? == Acquired::New {
            self.locked_at.set(None);
        }
        self.buffer(table, key, value)
    }

    /// Sets `key` to a value, or removes it, without locking it. This is for a key that depends on
    /// another key, `guard`, which this transaction has locked exclusively. No transaction may
    /// write or lock `key` without an exclusive lock on `guard`.
    ///
    /// # Errors
    /// As [`Transaction::put`], without those of [`Transaction::lock`].
    pub fn put_guarded(
        &self,
        table: TableId,
        key: &[u8],
        value: Option<&[u8]>,
        guard: (TableId, &[u8]),
    ) -> Result<()> {
        self.check_writable()?;
        debug_assert!(self.holds_alone(guard.0, guard.1), "the guard is locked");
        self.buffer(table, key, value)
    }

    /// Whether reads see a commit. It may take the snapshot if there is none.
    pub fn sees(&self, csn: Csn) -> bool {
        // If the transaction acts on the newest versions, only plain reads take its snapshot
        // (NEWEST-4). A snapshot that is taken later is not below the stable CSN, so it sees this
        // commit.
        let later = self.acts_on_newest() && self.snapshot.borrow().is_none();
        (later && csn <= self.shared().snapshots.stable_csn()) || csn <= self.snapshot()
    }

    fn write(&self, table: TableId, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.check_writable()?;
        self.lock(table, key, LockMode::Exclusive, LockWait::Wait)?;
        self.buffer(table, key, value)
    }

    fn buffer(&self, table: TableId, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        if self.serializable() {
            let snapshot = self.snapshot();
            self.shared().serializable.write(self.owner.id(), snapshot, table, key)?;
        }
        self.make_room(key.len() + value.map_or(0, <[u8]>::len))?;
        self.writes.borrow_mut().put(table, key, value);
        Ok(())
    }

    /// Makes room in memory for a write of this many bytes: charges it, and spills the buffered
    /// writes if they exceed the transaction's share.
    fn make_room(&self, more: usize) -> Result<()> {
        let need = || self.writes.borrow().bytes() + WriteBuffer::ENTRY_BYTES + more;
        if more > pipeline::BATCH_BYTES_MAX {
            let most = pipeline::BATCH_BYTES_MAX;
            let text =
                format!("a row of {more} bytes is larger than a commit holds ({most} bytes)");
            return Err(Error::new(ErrorKind::TransactionTooLarge, text));
        }
        let limit = self.shared().settings.transaction_bytes_max;
        if need() > limit && self.writes.borrow().bytes() > 0 {
            self.spill_writes()?;
        }
        if need() <= FREE_BYTES {
            return Ok(());
        }
        match self.charge_up_to(need()) {
            Err(full) if full.kind() == ErrorKind::MemoryFull => {
                if self.writes.borrow().bytes() == 0 {
                    return Err(full);
                }
                self.spill_writes()?;
                self.charge_up_to(need())
            }
            charged => charged,
        }
    }

    /// Charges the memory of the buffered writes, in steps.
    fn charge_up_to(&self, need: usize) -> Result<()> {
        let have = self.charge.borrow().as_ref().map_or(0, Charge::bytes);
        if need <= have {
            return Ok(());
        }
        let want = need.next_multiple_of(CHARGE_STEP);
        let more = self.shared().charge_transaction(want - have)?;
        match &mut *self.charge.borrow_mut() {
            charge @ None => *charge = Some(more),
            Some(charge) => {
                drop(more);
                charge.resize(want);
            }
        }
        Ok(())
    }

    /// Sets `key` to a value if it has none, after locking it. Under SERIALIZABLE the check for an
    /// existing value counts as a read.
    ///
    /// # Errors
    /// [`ErrorKind::DuplicateKey`], and as [`Transaction::put`]; under SERIALIZABLE also as
    /// [`Transaction::get`].
    pub fn insert(&self, table: TableId, key: &[u8], value: &[u8]) -> Result<()> {
        self.check_writable()?;
        self.acquire(table, key, LockMode::Exclusive, LockWait::Wait)?;
        let mut old = Vec::new();
        // A row that exists now is a duplicate, even if it is newer than the snapshot.
        let there = match self.own(table, key, &mut old)? {
            Some(there) => there,
            None if self.writes.borrow().created(table) => false,
            None => {
                let there = self.get_newest(table, key, &mut old)?;
                self.note_told(table, key)?;
                there
            }
        };
        if there {
            self.unchecked.set(true);
            return Err(Error::new(ErrorKind::DuplicateKey, "the key is there already"));
        }
        self.check_newest(table, key)?;
        self.buffer(table, key, Some(value))
    }

    /// Under SERIALIZABLE: notes as a read that the client learns whether a key exists, from the
    /// key's newest version (SSI-1).
    fn note_told(&self, table: TableId, key: &[u8]) -> Result<()> {
        if !self.serializable() {
            return Ok(());
        }
        // The read is noted at the snapshot, so the snapshot must see the newest version.
        self.check_newest(table, key)?;
        let snapshot = self.snapshot();
        self.shared().serializable.read(self.owner.id(), snapshot, table, key)
    }

    /// Opens a scan over a range at the statement's snapshot, with the transaction's own writes.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn scan(
        &self,
        table: TableId,
        range: KeyRange<'_>,
        direction: Direction,
    ) -> Result<Scan<'_>> {
        if self.writes.borrow().created(table) {
            return Ok(Scan::new(self, table, range, direction, None));
        }
        let snapshot = self.snapshot();
        // The contents of a range may depend on any commit up to the snapshot.
        self.note_seen(snapshot);
        if self.serializable() {
            self.shared().serializable.check(self.owner.id(), snapshot)?;
        }
        let cursor = self.cursor(table, range, direction, snapshot)?;
        let scan = Scan::new(self, table, range, direction, Some(cursor));
        let noted = self.serializable() || self.remembers_reads();
        Ok(if noted { scan.noting(snapshot) } else { scan })
    }

    /// Opens a scan over a range in the newest committed state, whatever the snapshot, with the
    /// transaction's own writes. It sees every commit that released a lock which this transaction
    /// now holds. Rows that no lock protects may have changed by the time they are read.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn scan_newest(
        &self,
        table: TableId,
        range: KeyRange<'_>,
        direction: Direction,
    ) -> Result<Scan<'_>> {
        if self.writes.borrow().created(table) {
            return Ok(Scan::new(self, table, range, direction, None));
        }
        let newest = self.shared().snapshots.take(|| self.shared().newest());
        self.note_seen(newest.csn());
        let cursor = self.cursor(table, range, direction, newest.csn())?;
        Ok(Scan::new(self, table, range, direction, Some(cursor)).holding(newest))
    }

    /// Creates a table, visible to this transaction at once and to others from its commit on. The
    /// caller chooses a number that was never used.
    ///
    /// # Errors
    /// [`ErrorKind::ReadOnlyTransaction`].
    pub fn create_table(&self, table: TableId) -> Result<()> {
        self.check_writable()?;
        self.writes.borrow_mut().create(table);
        Ok(())
    }

    /// Drops a table with all its rows, at the commit.
    ///
    /// # Errors
    /// [`ErrorKind::ReadOnlyTransaction`].
    pub fn drop_table(&self, table: TableId) -> Result<()> {
        self.check_writable()?;
        self.writes.borrow_mut().drop_table(table);
        Ok(())
    }

    /// The bytes written.
    #[cfg(test)]
    pub(crate) fn written_bytes(&self) -> usize {
        self.writes.borrow().bytes()
    }

    /// The number of ranges deleted as one operation.
    #[cfg(test)]
    pub(crate) fn ranges(&self) -> usize {
        self.writes.borrow().ranges()
    }

    /// Whether anything was written.
    #[must_use]
    pub fn has_writes(&self) -> bool {
        !self.writes.borrow().is_empty() || self.has_spilled()
    }

    /// Waits until every commit that this transaction has read is durable, so that a client may see
    /// the results (decision 002). Returns at once unless the transaction read rows that it locked.
    ///
    /// # Errors
    /// [`ErrorKind::WritesStopped`] when the log failed first.
    pub fn wait_until_told(&self) -> Result<()> {
        if self.seen.get() <= self.shared().snapshots.stable_csn() {
            return Ok(());
        }
        self.shared().wait(self.seen.get())
    }

    /// Waits until every commit that later reads may depend on is durable, so that a client may see
    /// the results of these reads at once (decision 002). Returns at once unless the transaction
    /// holds a lock: only then can it see commits that are not durable.
    ///
    /// # Errors
    /// [`ErrorKind::WritesStopped`] when the log failed first.
    pub fn wait_until_readable(&self) -> Result<()> {
        if self.is_readable() {
            return Ok(());
        }
        self.shared().wait(self.snapshot())
    }

    /// Whether [`Transaction::wait_until_readable`] returns at once.
    #[must_use]
    pub fn is_readable(&self) -> bool {
        self.durability() != Durability::Commit
            || (self.snapshot.borrow().is_none() && !self.owner.holds_any())
            || self.snapshot() <= self.shared().snapshots.stable_csn()
    }

    /// Whether a cancellation is pending, as [`CancelHandle::is_cancelled`].
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.owner.is_interrupted()
    }

    /// Returns a handle that cancels the transaction's waits from another thread.
    #[must_use]
    pub fn cancel_handle(&self) -> CancelHandle {
        CancelHandle(self.owner.wait().clone())
    }

    /// Undoes all writes and releases the locks.
    pub fn rollback(self) {}

    /// Ends the transaction without a commit, unless it has ended.
    fn end_undone(&self) {
        if !self.ended.get() && self.serializable() {
            self.shared().serializable.aborted(self.owner.id());
        }
        self.end();
    }

    fn end(&self) {
        if !self.ended.replace(true) {
            if let Some(spill) = self.spill.take() {
                spill.discard(self.shared());
            }
            self.hold(None);
            self.shared().locks.release_all(&self.owner);
            self.lock_memory.emptied();
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        self.end_undone();
    }
}

/// A number that no other transaction of this process has. A thread takes a block of numbers at a
/// time, so that threads rarely contend.
fn next_id() -> u64 {
    const BLOCK: u64 = 1024;
    static BLOCKS: AtomicU64 = AtomicU64::new(1);
    thread_local!(static NEXT: Cell<u64> = const { Cell::new(0) });
    let block = || BLOCKS.fetch_add(1, Ordering::Relaxed) * BLOCK;
    NEXT.try_with(|next| {
        let id = if next.get() % BLOCK == 0 { block() } else { next.get() };
        next.set(id + 1);
        id
    })
    .unwrap_or_else(|_| block())
}

/// The lock wait time when neither the transaction nor the database sets one.
pub const LOCK_WAIT: Duration = Duration::from_secs(50);

#[cfg(all(test, not(loom)))]
mod tests;
