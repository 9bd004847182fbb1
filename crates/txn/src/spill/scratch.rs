//! Lists and sets of byte strings on disk, for a statement whose intermediate results exceed
//! memory.

use std::collections::HashSet;
use std::sync::Arc;

use spillway_base::batch::{Op, WriteBatch};
use spillway_base::engine::{Access, Cursor};
use spillway_base::range::prefix_end;
use spillway_base::{Direction, KeyRange, Result, TableId};

use super::CHUNK_BYTES;
use super::write_set::{begin_record, write};
use crate::overlay::{PREFIX_BYTES, SPILL, row_key, row_prefix};
use crate::shared::Shared;

/// The table's id in the keys of the rows of lists and sets, which belong to no table.
const NO_TABLE: TableId = TableId(0);

/// A list that grows at its end and is then read once, in order. Dropping it deletes its rows.
pub struct Scratch {
    shared: Arc<Shared>,
    id: u64,
    len: u64,
    batch: WriteBatch,
}

impl Scratch {
    pub(crate) fn new(shared: Arc<Shared>) -> Result<Scratch> {
        let id = begin_record(&shared)?;
        Ok(Scratch { shared, id, len: 0, batch: WriteBatch::new() })
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Appends an entry.
    ///
    /// # Errors
    /// As a commit.
    pub fn push(&mut self, bytes: &[u8]) -> Result<()> {
        let key = row_key(self.id, 0, NO_TABLE, &self.len.to_be_bytes());
        self.batch.push(Op::Put { table: SPILL, key: &key, value: bytes });
        self.len += 1;
        if self.batch.as_bytes().len() < CHUNK_BYTES { Ok(()) } else { self.write() }
    }

    fn write(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        write(&self.shared, &batch)?;
        self.batch = batch.cleared();
        Ok(())
    }

    /// Passes all entries to `take`, in order, until it returns `false`.
    ///
    /// # Errors
    /// As a commit and as a scan; any error of `take`.
    pub fn each<E: From<spillway_base::Error>>(
        &mut self,
        mut take: impl FnMut(&[u8]) -> std::result::Result<bool, E>,
    ) -> std::result::Result<(), E> {
        if !self.batch.is_empty() {
            self.write()?;
        }
        let mut cursor = self.cursor()?;
        while cursor.next(Access::Blocking)? {
            if !take(cursor.value())? {
                break;
            }
        }
        Ok(())
    }

    fn cursor(&self) -> Result<Box<dyn Cursor>> {
        let start: [u8; PREFIX_BYTES] = row_prefix(self.id, 0, NO_TABLE);
        let end = prefix_end(&start);
        let range = KeyRange::new(&start, end.as_deref());
        let newest = self.shared.snapshots.take(|| self.shared.newest());
        let engine = self.shared.engines.of(SPILL)?;
        engine.scan(SPILL, range, Direction::Forward, newest.csn(), Access::Blocking)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.shared.overlays.discard(self.id);
    }
}

/// A growing set of byte strings. Dropping it deletes its rows.
pub struct ScratchSet {
    shared: Arc<Shared>,
    id: u64,
    batch: WriteBatch,
    /// The contents of `batch`.
    pending: HashSet<Box<[u8]>>,
    value: Vec<u8>,
}

impl ScratchSet {
    pub(crate) fn new(shared: Arc<Shared>) -> Result<ScratchSet> {
        let id = begin_record(&shared)?;
        let (batch, pending) = (WriteBatch::new(), HashSet::new());
        Ok(ScratchSet { shared, id, batch, pending, value: Vec::new() })
    }

    /// Adds an entry; `false` if the set has it already.
    ///
    /// # Errors
    /// As a commit and as a read.
    pub fn insert(&mut self, bytes: &[u8]) -> Result<bool> {
        if self.pending.contains(bytes) {
            return Ok(false);
        }
        let key = row_key(self.id, 0, NO_TABLE, bytes);
        let engine = self.shared.engines.of(SPILL)?;
        if engine.newest(SPILL, &key, Access::Blocking, &mut self.value)?.is_value() {
            return Ok(false);
        }
        self.batch.push(Op::Put { table: SPILL, key: &key, value: &[] });
        self.pending.insert(bytes.into());
        if self.batch.as_bytes().len() >= CHUNK_BYTES {
            let batch = std::mem::take(&mut self.batch);
            write(&self.shared, &batch)?;
            self.batch = batch.cleared();
            self.pending.clear();
        }
        Ok(true)
    }
}

impl Drop for ScratchSet {
    fn drop(&mut self) {
        self.shared.overlays.discard(self.id);
    }
}
