//! Moves a snapshot forward instead of failing with a conflict.
//!
//! Under REPEATABLE READ a transaction must not overwrite a row that is newer than its snapshot,
//! because its decisions depend on its reads at that snapshot. But if everything that the
//! transaction has read is the same in the newest state, it would decide the same there. So it
//! takes the newest state as its snapshot and continues, as CockroachDB's transactions do (Taft et
//! al., SIGMOD 2020, 3.4: read refreshes).
//!
//! - **REFRESH-1 (when).** If every key and range that the transaction has read at its snapshot is
//!   the same in the newest state, [`Transaction::refresh`] makes the newest state its snapshot.
//!   Otherwise it keeps the old snapshot and returns `false`. An operation that would return
//!   [`spillway_base::ErrorKind::WriteConflict`] tries a refresh first.
//! - **REFRESH-2 (reads).** A refresh compares each key that was looked up, whether the key existed
//!   or not, and the scanned part of each range: the part that the scan has passed, or the whole
//!   range once the scan has reported its end. It does not compare reads of the transaction's own
//!   writes, or of rows that the transaction has locked. No other transaction can have changed
//!   those rows.
//! - **REFRESH-3 (sameness).** The two states are the snapshot and the newest state. A key is the
//!   same in both in each of these cases:
//!   - the key has no version above the snapshot;
//!   - the key exists in neither state;
//!   - the key exists in both, with equal bytes, or with equal values in the columns that were read
//!     ([`Transaction::reads_columns`]).
//!
//!   A range is the same if it has the same keys in both states, and each key is the same.
//! - **REFRESH-4 (bounded).** A transaction remembers at most [`READS_MAX`] keys and ranges, in at
//!   most [`BYTES_MAX`] bytes. The bytes beyond the first [`FREE_BYTES`] are charged to the budget.
//!   A refresh compares at most [`ROWS_MAX`] rows of ranges. Beyond one of these limits, or if the
//!   budget has no room, the transaction does not refresh. It does not refresh either if a table
//!   that it has read has an overlay ([`crate::spill`]), because the comparison does not read
//!   overlays.
//! - **REFRESH-5 (who).** A transaction refreshes only under REPEATABLE READ, and only if it may
//!   write, does not act on the newest versions, and has no option to keep its snapshot. Under
//!   SERIALIZABLE the snapshot stays, because the transaction manager tracks dependencies instead.
//! - **REFRESH-6 (others).** A refresh takes no row lock and no mutex, and blocks no other
//!   transaction. Both states are registered as snapshots during the comparison.
//! - **REFRESH-7 (scans).** A transaction does not refresh while it has a scan at its snapshot
//!   open, because the scan continues at that snapshot.
//!
//! A refresh is correct for this reason: the transaction's reads are the same in the newer state,
//! so all of them could have been made there. The transaction's writes depend on these reads and on
//! rows that it has locked, and the newer state has the newest versions of the locked rows.
//!
//! Rejected: to remember the bytes of the rows, or hashes of them, together with the keys. This
//! would take more memory than the keys alone. The keys suffice, because both states can still be
//! read when they are compared.

use smallvec::SmallVec;
use spillway_base::budget::{Charge, Use};
use spillway_base::engine::{Access, Cursor, Engine, Found};
use spillway_base::range::successor;
use spillway_base::{Csn, Direction, KeyRange, Result, TableId};

use super::Transaction;
use crate::options::Isolation;
use crate::snapshots::Live;

/// The most keys and ranges that are remembered.
const READS_MAX: usize = 4096;
/// The most bytes that they take.
const BYTES_MAX: usize = 128 << 10;
/// The first bytes of them, which are not charged, as for a transaction's writes
/// ([`super::FREE_BYTES`]).
const FREE_BYTES: usize = 4 << 10;
/// The budget is charged in steps of this many bytes.
const CHARGE_STEP: usize = 16 << 10;
/// The most rows of ranges that a refresh compares.
const ROWS_MAX: usize = 10_000;

/// Which columns of a table's rows are read, for callers that know about columns.
#[derive(Clone, Copy, Debug)]
pub struct ColumnsRead {
    /// A bit for each column; all bits for whole rows.
    pub columns: u64,
    /// The row layout that the bits refer to.
    pub layout: u16,
    /// Whether two rows have equal values in these columns of this layout.
    pub same: fn(&ColumnsRead, &[u8], &[u8]) -> bool,
}

impl ColumnsRead {
    /// Whole rows.
    pub const ALL: ColumnsRead =
        ColumnsRead { columns: u64::MAX, layout: 0, same: |_, old, new| old == new };

    /// Whether two rows are equal as far as they were read.
    fn are_same(&self, old: &[u8], new: &[u8]) -> bool {
        old == new || (self.columns != u64::MAX && (self.same)(self, old, new))
    }

    /// The union of both.
    fn and(self, other: ColumnsRead) -> ColumnsRead {
        if self.columns == u64::MAX || other.columns == u64::MAX || self.layout != other.layout {
            return ColumnsRead::ALL;
        }
        ColumnsRead { columns: self.columns | other.columns, ..self }
    }
}

/// A key that was read, or a range. Its bytes are in [`Reads::bytes`].
struct Read {
    table: TableId,
    columns: ColumnsRead,
    start: u32,
    /// Where its key, or the first key of its range, ends, and the end of the range begins.
    middle: u32,
    end: u32,
    kind: ReadKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum ReadKind {
    Key,
    Range,
    /// A range with no end.
    Open,
}

/// The reads of a transaction at its snapshot.
#[derive(Default)]
pub(super) struct Reads {
    reads: Vec<Read>,
    bytes: Vec<u8>,
    /// Whether there were more reads than may be remembered.
    overflowed: bool,
    charge: Option<Charge>,
    /// The columns that the statement reads of tables, if not whole rows.
    columns: SmallVec<[(TableId, ColumnsRead); 2]>,
}

/// A position in a transaction's list of reads.
#[derive(Clone, Copy, Debug)]
pub struct ReadsMark(usize);

impl Reads {
    /// Forgets all reads: their snapshot no longer exists.
    pub(super) fn clear(&mut self) {
        let keeps = self.charge.is_none();
        self.reads.clear();
        self.bytes.clear();
        self.overflowed = false;
        if !keeps {
            (self.reads, self.bytes, self.charge) = (Vec::new(), Vec::new(), None);
        }
    }

    pub(super) fn begin_statement(&mut self) {
        self.columns.clear();
    }

    fn columns_of(&self, table: TableId) -> ColumnsRead {
        let found = self.columns.iter().find(|(other, _)| *other == table);
        found.map_or(ColumnsRead::ALL, |(_, columns)| *columns)
    }

    fn key(&self, read: &Read) -> &[u8] {
        &self.bytes[read.start as usize..read.middle as usize]
    }

    fn end(&self, read: &Read) -> &[u8] {
        &self.bytes[read.middle as usize..read.end as usize]
    }

    /// Remembers a key, or a range with its end, if there is room; `charge` gives room beyond the
    /// free bytes.
    fn push(
        &mut self,
        table: TableId,
        (start, end): (&[u8], Option<&[u8]>),
        kind: ReadKind,
        charge: impl FnOnce(usize) -> Option<Charge>,
    ) {
        let columns = self.columns_of(table);
        if let Some(last) = self.reads.last()
            && kind == ReadKind::Key
            && last.kind == kind
            && last.table == table
            && last.columns.columns == columns.columns
            && self.key(last) == start
        {
            return;
        }
        let more = size_of::<Read>() + start.len() + end.map_or(0, <[u8]>::len);
        let need = self.reads.len() * size_of::<Read>() + self.bytes.len() + more;
        if self.reads.len() == READS_MAX || need > BYTES_MAX || !self.make_room(need, charge) {
            self.overflow();
            return;
        }
        let from = self.bytes.len() as u32;
        self.bytes.extend_from_slice(start);
        let middle = self.bytes.len() as u32;
        self.bytes.extend_from_slice(end.unwrap_or_default());
        let end = self.bytes.len() as u32;
        self.reads.push(Read { table, columns, start: from, middle, end, kind });
    }

    /// Whether this many bytes are free, or can be charged.
    fn make_room(&mut self, need: usize, charge: impl FnOnce(usize) -> Option<Charge>) -> bool {
        // The capacity of a vector may be twice its length.
        let (need, have) = (2 * need, self.charge.as_ref().map_or(0, Charge::bytes));
        if need <= FREE_BYTES.max(have) {
            return true;
        }
        let want = need.next_multiple_of(CHARGE_STEP);
        let Some(more) = charge(want - have) else { return false };
        match &mut self.charge {
            charge @ None => *charge = Some(more),
            Some(charge) => {
                drop(more);
                charge.resize(want);
            }
        }
        true
    }

    fn overflow(&mut self) {
        self.reads = Vec::new();
        self.bytes = Vec::new();
        self.charge = None;
        self.overflowed = true;
    }
}

impl Transaction {
    /// Whether it remembers its reads (REFRESH-5).
    #[inline]
    pub(super) fn remembers_reads(&self) -> bool {
        self.options.isolation == Isolation::RepeatableRead
            && !self.options.read_only
            && !self.options.keeps_snapshot
            && !self.options.acts_on_newest
    }

    /// Notes a key that was looked up at the snapshot.
    #[inline]
    pub(super) fn note_read(&self, table: TableId, key: &[u8]) {
        if self.remembers_reads() {
            self.remember(table, (key, None), ReadKind::Key);
        }
    }

    /// Notes a range, or the part of one that a scan has passed.
    pub(super) fn note_range_read(&self, table: TableId, range: KeyRange<'_>) {
        let kind = if range.end.is_some() { ReadKind::Range } else { ReadKind::Open };
        self.remember(table, (range.start, range.end), kind);
    }

    fn charge_reads(&self, bytes: usize) -> Option<Charge> {
        // Does not wait for room: without room there is only no refresh.
        self.shared().budget.try_charge(Use::Transactions, bytes).ok()
    }

    fn remember(&self, table: TableId, keys: (&[u8], Option<&[u8]>), kind: ReadKind) {
        let mut reads = self.reads.borrow_mut();
        if !reads.overflowed {
            reads.push(table, keys, kind, |bytes| self.charge_reads(bytes));
        }
    }

    /// States which columns of a table's rows the statement reads, in addition to those stated
    /// before; a refresh compares only these. Without such a statement it compares whole rows. The
    /// statement ends where the next begins ([`Transaction::begin_statement`]).
    pub fn reads_columns(&self, table: TableId, columns: ColumnsRead) {
        if !self.remembers_reads() {
            return;
        }
        let mut reads = self.reads.borrow_mut();
        match reads.columns.iter_mut().find(|(other, _)| *other == table) {
            Some((_, said)) => *said = said.and(columns),
            None => reads.columns.push((table, columns)),
        }
    }

    /// The current position in the list of reads.
    #[must_use]
    pub fn reads_mark(&self) -> ReadsMark {
        ReadsMark(self.reads.borrow().reads.len())
    }

    /// Forgets the reads since a mark: no client has seen them, and they will be repeated.
    pub fn forget_reads(&self, since: ReadsMark) {
        let mut reads = self.reads.borrow_mut();
        if let Some(first) = reads.reads.get(since.0) {
            let start = first.start as usize;
            reads.reads.truncate(since.0);
            reads.bytes.truncate(start);
        }
    }

    /// Makes the newest state the transaction's snapshot, if all that it has read is the same there
    /// (REFRESH-1). Returns whether it did.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn refresh(&self) -> Result<bool> {
        let able =
            self.remembers_reads() && self.scans_open.get() == 0 && !self.reads.borrow().overflowed;
        let old = self.snapshot.borrow().as_ref().map(Live::csn);
        let Some(old) = old.filter(|_| able) else { return Ok(false) };
        let newer = self.shared().snapshots.register(self.reader(), || self.shared().newest());
        let same = self.are_same(old, newer.csn());
        if !matches!(same, Ok(true)) {
            self.shared().snapshots.release(newer);
            return same;
        }
        self.hold(Some(newer));
        // The new snapshot sees the newest version of every locked row.
        self.unchecked.set(false);
        Ok(true)
    }

    /// Whether all reads at one snapshot are the same at another (REFRESH-3).
    fn are_same(&self, old: Csn, new: Csn) -> Result<bool> {
        let reads = self.reads.borrow();
        let mut rows = ROWS_MAX;
        for read in &reads.reads {
            if self.shared().overlays.covers(read.table) {
                // The comparison below reads no overlays, so it does not apply to this table.
                return Ok(false);
            }
            let engine = &**self.engine(read.table)?;
            let (key, end) = (reads.key(read), reads.end(read));
            let same = match read.kind {
                ReadKind::Key => is_same_key(engine, read, key, (old, new))?,
                ReadKind::Range => {
                    let range = KeyRange::new(key, Some(end));
                    is_same_range(engine, read, range, (old, new), &mut rows)?
                }
                ReadKind::Open => {
                    let range = KeyRange::new(key, None);
                    is_same_range(engine, read, range, (old, new), &mut rows)?
                }
            };
            if !same {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

fn is_same_key(
    engine: &dyn Engine,
    read: &Read,
    key: &[u8],
    (old, new): (Csn, Csn),
) -> Result<bool> {
    let (mut was, mut is) = (Vec::new(), Vec::new());
    let newer = engine.get(read.table, key, new, Access::Blocking, &mut is)?;
    if newer.csn() <= Some(old) && newer != Found::Nothing {
        return Ok(true);
    }
    let older = engine.get(read.table, key, old, Access::Blocking, &mut was)?;
    Ok(match (older.is_value(), newer.is_value()) {
        (false, false) => true,
        (true, true) => read.columns.are_same(&was, &is),
        _ => false,
    })
}

/// Compares at most `rows` rows, and subtracts the number of compared rows from it.
fn is_same_range(
    engine: &dyn Engine,
    read: &Read,
    range: KeyRange<'_>,
    (old, new): (Csn, Csn),
    rows: &mut usize,
) -> Result<bool> {
    let open = |at| engine.scan(read.table, range, Direction::Forward, at, Access::Blocking);
    let (mut was, mut is) = (open(old)?, open(new)?);
    loop {
        let (before, after) = (was.next(Access::Blocking)?, is.next(Access::Blocking)?);
        if !before && !after {
            return Ok(true);
        }
        if before != after || *rows == 0 || !is_same_row(read, &*was, &*is, old) {
            return Ok(false);
        }
        *rows -= 1;
    }
}

fn is_same_row(read: &Read, was: &dyn Cursor, is: &dyn Cursor, old: Csn) -> bool {
    was.key() == is.key() && (is.csn() <= old || read.columns.are_same(was.value(), is.value()))
}

/// The part of a range that a scan has passed, up to the last row that it returned.
pub(super) fn part_read<'r>(
    range: KeyRange<'r>,
    last: Option<&'r [u8]>,
    direction: Direction,
    past: &'r mut Vec<u8>,
) -> KeyRange<'r> {
    match (last, direction) {
        (None, _) => range,
        (Some(last), Direction::Forward) => {
            *past = successor(last);
            KeyRange::new(range.start, Some(past))
        }
        (Some(last), Direction::Backward) => KeyRange::new(last, range.end),
    }
}
