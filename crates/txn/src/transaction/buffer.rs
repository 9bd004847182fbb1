//! The uncommitted writes of a transaction.
//!
//! The buffer keeps writes in the order in which they were made, as operations of the batch that
//! the commit will log. A commit of a few writes to different keys takes this batch as it is. A
//! rollback to a savepoint removes the last writes from the same list.
//!
//! In a small buffer a lookup searches the writes one by one. With more than [`INDEX_FROM`] writes,
//! the buffer also keeps an index by table and key. The commit then rebuilds the batch in the order
//! of the index, so that engines receive neighbouring keys together. The simpler design, an index
//! from the first write on, was rejected: most transactions write one or two rows, and the index
//! costs them more than their locks.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};

use rustc_hash::FxHashSet;
use smallvec::SmallVec;
use spillway_base::batch::{Op, WriteBatch, bytes_after_row};
use spillway_base::codec::varint_len;
use spillway_base::{Csn, Direction, KeyRange, TableId};

use crate::spill::OtherWrites;

/// Up to this many writes are searched one by one.
const INDEX_FROM: usize = 16;

/// A thread keeps the memory of its last batch for the next one, if it is at most this many bytes.
const SPARE_BYTES: usize = 4 << 10;

thread_local! {
    static SPARE: Cell<WriteBatch> = const { Cell::new(WriteBatch::new()) };
}

/// Keeps the memory of a committed batch.
pub(super) fn recycle(batch: WriteBatch) {
    if batch.capacity() <= SPARE_BYTES {
        // A thread that is exiting keeps nothing.
        let _ = SPARE.try_with(|spare| spare.set(batch.cleared()));
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WriteKind {
    Put,
    Delete,
    Range,
    Create,
    Drop,
}

/// One operation of the batch.
#[derive(Clone, Copy)]
struct BufferEntry {
    kind: WriteKind,
    table: TableId,
    /// The offset of its key in the batch.
    key_at: usize,
    key_len: u32,
    value_len: u32,
    /// The earlier entry of the same key, which this entry replaces.
    before: Option<EntryAt>,
}

/// The position of an entry in the list, counted from one.
type EntryAt = std::num::NonZeroU32;

impl BufferEntry {
    fn key<'b>(&self, batch: &'b [u8]) -> &'b [u8] {
        &batch[self.key_at..][..self.key_len as usize]
    }

    fn value<'b>(&self, batch: &'b [u8]) -> Option<&'b [u8]> {
        let at = self.key_at + self.key_len as usize + varint_len(u64::from(self.value_len));
        (self.kind == WriteKind::Put).then(|| &batch[at..][..self.value_len as usize])
    }

    fn is_write(&self) -> bool {
        matches!(self.kind, WriteKind::Put | WriteKind::Delete)
    }

    fn bytes(&self) -> usize {
        let held = WriteBuffer::ENTRY_BYTES + (self.key_len + self.value_len) as usize;
        if self.is_write() { held } else { 0 }
    }
}

/// A range deleted as one operation. It hides the versions up to `upto`.
pub(super) struct DeletedRange {
    pub(super) table: TableId,
    pub(super) start: Box<[u8]>,
    pub(super) end: Option<Box<[u8]>>,
    pub(super) upto: Csn,
}

impl DeletedRange {
    fn keys(&self) -> KeyRange<'_> {
        KeyRange::new(&self.start, self.end.as_deref())
    }

    fn bytes(&self) -> usize {
        WriteBuffer::ENTRY_BYTES + self.start.len() + self.end.as_ref().map_or(0, |end| end.len())
    }
}

/// The newest entry of each key.
type Index = BTreeMap<TableId, BTreeMap<Box<[u8]>, EntryAt>>;

/// The writes of a transaction, in order.
#[derive(Default)]
pub(super) struct WriteBuffer {
    batch: WriteBatch,
    entries: SmallVec<[BufferEntry; 4]>,
    index: Option<Box<Index>>,
    /// How many entries replace another one.
    replacing: usize,
    /// In the order of their deletion.
    ranges: Vec<DeletedRange>,
    /// The ranges from this index on belong to one table, ascend by key, and do not overlap.
    ascending_from: usize,
    created: Vec<TableId>,
    dropped: Vec<TableId>,
    bytes: usize,
    /// Whether the batch no longer has exactly the writes of this buffer, so that the commit has to
    /// rebuild it.
    rearranged: bool,
}

impl WriteBuffer {
    /// The estimated size of an entry without its key and value.
    pub(super) const ENTRY_BYTES: usize = 128;

    /// Bytes held, estimated.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
            && self.created.is_empty()
            && self.dropped.is_empty()
            && self.ranges.is_empty()
    }

    /// The number of tables created and dropped, and of ranges deleted, after the first `entries`
    /// entries. `start` has the numbers before the first entry.
    pub(super) fn other_writes(&self, entries: usize, start: OtherWrites) -> OtherWrites {
        let mut other = start;
        for entry in &self.entries[..entries] {
            match entry.kind {
                WriteKind::Create => other.created += 1,
                WriteKind::Drop => other.dropped += 1,
                WriteKind::Range => other.ranges += 1,
                WriteKind::Put | WriteKind::Delete => {}
            }
        }
        other
    }

    /// The newest write of each key among some of the entries, ordered by table and key.
    pub(super) fn newest_of(&self, entries: std::ops::Range<usize>) -> Vec<usize> {
        let batch = self.batch.as_bytes();
        let of = |at: &usize| {
            let entry = &self.entries[*at];
            (entry.table, entry.key(batch))
        };
        let mut writes: Vec<usize> = entries.filter(|at| self.entries[*at].is_write()).collect();
        writes.sort_by(|one, two| of(one).cmp(&of(two)).then(two.cmp(one)));
        writes.dedup_by(|two, one| of(one) == of(two));
        writes
    }

    /// A write among the entries.
    pub(super) fn write_at(&self, at: usize) -> (TableId, &[u8], Option<&[u8]>) {
        let (entry, batch) = (&self.entries[at], self.batch.as_bytes());
        (entry.table, entry.key(batch), entry.value(batch))
    }

    /// Forgets the writes of single keys, which were spilled. The writes of other kinds stay;
    /// [`WriteBuffer::keep_only`] undoes them.
    pub(super) fn forget_writes(&mut self) {
        self.batch = WriteBatch::new();
        self.entries = SmallVec::new();
        self.index = None;
        self.replacing = 0;
        self.bytes = self.ranges.iter().map(DeletedRange::bytes).sum();
        self.rearranged = true;
    }

    /// Forgets the writes of single keys, and the other writes beyond the counts in `other`.
    pub(super) fn keep_only(&mut self, other: OtherWrites) {
        self.created.truncate(other.created);
        self.dropped.truncate(other.dropped);
        self.ranges.truncate(other.ranges);
        self.ascending_from = self.ascending_from.min(self.ranges.len());
        self.forget_writes();
    }

    /// Removes the deleted ranges of some tables. No savepoint may be rolled back to afterwards.
    pub(super) fn take_ranges(&mut self, of: impl Fn(TableId) -> bool) -> Vec<DeletedRange> {
        let (taken, left) =
            std::mem::take(&mut self.ranges).into_iter().partition(|range| of(range.table));
        self.ranges = left;
        self.ascending_from = self.ranges.len();
        self.rearranged = true;
        taken
    }

    /// Whether this transaction created the table.
    pub(super) fn created(&self, table: TableId) -> bool {
        self.created.contains(&table)
    }

    /// Forgets everything, for the next transaction.
    pub(super) fn clear(&mut self) {
        if self.index.is_some() || self.entries.spilled() || !self.ranges.is_empty() {
            *self = WriteBuffer::default();
            return;
        }
        self.batch = WriteBatch::new();
        self.entries.clear();
        self.created.clear();
        self.dropped.clear();
        (self.replacing, self.bytes, self.ascending_from) = (0, 0, 0);
        self.rearranged = false;
    }

    fn at(&self, at: EntryAt) -> &BufferEntry {
        &self.entries[at.get() as usize - 1]
    }

    /// The writes in order, with their places.
    fn writes(
        &self,
    ) -> impl DoubleEndedIterator<Item = (EntryAt, &BufferEntry)> + ExactSizeIterator {
        self.entries.iter().enumerate().map(|(at, entry)| (place(at), entry))
    }

    /// The newest write of a key.
    fn find(&self, table: TableId, key: &[u8]) -> Option<EntryAt> {
        if let Some(index) = &self.index {
            return index.get(&table)?.get(key).copied();
        }
        let batch = self.batch.as_bytes();
        let same = |entry: &BufferEntry| {
            entry.table == table && entry.is_write() && entry.key(batch) == key
        };
        self.writes().rev().find(|(_, entry)| same(entry)).map(|(at, _)| at)
    }

    /// The entry for a key: `None` if there is none, `Some(None)` for a deletion.
    pub(super) fn get(&self, table: TableId, key: &[u8]) -> Option<Option<&[u8]>> {
        let at = self.find(table, key)?;
        Some(self.at(at).value(self.batch.as_bytes()))
    }

    /// Key and value are shorter than 4 GiB.
    pub(super) fn put(&mut self, table: TableId, key: &[u8], value: Option<&[u8]>) {
        if self.batch.capacity() == 0 {
            self.batch = SPARE.try_with(Cell::take).unwrap_or_default();
        }
        let before = self.find(table, key);
        push(&mut self.batch, table, key, value);
        let end = self.batch.as_bytes().len();
        let after_key = value.map_or(0, |value| varint_len(value.len() as u64) + value.len());
        let kind = if value.is_some() { WriteKind::Put } else { WriteKind::Delete };
        let key_at = end - bytes_after_row(table) - after_key - key.len();
        let (key_len, value_len) = (key.len() as u32, value.map_or(0, <[u8]>::len) as u32);
        let entry = BufferEntry { kind, table, key_at, key_len, value_len, before };
        self.bytes += entry.bytes();
        self.replacing += usize::from(before.is_some());
        self.entries.push(entry);
        let at = place(self.entries.len() - 1);
        match &mut self.index {
            Some(index) => {
                index.entry(table).or_default().insert(key.into(), at);
            }
            None if self.entries.len() > INDEX_FROM => self.index = Some(Box::new(self.indexed())),
            None => {}
        }
    }

    fn indexed(&self) -> Index {
        let mut index = Index::new();
        for (at, entry) in self.writes().filter(|(_, entry)| entry.is_write()) {
            let key = entry.key(self.batch.as_bytes());
            index.entry(entry.table).or_default().insert(key.into(), at);
        }
        index
    }

    /// Deletes what a snapshot sees of a range, which is not empty. Writes in this buffer are
    /// unaffected.
    pub(super) fn delete_range(&mut self, table: TableId, range: KeyRange<'_>, upto: Csn) {
        let (start, end) = (range.start.into(), range.end.map(Into::into));
        let deleted = DeletedRange { table, start, end, upto };
        self.bytes += deleted.bytes();
        let follows = |last: &DeletedRange| {
            last.table == table && last.end.as_ref().is_some_and(|end| **end <= *deleted.start)
        };
        if !self.ranges.last().is_some_and(follows) {
            self.ascending_from = self.ranges.len();
        }
        self.ranges.push(deleted);
        self.push_other(WriteKind::Range, Op::DeleteRange { table, range, upto });
    }

    /// Whether a deleted range hides a version that another transaction committed.
    pub(super) fn hides(&self, table: TableId, key: &[u8], version: Csn) -> bool {
        let hides = |range: &DeletedRange| {
            range.table == table && version <= range.upto && range.keys().contains(key)
        };
        // A scan calls this for each row, while its statement adds ranges in ascending order. So
        // the ascending ranges are searched by bisection.
        let (mixed, ascending) = self.ranges.split_at(self.ascending_from.min(self.ranges.len()));
        let at =
            ascending.partition_point(|range| range.end.as_ref().is_some_and(|end| **end <= *key));
        ascending.get(at).is_some_and(hides) || mixed.iter().any(hides)
    }

    /// The number of ranges deleted as one operation.
    pub(super) fn ranges(&self) -> usize {
        self.ranges.len()
    }

    pub(super) fn create(&mut self, table: TableId) {
        self.created.push(table);
        self.push_other(WriteKind::Create, Op::CreateTable(table));
    }

    pub(super) fn drop_table(&mut self, table: TableId) {
        self.dropped.push(table);
        self.push_other(WriteKind::Drop, Op::DropTable(table));
    }

    fn push_other(&mut self, kind: WriteKind, op: Op<'_>) {
        self.batch.push(op);
        let (table, key_at) = (op.table(), self.batch.as_bytes().len());
        self.entries.push(BufferEntry {
            kind,
            table,
            key_at,
            key_len: 0,
            value_len: 0,
            before: None,
        });
    }

    pub(super) fn mark(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn undo_to(&mut self, mark: usize) {
        while self.entries.len() > mark {
            let Some(entry) = self.entries.pop() else { return };
            match entry.kind {
                WriteKind::Put | WriteKind::Delete => self.undo_write(&entry),
                WriteKind::Range => {
                    self.bytes -= self.ranges.pop().map_or(0, |range| range.bytes());
                    self.ascending_from = self.ascending_from.min(self.ranges.len());
                }
                WriteKind::Create => drop(self.created.pop()),
                WriteKind::Drop => drop(self.dropped.pop()),
            }
        }
        let end = |entry: &BufferEntry| match entry.kind {
            WriteKind::Put | WriteKind::Delete => {
                let value = entry.value(self.batch.as_bytes());
                let after = value.map_or(0, |value| varint_len(value.len() as u64) + value.len());
                entry.key_at + entry.key_len as usize + after + bytes_after_row(entry.table)
            }
            WriteKind::Range | WriteKind::Create | WriteKind::Drop => entry.key_at,
        };
        let end = self.entries.last().map_or(0, end);
        self.batch.truncate(self.entries.len(), end);
    }

    fn undo_write(&mut self, entry: &BufferEntry) {
        self.bytes -= entry.bytes();
        self.replacing -= usize::from(entry.before.is_some());
        let Some(index) = &mut self.index else { return };
        let Some(keys) = index.get_mut(&entry.table) else { return };
        let key = entry.key(self.batch.as_bytes());
        match (entry.before, keys.get_mut(key)) {
            (Some(before), Some(at)) => *at = before,
            _ => drop(keys.remove(key)),
        }
        if keys.is_empty() {
            index.remove(&entry.table);
        }
    }

    /// The first entry of the range after `last` in the direction, as key and value.
    pub(super) fn after(
        &self,
        table: TableId,
        range: KeyRange<'_>,
        last: Option<&[u8]>,
        direction: Direction,
    ) -> Option<(&[u8], Option<&[u8]>)> {
        let batch = self.batch.as_bytes();
        let (mut start, mut end) =
            (Bound::Included(range.start), range.end.map_or(Bound::Unbounded, Bound::Excluded));
        match (direction, last) {
            (Direction::Forward, Some(last)) => start = Bound::Excluded(last),
            (Direction::Backward, Some(last)) => end = Bound::Excluded(last),
            (_, None) => {}
        }
        let Some(index) = &self.index else {
            let inside = |key: &[u8]| RangeBounds::<[u8]>::contains(&(start, end), key);
            let found = self.writes().filter(|(_, entry)| entry.is_write() && entry.table == table);
            let found = found.map(|(_, entry)| entry).filter(|entry| inside(entry.key(batch)));
            // Of several writes of a key, the last one counts.
            let first = found.reduce(|best, entry| {
                let (key, to_beat) = (entry.key(batch), best.key(batch));
                let better = match direction {
                    Direction::Forward => key <= to_beat,
                    Direction::Backward => key >= to_beat,
                };
                if better { entry } else { best }
            })?;
            return Some((first.key(batch), first.value(batch)));
        };
        if is_empty(start, end) {
            return None;
        }
        let mut found = index.get(&table)?.range::<[u8], _>((start, end));
        let (key, at) = match direction {
            Direction::Forward => found.next(),
            Direction::Backward => found.next_back(),
        }?;
        Some((key, self.at(*at).value(batch)))
    }

    /// Whether the buffer has no write to a table.
    pub(super) fn untouched(&self, table: TableId) -> bool {
        if self.ranges.iter().any(|range| range.table == table) {
            return false;
        }
        match &self.index {
            Some(index) => !index.contains_key(&table),
            None => !self.entries.iter().any(|entry| entry.is_write() && entry.table == table),
        }
    }

    /// The tables written to that existed before; some may be repeated.
    pub(super) fn touched(&self) -> impl Iterator<Item = TableId> {
        let indexed = self.index.iter().flat_map(|index| index.keys().copied());
        let few = if self.index.is_some() { &[] } else { &self.entries[..] };
        let few = few.iter().filter(|entry| entry.is_write()).map(|entry| entry.table);
        let there = |table: &TableId| !self.created.contains(table);
        let ranges = self.ranges.iter().map(|range| range.table);
        indexed.chain(few).chain(ranges).chain(self.dropped.iter().copied()).filter(there)
    }

    /// The tables dropped.
    pub(super) fn dropped(&self) -> &[TableId] {
        &self.dropped
    }

    /// All writes as one batch: new tables, deleted ranges, the last write of each key, dropped
    /// tables. Afterwards the buffer knows only which tables it touched.
    ///
    /// If it deleted ranges, it keeps everything, and the call may be repeated.
    pub(super) fn take_batch(&mut self) -> WriteBatch {
        if !self.ranges.is_empty() {
            return self.arranged(self.batch.as_bytes());
        }
        let batch = std::mem::take(&mut self.batch);
        let as_made = self.index.is_none()
            && self.replacing == 0
            && self.created.is_empty()
            && self.dropped.is_empty()
            && !self.rearranged;
        if as_made { batch } else { self.arranged(batch.as_bytes()) }
    }

    fn arranged(&self, made: &[u8]) -> WriteBatch {
        let mut batch = WriteBatch::new();
        let dropped: FxHashSet<TableId> = self.dropped.iter().copied().collect();
        let lived = |table: TableId| !dropped.contains(&table);
        for table in self.created.iter().filter(|table| lived(**table)) {
            batch.push(Op::CreateTable(*table));
        }
        for range in self.ranges.iter().filter(|range| lived(range.table)) {
            let (table, range, upto) = (range.table, range.keys(), range.upto);
            batch.push(Op::DeleteRange { table, range, upto });
        }
        let mut write = |entry: &BufferEntry| {
            if lived(entry.table) {
                push(&mut batch, entry.table, entry.key(made), entry.value(made));
            }
        };
        match &self.index {
            Some(index) => {
                index.values().flat_map(BTreeMap::values).for_each(|at| write(self.at(*at)))
            }
            None => {
                let replaced = |at| self.entries.iter().any(|entry| entry.before == Some(at));
                self.writes()
                    .filter(|(at, entry)| entry.is_write() && !replaced(*at))
                    .for_each(|(_, entry)| write(entry));
            }
        }
        for table in self.dropped.iter().filter(|table| !self.created.contains(table)) {
            batch.push(Op::DropTable(*table));
        }
        batch
    }
}

fn place(at: usize) -> EntryAt {
    let counted = u32::try_from(at + 1).ok().and_then(EntryAt::new);
    counted.expect("the bytes of a transaction bound the number of its writes")
}

fn push(batch: &mut WriteBatch, table: TableId, key: &[u8], value: Option<&[u8]>) {
    batch.push(match value {
        Some(value) => Op::Put { table, key, value },
        None => Op::Delete { table, key },
    });
}

/// Whether no key lies between these bounds. A map panics on such bounds.
fn is_empty(start: Bound<&[u8]>, end: Bound<&[u8]>) -> bool {
    let of = |bound| match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
        Bound::Unbounded => None,
    };
    let (Some(from), Some(to)) = (of(start), of(end)) else { return false };
    let both = matches!((start, end), (Bound::Included(_), Bound::Included(_)));
    from > to || (from == to && !both)
}

#[cfg(all(test, not(loom)))]
mod tests;
