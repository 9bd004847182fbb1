//! Buffers for a statement that first finds all of its rows: [`Spool`] for the rows, and [`KeySet`]
//! for the keys of the rows that the statement has already processed.
//!
//! Both buffers are in memory at first. A buffer moves to disk if it outgrows a transaction's share
//! of the memory, or if the memory budget has no room for it. Guarantees:
//!
//! - **SPOOL-1.** A [`Spool`] returns the rows that were added to it, with the same values and in
//!   the same order. A [`KeySet`] tells, for each key that is added, whether the key was added
//!   before.
//! - **SPOOL-2.** Neither buffer fails for lack of memory, and both free their memory and disk
//!   space when they are dropped.

use std::collections::HashSet;

use spillway::{Scratch, ScratchSet};
use spillway_types::Value;
use spillway_types::row::{RowReader, write_row};

use super::sort::HeldMemory;
use crate::errors::{Result, SqlError};
use crate::expression::Context;
use crate::planner::Row;

/// A list of rows, in memory or on disk.
pub(crate) struct Spool<'c> {
    context: &'c Context<'c>,
    held: HeldMemory,
    rows: Vec<Row>,
    on_disk: Option<Scratch>,
    bytes: Vec<u8>,
}

impl<'c> Spool<'c> {
    pub(crate) fn new(context: &'c Context<'c>) -> Spool<'c> {
        let held = HeldMemory::new(context);
        Spool { context, held, rows: Vec::new(), on_disk: None, bytes: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// As for a commit.
    pub(crate) fn push(&mut self, row: &[Value]) -> Result<()> {
        if self.on_disk.is_none() {
            if fits(self.context, &mut self.held, HeldMemory::size_of(row))? {
                self.rows.push(row.to_vec());
                return Ok(());
            }
            self.move_to_disk()?;
        }
        self.write(row)
    }

    fn move_to_disk(&mut self) -> Result<()> {
        self.on_disk = Some(self.context.txn.scratch()?);
        for row in std::mem::take(&mut self.rows) {
            self.write(&row)?;
        }
        self.held = HeldMemory::new(self.context);
        Ok(())
    }

    fn write(&mut self, row: &[Value]) -> Result<()> {
        let Some(list) = &mut self.on_disk else { return Ok(()) };
        self.bytes.clear();
        write_row(0, row.iter().map(Value::as_ref), &mut self.bytes);
        list.push(&self.bytes)?;
        Ok(())
    }

    /// Passes each row to `take`.
    ///
    /// # Errors
    /// As for a scan; 1317 if the statement was killed; the errors of `take`.
    pub(crate) fn each(mut self, mut take: impl FnMut(&mut Row) -> Result<()>) -> Result<()> {
        let context = self.context;
        let mut count = 0u64;
        let mut next = |row: &mut Row| {
            count += 1;
            if count.is_multiple_of(256) {
                context.check_killed()?;
            }
            take(row)
        };
        for mut row in self.rows {
            next(&mut row)?;
        }
        let Some(list) = &mut self.on_disk else { return Ok(()) };
        let mut row = Row::new();
        list.each(|bytes| -> Result<bool> {
            decode(bytes, &mut row)?;
            next(&mut row)?;
            Ok(true)
        })
    }
}

fn decode(bytes: &[u8], row: &mut Row) -> Result<()> {
    let damaged = |why: &str| SqlError::new(1030, format!("a spooled row is damaged: {why}"));
    let reader = RowReader::new(bytes).map_err(damaged)?;
    row.clear();
    for column in 0..reader.columns() {
        let value = reader.get(column).map_err(damaged)?;
        row.push(value.map_or(Value::Null, |value| value.to_owned()));
    }
    Ok(())
}

/// Whether `bytes` more may be held in memory. If so, charges them.
fn fits(context: &Context<'_>, held: &mut HeldMemory, bytes: usize) -> Result<bool> {
    if held.bytes() + bytes > context.txn.buffer_bytes_max().max(HeldMemory::FREE) {
        return Ok(false);
    }
    match held.add_bytes(bytes) {
        Ok(()) => Ok(true),
        Err(full) if full.code == 1038 => Ok(false),
        Err(error) => Err(error),
    }
}

/// A set of keys of rows, which may be in several tables.
pub(crate) struct KeySet<'c> {
    context: &'c Context<'c>,
    held: HeldMemory,
    keys: HashSet<Box<[u8]>>,
    on_disk: Option<ScratchSet>,
    bytes: Vec<u8>,
}

impl<'c> KeySet<'c> {
    pub(crate) fn new(context: &'c Context<'c>) -> KeySet<'c> {
        let (held, keys) = (HeldMemory::new(context), HashSet::new());
        KeySet { context, held, keys, on_disk: None, bytes: Vec::new() }
    }

    /// Adds the key of a row of the table with this number. Returns `false` if it is already there.
    ///
    /// # Errors
    /// As for a commit and for a read.
    pub(crate) fn insert(&mut self, table: usize, key: &[u8]) -> Result<bool> {
        self.bytes.clear();
        self.bytes.extend_from_slice(&(table as u64).to_be_bytes());
        self.bytes.extend_from_slice(key);
        if let Some(keys) = &mut self.on_disk {
            return Ok(keys.insert(&self.bytes)?);
        }
        if self.keys.contains(self.bytes.as_slice()) {
            return Ok(false);
        }
        if fits(self.context, &mut self.held, self.bytes.len())? {
            return Ok(self.keys.insert(self.bytes.as_slice().into()));
        }
        let mut keys = self.context.txn.scratch_set()?;
        for key in std::mem::take(&mut self.keys) {
            keys.insert(&key)?;
        }
        self.held = HeldMemory::new(self.context);
        Ok(self.on_disk.insert(keys).insert(&self.bytes)?)
    }
}
