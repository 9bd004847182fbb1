//! The keys and ranges that SERIALIZABLE transactions have read and written.
//!
//! A note of a key takes some 150 bytes, and a transaction may read millions of keys. So a
//! transaction with many notes folds them: of each table, the keys and ranges that it has read
//! become one range, from the least key to the greatest, and those that it has written become
//! another. Such a range also covers keys that the transaction did not touch. So folded notes show
//! dependencies that do not exist, and some harmless transactions are refused. But folded notes
//! also show every dependency that notes of single keys show (SSI-2).

use std::collections::{BTreeMap, HashMap, HashSet};

use spillway_base::range::successor;
use spillway_base::{KeyRange, TableId};

/// The number of a transaction.
pub(super) type TransactionId = u64;

/// A key of a table.
pub(super) type Point = (TableId, Box<[u8]>);

/// The size of a key's note without the key: the key's place in a map with its free places, the
/// list of transactions, and the allocator's overhead.
pub(super) const POINT_BYTES: usize = 144;

/// The size of a range's note without its ends.
const RANGE_BYTES: usize = 160;

struct NotedRange {
    table: TableId,
    start: Box<[u8]>,
    /// `None` for the end of the table.
    end: Option<Box<[u8]>>,
    of: TransactionId,
}

impl NotedRange {
    fn has(&self, table: TableId, key: &[u8]) -> bool {
        self.table == table && *self.start <= *key && self.end.as_ref().is_none_or(|end| key < end)
    }

    fn meets(&self, table: TableId, range: KeyRange<'_>) -> bool {
        self.table == table
            && range.end.is_none_or(|end| *self.start < *end)
            && self.end.as_ref().is_none_or(|end| range.start < &**end)
    }

    fn bytes(&self) -> usize {
        RANGE_BYTES + self.start.len() + self.end.as_ref().map_or(0, |end| end.len())
    }

    /// Extends it so that it covers another range of its table.
    fn join(&mut self, start: &[u8], end: Option<&[u8]>) {
        if start < &*self.start {
            self.start = start.into();
        }
        self.end = match (self.end.take(), end) {
            (Some(own), Some(end)) => Some(if *own < *end { end.into() } else { own }),
            _ => None,
        };
    }
}

/// One range for each table.
#[derive(Default)]
struct Folded(BTreeMap<TableId, NotedRange>);

impl Folded {
    fn add(&mut self, of: TransactionId, table: TableId, start: &[u8], end: Option<&[u8]>) {
        let new = || NotedRange { table, start: start.into(), end: end.map(Into::into), of };
        self.0.entry(table).or_insert_with(new).join(start, end);
    }
}

/// Notes of one kind, reads or writes.
#[derive(Default)]
struct NotesOfKind {
    points: BTreeMap<Point, Vec<TransactionId>>,
    ranges: Vec<NotedRange>,
    folded: Vec<NotedRange>,
}

impl NotesOfKind {
    fn all_ranges(&self) -> impl Iterator<Item = &NotedRange> {
        self.ranges.iter().chain(&self.folded)
    }

    /// Returns the bytes that the note takes.
    fn note(&mut self, id: TransactionId, point: Point) -> usize {
        if self.folded.iter().any(|range| range.of == id && range.has(point.0, &point.1)) {
            return 0;
        }
        let bytes = POINT_BYTES + point.1.len();
        let ids = self.points.entry(point).or_default();
        if ids.contains(&id) {
            return 0;
        }
        ids.push(id);
        bytes
    }

    fn of_point(&self, table: TableId, key: &[u8]) -> Vec<TransactionId> {
        let point = (table, key.into());
        let mut ids = self.points.get(&point).cloned().unwrap_or_default();
        let ranges = self.all_ranges().filter(|range| range.has(table, key));
        ids.extend(ranges.map(|range| range.of));
        ids
    }

    fn of_range(&self, table: TableId, range: KeyRange<'_>) -> Vec<TransactionId> {
        let from: Point = (table, range.start.into());
        let points = self
            .points
            .range(from..)
            .take_while(|((at, key), _)| *at == table && range.end.is_none_or(|end| **key < *end));
        let mut ids: Vec<TransactionId> = points.flat_map(|(_, ids)| ids.iter().copied()).collect();
        let ranges = self.all_ranges().filter(|span| span.meets(table, range));
        ids.extend(ranges.map(|span| span.of));
        ids
    }

    fn keep(&mut self, known: impl Fn(TransactionId) -> bool) {
        self.points.retain(|_, ids| {
            ids.retain(|id| known(*id));
            !ids.is_empty()
        });
        self.ranges.retain(|range| known(range.of));
        self.folded.retain(|range| known(range.of));
    }

    /// Folds the notes of a transaction. Returns their bytes afterwards.
    fn fold(&mut self, id: TransactionId) -> usize {
        let mut folded = Folded::default();
        self.points.retain(|(table, key), ids| {
            if let Some(at) = ids.iter().position(|other| *other == id) {
                ids.swap_remove(at);
                folded.add(id, *table, key, Some(&successor(key)));
            }
            !ids.is_empty()
        });
        for ranges in [&mut self.ranges, &mut self.folded] {
            ranges.retain(|range| {
                let own = range.of == id;
                if own {
                    folded.add(id, range.table, &range.start, range.end.as_deref());
                }
                !own
            });
        }
        let bytes = folded.0.values().map(NotedRange::bytes).sum();
        self.folded.extend(folded.0.into_values());
        bytes
    }
}

/// The notes of all SERIALIZABLE transactions.
#[derive(Default)]
pub(super) struct Notes {
    reads: NotesOfKind,
    writes: NotesOfKind,
    /// For each transaction with notes: the bytes of its notes, and the number of notes since its
    /// last fold.
    taken: HashMap<TransactionId, (usize, usize)>,
    bytes: usize,
}

impl Notes {
    fn took(&mut self, id: TransactionId, bytes: usize) {
        if bytes > 0 {
            let (all, count) = self.taken.entry(id).or_default();
            *all += bytes;
            *count += 1;
            self.bytes += bytes;
        }
    }

    /// Bytes of all notes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The most that one more note may take: of a key, or of a range with these ends.
    pub(super) fn most(start: &[u8], end: Option<&[u8]>) -> usize {
        RANGE_BYTES.max(POINT_BYTES) + start.len() + end.map_or(0, <[u8]>::len)
    }

    /// The number of a transaction's notes since its last fold.
    pub(super) fn unfolded(&self, id: TransactionId) -> usize {
        self.taken.get(&id).map_or(0, |(_, count)| *count)
    }

    /// The transactions whose notes may be worth a fold.
    pub(super) fn foldable(&self) -> Vec<TransactionId> {
        let many = self.taken.iter().filter(|(_, (_, count))| *count > 1);
        many.map(|(id, _)| *id).collect()
    }

    /// Notes that `id` reads a key. Returns the transactions that wrote it.
    pub(super) fn read(
        &mut self,
        id: TransactionId,
        table: TableId,
        key: &[u8],
    ) -> Vec<TransactionId> {
        let bytes = self.reads.note(id, (table, key.into()));
        self.took(id, bytes);
        self.writes.of_point(table, key)
    }

    /// Notes that `id` reads a range. Returns the transactions that wrote to it.
    pub(super) fn read_range(
        &mut self,
        id: TransactionId,
        table: TableId,
        range: KeyRange<'_>,
    ) -> Vec<TransactionId> {
        let end = range.end.map(Into::into);
        let span = NotedRange { table, start: range.start.into(), end, of: id };
        let bytes = span.bytes();
        self.reads.ranges.push(span);
        self.took(id, bytes);
        self.writes.of_range(table, range)
    }

    /// Notes that `id` writes a key. Returns the transactions that read it.
    pub(super) fn write(
        &mut self,
        id: TransactionId,
        table: TableId,
        key: &[u8],
    ) -> Vec<TransactionId> {
        let bytes = self.writes.note(id, (table, key.into()));
        self.took(id, bytes);
        self.reads.of_point(table, key)
    }

    /// Folds the notes of a transaction (SSI-2).
    pub(super) fn fold(&mut self, id: TransactionId) {
        let Some((before, count)) = self.taken.get_mut(&id) else { return };
        let bytes = self.reads.fold(id) + self.writes.fold(id);
        self.bytes = self.bytes - *before + bytes;
        (*before, *count) = (bytes, 0);
    }

    /// Forgets the notes of all transactions but the known ones.
    pub(super) fn keep(&mut self, known: &HashSet<TransactionId>) {
        self.reads.keep(|id| known.contains(&id));
        self.writes.keep(|id| known.contains(&id));
        self.taken.retain(|id, _| known.contains(id));
        self.bytes = self.taken.values().map(|(bytes, _)| bytes).sum();
    }
}
