//! Plans queries: the parts of a SELECT, set operations, VALUES, order and limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use spillway::{LockMode, LockWait};
use spillway_types::Collation;
use sqlparser::ast::{
    self, Distinct, LimitClause, OrderByKind, SetExpr, SetOperator, SetQuantifier,
};

use super::access::available;
use super::aggregate::Aggregate;
use super::bind::Binder;
use super::from::{From, check_dual};
use super::full_group::Grouped;
use super::join_order::{arrange, find_needed, use_index_order};
use super::project::{expression_column, group_by, order_by, project};
use super::pushdown::push_down;
use super::query_plan::{QueryBody, QueryPlan, SelectPlan, SetOp, Source};
use super::scope::{FULL_GROUP_BY, INDEX_ONLY, Names};
use super::set_columns::set_column;
use crate::api::ResultColumn;
use crate::errors::{Result, SqlError};
use crate::expression::{Expr, refuse_charset};
use crate::parser::on_enough_stack;

type Ctes = [(String, Arc<QueryPlan>)];

static PLANS: AtomicUsize = AtomicUsize::new(1);

/// Plans a query.
pub(crate) fn plan_query(
    names: Names<'_>,
    query: &ast::Query,
    parent: Option<&Binder<'_>>,
    ctes: &Ctes,
) -> Result<QueryPlan> {
    on_enough_stack(|| plan_here(names, query, parent, ctes))
}

fn plan_here(
    names: Names<'_>,
    query: &ast::Query,
    parent: Option<&Binder<'_>>,
    ctes: &Ctes,
) -> Result<QueryPlan> {
    let mut ctes = ctes.to_vec();
    if let Some(with) = &query.with {
        if with.recursive {
            return Err(SqlError::unsupported("WITH RECURSIVE"));
        }
        for cte in &with.cte_tables {
            let mut plan = plan_query(names, &cte.query, parent, &ctes)?;
            plan.refuse_charsets()?;
            rename_columns(&mut plan, &cte.alias.columns)?;
            ctes.push((cte.alias.name.value.clone(), Arc::new(plan)));
        }
    }
    let lock = lock_of(query)?;
    let (limit, offset) = limits(names, query)?;
    let order: &[ast::OrderByExpr] = match &query.order_by {
        None => &[],
        Some(by) => match &by.kind {
            OrderByKind::Expressions(list) => list,
            OrderByKind::All(_) => return Err(SqlError::unsupported("ORDER BY ALL")),
        },
    };
    let mut plan = match &*query.body {
        SetExpr::Select(select) => plan_select(names, select, order, lock, parent, &ctes)?,
        _ if lock.is_some() => {
            return Err(SqlError::unsupported("a locking clause after more than one SELECT"));
        }
        body => {
            let mut plan = plan_body(names, body, parent, &ctes)?;
            let own = plan.limit.is_some() || plan.offset.is_some() || !plan.order.is_empty();
            if !order.is_empty() {
                if own || !matches!(plan.body, QueryBody::Set { .. }) {
                    plan = around(plan);
                }
                plan.order = order_by_result(&plan.columns, order)?;
            }
            plan
        }
    };
    if limit.is_some() || offset.is_some() {
        if plan.limit.is_some() || plan.offset.is_some() {
            plan = around(plan);
        }
        plan.limit = limit;
        plan.offset = offset;
    }
    plan.counted = parent.is_none() && counts_rows(&query.body);
    plan.depth = Binder::chain(parent).count();
    Ok(plan)
}

/// A query that wraps a query in parentheses, for an order and a limit of its own.
fn around(inner: QueryPlan) -> QueryPlan {
    QueryPlan {
        columns: inner.columns.clone(),
        outer_reach: inner.outer_reach,
        correlated: inner.correlated,
        body: QueryBody::Set {
            left: Box::new(QueryPlan { counted: false, ..inner }),
            right: Box::new(empty()),
            op: SetOp::Union,
            all: true,
        },
        ..empty()
    }
}

/// Whether a query has SQL_CALC_FOUND_ROWS, which is in its first SELECT.
fn counts_rows(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => {
            select.select_modifiers.as_ref().is_some_and(|words| words.sql_calc_found_rows)
        }
        SetExpr::SetOperation { left, .. } => counts_rows(left),
        SetExpr::Query(query) => counts_rows(&query.body),
        _ => false,
    }
}

fn empty() -> QueryPlan {
    QueryPlan {
        columns: Vec::new(),
        body: QueryBody::Values(Vec::new()),
        order: Vec::new(),
        limit: None,
        offset: None,
        counted: false,
        outer_reach: 0,
        correlated: false,
        depth: 0,
        id: PLANS.fetch_add(1, Ordering::Relaxed),
    }
}

pub(crate) fn rename_columns(
    plan: &mut QueryPlan,
    names: &[ast::TableAliasColumnDef],
) -> Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    if names.len() != plan.columns.len() {
        return Err(SqlError::new(
            1353,
            "In definition of view, derived table or common table expression, SELECT list and \
             column names list have different column counts",
        ));
    }
    for (column, name) in plan.columns.iter_mut().zip(names) {
        column.name = name.name.value.as_str().into();
    }
    Ok(())
}

fn lock_of(query: &ast::Query) -> Result<Option<(LockMode, LockWait)>> {
    let Some(clause) = query.locks.first() else { return Ok(None) };
    let mode = match clause.lock_type {
        ast::LockType::Share => LockMode::Shared,
        ast::LockType::Update => LockMode::Exclusive,
    };
    let wait = match clause.nonblock {
        None => LockWait::Wait,
        Some(ast::NonBlock::Nowait) => LockWait::NoWait,
        Some(ast::NonBlock::SkipLocked) => LockWait::SkipLocked,
    };
    Ok(Some((mode, wait)))
}

fn limits(names: Names<'_>, query: &ast::Query) -> Result<(Option<Expr>, Option<Expr>)> {
    let mut binder = Binder::new(names);
    let mut bind = |e: &ast::Expr| bind_count(&mut binder, e);
    match &query.limit_clause {
        None => Ok((None, None)),
        Some(LimitClause::LimitOffset { limit, offset, .. }) => Ok((
            limit.as_ref().map(&mut bind).transpose()?,
            offset.as_ref().map(|offset| bind(&offset.value)).transpose()?,
        )),
        Some(LimitClause::OffsetCommaLimit { offset, limit }) => {
            Ok((Some(bind(limit)?), Some(bind(offset)?)))
        }
    }
}

fn plan_body(
    names: Names<'_>,
    body: &SetExpr,
    parent: Option<&Binder<'_>>,
    ctes: &Ctes,
) -> Result<QueryPlan> {
    match body {
        SetExpr::Select(select) => plan_select(names, select, &[], None, parent, ctes),
        SetExpr::Query(query) => plan_query(names, query, parent, ctes),
        SetExpr::SetOperation { left, op, set_quantifier, right } => {
            let left = plan_body(names, left, parent, ctes)?;
            let right = plan_body(names, right, parent, ctes)?;
            plan_set(left, right, *op, *set_quantifier)
        }
        SetExpr::Values(values) => plan_values(names, values, parent),
        other => Err(SqlError::unsupported(other)),
    }
}

/// The plan of a set operation on two queries.
fn plan_set(
    left: QueryPlan,
    right: QueryPlan,
    op: SetOperator,
    quantifier: SetQuantifier,
) -> Result<QueryPlan> {
    left.refuse_charsets()?;
    right.refuse_charsets()?;
    if left.columns.len() != right.columns.len() {
        return Err(SqlError::new(
            1222,
            "The used SELECT statements have a different number of columns",
        ));
    }
    let op = match op {
        SetOperator::Union => SetOp::Union,
        SetOperator::Intersect => SetOp::Intersect,
        SetOperator::Except | SetOperator::Minus => SetOp::Except,
    };
    let columns = (0..left.columns.len()).map(|at| set_column(&left, &right, at));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    Ok(QueryPlan {
        columns,
        outer_reach: left.outer_reach.max(right.outer_reach),
        correlated: left.correlated || right.correlated,
        body: QueryBody::Set {
            left: Box::new(left),
            right: Box::new(right),
            op,
            all: quantifier == SetQuantifier::All,
        },
        ..empty()
    })
}

/// The rows of a VALUES statement.
fn plan_values(
    names: Names<'_>,
    values: &ast::Values,
    parent: Option<&Binder<'_>>,
) -> Result<QueryPlan> {
    let mut binder = Binder::new(names);
    binder.parent = parent;
    let mut rows = Vec::new();
    let mut columns = Vec::new();
    for row in &values.rows {
        let first = values.rows.first().map_or(0, |first| first.content.len());
        if row.content.is_empty() {
            return Err(SqlError::new(
                3942,
                "Each row of a VALUES clause must have at least one column, unless when used as \
                 source in an INSERT statement.",
            ));
        }
        if row.content.len() != first {
            let text = format!("Column count doesn't match value count at row {}", rows.len() + 1);
            return Err(SqlError::new(1136, text));
        }
        let typed = row.content.iter().map(|e| binder.bind(e)).collect::<Result<Vec<_>>>()?;
        if columns.is_empty() {
            let named = typed.iter().enumerate();
            columns = named
                .map(|(at, typed)| expression_column(&format!("column_{at}"), typed))
                .collect();
        }
        rows.push(typed.into_iter().map(|typed| typed.expr).collect());
    }
    let outer_reach = binder.outer_reach.get();
    let correlated = binder.correlated.get();
    Ok(QueryPlan { columns, body: QueryBody::Values(rows), outer_reach, correlated, ..empty() })
}

/// ORDER BY over the columns of a result: by number or by name.
fn order_by_result(
    columns: &[ResultColumn],
    order: &[ast::OrderByExpr],
) -> Result<Vec<(Expr, bool, Collation)>> {
    order
        .iter()
        .map(|by| {
            let shown = by.expr.to_string().replace('`', "");
            let at = match shown.parse::<usize>() {
                Ok(number) => number.checked_sub(1).filter(|at| *at < columns.len()),
                Err(_) => {
                    columns.iter().position(|column| column.name.eq_ignore_ascii_case(&shown))
                }
            };
            let at = at.ok_or_else(|| SqlError::unknown_column(&shown, "order clause"))?;
            Ok((Expr::Column(at), by.options.asc.unwrap_or(true), columns[at].collation))
        })
        .collect()
}

/// Binds FROM and WHERE. Returns the tables, the conditions, the width of a row, and whether the
/// tables must be read in the order that is written.
fn bind_from(
    binder: &mut Binder<'_>,
    select: &ast::Select,
    lock: Option<(LockMode, LockWait)>,
) -> Result<(Vec<Source>, Vec<Expr>, usize, bool)> {
    let locks = lock.is_some() && binder.names.needs.locks_by_itself();
    let mut from = From {
        binder: &mut *binder,
        sources: Vec::new(),
        conditions: Vec::new(),
        width: 0,
        straight: false,
        shown: Vec::new(),
        locks,
    };
    check_dual(&select.from)?;
    for tables in &select.from {
        from.joins(tables)?;
    }
    let From { sources, mut conditions, width, straight, shown, .. } = from;
    binder.scope.star = shown;
    if let Some(selection) = &select.selection {
        binder.place = "where clause";
        binder.condition(selection)?.conjuncts(&mut conditions);
    }
    Ok((sources, conditions, width, straight))
}

/// Splits off the conditions that need no table.
fn split_constant(conditions: Vec<Expr>, sources: &[Source]) -> (Vec<Expr>, Vec<Expr>) {
    // A query without tables has no source at which to check a condition. So all of its conditions
    // are checked before its only row, in the order of the WHERE clause.
    conditions
        .into_iter()
        .partition(|expr| sources.is_empty() || (expr.reach() == 0 && available(expr, &|_| false)))
}

#[allow(clippy::too_many_arguments)] // The context of a query, and its clauses.
fn plan_select(
    names: Names<'_>,
    select: &ast::Select,
    order: &[ast::OrderByExpr],
    lock: Option<(LockMode, LockWait)>,
    parent: Option<&Binder<'_>>,
    ctes: &Ctes,
) -> Result<QueryPlan> {
    if select.into.is_some() {
        return Err(SqlError::unsupported("SELECT ... INTO"));
    }
    let mut binder = Binder::new(names);
    binder.parent = parent;
    binder.ctes = ctes.to_vec();
    let (mut sources, conditions, width, straight) = bind_from(&mut binder, select, lock)?;
    binder.aggregate_base = width;
    binder.aggregates_allowed = true;
    binder.place = "field list";
    let (columns, projections) = project(&mut binder, select)?;
    if select.distinct.is_some() {
        projections.iter().try_for_each(|typed| refuse_charset(&typed.expr))?;
    }
    for (column, typed) in columns.iter().zip(&projections) {
        binder.aliases.push((column.name.to_string(), typed.clone()));
    }
    let group = group_by(&mut binder, select, &projections)?;
    binder.place = "having clause";
    let having = select.having.as_ref().map(|e| binder.condition(e)).transpose()?;
    binder.place = "order clause";
    let order = order_by(&mut binder, order, &columns, &projections)?;
    let grouped = !group.is_empty() || !binder.aggregates.borrow().is_empty();
    if grouped && (names.variables)(FULL_GROUP_BY, "").is_some() {
        let group: Vec<Expr> = group.iter().map(|(expr, _)| expr.clone()).collect();
        let check = Grouped {
            tables: &binder.scope.tables,
            sources: &sources,
            conditions: &conditions,
            group: &group,
            width,
            level: Binder::chain(parent).count(),
        };
        check.check_clauses(&projections, having.as_ref(), &order)?;
    }
    let aggregates = binder.aggregates.take();
    let shown = projections.iter().map(|typed| &typed.expr).chain(&having).chain(&conditions);
    let arranged = group.iter().map(|(expr, _)| expr).chain(order.iter().map(|(expr, ..)| expr));
    let asked = shown.chain(arranged).chain(aggregates.iter().flat_map(Aggregate::expressions));
    find_needed(&mut sources, asked);
    let index_only = lock.is_none() && (names.variables)(INDEX_ONLY, "").is_some();
    sources.iter_mut().for_each(|source| source.index_only = index_only);
    let (constant, conditions) = split_constant(conditions, &sources);
    let mut plan = SelectPlan {
        sources: arrange(sources, conditions, straight),
        width,
        constant,
        grouped,
        group,
        aggregates,
        having,
        collations: projections.iter().map(|typed| typed.collation).collect(),
        projections: projections.into_iter().map(|typed| typed.expr).collect(),
        distinct: matches!(select.distinct, Some(Distinct::Distinct)),
        order,
        ordered: false,
        lock,
        direct: None,
    };
    use_index_order(&mut plan);
    push_down(&mut plan);
    Ok(QueryPlan {
        columns,
        body: QueryBody::Select(Box::new(plan)),
        outer_reach: binder.outer_reach.get(),
        correlated: binder.correlated.get(),
        ..empty()
    })
}

/// Binds the number in a LIMIT: digits or a parameter.
pub(crate) fn bind_count(binder: &mut Binder<'_>, expr: &ast::Expr) -> Result<Expr> {
    let plain = match expr {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Number(..) => true,
            ast::Value::Placeholder(name) => name.starts_with(':'),
            _ => false,
        },
        ast::Expr::Identifier(name) if !name.value.starts_with('@') => {
            return Err(undeclared(name));
        }
        ast::Expr::CompoundIdentifier(names) => return Err(undeclared(&names[0])),
        _ => false,
    };
    if !plain {
        return Err(SqlError::syntax(format!("near '{expr}'")));
    }
    binder.bind(expr).map(|bound| bound.expr)
}

/// 1327: a name where only a variable of a stored program may be.
#[cold]
fn undeclared(name: &ast::Ident) -> SqlError {
    SqlError::new(1327, format!("Undeclared variable: {}", name.value))
}
