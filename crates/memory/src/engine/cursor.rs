//! Cursors of scans.
//!
//! A cursor collects a few entries of the index at a time, and copies the rows that its snapshot
//! sees. So between two steps of the scan, the cursor pins only its snapshot (PINS-2). A read from
//! the log releases the cursor's epoch pin. After the read, the cursor searches the index again: it
//! may not use the record ids that it has collected, because the rows may have been removed
//! meanwhile.
//!
//! A scan that may wait for a device reads several evicted rows in parallel ([`super::prefetch`]).
//! It reads one row at first, because a scan may end at any row. Each later time it reads twice as
//! many rows as the time before, up to a limit.

use std::ops::Bound;
use std::ops::Range;
use std::sync::Arc;

use spillway_base::engine::{Access, Cursor};
use spillway_base::{Csn, Direction, ErrorKind, KeyRange, Result};
use spillway_reclaim::epochs::Pin;

use super::inner::Inner;
use super::load::KeyScan;
use super::prefetch::KEYS_AHEAD;
use super::read::{Seen, see};
use crate::index::Entries;
use crate::log_reads::RowKey;
use crate::pins::Pinned;
use crate::table::{DeletedRange, Table, hidden_by};
use crate::version::{Place, class_bytes};

/// Entries that a cursor collects the first time; each later time twice as many, up to `MOST`.
const FIRST: usize = 16;
const MOST: usize = 256;
/// Bytes of rows after which a step ends.
const BYTES: usize = 256 << 10;

/// A row in a cursor's buffer.
struct Row {
    key: Range<usize>,
    value: Range<usize>,
    csn: Csn,
}

pub(super) struct MemoryCursor {
    engine: Arc<Inner>,
    table: Arc<Table>,
    _pinned: Pinned,
    snapshot: Csn,
    direction: Direction,
    start: Vec<u8>,
    end: Option<Vec<u8>>,
    /// The key of the last entry that was processed.
    position: Option<Vec<u8>>,
    buffer: Vec<u8>,
    rows: Vec<Row>,
    /// Rows that were read from the log: indexes into `rows`, and their places.
    from_log: Vec<(usize, Place)>,
    /// The rows that the last step returned.
    given: Range<usize>,
    last_key: Option<Vec<u8>>,
    entries: Entries,
    /// The table's deleted ranges, read before the entries.
    ranges: Option<Arc<Vec<DeletedRange>>>,
    most: usize,
    /// The number of evicted rows to read in parallel next time.
    at_once: usize,
    ended: bool,
    value: Vec<u8>,
}

impl MemoryCursor {
    pub(super) fn new(
        engine: Arc<Inner>,
        table: Arc<Table>,
        range: KeyRange<'_>,
        direction: Direction,
        snapshot: Csn,
    ) -> MemoryCursor {
        let pinned = engine.pins.pin(snapshot);
        MemoryCursor {
            engine,
            table,
            _pinned: pinned,
            snapshot,
            direction,
            start: range.start.to_vec(),
            end: range.end.map(<[u8]>::to_vec),
            position: None,
            buffer: Vec::new(),
            rows: Vec::new(),
            from_log: Vec::new(),
            given: 0..0,
            last_key: None,
            entries: Entries::default(),
            ranges: None,
            most: FIRST,
            at_once: 1,
            ended: range.is_empty(),
            value: Vec::new(),
        }
    }

    /// Refills the buffer with at least one row, unless the scan is at its end.
    fn fill(&mut self, access: Access) -> Result<()> {
        if self.given.end > 0 {
            self.last_key = Some(self.buffer[self.rows[self.given.end - 1].key.clone()].to_vec());
        }
        self.given = 0..0;
        self.rows.clear();
        self.buffer.clear();
        while self.rows.is_empty() && !self.ended {
            self.collect(access)?;
        }
        Ok(())
    }

    /// Collects the next entries, and copies their rows that the snapshot sees.
    fn collect(&mut self, access: Access) -> Result<()> {
        let engine = self.engine.clone();
        let mut pin = engine.store.pin();
        self.ranges = self.table.ranges_before_read();
        let mut entries = std::mem::take(&mut self.entries);
        if let Err(error) = self.collect_keys(access, &mut entries, &mut pin) {
            self.entries = entries;
            return Err(error);
        }
        let (count, mut done) = (entries.len(), 0);
        let mut outcome = Ok(());
        while done < count && self.buffer.len() < BYTES {
            let (key, rid) = (entries.key(done), entries.rid(done));
            done += 1;
            match see(&engine.store, &self.table, rid, self.snapshot, &pin) {
                Seen::Value(csn, value) => self.push(key, csn, value),
                Seen::Deleted(_) | Seen::Nothing => {}
                Seen::Place(place) if self.push_held(key, place) => {}
                Seen::Place(_) if !self.rows.is_empty() => {
                    // The rows before it can be returned without a wait (CURSOR-4).
                    done -= 1;
                    break;
                }
                Seen::Place(_) => {
                    // Reads the row by its key, because RIDs are not valid after the pin was
                    // released.
                    let mut value = std::mem::take(&mut self.value);
                    let lacking = self.lacking(&entries, done - 1, access, &pin);
                    self.at_once = (2 * self.at_once).min(KEYS_AHEAD);
                    let read = pin.outside(|| {
                        if lacking.len() > 1 {
                            let table = self.table.clone();
                            engine.ahead().of(table, &lacking, self.snapshot).of_scan().all();
                        }
                        engine.reader().get(&self.table, key, self.snapshot, access, &mut value)
                    });
                    match read {
                        Ok(found) => {
                            if let (true, Some(csn)) = (found.is_value(), found.csn()) {
                                self.push(key, csn, &value);
                            }
                        }
                        Err(error) => {
                            outcome = Err(error);
                            done -= 1;
                        }
                    }
                    self.value = value;
                    break;
                }
            }
        }
        drop(pin);
        self.bring_back();
        if let Some(last) = done.checked_sub(1) {
            let position = self.position.get_or_insert_default();
            position.clear();
            position.extend_from_slice(entries.key(last));
        }
        if outcome.is_ok() {
            self.ended = count < self.most && done == count;
            self.most = (2 * self.most).min(MOST);
        }
        self.entries = entries;
        outcome
    }

    /// Collects the index entries past `position`.
    fn collect_keys(&self, access: Access, entries: &mut Entries, pin: &mut Pin<'_>) -> Result<()> {
        let start = Bound::Included(self.start.as_slice());
        let end = self.end.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let past = self.position.as_deref().map(Bound::Excluded);
        let (from, until) = match self.direction {
            Direction::Forward => (past.unwrap_or(start), end),
            Direction::Backward => (past.unwrap_or(end), start),
        };
        let (direction, most) = (self.direction, self.most);
        let scan = KeyScan { from, until, direction, most, access };
        self.engine.keys().collect_keys(&self.table, scan, entries, pin)
    }

    /// The keys of evicted rows to read in parallel, among the entries from `from` on. Empty if the
    /// scan may not wait.
    fn lacking<'e>(
        &self,
        entries: &'e Entries,
        from: usize,
        access: Access,
        pin: &Pin<'_>,
    ) -> Vec<&'e [u8]> {
        let mut keys = Vec::new();
        if access != Access::Blocking || !self.engine.settings.read_ahead {
            return keys;
        }
        let mut room = self.engine.log.held_max() as u64 / 2;
        for at in from..entries.len() {
            let seen = see(&self.engine.store, &self.table, entries.rid(at), self.snapshot, pin);
            if let Seen::Place(place) = seen {
                let bytes = class_bytes(place.class);
                if bytes > room || keys.len() == self.at_once {
                    break;
                }
                room -= bytes;
                keys.push(entries.key(at));
            }
        }
        keys
    }

    /// Copies a row whose record is held, if the snapshot sees it. Returns whether the record is
    /// held.
    fn push_held(&mut self, key: &[u8], place: Place) -> bool {
        let mut value = std::mem::take(&mut self.value);
        let row = RowKey { table: self.table.id, key };
        let held = self.engine.log.read_held(row, place, &mut value);
        if let Some(csn) = held.filter(|csn| *csn <= self.snapshot) {
            let before = self.rows.len();
            self.push(key, csn, &value);
            if self.rows.len() > before {
                self.from_log.push((before, place));
            }
        }
        self.value = value;
        held.is_some()
    }

    /// Loads rows whose records were held into memory, as long as there is room.
    fn bring_back(&mut self) {
        for (number, place) in self.from_log.drain(..) {
            let row = &self.rows[number];
            let (key, value) = (&self.buffer[row.key.clone()], &self.buffer[row.value.clone()]);
            if self.engine.reader().bring_back(&self.table, key, place, row.csn, value) {
                self.engine.log.forget(place);
            }
        }
    }

    fn push(&mut self, key: &[u8], csn: Csn, value: &[u8]) {
        let ranges = self.ranges.as_deref().map_or(&[][..], Vec::as_slice);
        if hidden_by(ranges, key, Some(csn), self.snapshot).is_some() {
            return;
        }
        let at = self.buffer.len();
        self.buffer.extend_from_slice(key);
        let between = self.buffer.len();
        self.buffer.extend_from_slice(value);
        let end = self.buffer.len();
        self.rows.push(Row { key: at..between, value: between..end, csn });
    }

    fn step(&mut self, access: Access, most: usize) -> Result<usize> {
        if self.given.end == self.rows.len() {
            match self.fill(access) {
                Ok(()) => {}
                // The caller may call again with other access (CURSOR-4).
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(error),
                Err(error) => return Err(error),
            }
        }
        let begin = self.given.end;
        let end = (begin + most).min(self.rows.len());
        self.given = begin..end;
        Ok(end - begin)
    }

    fn row(&self) -> &Row {
        &self.rows[self.given.end - 1]
    }
}

impl Cursor for MemoryCursor {
    fn next(&mut self, access: Access) -> Result<bool> {
        Ok(self.step(access, 1)? > 0)
    }

    fn next_rows(&mut self, access: Access, most: usize) -> Result<usize> {
        self.step(access, most)
    }

    fn rows(&self, take: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        for row in &self.rows[self.given.clone()] {
            if !take(&self.buffer[row.key.clone()], &self.buffer[row.value.clone()]) {
                return;
            }
        }
    }

    fn key(&self) -> &[u8] {
        &self.buffer[self.row().key.clone()]
    }

    fn value(&self) -> &[u8] {
        &self.buffer[self.row().value.clone()]
    }

    fn csn(&self) -> Csn {
        self.row().csn
    }

    fn last_key(&self) -> Option<&[u8]> {
        match self.given.end.checked_sub(1) {
            Some(last) => Some(&self.buffer[self.rows[last].key.clone()]),
            None => self.last_key.as_deref(),
        }
    }
}
