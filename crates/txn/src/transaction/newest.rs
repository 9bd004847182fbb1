//! Changes and locking reads that act on the newest committed versions.
//!
//! - **NEWEST-1 (where).** Under READ COMMITTED, and under REPEATABLE READ with
//!   [`crate::TransactionOptions::acts_on_newest`], a change or a locking read acts on the newest
//!   committed version of each row, which it reads once it has the row's lock.
//!   [`spillway_base::ErrorKind::WriteConflict`] never refuses it.
//! - **NEWEST-2 (which rows).** A scan of rows to lock reads the state that was committed when the
//!   scan was opened. Its caller reopens it behind the row that it has reached after a wait for a
//!   lock ([`Transaction::waits_granted`]), and after it has read a row that has changed since
//!   ([`Scan::is_behind`]). So the rest of the range is read in the state that is committed by
//!   then. The scan meets a row that another transaction has meanwhile moved or inserted ahead of
//!   it, and does not meet a row that was moved behind it. [`Transaction::delete_rows`] does this
//!   itself.
//! - **NEWEST-3 (no needless waits).** Uncommitted writes of others are not read. A statement waits
//!   for a row only if the row's last committed version matches the statement.
//! - **NEWEST-4 (plain reads).** Under REPEATABLE READ plain reads stay at the transaction's
//!   snapshot, and see the transaction's own writes in place of the snapshot's versions. Neither a
//!   change nor a locking read takes the snapshot. A caller may maintain keys that are derived from
//!   rows, such as index entries. For a row that the transaction changes,
//!   [`Transaction::get_replaced`] returns the snapshot's version. The caller also overwrites the
//!   keys derived from that version, and writes those derived keys that the snapshot lacks, so that
//!   plain reads at the snapshot find the transaction's own row and not the old one.
//!
//! Rejected: to restart the statement at a newer snapshot when it meets a changed row, as
//! CockroachDB does under READ COMMITTED. Every statement would see one state of all rows. But a
//! change of a large table beside other writers would restart again and again.

use spillway_base::engine::Access;
use spillway_base::{Csn, Direction, KeyRange, Result, TableId};

use super::{Scan, Transaction};
use crate::options::{Durability, Isolation};
use crate::snapshots::{Live, Snapshot};

impl Transaction {
    /// Whether changes and locking reads act on the newest committed versions (NEWEST-1).
    #[must_use]
    pub fn acts_on_newest(&self) -> bool {
        match self.options.isolation {
            Isolation::ReadCommitted => true,
            Isolation::RepeatableRead => self.options.acts_on_newest,
            Isolation::Serializable => false,
        }
    }

    /// The number of waits for locks that ended because the lock was granted. It never falls.
    #[must_use]
    pub fn waits_granted(&self) -> u64 {
        self.owner.waits_granted()
    }

    /// The state in which a scan of rows to lock begins: it includes every row that this
    /// transaction has locked.
    fn newest_state(&self) -> Snapshot<'_> {
        let snapshots = &self.shared().snapshots;
        // A wait that did not block the thread may have been granted meanwhile.
        let holds = self.owner.holds_any() || self.owner.has_left();
        if !holds && self.durability() == Durability::Commit {
            return snapshots.take(|| snapshots.stable_csn());
        }
        snapshots.take(|| self.shared().newest())
    }

    /// Whether plain reads are at a snapshot older than `state`.
    pub(super) fn reads_older_than(&self, state: Csn) -> bool {
        self.snapshot_taken() && self.snapshot.borrow().as_ref().is_some_and(|at| at.csn() < state)
    }

    /// Opens a scan of rows that the caller means to lock: at the snapshot, or in the newest state
    /// (NEWEST-2), with the transaction's own writes.
    ///
    /// # Errors
    /// As [`Transaction::scan`].
    pub fn scan_to_lock(
        &self,
        table: TableId,
        range: KeyRange<'_>,
        direction: Direction,
    ) -> Result<Scan<'_>> {
        if !self.acts_on_newest() || self.writes.borrow().created(table) {
            return self.scan(table, range, direction);
        }
        let state = self.newest_state();
        self.note_seen(state.csn());
        let cursor = self.cursor(table, range, direction, state.csn())?;
        Ok(Scan::new(self, table, range, direction, Some(cursor)).holding(state))
    }

    /// Reads a row that the caller means to lock if it matches the statement: the version at the
    /// snapshot, or the newest committed version (NEWEST-3), or the transaction's own.
    ///
    /// # Errors
    /// As [`Transaction::get_with`].
    pub fn get_to_lock(
        &self,
        table: TableId,
        key: &[u8],
        access: Access,
        value: &mut Vec<u8>,
    ) -> Result<bool> {
        if !self.acts_on_newest() || self.writes.borrow().created(table) {
            return self.get_with(table, key, access, value);
        }
        value.clear();
        if let Some(there) = self.own(table, key, value)? {
            return Ok(there);
        }
        let found = match access {
            Access::Blocking => self.look_up(table, key, None, value)?,
            _ => self.look_up_from(table, key, None, access, value)?,
        };
        self.note_newest(found.csn().unwrap_or(Csn::ZERO));
        Ok(self.is_there(table, key, found, value))
    }

    /// The largest CSN of the newest versions that were read.
    #[must_use]
    pub fn newest_read(&self) -> Csn {
        self.newest_read.get()
    }

    /// Notes the CSN of a row's newest version that was read.
    pub(super) fn note_newest(&self, csn: Csn) {
        self.note_seen(csn);
        self.newest_read.set(self.newest_read.get().max(csn));
    }

    /// Reads the snapshot's version of a row, whatever the transaction has written, if the
    /// transaction acts on the newest versions and the row has a newer one (NEWEST-4). Returns
    /// whether the snapshot has the row; `None` if it has the newest version.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn get_replaced(
        &self,
        table: TableId,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<Option<bool>> {
        value.clear();
        let taken = self.options.isolation != Isolation::ReadCommitted && self.acts_on_newest();
        let snapshot = self.snapshot.borrow().as_ref().map(Live::csn);
        let Some(snapshot) = snapshot.filter(|_| taken) else { return Ok(None) };
        let created = self.writes.borrow().created(table);
        let newer = !created && self.look_up(table, key, None, value)?.csn() > Some(snapshot);
        value.clear();
        if !newer {
            return Ok(None);
        }
        Ok(Some(self.look_up(table, key, Some(snapshot), value)?.is_value()))
    }
}
