//! Scans that find rows to lock. Changes and locking reads that act on the newest committed
//! versions use these scans.
//!
//! `txn/transaction/newest` has the guarantees NEWEST-1 to NEWEST-4. This module adds two
//! guarantees for statements:
//!
//! - **NEWEST-5 (once).** While an index scan waits for a row's lock, another transaction may move
//!   the row to a part of the index that is still to be scanned. The scan then finds the row again,
//!   but returns it only once: at the first entry by which it found the row, if the row's newest
//!   version satisfies the conditions.
//! - **NEWEST-6 (rows that get another key).** If a row no longer exists when the scan has locked
//!   its key, another transaction may have given the row a key in the part that was already
//!   scanned. The scan would miss the row there. So the session rolls the statement back, keeps its
//!   locks, and starts it over. A statement starts over at most [`STARTS_MAX`] times, and only if
//!   its scan has locked fewer than [`ROWS_TO_START_OVER`] rows. Beyond these limits the statement
//!   continues without the row.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;

use spillway::{Direction, KeyRange, LockMode, LockWait, Scan, successor};
use spillway_base::{Csn, TableId};

use super::lookups::Lookups;
use super::span_scan::{check_now_and_then, in_order, is_row, row_key};
use super::spans::Span;
use crate::catalog::TableDef;
use crate::errors::{Result, SqlError};
use crate::expression::Context;
use crate::planner::Access;

/// The most times that a statement starts over because a row is gone. It starts over only while its
/// scan has locked fewer than [`ROWS_TO_START_OVER`] rows.
pub(crate) const STARTS_MAX: usize = 3;
pub(crate) const ROWS_TO_START_OVER: usize = 1000;

/// The rows that an index scan has returned and that other transactions may have moved within the
/// index.
pub(super) struct Moves<'c> {
    context: &'c Context<'c>,
    by_index: bool,
    given: RefCell<HashSet<Box<[u8]>>>,
    /// The CSN of the state that the scan reads.
    state: Cell<Csn>,
    locked: Cell<usize>,
}

impl<'c> Moves<'c> {
    /// For the scans of one access. `None` if the transaction does not act on the newest versions:
    /// then a changed row is a conflict.
    pub(super) fn of(context: &'c Context<'c>, access: &Access) -> Option<Moves<'c>> {
        context.txn.acts_on_newest().then(|| Moves {
            context,
            by_index: access.index.is_some(),
            given: RefCell::default(),
            state: Cell::new(Csn::ZERO),
            locked: Cell::new(0),
        })
    }

    /// Whether the scan has already returned a row, by an entry that the row no longer has
    /// (NEWEST-5).
    pub(super) fn was_given(&self, key: &[u8]) -> bool {
        let given = self.given.borrow();
        !given.is_empty() && given.contains(key)
    }

    /// Locks a row. Returns `false` if the row is to be skipped or is gone. If it is gone, the
    /// statement may have to start over, which is returned as an error (NEWEST-6).
    pub(super) fn lock(
        &self,
        table: &TableDef,
        key: &[u8],
        (mode, wait): (LockMode, LockWait),
        newest: &mut Vec<u8>,
    ) -> Result<bool> {
        let (context, txn) = (self.context, self.context.txn);
        if !txn.lock(table.rows(), key, mode, wait)? {
            return Ok(false);
        }
        if !txn.get_locked(table.rows(), key, mode, wait, newest)? {
            start_over(context, self.locked.get())?;
            return Ok(false);
        }
        self.locked.set(self.locked.get() + 1);
        // A row that has not changed since has only this one entry.
        if self.by_index && txn.newest_read() > self.state.get() {
            self.given.borrow_mut().insert(key.into());
        }
        Ok(true)
    }
}

/// Called when a row that was found is gone: the row may have got a key that the scan has passed
/// already. Makes the statement start over, unless it has started over too often or has locked many
/// rows.
pub(super) fn start_over(context: &Context<'_>, locked: usize) -> Result<()> {
    if context.starts_over && locked < ROWS_TO_START_OVER {
        return Err(SqlError::starts_over());
    }
    Ok(())
}

/// Records whether a row had changed before it was locked.
pub(crate) fn note_moved(context: &Context<'_>, moved: bool) {
    context.moved.set(context.moved.get() + u64::from(moved));
}

/// How often another transaction has interfered with the statement's rows: the statement waited for
/// a lock, or found a row changed.
pub(crate) fn turns(context: &Context<'_>) -> u64 {
    context.txn.waits_granted() + context.moved.get()
}

/// Reads rows at some places, which the caller locks if it wants them. `take` gets the bytes of a
/// row and its key, and returns `false` to stop.
pub(super) fn each(
    context: &Context<'_>,
    table: &TableDef,
    (access, spans): (&Access, &[Span]),
    moves: Option<&Moves<'_>>,
    mut take: impl FnMut(&[u8], &[u8]) -> Result<bool>,
) -> Result<()> {
    let mut lookups = Lookups::to_lock(context, table.rows());
    let mut found = |key: &[u8], bytes: &[u8]| take(bytes, key);
    for span in in_order(access, spans) {
        check_now_and_then(context, 1)?;
        let more = match access.index {
            None if is_row(table, span) => lookups.row(&span.start, &mut found),
            None if !lookups.rest(&mut found)? => return Ok(()),
            _ => each_in(context, table, (access, span, moves), &mut lookups, &mut found),
        };
        match more {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            // Pass on the rows before the failed one first.
            Err(error) => return if lookups.rest(&mut found)? { Err(error) } else { Ok(()) },
        }
    }
    lookups.rest(&mut found).map(drop)
}

/// Reads the rows in one span. Each part of the span is read in the state that is newest when the
/// scan reaches the part (NEWEST-2).
fn each_in<'c>(
    context: &'c Context<'c>,
    table: &TableDef,
    (access, span, moves): (&Access, &Span, Option<&Moves<'_>>),
    lookups: &mut Lookups<'c>,
    take: &mut impl FnMut(&[u8], &[u8]) -> Result<bool>,
) -> Result<bool> {
    let direction = if access.backward { Direction::Backward } else { Direction::Forward };
    let space = access.index.map_or(table.rows(), |at| TableId(table.indexes[at].space));
    let (mut start, mut end) = (span.start.to_vec(), span.end.as_deref().map(<[u8]>::to_vec));
    loop {
        let range = KeyRange::new(&start, end.as_deref());
        if range.is_empty() {
            return Ok(true);
        }
        let before = turns(context);
        let mut scan = context.txn.scan_to_lock(space, range, direction)?;
        if let (Some(moves), Some(state)) = (moves, scan.state()) {
            moves.state.set(state);
        }
        let mut reached: Option<Vec<u8>> = None;
        let newer = |scan: &Scan<'_>| scan.is_behind() || turns(context) != before;
        while !newer(&scan) && scan.advance()? {
            check_now_and_then(context, 1)?;
            let more = match access.index {
                Some(index) => lookups.row(row_key(table, index, scan.key())?, take)?,
                None => take(scan.key(), scan.value())?,
            };
            if !more {
                return Ok(false);
            }
            let reached = reached.get_or_insert_default();
            reached.clear();
            reached.extend_from_slice(scan.key());
        }
        if !lookups.rest(take)? {
            return Ok(false);
        }
        if !newer(&scan) {
            return Ok(true);
        }
        match (reached, direction) {
            (Some(reached), Direction::Forward) => start = successor(&reached),
            (Some(reached), Direction::Backward) => end = Some(reached),
            (None, _) => {}
        }
    }
}
