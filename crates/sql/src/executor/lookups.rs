//! Looks up rows of a table one after the other by their primary keys. The keys come from a list or
//! from index entries.
//!
//! As long as the rows are in memory, each row is looked up and processed with no extra work. The
//! first row that is not in memory is read alone. After that, [`Lookups`] collects keys into
//! batches. It reads the missing blocks of a batch, those that are not in memory, at the same time,
//! and then looks up the batch's rows in order.
//!
//! The first batch has [`FIRST`] keys. After a full batch with missing blocks, the next batch is
//! [`GROWTH`] times as large. After a batch without missing blocks, the next batch is a
//! [`GROWTH`]th as large, but has at least one key. So batches are large only for queries that read
//! many rows from devices.
//!
//! # Guarantees
//! - **BATCHED-LOOKUP-1 (the same rows).** The query gets the same rows in the same order as
//!   without batches. Each row is looked up when its turn comes, so the lookup also sees writes
//!   that were made after the row's key was collected.
//! - **BATCHED-LOOKUP-2 (the same failure).** An error while a batch's blocks are read ahead is
//!   ignored, because the lookup of the row reads the block again. An error of a lookup is reported
//!   only after all earlier rows were processed. If the query stops before that row, the error is
//!   not reported. If the source of keys fails, the keys that it has already provided are looked up
//!   before its error is reported ([`Lookups::rest`]).
//! - **BATCHED-LOOKUP-3 (no overhead in memory).** As long as all rows are in memory, each row is
//!   looked up once, and its key is not copied.
//! - **BATCHED-LOOKUP-4 (bounded).** A batch has at most 64 keys, and at most as many keys as
//!   blocks of 16 KB fit into a 128th of the database's memory. If a query stops early, the number
//!   of rows that were read is at most [`GROWTH`] times the number of rows that the query took.
//!
//! Statements that lock rows use batches, too, unless their condition gives the whole primary key
//! of one row. This includes statements that act on the newest committed versions
//! ([`super::to_lock`]). The statement looks up a row without a lock, and locks the row only if it
//! satisfies the conditions. Then it reads the row again under the lock, from a block that is in
//! memory by then. Reading a batch takes no lock. So the statement locks the same rows as without
//! batches, and no row earlier.
//!
//! Rejected: to buffer the rows that are already in memory when the missing blocks of their batch
//! are determined. These rows would need no second lookup. But such a row could be outdated when
//! its turn comes (BATCHED-LOOKUP-1), and the buffer would have to hold rows of any size.

use spillway::ErrorKind;
use spillway_base::TableId;
use spillway_base::engine::Access;

use crate::errors::Result;
use crate::expression::{Buffer, Context};

/// How many rows are read at once after the first row that was not in memory.
const FIRST: usize = 4;
/// The factor by which the number grows from one batch with missing blocks to the next.
const GROWTH: usize = 4;
/// The most rows that are read at once, however much memory there is. Each is assumed to take
/// [`ROW_BYTES`] of memory, the size of a block.
const TOGETHER_MAX: usize = 64;
const ROW_BYTES: usize = 16 << 10;
/// The rows that are read at once may take one part in this many of the memory.
const MEMORY_SHARE: usize = 128;

/// The most rows that are read at once in a database with `memory_bytes` of memory.
pub(crate) fn together_max(memory_bytes: usize) -> usize {
    (memory_bytes / MEMORY_SHARE / ROW_BYTES).clamp(1, TOGETHER_MAX)
}

/// How many rows are read at once now. Initially one.
pub(super) struct Together(usize);

impl Default for Together {
    fn default() -> Together {
        Together(1)
    }
}

impl Together {
    pub(super) fn count(&self) -> usize {
        self.0
    }

    #[inline]
    pub(super) fn are_several(&self) -> bool {
        self.0 > 1
    }

    /// Called when a row that was looked up alone was not in memory. At most `most` rows are read
    /// at once.
    pub(super) fn grow(&mut self, most: usize) {
        self.0 = FIRST.min(most);
    }

    /// Adapts the number after `read` rows were looked up together, of which `lacking` were not in
    /// memory. If a batch was not full, the number does not grow.
    pub(super) fn after(&mut self, most: usize, read: usize, lacking: usize) {
        self.0 = match lacking {
            0 => (self.0 / GROWTH).max(1),
            _ if read < self.0 => self.0,
            _ => (self.0 * GROWTH).min(most),
        };
    }
}

/// Looks up a row. Returns whether the row exists, and whether it was not in memory. The second
/// result is always `false` if rows are never read together.
#[inline]
pub(super) fn look_up(
    context: &Context<'_>,
    table: TableId,
    key: &[u8],
    to_lock: bool,
    value: &mut Vec<u8>,
) -> Result<(bool, bool)> {
    let several = context.server.looks_up_together() > 1;
    // Data in the operating system's page cache counts as in memory: it is read when its row is
    // needed, not together with others.
    let access = if several { Access::AtHand } else { Access::Blocking };
    match get(context, table, key, access, to_lock, value) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            Ok((get(context, table, key, Access::Blocking, to_lock, value)?, true))
        }
        found => Ok((found?, false)),
    }
}

#[inline]
fn get(
    context: &Context<'_>,
    table: TableId,
    key: &[u8],
    access: Access,
    to_lock: bool,
    value: &mut Vec<u8>,
) -> spillway::Result<bool> {
    match to_lock {
        true => context.txn.get_to_lock(table, key, access, value),
        false => context.txn.get_with(table, key, access, value),
    }
}

/// Looks up rows of one table.
pub(super) struct Lookups<'c> {
    context: &'c Context<'c>,
    table: TableId,
    together: Together,
    keys: KeyList,
    value: Buffer<'c>,
    /// Whether the rows will be locked. Then `Transaction::get_to_lock` looks them up.
    to_lock: bool,
}

/// Concatenated keys, and the end of each.
#[derive(Default)]
struct KeyList {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl KeyList {
    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, end)| &self.bytes[start..*end])
    }
}

impl<'c> Lookups<'c> {
    pub(super) fn new(context: &'c Context<'c>, table: TableId) -> Lookups<'c> {
        Lookups {
            context,
            table,
            together: Together::default(),
            keys: KeyList::default(),
            value: context.room.row(),
            to_lock: false,
        }
    }

    /// Lookups of rows that will be locked.
    pub(super) fn to_lock(context: &'c Context<'c>, table: TableId) -> Lookups<'c> {
        Lookups { to_lock: true, ..Lookups::new(context, table) }
    }

    /// Looks up a row, now or together with later rows, and passes it to `take` if it exists.
    /// `take` returns `false` to stop, and then this method returns `false`, too.
    #[inline]
    pub(super) fn row(
        &mut self,
        key: &[u8],
        take: &mut impl FnMut(&[u8], &[u8]) -> Result<bool>,
    ) -> Result<bool> {
        if self.together.are_several() {
            return self.keep(key, take);
        }
        let (found, missed) =
            look_up(self.context, self.table, key, self.to_lock, &mut self.value)?;
        if missed {
            self.together.grow(self.context.server.looks_up_together());
        }
        Ok(!found || take(key, &self.value)?)
    }

    #[cold]
    fn keep(
        &mut self,
        key: &[u8],
        take: &mut impl FnMut(&[u8], &[u8]) -> Result<bool>,
    ) -> Result<bool> {
        self.keys.bytes.extend_from_slice(key);
        self.keys.ends.push(self.keys.bytes.len());
        if self.keys.ends.len() < self.together.count() { Ok(true) } else { self.rest(take) }
    }

    /// Looks up the rows whose keys are still waiting, and passes them to `take`.
    pub(super) fn rest(
        &mut self,
        take: &mut impl FnMut(&[u8], &[u8]) -> Result<bool>,
    ) -> Result<bool> {
        if self.keys.ends.is_empty() {
            return Ok(true);
        }
        // The waiting keys are gone afterwards, even if a lookup fails.
        let mut keys = std::mem::take(&mut self.keys);
        let txn = self.context.txn;
        let lacking = txn.prefetch(self.table, keys.iter());
        self.together.after(self.context.server.looks_up_together(), keys.ends.len(), lacking);
        for key in keys.iter() {
            let blocking = Access::Blocking;
            if get(self.context, self.table, key, blocking, self.to_lock, &mut self.value)?
                && !take(key, &self.value)?
            {
                return Ok(false);
            }
        }
        keys.bytes.clear();
        keys.ends.clear();
        self.keys = keys;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// BATCHED-LOOKUP-4: batches that were not full make no later batch larger.
    #[test]
    fn only_what_was_read_makes_more_be_read() {
        let mut together = Together::default();
        assert!(!together.are_several());
        together.grow(3);
        assert_eq!(together.count(), 3, "never more than that");
        together.grow(64);
        let counts = [(4, 1, 16), (15, 15, 16), (1, 1, 16), (16, 2, 64), (64, 64, 64), (63, 0, 16)];
        for (read, lacking, next) in counts {
            together.after(64, read, lacking);
            assert_eq!(together.count(), next, "{read} read, {lacking} lacking");
        }
        (0..3).for_each(|_| together.after(64, 1, 0));
        assert!(!together.are_several());
    }
}
