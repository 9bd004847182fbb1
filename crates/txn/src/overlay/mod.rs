//! Overlays: the spilled writes of committed transactions until they are folded into their tables
//! ([`crate::spill`] has the guarantees). A read of a table also reads the table's overlays.
//!
//! # Format of the table [`SPILL`]
//!
//! A *spill* consists of the entries of this table that belong to one transaction, or to one list
//! or set of a statement ([`crate::spill::Scratch`], [`crate::spill::ScratchSet`]). It has a
//! number, one *record*, and any number of *rows*. The record says whether the transaction has
//! committed. A transaction's rows are in *layers*: a layer has the rows that the transaction
//! spilled between two savepoints. If a key has rows in several layers, the row of the layer with
//! the largest number counts.
//!
//! ```text
//! record  key    0 (u8), the spill's number (u64, big-endian)
//!         value  format (u8): 1
//!                state (u8): 0 not committed, 1 committed
//!                the layers, the oldest first, up to the end of the value; of each layer:
//!                  its number (varint)
//!                  the number of tables that it has rows of (varint)
//!                  the id of each of these tables (varint)
//! row     key    1 (u8), the spill's number (u64), the layer's number (u32), the table's id (u32),
//!                all big-endian; then the row's key in its table
//!         value  of a row with a value: the value, then 1 (u8)
//!                of a deleted row: 0 (u8)
//! ```
//!
//! A record in state 0 lists no layers. The commit of the transaction overwrites it with a record
//! in state 1. So the version of that record has the transaction's CSN, and an opening learns the
//! CSN from it.
//!
//! The rows of lists and sets have layer 0 and table 0, and their records stay in state 0. The row
//! of a list's entry has the entry's position in the list (u64, big-endian) as its key, and the
//! entry's bytes as its value, without the final byte of other rows. The row of a set's entry has
//! the entry's bytes as its key, and an empty value. The engine checksums the rows of this table
//! like the rows of any table.

mod cursor;
mod fold_progress;
mod overlays;
#[cfg(all(test, not(loom)))]
mod tests;

use std::collections::BTreeSet;

use spillway_base::codec::{Reader, put_varint};
use spillway_base::range::prefix_end;
use spillway_base::{Error, Result, TableId};

pub(crate) use cursor::{LayerCursor, OverlayCursor};
pub(crate) use fold_progress::{FoldProgress, Folder};
pub(crate) use overlays::{Overlay, Overlays, find};

/// The table of the tiered engine that holds spilled writes and their records: the last table id of
/// that engine. The first spill creates it.
pub(crate) const SPILL: TableId = TableId(TableId::ORDINAL_MAX);

const RECORD: u8 = 0;
const ROW: u8 = 1;
const FORMAT: u8 = 1;
pub(crate) const PREFIX_BYTES: usize = 1 + 8 + 4 + 4;

/// A layer: the writes of a transaction that were spilled between two of its savepoints.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Layer {
    pub(crate) number: u32,
    pub(crate) tables: BTreeSet<TableId>,
}

/// The key prefix of a layer's rows of one table.
pub(crate) fn row_prefix(id: u64, layer: u32, table: TableId) -> [u8; PREFIX_BYTES] {
    let mut prefix = [ROW; PREFIX_BYTES];
    prefix[1..9].copy_from_slice(&id.to_be_bytes());
    prefix[9..13].copy_from_slice(&layer.to_be_bytes());
    prefix[13..].copy_from_slice(&table.0.to_be_bytes());
    prefix
}

pub(crate) fn row_key(id: u64, layer: u32, table: TableId, key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(PREFIX_BYTES + key.len());
    out.extend_from_slice(&row_prefix(id, layer, table));
    out.extend_from_slice(key);
    out
}

/// The key range of all rows of a spill: its first key, and the first key past it.
pub(crate) fn rows_of(id: u64) -> (Vec<u8>, Option<Vec<u8>>) {
    let mut start = vec![ROW];
    start.extend_from_slice(&id.to_be_bytes());
    let end = prefix_end(&start);
    (start, end)
}

pub(crate) fn record_key(id: u64) -> Vec<u8> {
    let mut key = vec![RECORD];
    key.extend_from_slice(&id.to_be_bytes());
    key
}

/// Decodes the value of a row in [`SPILL`]: the row's value in its table, or `None` if it is
/// deleted.
pub(crate) fn row_value(stored: &[u8]) -> Result<Option<&[u8]>> {
    match stored.split_last() {
        Some((1, value)) => Ok(Some(value)),
        Some((0, [])) => Ok(None),
        _ => Err(Error::corruption("a spilled row ends with neither 0 nor 1")),
    }
}

/// A record, decoded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SpillRecord {
    pub(crate) committed: bool,
    pub(crate) layers: Vec<Layer>,
}

impl SpillRecord {
    pub(crate) fn encode(&self) -> Vec<u8> {
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
    pub(crate) fn decode(bytes: &[u8]) -> Result<SpillRecord> {
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
        Ok(SpillRecord { committed, layers })
    }
}
