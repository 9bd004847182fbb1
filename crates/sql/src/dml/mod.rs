//! INSERT, REPLACE, UPDATE and DELETE. Each is bound once and can be run any number of times.

mod bulk;
mod change;
mod insert;
mod joined;
mod query_columns;

use std::borrow::{Borrow, Cow};
use std::sync::Arc;

use spillway_types::convert::{to_datetime, to_decimal, to_i128};
use spillway_types::{Collation, ColumnType, Date, DateTime, StoreError, Value};
use sqlparser::ast::{self, AssignmentTarget};

use crate::api::Info;
use crate::catalog::{Catalog, ColumnDef, DefaultValue, SYSTEM, TableDef, shift_timestamps};
use crate::errors::{Result, SqlError};
use crate::executor::store;
use crate::expression::{Buffer, Context, Expr, Step, compare, in_bytes, is_document, truth_of};
use crate::parser::path_of;
use crate::planner::{Binder, Names, ScopeTable, bind_check, bind_default, table_scope};

pub(crate) use change::ChangePlan;
pub(crate) use insert::InsertPlan;
pub(crate) use joined::JoinedPlan;

/// The result of a statement that changes rows.
#[derive(Default, Debug)]
pub(crate) struct Changed {
    pub(crate) affected: u64,
    pub(crate) insert_id: u64,
    /// The number that the client gets with the result if no number was generated.
    pub(crate) explicit_id: u64,
    pub(crate) info: Info,
}

impl Changed {
    /// The result of an UPDATE that found `matched` rows and changed `changed` of them.
    fn by_update(matched: u64, changed: u64, context: &Context<'_>) -> Changed {
        let warnings = context.warnings.borrow().len() as u64;
        let info = Info::Updated { matched, changed, warnings };
        let mut variables = context.variables.borrow_mut();
        let affected = if variables.found_rows_flag { matched } else { changed };
        let explicit_id = variables.given_id.take().unwrap_or(0);
        Changed { affected, info, explicit_id, ..Changed::default() }
    }
}

/// The table that a change names. The statement needs one of the given privileges for it.
fn named_table(
    names: Names<'_>,
    name: &ast::ObjectName,
    rights: &[&'static [&'static str]],
) -> Result<Arc<TableDef>> {
    let (db, table) = path_of(&name_path(name), names.database)?;
    if SYSTEM.contains(&db.to_ascii_lowercase().as_str()) {
        return Err(SqlError::new(1044, format!("Access denied to database '{db}'")));
    }
    for any in rights {
        names.needs.ask(any, (db.clone(), table.clone()))?;
    }
    Ok(names.catalog.table(&db, &table)?.clone())
}

/// A table in the scope of a change. The change counts as reading rows only if it names a column
/// (NEED-3).
fn changed_scope(table: &TableDef) -> ScopeTable {
    ScopeTable { changed: true, ..table_scope(table) }
}

fn name_path(name: &ast::ObjectName) -> Vec<String> {
    name.0
        .iter()
        .map(|part| match part {
            ast::ObjectNamePart::Identifier(ident) => ident.value.clone(),
            other => other.to_string(),
        })
        .collect()
}

/// The column to which an assignment refers, in a table with this alias.
fn target(table: &TableDef, alias: &str, target: &AssignmentTarget) -> Result<usize> {
    let AssignmentTarget::ColumnName(name) = target else {
        return Err(SqlError::unsupported("assignment to a tuple"));
    };
    named_column(table, alias, name)
}

/// The column with a name that may be qualified by the table's alias and database.
fn named_column(table: &TableDef, alias: &str, name: &ast::ObjectName) -> Result<usize> {
    let path = name_path(name);
    let column = match path.as_slice() {
        [column] => Some(column),
        [table, column] if table.eq_ignore_ascii_case(alias) => Some(column),
        [db, name, column] if *db == table.db && name.eq_ignore_ascii_case(alias) => Some(column),
        _ => None,
    };
    let column = column.and_then(|column| table.column(column));
    column.ok_or_else(|| SqlError::unknown_column(&path.join("."), "field list"))
}

fn is_default(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::Identifier(ident)
        if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

/// The value for a column of type `ty`; `None` for DEFAULT. The type does not change how literals,
/// and parameters in their place, are bound.
fn value_for(binder: &mut Binder<'_>, expr: &ast::Expr, ty: &ColumnType) -> Result<Option<Expr>> {
    use ast::Value as V;
    if is_default(expr) {
        return Ok(None);
    }
    let plain = match expr {
        ast::Expr::Value(value) => match &value.value {
            V::Number(..) | V::SingleQuotedString(_) | V::Null | V::Boolean(_) => true,
            V::Placeholder(name) => {
                if let Some(number) = crate::planner::parameter(name) {
                    return Ok(Some(Expr::Param(number)));
                }
                true
            }
            _ => false,
        },
        _ => false,
    };
    let bound = binder.bind_any(expr)?;
    let bound = if ty.is_binary() { in_bytes(bound) } else { bound };
    Ok(Some(if plain { bound.expr } else { bound.handed(ty).expr }))
}

/// The bound defaults and constraints that apply to every row of a table before it is stored.
#[derive(Debug)]
struct Rules {
    table: Arc<TableDef>,
    /// The default of each column whose default is an expression; an error if the expression is not
    /// allowed (KEPT-2).
    defaults: Vec<Option<Result<Expr>>>,
    /// The constraints, with their names.
    checks: Vec<(Result<Expr>, String)>,
    auto: Option<usize>,
    json: bool,
}

impl Rules {
    fn new(catalog: &Catalog, table: &Arc<TableDef>) -> Rules {
        let default = |column: &ColumnDef| match &column.default {
            DefaultValue::Expr(text) => Some(bind_default(catalog, &column.name, text)),
            _ => None,
        };
        let enforced = table.checks.iter().filter(|check| check.enforced);
        let defaults = table.columns.iter().map(default).collect();
        let checks =
            enforced.map(|check| (bind_check(catalog, table, check), check.name.clone())).collect();
        let json = table.columns.iter().any(|c| c.ty == ColumnType::Json);
        Rules { auto: table.auto_column(), table: table.clone(), defaults, checks, json }
    }
}

/// Whether an INSERT must give the column a value in strict mode. The default of an ENUM is its
/// first member.
fn lacks_default(def: &ColumnDef) -> bool {
    let has_other = def.nullable || def.auto_increment || matches!(def.ty, ColumnType::Enum(_));
    def.default == DefaultValue::None && !has_other
}

/// Builds rows of a table in stored form.
struct Maker<'a> {
    context: &'a Context<'a>,
    rules: &'a Rules,
    strict: bool,
    shift: i64,
    /// Whether zero dates are refused, and whether dates with a zero month or day are refused.
    no_zero_date: bool,
    no_zero_in_date: bool,
    step: Step,
}

impl<'a> Maker<'a> {
    fn new(context: &'a Context<'a>, rules: &'a Rules, ignore: bool) -> Maker<'a> {
        let variables = context.variables.borrow();
        context.strict.set(variables.strict() && !ignore);
        Maker {
            context,
            rules,
            strict: variables.strict() && !ignore,
            shift: variables.time_offset_micros,
            no_zero_date: variables.often.no_zero_date,
            no_zero_in_date: variables.often.no_zero_in_date,
            step: Step {
                offset: variables.often.auto_increment_offset,
                increment: variables.often.auto_increment_increment,
            },
        }
    }

    fn table(&self) -> &'a Arc<TableDef> {
        &self.rules.table
    }

    /// Fails with the error, or only adds a warning if the mode is not strict.
    fn fail(&self, error: SqlError) -> Result<()> {
        if self.strict {
            return Err(error);
        }
        self.context.warn(error);
        Ok(())
    }

    /// Converts a value to the column's type, and writes it to `into`, whose memory is reused if
    /// possible.
    fn store_into(
        &self,
        column: usize,
        value: Cow<'_, Value>,
        row: u64,
        place: &mut Value,
    ) -> Result<()> {
        match value {
            Cow::Borrowed(value) if self.table().columns[column].ty.keeps(value) => {
                value.as_ref().clone_into(place);
            }
            value => *place = self.store(column, value.into_owned(), row)?,
        }
        Ok(())
    }

    /// A value in the form in which a column stores it.
    fn store(&self, column: usize, value: Value, row: u64) -> Result<Value> {
        let def = &self.table().columns[column];
        if def.ty.keeps(&value) {
            return Ok(value);
        }
        if value.is_null() {
            if def.nullable {
                return Ok(Value::Null);
            }
            self.fail(SqlError::new(1048, format!("Column '{}' cannot be null", def.name)))?;
            return Ok(def.ty.zero());
        }
        let shown = &value;
        // A time of day gets today's date.
        let dated = match (&value, &def.ty) {
            (
                Value::Time(time),
                ColumnType::Date | ColumnType::DateTime(_) | ColumnType::Timestamp(_),
            ) => {
                DateTime::from_micros_of(self.context.now().date, time.micros).map(Value::DateTime)
            }
            _ => None,
        };
        let value = dated.as_ref().unwrap_or(&value);
        match def.ty.store_in(value, def.collation) {
            Ok(stored) => {
                if self.rules.json && def.ty == ColumnType::Json && !is_document(&stored.to_text())
                {
                    return Err(SqlError::store(StoreError::Json, &def.name, value, row));
                }
                self.note_cut(def, shown, &stored, row);
                let stored = self.in_epoch(def, stored, row)?;
                self.zero_date(def, stored, row)
            }
            Err((why, nearest)) => {
                self.fail(SqlError::store(why, &def.name, value, row))?;
                Ok(nearest)
            }
        }
    }

    /// Adds a note if the column cannot hold all digits of a decimal, the time of a date or the
    /// date of a time.
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
            self.context.warn(SqlError::store(StoreError::Truncated, &def.name, given, row));
        }
    }

    /// Refuses times outside the range of TIMESTAMP, from 1970-01-01 00:00:01 to 2038-01-19
    /// 03:14:07 in UTC.
    fn in_epoch(&self, def: &ColumnDef, value: Value, row: u64) -> Result<Value> {
        let (ColumnType::Timestamp(_), Value::DateTime(at)) = (&def.ty, &value) else {
            return Ok(value);
        };
        let seconds = (at.to_unix_micros() - self.shift).div_euclid(1_000_000);
        if at.date == Date::default() || (1..=i64::from(i32::MAX)).contains(&seconds) {
            return Ok(value);
        }
        let why = StoreError::IncorrectTime("datetime");
        self.fail(SqlError::store(why, &def.name, &value, row))?;
        Ok(def.ty.zero())
    }

    /// Applies the modes NO_ZERO_DATE and NO_ZERO_IN_DATE to a value.
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
        let why = StoreError::IncorrectTime(kind);
        self.fail(SqlError::store(why, &def.name, &value, row))?;
        Ok(def.ty.zero())
    }

    /// The value that DEFAULT gives a column of an existing row.
    fn default(&self, column: usize) -> Result<Value> {
        let def = &self.table().columns[column];
        if def.auto_increment { Ok(def.ty.zero()) } else { self.initial(column) }
    }

    /// The value of a column that an INSERT does not name. NULL for the AUTO_INCREMENT column,
    /// whose number is generated later.
    fn initial(&self, column: usize) -> Result<Value> {
        let def = &self.table().columns[column];
        if let Some(expr) = &self.rules.defaults[column] {
            let expr = expr.as_ref().map_err(SqlError::clone)?;
            return self.store(column, self.context.eval(expr, &[])?, 1);
        }
        Ok(match &def.default {
            DefaultValue::CurrentTimestamp => {
                def.ty.store(&Value::DateTime(self.context.now())).unwrap_or_default()
            }
            DefaultValue::None if lacks_default(def) => {
                self.fail(SqlError::no_default(&def.name))?;
                def.ty.zero()
            }
            _ if def.auto_increment => Value::Null,
            _ => def.constant_default(),
        })
    }

    fn check(&self, row: &[Value]) -> Result<()> {
        for (expr, name) in &self.rules.checks {
            let expr = expr.as_ref().map_err(SqlError::clone)?;
            let value = self.context.value(expr, row)?;
            if !value.is_null() && !truth_of(&value) {
                let text = format!("Check constraint '{name}' is violated.");
                return Err(SqlError::new(3819, text));
            }
        }
        Ok(())
    }

    /// Converts a row's timestamps to UTC, as they are stored.
    fn to_stored(&self, row: &mut [Value]) {
        shift_timestamps(self.table(), row, -self.shift);
    }

    /// The key of a row, in one of the session's key buffers.
    fn key(&self, row: &[Value]) -> Result<Buffer<'a>> {
        let number = if self.table().primary.is_empty() {
            self.context.server.next_row_number(self.context.txn, self.table())?
        } else {
            0
        };
        let mut key = self.context.room.key();
        store::write_primary_key(self.table(), row, number, &mut key);
        Ok(key)
    }

    /// Makes the AUTO_INCREMENT counter continue after a number that an update has assigned.
    fn note_number<V: Borrow<Value>>(&self, row: &[Value], old: &[V]) -> Result<()> {
        let Some(at) = self.rules.auto.filter(|at| !is_same(&row[*at], old[*at].borrow())) else {
            return Ok(());
        };
        let given = to_i128(&row[at].as_ref()).unwrap_or(0);
        match u64::try_from(given) {
            Ok(given) => {
                let (server, txn) = (self.context.server, self.context.txn);
                server.note_auto_increment(txn, self.table(), given)
            }
            Err(_) => Ok(()),
        }
    }

    /// Applies ON UPDATE CURRENT_TIMESTAMP to columns that are not assigned.
    fn touch(&self, row: &mut [Value], assigned: impl Fn(usize) -> bool) {
        for (at, column) in self.table().columns.iter().enumerate() {
            if column.on_update_now && !assigned(at) {
                row[at] = column.ty.store(&Value::DateTime(self.context.now())).unwrap_or_default();
            }
        }
    }
}

/// 1175: `sql_safe_updates` is on.
#[cold]
fn unsafe_update() -> SqlError {
    let text = "You are using safe update mode and you tried to update a table without a WHERE that uses a KEY column.";
    SqlError::new(1175, text)
}

fn same(a: &[Value], b: &[Value]) -> bool {
    a.iter().zip(b).all(|(a, b)| is_same(a, b))
}

fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Text(a), Value::Text(b)) => a == b,
        (Value::Int(a), Value::Int(b)) => a == b,
        (Value::Null, Value::Null) => true,
        _ => compare(a, b, Collation::Binary) == Some(std::cmp::Ordering::Equal),
    }
}
