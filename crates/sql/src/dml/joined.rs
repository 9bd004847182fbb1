//! UPDATE and DELETE of several tables.
//!
//! The tables are joined by a query of their own, which gives for each joined row the values to assign and the keys of the rows
//! to change, and locks all that it reads. A row that is joined more than once is changed once, by the first, as in MySQL.

use std::collections::HashSet;
use std::sync::Arc;

use spillway::{LockMode, LockWait};
use spillway_types::Value;
use sqlparser::ast::{self, AssignmentTarget, TableFactor, TableWithJoins};

use super::{Changed, Vars, change_row, find_table, maker, name_path, unsafe_update};
use crate::catalog::{TableDef, shift_timestamps};
use crate::errors::{Result, SqlError};
use crate::expr::{Context, Expr};
use crate::query::{self, Body, Row, SourceKind};
use crate::store;

/// A stored table of the join, under the name that it has there.
struct Joined {
    alias: String,
    table: Arc<TableDef>,
}

impl Joined {
    /// Whether a name before a column, or in the list of a DELETE, means it.
    fn is(&self, path: &[String]) -> bool {
        match path {
            [alias] => self.alias.eq_ignore_ascii_case(alias),
            [db, alias] => self.table.db == *db && self.alias.eq_ignore_ascii_case(alias),
            _ => false,
        }
    }
}

fn joined(context: &Context<'_>, from: &[TableWithJoins]) -> Result<Vec<Joined>> {
    let factors = from.iter().flat_map(|tables| {
        std::iter::once(&tables.relation).chain(tables.joins.iter().map(|join| &join.relation))
    });
    let mut all = Vec::new();
    for factor in factors {
        if let TableFactor::Table { name, alias, .. } = factor {
            let table = find_table(context, name)?;
            let alias = alias.as_ref().map(|alias| alias.name.value.clone());
            all.push(Joined { alias: alias.unwrap_or_else(|| table.name.clone()), table });
        }
    }
    Ok(all)
}

/// The rows of the join: the values of `projection`, and then the key of each target's row, which is NULL where an outer join
/// found none.
fn read(
    context: &Context<'_>,
    vars: Vars<'_>,
    from: &[TableWithJoins],
    selection: Option<&ast::Expr>,
    projection: Vec<ast::Expr>,
    targets: &[&Joined],
) -> Result<Vec<Row>> {
    let mut query = crate::parse::parse_query("SELECT 1 FOR UPDATE")?;
    if let ast::SetExpr::Select(select) = &mut *query.body {
        select.from = from.to_vec();
        select.selection = selection.cloned();
        select.projection = projection.into_iter().map(ast::SelectItem::UnnamedExpr).collect();
    }
    let database = context.variables.borrow().database.clone();
    let mut plan =
        query::plan_query(context.catalog, database.as_deref(), vars, &query, None, &[])?;
    let Body::Select(select) = &mut plan.body else {
        return Err(SqlError::new(1105, "a SELECT has no plan of one"));
    };
    let safe = context.variables.borrow().flag("sql_safe_updates");
    for target in targets {
        let source = select.sources.iter_mut().find(|source| match &source.kind {
            SourceKind::Table(table) => table.id == target.table.id && source.alias == target.alias,
            _ => false,
        });
        let source = source.ok_or_else(|| {
            SqlError::new(1109, format!("Unknown table '{}' in MULTI DELETE", target.alias))
        })?;
        if safe && source.access.is_full() {
            return Err(unsafe_update());
        }
        // The key comes with whole rows alone.
        source.needed = None;
        select.projections.push(Expr::Column(source.offset + source.width - 1));
    }
    let mut rows = Vec::new();
    query::run_query(context, &plan, &mut |row| {
        rows.push(row.to_vec());
        Ok(true)
    })?;
    Ok(rows)
}

/// The newest state of a row, with its key behind it; `None` where it is gone.
fn newest(context: &Context<'_>, table: &TableDef, key: &[u8]) -> Result<Option<Row>> {
    let mut bytes = Vec::new();
    let (mode, wait) = (LockMode::Exclusive, LockWait::Wait);
    if !context.txn.get_locked(table.rows(), key, mode, wait, &mut bytes)? {
        return Ok(None);
    }
    let mut row = Vec::new();
    table.decode(&bytes, &mut row)?;
    Ok(Some(row))
}

fn is_default(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::Identifier(ident)
        if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default"))
}

/// The table and the column that an assignment names.
fn assigned(all: &[Joined], target: &AssignmentTarget) -> Result<(usize, usize)> {
    let AssignmentTarget::ColumnName(name) = target else {
        return Err(SqlError::unsupported("assignment to a tuple"));
    };
    let mut path = name_path(name);
    let column = path.pop().unwrap_or_default();
    let unknown = || SqlError::unknown_column(&column, "field list");
    let mut fitting = all.iter().enumerate().filter_map(|(at, joined)| {
        let column = joined.table.column(&column)?;
        (path.is_empty() || joined.is(&path)).then_some((at, column))
    });
    let found = fitting.next().ok_or_else(unknown)?;
    if fitting.next().is_some() {
        return Err(SqlError::new(1052, format!("Column '{column}' in field list is ambiguous")));
    }
    Ok(found)
}

/// Runs an UPDATE of several tables.
pub(super) fn update(
    context: &Context<'_>,
    update: &ast::Update,
    vars: Vars<'_>,
) -> Result<Changed> {
    if !update.order_by.is_empty() || update.limit.is_some() {
        let clause = if update.limit.is_some() { "LIMIT" } else { "ORDER BY" };
        return Err(SqlError::new(1221, format!("Incorrect usage of UPDATE and {clause}")));
    }
    let from = std::slice::from_ref(&update.table);
    let all = joined(context, from)?;
    let ignore = update.or.is_some();
    // The targets in the order they are first assigned to, each with its columns and where their values stand.
    let mut targets: Vec<(usize, Vec<(usize, Option<usize>)>)> = Vec::new();
    let mut projection = Vec::new();
    for assignment in &update.assignments {
        let (table, column) = assigned(&all, &assignment.target)?;
        let value = (!is_default(&assignment.value)).then_some(projection.len());
        if value.is_some() {
            projection.push(assignment.value.clone());
        }
        match targets.iter_mut().find(|(target, _)| *target == table) {
            Some((_, columns)) => columns.push((column, value)),
            None => targets.push((table, vec![(column, value)])),
        }
    }
    let keys_at = projection.len();
    let named: Vec<&Joined> = targets.iter().map(|(target, _)| &all[*target]).collect();
    let makers: Vec<_> = named.iter().map(|joined| maker(context, &joined.table, ignore)).collect();
    let rows = read(context, vars, from, update.selection.as_ref(), projection, &named)?;
    let mut seen = HashSet::new();
    let (mut matched, mut changed) = (0, 0);
    for mut row in rows {
        let keys = row.split_off(keys_at);
        for (at, (key, (_, columns))) in keys.into_iter().zip(&targets).enumerate() {
            let Value::Bytes(key) = key else { continue };
            if !seen.insert((at, key.clone())) {
                continue;
            }
            let maker = &makers[at];
            let Some(mut old) = newest(context, maker.table, &key)? else { continue };
            shift_timestamps(maker.table, &mut old, maker.shift);
            old.push(Value::Bytes(key));
            matched += 1;
            let values: Vec<(usize, Option<Expr>)> = columns
                .iter()
                .map(|(column, value)| (*column, value.map(|at| Expr::Const(row[at].clone()))))
                .collect();
            let before = context.txn.savepoint();
            match change_row(maker, old, &values, matched) {
                Ok(done) => changed += u64::from(done),
                Err(error) if ignore && matches!(error.code, 1062 | 3819 | 1048) => {
                    context.txn.rollback_to(before);
                    context.warn(error);
                }
                Err(error) => return Err(error),
            }
        }
    }
    let warnings = context.warnings.borrow().len();
    let info = format!("Rows matched: {matched}  Changed: {changed}  Warnings: {warnings}");
    let affected = if context.variables.borrow().found_rows_flag { matched } else { changed };
    Ok(Changed { affected, info, ..Changed::default() })
}

/// Runs a DELETE of several tables: `DELETE t, u FROM t JOIN u ...`, `DELETE FROM t, u USING t JOIN u ...`.
pub(super) fn delete(
    context: &Context<'_>,
    from: &[TableWithJoins],
    names: &[Vec<String>],
    selection: Option<&ast::Expr>,
    vars: Vars<'_>,
) -> Result<Changed> {
    let all = joined(context, from)?;
    let mut targets: Vec<&Joined> = Vec::new();
    for name in names {
        let found = all.iter().find(|joined| joined.is(name)).ok_or_else(|| {
            SqlError::new(1109, format!("Unknown table '{}' in MULTI DELETE", name.join(".")))
        })?;
        if targets.iter().any(|other| std::ptr::eq(*other, found)) {
            return Err(SqlError::new(1066, format!("Not unique table/alias: '{}'", found.alias)));
        }
        targets.push(found);
    }
    let one = ast::Expr::value(ast::Value::Number("1".to_owned(), false));
    let rows = read(context, vars, from, selection, vec![one], &targets)?;
    let mut seen = HashSet::new();
    let mut affected = 0;
    for row in rows {
        for (target, key) in targets.iter().zip(row.into_iter().skip(1)) {
            let Value::Bytes(key) = key else { continue };
            let table = &target.table;
            if seen.insert((table.id, key.clone()))
                && let Some(old) = newest(context, table, &key)?
            {
                store::delete_row(context.txn, table, &old, &key)?;
                affected += 1;
            }
        }
    }
    Ok(Changed { affected, ..Changed::default() })
}
