//! Changes and locking reads that act on the newest committed versions.
//!
//! - **NEWEST-1 (where).** Under READ COMMITTED, and under REPEATABLE READ with
//!   [`crate::TransactionOptions::acts_on_newest`], a change or a locking read acts on the newest
//!   committed version of each row. The transaction reads that version after it has locked the row.
//!   So a version that is newer than the snapshot never causes a
//!   [`spillway_base::ErrorKind::WriteConflict`].
//! - **NEWEST-2 (which rows).** A scan of rows to lock ([`Transaction::scan_to_lock`]) reads the
//!   state that was committed when the scan was opened. That state is out of date once the
//!   transaction has waited for a lock ([`Transaction::waits_granted`] has risen), or has read a
//!   version that was committed after the scan was opened ([`Scan::is_behind`]). The caller then
//!   replaces the scan by a new one over the part of the range that is still to be scanned.
//!
//!   The new scan reads the state that is committed at its own opening. So the caller finds a row
//!   that another transaction has inserted into this part, or moved to it, in the meantime. The
//!   caller does not find a row that was moved from this part to the part that is already scanned.
//!   [`Transaction::delete_rows`] replaces its scans itself.
//! - **NEWEST-3 (no needless waits).** No statement reads uncommitted writes of other transactions.
//!   A statement waits for a row only if the row's last committed version matches the statement.
//! - **NEWEST-4 (plain reads).** Under REPEATABLE READ, plain reads stay at the transaction's
//!   snapshot, and return the transaction's own writes in place of the snapshot's versions. The
//!   first plain read takes the snapshot; no change or locking read does.
//!
//!   A caller may maintain keys that are derived from rows, such as index entries. If a transaction
//!   changes a row that is newer than the transaction's snapshot, the snapshot's version of the row
//!   may have other derived keys than the changed row. Plain reads must then find the changed row,
//!   and only by the keys derived from it. So the caller gets the snapshot's version from
//!   [`Transaction::get_replaced`], deletes the keys derived from that version, and writes those of
//!   the changed row. The caller makes both writes even if another transaction has already made the
//!   same ones, because the snapshot does not see that transaction's writes.
//!
//! Rejected: to restart the statement at a newer snapshot when it meets a changed row, as
//! CockroachDB does under READ COMMITTED. Every statement would then see one state of all rows. But
//! if other transactions keep writing to a large table, a statement that changes the whole table
//! would meet a changed row in each attempt, and never end.

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
