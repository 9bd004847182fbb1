//! Locks of rows and names, and reads of locked rows.

use std::time::Duration;

use spillway_base::{Error, ErrorKind, Result, TableId, clock};

use super::Transaction;
use crate::locks::Acquired;
use crate::options::{LockMode, LockWait};
use crate::snapshots::Live;

impl Transaction {
    /// Locks a key, whether it has a value or not; `false` if it was skipped.
    ///
    /// # Errors
    /// [`ErrorKind::Deadlock`] (the transaction must be rolled back), [`ErrorKind::LockTimeout`],
    /// [`ErrorKind::LockNotAvailable`], [`ErrorKind::Interrupted`], [`ErrorKind::LockTableFull`],
    /// [`ErrorKind::WouldBlock`] if waits do not block ([`Transaction::leave_waits`]),
    /// [`ErrorKind::WriteConflict`] if the transaction has a snapshot and the row is newer (not if
    /// it acts on the newest versions: NEWEST-1). After a conflict the transaction holds the lock.
    pub fn lock(&self, table: TableId, key: &[u8], mode: LockMode, wait: LockWait) -> Result<bool> {
        let acquired = self.acquire_checked(table, key, mode, wait)?;
        if acquired == Acquired::New {
            self.locked_at.set(None);
        }
        Ok(acquired != Acquired::Skipped)
    }

    /// Locks a key, and compares it with the snapshot if there is one.
    pub(super) fn acquire_checked(
        &self,
        table: TableId,
        key: &[u8],
        mode: LockMode,
        wait: LockWait,
    ) -> Result<Acquired> {
        let acquired = self.acquire(table, key, mode, wait)?;
        let checked = acquired == Acquired::Held && !self.unchecked.get();
        if !checked && acquired != Acquired::Skipped {
            self.check_newest(table, key)?;
        }
        Ok(acquired)
    }

    /// Locks a key that never has a value. Such a key stands for something that one transaction may
    /// use at a time, such as all keys with this prefix. Returns `false` if the key was skipped.
    ///
    /// # Errors
    /// As [`Transaction::lock`], without [`ErrorKind::WriteConflict`].
    pub fn lock_name(
        &self,
        table: TableId,
        name: &[u8],
        mode: LockMode,
        wait: LockWait,
    ) -> Result<bool> {
        Ok(self.acquire(table, name, mode, wait)? != Acquired::Skipped)
    }

    /// Whether the transaction holds a key exclusively.
    pub(super) fn holds_alone(&self, table: TableId, key: &[u8]) -> bool {
        self.shared().locks.is_held(&self.owner, table, key, LockMode::Exclusive)
    }

    pub(super) fn acquire(
        &self,
        table: TableId,
        key: &[u8],
        mode: LockMode,
        wait: LockWait,
    ) -> Result<Acquired> {
        let locks = &self.shared().locks;
        if self.owner.has_left()
            && let Some(held) = locks.resume(&self.owner)?
        {
            if held.is(table, key, mode) {
                return Ok(Acquired::New);
            }
            // The wait that was resumed belongs to another request. Its row was not compared with
            // the snapshot.
            self.unchecked.set(true);
            self.locked_at.set(None);
        }
        if mode == LockMode::Exclusive && !self.owner.holds_any() {
            self.shared().await_room(table)?;
        }
        self.room_for_lock(key.len())?;
        let mut timeout = self.options.lock_wait.unwrap_or(self.shared().settings.lock_wait);
        if let Some(end) = self.waits_end.get() {
            timeout = timeout.min(end.saturating_sub(clock::now()));
        }
        locks.acquire(&self.owner, table, key, mode, wait, timeout)
    }

    /// Sets when waits for locks that begin from now on end with [`ErrorKind::LockTimeout`], by
    /// [`spillway_base::clock::now`]. A shorter timeout still holds
    /// ([`crate::TransactionOptions::lock_wait`]).
    pub fn end_waits_at(&self, end: Option<Duration>) {
        self.waits_end.set(end);
    }

    /// Sets whether operations that find a row locked return [`ErrorKind::WouldBlock`] instead of
    /// blocking their thread. They do so only if a waker is set
    /// ([`super::CancelHandle::set_waker`]).
    ///
    /// The transaction stays in the lock's queue. Any thread may call the waker once the lock is
    /// granted or the wait cancelled, and perhaps spuriously. When the wait times out, nothing
    /// calls the waker: the caller checks [`Transaction::waits_until`]. The next operation that
    /// locks continues the wait: it has the lock, or fails as a blocking wait would have, or
    /// returns [`ErrorKind::WouldBlock`] again if the wait is not over. The caller may undo and
    /// repeat earlier writes of the statement meanwhile. The lock, or the place in the queue,
    /// stays.
    pub fn leave_waits(&self, leave: bool) {
        self.owner.leave_waits(leave);
    }

    /// When the wait of the last [`ErrorKind::WouldBlock`] times out, in the time of
    /// [`spillway_base::clock::now`]; or when to repeat a statement that left a read to the device.
    /// `None` if there was no such wait.
    #[must_use]
    pub fn waits_until(&self) -> Option<Duration> {
        self.owner.left_until().or(self.reads_until.get())
    }

    /// First committer wins: refuses a row that was written after this transaction's snapshot.
    pub(super) fn check_newest(&self, table: TableId, key: &[u8]) -> Result<()> {
        if self.acts_on_newest() || self.writes.borrow().created(table) {
            return Ok(());
        }
        let Some(snapshot) = self.snapshot.borrow().as_ref().map(Live::csn) else {
            return Ok(());
        };
        let mut value = Vec::new();
        // If the lookup fails, the lock stays, and the key was not compared with the snapshot.
        let newest =
            self.look_up(table, key, None, &mut value).inspect_err(|_| self.unchecked.set(true))?;
        if newest.csn() > Some(snapshot) {
            if self.refresh()? {
                return Ok(());
            }
            self.unchecked.set(true);
            let text =
                "another transaction changed the row after this one began to read; run it again";
            return Err(Error::new(ErrorKind::WriteConflict, text).of_table(table));
        }
        Ok(())
    }

    /// Locks a key, then reads its newest value; `false` if there is none or it was skipped.
    ///
    /// # Errors
    /// As [`Transaction::lock`] and [`Transaction::get`].
    pub fn get_locked(
        &self,
        table: TableId,
        key: &[u8],
        mode: LockMode,
        wait: LockWait,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        value.clear();
        if self.acquire_checked(table, key, mode, wait)? == Acquired::Skipped {
            return Ok(false);
        }
        self.read_locked(table, key, value)
    }

    /// Reads the newest value of a key that this transaction has locked.
    fn read_locked(&self, table: TableId, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        if self.serializable() {
            self.locked_at.set(None);
            return self.get(table, key, value);
        }
        if self.snapshot_taken() && !self.acts_on_newest() {
            // The lock request has checked that no version is newer than the snapshot. While the
            // lock is held, no other transaction can change the result of this read, so it need not
            // be remembered.
            let mark = self.reads_mark();
            let found = self.get(table, key, value);
            self.forget_reads(mark);
            return found;
        }
        if let Some(there) = self.own(table, key, value)? {
            return Ok(there);
        }
        if self.writes.borrow().created(table) {
            return Ok(false);
        }
        let found = self.get_newest(table, key, value)?;
        if !self.acts_on_newest() {
            self.snapshot();
        }
        Ok(found)
    }
}
