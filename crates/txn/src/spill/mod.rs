//! Transactions that write more than memory holds: spilling, overlays and folding.
//!
//! A transaction keeps its writes in memory ([`crate::transaction`], the write buffer). When they
//! outgrow its share of the budget, it *spills* them: it commits them to [`SPILL`], a table of the
//! tiered engine that only the transaction manager knows. These are ordinary commits of a few
//! hundred kilobytes. So the log is cut, memtables are flushed and memory stays bounded while a
//! statement changes any number of rows.
//!
//! The commit of the transaction copies nothing. One small commit, with CSN N, writes a *record*
//! which makes the spilled rows count. From N on they are an *overlay* of the tables that the
//! transaction wrote to: a read of such a table at a snapshot of N or above reads the table, then
//! the overlay, and takes the newer version. A rollback, or a crash before N, leaves rows in
//! [`SPILL`] without such a record; they are deleted as one range.
//!
//! A background job *folds* an overlay into its tables. It reads the overlay's rows in key order
//! and commits them to the table, about a thousand at a time, each such commit with its own CSN. It
//! skips a row that another commit has changed since N. When no reader needs the overlay any more,
//! the job deletes its rows and its record.
//!
//! Two designs were rejected. The first logs one batch of any size and installs it at its commit:
//! no other commit is acknowledged until it is installed, which takes seconds or minutes for
//! gigabytes. The second writes versions into the table itself that are invisible until the commit,
//! as RocksDB's WriteUnprepared transactions do: each read and each compaction would have to look
//! up which transaction wrote a version and whether it committed, and a rollback would write as
//! much again.
//!
//! [`Scratch`] and [`ScratchSet`] use the same table for the results of a statement that exceed
//! memory.
//!
//! # Guarantees
//!
//! - **SPILL-1 (atomic).** All writes of a spilled transaction are visible at its CSN N and above,
//!   and none at a snapshot below. After a crash all of them exist if N was recovered, and none
//!   otherwise.
//! - **SPILL-2 (own reads).** The transaction reads its spilled writes like those in its buffer; so
//!   does an open scan, ahead of its position.
//! - **SPILL-3 (savepoints).** A rollback to a savepoint undoes the spilled writes made since, and
//!   no others. Spilled writes are split into *layers* at the savepoints that still exist; a
//!   rollback drops layers.
//! - **SPILL-4 (order).** A key's versions are ordered by CSN, whether they are in the table or in
//!   overlays. The transaction holds the lock of a row from before it spills the write until after
//!   N, so no other commit of that key lies between.
//! - **SPILL-5 (deletions stay).** While an overlay is attached, a snapshot at N is pinned. So a
//!   table's own deletions above N are not dropped ([`spillway_base::engine::Found::Nothing`]), and
//!   hide the overlay's rows. From the start of a recovery until its overlays are attached, a
//!   snapshot at zero is pinned.
//! - **SPILL-6 (no range).** While a table has an overlay, no commit is ordered that deletes a
//!   range of the table as one operation: it would also hide, or fail to hide, rows of the overlay.
//!   Such a commit deletes row by row instead.
//! - **SPILL-7 (folding changes nothing).** A fold's commit is ordered while no other commit can
//!   be, and writes only rows whose newest version is the overlay's own. It conflicts with no
//!   transaction: a version that a fold wrote counts as one of CSN N.
//! - **SPILL-8 (end).** An overlay's record is deleted, durably, only once every row is folded, or
//!   skipped for a newer version, and no snapshot older than these remains. Only then is the pinned
//!   snapshot released.
//!
//! # Format of the table [`SPILL`]
//!
//! ```text
//! record  key    u8 0, then the spill's number (u64, big-endian)
//!         value  u8 1 (format), u8 0 under way or 1 committed, then for each layer: its number
//!                (varint), the count of its tables (varint), each table (varint)
//! row     key    u8 1, the spill's number (u64), the layer (u32), the table (u32), each
//!                big-endian, then the row's key
//!         value  the row's value, then u8 1; or u8 0 alone where the row is deleted
//! ```
//!
//! The CSN of the version of a committed record is N. The engine checksums both.

mod cursor;
mod fold;
mod fold_progress;
mod overlay;
mod savepoint;
mod scratch;
mod write_set;

#[cfg(all(test, not(loom)))]
mod tests;

use std::collections::BTreeSet;

use spillway_base::codec::{Reader, put_varint};
use spillway_base::range::prefix_end;
use spillway_base::{Error, Result, TableId};

use crate::options::{Durability, TransactionOptions};
pub(crate) use cursor::{LayerCursor, OverlayCursor};
pub(crate) use fold_progress::Folder;
pub(crate) use overlay::{Overlay, Overlays};
pub use savepoint::Savepoint;
pub use scratch::{Scratch, ScratchSet};
pub(crate) use write_set::{OtherWrites, Spill};

/// The table of the tiered engine that holds spilled writes and their records: the last table id of
/// that engine. The first spill creates it.
pub(crate) const SPILL: TableId = TableId(TableId::ORDINAL_MAX);

/// The approximate bytes of rows in one commit to [`SPILL`], or in one commit of a fold.
pub(crate) const CHUNK_BYTES: usize = 256 << 10;

const RECORD: u8 = 0;
const ROW: u8 = 1;
const FORMAT: u8 = 1;
const PREFIX_BYTES: usize = 1 + 8 + 4 + 4;

/// A transaction's writes between two of its savepoints, and the tables that they are in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Layer {
    pub(crate) number: u32,
    pub(crate) tables: BTreeSet<TableId>,
}

/// The options of a commit whose acknowledgement nothing waits for.
fn unwaited() -> TransactionOptions {
    TransactionOptions::new().durability(Durability::Relaxed)
}

/// The key prefix of a layer's rows of one table.
fn row_prefix(id: u64, layer: u32, table: TableId) -> [u8; PREFIX_BYTES] {
    let mut prefix = [ROW; PREFIX_BYTES];
    prefix[1..9].copy_from_slice(&id.to_be_bytes());
    prefix[9..13].copy_from_slice(&layer.to_be_bytes());
    prefix[13..].copy_from_slice(&table.0.to_be_bytes());
    prefix
}

fn row_key(id: u64, layer: u32, table: TableId, key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(PREFIX_BYTES + key.len());
    out.extend_from_slice(&row_prefix(id, layer, table));
    out.extend_from_slice(key);
    out
}

/// The key range of all rows of a spill: its first key, and the first key past it.
fn rows_of(id: u64) -> (Vec<u8>, Option<Vec<u8>>) {
    let mut start = vec![ROW];
    start.extend_from_slice(&id.to_be_bytes());
    let end = prefix_end(&start);
    (start, end)
}

fn record_key(id: u64) -> Vec<u8> {
    let mut key = vec![RECORD];
    key.extend_from_slice(&id.to_be_bytes());
    key
}

/// Decodes a stored row: its value, or `None` if it is deleted.
fn row_value(stored: &[u8]) -> Result<Option<&[u8]>> {
    match stored.split_last() {
        Some((1, value)) => Ok(Some(value)),
        Some((0, [])) => Ok(None),
        _ => Err(Error::corruption("a spilled row ends with neither 0 nor 1")),
    }
}

/// A record, decoded.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Record {
    committed: bool,
    layers: Vec<Layer>,
}

impl Record {
    fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT, u8::from(self.committed)];
        for layer in &self.layers {
            put_varint(&mut out, u64::from(layer.number));
            put_varint(&mut out, layer.tables.len() as u64);
            layer.tables.iter().for_each(|table| put_varint(&mut out, u64::from(table.0)));
        }
        out
    }

    /// # Errors
    /// [`spillway_base::ErrorKind::UnsupportedFormat`] and
    /// [`spillway_base::ErrorKind::Corruption`].
    fn decode(bytes: &[u8]) -> Result<Record> {
        let mut reader = Reader::new(bytes);
        match reader.u8()? {
            FORMAT => {}
            other => {
                let text = format!("a spilled transaction's record has the unknown format {other}");
                return Err(Error::new(spillway_base::ErrorKind::UnsupportedFormat, text));
            }
        }
        let committed = match reader.u8()? {
            0 => false,
            1 => true,
            other => return Err(Error::corruption(format!("a spill is in state {other}"))),
        };
        let mut layers = Vec::new();
        while !reader.is_empty() {
            let number = reader.varint_u32()?;
            let mut tables = BTreeSet::new();
            for _ in 0..reader.varint()? {
                tables.insert(TableId(reader.varint_u32()?));
            }
            layers.push(Layer { number, tables });
        }
        Ok(Record { committed, layers })
    }
}
