//! UPDATE and DELETE of several tables.
//!
//! A query joins the tables. For each joined row, the query returns the values to assign and the
//! keys of the rows to change. The query locks each row that satisfies the conditions on its table:
//! with a shared lock in a table that the statement only reads, and with an exclusive lock in the
//! others. As in MySQL, a row that occurs in several joined rows is changed once, by the first of
//! them.

use std::sync::Arc;

use spillway::{LockMode, LockWait};
use spillway_types::Value;
use sqlparser::ast::{self, AssignmentTarget, FromTable, TableFactor, TableWithJoins};

use super::bulk::keep_thread;
use super::change::change_row;
use super::{Changed, Maker, Rules, is_default, name_path, named_table, unsafe_update};
use crate::catalog::{TableDef, shift_timestamps};
use crate::errors::{Result, SqlError};
use crate::executor::store;
use crate::expression::{Context, Expr};
use crate::planner::{Names, QueryBody, QueryPlan, Row, SourceKind};
use crate::{executor, planner};

/// A bound UPDATE or DELETE of several tables.
#[derive(Debug)]
pub(crate) struct JoinedPlan {
    /// The query that joins the tables. Its rows have the values to assign, and then the key of
    /// each changed table's row, which is NULL if an outer join found none.
    rows: QueryPlan,
    keys_at: usize,
    targets: Vec<ChangedTable>,
    delete: bool,
    ignore: bool,
}

/// A table whose rows are changed.
#[derive(Debug)]
struct ChangedTable {
    rules: Rules,
    /// Whether the join scans the whole table.
    full: bool,
    /// The assigned columns, each with the position of its value; `None` for DEFAULT.
    columns: Vec<(usize, Option<usize>)>,
}

/// A stored table of the join, with the name that the statement gives it.
struct Joined {
    alias: String,
    table: Arc<TableDef>,
}

impl Joined {
    /// Checks the privilege to change the table.
    fn ask(&self, names: Names<'_>, any: &'static [&'static str]) -> Result<()> {
        names.needs.ask(any, (self.table.db.clone(), self.table.name.clone()))
    }

    /// Whether a name before a column, or in the list of a DELETE, refers to this table.
    fn is(&self, path: &[String]) -> bool {
        match path {
            [alias] => self.alias.eq_ignore_ascii_case(alias),
            [db, alias] => self.table.db == *db && self.alias.eq_ignore_ascii_case(alias),
            _ => false,
        }
    }
}

fn joined(names: Names<'_>, from: &[TableWithJoins]) -> Result<Vec<Joined>> {
    let factors = from.iter().flat_map(|tables| {
        std::iter::once(&tables.relation).chain(tables.joins.iter().map(|join| &join.relation))
    });
    planner::check_count(factors.clone().count())?;
    let mut all = Vec::new();
    for factor in factors {
        if let TableFactor::Table { name, alias, .. } = factor {
            let table = named_table(names, name, &[&["SELECT"]])?;
            let alias = alias.as_ref().map(|alias| alias.name.value.clone());
            all.push(Joined { alias: alias.unwrap_or_else(|| table.name.clone()), table });
        }
    }
    Ok(all)
}

/// Plans the join. Its rows have the values of `projection`, and then the key of each target's row.
/// Also returns for each target whether the join scans the whole table.
fn plan(
    names: Names<'_>,
    from: &[TableWithJoins],
    selection: Option<&ast::Expr>,
    projection: Vec<ast::Expr>,
    targets: &[&Joined],
) -> Result<(QueryPlan, Vec<bool>)> {
    // Without a table in the text, FOR would be parsed as a column alias.
    let mut query = crate::parser::parse_query("SELECT 1 FROM t FOR UPDATE")?;
    if let ast::SetExpr::Select(select) = &mut *query.body {
        select.from = from.to_vec();
        select.selection = selection.cloned();
        select.projection = projection.into_iter().map(ast::SelectItem::UnnamedExpr).collect();
    }
    names.needs.next_finds_changed();
    let mut plan = planner::plan_query(names, &query, None, &[])?;
    plan.refuse_charsets()?;
    let QueryBody::Select(select) = &mut plan.body else {
        return Err(SqlError::new(1105, "a SELECT has no plan of one"));
    };
    if select.grouped {
        return Err(SqlError::new(1111, "Invalid use of group function"));
    }
    assert!(select.lock.is_some(), "a change locks the rows that it reads");
    select.sources.iter_mut().for_each(|source| source.shared = true);
    let mut full = Vec::new();
    for target in targets {
        let source = select.sources.iter_mut().find(|source| match &source.kind {
            SourceKind::Table(table) => table.id == target.table.id && source.alias == target.alias,
            _ => false,
        });
        let source = source.ok_or_else(|| {
            SqlError::new(1109, format!("Unknown table '{}' in MULTI DELETE", target.alias))
        })?;
        full.push(source.access.is_full());
        source.shared = false;
        // A covering index would not do: only rows have the key in their last slot.
        source.needed = None;
        select.projections.push(Expr::Column(source.offset + source.width - 1));
    }
    Ok((plan, full))
}

/// The newest version of a row, with its key at the end; `None` if the row was deleted.
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

/// A table of the join that is changed, and its columns, each with the position of its value;
/// `None` for DEFAULT.
type Assigned = (usize, Vec<(usize, Option<usize>)>);

/// Refuses an UPDATE of a table by two names that changes its primary key.
fn check_names(all: &[Joined], targets: &[Assigned]) -> Result<()> {
    for (at, (target, columns)) in targets.iter().enumerate() {
        for (other, others) in &targets[..at] {
            let (one, two) = (&all[*other], &all[*target]);
            let is_key = |(column, _): &(usize, _)| {
                two.table.primary.iter().any(|part| part.column == *column)
            };
            if one.table.id == two.table.id && columns.iter().chain(others).any(is_key) {
                let text = format!(
                    "Primary key/partition key update is not allowed since the table is updated \
                     both as '{}' and '{}'.",
                    one.alias, two.alias
                );
                return Err(SqlError::new(1706, text));
            }
        }
    }
    Ok(())
}

/// The table and the column to which an assignment refers.
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

/// A table's name in the list of `DELETE FROM t, u USING ...`.
fn target_name(tables: &TableWithJoins) -> Result<Vec<String>> {
    match &tables.relation {
        TableFactor::Table { name, alias: None, .. } if tables.joins.is_empty() => {
            Ok(name_path(name))
        }
        other => Err(SqlError::syntax(format!("near '{other}'"))),
    }
}

/// Refuses a clause that is only allowed in changes of a single table.
fn refuse(verb: &str, order: bool, limit: bool) -> Result<()> {
    if !order && !limit {
        return Ok(());
    }
    let clause = if limit { "LIMIT" } else { "ORDER BY" };
    Err(SqlError::new(1221, format!("Incorrect usage of {verb} and {clause}")))
}

impl JoinedPlan {
    /// Binds an UPDATE of several tables.
    pub(crate) fn update(names: Names<'_>, update: &ast::Update) -> Result<JoinedPlan> {
        refuse("UPDATE", !update.order_by.is_empty(), update.limit.is_some())?;
        let from = std::slice::from_ref(&update.table);
        let all = joined(names, from)?;
        // The tables in the order of their first assignments.
        let mut targets: Vec<Assigned> = Vec::new();
        let mut projection = Vec::new();
        for assignment in &update.assignments {
            let (table, column) = assigned(&all, &assignment.target)?;
            all[table].ask(names, &["UPDATE"])?;
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
        check_names(&all, &targets)?;
        let named: Vec<&Joined> = targets.iter().map(|(target, _)| &all[*target]).collect();
        let (rows, full) = plan(names, from, update.selection.as_ref(), projection, &named)?;
        let columns = targets.into_iter().map(|(_, columns)| columns);
        Ok(JoinedPlan {
            rows,
            keys_at,
            targets: targets_of(names, &named, full, columns)?,
            delete: false,
            ignore: update.or.is_some(),
        })
    }

    /// Binds a DELETE of several tables: `DELETE t, u FROM t JOIN u ...` or `DELETE FROM t, u USING
    /// t JOIN u ...`.
    pub(crate) fn delete(names: Names<'_>, delete: &ast::Delete) -> Result<JoinedPlan> {
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
        let (from, paths) = match &delete.using {
            Some(using) => (using, from.iter().map(target_name).collect::<Result<Vec<_>>>()?),
            None => (from, delete.tables.iter().map(name_path).collect()),
        };
        refuse("DELETE", !delete.order_by.is_empty(), delete.limit.is_some())?;
        let all = joined(names, from)?;
        let mut named: Vec<&Joined> = Vec::new();
        for path in &paths {
            let found = all.iter().find(|joined| joined.is(path)).ok_or_else(|| {
                SqlError::new(1109, format!("Unknown table '{}' in MULTI DELETE", path.join(".")))
            })?;
            if named.iter().any(|other| std::ptr::eq(*other, found)) {
                let text = format!("Not unique table/alias: '{}'", found.alias);
                return Err(SqlError::new(1066, text));
            }
            found.ask(names, &["DELETE"])?;
            named.push(found);
        }
        let one = ast::Expr::value(ast::Value::Number("1".to_owned(), false));
        let (rows, full) = plan(names, from, delete.selection.as_ref(), vec![one], &named)?;
        let columns = std::iter::repeat_with(Vec::new);
        let targets = targets_of(names, &named, full, columns)?;
        Ok(JoinedPlan { rows, keys_at: 1, targets, delete: true, ignore: false })
    }

    /// The query that finds the rows.
    pub(crate) fn rows(&self) -> &QueryPlan {
        &self.rows
    }

    /// Runs the statement.
    pub(crate) fn run(&self, context: &Context<'_>) -> Result<Changed> {
        let safe = context.variables.borrow().often.safe_updates;
        if safe && self.targets.iter().any(|target| target.full) {
            return Err(unsafe_update());
        }
        let makers: Vec<Maker<'_>> = self
            .targets
            .iter()
            .map(|target| Maker::new(context, &target.rules, self.ignore))
            .collect();
        let mut rows = executor::Spool::new(context);
        executor::run_query(context, &self.rows, &mut |row| {
            rows.push(row)?;
            Ok(true)
        })?;
        let mut seen = executor::KeySet::new(context);
        let (mut matched, mut changed) = (0, 0);
        rows.each(|row| {
            let (values, keys) = row.split_at(self.keys_at);
            for (at, key) in keys.iter().enumerate() {
                let Value::Bytes(key) = key else { continue };
                if !seen.insert(at, key)? {
                    continue;
                }
                let Some(old) = newest(context, makers[at].table(), key)? else { continue };
                matched += 1;
                keep_thread(context, matched);
                if self.delete {
                    store::delete_row(context.txn, makers[at].table(), &old, key)?;
                } else {
                    let key = key.clone();
                    let done = self.update_row(&makers[at], at, values, old, key, matched)?;
                    changed += u64::from(done);
                }
            }
            Ok(())
        })?;
        if self.delete {
            return Ok(Changed { affected: matched, ..Changed::default() });
        }
        Ok(Changed::by_update(matched, changed, context))
    }

    /// Assigns the values of a joined row to the row of a target. Returns whether that row changed.
    fn update_row(
        &self,
        maker: &Maker<'_>,
        target: usize,
        joined: &[Value],
        mut old: Row,
        key: Vec<u8>,
        number: u64,
    ) -> Result<bool> {
        shift_timestamps(maker.table(), &mut old, maker.shift);
        old.push(Value::Bytes(key));
        let values: Vec<(usize, Option<Expr>)> = self.targets[target]
            .columns
            .iter()
            .map(|(column, value)| (*column, value.map(|at| Expr::Const(joined[at].clone()))))
            .collect();
        let before = maker.context.txn.savepoint();
        let outcome = match change_row(maker, &mut old, &values, number) {
            Err(error) if self.ignore && matches!(error.code, 1062 | 3819 | 1048) => {
                maker.context.txn.rollback_to(before);
                maker.context.warn(error);
                Ok(false)
            }
            outcome => outcome,
        };
        maker.context.txn.release(before);
        outcome
    }
}

fn targets_of(
    names: Names<'_>,
    named: &[&Joined],
    full: Vec<bool>,
    columns: impl Iterator<Item = Vec<(usize, Option<usize>)>>,
) -> Result<Vec<ChangedTable>> {
    named
        .iter()
        .zip(full)
        .zip(columns)
        .map(|((joined, full), columns)| {
            Ok(ChangedTable { rules: Rules::new(names.catalog, &joined.table), full, columns })
        })
        .collect()
}
