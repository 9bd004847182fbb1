//! Runs a plan: nested loops over its sources, then groups, order and limit.

use std::cmp::Ordering;

use spillway_types::convert::to_i128;
use spillway_types::{Collation, Field, Value, ValueRef};

use super::aggregate::AggregateState;
use super::index_ranges::{finds_equal, is_too_new};
use super::join::JoinedRows;
use super::pushdown::{is_never, run_direct};
use super::row_sink::{Emit, TakeRow};
use super::sort::{DistinctRows, HeldMemory, KeyMap, Sorter, group_key, group_key_into, order_of};
use crate::errors::{Result, SqlError};
use crate::expression::{Context, Expr, reshape};
use crate::parser::on_enough_stack;
use crate::planner::{
    QueryBody, QueryPlan, Row, SelectPlan, SetOp, Source, SourceKind, note_columns,
};

/// The number in a LIMIT; `None` if there is none.
pub(crate) fn count(context: &Context<'_>, expr: Option<&Expr>) -> Result<Option<u64>> {
    let Some(expr) = expr else { return Ok(None) };
    let value = context.eval(expr, &[])?;
    let whole = !matches!(value, Value::Decimal(_) | Value::Float(_) | Value::Double(_));
    match to_i128(&value.as_ref()).filter(|_| whole) {
        Some(number) if number >= 0 => Ok(Some(u64::try_from(number).unwrap_or(u64::MAX))),
        _ => Err(SqlError::syntax("LIMIT takes a whole number that is not negative")),
    }
}

/// Runs a query.
pub(crate) fn run_query(
    context: &Context<'_>,
    plan: &QueryPlan,
    emit: &mut Emit<'_>,
) -> Result<()> {
    on_enough_stack(|| run_here(context, plan, emit))
}

fn run_here(context: &Context<'_>, plan: &QueryPlan, emit: &mut Emit<'_>) -> Result<()> {
    let limit = count(context, plan.limit.as_ref())?;
    let mut skip = count(context, plan.offset.as_ref())?.unwrap_or(0);
    let mut left = limit.unwrap_or(u64::MAX);
    if left == 0 && !plan.counted {
        return Ok(());
    }
    let most = limit.map(|limit| limit.saturating_add(skip)).filter(|_| !plan.counted);
    let mut limited = |row: &[Value]| {
        if plan.counted {
            context.found.set(context.found.get() + 1);
        }
        if skip > 0 {
            skip -= 1;
            return Ok(true);
        }
        if left == 0 {
            return Ok(true);
        }
        left -= 1;
        Ok((emit(row)? && left > 0) || plan.counted)
    };
    match &plan.body {
        QueryBody::Select(select) => run_select(context, select, most, &mut limited),
        QueryBody::Values(rows) => {
            for row in rows {
                let _kept = context.keep_values();
                let values = row.iter().map(|e| context.eval(e, &[])).collect::<Result<Row>>()?;
                if !limited(&values)? {
                    return Ok(());
                }
            }
            Ok(())
        }
        QueryBody::Set { left, right, op, all } => {
            let (mut rows, _held) = run_set(context, plan, left, right, *op, *all)?;
            if !plan.order.is_empty() {
                rows.sort_by(|a, b| {
                    let keys = plan.order.iter().map(|(expr, asc, collation)| match expr {
                        Expr::Column(at) => order_of(&a[*at], &b[*at], *asc, *collation),
                        _ => Ordering::Equal,
                    });
                    keys.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
                });
            }
            for row in rows {
                if !limited(&row)? {
                    break;
                }
            }
            Ok(())
        }
    }
}

/// Runs a query, and emits references to its values.
pub(crate) fn run_refs(
    context: &Context<'_>,
    plan: &QueryPlan,
    emit: &mut dyn TakeRow,
) -> Result<()> {
    if let QueryBody::Select(select) = &plan.body
        && let Some(direct) = select.direct.as_ref().filter(|_| !plan.counted)
        && (!select.ordered || comes_in_order(context, select)?)
        && direct.is_open(context, select)?
    {
        let left = count(context, plan.limit.as_ref())?.unwrap_or(u64::MAX);
        let skip = count(context, plan.offset.as_ref())?.unwrap_or(0);
        if left == 0 {
            return Ok(());
        }
        if (left, skip) == (u64::MAX, 0) {
            return run_direct(context, select, direct, left, emit);
        }
        let most = left.saturating_add(skip);
        let mut limited = Limited { skip, left, emit };
        return run_direct(context, select, direct, most, &mut limited);
    }
    run_query(context, plan, &mut |row| {
        if let [one] = row {
            return emit.values(&[one.as_ref()]);
        }
        let values: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
        emit.values(&values)
    })
}

/// Passes on the rows that are within a limit.
struct Limited<'e> {
    /// The number of rows that are still to be skipped.
    skip: u64,
    left: u64,
    emit: &'e mut dyn TakeRow,
}

impl Limited<'_> {
    fn take(&mut self, give: impl FnOnce(&mut dyn TakeRow) -> Result<bool>) -> Result<bool> {
        if self.skip > 0 {
            self.skip -= 1;
            return Ok(true);
        }
        self.left -= 1;
        Ok(give(self.emit)? && self.left > 0)
    }
}

impl TakeRow for Limited<'_> {
    fn values(&mut self, values: &[ValueRef<'_>]) -> Result<bool> {
        self.take(|emit| emit.values(values))
    }

    fn fields(&mut self, fields: &[Field<'_>]) -> Result<bool> {
        self.take(|emit| emit.fields(fields))
    }
}

/// At most `most` rows of a query, and their memory charge.
pub(super) fn collect(
    context: &Context<'_>,
    plan: &QueryPlan,
    most: usize,
) -> Result<(Vec<Row>, HeldMemory)> {
    let mut held = HeldMemory::new(context);
    let mut rows = Vec::new();
    run_query(context, plan, &mut |row| {
        held.add(row)?;
        rows.push(row.to_vec());
        Ok(rows.len() < most)
    })?;
    Ok((rows, held))
}

fn run_set(
    context: &Context<'_>,
    plan: &QueryPlan,
    left: &QueryPlan,
    right: &QueryPlan,
    op: SetOp,
    all: bool,
) -> Result<(Vec<Row>, [HeldMemory; 2])> {
    let collations: Vec<Collation> = plan.columns.iter().map(|column| column.collation).collect();
    let (mut rows, held) = collect(context, left, usize::MAX)?;
    let (mut others, mut others_held) = collect(context, right, usize::MAX)?;
    for (rows, side) in [(&mut rows, left), (&mut others, right)] {
        for (at, (from, to)) in side.columns.iter().zip(&plan.columns).enumerate() {
            if from.column_type != to.column_type {
                for row in rows.iter_mut() {
                    row[at] = reshape(&row[at], &from.column_type, &to.column_type);
                }
            }
        }
    }
    match op {
        SetOp::Union => rows.extend(others),
        SetOp::Intersect | SetOp::Except => {
            let mut there: KeyMap<usize> = KeyMap::default();
            for row in others {
                let key = group_key(&row, &collations);
                others_held.add_bytes(key.len())?;
                *there.entry(key).or_default() += 1;
            }
            rows.retain(|row| {
                let found = there.get_mut(&group_key(row, &collations));
                let found = found.is_some_and(|left| {
                    let any = *left > 0;
                    // With ALL, a row of the right side is matched with one equal row of the left
                    // side only.
                    *left = left.saturating_sub(usize::from(all));
                    any
                });
                found == (op == SetOp::Intersect)
            });
        }
    }
    if !all {
        let mut seen = DistinctRows::new(context, collations.clone());
        let mut once = Vec::new();
        for row in rows {
            if seen.insert(row.iter().map(Value::as_ref))? {
                once.push(row);
            }
        }
        rows = once;
    }
    Ok((rows, [held, others_held]))
}

/// Whether the rows of a query are found in the requested order. An index that was chosen for its
/// order provides the order only if the values of the columns before can be looked up; for example,
/// text that is compared with a number is found at several places. An index that is newer than the
/// snapshot is not read at all.
fn comes_in_order(context: &Context<'_>, plan: &SelectPlan) -> Result<bool> {
    let [Source { kind: SourceKind::Table(table), access, .. }] = plan.sources.as_slice() else {
        return Ok(plan.ordered);
    };
    Ok(plan.ordered && !is_too_new(context, table, access) && finds_equal(context, access, table)?)
}

fn run_select(
    context: &Context<'_>,
    plan: &SelectPlan,
    most: Option<u64>,
    emit: &mut Emit<'_>,
) -> Result<()> {
    note_columns(context, plan);
    let mut rows = JoinedRows::new(context, plan);
    let never = is_never(context, plan)?;
    if plan.grouped {
        return run_grouped(context, plan, &mut rows, never, most, emit);
    }
    if never {
        return Ok(());
    }
    let mut output: Row = Vec::with_capacity(plan.projections.len());
    let mut seen = plan.distinct.then(|| DistinctRows::new(context, plan.collations.clone()));
    if plan.order.is_empty() || comes_in_order(context, plan)? {
        return rows.run(&mut |row| {
            output.clear();
            let _kept = context.keep_values();
            for e in &plan.projections {
                output.push(context.eval(e, row)?);
            }
            if let Some(seen) = &mut seen
                && !seen.insert(output.iter().map(Value::as_ref))?
            {
                return Ok(true);
            }
            emit(&output)
        });
    }
    let mut sorter =
        Sorter::new(context, &plan.order, &plan.projections, most.filter(|_| !plan.distinct));
    rows.run(&mut |row| {
        let _kept = context.keep_values();
        let values =
            plan.projections.iter().map(|e| context.eval(e, row)).collect::<Result<Row>>()?;
        if let Some(seen) = &mut seen
            && !seen.insert(values.iter().map(Value::as_ref))?
        {
            return Ok(true);
        }
        sorter.take(context, row, values)?;
        Ok(true)
    })?;
    sorter.finish(emit)
}

type RowGroup = (Row, Vec<AggregateState>);

/// The groups of a query's rows, each with the first of its rows, and the memory charge for them.
fn find_groups(
    context: &Context<'_>,
    plan: &SelectPlan,
    rows: &mut JoinedRows<'_, '_>,
    never: bool,
) -> Result<(Vec<RowGroup>, HeldMemory)> {
    let collations: Vec<Collation> = plan.group.iter().map(|(_, collation)| *collation).collect();
    let fresh = || {
        plan.aggregates.iter().map(|_| AggregateState::default()).collect::<Vec<AggregateState>>()
    };
    let mut places: KeyMap<usize> = KeyMap::default();
    let mut key = Vec::new();
    let mut groups: Vec<RowGroup> = Vec::new();
    let mut held = HeldMemory::new(context);
    if !never {
        rows.run(&mut |row| {
            let at = if plan.group.is_empty() {
                if groups.is_empty() {
                    groups.push((row.to_vec(), fresh()));
                }
                0
            } else {
                let values = plan
                    .group
                    .iter()
                    .map(|(e, _)| context.eval(e, row))
                    .collect::<Result<Row>>()?;
                key.clear();
                group_key_into(values.iter().map(Value::as_ref), &collations, &mut key);
                match places.get(&key) {
                    Some(at) => *at,
                    None => {
                        held.add(row)?;
                        held.add_bytes(
                            key.len() + size_of::<AggregateState>() * plan.aggregates.len(),
                        )?;
                        places.insert(key.clone(), groups.len());
                        groups.push((row.to_vec(), fresh()));
                        groups.len() - 1
                    }
                }
            };
            for (state, aggregate) in groups[at].1.iter_mut().zip(&plan.aggregates) {
                state.add(aggregate, context, row, &mut held)?;
            }
            Ok(true)
        })?;
    }
    if groups.is_empty() && plan.group.is_empty() {
        groups.push((vec![Value::Null; plan.width], fresh()));
    }
    Ok((groups, held))
}

fn run_grouped(
    context: &Context<'_>,
    plan: &SelectPlan,
    rows: &mut JoinedRows<'_, '_>,
    never: bool,
    most: Option<u64>,
    emit: &mut Emit<'_>,
) -> Result<()> {
    let (groups, _held) = find_groups(context, plan, rows, never)?;
    let mut seen = plan.distinct.then(|| DistinctRows::new(context, plan.collations.clone()));
    let mut sorter =
        Sorter::new(context, &plan.order, &plan.projections, most.filter(|_| !plan.distinct));
    for (mut row, states) in groups {
        row.resize(plan.width, Value::Null);
        row.extend(
            states
                .into_iter()
                .zip(&plan.aggregates)
                .map(|(state, aggregate)| state.finish(aggregate, context)),
        );
        if let Some(having) = &plan.having
            && !context.holds(having, &row)?
        {
            continue;
        }
        let _kept = context.keep_values();
        let values =
            plan.projections.iter().map(|e| context.eval(e, &row)).collect::<Result<Row>>()?;
        if let Some(seen) = &mut seen
            && !seen.insert(values.iter().map(Value::as_ref))?
        {
            continue;
        }
        sorter.take(context, &row, values)?;
    }
    sorter.finish(emit)
}
