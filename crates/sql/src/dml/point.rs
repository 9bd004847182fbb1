//! Changes of the one row that has a primary key of whole numbers, texts or bytes: from the
//! parameters to the row, and back.
//!
//! Such a change chooses nothing and tests nothing. It needs only the columns that its assignments
//! and the changed index entries use. It locks and reads the row, overwrites the assigned columns
//! in the row's bytes, and updates the entries that change. It never looks at the other columns.
//!
//! # Guarantees
//!
//! - **C1.** The row, its entries, the locks, the answer and the errors are those of the general
//!   path, in the same order of events. But a transaction that consists of this change alone takes
//!   no snapshot: nothing would be read at it.
//! - **C2.** If the row is not as expected, or its key is not of the kinds of its columns, the
//!   general path runs. Until then nothing was done but locking the row, which the general path
//!   locks, too.

use smallvec::SmallVec;
use spillway::Transaction;
use spillway_types::row::{RowReader, rewrite_row};
use spillway_types::{ColumnType, Value, ValueRef};

use super::change::{FEW, MANY};
use super::{Maker, Rules, is_same};
use crate::catalog::{IndexDef, TableDef};
use crate::errors::Result;
use crate::expr::Expr;
use crate::query::{Held, PointKey, Row, Source};
use crate::rows::Stored;
use crate::store;

/// A column, and what an UPDATE gives it; `None` for DEFAULT.
pub(super) type Assignment = (usize, Option<Expr>);

/// An UPDATE or DELETE that changes one row.
#[derive(Debug)]
pub(super) struct PointChange {
    key: PointKey,
    /// Columns that are read of the row as it was.
    reads: Vec<usize>,
    /// Columns that are given something, ascending, with their places among the assignments.
    given: SmallVec<[(usize, usize); FEW]>,
    /// Whether entries of indexes may change.
    has_entries: bool,
}

/// What became of a row that was looked for.
pub(super) enum Fate {
    /// There is none.
    Missing,
    /// It has what it is given.
    Same,
    Changed,
}

impl PointChange {
    /// A DELETE, or with assignments an UPDATE, as a change of one row, where it is no more than
    /// that.
    pub(super) fn of(
        source: &Source,
        rules: &Rules,
        assignments: Option<&[Assignment]>,
    ) -> Option<PointChange> {
        let key = PointKey::of(source)?;
        let table = &*rules.table;
        let mut given: SmallVec<[(usize, usize); FEW]> = assignments
            .into_iter()
            .flatten()
            .enumerate()
            .map(|(place, (column, _))| (*column, place))
            .collect();
        given.sort_unstable();
        let once = given.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let is_given = |column: usize| given.iter().any(|(at, _)| *at == column);
        let plain = assignments.is_none()
            || once
                && rules.checks.is_empty()
                && !table.primary.iter().any(|part| is_given(part.column))
                && !rules.auto.is_some_and(is_given)
                && !table.columns.iter().any(|column| column.on_update_now);
        let mut reads = Vec::new();
        let mut looks_around = false;
        for expr in assignments.into_iter().flatten().filter_map(|(_, expr)| expr.as_ref()) {
            expr.walk(&mut |part| match part {
                Expr::Column(column) => reads.push(*column),
                Expr::Subquery { .. } | Expr::Outer(..) | Expr::Inserted(_) => looks_around = true,
                _ => {}
            });
        }
        let changes = |index: &&IndexDef| {
            assignments.is_none() || index.parts.iter().any(|part| is_given(part.column))
        };
        let changing = || table.maintained().filter(changes);
        reads.extend(changing().flat_map(|index| index.parts.iter().map(|part| part.column)));
        reads.sort_unstable();
        reads.dedup();
        // What is stored of a TIMESTAMP is not what a session sees.
        let is_shifted = |column: &usize| {
            table.columns.get(*column).is_none_or(|at| matches!(at.ty, ColumnType::Timestamp(_)))
        };
        let shifted = reads.iter().any(is_shifted) || given.iter().any(|(at, _)| is_shifted(at));
        let has_entries = changing().next().is_some();
        let is_point = plain && !looks_around && !shifted;
        is_point.then_some(PointChange { key, reads, given, has_entries })
    }

    /// Gives the row what an UPDATE says; `None` where the general way is the one to take.
    pub(super) fn update(
        &self,
        maker: &Maker<'_>,
        source: &Source,
        assignments: &[Assignment],
    ) -> Result<Option<Fate>> {
        let (table, context) = (maker.table(), maker.context);
        self.change(maker, source, |was, row, key| {
            // Each assignment makes its value in a place of its own, and that is where what the
            // column had goes.
            let mut before = context.room.before();
            let places = before.len().max(assignments.len());
            before.resize(places, Value::Null);
            for (place, (column, expr)) in before.iter_mut().zip(assignments) {
                match expr {
                    Some(expr) => maker.store_into(*column, context.value(expr, row)?, 1, place)?,
                    None => *place = maker.default(*column)?,
                }
                std::mem::swap(&mut row[*column], place);
            }
            if self.gives_the_same(was, row)? {
                return Ok(Fate::Same);
            }
            if self.has_entries {
                let place_of = |at| {
                    self.given.iter().find(|(column, _)| *column == at).map(|(_, place)| place)
                };
                let old: SmallVec<[&Value; MANY]> = row
                    .iter()
                    .enumerate()
                    .map(|(at, value)| place_of(at).map_or(value, |place| &before[*place]))
                    .collect();
                store::update_entries(context.txn, table, (&old, row), key, context.room)?;
            }
            let mut now = context.room.other();
            let given = self.given.iter().map(|(column, _)| (*column, row[*column].as_ref()));
            rewrite_row(was, given, &mut now)?;
            context.txn.put_locked(table.rows(), key, Some(&now))?;
            Ok(Fate::Changed)
        })
    }

    /// Deletes the row; `None` where the general way is the one to take.
    pub(super) fn delete(&self, maker: &Maker<'_>, source: &Source) -> Result<Option<Fate>> {
        let (table, txn) = (maker.table(), maker.context.txn);
        self.change(maker, source, |_, row, key| {
            store::delete_entries(txn, table, row, key)?;
            txn.put_locked(table.rows(), key, None)?;
            Ok(Fate::Changed)
        })
    }

    /// Locks the row and reads it, and has `change` change it, which is given what it was, the
    /// columns of it that are read, and its key.
    fn change(
        &self,
        maker: &Maker<'_>,
        source: &Source,
        change: impl FnOnce(&RowReader<'_>, &mut Row, &[u8]) -> Result<Fate>,
    ) -> Result<Option<Fate>> {
        let (table, context) = (maker.table(), maker.context);
        let (mut key, mut bytes) = (context.room.key(), context.room.row());
        if !self.key.write(context.params, &mut key) {
            return Ok(None);
        }
        let found = context.txn.get_to_change(table.rows(), &key, context.alone, &mut bytes)?;
        // What is done from here on is not done twice.
        context.txn.leave_reads(false);
        if !found {
            return Ok(Some(Fate::Missing));
        }
        let stored = Stored::new(&bytes, &source.versions)?;
        // The general way charges the budget for a row that is long.
        let short = bytes.len() <= Held::FREE;
        if replaces_entries(context.txn, table, &key)? {
            return Ok(None);
        }
        let Some(was) = whole(&stored, table).filter(|_| short) else { return Ok(None) };
        let mut row = context.room.values();
        self.read(was, table, &mut row)?;
        change(was, &mut row, &key).map(Some)
    }

    /// Reads the columns that are asked for; what is in the places of others is of other rows.
    fn read(&self, was: &RowReader<'_>, table: &TableDef, row: &mut Row) -> Result<()> {
        row.resize(table.columns.len(), Value::Null);
        for column in &self.reads {
            was.get(*column)?.unwrap_or(ValueRef::Null).clone_into(&mut row[*column]);
        }
        Ok(())
    }

    /// Whether all columns that are given something have it already.
    fn gives_the_same(&self, was: &RowReader<'_>, row: &[Value]) -> Result<bool> {
        for (column, _) in &self.given {
            let same = match (was.get(*column)?.unwrap_or(ValueRef::Null), &row[*column]) {
                (ValueRef::Text(was), Value::Text(now)) => was == now,
                (ValueRef::Int(was), Value::Int(now)) => was == *now,
                (was, now) => {
                    let mut owned = Value::Null;
                    was.clone_into(&mut owned);
                    is_same(now, &owned)
                }
            };
            if !same {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Whether entries of a row are to replace those that the snapshot has, which takes all columns
/// that indexes have.
fn replaces_entries(txn: &Transaction, table: &TableDef, key: &[u8]) -> Result<bool> {
    let mut replaced = Vec::new();
    Ok(table.maintained().next().is_some()
        && txn.get_replaced(table.rows(), key, &mut replaced)?.is_some())
}

/// A row that has all columns of its table where the table's definition has them.
fn whole<'r>(stored: &'r Stored<'_>, table: &TableDef) -> Option<&'r RowReader<'r>> {
    match stored {
        Stored::Row(reader, _) if reader.columns() == table.columns.len() => Some(reader),
        _ => None,
    }
}
