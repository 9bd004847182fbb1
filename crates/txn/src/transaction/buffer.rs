//! What a transaction has written and not yet committed.

use std::collections::BTreeMap;
use std::ops::Bound;

use spillway_base::batch::{Op, WriteBatch};
use spillway_base::{Direction, KeyRange, TableId};

use super::push;

type Value = Option<Box<[u8]>>;

enum Undo {
    /// The key's entry before, if there was one.
    Put(TableId, Box<[u8]>, Option<Value>),
    Create,
    Drop,
}

/// Ordered writes with an undo log.
#[derive(Default)]
pub(super) struct WriteBuffer {
    tables: BTreeMap<TableId, BTreeMap<Box<[u8]>, Value>>,
    created: Vec<TableId>,
    dropped: Vec<TableId>,
    undo: Vec<Undo>,
    bytes: usize,
}

impl WriteBuffer {
    /// What an entry takes beside its key and value, estimated.
    pub(super) const ENTRY_BYTES: usize = 128;

    /// Bytes held, estimated.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_empty(&self) -> bool {
        self.undo.is_empty()
    }

    /// Whether the table is of this transaction alone.
    pub(super) fn created(&self, table: TableId) -> bool {
        self.created.contains(&table)
    }

    /// The entry for a key: `None` if there is none, `Some(None)` for a deletion.
    pub(super) fn get(&self, table: TableId, key: &[u8]) -> Option<Option<&[u8]>> {
        if self.tables.is_empty() {
            return None;
        }
        self.tables.get(&table)?.get(key).map(Option::as_deref)
    }

    pub(super) fn put(&mut self, table: TableId, key: &[u8], value: Option<&[u8]>) {
        self.bytes += Self::ENTRY_BYTES + key.len() + value.map_or(0, <[u8]>::len);
        let entries = self.tables.entry(table).or_default();
        let before = entries.insert(key.into(), value.map(Into::into));
        self.undo.push(Undo::Put(table, key.into(), before));
    }

    pub(super) fn create(&mut self, table: TableId) {
        self.created.push(table);
        self.undo.push(Undo::Create);
    }

    pub(super) fn drop_table(&mut self, table: TableId) {
        self.dropped.push(table);
        self.undo.push(Undo::Drop);
    }

    pub(super) fn mark(&self) -> usize {
        self.undo.len()
    }

    pub(super) fn undo_to(&mut self, mark: usize) {
        while self.undo.len() > mark {
            match self.undo.pop() {
                Some(Undo::Put(table, key, before)) => {
                    let entries = self.tables.entry(table).or_default();
                    self.bytes = self.bytes.saturating_sub(Self::ENTRY_BYTES + key.len());
                    match before {
                        Some(before) => entries.insert(key, before),
                        None => entries.remove(&key),
                    };
                    if entries.is_empty() {
                        self.tables.remove(&table);
                    }
                }
                Some(Undo::Create) => {
                    self.created.pop();
                }
                Some(Undo::Drop) => {
                    self.dropped.pop();
                }
                None => return,
            }
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
        let entries = self.tables.get(&table)?;
        let (mut start, mut end) =
            (Bound::Included(range.start), range.end.map_or(Bound::Unbounded, Bound::Excluded));
        match (direction, last) {
            (Direction::Forward, Some(last)) => start = Bound::Excluded(last),
            (Direction::Backward, Some(last)) => end = Bound::Excluded(last),
            (_, None) => {}
        }
        let (from, to) = (bound_key(&start), bound_key(&end));
        if let (Some(from), Some(to)) = (from, to)
            && (from > to
                || (from == to
                    && !matches!((start, end), (Bound::Included(_), Bound::Included(_)))))
        {
            return None;
        }
        let mut found = entries.range::<[u8], _>((start, end));
        let entry = match direction {
            Direction::Forward => found.next(),
            Direction::Backward => found.next_back(),
        };
        entry.map(|(key, value)| (&**key, value.as_deref()))
    }

    /// Whether a table has no entry here.
    pub(super) fn untouched(&self, table: TableId) -> bool {
        !self.tables.contains_key(&table)
    }

    /// The tables written to that were there before.
    pub(super) fn touched(&self) -> impl Iterator<Item = TableId> {
        let there = |table: &TableId| !self.created.contains(table);
        self.tables.keys().chain(&self.dropped).copied().filter(there)
    }

    /// The tables dropped.
    pub(super) fn dropped(&self) -> &[TableId] {
        &self.dropped
    }

    /// Everything, as one batch: new tables, then writes by table and key, then dropped tables.
    pub(super) fn encode(&self, batch: &mut WriteBatch) {
        let lived = |table: &&TableId| !self.dropped.contains(table);
        for table in self.created.iter().filter(lived) {
            batch.push(Op::CreateTable(*table));
        }
        for (table, entries) in self.tables.iter().filter(|(table, _)| lived(table)) {
            for (key, value) in entries {
                push(batch, *table, key, value.as_deref());
            }
        }
        for table in self.dropped.iter().filter(|table| !self.created.contains(table)) {
            batch.push(Op::DropTable(*table));
        }
    }
}

fn bound_key<'a>(bound: &Bound<&'a [u8]>) -> Option<&'a [u8]> {
    match bound {
        Bound::Included(key) | Bound::Excluded(key) => Some(key),
        Bound::Unbounded => None,
    }
}
