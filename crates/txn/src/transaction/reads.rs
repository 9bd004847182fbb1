//! Lookups of keys in the engines. A lookup may return instead of waiting for a device (decision
//! 011).
//!
//! A lookup that would wait for a device starts the device read, and returns
//! [`ErrorKind::WouldBlock`]. When the read ends, the engine calls the waker of the transaction's
//! [`CancelHandle`]. The caller then repeats the statement, and this lookup finds the block in
//! memory. The repeated statement may return the same error again, because the cache has evicted
//! the block meanwhile, or because a later lookup needs another block. So a caller should switch to
//! blocking reads after a number of repetitions.

use std::task::Waker;
use std::time::Duration;

use spillway_base::clock;
use spillway_base::engine::{Access, Engine, Found};
use spillway_base::{Csn, ErrorKind, Result, TableId};

use super::{CancelHandle, Transaction};

/// A statement that left a read to the device is repeated after this time at the latest, even if
/// the read has not ended.
const PATIENCE: Duration = Duration::from_secs(60);

impl CancelHandle {
    /// Sets the waker. Any thread calls it when a lookup or a lock wait that returned `WouldBlock`
    /// can continue ([`Transaction::leave_reads`], [`Transaction::leave_waits`]), or is cancelled.
    /// The first waker set stays.
    pub fn set_waker(&self, waker: Waker) {
        self.0.set_waker(waker);
    }
}

impl Transaction {
    /// Sets whether lookups of single keys return [`ErrorKind::WouldBlock`] instead of waiting for
    /// a device. They do so only if a waker is set ([`CancelHandle::set_waker`]) and a thread takes
    /// completed reads into memory ([`crate::TransactionManager::overlap_reads`]).
    ///
    /// Before the caller repeats the statement, it may undo the statement's earlier writes, as
    /// after [`Transaction::leave_waits`]. [`Transaction::waits_until`] says until when to wait for
    /// the waker.
    pub fn leave_reads(&self, leave: bool) {
        self.leaves_reads.set(leave && self.shared().overlaps_reads());
    }

    /// Reads into memory, in parallel and as far as there is room, the blocks for which
    /// [`Transaction::get`] of these keys would wait for a device. Returns how many of the keys
    /// lacked a block. The call itself waits for devices. It reports no failure, because a later
    /// get of the key returns the same error.
    pub fn prefetch<'k>(&self, table: TableId, keys: impl Iterator<Item = &'k [u8]>) -> usize {
        let Ok(engine) = self.engine(table) else { return 0 };
        let own = |key: &&[u8]| self.writes.borrow().get(table, key).is_some();
        let keys: Vec<&[u8]> = keys.filter(|key| !own(key)).collect();
        engine.prefetch(table, &keys, self.snapshot())
    }

    /// Looks up a key's version at a snapshot, or its newest version if `snapshot` is `None`, in
    /// the table and its overlays. A version that a fold wrote has the CSN of its overlay in the
    /// result ([`crate::spill`], SPILL-7).
    pub(super) fn look_up(
        &self,
        table: TableId,
        key: &[u8],
        snapshot: Option<Csn>,
        value: &mut Vec<u8>,
    ) -> Result<Found> {
        if !self.leaves_reads.get() {
            return self.look_up_from(table, key, snapshot, Access::Blocking, value);
        }
        match self.look_up_from(table, key, snapshot, Access::AtHand, value) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if self.begin_read(&**self.engine(table)?, table, key, snapshot)? {
                    return Err(error);
                }
                self.look_up_from(table, key, snapshot, Access::Blocking, value)
            }
            found => found,
        }
    }

    /// As [`Transaction::look_up`], with the given access.
    pub(super) fn look_up_from(
        &self,
        table: TableId,
        key: &[u8],
        snapshot: Option<Csn>,
        access: Access,
        value: &mut Vec<u8>,
    ) -> Result<Found> {
        let engine = self.engine(table)?;
        let overlays = &self.shared().overlays;
        if !overlays.any() {
            return look_up(&**engine, table, key, snapshot, access, value);
        }
        let seen = overlays.of(table, snapshot.unwrap_or(Csn::MAX));
        let found = look_up(&**engine, table, key, snapshot, access, value)?;
        let spilled = self.shared().engines.of(crate::overlay::SPILL)?;
        overlays.resolve(&**spilled, &seen, (table, key), access, (found, value))
    }

    /// Starts the device read that a lookup needs. Returns `false` if the lookup has to wait for
    /// the device instead.
    #[cold]
    fn begin_read(
        &self,
        engine: &dyn Engine,
        table: TableId,
        key: &[u8],
        snapshot: Option<Csn>,
    ) -> Result<bool> {
        // A transaction in a lock's queue expects calls of its waker for that lock only.
        let wait = self.owner.wait();
        let Some(waker) = wait.waker().filter(|_| !self.owner.has_left()) else {
            return Ok(false);
        };
        wait.prepare(Some(waker.clone()))?;
        if !engine.begin_read(table, key, snapshot.unwrap_or(Csn::MAX), waker) {
            return Ok(false);
        }
        self.reads_until.set(Some(clock::now() + PATIENCE));
        Ok(true)
    }
}

fn look_up(
    engine: &dyn Engine,
    table: TableId,
    key: &[u8],
    snapshot: Option<Csn>,
    access: Access,
    value: &mut Vec<u8>,
) -> Result<Found> {
    match snapshot {
        Some(snapshot) => engine.get(table, key, snapshot, access, value),
        None => engine.newest(table, key, access, value),
    }
}
