//! Reads of rows.

use std::ops::Bound;
use std::sync::Arc;

use spillway_base::budget::Budget;
use spillway_base::engine::{Access, Found, RangeEstimate};
use spillway_base::managed::TableSize;
use spillway_base::{Csn, ErrorKind, KeyRange, Result};
use spillway_reclaim::epochs::Pin;

use super::evict::has_room_for;
use super::load::{KeyLoader, KeyScan};
use crate::index::Entries;
use crate::log_reads::{LogReads, RowKey, RowRead};
use crate::rid::Rid;
use crate::store::{Retired, Store};
use crate::table::{Table, hidden_by};
use crate::version::{Content, Fields};
use crate::version::{Place, Target, Word};

/// Rows from which an estimate takes its bytes per row.
const SAMPLED: usize = 8;
/// Rows from which a table's size is estimated.
const SIZE_SAMPLED: usize = 32;
/// How often a get looks a row up whose record is not at its place, because log compaction moves
/// it.
const TRIES: usize = 8;

/// The version of a row that a snapshot finds in memory.
pub(super) enum Seen<'p> {
    /// The version's commit and value.
    Value(Csn, &'p [u8]),
    Deleted(Csn),
    /// The version is in the log, at this place.
    Place(Place),
    Nothing,
}

/// Searches an entry's chain for the version that a snapshot sees.
#[inline]
pub(super) fn see<'p>(
    store: &Store,
    table: &Table,
    rid: Rid,
    snapshot: Csn,
    pin: &'p Pin<'_>,
) -> Seen<'p> {
    let mut word = table.rows.entry(rid.slot()).map_or(Word::EMPTY, |entry| entry.load());
    loop {
        match word.target() {
            Target::Version(at) => {
                let version = store.version(at, pin);
                if version.csn() > snapshot {
                    word = version.next();
                    continue;
                }
                return match version.content() {
                    Content::Value(value) => {
                        version.note_use();
                        Seen::Value(version.csn(), value)
                    }
                    Content::Deleted(_) => Seen::Deleted(version.csn()),
                    Content::Absent => match version.place() {
                        Ok(place) => Seen::Place(place),
                        Err(_) => unreachable!("a version without its value is placed"),
                    },
                };
            }
            Target::Place(place) => return Seen::Place(place),
            Target::Empty => return Seen::Nothing,
        }
    }
}

/// The parts of the engine that reads of rows need.
#[derive(Clone, Copy)]
pub(super) struct RowReader<'e> {
    pub(super) keys: KeyLoader<'e>,
    pub(super) log: &'e Arc<LogReads>,
    pub(super) budget: &'e Budget,
}

impl RowReader<'_> {
    pub(super) fn get(
        &self,
        table: &Arc<Table>,
        key: &[u8],
        snapshot: Csn,
        access: Access,
        value: &mut Vec<u8>,
    ) -> Result<Found> {
        let ranges = table.ranges_before_read();
        let found = self.find(table, key, snapshot, access, value)?;
        let Some(ranges) = ranges else { return Ok(found) };
        // A later deletion of a range hides the version (E10).
        let hidden = hidden_by(&ranges, key, found.csn(), snapshot);
        Ok(hidden.map_or(found, Found::Deleted))
    }

    fn find(
        &self,
        table: &Arc<Table>,
        key: &[u8],
        snapshot: Csn,
        access: Access,
        value: &mut Vec<u8>,
    ) -> Result<Found> {
        self.keys.load_key(table, key, access)?;
        let store = self.keys.rows.store;
        let mut failure = None;
        for _ in 0..TRIES {
            let mut pin = store.pin();
            let Some(rid) = table.index.get(key, &pin) else { return Ok(Found::Nothing) };
            let place = match see(store, table, rid, snapshot, &pin) {
                Seen::Value(csn, bytes) => {
                    value.clear();
                    value.extend_from_slice(bytes);
                    return Ok(Found::Value(csn));
                }
                Seen::Deleted(csn) => return Ok(Found::Deleted(csn)),
                Seen::Nothing => return Ok(Found::Nothing),
                Seen::Place(place) => place,
            };
            match pin.outside(|| self.read_place(table, key, place, access, value)) {
                // There was no older version when this one was evicted (MEMORY-2).
                Ok(csn) if csn > snapshot => return Ok(Found::Nothing),
                Ok(csn) => {
                    drop(pin);
                    if self.bring_back(table, key, place, csn, value) {
                        self.log.forget(place);
                    }
                    return Ok(Found::Value(csn));
                }
                Err(error) if error.kind() == ErrorKind::Corruption => failure = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(failure.expect("it was tried"))
    }

    /// Reads the value of a row's record.
    pub(super) fn read_place(
        &self,
        table: &Table,
        key: &[u8],
        place: Place,
        access: Access,
        value: &mut Vec<u8>,
    ) -> Result<Csn> {
        self.log.read(RowKey { table: table.id, key }, place, access, value)
    }

    /// The read from the log that a get of a key needs. `None` if it needs no read, or must do the
    /// read itself to report its failure.
    pub(super) fn lacks(&self, table: &Arc<Table>, key: &[u8], snapshot: Csn) -> Option<RowRead> {
        self.keys.load_key(table, key, Access::Blocking).ok()?;
        let store = self.keys.rows.store;
        let pin = store.pin();
        let rid = table.index.get(key, &pin)?;
        let Seen::Place(place) = see(store, table, rid, snapshot, &pin) else { return None };
        drop(pin);
        let row = RowKey { table: table.id, key };
        (!self.log.holds(place)).then(|| RowRead::new(self.log, row, place))?
    }

    /// Loads a row that was read from the log into memory, if there is room. Returns whether reads
    /// of the row's newest version need the held record no more.
    pub(super) fn bring_back(
        &self,
        table: &Arc<Table>,
        key: &[u8],
        place: Place,
        csn: Csn,
        value: &[u8],
    ) -> bool {
        if !has_room_for(self.budget, value.len()) {
            return false;
        }
        let store = self.keys.rows.store;
        let pin = store.pin();
        let Some(rid) = table.index.get(key, &pin) else { return true };
        let made = store.make(&Fields {
            csn,
            table: table.id.ordinal(),
            slot: rid.slot(),
            place: Ok(place),
            content: Content::Value(value),
            next: Word::EMPTY,
        });
        let made_version = store.version(made, &pin);
        // A reader uses it now, so the next visit of eviction must not evict it.
        made_version.note_use();
        let mut entry = table.rows.lock(rid.slot());
        match entry.word().target() {
            Target::Place(now) if now == place => entry.set_as_it_was(Word::version(made)),
            // A version without its value, from a replay. It is alone in its chain.
            Target::Version(at)
                if store.version(at, &pin).content() == Content::Absent
                    && store.version(at, &pin).place() == Ok(place)
                    && store.version(at, &pin).csn() == csn =>
            {
                let stub = store.version(at, &pin);
                made_version.set_next(stub.next());
                entry.set_as_it_was(Word::version(made));
                drop(entry);
                store.retire([Retired::Version(at)]);
            }
            target => {
                drop(entry);
                store.discard(made);
                return match target {
                    // Another thread has loaded the version, or the snapshot reads a place behind a
                    // newer version.
                    Target::Version(at) => store.version(at, &pin).place() == Ok(place),
                    Target::Place(_) | Target::Empty => true,
                };
            }
        }
        true
    }

    pub(super) fn estimate(&self, table: &Arc<Table>, range: KeyRange<'_>) -> RangeEstimate {
        let mut pin = self.keys.rows.store.pin();
        let (from, until) = bounds(range);
        let mut entries = Entries::default();
        let scan = KeyScan::first((from, until), SAMPLED);
        if self.keys.collect_keys(table, scan, &mut entries, &mut pin).is_err() {
            return RangeEstimate::default();
        }
        if entries.len() < SAMPLED {
            let keys = entries.len() as u64;
            return RangeEstimate { keys, bytes: self.sampled_bytes(table, &entries, &pin) };
        }
        let missing = table.load().map_or(0, |load| load.keys_left_in(range));
        let keys = (table.index.estimate(from, until) + missing).max(SAMPLED as u64);
        let bytes = self.sampled_bytes(table, &entries, &pin) / SAMPLED as u64;
        RangeEstimate { keys, bytes: keys * bytes }
    }

    /// The size of a table, estimated from some rows.
    pub(super) fn table_size(&self, table: &Arc<Table>) -> TableSize {
        let mut pin = self.keys.rows.store.pin();
        let mut entries = Entries::default();
        let all = (Bound::Unbounded, Bound::Unbounded);
        // If the keys cannot be read, the size has no bytes.
        let scan = KeyScan::first(all, SIZE_SAMPLED);
        let _ = self.keys.collect_keys(table, scan, &mut entries, &mut pin);
        let rows = table.keys();
        let sampled = (entries.len() as u64).max(1);
        let used_bytes = self.sampled_bytes(table, &entries, &pin) * rows / sampled;
        TableSize { rows, used_bytes, free_bytes: 0 }
    }

    /// Bytes of the keys and values of some rows. For evicted rows, the bytes of their records.
    fn sampled_bytes(&self, table: &Table, entries: &Entries, pin: &Pin<'_>) -> u64 {
        let bytes = (0..entries.len()).map(|at| {
            let store = self.keys.rows.store;
            let value = match see(store, table, entries.rid(at), Csn::MAX, pin) {
                Seen::Value(_, value) => value.len() as u64,
                Seen::Place(place) => crate::version::class_bytes(place.class),
                Seen::Deleted(_) | Seen::Nothing => 0,
            };
            entries.key(at).len() as u64 + value
        });
        bytes.sum()
    }
}

/// A range's lower and upper bound.
pub(super) fn bounds<'k>(range: KeyRange<'k>) -> (Bound<&'k [u8]>, Bound<&'k [u8]>) {
    (Bound::Included(range.start), range.end.map_or(Bound::Unbounded, Bound::Excluded))
}
