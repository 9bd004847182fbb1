//! UPDATE and DELETE of one table.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::sync::Arc;

use smallvec::SmallVec;
use spillway::{ColumnsRead, LockMode, LockWait, Scratch};
use spillway_types::{Collation, Value};
use sqlparser::ast::{self, FromTable, TableFactor};

use super::bulk::Changer;
use super::{
    Changed, Maker, Rules, bulk, changed_scope, is_same, named_table, same, target, unsafe_update,
    value_for,
};
use crate::catalog::{TableDef, shift_timestamps};
use crate::errors::{Result, SqlError};
use crate::executor::{HeldMemory, store};
use crate::expression::{Context, Expr};
use crate::planner::{Binder, Hints, Names, Row, Source};
use crate::{executor, planner};

/// How many assigned columns, and columns of a table, need no allocation.
const FEW: usize = 4;
const MANY: usize = 16;

/// A column, and the value that an UPDATE assigns to it; `None` for DEFAULT.
pub(super) type Assignment = (usize, Option<Expr>);

/// How often rows are chosen by ORDER BY and LIMIT, if other transactions change the rows
/// meanwhile. After that, the rows that were chosen last and still satisfy the conditions are
/// changed.
const CHOICES_MAX: usize = 10;

/// The rows to change: usually one.
type Targets = SmallVec<[Row; 1]>;

/// The rows that a statement changes. They are locked.
enum FoundRows {
    Rows(Targets),
    /// The rows' keys, in the order in which the rows are changed.
    Keys(Scratch),
}

/// A bound UPDATE or DELETE.
#[derive(Debug)]
pub(crate) struct ChangePlan {
    pub(super) rules: Rules,
    pub(super) source: Source,
    order: Vec<(Expr, bool, Collation)>,
    limit: Option<Expr>,
    /// The assignments of an UPDATE; `None` for a DELETE.
    pub(super) assignments: Option<Vec<Assignment>>,
    pub(super) ignore: bool,
    /// Whether each row may be changed as soon as it is found (`bulk`).
    pub(super) in_place: bool,
    /// The columns that decide which rows are changed. The rows themselves are read again under
    /// their locks.
    read: ColumnsRead,
}

/// Returns the single table that a statement changes, and its alias.
fn single(
    names: Names<'_>,
    tables: &[ast::TableWithJoins],
    right: &'static [&'static str],
) -> Result<(Arc<TableDef>, String, Hints)> {
    let [tables] = tables else {
        return Err(SqlError::unsupported("UPDATE or DELETE of several tables"));
    };
    if !tables.joins.is_empty() {
        return Err(SqlError::unsupported("UPDATE or DELETE of several tables"));
    }
    let TableFactor::Table { name, alias, index_hints, .. } = &tables.relation else {
        return Err(SqlError::unsupported(&tables.relation));
    };
    let table = named_table(names, name, &[right])?;
    let alias = alias.as_ref().map_or_else(|| table.name.clone(), |alias| alias.name.value.clone());
    let hints = Hints::new(&table, index_hints)?;
    Ok((table, alias, hints))
}

impl ChangePlan {
    /// Binds an UPDATE.
    pub(crate) fn update(names: Names<'_>, update: &ast::Update) -> Result<ChangePlan> {
        let (table, alias, hints) =
            single(names, std::slice::from_ref(&update.table), &["UPDATE"])?;
        let mut binder = table_binder(names, &table, &alias);
        let mut assignments = Vec::new();
        for assignment in &update.assignments {
            let column = target(&table, &alias, &assignment.target)?;
            let ty = &table.columns[column].ty;
            assignments.push((column, value_for(&mut binder, &assignment.value, ty)?));
        }
        let (source, order, limit) = rows_of(
            &mut binder,
            (&table, &alias, hints),
            update.selection.as_ref(),
            &update.order_by,
            update.limit.as_ref(),
        )?;
        let rules = Rules::new(names.catalog, &table);
        let ignore = update.or.is_some();
        let in_place =
            order.is_empty() && limit.is_none() && bulk::is_safe(&source, &rules, &assignments);
        let assignments = Some(assignments);
        let read = columns_chosen_by(&table, &source, &order);
        Ok(ChangePlan { rules, source, order, limit, assignments, ignore, in_place, read })
    }

    /// Binds a DELETE.
    pub(crate) fn delete(names: Names<'_>, delete: &ast::Delete) -> Result<ChangePlan> {
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
        let (table, alias, hints) = single(names, from, &["DELETE"])?;
        let mut binder = table_binder(names, &table, &alias);
        let (source, order, limit) = rows_of(
            &mut binder,
            (&table, &alias, hints),
            delete.selection.as_ref(),
            &delete.order_by,
            delete.limit.as_ref(),
        )?;
        let rules = Rules::new(names.catalog, &table);
        let (assignments, ignore, in_place) = (None, false, false);
        let read = columns_chosen_by(&table, &source, &order);
        Ok(ChangePlan { rules, source, order, limit, assignments, ignore, in_place, read })
    }

    /// Whether the statement looks up one row by its whole primary key.
    pub(crate) fn looks_up(&self) -> bool {
        self.source.looks_up()
    }

    /// The rows of EXPLAIN: how the statement finds its rows.
    pub(crate) fn explain(&self) -> Vec<Vec<Value>> {
        let kind = if self.assignments.is_some() { "UPDATE" } else { "DELETE" };
        crate::executor::explain_change(kind, &self.source, !self.order.is_empty())
    }

    /// Runs the statement.
    pub(crate) fn run(&self, context: &Context<'_>) -> Result<Changed> {
        let safe = context.variables.borrow().often.safe_updates;
        if safe && self.limit.is_none() && self.source.access.is_full() {
            return Err(unsafe_update());
        }
        let maker = Maker::new(context, &self.rules, self.ignore);
        context.txn.reads_columns(maker.table().rows(), self.read);
        if let Some(affected) = self.delete_in_place(context, &maker)? {
            return Ok(Changed { affected, ..Changed::default() });
        }
        let mut changer = Changer::new(self, &maker);
        if changer.in_place(context)? {
            return Ok(changer.changed(context));
        }
        let mut held = HeldMemory::new(context);
        // The first row uses this buffer, and gives it back at the end.
        let mut room = context.room.values();
        match self.targets(context, &mut room, &mut held)? {
            FoundRows::Rows(mut rows) => {
                rows.iter_mut().try_for_each(|row| changer.change(row))?;
                give_back(rows, &mut room);
            }
            FoundRows::Keys(mut keys) => changer.each_of(&mut keys)?,
        }
        Ok(changer.changed(context))
    }

    /// Deletes each row as soon as it is found, and returns the number of rows. Returns `None` if
    /// this is an UPDATE, or if all rows must be found first.
    fn delete_in_place(&self, context: &Context<'_>, maker: &Maker<'_>) -> Result<Option<u64>> {
        if self.assignments.is_some() || !self.order.is_empty() || self.limit.is_some() {
            return Ok(None);
        }
        let table = maker.table();
        executor::delete_rows(context, &self.source, table, |row| {
            let mut row = row.to_vec();
            let (row, pk) = split_key(&mut row);
            maker.to_stored(row);
            store::delete_entries(context.txn, table, row, pk)
        })
    }

    /// Finds and locks the rows to change, each with its key. The first row uses the memory of
    /// `row`. If the rows do not fit memory, and there is no ORDER BY, only their keys are
    /// returned, on disk.
    fn targets(
        &self,
        context: &Context<'_>,
        row: &mut Row,
        held: &mut HeldMemory,
    ) -> Result<FoundRows> {
        let limit = executor::count(context, self.limit.as_ref())?
            .map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        if limit == 0 {
            return Ok(FoundRows::Rows(Targets::new()));
        }
        row.resize(self.source.width, Value::Null);
        let mut tries = 0;
        loop {
            let before = executor::turns(context);
            let targets = self.choose(context, limit, row, held)?;
            tries += 1;
            // Once some rows have changed, other rows may come first in the order.
            let chose_late = !self.order.is_empty() && limit < usize::MAX;
            let moved = chose_late && context.txn.acts_on_newest();
            if !moved || executor::turns(context) == before || tries == CHOICES_MAX {
                return Ok(targets);
            }
            row.resize(self.source.width, Value::Null);
        }
    }

    /// Chooses at most `limit` rows and locks them.
    fn choose(
        &self,
        context: &Context<'_>,
        limit: usize,
        row: &mut Row,
        held: &mut HeldMemory,
    ) -> Result<FoundRows> {
        let (source, order) = (&self.source, &self.order);
        let mut found: SmallVec<[(Row, Row); 1]> = SmallVec::new();
        let mut spilled: Option<Scratch> = None;
        // With an order and a limit, only the rows within the limit are locked.
        let sorted = !order.is_empty();
        let late = sorted && limit < usize::MAX;
        let table = &self.rules.table;
        let lock = executor::Reading::Locking(LockMode::Exclusive, LockWait::Wait);
        let first = if late { executor::Reading::ToLock } else { lock };
        executor::scan_table(context, source, table, row, first, &mut |row| {
            if !self.fits(context, row)? {
                return Ok(true);
            }
            if let Some(keys) = &mut spilled {
                keys.push(key_of(row))?;
                return Ok(keys.len() < limit as u64);
            }
            let keys = order.iter().map(|(e, ..)| context.eval(e, row)).collect::<Result<Row>>()?;
            match held.add(&keys).and_then(|()| held.add(row)) {
                Err(full) if full.code == 1038 && !sorted => {
                    let mut keys = context.txn.scratch()?;
                    found.drain(..).try_for_each(|(_, row)| keys.push(key_of(&row)))?;
                    keys.push(key_of(row))?;
                    spilled = Some(keys);
                    *held = HeldMemory::new(context);
                    return Ok(true);
                }
                fits => fits?,
            }
            found.push((keys, std::mem::take(row)));
            Ok(sorted || found.len() < limit)
        })?;
        if let Some(keys) = spilled {
            return Ok(FoundRows::Keys(keys));
        }
        if sorted {
            found.sort_by(|(a, _), (b, _)| {
                let keys = order.iter().zip(a.iter().zip(b));
                keys.map(|((_, asc, collation), (a, b))| executor::order_of(a, b, *asc, *collation))
                    .find(|order| order.is_ne())
                    .unwrap_or(Ordering::Equal)
            });
        }
        let rows = found.into_iter().map(|(_, row)| row);
        let rows = if late { self.lock(context, rows, limit)? } else { rows.collect() };
        Ok(FoundRows::Rows(rows))
    }

    pub(super) fn fits(&self, context: &Context<'_>, row: &[Value]) -> Result<bool> {
        for filter in &self.source.filters {
            if !context.holds(filter, row)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Locks the first of the rows that were found without locks, and reads them again. Under READ
    /// COMMITTED, another transaction may have changed a row meanwhile. If the row no longer
    /// satisfies the conditions, the next row takes its place.
    fn lock(
        &self,
        context: &Context<'_>,
        rows: impl Iterator<Item = Row>,
        limit: usize,
    ) -> Result<Targets> {
        let table = &self.rules.table;
        let shift = context.variables.borrow().time_offset_micros;
        let mut locked = Targets::new();
        let mut bytes = Vec::new();
        for mut row in rows {
            if locked.len() == limit {
                break;
            }
            let Some(Value::Bytes(pk)) = row.pop() else { continue };
            let (mode, wait) = (LockMode::Exclusive, LockWait::Wait);
            if context.txn.get_locked(table.rows(), &pk, mode, wait, &mut bytes)? {
                let mut newest = Vec::new();
                table.decode(&bytes, &mut newest)?;
                shift_timestamps(table, &mut newest, shift);
                executor::note_moved(context, !same(&row, &newest));
                newest.push(Value::Bytes(pk));
                if self.fits(context, &newest)? {
                    locked.push(newest);
                }
            } else {
                executor::note_moved(context, true);
            }
        }
        Ok(locked)
    }
}

/// The columns that the conditions and the order use.
fn columns_chosen_by(
    table: &TableDef,
    source: &Source,
    order: &[(Expr, bool, Collation)],
) -> ColumnsRead {
    let order = order.iter().map(|(expr, ..)| expr);
    planner::columns_of(table, source.filters.iter().chain(order))
}

fn table_binder<'a>(names: Names<'a>, table: &TableDef, alias: &str) -> Binder<'a> {
    let mut binder = Binder::new(names);
    let mut columns = changed_scope(table);
    alias.clone_into(&mut columns.alias);
    binder.scope.tables.push(columns);
    binder
}

/// The rows that a statement changes: their source with its conditions, the order and the limit.
fn rows_of(
    binder: &mut Binder<'_>,
    (table, alias, hints): (&Arc<TableDef>, &str, Hints),
    selection: Option<&ast::Expr>,
    order: &[ast::OrderByExpr],
    limit: Option<&ast::Expr>,
) -> Result<(Source, Vec<(Expr, bool, Collation)>, Option<Expr>)> {
    let mut conditions = Vec::new();
    if let Some(selection) = selection {
        binder.place = "where clause";
        binder.condition(selection)?.conjuncts(&mut conditions);
    }
    binder.place = "order clause";
    let mut order = order
        .iter()
        .map(|by| {
            let bound = binder.bind(&by.expr)?.by_member();
            Ok((bound.expr, by.options.asc.unwrap_or(true), bound.collation))
        })
        .collect::<Result<Vec<_>>>()?;
    let limit = limit.map(|limit| planner::bind_count(binder, limit)).transpose()?;
    let mut source = planner::plan_table(table, alias, conditions, hints);
    // If an index finds the rows in the requested order, they are read and locked one by one until
    // there are enough.
    if limit.is_some() && !order.is_empty() && planner::by_order(&mut source, &order) {
        order.clear();
    }
    Ok((source, order, limit))
}

/// Keeps the memory of the first row for the next statement.
fn give_back(rows: Targets, room: &mut Row) {
    if let Some(row) = rows.into_iter().next() {
        *room = row;
    }
}

/// Splits a row with its key at the end into its columns and the key.
pub(super) fn split_key(row: &mut [Value]) -> (&mut [Value], &[u8]) {
    match row.split_last_mut() {
        Some((Value::Bytes(key), row)) => (row, key),
        Some((_, row)) => (row, &[]),
        None => (&mut [], &[]),
    }
}

/// The key of a row that has its key after its columns.
fn key_of(row: &[Value]) -> &[u8] {
    match row.last() {
        Some(Value::Bytes(key)) => key,
        _ => &[],
    }
}

/// Changes a row as an UPDATE specifies. The row has its key after its columns. Returns whether the
/// row changed.
pub(super) fn change_row(
    maker: &Maker<'_>,
    row: &mut [Value],
    assignments: &[Assignment],
    number: u64,
) -> Result<bool> {
    let (table, context) = (maker.table(), maker.context);
    let _kept = context.keep_values();
    let (new, pk) = split_key(row);
    // The assigned columns, and at the same positions their previous values.
    let mut columns: SmallVec<[usize; FEW]> = SmallVec::new();
    let mut before = context.room.before();
    for (column, expr) in assignments {
        let free = columns.len();
        if before.len() == free {
            before.push(Value::Null);
        }
        let place = &mut before[free];
        match expr {
            Some(expr) => maker.store_into(*column, context.value(expr, new)?, number, place)?,
            None => *place = maker.default(*column)?,
        }
        std::mem::swap(&mut new[*column], place);
        if !columns.contains(column) {
            columns.push(*column);
        }
    }
    let mut had = columns.iter().zip(&*before);
    if had.all(|(column, was)| is_same(&new[*column], was)) {
        return Ok(false);
    }
    let assigned = |at: usize| assignments.iter().any(|(column, _)| *column == at);
    for (at, column) in table.columns.iter().enumerate() {
        if column.on_update_now && !assigned(at) {
            before.truncate(columns.len());
            before.push(new[at].clone());
            columns.push(at);
        }
    }
    maker.touch(new, assigned);
    if maker.shift != 0 {
        let mut old = new.to_vec();
        columns.iter().zip(before.drain(..)).for_each(|(column, was)| old[*column] = was);
        maker.note_number(new, &old)?;
        maker.check(new)?;
        maker.to_stored(&mut old);
        maker.to_stored(new);
        put(maker, &old, new, pk)?;
        return Ok(true);
    }
    let was = |at| columns.iter().position(|column| *column == at).map(|place| &before[place]);
    let old: SmallVec<[&Value; MANY]> =
        new.iter().enumerate().map(|(at, value)| was(at).unwrap_or(value)).collect();
    maker.note_number(new, &old)?;
    maker.check(new)?;
    put(maker, &old, new, pk)?;
    Ok(true)
}

/// Replaces a row by another. Both are in stored form.
fn put<V: Borrow<Value>>(maker: &Maker<'_>, old: &[V], new: &[Value], pk: &[u8]) -> Result<()> {
    let (table, context) = (maker.table(), maker.context);
    let same = |column: usize| std::ptr::eq(old[column].borrow(), &raw const new[column]);
    let new_pk = if table.primary.iter().all(|part| same(part.column)) {
        None
    } else {
        Some(maker.key(new)?)
    };
    let new_pk = new_pk.as_ref().map_or(pk, |key| key.as_slice());
    store::update_row(context.txn, table, (old, new), pk, new_pk, context.room)
}
