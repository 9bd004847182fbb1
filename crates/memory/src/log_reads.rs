//! Reads of rows' records in the log: synchronous, asynchronous, and several in parallel.
//!
//! After an asynchronous read, this module holds the record. The caller repeats its get, which
//! takes the value from the held record and loads the row into memory, as a synchronous read of the
//! log does. So the thread that completes an asynchronous read looks up no key, and evicts no rows.
//! One lock guards the held records. This lock costs little: only readers of evicted rows take it,
//! and it is cheaper than the system call that they would make without a held record.
//!
//! - **LOG-ROW-1 (no answer from other bytes).** The value comes from a verified record of the
//!   requested table and key. The record's segment was not released before the bytes had been read
//!   (SEGMENT-4).
//! - **LOG-ROW-2 (by place).** A held record serves only reads of its place. A place names one
//!   record as long as the engine is open. So the held record stays correct, whatever happens to
//!   the row meanwhile: a reader that finds a newer version of the row, or another place, does not
//!   use this record.
//! - **LOG-ROW-3 (held for its reader).** A held record stays until its row is in memory again, or
//!   until later records displace it (LOG-ROW-4). Holding a record evicts nothing. So a statement
//!   whose read has completed finds the row, with three exceptions: later records displaced the
//!   record, log compaction moved the row, or the row was loaded and evicted again.
//! - **LOG-ROW-4 (bounded).** Held records take at most a [`HELD_SHARE`]th of the budget. A single
//!   larger record is held, too. If a new record exceeds the limit, the records that were held
//!   longest are dropped. Held records are charged to the budget.
//! - **LOG-ROW-5 (failures).** An asynchronous read that fails leaves no held record. The repeated
//!   get reads the record itself and returns the error (ASYNC-READ-3 of
//!   [`spillway_storage::async_reads`]).

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use spillway_base::batch::RowRecord;
use spillway_base::budget::{Budget, Charge, Use};
use spillway_base::engine::Access;
use spillway_base::lock::Mutex;
use spillway_base::managed::ClosedFlag;
use spillway_base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use spillway_base::{Csn, Error, ErrorKind, Result, TableId};
use spillway_storage::File;
use spillway_storage::async_reads::AsyncRead;

use crate::segments::Segments;
use crate::version::Place;

/// Held records may take the budget divided by this.
const HELD_SHARE: usize = 64;

/// The table and key of a row.
#[derive(Clone, Copy)]
pub(crate) struct RowKey<'k> {
    pub(crate) table: TableId,
    pub(crate) key: &'k [u8],
}

struct HeldRecord {
    table: TableId,
    key: Box<[u8]>,
    value: Box<[u8]>,
    csn: Csn,
    charge: Charge,
    /// Its number in the order of arrival.
    number: u64,
}

#[derive(Default)]
struct HeldRecords {
    by_place: FxHashMap<Place, HeldRecord>,
    /// The places of held records in the order of arrival.
    order: BTreeMap<u64, Place>,
    next: u64,
    bytes: usize,
}

impl HeldRecords {
    fn remove(&mut self, place: Place) -> Option<HeldRecord> {
        let record = self.by_place.remove(&place)?;
        self.order.remove(&record.number);
        self.bytes -= record.charge.bytes();
        Some(record)
    }
}

/// Reads of records. The module's page states the guarantees.
pub(crate) struct LogReads {
    segments: Arc<Segments>,
    budget: Budget,
    closed: ClosedFlag,
    held: Mutex<HeldRecords>,
    /// The number of held records. If it is 0, readers do not take the lock.
    count: AtomicUsize,
    /// Records that were read: all, those prefetched for several gets, those read ahead for scans.
    read: AtomicU64,
    prefetched: AtomicU64,
    read_ahead: AtomicU64,
}

impl LogReads {
    pub(crate) fn new(segments: &Arc<Segments>, budget: &Budget, closed: ClosedFlag) -> LogReads {
        LogReads {
            segments: segments.clone(),
            budget: budget.clone(),
            closed,
            held: Mutex::default(),
            count: AtomicUsize::new(0),
            read: AtomicU64::new(0),
            prefetched: AtomicU64::new(0),
            read_ahead: AtomicU64::new(0),
        }
    }

    /// Reads the value of a row's record into `value`, from a held record or, if `access` allows,
    /// from the log (LOG-ROW-1).
    pub(crate) fn read(
        &self,
        row: RowKey<'_>,
        place: Place,
        access: Access,
        value: &mut Vec<u8>,
    ) -> Result<Csn> {
        if let Some(csn) = self.read_held(row, place, value) {
            return Ok(csn);
        }
        let would_block =
            || Error::new(ErrorKind::WouldBlock, "the row is only in the log, on a device");
        if access == Access::MemoryOnly {
            return Err(would_block());
        }
        let mut buffer = Vec::new();
        let mut read = || -> Result<Csn> {
            let record = self.segments.read(place, access == Access::Blocking, &mut buffer)?;
            let record = record.ok_or_else(would_block)?;
            let bytes = self.value_of(row, place, &record)?;
            value.clear();
            value.extend_from_slice(bytes);
            Ok(record.csn)
        };
        let csn = read().map_err(|error| self.closed.of_read(error))?;
        self.read.fetch_add(1, Ordering::Relaxed);
        Ok(csn)
    }

    /// Copies the value of a held record (LOG-ROW-2).
    pub(crate) fn read_held(
        &self,
        row: RowKey<'_>,
        place: Place,
        value: &mut Vec<u8>,
    ) -> Option<Csn> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let held = self.held.lock();
        let record = held.by_place.get(&place)?;
        if record.table != row.table || *record.key != *row.key {
            return None;
        }
        value.clear();
        value.extend_from_slice(&record.value);
        Some(record.csn)
    }

    /// Whether the record of a place is held.
    pub(crate) fn holds(&self, place: Place) -> bool {
        self.count.load(Ordering::Acquire) > 0 && self.held.lock().by_place.contains_key(&place)
    }

    /// Holds the record of a row if the operating system has it in memory, and returns whether it
    /// has. Otherwise a read of the record waits for a device, or fails.
    pub(crate) fn hold_at_hand(&self, read: &RowRead) -> bool {
        let mut buffer = Vec::new();
        match self.segments.read(read.place, false, &mut buffer) {
            Ok(Some(record)) => self.hold(read.row(), read.place, &record).is_ok(),
            _ => false,
        }
    }

    /// Drops the held record of a row that is in memory again.
    pub(crate) fn forget(&self, place: Place) {
        if self.count.load(Ordering::Acquire) > 0 {
            let mut held = self.held.lock();
            let gone = held.remove(place);
            self.count.store(held.by_place.len(), Ordering::Release);
            drop(held);
            drop(gone);
        }
    }

    /// Bytes that held records may take at most.
    pub(crate) fn held_max(&self) -> usize {
        self.budget.limit() / HELD_SHARE
    }

    pub(crate) fn held_bytes(&self) -> usize {
        self.held.lock().bytes
    }

    /// Records that were read: all, those prefetched for several gets, those read ahead for scans.
    pub(crate) fn counts(&self) -> [u64; 3] {
        [&self.read, &self.prefetched, &self.read_ahead].map(|count| count.load(Ordering::Relaxed))
    }

    /// Counts a record that was prefetched for several gets, or read ahead for a scan.
    pub(crate) fn note_read_at_once(&self, of_scan: bool) {
        let count = if of_scan { &self.read_ahead } else { &self.prefetched };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// A charge that causes no eviction: eviction may wait, and the caller may hold the lock of an
    /// I/O queue, which waiting threads need for their submissions.
    pub(crate) fn charge(&self, bytes: usize) -> Charge {
        self.budget.charge(Use::Caches, bytes)
    }

    /// The value of a record that was read. Fails if the record is of another row (LOG-ROW-1).
    /// After a close it fails, too: the next opening may have written a newer record of the row to
    /// the same place, in a segment that the log uses again (MANAGED-3).
    fn value_of<'r>(
        &self,
        row: RowKey<'_>,
        place: Place,
        record: &RowRecord<'r>,
    ) -> Result<&'r [u8]> {
        if self.closed.is_closed() {
            return Err(Error::new(ErrorKind::Closed, "the database has been closed"));
        }
        record.value.filter(|_| record.table == row.table && record.key == row.key).ok_or_else(
            || {
                let what = "another row's record is where a row's ought to be";
                self.segments.at(place, &Error::corruption(what))
            },
        )
    }

    /// Holds the record that was read at a place. Fails if the record is of another row.
    fn hold(&self, row: RowKey<'_>, place: Place, record: &RowRecord<'_>) -> Result<()> {
        let value = self.value_of(row, place, record)?;
        let charge = self.charge(record.bytes);
        self.read.fetch_add(1, Ordering::Relaxed);
        let (key, value) = (row.key.into(), value.into());
        let mut gone = Vec::new();
        let mut held = self.held.lock();
        gone.extend(held.remove(place));
        let number = held.next;
        held.next += 1;
        held.bytes += charge.bytes();
        held.order.insert(number, place);
        let record = HeldRecord { table: row.table, key, value, csn: record.csn, charge, number };
        held.by_place.insert(place, record);
        while held.bytes > self.held_max() && held.by_place.len() > 1 {
            let (_, oldest) = held.order.pop_first().expect("each record has its number");
            gone.extend(held.remove(oldest));
        }
        self.count.store(held.by_place.len(), Ordering::Release);
        drop(held);
        drop(gone);
        Ok(())
    }
}

/// An asynchronous read of a row's record. It keeps the segment's file open.
pub(crate) struct RowRead {
    log: Arc<LogReads>,
    table: TableId,
    key: Box<[u8]>,
    place: Place,
    file: Arc<dyn File>,
    bytes: usize,
}

impl RowRead {
    /// Opens the segment's file, unless an earlier read has. `None` if that fails: the get then
    /// reads the record itself and reports the failure.
    pub(crate) fn new(log: &Arc<LogReads>, row: RowKey<'_>, place: Place) -> Option<RowRead> {
        let (file, bytes) = log.segments.file_and_len(place).ok().filter(|(_, len)| *len > 0)?;
        let (table, key) = (row.table, row.key.into());
        Some(RowRead { log: log.clone(), table, key, place, file, bytes })
    }

    fn row(&self) -> RowKey<'_> {
        RowKey { table: self.table, key: &self.key }
    }

    /// Bytes that it reads.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl AsyncRead for RowRead {
    type Name = Place;

    fn name(&self) -> Place {
        self.place
    }

    fn place(&self) -> Option<(Arc<dyn File>, u64, usize)> {
        Some((self.file.clone(), u64::from(self.place.offset), self.bytes))
    }

    fn charge(&self, bytes: usize) -> Charge {
        self.log.charge(bytes)
    }

    fn take(&self, bytes: &[u8]) -> Result<()> {
        let record = self.log.segments.verify(self.place, bytes)?;
        self.log.hold(self.row(), self.place, &record)
    }
}
