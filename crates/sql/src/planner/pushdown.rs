//! Plans conditions, projections and totals that run over stored rows (`executor/pushdown` runs
//! them).
//!
//! A condition that compares columns of one stored table with constants or parameters becomes a
//! [`Test`], which reads the columns in place and copies nothing. If all conditions of a query of
//! one table become tests, and the query returns unchanged columns or totals of columns, it runs
//! entirely over stored rows: a row goes from storage to the client's packet without being decoded
//! into values. In other queries the tests filter rows, and the general executor processes the rows
//! that pass.

use spillway_types::ColumnType;

use super::access::answered;
use super::aggregate::AggregateKind;
use super::min_max::ends;
use super::query_plan::{Direct, Gathering, OrderColumn, SelectPlan, Source, SourceKind, Test};
use crate::catalog::TableDef;
use crate::expression::{Expr, Op, row_parts};

/// Converts a condition to a test, if possible.
fn test_of(expr: &Expr, table: &TableDef, offset: usize) -> Option<Test> {
    let column = |expr: &Expr| match expr {
        Expr::Column(slot) => {
            slot.checked_sub(offset).filter(|column| *column < table.columns.len())
        }
        _ => None,
    };
    // Whether a column's stored value is what is compared. For ENUM, SET and BIT that depends on
    // the other side, and for TIMESTAMP on the session's time zone, which is not known here.
    let plain = |column: usize| {
        !matches!(
            table.columns[column].ty,
            ColumnType::Enum(_)
                | ColumnType::Set(_)
                | ColumnType::Bit(_)
                | ColumnType::Json
                | ColumnType::Timestamp(_)
        )
    };
    let fixed = |expr: &Expr| {
        let expr = if let Expr::Fitted(inner, _) = expr { inner } else { expr };
        matches!(expr, Expr::Const(_) | Expr::Param(_))
    };
    match expr {
        Expr::Binary(Op::And, a, b, _) => {
            Some(Test::All(vec![test_of(a, table, offset)?, test_of(b, table, offset)?]))
        }
        Expr::Binary(Op::Or, a, b, _) => {
            Some(Test::Any(vec![test_of(a, table, offset)?, test_of(b, table, offset)?]))
        }
        Expr::Binary(op, a, b, collation) if op.is_comparison() && *op != Op::NullEq => {
            let (column, op, value) = match (column(a), column(b)) {
                (Some(column), None) if fixed(b) => (column, *op, &**b),
                (None, Some(column)) if fixed(a) => (column, op.mirrored(), &**a),
                _ => return None,
            };
            plain(column).then(|| Test::Compare {
                column,
                op,
                value: value.clone(),
                collation: *collation,
            })
        }
        Expr::In(left, list) => {
            let column = |part: &Expr| column(part).filter(|column| plain(*column));
            let columns = row_parts(left).iter().map(column).collect::<Option<_>>()?;
            list.values().all(fixed).then(|| Test::In { columns, list: list.clone() })
        }
        Expr::IsNull(e) => Some(Test::Null { column: column(e)?, is: true }),
        Expr::Not(e) => match &**e {
            Expr::IsNull(e) => Some(Test::Null { column: column(e)?, is: false }),
            e => test_of(e, table, offset).map(|test| Test::Not(Box::new(test))),
        },
        _ => None,
    }
}

/// Splits the conditions of a source into tests and other conditions. If the source is `alone`,
/// also determines the tests that its accesses imply.
fn split(source: &mut Source, alone: bool) {
    let SourceKind::Table(table) = &source.kind else {
        source.rest.clone_from(&source.filters);
        return;
    };
    source.versions = table.versions.clone();
    if source.outer.is_some() {
        // These conditions also apply to the row of NULLs that stands for a missing row.
        source.rest.clone_from(&source.filters);
        return;
    }
    let mut tested = Vec::new();
    for (at, filter) in source.filters.iter().enumerate() {
        match test_of(filter, table, source.offset) {
            Some(test) => {
                tested.push(at);
                source.tests.push(test);
            }
            None => source.rest.push(filter.clone()),
        }
    }
    if alone {
        for access in std::iter::once(&mut source.access).chain(&mut source.others) {
            let filters = answered(table, access, source.offset, &source.filters);
            let test_of = |filter: &usize| tested.iter().position(|at| at == filter);
            access.answered = filters.iter().filter_map(test_of).collect();
        }
    }
}

/// Makes conditions of a query's sources run as tests over stored rows, and also the rest of the
/// query if possible.
pub(crate) fn push_down(plan: &mut SelectPlan) {
    let alone = plan.sources.len() == 1;
    plan.sources.iter_mut().for_each(|source| split(source, alone));
    plan.direct = direct(plan);
}

/// How the query runs directly over stored rows, if it can.
fn direct(plan: &SelectPlan) -> Option<Direct> {
    let [source] = plan.sources.as_slice() else { return None };
    let SourceKind::Table(table) = &source.kind else { return None };
    if !source.rest.is_empty() || source.outer.is_some() || plan.lock.is_some() {
        return None;
    }
    let column = |expr: &Expr| match expr {
        Expr::Column(slot) => {
            slot.checked_sub(source.offset).filter(|column| *column < table.columns.len())
        }
        _ => None,
    };
    if plan.having.is_some() {
        return None;
    }
    if !plan.grouped {
        let columns = plan.projections.iter().map(column).collect::<Option<Vec<usize>>>()?;
        // A TIMESTAMP must be converted to the session's time zone before it is shown.
        let shifted = |at: &usize| matches!(table.columns[*at].ty, ColumnType::Timestamp(_));
        if columns.iter().any(shifted) {
            return None;
        }
        let sorted = plan.order.is_empty() || plan.ordered;
        if sorted && !plan.distinct {
            return Some(Direct::Columns(columns));
        }
        return gathering(plan, table, columns, sorted, column).map(Direct::Gathered);
    }
    if plan.distinct {
        return None;
    }
    // Projections may use totals only: a column would need a row, and no row is kept.
    let totals_alone = |expr: &Expr| {
        let mut alone = true;
        expr.walk(&mut |e| match e {
            Expr::Column(slot) => alone &= *slot >= plan.width,
            Expr::Subquery { .. } => alone = false,
            _ => {}
        });
        alone
    };
    if !plan.group.is_empty()
        || !plan.order.is_empty()
        || !plan.projections.iter().all(totals_alone)
    {
        return None;
    }
    if let Some(ends) = ends(plan, source, table) {
        return Some(Direct::Ends(ends));
    }
    totals(plan, table, column).map(Direct::Totals)
}

/// The columns that a query's aggregates count or sum, if they do nothing else. `None` in place of
/// a column counts rows.
fn totals(
    plan: &SelectPlan,
    table: &TableDef,
    column: impl Fn(&Expr) -> Option<usize>,
) -> Option<Vec<Option<usize>>> {
    plan.aggregates
        .iter()
        .map(|aggregate| {
            use AggregateKind as K;
            if aggregate.distinct || !matches!(aggregate.kind, K::Count | K::Sum) {
                return None;
            }
            match aggregate.args.as_slice() {
                [Expr::Column(_)] => {
                    let at = column(&aggregate.args[0])?;
                    let whole = matches!(table.columns[at].ty, ColumnType::Int { .. });
                    if aggregate.kind == K::Count && !table.columns[at].nullable {
                        return Some(None);
                    }
                    (aggregate.kind == K::Count || whole).then_some(Some(at))
                }
                [Expr::Const(value)] if !value.is_null() && aggregate.kind == K::Count => {
                    Some(None)
                }
                [] if aggregate.kind == K::Count => Some(None),
                _ => None,
            }
        })
        .collect::<Option<Vec<_>>>()
}

/// How the rows of these columns are ordered and made distinct, if they must be.
fn gathering(
    plan: &SelectPlan,
    table: &TableDef,
    mut columns: Vec<usize>,
    sorted: bool,
    column: impl Fn(&Expr) -> Option<usize>,
) -> Option<Gathering> {
    // Values of other types are compared by more than their stored form.
    let plain = |at: &usize| {
        !matches!(
            table.columns[*at].ty,
            ColumnType::Enum(_)
                | ColumnType::Set(_)
                | ColumnType::Bit(_)
                | ColumnType::Json
                | ColumnType::Timestamp(_)
        )
    };
    let shown = columns.len();
    if plan.distinct && !columns.iter().all(plain) {
        return None;
    }
    let mut order = Vec::new();
    for (expr, ascending, collation) in plan.order.iter().filter(|_| !sorted) {
        let at = column(expr).filter(plain)?;
        let place = columns.iter().position(|other| *other == at).unwrap_or_else(|| {
            columns.push(at);
            columns.len() - 1
        });
        order.push(OrderColumn { place, ascending: *ascending, collation: *collation });
    }
    let once = plan.distinct.then(|| plan.collations.clone());
    Some(Gathering { columns, shown, order, once })
}
