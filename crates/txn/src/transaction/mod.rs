//! A transaction: its snapshot, its locks, its writes, and their end.
//!
//! # Snapshots (DESIGN, D12)
//!
//! A transaction that reads first takes the stable CSN as its snapshot. One that locks first takes
//! its snapshot after the lock, and no older than the rows it has locked: what the lock's last
//! holder wrote is in it, so the first statement of a transaction never finds that its snapshot is
//! older than a row it has just locked. Such a snapshot may be above the stable CSN;
//! [`Transaction::wait_until_told`] waits until what it showed is durable, and the transaction's
//! own commit, whose CSN is larger, waits by itself.
//!
//! The newest version of a row that is locked is installed, since its last writer installed before
//! it gave the lock back. So a change of rows by their keys waits for no other row's install,
//! unless that came before its own.
//!
//! # Locking reads
//!
//! A locking read is of the newest version. Under REPEATABLE READ and above, a row with a version
//! after the snapshot was committed by another first, and is refused with
//! [`ErrorKind::WriteConflict`].
//!
//! What must be unique is looked up in the newest state, whatever the snapshot:
//! [`Transaction::insert`] does so for one key, [`Transaction::scan_newest`] for a range. A lock
//! that such a look-up, or a refusal, has left behind says nothing of the snapshot, so its key is
//! compared with the snapshot again when it is locked again.

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
use crate::manager::Shared;
use crate::options::{Durability, Isolation, LockMode, LockWait, TransactionOptions};
use crate::pipeline;
use crate::snapshots::Live;
use crate::spill::Spill;
use buffer::WriteBuffer;
pub use future::CommitFuture;
pub(crate) use future::{RELAXED, SOON};
use lock_memory::LockMemory;
pub use range::Met;
use refresh::Reads;
pub use refresh::{ColumnsRead, ReadsMark};
pub use scan::Scan;

/// The budget is asked for room in steps of this many bytes.
const CHARGE_STEP: usize = 64 << 10;

/// What a transaction may write and not be charged for: its share of what its client's connection
/// or thread takes. Charging is four visits to memory that all threads write to.
const FREE_BYTES: usize = 4 << 10;
/// Keys of a multi_get whose memory the processor is asked for at once: it waits for about as many
/// lines at a time.
const EXPECTED_TOGETHER: usize = 16;

/// A transaction. Dropping it rolls it back.
///
/// Its methods take `&self`, so that a scan can be open while the transaction writes. It may move
/// between threads and is used by one at a time.
pub struct Transaction {
    /// Handed on to the future of the commit.
    shared: Option<Arc<Shared>>,
    options: TransactionOptions,
    owner: LockOwner,
    /// Registered with the manager's snapshots, and released there.
    snapshot: RefCell<Option<Live>>,
    /// Under READ COMMITTED: whether a statement was begun, whose reads share a snapshot.
    in_statement: Cell<bool>,
    writes: RefCell<WriteBuffer>,
    /// What of the writes is no longer in memory.
    spill: RefCell<Option<Box<Spill>>>,
    /// The savepoints that are still there, ascending, and how often each was asked for.
    savepoints: RefCell<SmallVec<[(Savepoint, u32); 2]>>,
    charge: RefCell<Option<Charge>>,
    lock_memory: LockMemory,
    /// The newest commit that a read of this transaction rests on.
    seen: Cell<Csn>,
    /// The newest commit of the rows whose newest versions were read.
    newest_read: Cell<Csn>,
    /// What was read at the snapshot, where it may be moved forward.
    reads: RefCell<Reads>,
    /// Scans at the snapshot that are open.
    scans_open: Cell<usize>,
    /// Whether a lock may be held on a key that is newer than the snapshot.
    unchecked: Cell<bool>,
    /// The newest version of the keys that are locked, where each was looked at; a snapshot to come
    /// must see it.
    locked_at: Cell<Option<Csn>>,
    /// Whether look-ups are left where they would wait for a device.
    leaves_reads: Cell<bool>,
    /// Until when whoever left one waits to be called.
    reads_until: Cell<Option<Duration>>,
    ended: Cell<bool>,
}

/// A point in a transaction to roll back to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Savepoint {
    /// How often the buffer was emptied before it (`spill`), and the writes in it.
    pub(crate) round: u32,
    pub(crate) writes: usize,
}

/// Cancels the lock waits of a transaction, from any thread; or those of several, one after another
/// ([`crate::TransactionManager::begin_with`]).
#[derive(Clone, Default)]
pub struct CancelHandle(Arc<Wait>);

impl CancelHandle {
    /// Ends a wait in progress, or the next one, with [`ErrorKind::Interrupted`].
    pub fn cancel(&self) {
        self.0.interrupt();
    }

    /// Takes back a cancellation that has not ended a wait.
    pub fn clear(&self) {
        self.0.clear_interrupt();
    }

    /// Whether a cancellation waits for something to end.
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
            leaves_reads: Cell::new(false),
            reads_until: Cell::new(None),
            ended: Cell::new(false),
        }
    }

    fn shared(&self) -> &Shared {
        self.shared.as_deref().expect("a transaction that has not ended has its manager")
    }

    /// The options it was started with.
    #[must_use]
    pub fn options(&self) -> TransactionOptions {
        self.options
    }

    /// The commit as of which it reads, where it has read.
    #[cfg(spillway_sim)]
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

    /// Begins a statement: under READ COMMITTED the statement's reads share one new snapshot. A
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

    /// Takes a snapshot now, in place of one that there is, that has every commit which has given
    /// its locks back, durable or not. It waits until those before are installed. For who keeps
    /// writers out by other means than row locks, and must see what they left. Under READ COMMITTED
    /// the next read has another.
    pub fn take_newest_snapshot(&self) {
        self.forget_snapshot();
        if self.serializable() {
            self.shared().serializable.enter(self.owner.id());
        }
        let newest = self.shared().snapshots.register(|| self.shared().newest());
        self.hold(Some(newest));
    }

    /// Gives up the snapshot, and keeps the locks: for a first statement that met
    /// [`ErrorKind::WriteConflict`] and starts over.
    pub fn forget_snapshot(&self) {
        if self.serializable() && !self.has_writes() {
            // What was read at it, and told to nobody, stands in no history.
            self.shared().serializable.aborted(self.owner.id());
        }
        self.hold(None);
        self.reads.borrow_mut().clear();
        // The next one is taken with the locks held, and is as new as any of their rows.
        self.unchecked.set(false);
        self.locked_at.set(None);
    }

    /// Puts a snapshot in the place of the one there is, which is let go of.
    fn hold(&self, snapshot: Option<Live>) {
        if let Some(old) = self.snapshot.replace(snapshot) {
            self.shared().snapshots.release(old);
        }
    }

    /// The CSN that reads now are at.
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
            return snapshots.follow(&mut held, || snapshots.stable_csn());
        }
        snapshots.follow(&mut held, || match self.locked_at.get() {
            None if holds => self.shared().newest(),
            locked_at => {
                snapshots.installed.wait(locked_at.unwrap_or_default());
                snapshots.installed.prefix()
            }
        })
    }

    /// Notes that a read rests on a commit, which a client may not be told of before it is durable
    /// (DESIGN, D2).
    fn note_seen(&self, csn: Csn) {
        if self.durability() == Durability::Commit {
            self.seen.set(self.seen.get().max(csn));
        }
    }

    /// Reads a key into `value`; answers whether it is there.
    ///
    /// # Errors
    /// [`ErrorKind::Corruption`], [`ErrorKind::Io`], [`ErrorKind::NotFound`] for a table that is
    /// gone; under SERIALIZABLE also [`ErrorKind::SerializationFailure`]; where reads are left
    /// ([`Transaction::leave_reads`]) [`ErrorKind::WouldBlock`] and [`ErrorKind::Interrupted`].
    pub fn get(&self, table: TableId, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.get_with(table, key, Access::Blocking, value)
    }

    /// As [`Transaction::get`], from memory only if `access` says so (DESIGN, D11).
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

    /// Whether what was found of a key is a value, and not one that this transaction has deleted
    /// with its range.
    fn is_there(&self, table: TableId, key: &[u8], found: Found, value: &mut Vec<u8>) -> bool {
        let Found::Value(csn) = found else { return false };
        if self.writes.borrow().hides(table, key, csn) {
            value.clear();
            return false;
        }
        true
    }

    /// Reads the newest version of a key that this transaction has locked. Where that fails, or is
    /// left, the lock says nothing of the snapshot, be it there or to come.
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

    /// Reads several keys of one table, in the order given. Those that are not in memory are read
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

    /// Gives `key` a value, or removes it, where this transaction has locked it exclusively and
    /// compared it with its snapshot, as
    /// [`Transaction::get_to_change`] does.
    ///
    /// # Errors
    /// As [`Transaction::put`], without those of [`Transaction::lock`].
    pub fn put_locked(&self, table: TableId, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        self.check_writable()?;
        debug_assert!(self.holds_alone(table, key), "the key is locked");
        self.buffer(table, key, value)
    }

    /// Gives `key` a value, or removes it, after locking it, and does not compare it with the
    /// snapshot. For a key that follows from another, such as an index's entry from its row:
    /// whoever changes it has that other locked, and has compared that.
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

    /// Gives `key` a value, or removes it, without a lock of it. For a key that follows from
    /// another, `guard`, which this transaction has locked exclusively, where nobody ever writes or
    /// locks it who does not have that other so.
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
        // Only plain reads take the snapshot of one that acts on the newest versions (NEWEST-4),
        // and none is older than this.
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

    /// Makes room in memory for a write of so many bytes: charges it, and spills what is there
    /// where that is more than the transaction's share.
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

    /// Charges what the transaction keeps in memory, in steps.
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

    /// Gives `key` a value if it has none, after locking it. Under SERIALIZABLE whether it had one
    /// is a read.
    ///
    /// # Errors
    /// [`ErrorKind::DuplicateKey`], and as [`Transaction::put`]; under SERIALIZABLE also as
    /// [`Transaction::get`].
    pub fn insert(&self, table: TableId, key: &[u8], value: &[u8]) -> Result<()> {
        self.check_writable()?;
        self.acquire(table, key, LockMode::Exclusive, LockWait::Wait)?;
        let mut old = Vec::new();
        // A row that is there now is a duplicate, also when it came after the snapshot.
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

    /// Under SERIALIZABLE: notes that the client learns whether a key is there, which the newest
    /// version has told (SSI-1).
    fn note_told(&self, table: TableId, key: &[u8]) -> Result<()> {
        if !self.serializable() {
            return Ok(());
        }
        // The snapshot must agree.
        self.check_newest(table, key)?;
        let snapshot = self.snapshot();
        self.shared().serializable.read(self.owner.id(), snapshot, table, key)
    }

    /// A scan over a range at the statement's snapshot, with the transaction's own writes.
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
        // What a range has and has not may rest on any commit.
        self.note_seen(snapshot);
        if self.serializable() {
            self.shared().serializable.check(self.owner.id(), snapshot)?;
        }
        let cursor = self.cursor(table, range, direction, snapshot)?;
        let scan = Scan::new(self, table, range, direction, Some(cursor));
        let noted = self.serializable() || self.remembers_reads();
        Ok(if noted { scan.noting(snapshot) } else { scan })
    }

    /// A scan over a range in the newest committed state, whatever the snapshot, with the
    /// transaction's own writes. It sees every commit that gave back a lock which this transaction
    /// holds now; what no lock guards may be older by the time it is read.
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

    /// Creates a table, for this transaction at once and for others from its commit on. The caller
    /// chooses a number that was never used.
    ///
    /// # Errors
    /// [`ErrorKind::ReadOnlyTransaction`].
    pub fn create_table(&self, table: TableId) -> Result<()> {
        self.check_writable()?;
        self.writes.borrow_mut().create(table);
        Ok(())
    }

    /// Drops a table, with all it holds, at the commit.
    ///
    /// # Errors
    /// [`ErrorKind::ReadOnlyTransaction`].
    pub fn drop_table(&self, table: TableId) -> Result<()> {
        self.check_writable()?;
        self.writes.borrow_mut().drop_table(table);
        Ok(())
    }

    /// Bytes of what was written.
    #[cfg(test)]
    pub(crate) fn written_bytes(&self) -> usize {
        self.writes.borrow().bytes()
    }

    /// How many ranges were deleted at once.
    #[cfg(test)]
    pub(crate) fn ranges(&self) -> usize {
        self.writes.borrow().ranges()
    }

    /// Whether anything was written.
    #[must_use]
    pub fn has_writes(&self) -> bool {
        !self.writes.borrow().is_empty() || self.has_spilled()
    }

    /// Waits until everything this transaction has read is durable, so that it may be told to a
    /// client (DESIGN, D2). Returns at once unless the transaction read rows that it locked.
    ///
    /// # Errors
    /// [`ErrorKind::WritesStopped`] when the log failed first.
    pub fn wait_until_told(&self) -> Result<()> {
        if self.seen.get() <= self.shared().snapshots.stable_csn() {
            return Ok(());
        }
        self.shared().wait(self.seen.get())
    }

    /// Waits until what reads will show from now on is durable, so that they may be told at once
    /// (DESIGN, D2). Returns at once unless the transaction has locked something: only then does it
    /// see commits that are not.
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

    /// Whether a cancellation waits for something to end, as [`CancelHandle::is_cancelled`].
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.owner.is_interrupted()
    }

    /// Cancels the transaction's waits from another thread.
    #[must_use]
    pub fn cancel_handle(&self) -> CancelHandle {
        CancelHandle(self.owner.wait().clone())
    }

    /// Undoes everything and releases the locks.
    pub fn rollback(self) {}

    /// Ends it without a commit, unless it has ended.
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

/// A number that no other transaction of this process has. Threads take them by the block, so that
/// they seldom meet.
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

/// The default of a lock wait, when neither the transaction nor the database says otherwise.
pub const LOCK_WAIT: Duration = Duration::from_secs(50);

#[cfg(all(test, not(loom)))]
mod tests;
