//! Look-ups of keys in the engines, which may be left where they would wait for a device (DESIGN,
//! D11).
//!
//! A look-up that is left has begun to read what it lacks, and answers [`ErrorKind::WouldBlock`];
//! the waker of the transaction's
//! [`CancelHandle`] is called when that is over. Whoever runs the statement begins it anew then,
//! and finds what it has read in memory. It may have been evicted again, or the next look-up may
//! lack something else: who begins anew too often is to let its reads wait.

use std::task::Waker;
use std::time::Duration;

use spillway_base::clock;
use spillway_base::engine::{Access, Engine, Found};
use spillway_base::{Csn, ErrorKind, Result, TableId};

use super::{CancelHandle, Transaction};

/// A statement that was left for a device is begun anew after this at the latest. A device that
/// takes so long has its threads wait.
const PATIENCE: Duration = Duration::from_secs(60);

impl CancelHandle {
    /// Whom to call, from any thread, when a look-up or a wait for a lock that was left can go on
    /// ([`Transaction::leave_reads`],
    /// [`Transaction::leave_waits`]), or is cancelled. The first one that was given stays.
    pub fn set_waker(&self, waker: Waker) {
        self.0.set_waker(waker);
    }
}

impl Transaction {
    /// Has look-ups of single keys answer [`ErrorKind::WouldBlock`] from now on, in place of
    /// waiting for a device, or not any more. They are left only where there is somebody to call
    /// ([`CancelHandle::set_waker`]) and somebody who takes what was read into memory
    /// ([`crate::TransactionManager::overlap_reads`]).
    ///
    /// What the failed operation's statement has written before may be undone and done again, as
    /// after
    /// [`Transaction::leave_waits`]; [`Transaction::waits_until`] says until when to wait for the
    /// call.
    pub fn leave_reads(&self, leave: bool) {
        self.leaves_reads.set(leave && self.shared().overlaps_reads());
    }

    /// Brings what [`Transaction::get`] of these keys would wait for a device for into memory, all
    /// of it at once, as far as there is room for it, and answers how many of the keys lacked
    /// something. It waits for devices itself, and tells of no failure: what keeps it from reading
    /// something, the get meets.
    pub fn prefetch<'k>(&self, table: TableId, keys: impl Iterator<Item = &'k [u8]>) -> usize {
        let Ok(engine) = self.engine(table) else { return 0 };
        let own = |key: &&[u8]| self.writes.borrow().get(table, key).is_some();
        let keys: Vec<&[u8]> = keys.filter(|key| !own(key)).collect();
        engine.prefetch(table, &keys, self.snapshot())
    }

    /// Looks a key up at a snapshot, or its newest version, in the table and its overlays. A
    /// version that a fold wrote counts as one of its overlay's commit ([`crate::spill`], SPILL-7).
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

    /// As [`Transaction::look_up`], from where `access` says.
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
        let spilled = self.shared().engines.of(crate::spill::SPILL)?;
        overlays.resolve(&**spilled, &seen, (table, key), access, (found, value))
    }

    /// Begins to read what a look-up lacks, if it may be left.
    #[cold]
    fn begin_read(
        &self,
        engine: &dyn Engine,
        table: TableId,
        key: &[u8],
        snapshot: Option<Csn>,
    ) -> Result<bool> {
        // One that stands in line for a row is called for that, and has nothing else to be called
        // for.
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
