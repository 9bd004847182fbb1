//! A scan through a transaction's eyes: the engine's rows at the snapshot, overlaid by its own
//! writes.

use std::cmp::Ordering;

use smallvec::SmallVec;
use spillway_base::engine::{Access, Cursor};
use spillway_base::range::successor;
use spillway_base::{Csn, Direction, KeyRange, Result, TableId};

use super::Transaction;
use super::refresh::part_read;
use crate::snapshots::Snapshot;
use crate::spill::LayerCursor;

/// A key that is kept; one that is not long takes no memory of its own.
type Key = SmallVec<[u8; 32]>;

/// Where the current row comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum At {
    Nothing,
    Engine,
    Own,
}

/// A scan in progress. It lends rows where they lie, one at a time or those that lie together; as
/// an `Iterator` it gives owned pairs.
///
/// Writes that the transaction makes while the scan is open are seen where the scan has not yet
/// come.
pub struct Scan<'t> {
    txn: &'t Transaction,
    table: TableId,
    start: Key,
    end: Option<Key>,
    direction: Direction,
    cursor: Option<Box<dyn Cursor>>,
    /// Whether the cursor stands on a row that was not given yet.
    ahead: bool,
    at: At,
    /// The last key given or passed, and the own value of the current row.
    key: Key,
    value: Vec<u8>,
    started: bool,
    /// The snapshot it reads at, where that is not the transaction's.
    snapshot: Option<Snapshot<'t>>,
    /// Where what it reads counts: at which snapshot, until it is noted.
    noting: Option<Csn>,
    /// Whether it is counted among those that the snapshot is kept for.
    counted: bool,
    /// The transaction's own spilled writes, of which version.
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
            at: At::Nothing,
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

    /// The state that it reads, where that is not the transaction's snapshot.
    #[must_use]
    pub fn state(&self) -> Option<Csn> {
        self.snapshot.as_ref().map(Snapshot::csn)
    }

    /// Whether the transaction has looked at a row that has changed since the state which this
    /// reads (NEWEST-2).
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.state().is_some_and(|state| state < self.txn.newest_read.get())
    }

    /// Has the part that was read noted when the scan ends (`serializable`).
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

    /// The last row that it gave, or passed; `None` before the first.
    fn reached(&self) -> Option<&[u8]> {
        match (self.at, &self.cursor) {
            (At::Engine, Some(cursor)) => Some(cursor.key()),
            (At::Own, _) => Some(&self.key),
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

    /// As [`Scan::advance`], from memory only if `access` says so (DESIGN, D11).
    ///
    /// # Errors
    /// As [`Transaction::get`], and [`spillway_base::ErrorKind::WouldBlock`]: there is no current
    /// row then, and the next call moves to the row that this one would have.
    #[inline]
    pub fn advance_with(&mut self, access: Access) -> Result<bool> {
        let untouched = self.txn.untouched(self.table);
        let found = match &mut self.cursor {
            Some(cursor) if untouched && !self.ahead => {
                let next = cursor.next(access);
                // From one of the engine's rows to the next nothing changes here.
                if matches!(next, Ok(true)) && self.at == At::Engine {
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

    /// The cursor has made a step, which came to so many rows. If it failed, the cursor stands on
    /// no row until one succeeds.
    fn stepped(&mut self, found: Result<usize>) -> Result<usize> {
        let stood = std::mem::replace(&mut self.at, At::Nothing) == At::Engine;
        if matches!(found, Ok(1..)) {
            self.at = At::Engine;
        } else if stood && let Some(key) = self.cursor.as_ref().and_then(|it| it.last_key()) {
            // What it stood on was passed.
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
            if let (At::Engine, Some(cursor)) = (self.at, &self.cursor) {
                self.key.clear();
                self.key.extend_from_slice(cursor.key());
                self.started = true;
            }
            self.at = At::Nothing;
            while let (false, Some(cursor)) = (self.ahead, &mut self.cursor) {
                if !cursor.next(access)? {
                    self.cursor = None;
                    break;
                }
                // What the transaction has deleted with its range is passed over.
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
                self.at = At::Engine;
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
                self.at = At::Own;
                return Ok(true);
            }
        }
    }

    /// Has the cursor over spilled writes stand on the first that the scan has not passed.
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

    /// Moves to the next rows, which lie together: at least one and at most so many. Answers how
    /// many, which is none past the last. The current row is the last of them then. `most` is at
    /// least one. Where the transaction has written to the table there is one, and where what is
    /// read counts: it counts as far as rows were asked for.
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
            self.at = At::Nothing;
            return Ok(0);
        };
        let found = cursor.next_rows(Access::Blocking, most);
        let rows = self.stepped(found)?;
        if rows == 0 {
            self.note(None)?;
        }
        Ok(rows)
    }

    /// Gives the keys and values of the rows that the last step came to, until `take` answers
    /// `false`.
    pub fn rows(&self, take: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        match (self.at, &self.cursor) {
            (At::Engine, Some(cursor)) => cursor.rows(take),
            (At::Own, _) => drop(take(&self.key, &self.value)),
            _ => {}
        }
    }

    /// The key of the current row; empty before the first and past the last.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        match (self.at, &self.cursor) {
            (At::Engine, Some(cursor)) => cursor.key(),
            (At::Own, _) => &self.key,
            _ => &[],
        }
    }

    /// The value of the current row; empty before the first and past the last.
    #[must_use]
    pub fn value(&self) -> &[u8] {
        match (self.at, &self.cursor) {
            (At::Engine, Some(cursor)) => cursor.value(),
            (At::Own, _) => &self.value,
            _ => &[],
        }
    }
}

/// An own write: its key, and its value where it is no deletion.
type Own<'o> = (&'o [u8], Option<&'o [u8]>);

/// The first of the transaction's own writes: of the buffer's next one and the next spilled one. Of
/// equal ones the buffer's is the newer.
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
