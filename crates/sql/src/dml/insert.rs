//! INSERT and REPLACE.

use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;

use spillway::{LockMode, LockWait};
use spillway_types::Value;
use spillway_types::convert::to_i128;
use sqlparser::ast::{self, OnInsert, SetExpr, TableObject};

use super::bulk::keep_thread;
use super::{
    Changed, Maker, Rules, changed_scope, lacks_default, name_path, named_column, named_table,
    query_columns, same, target, value_for,
};
use crate::api::Info;
use crate::catalog::{DefaultValue, TableDef, shift_timestamps};
use crate::errors::{Result, SqlError};
use crate::executor::store;
use crate::expression::{Context, Expr, handed};
use crate::parser::RowSource;
use crate::planner::{Binder, Names, QueryPlan, Row};
use crate::{executor, planner};

/// A bound INSERT or REPLACE.
#[derive(Debug)]
pub(crate) struct InsertPlan {
    rules: Rules,
    /// The columns for which values are given.
    columns: Vec<usize>,
    /// The other columns.
    others: Vec<usize>,
    source: InsertSource,
    replace: bool,
    ignore: bool,
    /// ON DUPLICATE KEY UPDATE: the assignments, over the columns of the existing row, those of the
    /// row to insert, and those of the query that they name; `None` for DEFAULT.
    update: Vec<(usize, Option<Expr>)>,
}

#[derive(Debug)]
enum InsertSource {
    Rows(Vec<GivenRow>),
    Query {
        plan: Box<QueryPlan>,
        /// The number of its last columns that only ON DUPLICATE KEY UPDATE reads.
        more: usize,
        /// Whether the query may read the table to which its rows are written. Then all rows are
        /// found before the first one is written.
        reads_target: bool,
    },
}

/// The values of a row of VALUES; `None` for DEFAULT.
#[derive(Debug)]
struct GivenRow {
    values: Vec<Option<Expr>>,
    /// Whether a value names a column of the row.
    names_columns: bool,
}

impl GivenRow {
    fn new(values: Vec<Option<Expr>>) -> GivenRow {
        let names_columns = values.iter().flatten().any(|value| value.reach() > 0);
        GivenRow { values, names_columns }
    }
}

impl InsertPlan {
    /// Binds an INSERT.
    pub(crate) fn new(names: Names<'_>, insert: &ast::Insert) -> Result<InsertPlan> {
        if insert.returning.is_some() {
            return Err(SqlError::unsupported("INSERT ... RETURNING"));
        }
        let TableObject::TableName(name) = &insert.table else {
            return Err(SqlError::unsupported("INSERT into a function"));
        };
        let mut rights: Vec<&'static [&'static str]> = vec![&["INSERT"]];
        if insert.replace_into {
            rights.push(&["DELETE"]);
        }
        if insert.on.is_some() {
            rights.push(&["UPDATE"]);
        }
        let table = named_table(names, name, &rights)?;
        let columns = columns_of(&table, insert)?;
        let others = (0..table.columns.len()).filter(|at| !columns.contains(at)).collect();
        let (source, update) = match (&insert.on, &insert.source) {
            (Some(OnInsert::DuplicateKeyUpdate(assignments)), Some(query)) => {
                let alias = insert.insert_alias.as_ref().map(|alias| &alias.row_alias);
                let taken = query_columns::take_out(&table, alias, query, assignments);
                let source =
                    source_of(names, insert, Some(&taken.query), taken.count, &table, &columns)?;
                let update = updates_of(names, insert, &taken.assignments, &table, &source)?;
                (source, update)
            }
            (on, query) => {
                let source = source_of(names, insert, query.as_deref(), 0, &table, &columns)?;
                let update = match on {
                    Some(OnInsert::DuplicateKeyUpdate(assignments)) => {
                        updates_of(names, insert, assignments, &table, &source)?
                    }
                    _ => Vec::new(),
                };
                (source, update)
            }
        };
        Ok(InsertPlan {
            rules: Rules::new(names.catalog, &table),
            columns,
            others,
            source,
            replace: insert.replace_into,
            ignore: insert.ignore,
            update,
        })
    }

    /// The name of the table that the statement writes to.
    pub(crate) fn table(&self) -> &str {
        &self.rules.table.name
    }

    /// The query that provides the rows, if any.
    pub(crate) fn query(&self) -> Option<&QueryPlan> {
        match &self.source {
            InsertSource::Query { plan, .. } => Some(plan),
            InsertSource::Rows(_) => None,
        }
    }

    /// Runs the statement. The rows after the first come from `more`, if there is one.
    pub(crate) fn run(
        &self,
        context: &Context<'_>,
        more: Option<&mut dyn RowSource>,
    ) -> Result<Changed> {
        let mut writer = Writer {
            plan: self,
            maker: Maker::new(context, &self.rules, self.ignore),
            keeps_zero: context.variables.borrow().often.keeps_zero,
            changed: Changed::default(),
            explicit_id: 0,
            is_some_kept: false,
            made: 0,
            spare: 0,
            records: 0,
            duplicates: 0,
            more: Vec::new(),
        };
        match &self.source {
            InsertSource::Rows(rows) => {
                for row in rows {
                    writer.write_exprs(row)?;
                }
                if let (Some(more), [row]) = (more, rows.as_slice()) {
                    let mut params = Vec::new();
                    while more.next(&mut params)? {
                        writer.write_with(row, &params)?;
                    }
                }
            }
            InsertSource::Query { plan, reads_target: false, .. } => {
                writer.check_given()?;
                executor::run_query(context, plan, &mut |row| {
                    writer.write_result(plan, row)?;
                    Ok(true)
                })?;
            }
            InsertSource::Query { plan, reads_target: true, .. } => {
                writer.check_given()?;
                let mut rows = executor::Spool::new(context);
                executor::run_query(context, plan, &mut |row| {
                    rows.push(row)?;
                    Ok(true)
                })?;
                rows.each(|row| writer.write_result(plan, row))?;
            }
        }
        let mut changed = writer.changed;
        let given = context.variables.borrow_mut().given_id.take();
        // MySQL forgets the number that a row of a query gave, once it knows the row is new.
        let forgets = self.query().is_some() && !self.update.is_empty();
        let of_row = if writer.is_some_kept && !forgets { writer.explicit_id } else { 0 };
        changed.explicit_id = given.unwrap_or(of_row);
        if writer.records > 1 {
            let warnings = context.warnings.borrow().len() as u64;
            let Writer { records, duplicates, .. } = writer;
            changed.info = Info::Inserted { records, duplicates, warnings };
        }
        Ok(changed)
    }
}

fn columns_of(table: &TableDef, insert: &ast::Insert) -> Result<Vec<usize>> {
    if insert.assignments.is_empty() && insert.columns.is_empty() {
        return Ok((0..table.columns.len()).collect());
    }
    let of_name = |name: &ast::ObjectName| named_column(table, &table.name, name);
    let assigned = insert.assignments.iter().map(|a| target(table, &table.name, &a.target));
    let columns =
        assigned.chain(insert.columns.iter().map(of_name)).collect::<Result<Vec<usize>>>()?;
    let mut given = vec![false; table.columns.len()];
    for column in &columns {
        if std::mem::replace(&mut given[*column], true) {
            let name = &table.columns[*column].name;
            return Err(SqlError::new(1110, format!("Column '{name}' specified twice")));
        }
    }
    Ok(columns)
}

/// The bound assignments of ON DUPLICATE KEY UPDATE.
fn updates_of(
    names: Names<'_>,
    insert: &ast::Insert,
    assignments: &[ast::Assignment],
    table: &Arc<TableDef>,
    source: &InsertSource,
) -> Result<Vec<(usize, Option<Expr>)>> {
    let mut binder = Binder::new(names);
    binder.scope.tables.push(changed_scope(table));
    binder.inserting = Some(table.clone());
    if let Some(alias) = &insert.insert_alias {
        let mut new = planner::table_scope(table);
        new.alias = name_path(&alias.row_alias).pop().unwrap_or_default();
        new.offset = table.columns.len();
        binder.scope.tables.push(new);
    }
    if let InsertSource::Query { plan, more, .. } = source {
        binder.scope.tables.push(query_columns::scope(plan, *more, 2 * table.columns.len()));
    }
    let update = |assignment: &ast::Assignment| {
        let column = target(table, &table.name, &assignment.target)?;
        Ok((column, value_for(&mut binder, &assignment.value, &table.columns[column].ty)?))
    };
    assignments.iter().map(update).collect()
}

fn source_of(
    names: Names<'_>,
    insert: &ast::Insert,
    source: Option<&ast::Query>,
    more: usize,
    table: &TableDef,
    columns: &[usize],
) -> Result<InsertSource> {
    let mut binder = Binder::new(names);
    // As in MySQL, a value may name columns of its own row. It reads no stored row.
    binder.scope.tables.push(planner::table_scope(table));
    let mut bind = |(expr, column): (&ast::Expr, &usize)| {
        value_for(&mut binder, expr, &table.columns[*column].ty)
    };
    if !insert.assignments.is_empty() {
        let values = insert.assignments.iter().map(|assignment| &assignment.value).zip(columns);
        return Ok(InsertSource::Rows(vec![GivenRow::new(
            values.map(bind).collect::<Result<_>>()?,
        )]));
    }
    let defaults = || GivenRow::new(vec![None; columns.len()]);
    let Some(source) = source else {
        return Ok(InsertSource::Rows(vec![defaults()]));
    };
    let SetExpr::Values(list) = &*source.body else {
        let mut plan = planner::plan_query(names, source, None, &[])?;
        if plan.columns.len() != columns.len() + more {
            return Err(SqlError::new(1136, "Column count doesn't match value count at row 1"));
        }
        // Otherwise the column of bytes would get the UTF-8 bytes of the text.
        if columns.iter().any(|column| table.columns[*column].ty.is_binary()) {
            plan.refuse_charsets()?;
        }
        for (at, column) in columns.iter().enumerate() {
            if table.columns[*column].ty.is_numeric() {
                plan.count_literal_bytes(at);
            }
        }
        let names_target = |name: &ast::ObjectName| {
            name_path(name).pop().is_some_and(|last| last.eq_ignore_ascii_case(&table.name))
        };
        let reads_target = ast::visit_relations(source, |name| {
            if names_target(name) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let reads_target = reads_target.is_break();
        return Ok(InsertSource::Query { plan: Box::new(plan), more, reads_target });
    };
    let mut rows = Vec::with_capacity(list.rows.len());
    for (at, row) in list.rows.iter().enumerate() {
        if row.content.is_empty() && insert.columns.is_empty() {
            rows.push(defaults());
            continue;
        }
        if row.content.len() != columns.len() {
            return Err(SqlError::new(
                1136,
                format!("Column count doesn't match value count at row {}", at + 1),
            ));
        }
        let values = row.content.iter().zip(columns).map(&mut bind).collect::<Result<_>>()?;
        rows.push(GivenRow::new(values));
    }
    Ok(InsertSource::Rows(rows))
}

/// The value given for a column; `None` for its default.
type GivenValue<'v> = Result<Option<Cow<'v, Value>>>;

struct Writer<'a> {
    plan: &'a InsertPlan,
    maker: Maker<'a>,
    keeps_zero: bool,
    changed: Changed,
    /// The AUTO_INCREMENT number of the last row, or of the row that it updated. As in MySQL, the
    /// row may have been left out as a duplicate.
    explicit_id: u64,
    /// Whether a row was inserted, or changed a row.
    is_some_kept: bool,
    /// The AUTO_INCREMENT number that was generated for the current row; zero if none was.
    made: u64,
    /// A number that was generated for a row that was not inserted, for the next row to take; zero
    /// if there is none.
    spare: u64,
    records: u64,
    duplicates: u64,
    /// The query's columns that ON DUPLICATE KEY UPDATE names, of the row at hand.
    more: Row,
}

impl Writer<'_> {
    fn write_exprs(&mut self, given: &GivenRow) -> Result<()> {
        let context = self.maker.context;
        let _kept = context.keep_values();
        if given.names_columns {
            return self.write(|writer, row| writer.fill_by_columns(context, given, row));
        }
        let values = given.values.iter();
        let values = values.map(|expr| expr.as_ref().map(|e| context.value(e, &[])).transpose());
        self.write(|writer, row| writer.fill(values, row))
    }

    /// As `write_exprs`, with parameters of this row.
    fn write_with(&mut self, given: &GivenRow, params: &[Value]) -> Result<()> {
        let context = self.maker.context;
        let own = context.with_params(params);
        let _kept = own.keep_values();
        if given.names_columns {
            let written = self.write(|writer, row| writer.fill_by_columns(&own, given, row));
            context.warnings.borrow_mut().append(&mut own.warnings.borrow_mut());
            return written;
        }
        let values = given.values.iter();
        let values = values.map(|expr| expr.as_ref().map(|e| own.value(e, &[])).transpose());
        let values = values.collect::<Result<Vec<_>>>()?;
        context.warnings.borrow_mut().append(&mut own.warnings.borrow_mut());
        self.write(|writer, row| writer.fill(values.into_iter().map(Ok), row))
    }

    /// Refuses a query that leaves out a column without a default, even if it returns no row.
    fn check_given(&self) -> Result<()> {
        let columns = &self.maker.table().columns;
        let missing =
            self.plan.others.iter().map(|at| &columns[*at]).find(|def| lacks_default(def));
        match missing.filter(|_| self.maker.strict) {
            Some(def) => Err(SqlError::no_default(&def.name)),
            None => Ok(()),
        }
    }

    /// Writes a row that the query has returned.
    fn write_result(&mut self, plan: &QueryPlan, row: &[Value]) -> Result<()> {
        let table = &self.plan.rules.table;
        self.more.clear();
        self.more.extend_from_slice(row.get(self.plan.columns.len()..).unwrap_or_default());
        let values = row.iter().zip(&plan.columns).zip(&self.plan.columns);
        let values = values.map(|((value, from), to)| {
            let ty = &table.columns[*to].ty;
            Ok(Some(Cow::Owned(handed(value, &from.column_type, ty))))
        });
        self.write(|writer, row| writer.fill(values, row))?;
        keep_thread(self.maker.context, self.records);
        Ok(())
    }

    /// Writes the row that `fill` makes.
    fn write(&mut self, fill: impl FnOnce(&Self, &mut Row) -> Result<()>) -> Result<()> {
        self.records += 1;
        if !self.plan.ignore {
            return self.write_row(fill);
        }
        let before = self.maker.context.txn.savepoint();
        let outcome = match self.write_row(fill) {
            Err(error) if matches!(error.code, 1062 | 3819 | 1048) => {
                // Earlier indexes may have accepted the row before a later one refused it.
                self.maker.context.txn.rollback_to(before);
                self.keep_number();
                self.duplicates += 1;
                self.maker.context.warn(error);
                Ok(())
            }
            other => other,
        };
        self.maker.context.txn.release(before);
        outcome
    }

    /// Builds the whole row from given values and defaults.
    fn fill<'v>(&self, values: impl Iterator<Item = GivenValue<'v>>, row: &mut Row) -> Result<()> {
        row.resize(self.maker.table().columns.len(), Value::Null);
        for (column, value) in self.plan.columns.iter().zip(values) {
            let place = &mut row[*column];
            match value? {
                None => *place = self.maker.initial(*column)?,
                Some(value) if value.is_null() && self.plan.rules.auto == Some(*column) => {
                    *place = Value::Null;
                }
                Some(value) => self.maker.store_into(*column, value, self.records, place)?,
            }
        }
        for column in &self.plan.others {
            row[*column] = self.maker.initial(*column)?;
        }
        Ok(())
    }

    /// As `fill`, from values that name columns of the row. Such a column has the value that it was
    /// given to the left, or else its default; an AUTO_INCREMENT column without a value is zero.
    fn fill_by_columns(
        &self,
        context: &Context<'_>,
        given: &GivenRow,
        row: &mut Row,
    ) -> Result<()> {
        row.clear();
        for (column, def) in self.maker.table().columns.iter().enumerate() {
            let is_made =
                matches!(def.default, DefaultValue::CurrentTimestamp | DefaultValue::Expr(_));
            row.push(if is_made { self.maker.initial(column)? } else { def.constant_default() });
        }
        for (column, expr) in self.plan.columns.iter().zip(&given.values) {
            row[*column] = match expr {
                None => self.maker.initial(*column)?,
                Some(expr) => match context.eval(expr, row)? {
                    Value::Null if self.plan.rules.auto == Some(*column) => Value::Null,
                    value => self.maker.store(*column, value, self.records)?,
                },
            };
        }
        for column in &self.plan.others {
            row[*column] = self.maker.initial(*column)?;
        }
        Ok(())
    }

    /// Gives the AUTO_INCREMENT column its number. Returns the number if it was generated, and the
    /// number if the row gave it; the other is zero.
    fn number(&mut self, row: &mut [Value]) -> Result<(u64, u64)> {
        let (table, context) = (self.maker.table(), self.maker.context);
        let Some(column) = self.plan.rules.auto else { return Ok((0, 0)) };
        let given = to_i128(&row[column].as_ref()).unwrap_or(0);
        if row[column].is_null() || (given == 0 && !self.keeps_zero) {
            let number = match std::mem::take(&mut self.spare) {
                0 => context.server.next_auto_increment(context.txn, table, self.maker.step)?,
                spare => spare,
            };
            self.made = number;
            row[column] = self.maker.store(column, Value::UInt(number), self.records)?;
            return Ok((number, 0));
        }
        let given = u64::try_from(given).unwrap_or(0);
        if given >= self.spare {
            self.spare = 0;
        }
        Ok((0, given))
    }

    /// Keeps the number of a row that was not inserted, for the next row.
    fn keep_number(&mut self) {
        if self.made > 0 {
            self.spare = self.made;
        }
    }

    fn write_row(&mut self, fill: impl FnOnce(&Self, &mut Row) -> Result<()>) -> Result<()> {
        let (table, context) = (self.maker.table(), self.maker.context);
        let mut stored = context.room.values();
        self.made = 0;
        fill(self, &mut stored)?;
        if let Some(column) = self.plan.rules.auto {
            let given = to_i128(&stored[column].as_ref()).unwrap_or(0);
            self.explicit_id = u64::try_from(given).unwrap_or(0);
        }
        // A CHECK cannot name the AUTO_INCREMENT column, so a row that fails it takes no number.
        self.maker.check(&stored)?;
        let (generated, explicit) = self.number(&mut stored)?;
        self.explicit_id = generated.max(explicit);
        let updates = !self.plan.update.is_empty();
        let inserted = if updates { stored.clone() } else { Vec::new() };
        self.maker.to_stored(&mut stored);
        let pk = self.maker.key(&stored)?;
        if self.plan.replace || updates {
            while let Some((other, in_last)) = store::conflict(context.txn, table, &stored, &pk)? {
                let mut bytes = Vec::new();
                let (mode, wait) = (LockMode::Exclusive, LockWait::Wait);
                if !context.txn.get_locked(table.rows(), &other, mode, wait, &mut bytes)? {
                    break;
                }
                let mut old = Vec::new();
                table.decode(&bytes, &mut old)?;
                if updates {
                    return self.update_row(inserted, old, &other);
                }
                store::delete_row(context.txn, table, &old, &other)?;
                // As MySQL, which updates the row in this case: it does not count a row as deleted
                // that has no change.
                if !in_last || !same(&stored, &old) {
                    self.changed.affected += 1;
                    self.duplicates += 1;
                }
            }
        }
        match store::insert_row(context.txn, table, &stored, &pk, context.room) {
            Err(error) if self.plan.ignore && error.code == 1062 => {
                store::check_readable(context.txn, table, &stored, &pk)?;
                return Err(error);
            }
            other => other?,
        }
        self.changed.affected += 1;
        self.is_some_kept = true;
        // Only an inserted row advances the counter.
        if explicit > 0 {
            context.server.note_auto_increment(context.txn, table, explicit)?;
        }
        if generated > 0 && self.changed.insert_id == 0 {
            self.changed.insert_id = generated;
        }
        Ok(())
    }

    /// ON DUPLICATE KEY UPDATE: changes the existing row.
    fn update_row(&mut self, new: Row, mut old: Row, pk: &[u8]) -> Result<()> {
        let (table, context) = (self.maker.table(), self.maker.context);
        shift_timestamps(table, &mut old, self.maker.shift);
        self.keep_number();
        context.inserted.replace(new.clone());
        let mut row = old.clone();
        let _kept = context.keep_values();
        for (column, expr) in &self.plan.update {
            let Some(expr) = expr else {
                row[*column] = self.maker.default(*column)?;
                continue;
            };
            let mut wide = row.clone();
            wide.extend(new.iter().chain(&self.more).cloned());
            let value = context.eval(expr, &wide)?;
            // As in MySQL, no number is generated here for a NULL, and the NULL is not an error.
            row[*column] = if value.is_null() && self.plan.rules.auto == Some(*column) {
                table.columns[*column].ty.zero()
            } else {
                self.maker.store(*column, value, self.records)?
            };
        }
        // The client gets this number with the result; LAST_INSERT_ID() does not return it.
        if let Some(column) = self.plan.rules.auto {
            let id = to_i128(&row[column].as_ref()).unwrap_or(0);
            self.explicit_id = u64::try_from(id).unwrap_or(0);
        }
        if same(&row, &old) {
            let counts = u64::from(context.variables.borrow().found_rows_flag);
            self.changed.affected += counts;
            self.duplicates += counts;
            return Ok(());
        }
        self.duplicates += 1;
        self.is_some_kept = true;
        self.maker.touch(&mut row, |at| self.plan.update.iter().any(|(column, _)| *column == at));
        self.maker.note_number(&row, &old)?;
        self.maker.check(&row)?;
        let new = &mut row;
        self.maker.to_stored(&mut old);
        self.maker.to_stored(new);
        let changed_key = if table.primary.is_empty() { None } else { Some(self.maker.key(new)?) };
        let new_pk = changed_key.as_ref().map_or(pk, |key| key.as_slice());
        store::update_row(context.txn, table, (&old, new), pk, new_pk, context.room)?;
        self.changed.affected += 2;
        Ok(())
    }
}
