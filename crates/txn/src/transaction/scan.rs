//! Scans of a transaction: the engine's rows at the snapshot, merged with the transaction's own
//! writes, which hide the engine's rows of the same keys.

use std::cmp::Ordering;

use smallvec::SmallVec;
use spillway_base::engine::{Access, Cursor};
use spillway_base::range::successor;
use spillway_base::{Csn, Direction, KeyRange, Result, TableId};

use super::Transaction;
use super::refresh::part_read;
use crate::overlay::LayerCursor;
use crate::snapshots::Snapshot;

/// A copied key; a short one needs no allocation.
type Key = SmallVec<[u8; 32]>;

/// The source of the current row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RowSource {
    Nothing,
    Engine,
    Own,
}

/// A scan in progress. It lends rows in place, one at a time or in batches of adjacent rows. As an
/// `Iterator` it returns copies of keys and values.
///
/// The scan sees writes that the transaction makes while it is open, if their keys lie ahead of it.
pub struct Scan<'t> {
    txn: &'t Transaction,
    table: TableId,
    start: Key,
    end: Option<Key>,
    direction: Direction,
    cursor: Option<Box<dyn Cursor>>,
    /// Whether the cursor stands on a row that was not returned yet.
    ahead: bool,
    at: RowSource,
    /// The last key returned or passed, and the value of the current row if that is an own write.
    key: Key,
    value: Vec<u8>,
    started: bool,
    /// The snapshot at which it reads, if not the transaction's.
    snapshot: Option<Snapshot<'t>>,
    /// The snapshot at which its reads have to be noted. `None` if they are noted already, or need
    /// not be.
    noting: Option<Csn>,
    /// Whether it counts among the scans that keep the snapshot in place.
    counted: bool,
    /// The cursor over the transaction's own spilled writes, and their version.
    layers: Option<(u64, Box<LayerCursor>)>,
}

impl<'t> Scan<'t> {
    pub(super) fn new(
        txn: &'t Transaction,
        table: TableId,
        range: KeyRange<'_>,
        direction: Direction,
        cursor: Option<Box<dyn Cursor>>,
    ) -> Scan<'t> {
        Scan {
            txn,
            table,
            start: Key::from_slice(range.start),
            end: range.end.map(Key::from_slice),
            direction,
            cursor,
            ahead: false,
            at: RowSource::Nothing,
            key: Key::new(),
            value: Vec::new(),
            started: false,
            snapshot: None,
            noting: None,
            counted: false,
            layers: None,
        }
    }

    /// Keeps the versions that the scan reads.
    pub(super) fn holding(mut self, snapshot: Snapshot<'t>) -> Scan<'t> {
        self.snapshot = Some(snapshot);
        self
    }

    /// The state that it reads, if that is not the transaction's snapshot.
    #[must_use]
    pub fn state(&self) -> Option<Csn> {
        self.snapshot.as_ref().map(Snapshot::csn)
    }

    /// Whether the transaction has read a row that has changed since the state which this scan
    /// reads (NEWEST-2).
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.state().is_some_and(|state| state < self.txn.newest_read.get())
    }

    /// Notes the part of the range that was read when the scan ends (`serializable`).
    pub(super) fn noting(mut self, snapshot: Csn) -> Scan<'t> {
        self.noting = Some(snapshot);
        self.counted = true;
        self.txn.scans_open.set(self.txn.scans_open.get() + 1);
        self
    }

    /// Notes the part that was read: up to `last`, or all of the range.
    fn note(&mut self, last: Option<&[u8]>) -> Result<()> {
        let Some(snapshot) = self.noting.take() else { return Ok(()) };
        let mut past = Vec::new();
        let whole = KeyRange::new(&self.start, self.end.as_deref());
        let range = part_read(whole, last, self.direction, &mut past);
        if !self.txn.serializable() {
            self.txn.note_range_read(self.table, range);
            return Ok(());
        }
        let id = self.txn.owner.id();
        self.txn.shared().serializable.read_range(id, snapshot, self.table, range)
    }

    /// The last row returned or passed; `None` before the first.
    fn reached(&self) -> Option<&[u8]> {
        match (self.at, &self.cursor) {
            (RowSource::Engine, Some(cursor)) => Some(cursor.key()),
            (RowSource::Own, _) => Some(&self.key),
            _ => self.started.then_some(&self.key),
        }
    }

    /// Moves to the next row; `false` past the last.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn advance(&mut self) -> Result<bool> {
        self.advance_with(Access::Blocking)
    }

    /// As [`Scan::advance`], from memory only if `access` says so (decision 011).
    ///
    /// # Errors
    /// As [`Transaction::get`], and [`spillway_base::ErrorKind::WouldBlock`]. Then there is no
    /// current row, and the next call moves to the row to which this one would have moved.
    #[inline]
    pub fn advance_with(&mut self, access: Access) -> Result<bool> {
        let untouched = self.txn.untouched(self.table);
        let found = match &mut self.cursor {
            Some(cursor) if untouched && !self.ahead => {
                let next = cursor.next(access);
                // The scan goes from one row of the engine to the next, and the transaction has no
                // writes to the table. So nothing else has to change.
                if matches!(next, Ok(true)) && self.at == RowSource::Engine {
                    return Ok(true);
                }
                self.stepped(next.map(usize::from))? > 0
            }
            _ => self.advance_merged(access)?,
        };
        if !found {
            self.note(None)?;
        }
        Ok(found)
    }

    /// Records a step of the cursor, which moved over this many rows. After a failed step the
    /// cursor stands on no row until a step succeeds.
    fn stepped(&mut self, found: Result<usize>) -> Result<usize> {
        let stood = std::mem::replace(&mut self.at, RowSource::Nothing) == RowSource::Engine;
        if matches!(found, Ok(1..)) {
            self.at = RowSource::Engine;
        } else if stood && let Some(key) = self.cursor.as_ref().and_then(|it| it.last_key()) {
            // The cursor has left the row at which it stood.
            self.key.clear();
            self.key.extend_from_slice(key);
            self.started = true;
        }
        if matches!(found, Ok(0)) {
            self.cursor = None;
        }
        found
    }

    fn advance_merged(&mut self, access: Access) -> Result<bool> {
        loop {
            if let (RowSource::Engine, Some(cursor)) = (self.at, &self.cursor) {
                self.key.clear();
                self.key.extend_from_slice(cursor.key());
                self.started = true;
            }
            self.at = RowSource::Nothing;
            while let (false, Some(cursor)) = (self.ahead, &mut self.cursor) {
                if !cursor.next(access)? {
                    self.cursor = None;
                    break;
                }
                // Skip rows in ranges that the transaction has deleted.
                let writes = self.txn.writes.borrow();
                self.ahead = !writes.hides(self.table, cursor.key(), cursor.csn());
            }
            self.follow_layers()?;
            let writes = self.txn.writes.borrow();
            let range = KeyRange::new(&self.start, self.end.as_deref());
            let last = self.started.then_some(self.key.as_slice());
            let own = writes.after(self.table, range, last, self.direction);
            let layers = self.layers.as_ref().map(|(_, layers)| &**layers);
            let own = first_own(own, layers, self.direction)?;
            let theirs = self.cursor.as_ref().filter(|_| self.ahead).map(|cursor| cursor.key());
            let order = match (own, theirs) {
                (None, None) => return Ok(false),
                (None, Some(_)) => Ordering::Greater,
                (Some(_), None) => Ordering::Less,
                (Some((own, _)), Some(theirs)) => match self.direction {
                    Direction::Forward => own.cmp(theirs),
                    Direction::Backward => theirs.cmp(own),
                },
            };
            if order == Ordering::Greater {
                self.ahead = false;
                self.at = RowSource::Engine;
                return Ok(true);
            }
            let Some((key, value)) = own else { return Ok(false) };
            let visible = value.is_some();
            let next = Key::from_slice(key);
            self.value.clear();
            self.value.extend_from_slice(value.unwrap_or_default());
            drop(writes);
            self.key = next;
            self.started = true;
            if order == Ordering::Equal {
                // The transaction's own write hides the row below it.
                self.ahead = false;
            }
            if visible {
                self.at = RowSource::Own;
                return Ok(true);
            }
        }
    }

    /// Moves the cursor over spilled writes to the first write that the scan has not passed.
    fn follow_layers(&mut self) -> Result<()> {
        let version = self.txn.spill_version();
        if version == 0 {
            self.layers = None;
            return Ok(());
        }
        if self.layers.as_ref().is_none_or(|(of, _)| *of != version) {
            let past = successor(&self.key);
            let mut range = KeyRange::new(&self.start, self.end.as_deref());
            match (self.started, self.direction) {
                (false, _) => {}
                (true, Direction::Forward) => range.start = &past,
                (true, Direction::Backward) => range.end = Some(&self.key),
            }
            let layers = if range.is_empty() {
                None
            } else {
                self.txn.own_layers(self.table, range, self.direction)?
            };
            let layers = layers.unwrap_or_else(LayerCursor::none);
            self.layers = Some((version, Box::new(layers)));
        }
        let Some((_, layers)) = &mut self.layers else { return Ok(()) };
        while let Some(key) = layers.key().filter(|_| self.started) {
            let passed = match self.direction {
                Direction::Forward => key <= self.key.as_slice(),
                Direction::Backward => key >= self.key.as_slice(),
            };
            if !passed {
                break;
            }
            layers.step()?;
        }
        Ok(())
    }

    /// Moves to the next rows, which are adjacent: at least one and at most `most`, which is at
    /// least one. Returns their number, which is 0 past the end. The last of them is then the
    /// current row. If the transaction has written to the table, or each read row counts under
    /// SERIALIZABLE, it moves by one row.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn advance_rows(&mut self, most: usize) -> Result<usize> {
        let untouched = self.txn.untouched(self.table);
        let counts_rows = self.noting.is_some() && self.txn.serializable();
        if !untouched || self.ahead || counts_rows {
            return self.advance().map(usize::from);
        }
        let Some(cursor) = &mut self.cursor else {
            self.at = RowSource::Nothing;
            return Ok(0);
        };
        let found = cursor.next_rows(Access::Blocking, most);
        let rows = self.stepped(found)?;
        if rows == 0 {
            self.note(None)?;
        }
        Ok(rows)
    }

    /// Calls `take` with the keys and values of the rows of the last step, until it returns
    /// `false`.
    pub fn rows(&self, take: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        match (self.at, &self.cursor) {
            (RowSource::Engine, Some(cursor)) => cursor.rows(take),
            (RowSource::Own, _) => drop(take(&self.key, &self.value)),
            _ => {}
        }
    }

    /// The key of the current row; empty before the first and past the last.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        match (self.at, &self.cursor) {
            (RowSource::Engine, Some(cursor)) => cursor.key(),
            (RowSource::Own, _) => &self.key,
            _ => &[],
        }
    }

    /// The value of the current row; empty before the first and past the last.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        match (self.at, &self.cursor) {
            (RowSource::Engine, Some(cursor)) => cursor.value(),
            (RowSource::Own, _) => &self.value,
            _ => &[],
        }
    }
}

/// An own write: its key, and its value unless it is a deletion.
type Own<'o> = (&'o [u8], Option<&'o [u8]>);

/// The first of the transaction's own writes: the buffer's next one or the next spilled one. Of two
/// with the same key, the buffer's is newer.
fn first_own<'o>(
    buffered: Option<Own<'o>>,
    layers: Option<&'o LayerCursor>,
    direction: Direction,
) -> Result<Option<Own<'o>>> {
    let Some((layers, spilled)) = layers.and_then(|layers| Some((layers, layers.key()?))) else {
        return Ok(buffered);
    };
    let later = buffered.is_none_or(|(key, _)| match direction {
        Direction::Forward => key > spilled,
        Direction::Backward => key < spilled,
    });
    if later { Ok(Some((spilled, layers.value()?))) } else { Ok(buffered) }
}

impl Drop for Scan<'_> {
    fn drop(&mut self) {
        if self.counted {
            self.txn.scans_open.set(self.txn.scans_open.get() - 1);
        }
        if self.noting.is_none() {
            return;
        }
        let Some(last) = self.reached().map(<[u8]>::to_vec) else { return };
        if self.note(Some(&last)).is_err() {
            self.txn.shared().serializable.refuse(self.txn.owner.id());
        }
    }
}

impl Iterator for Scan<'_> {
    type Item = Result<(Vec<u8>, Vec<u8>)>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.advance() {
            Ok(true) => Some(Ok((self.key().to_vec(), self.value().to_vec()))),
            Ok(false) => None,
            Err(error) => Some(Err(error)),
        }
    }
}
