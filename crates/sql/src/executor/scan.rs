//! Reads the rows of a table into the slots that the table's columns have in the query's row.

use spillway::{KeyRange, LockMode, LockWait, Met};
use spillway_types::{Value, ValueRef};

use super::row_reads::{Reading, each_row};
use super::span_scan::is_row;
use super::spans::Places;
use super::to_lock::Moves;
use super::{index_ranges, pushdown, to_lock};
use crate::catalog::{StoredRow, TableDef, shift_timestamps};
use crate::errors::Result;
use crate::expression::{Context, Expr};
use crate::planner::{Row, Source};

/// A receiver of a source's rows, which lie in the source's slots of a wider row. It may move the
/// row out if the query has only this source.
pub(super) type Take<'e> = dyn FnMut(&mut Row) -> Result<bool> + 'e;

/// Reads a table's rows into the source's slots; the last slot has the row's key.
///
/// If a change of several tables only reads this one ([`Source::shared`]), a locking read locks its
/// rows in shared mode, whatever mode the other tables need. It locks each row that satisfies the
/// conditions, reads it again and rechecks the conditions. If the whole primary key is given, it
/// locks before it reads anything. So the statement's snapshot is never older than the row
/// (decision 012).
pub(crate) fn scan_table(
    context: &Context<'_>,
    source: &Source,
    table: &TableDef,
    row: &mut Row,
    reading: Reading,
    take: &mut Take<'_>,
) -> Result<()> {
    let (access, places) = index_ranges::choose(context, source, table, row)?;
    let reading = match reading {
        Reading::Locking(_, wait) if source.shared => Reading::Locking(LockMode::Shared, wait),
        Reading::ToLock if !context.txn.acts_on_newest() => Reading::Plain,
        other => other,
    };
    let mut fetched = Fetched { context, source, table, lock: reading.lock(), moves: None };
    if reading == Reading::Plain {
        return pushdown::scan_stored(
            context,
            source,
            table,
            (access, &places),
            true,
            |stored: &StoredRow<'_>, key: &[u8]| {
                fetched.read(stored, key, row)?;
                take(row)
            },
        );
    }
    let moves = Moves::of(context, access);
    fetched.moves = moves.as_ref();
    each_row(context, table, access, &places, (reading, moves.as_ref()), |bytes, key, locked| {
        fetched.read(&StoredRow::new(bytes, &source.versions)?, key, row)?;
        if !locked && !fetched.lock(key, row)? {
            return Ok(true);
        }
        take(row)
    })
}

/// Deletes the rows that satisfy the conditions while the table is scanned, and returns their
/// number. Returns `None` if the rows must be found in another way. `gone` gets each row once it is
/// locked, with its key in the last slot.
///
/// The rows are not kept in memory, and rows that lie together are deleted at once. So the
/// conditions must not read this table in another way.
pub(crate) fn delete_rows(
    context: &Context<'_>,
    source: &Source,
    table: &TableDef,
    mut gone: impl FnMut(&[Value]) -> Result<()>,
) -> Result<Option<u64>> {
    let mut row = vec![Value::Null; source.width];
    let (access, places) = index_ranges::choose(context, source, table, &row)?;
    let Places::Spans(spans) = places else { return Ok(None) };
    // Rows that are given by their whole keys take another path: it locks each before it reads it,
    // and looks up several together.
    let looked_up = access.point || spans.all.iter().all(|span| is_row(table, span));
    if access.index.is_some() || looked_up || source.filters.iter().any(looks_around) {
        return Ok(None);
    }
    let mut fetched = Fetched { context, source, table, lock: None, moves: None };
    let is_bare = source.filters.is_empty() && table.maintained().next().is_none();
    let (mut deleted, mut seen, mut locked) = (0, 0_u32, 0);
    for span in &spans.all {
        let range = KeyRange::new(&span.start, span.end.as_deref());
        let choose = |key: &[u8], bytes: &[u8], met| -> Result<bool> {
            seen = seen.wrapping_add(1);
            if seen.is_multiple_of(256) {
                context.check_killed()?;
            }
            if met == Met::Gone {
                to_lock::start_over(context, locked)?;
                return Ok(false);
            }
            locked += usize::from(met != Met::Found);
            if is_bare {
                return Ok(true);
            }
            if met != Met::Locked {
                fetched.read(&StoredRow::new(bytes, &source.versions)?, key, &mut row)?;
                for filter in &source.filters {
                    if !context.holds(filter, &row)? {
                        return Ok(false);
                    }
                }
            }
            if met != Met::Found {
                gone(&row)?;
            }
            Ok(true)
        };
        deleted += context.txn.delete_rows(table.rows(), range, choose)?;
    }
    Ok(Some(deleted))
}

/// Whether an expression depends on more than a row.
fn looks_around(expr: &Expr) -> bool {
    let mut looks = false;
    expr.walk(&mut |part| looks |= matches!(part, Expr::Subquery { .. } | Expr::Assign(..)));
    looks
}
struct Fetched<'a> {
    context: &'a Context<'a>,
    source: &'a Source,
    table: &'a TableDef,
    lock: Option<(LockMode, LockWait)>,
    /// Tracks the rows that other transactions may have moved before they were locked.
    moves: Option<&'a Moves<'a>>,
}

impl Fetched<'_> {
    /// Copies the needed columns into the source's slots.
    fn read(&mut self, stored: &StoredRow<'_>, key: &[u8], row: &mut Row) -> Result<()> {
        let offset = self.source.offset;
        if row.len() < offset + self.source.width {
            // The receiver has moved the previous row out.
            row.resize(offset + self.source.width, Value::Null);
        }
        let mut column = |at: usize| -> Result<()> {
            stored.get(at)?.clone_into(&mut row[offset + at]);
            Ok(())
        };
        match &self.source.needed {
            Some(needed) => needed.iter().try_for_each(|at| column(*at))?,
            None => {
                (0..self.table.columns.len()).try_for_each(column)?;
                ValueRef::Bytes(key).clone_into(&mut row[offset + self.source.width - 1]);
            }
        }
        let shift = self.context.variables.borrow().time_offset_micros;
        shift_timestamps(self.table, &mut row[offset..offset + self.source.width - 1], shift);
        Ok(())
    }

    /// Locks a row that satisfies the conditions and reads it again. Returns `false` if the row
    /// must be skipped. A row that does not satisfy the conditions is not locked but passed on,
    /// because an outer join must see it; the caller rejects it. Only conditions that read this
    /// source alone, and have the same value each time, are evaluated here. The caller evaluates
    /// the others on the locked row.
    fn lock(&mut self, key: &[u8], row: &mut Row) -> Result<bool> {
        let Some((mode, wait)) = self.lock else { return Ok(true) };
        if self.moves.is_some_and(|moves| moves.was_given(key)) {
            return Ok(false);
        }
        let own = self.source.offset..self.source.offset + self.source.width;
        let local = |expr: &&Expr| crate::expression::within(expr, &own);
        let hold = |row: &Row| -> Result<bool> {
            for filter in self.source.filters.iter().filter(local) {
                if !self.context.holds(filter, row)? {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        if !hold(row)? {
            return Ok(true);
        }
        let mut newest = Vec::new();
        let there = match self.moves {
            Some(moves) => moves.lock(self.table, key, (mode, wait), &mut newest)?,
            None => self.context.txn.get_locked(self.table.rows(), key, mode, wait, &mut newest)?,
        };
        if !there {
            return Ok(false);
        }
        self.read(&StoredRow::new(&newest, &self.source.versions)?, key, row)?;
        Ok(true)
    }
}
