//! INSERT, REPLACE, UPDATE and DELETE.

mod joined;

use std::sync::Arc;

use spillway::{LockMode, LockWait};
use spillway_types::convert::{to_datetime, to_decimal};
use spillway_types::{Collation, ColumnType, Date, DateTime, StoreError, Value};
use sqlparser::ast::{
    self, AssignmentTarget, FromTable, OnInsert, SetExpr, TableFactor, TableObject,
};

use crate::catalog::{ColumnDef, DefaultValue, TableDef, shift_timestamps};
use crate::errors::{Result, SqlError};
use crate::expr::{Binder, Context, Expr, compare, handed, truth_of};
use crate::query::{self, Row};
use crate::session::Step;
use crate::store;

/// What a statement changed.
#[derive(Default, Debug)]
pub(crate) struct Changed {
    pub(crate) affected: u64,
    pub(crate) insert_id: u64,
    /// What a client is told where `insert_id` has nothing; LAST_INSERT_ID() does not see it.
    pub(crate) explicit_id: u64,
    pub(crate) info: String,
}

type Vars<'a> = &'a dyn Fn(&str, &str) -> Option<Value>;

fn name_path(name: &ast::ObjectName) -> Vec<String> {
    name.0
        .iter()
        .map(|part| match part {
            ast::ObjectNamePart::Identifier(ident) => ident.value.clone(),
            other => other.to_string(),
        })
        .collect()
}

pub(crate) fn find_table(context: &Context<'_>, name: &ast::ObjectName) -> Result<Arc<TableDef>> {
    let path = name_path(name);
    let current = context.variables.borrow().database.clone();
    let (db, table) = match path.as_slice() {
        [table] => {
            (current.ok_or_else(|| SqlError::new(1046, "No database selected"))?, table.clone())
        }
        [db, table] => (db.clone(), table.clone()),
        _ => return Err(SqlError::syntax(format!("near '{name}'"))),
    };
    if crate::catalog::SYSTEM.contains(&db.to_ascii_lowercase().as_str()) {
        return Err(SqlError::new(1044, format!("Access denied to database '{db}'")));
    }
    Ok(context.catalog.table(&db, &table)?.clone())
}

/// Makes rows of a table, as they are stored.
struct Maker<'a> {
    context: &'a Context<'a>,
    table: &'a TableDef,
    strict: bool,
    shift: i64,
    /// Whether a date of zeros, and one with a month or a day of zero, are refused.
    no_zero_date: bool,
    no_zero_in_date: bool,
    step: Step,
}

impl Maker<'_> {
    /// A value as a column keeps it.
    fn store(&self, column: usize, value: &Value, row: u64) -> Result<Value> {
        let def = &self.table.columns[column];
        if value.is_null() {
            if def.nullable || def.auto_increment {
                return Ok(Value::Null);
            }
            let error = SqlError::new(1048, format!("Column '{}' cannot be null", def.name));
            if self.strict {
                return Err(error);
            }
            self.context.warn(error);
            return Ok(def.ty.zero());
        }
        let shown = value;
        // A time of day is one of today.
        let dated = match (value, &def.ty) {
            (
                Value::Time(time),
                ColumnType::Date | ColumnType::DateTime(_) | ColumnType::Timestamp(_),
            ) => DateTime::from_micros_of(self.context.now.date, time.micros).map(Value::DateTime),
            _ => None,
        };
        let value = dated.as_ref().unwrap_or(value);
        match def.ty.store(value) {
            Ok(value) => {
                if def.ty == ColumnType::Json
                    && serde_json::from_str::<serde_json::Value>(&value.to_text()).is_err()
                {
                    return Err(SqlError::store(StoreError::Json, &def.name, "", row));
                }
                self.note_cut(def, shown, &value, row);
                self.zero_date(def, value, row)
            }
            Err((why, nearest)) => {
                let error = SqlError::store(why, &def.name, &value.to_text(), row);
                if self.strict {
                    return Err(error);
                }
                self.context.warn(error);
                Ok(nearest)
            }
        }
    }

    /// Notes digits of a decimal, a time of a date and a date of a time, which the column has no place for.
    fn note_cut(&self, def: &ColumnDef, given: &Value, kept: &Value, row: u64) {
        let cut = match (&def.ty, kept) {
            (ColumnType::Decimal { .. }, Value::Decimal(kept)) => {
                to_decimal(&given.as_ref()).is_some_and(|given| given != *kept)
            }
            (ColumnType::Date, _) => to_datetime(&given.as_ref()).is_some_and(|at| at.micros != 0),
            (ColumnType::Time(_), _) => matches!(given, Value::Date(_) | Value::DateTime(_)),
            _ => false,
        };
        if cut {
            self.context.warn(SqlError::store(StoreError::Truncated, &def.name, "", row));
        }
    }

    /// Refuses dates that the modes NO_ZERO_DATE and NO_ZERO_IN_DATE refuse.
    fn zero_date(&self, def: &ColumnDef, value: Value, row: u64) -> Result<Value> {
        if !self.no_zero_date && !self.no_zero_in_date {
            return Ok(value);
        }
        let (date, kind) = match &value {
            Value::Date(date) => (*date, "date"),
            Value::DateTime(at) => (at.date, "datetime"),
            _ => return Ok(value),
        };
        let zero = date == Date::default();
        let part = !zero && (date.month == 0 || date.day == 0);
        if !(zero && self.no_zero_date || part && self.no_zero_in_date) {
            return Ok(value);
        }
        let why = spillway_types::StoreError::IncorrectTime(kind);
        let error = SqlError::store(why, &def.name, &value.to_text(), row);
        if self.strict {
            return Err(error);
        }
        self.context.warn(error);
        Ok(def.ty.zero())
    }

    fn default(&self, column: usize) -> Result<Value> {
        let def = &self.table.columns[column];
        Ok(match &def.default {
            DefaultValue::CurrentTimestamp => {
                def.ty.store(&Value::DateTime(self.context.now)).unwrap_or_default()
            }
            DefaultValue::Expr(text) => {
                let none = |_: &str, _: &str| None;
                let mut binder = Binder::new(self.context.catalog, None, &none);
                let bound = binder.bind(&crate::parse::parse_expr(text)?)?;
                self.store(column, &self.context.eval(&bound.expr, &[])?, 1)?
            }
            DefaultValue::None if !def.nullable && !def.auto_increment => {
                let error = SqlError::new(
                    1364,
                    format!("Field '{}' doesn't have a default value", def.name),
                );
                if self.strict {
                    return Err(error);
                }
                self.context.warn(error);
                def.ty.zero()
            }
            _ if def.auto_increment => Value::Null,
            _ => def.constant_default(),
        })
    }

    fn check(&self, row: &[Value]) -> Result<()> {
        for check in self.table.checks.iter().filter(|check| check.enforced) {
            let none = |_: &str, _: &str| None;
            let mut binder = Binder::new(self.context.catalog, None, &none);
            binder.scope.tables.push(query::table_scope(self.table));
            let bound = binder.bind(&crate::parse::parse_expr(&check.expr)?)?;
            let value = self.context.eval(&bound.expr, row)?;
            if !value.is_null() && !truth_of(&value) {
                return Err(SqlError::new(
                    3819,
                    format!("Check constraint '{}' is violated.", check.name),
                ));
            }
        }
        Ok(())
    }

    /// A row in UTC, as it goes to the store.
    fn stored(&self, row: &[Value]) -> Row {
        let mut row = row.to_vec();
        shift_timestamps(self.table, &mut row, -self.shift);
        row
    }

    fn key(&self, row: &[Value]) -> Result<Vec<u8>> {
        let number = if self.table.primary.is_empty() {
            self.context.instance.next_row_number(self.context.txn, self.table)?
        } else {
            0
        };
        Ok(store::primary_key(self.table, row, number))
    }
}

fn maker<'a>(context: &'a Context<'a>, table: &'a TableDef, ignore: bool) -> Maker<'a> {
    let variables = context.variables.borrow();
    context.strict.set(variables.strict() && !ignore);
    Maker {
        context,
        table,
        strict: variables.strict() && !ignore,
        shift: variables.time_offset_micros,
        no_zero_date: variables.has_mode("NO_ZERO_DATE"),
        no_zero_in_date: variables.has_mode("NO_ZERO_IN_DATE"),
        step: Step {
            offset: variables.number("auto_increment_offset").unwrap_or(1),
            increment: variables.number("auto_increment_increment").unwrap_or(1),
        },
    }
}

/// Runs an INSERT or REPLACE.
pub(crate) fn insert(
    context: &Context<'_>,
    insert: &ast::Insert,
    vars: Vars<'_>,
) -> Result<Changed> {
    if insert.returning.is_some() {
        return Err(SqlError::unsupported("INSERT ... RETURNING"));
    }
    let TableObject::TableName(name) = &insert.table else {
        return Err(SqlError::unsupported("INSERT into a function"));
    };
    let table = find_table(context, name)?;
    let maker = maker(context, &table, insert.ignore);
    let database = context.variables.borrow().database.clone();
    let mut binder = Binder::new(context.catalog, database.as_deref(), vars);
    let columns: Vec<usize> = if !insert.assignments.is_empty() {
        let targets = insert.assignments.iter().map(|a| target(&table, &a.target));
        targets.collect::<Result<_>>()?
    } else if insert.columns.is_empty() {
        (0..table.columns.len()).collect()
    } else {
        let names = insert.columns.iter().map(|name| name_path(name).pop().unwrap_or_default());
        names
            .map(|name| {
                table.column(&name).ok_or_else(|| SqlError::unknown_column(&name, "field list"))
            })
            .collect::<Result<_>>()?
    };
    let mut update = Vec::new();
    if let Some(OnInsert::DuplicateKeyUpdate(assignments)) = &insert.on {
        let mut binder = Binder::new(context.catalog, database.as_deref(), vars);
        binder.scope.tables.push(query::table_scope(&table));
        binder.inserting = Some(table.clone());
        if let Some(alias) = &insert.insert_alias {
            let row_alias = name_path(&alias.row_alias).pop().unwrap_or_default();
            let mut scope = query::table_scope(&table);
            scope.alias = row_alias;
            scope.offset = table.columns.len();
            binder.scope.tables.push(scope);
        }
        for assignment in assignments {
            let column = target(&table, &assignment.target)?;
            let value = binder.bind(&assignment.value)?.handed(&table.columns[column].ty);
            update.push((column, value.expr));
        }
    }
    let mut writer = InsertWriter {
        maker,
        columns: &columns,
        replace: insert.replace_into,
        ignore: insert.ignore,
        update,
        changed: Changed::default(),
        explicit_id: 0,
        records: 0,
        duplicates: 0,
    };
    if !insert.assignments.is_empty() {
        let mut values = Vec::new();
        for (assignment, column) in insert.assignments.iter().zip(&columns) {
            let ty = &table.columns[*column].ty;
            values.push(insert_value(&mut binder, context, ty, &assignment.value)?);
        }
        writer.write(values)?;
    } else if let Some(source) = &insert.source {
        if let SetExpr::Values(list) = &*source.body {
            for row in &list.rows {
                if row.content.len() != columns.len()
                    && !(row.content.is_empty() && insert.columns.is_empty())
                {
                    return Err(SqlError::new(
                        1136,
                        format!(
                            "Column count doesn't match value count at row {}",
                            writer.records + 1
                        ),
                    ));
                }
                let mut values = Vec::with_capacity(row.content.len());
                for (expr, column) in row.content.iter().zip(&columns) {
                    let ty = &table.columns[*column].ty;
                    values.push(insert_value(&mut binder, context, ty, expr)?);
                }
                if values.is_empty() {
                    values = columns.iter().map(|_| None).collect();
                }
                writer.write(values)?;
            }
        } else {
            let plan =
                query::plan_query(context.catalog, database.as_deref(), vars, source, None, &[])?;
            if plan.columns.len() != columns.len() {
                return Err(SqlError::new(1136, "Column count doesn't match value count at row 1"));
            }
            // Read whole first: the table may be the one that is read.
            let mut rows = Vec::new();
            query::run_query(context, &plan, &mut |row| {
                rows.push(row.to_vec());
                Ok(true)
            })?;
            for row in rows {
                let values = row.iter().zip(&plan.columns).zip(&columns);
                let values = values.map(|((value, from), to)| {
                    Some(handed(value, &from.column_type, &table.columns[*to].ty))
                });
                writer.write(values.collect())?;
            }
        }
    } else {
        writer.write(columns.iter().map(|_| None).collect())?;
    }
    let mut changed = writer.changed;
    changed.explicit_id = writer.explicit_id;
    if writer.records > 1 {
        let warnings = context.warnings.borrow().len();
        changed.info = format!(
            "Records: {}  Duplicates: {}  Warnings: {warnings}",
            writer.records, writer.duplicates
        );
    }
    Ok(changed)
}

/// A value of an INSERT; `None` for DEFAULT.
fn insert_value(
    binder: &mut Binder<'_>,
    context: &Context<'_>,
    ty: &ColumnType,
    expr: &ast::Expr,
) -> Result<Option<Value>> {
    match expr {
        ast::Expr::Value(value) if is_plain(&value.value) => {
            crate::expr::literal(&value.value).map(Some)
        }
        ast::Expr::Identifier(ident)
            if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default") =>
        {
            Ok(None)
        }
        other => {
            let bound = binder.bind(other)?.handed(ty);
            context.eval(&bound.expr, &[]).map(Some)
        }
    }
}

/// Whether a literal is the same for columns of all types.
fn is_plain(value: &ast::Value) -> bool {
    use ast::Value as V;
    matches!(value, V::Number(..) | V::SingleQuotedString(_) | V::Null | V::Boolean(_))
}

fn target(table: &TableDef, target: &AssignmentTarget) -> Result<usize> {
    let AssignmentTarget::ColumnName(name) = target else {
        return Err(SqlError::unsupported("assignment to a tuple"));
    };
    let name = name_path(name).pop().unwrap_or_default();
    table.column(&name).ok_or_else(|| SqlError::unknown_column(&name, "field list"))
}

struct InsertWriter<'a> {
    maker: Maker<'a>,
    columns: &'a [usize],
    replace: bool,
    ignore: bool,
    update: Vec<(usize, Expr)>,
    changed: Changed,
    /// The last AUTO_INCREMENT value that was given and not made.
    explicit_id: u64,
    records: u64,
    duplicates: u64,
}

impl InsertWriter<'_> {
    fn write(&mut self, values: Vec<Option<Value>>) -> Result<()> {
        self.records += 1;
        let before = self.maker.context.txn.savepoint();
        match self.write_row(values) {
            Err(error) if self.ignore && matches!(error.code, 1062 | 3819 | 1048) => {
                // A later index may have refused what earlier ones took.
                self.maker.context.txn.rollback_to(before);
                self.duplicates += 1;
                self.maker.context.warn(error);
                Ok(())
            }
            other => other,
        }
    }

    fn write_row(&mut self, values: Vec<Option<Value>>) -> Result<()> {
        let (table, context) = (self.maker.table, self.maker.context);
        let mut row: Vec<Option<Value>> = vec![None; table.columns.len()];
        for (column, value) in self.columns.iter().zip(values) {
            if let Some(value) = value {
                row[*column] = Some(self.maker.store(*column, &value, self.records)?);
            }
        }
        let mut full = Vec::with_capacity(row.len());
        for (column, value) in row.into_iter().enumerate() {
            full.push(match value {
                Some(value) => value,
                None => self.maker.default(column)?,
            });
        }
        let (mut generated, mut explicit) = (0, 0);
        if let Some(column) = table.auto_column() {
            let given = spillway_types::convert::to_i128(&full[column].as_ref()).unwrap_or(0);
            let keep_zero = context.variables.borrow().sql_mode.contains("NO_AUTO_VALUE_ON_ZERO");
            if full[column].is_null() || (given == 0 && !keep_zero) {
                generated =
                    context.instance.next_auto_increment(context.txn, table, self.maker.step)?;
                full[column] = self.maker.store(column, &Value::UInt(generated), self.records)?;
            } else {
                explicit = u64::try_from(given).unwrap_or(0);
            }
        }
        self.maker.check(&full)?;
        let stored = self.maker.stored(&full);
        let pk = self.maker.key(&stored)?;
        if self.replace || !self.update.is_empty() {
            while let Some(other) = store::conflict(context.txn, table, &stored, &pk)? {
                let mut bytes = Vec::new();
                let (mode, wait) = (LockMode::Exclusive, LockWait::Wait);
                if !context.txn.get_locked(table.rows(), &other, mode, wait, &mut bytes)? {
                    break;
                }
                let mut old = Vec::new();
                table.decode(&bytes, &mut old)?;
                if !self.update.is_empty() {
                    return self.update_row(full, old, &other);
                }
                store::delete_row(context.txn, table, &old, &other)?;
                self.changed.affected += 1;
                self.duplicates += 1;
            }
        }
        match store::insert_row(context.txn, table, &stored, &pk) {
            Err(error) if self.ignore && error.code == 1062 => {
                store::check_readable(context.txn, table, &stored, &pk)?;
                return Err(error);
            }
            other => other?,
        }
        self.changed.affected += 1;
        // A row that was not taken moves nothing.
        if explicit > 0 {
            context.instance.note_auto_increment(context.txn, table, explicit)?;
            self.explicit_id = explicit;
        }
        if generated > 0 && self.changed.insert_id == 0 {
            self.changed.insert_id = generated;
        }
        Ok(())
    }

    /// ON DUPLICATE KEY UPDATE: the row that is there is changed.
    fn update_row(&mut self, new: Row, mut old: Row, pk: &[u8]) -> Result<()> {
        let (table, context) = (self.maker.table, self.maker.context);
        shift_timestamps(table, &mut old, self.maker.shift);
        self.duplicates += 1;
        context.inserted.replace(new.clone());
        let mut row = old.clone();
        for (column, expr) in &self.update {
            let mut wide = row.clone();
            wide.extend(new.iter().cloned());
            let value = context.eval(expr, &wide)?;
            row[*column] = self.maker.store(*column, &value, self.records)?;
        }
        if let Some(column) = table.auto_column() {
            let id = spillway_types::convert::to_i128(&row[column].as_ref()).unwrap_or(0);
            self.changed.insert_id = u64::try_from(id).unwrap_or(0);
        }
        if same(&row, &old) {
            self.changed.affected += u64::from(context.variables.borrow().found_rows_flag);
            return Ok(());
        }
        touch(context, table, &mut row, &old);
        note_number(context, table, &row, &old)?;
        self.maker.check(&row)?;
        let (old, new) = (self.maker.stored(&old), self.maker.stored(&row));
        let new_pk = if table.primary.is_empty() { pk.to_vec() } else { self.maker.key(&new)? };
        store::update_row(context.txn, table, &old, &new, pk, &new_pk)?;
        self.changed.affected += 2;
        Ok(())
    }
}

fn same(a: &[Value], b: &[Value]) -> bool {
    a.iter().zip(b).all(|(a, b)| match (a, b) {
        (Value::Text(a), Value::Text(b)) => a == b,
        (Value::Null, Value::Null) => true,
        _ => compare(a, b, Collation::Binary) == Some(std::cmp::Ordering::Equal),
    })
}

/// An AUTO_INCREMENT column goes on after the number that an update gave a row.
fn note_number(
    context: &Context<'_>,
    table: &TableDef,
    row: &[Value],
    old: &[Value],
) -> Result<()> {
    match table.auto_column() {
        Some(at) if !same(&row[at..=at], &old[at..=at]) => {
            let given = spillway_types::convert::to_i128(&row[at].as_ref()).unwrap_or(0);
            match u64::try_from(given) {
                Ok(given) => context.instance.note_auto_increment(context.txn, table, given),
                Err(_) => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// ON UPDATE CURRENT_TIMESTAMP, for columns that were not set themselves.
fn touch(context: &Context<'_>, table: &TableDef, row: &mut [Value], old: &[Value]) {
    for (at, column) in table.columns.iter().enumerate() {
        if column.on_update_now && same(&row[at..=at], &old[at..=at]) {
            row[at] = column.ty.store(&Value::DateTime(context.now)).unwrap_or_default();
        }
    }
}

/// The one table that an UPDATE or DELETE changes, and its alias.
fn single(
    context: &Context<'_>,
    tables: &[ast::TableWithJoins],
) -> Result<(Arc<TableDef>, String)> {
    let [tables] = tables else {
        return Err(SqlError::unsupported("UPDATE or DELETE of several tables"));
    };
    if !tables.joins.is_empty() {
        return Err(SqlError::unsupported("UPDATE or DELETE of several tables"));
    }
    let TableFactor::Table { name, alias, .. } = &tables.relation else {
        return Err(SqlError::unsupported(&tables.relation));
    };
    let table = find_table(context, name)?;
    let alias = alias.as_ref().map_or_else(|| table.name.clone(), |alias| alias.name.value.clone());
    Ok((table, alias))
}

/// 1175: `sql_safe_updates` is on.
#[cold]
fn unsafe_update() -> SqlError {
    SqlError::new(
        1175,
        "You are using safe update mode and you tried to update a table without a WHERE that uses a KEY column.",
    )
}

/// The rows that an UPDATE or DELETE changes, locked, with their keys.
fn targets(
    context: &Context<'_>,
    table: &Arc<TableDef>,
    alias: &str,
    binder: &mut Binder<'_>,
    selection: Option<&ast::Expr>,
    order: &[ast::OrderByExpr],
    limit: Option<&ast::Expr>,
) -> Result<Vec<Row>> {
    let mut conditions = Vec::new();
    if let Some(selection) = selection {
        binder.place = "where clause";
        binder.condition(selection)?.conjuncts(&mut conditions);
    }
    binder.place = "order clause";
    let order = order
        .iter()
        .map(|by| {
            let bound = binder.bind(&by.expr)?.counted();
            Ok((bound.expr, by.options.asc.unwrap_or(true), bound.collation))
        })
        .collect::<Result<Vec<_>>>()?;
    let limit = match limit {
        None => None,
        Some(limit) => {
            let bound = binder.bind(limit)?;
            let value = context.eval(&bound.expr, &[])?;
            Some(spillway_types::convert::to_i128(&value.as_ref()).unwrap_or(0).max(0) as usize)
        }
    };
    let safe = context.variables.borrow().flag("sql_safe_updates");
    let source = query::plan_table(table, alias, conditions);
    if safe && limit.is_none() && source.access.is_full() {
        return Err(unsafe_update());
    }
    let mut row = vec![Value::Null; source.width];
    let mut found: Vec<(Row, Row)> = Vec::new();
    let lock = Some((LockMode::Exclusive, LockWait::Wait));
    // With an order and a limit, only the rows that are left after both are locked.
    let sorted = !order.is_empty();
    let first_lock = if sorted && limit.is_some() { None } else { lock };
    query::scan_table(context, &source, table, &mut row, first_lock, &mut |row| {
        for filter in &source.filters {
            if !context.holds(filter, row)? {
                return Ok(true);
            }
        }
        let keys = order.iter().map(|(e, ..)| context.eval(e, row)).collect::<Result<Row>>()?;
        found.push((keys, row.clone()));
        Ok(sorted || limit.is_none_or(|limit| found.len() < limit))
    })?;
    if limit == Some(0) {
        return Ok(Vec::new());
    }
    if sorted {
        found.sort_by(|(a, _), (b, _)| {
            let keys = order.iter().zip(a.iter().zip(b));
            keys.map(|((_, asc, collation), (a, b))| query::order_of(a, b, *asc, *collation))
                .find(|order| order.is_ne())
                .unwrap_or(std::cmp::Ordering::Equal)
        });
        if let Some(limit) = limit {
            found.truncate(limit);
        }
    }
    let mut rows: Vec<Row> = found.into_iter().map(|(_, row)| row).collect();
    if first_lock.is_none() {
        let mut locked = Vec::new();
        for row in rows {
            let Some(Value::Bytes(pk)) = row.last() else { continue };
            let mut bytes = Vec::new();
            if context.txn.get_locked(
                table.rows(),
                pk,
                LockMode::Exclusive,
                LockWait::Wait,
                &mut bytes,
            )? {
                let mut newest = Vec::new();
                table.decode(&bytes, &mut newest)?;
                shift_timestamps(table, &mut newest, context.variables.borrow().time_offset_micros);
                newest.push(Value::Bytes(pk.clone()));
                locked.push(newest);
            }
        }
        rows = locked;
    }
    Ok(rows)
}

fn split_key(row: Row) -> (Row, Vec<u8>) {
    let mut row = row;
    match row.pop() {
        Some(Value::Bytes(key)) => (row, key),
        _ => (row, Vec::new()),
    }
}

/// Changes one row as an UPDATE says. Answers whether that made it another.
fn change_row(
    maker: &Maker<'_>,
    row: Row,
    assignments: &[(usize, Option<Expr>)],
    number: u64,
) -> Result<bool> {
    let (table, context) = (maker.table, maker.context);
    let (old, pk) = split_key(row);
    let mut new = old.clone();
    for (column, expr) in assignments {
        new[*column] = match expr {
            Some(expr) => maker.store(*column, &context.eval(expr, &new)?, number)?,
            None => maker.default(*column)?,
        };
    }
    if same(&new, &old) {
        return Ok(false);
    }
    touch(context, table, &mut new, &old);
    note_number(context, table, &new, &old)?;
    maker.check(&new)?;
    let (old, new) = (maker.stored(&old), maker.stored(&new));
    let new_pk = if table.primary.is_empty() { pk.clone() } else { maker.key(&new)? };
    store::update_row(context.txn, table, &old, &new, &pk, &new_pk)?;
    Ok(true)
}

/// Runs an UPDATE.
pub(crate) fn update(
    context: &Context<'_>,
    update: &ast::Update,
    vars: Vars<'_>,
) -> Result<Changed> {
    if !update.table.joins.is_empty() {
        return joined::update(context, update, vars);
    }
    let (table, alias) = single(context, std::slice::from_ref(&update.table))?;
    let database = context.variables.borrow().database.clone();
    let mut binder = Binder::new(context.catalog, database.as_deref(), vars);
    let mut scope = query::table_scope(&table);
    scope.alias = alias.clone();
    binder.scope.tables.push(scope);
    let mut assignments = Vec::new();
    for assignment in &update.assignments {
        let column = target(&table, &assignment.target)?;
        let default = matches!(&assignment.value, ast::Expr::Identifier(i) if i.quote_style.is_none() && i.value.eq_ignore_ascii_case("default"));
        let value = if default {
            None
        } else {
            Some(binder.bind(&assignment.value)?.handed(&table.columns[column].ty).expr)
        };
        assignments.push((column, value));
    }
    let ignore = update.or.is_some();
    let maker = maker(context, &table, ignore);
    let selection = update.selection.as_ref();
    let rows = targets(
        context,
        &table,
        &alias,
        &mut binder,
        selection,
        &update.order_by,
        update.limit.as_ref(),
    )?;
    let (mut changed, matched) = (0, rows.len() as u64);
    for (number, row) in rows.into_iter().enumerate() {
        let before = context.txn.savepoint();
        match change_row(&maker, row, &assignments, number as u64 + 1) {
            Ok(done) => changed += u64::from(done),
            Err(error) if ignore && matches!(error.code, 1062 | 3819 | 1048) => {
                // A later index may have refused what earlier ones took.
                context.txn.rollback_to(before);
                context.warn(error);
            }
            Err(error) => return Err(error),
        }
    }
    let warnings = context.warnings.borrow().len();
    let info = format!("Rows matched: {matched}  Changed: {changed}  Warnings: {warnings}");
    let affected = if context.variables.borrow().found_rows_flag { matched } else { changed };
    Ok(Changed { affected, info, ..Changed::default() })
}

/// A table's name in the list of `DELETE FROM t, u USING ...`.
fn target_name(tables: &ast::TableWithJoins) -> Result<Vec<String>> {
    match &tables.relation {
        TableFactor::Table { name, alias: None, .. } if tables.joins.is_empty() => {
            Ok(name_path(name))
        }
        other => Err(SqlError::syntax(format!("near '{other}'"))),
    }
}

/// Runs a DELETE.
pub(crate) fn delete(
    context: &Context<'_>,
    delete: &ast::Delete,
    vars: Vars<'_>,
) -> Result<Changed> {
    let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
    if !delete.tables.is_empty() || delete.using.is_some() {
        let (tables, names) = match &delete.using {
            Some(using) => (using, from.iter().map(target_name).collect::<Result<Vec<_>>>()?),
            None => (from, delete.tables.iter().map(name_path).collect()),
        };
        let clause = if delete.limit.is_some() { "LIMIT" } else { "ORDER BY" };
        if delete.limit.is_some() || !delete.order_by.is_empty() {
            return Err(SqlError::new(1221, format!("Incorrect usage of DELETE and {clause}")));
        }
        return joined::delete(context, tables, &names, delete.selection.as_ref(), vars);
    }
    let (table, alias) = single(context, from)?;
    let database = context.variables.borrow().database.clone();
    let mut binder = Binder::new(context.catalog, database.as_deref(), vars);
    let mut scope = query::table_scope(&table);
    scope.alias = alias.clone();
    binder.scope.tables.push(scope);
    let maker = maker(context, &table, false);
    let selection = delete.selection.as_ref();
    let rows = targets(
        context,
        &table,
        &alias,
        &mut binder,
        selection,
        &delete.order_by,
        delete.limit.as_ref(),
    )?;
    let affected = rows.len() as u64;
    for row in rows {
        let (row, pk) = split_key(row);
        store::delete_row(context.txn, &table, &maker.stored(&row), &pk)?;
    }
    Ok(Changed { affected, ..Changed::default() })
}
