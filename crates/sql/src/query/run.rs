//! Running a plan: nested loops over its sources, then groups, order and limit.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use spillway::{Budget, Direction, KeyRange, LockMode, LockWait};
use spillway_base::budget::{Charge, Use};
use spillway_types::convert::{to_decimal, to_i128};
use spillway_types::value::write_text;
use spillway_types::{Collation, Value, ValueRef, key};

use super::aggregate::State;
use super::steps::Stored;
use super::{Body, QueryPlan, Row, SelectPlan, SetOp, Source, SourceKind, spans, steps};
use crate::catalog::{TableDef, shift_timestamps};
use crate::errors::{Result, SqlError};
use crate::expr::{Context, Expr, compare, reshape};

/// What takes rows; `false` when it wants no more.
type Emit<'e> = dyn FnMut(&[Value]) -> Result<bool> + 'e;

/// NULL comes first, going up.
pub(crate) fn order_of(a: &Value, b: &Value, ascending: bool, collation: Collation) -> Ordering {
    let order = match (a.is_null(), b.is_null()) {
        (true, true) => Ordering::Equal,
        (true, false) => Ordering::Less,
        (false, true) => Ordering::Greater,
        _ => compare(a, b, collation).unwrap_or(Ordering::Equal),
    };
    if ascending { order } else { order.reverse() }
}

/// Bytes that are equal where values are, for grouping and joining.
pub(crate) fn group_key(values: &[Value], collations: &[Collation]) -> Vec<u8> {
    let mut out = Vec::new();
    for (value, collation) in values.iter().zip(collations) {
        let start = out.len();
        match value {
            Value::Null => out.push(0),
            Value::Text(text) => {
                out.push(1);
                collation.sort_key(text.as_bytes(), &mut out);
            }
            Value::Int(_) | Value::UInt(_) | Value::Decimal(_) => {
                out.push(2);
                let number = to_decimal(&value.as_ref()).map(|n| n.to_string()).unwrap_or_default();
                let number = if number.contains('.') {
                    number.trim_end_matches('0').trim_end_matches('.')
                } else {
                    &number
                };
                out.extend_from_slice(number.as_bytes());
            }
            Value::Float(number) => {
                out.push(3);
                out.extend_from_slice(&(f64::from(*number) + 0.0).to_bits().to_be_bytes());
            }
            Value::Double(number) => {
                out.push(3);
                out.extend_from_slice(&(number + 0.0).to_bits().to_be_bytes());
            }
            other => {
                out.push(4);
                write_text(&other.as_ref(), &mut out);
            }
        }
        let len = (out.len() - start) as u32;
        out.extend_from_slice(&len.to_be_bytes());
    }
    out
}

/// Memory that a statement holds rows in.
struct Held {
    charge: Charge,
    bytes: usize,
    budget: Budget,
}

impl Held {
    const STEP: usize = 1 << 20;

    fn new(context: &Context<'_>) -> Held {
        let budget = context.instance.database().budget().clone();
        Held { charge: budget.charge(Use::Connections, 0), bytes: 0, budget }
    }

    fn add(&mut self, row: &[Value]) -> Result<()> {
        let heap: usize = row
            .iter()
            .map(|value| match value {
                Value::Text(text) => text.len(),
                Value::Bytes(bytes) => bytes.len(),
                _ => 0,
            })
            .sum();
        self.bytes += heap + size_of_val(row) + 64;
        if self.bytes > self.charge.bytes() {
            let full = |_| {
                SqlError::new(
                    1038,
                    "Out of sort memory: the statement holds more rows than fit the memory budget",
                )
            };
            drop(
                self.budget
                    .try_charge(Use::Connections, Held::STEP + self.bytes - self.charge.bytes())
                    .map_err(full)?,
            );
            self.charge.resize(self.bytes + Held::STEP);
        }
        Ok(())
    }
}

fn count(context: &Context<'_>, expr: Option<&Expr>) -> Result<Option<u64>> {
    let Some(expr) = expr else { return Ok(None) };
    let value = context.eval(expr, &[])?;
    match to_i128(&value.as_ref()) {
        Some(number) if number >= 0 => Ok(Some(u64::try_from(number).unwrap_or(u64::MAX))),
        _ => Err(SqlError::syntax("LIMIT takes a number that is not negative")),
    }
}

/// Runs a query.
pub(crate) fn run_query(
    context: &Context<'_>,
    plan: &QueryPlan,
    emit: &mut Emit<'_>,
) -> Result<()> {
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
        Body::Select(select) => run_select(context, select, most, &mut limited),
        Body::Values(rows) => {
            for row in rows {
                let values = row.iter().map(|e| context.eval(e, &[])).collect::<Result<Row>>()?;
                if !limited(&values)? {
                    return Ok(());
                }
            }
            Ok(())
        }
        Body::Set { left, right, op, all } => {
            let mut rows = run_set(context, plan, left, right, *op, *all)?;
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

/// Runs a query, and gives its values where they lie.
pub(crate) fn run_refs(
    context: &Context<'_>,
    plan: &QueryPlan,
    emit: &mut steps::EmitRefs<'_>,
) -> Result<()> {
    if let Body::Select(select) = &plan.body
        && let Some(direct) = select.direct.as_ref().filter(|_| !plan.counted)
    {
        let mut left = count(context, plan.limit.as_ref())?.unwrap_or(u64::MAX);
        let mut skip = count(context, plan.offset.as_ref())?.unwrap_or(0);
        if left == 0 {
            return Ok(());
        }
        return steps::run_direct(context, select, direct, &mut |values| {
            if skip > 0 {
                skip -= 1;
                return Ok(true);
            }
            left -= 1;
            Ok(emit(values)? && left > 0)
        });
    }
    run_query(context, plan, &mut |row| {
        if let [one] = row {
            return emit(&[one.as_ref()]);
        }
        let values: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
        emit(&values)
    })
}

fn collect(context: &Context<'_>, plan: &QueryPlan) -> Result<Vec<Row>> {
    let mut held = Held::new(context);
    let mut rows = Vec::new();
    run_query(context, plan, &mut |row| {
        held.add(row)?;
        rows.push(row.to_vec());
        Ok(true)
    })?;
    Ok(rows)
}

fn run_set(
    context: &Context<'_>,
    plan: &QueryPlan,
    left: &QueryPlan,
    right: &QueryPlan,
    op: SetOp,
    all: bool,
) -> Result<Vec<Row>> {
    let collations: Vec<Collation> = plan.columns.iter().map(|column| column.collation).collect();
    let mut rows = collect(context, left)?;
    let mut others = collect(context, right)?;
    for (rows, side) in [(&mut rows, left), (&mut others, right)] {
        for (at, (from, to)) in side.columns.iter().zip(&plan.columns).enumerate() {
            if from.column_type != to.column_type {
                for row in rows.iter_mut() {
                    row[at] = reshape(&row[at], &from.column_type, &to.column_type);
                }
            }
        }
    }
    let key = |row: &Row| group_key(row, &collations);
    match op {
        SetOp::Union => rows.extend(others),
        SetOp::Intersect | SetOp::Except => {
            let there: HashSet<Vec<u8>> = others.iter().map(key).collect();
            rows.retain(|row| there.contains(&key(row)) == (op == SetOp::Intersect));
        }
    }
    if !all {
        let mut seen = HashSet::new();
        rows.retain(|row| seen.insert(key(row)));
    }
    Ok(rows)
}

/// The rows of a subquery, for a row of the query around it.
pub(crate) fn subquery_rows(
    context: &Context<'_>,
    plan: &QueryPlan,
    row: &[Value],
) -> Result<Rc<Vec<Row>>> {
    if !plan.correlated
        && let Some(rows) = context.cached.borrow().get(&plan.id)
    {
        return Ok(rows.clone());
    }
    context.outer.borrow_mut().push(row.to_vec());
    let rows = collect(context, plan);
    context.outer.borrow_mut().pop();
    let rows = Rc::new(rows?);
    if !plan.correlated {
        context.cached.borrow_mut().insert(plan.id, rows.clone());
    }
    Ok(rows)
}

fn run_select(
    context: &Context<'_>,
    plan: &SelectPlan,
    most: Option<u64>,
    emit: &mut Emit<'_>,
) -> Result<()> {
    let mut rows =
        Rows { context, plan, kept: plan.sources.iter().map(|_| None).collect(), lock: plan.lock };
    let never = {
        let checks = plan.constant.iter().map(|e| context.holds(e, &[]));
        checks.collect::<Result<Vec<bool>>>()?.contains(&false)
    };
    if plan.grouped {
        return run_grouped(context, plan, &mut rows, never, most, emit);
    }
    if never {
        return Ok(());
    }
    let mut output: Row = Vec::with_capacity(plan.projections.len());
    let mut seen: Option<HashSet<Vec<u8>>> = plan.distinct.then(HashSet::new);
    if plan.order.is_empty() || plan.ordered {
        return rows.run(&mut |row| {
            output.clear();
            for e in &plan.projections {
                output.push(context.eval(e, row)?);
            }
            if let Some(seen) = &mut seen
                && !seen.insert(distinct_key(plan, &output))
            {
                return Ok(true);
            }
            emit(&output)
        });
    }
    let mut sorter =
        Sorter::new(context, &plan.order, &plan.projections, most.filter(|_| !plan.distinct));
    rows.run(&mut |row| {
        let values =
            plan.projections.iter().map(|e| context.eval(e, row)).collect::<Result<Row>>()?;
        if let Some(seen) = &mut seen
            && !seen.insert(distinct_key(plan, &values))
        {
            return Ok(true);
        }
        sorter.take(context, row, values)?;
        Ok(true)
    })?;
    sorter.finish(emit)
}

fn distinct_key(plan: &SelectPlan, values: &[Value]) -> Vec<u8> {
    group_key(values, &plan.collations)
}

/// Sorts rows, keeping only the first so many where that is enough.
struct Sorter<'c> {
    order: &'c [(Expr, bool, Collation)],
    /// Where the keys stand among the values, if all of them do; no others are kept then.
    among: Option<Vec<usize>>,
    most: Option<usize>,
    rows: Vec<(Row, Row)>,
    held: Held,
}

impl<'c> Sorter<'c> {
    fn new(
        context: &Context<'_>,
        order: &'c [(Expr, bool, Collation)],
        projections: &[Expr],
        most: Option<u64>,
    ) -> Sorter<'c> {
        let most = most.and_then(|most| usize::try_from(most).ok());
        let place = |expr: &Expr| {
            let Expr::Column(slot) = expr else { return None };
            projections.iter().position(|e| matches!(e, Expr::Column(other) if other == slot))
        };
        let among = order.iter().map(|(expr, ..)| place(expr)).collect();
        Sorter { order, among, most, rows: Vec::new(), held: Held::new(context) }
    }

    /// Takes a row; its keys are made from `row` where they are not among its values.
    fn take(&mut self, context: &Context<'_>, row: &[Value], values: Row) -> Result<()> {
        let keys = match &self.among {
            Some(_) => Row::new(),
            None => {
                self.order.iter().map(|(e, ..)| context.eval(e, row)).collect::<Result<Row>>()?
            }
        };
        self.add(keys, values)
    }

    fn add(&mut self, keys: Row, values: Row) -> Result<()> {
        self.held.add(&keys)?;
        self.held.add(&values)?;
        self.rows.push((keys, values));
        if let Some(most) = self.most
            && self.rows.len() >= most.saturating_mul(2).max(1024)
        {
            self.sort();
            self.rows.truncate(most);
            self.held.bytes = 0;
        }
        Ok(())
    }

    fn sort(&mut self) {
        let (order, among) = (self.order, &self.among);
        self.rows.sort_by(|(a, a_values), (b, b_values)| {
            for (at, (_, asc, collation)) in order.iter().enumerate() {
                let (a, b) = match among {
                    Some(places) => (&a_values[places[at]], &b_values[places[at]]),
                    None => (&a[at], &b[at]),
                };
                let order = order_of(a, b, *asc, *collation);
                if order.is_ne() {
                    return order;
                }
            }
            Ordering::Equal
        });
    }

    fn finish(mut self, emit: &mut Emit<'_>) -> Result<()> {
        self.sort();
        for (_, values) in self.rows {
            if !emit(&values)? {
                break;
            }
        }
        Ok(())
    }
}

fn run_grouped(
    context: &Context<'_>,
    plan: &SelectPlan,
    rows: &mut Rows<'_, '_>,
    never: bool,
    most: Option<u64>,
    emit: &mut Emit<'_>,
) -> Result<()> {
    let collations: Vec<Collation> = plan.group.iter().map(|(_, collation)| *collation).collect();
    let fresh = || plan.aggregates.iter().map(|_| State::default()).collect::<Vec<State>>();
    let mut places: HashMap<Vec<u8>, usize> = HashMap::new();
    let mut groups: Vec<(Row, Vec<State>)> = Vec::new();
    let mut held = Held::new(context);
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
                let key = group_key(&values, &collations);
                match places.get(&key) {
                    Some(at) => *at,
                    None => {
                        held.add(row)?;
                        places.insert(key, groups.len());
                        groups.push((row.to_vec(), fresh()));
                        groups.len() - 1
                    }
                }
            };
            for (state, aggregate) in groups[at].1.iter_mut().zip(&plan.aggregates) {
                state.add(aggregate, context, row)?;
            }
            Ok(true)
        })?;
    }
    if groups.is_empty() && plan.group.is_empty() {
        groups.push((vec![Value::Null; plan.width], fresh()));
    }
    let mut seen: Option<HashSet<Vec<u8>>> = plan.distinct.then(HashSet::new);
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
        let values =
            plan.projections.iter().map(|e| context.eval(e, &row)).collect::<Result<Row>>()?;
        if let Some(seen) = &mut seen
            && !seen.insert(distinct_key(plan, &values))
        {
            continue;
        }
        sorter.take(context, &row, values)?;
    }
    sorter.finish(emit)
}

/// Rows of a source that was read whole, found again by the sides of its equalities.
struct Kept {
    rows: Vec<Row>,
    by_hash: HashMap<Vec<u8>, Vec<usize>>,
    /// For each equality, the classes of the values that its side has here.
    classes: Vec<u8>,
}

struct Rows<'c, 'p> {
    context: &'c Context<'c>,
    plan: &'p SelectPlan,
    kept: Vec<Option<Rc<Kept>>>,
    lock: Option<(LockMode, LockWait)>,
}

impl Rows<'_, '_> {
    fn run(&mut self, emit: &mut Emit<'_>) -> Result<()> {
        if self.plan.having.is_some() && !self.plan.grouped {
            let (context, plan) = (self.context, self.plan);
            let mut row = vec![Value::Null; plan.width];
            return self
                .level(0, &mut row, &mut |row| match &plan.having {
                    Some(having) if !context.holds(having, row)? => Ok(true),
                    _ => emit(row),
                })
                .map(drop);
        }
        let mut row = vec![Value::Null; self.plan.width];
        self.level(0, &mut row, emit).map(drop)
    }

    /// Joins the source at this level, and those after it. `false` when nobody wants more.
    fn level(&mut self, level: usize, row: &mut Row, emit: &mut Emit<'_>) -> Result<bool> {
        let Some(source) = self.plan.sources.get(level) else { return emit(row) };
        self.context.check_killed()?;
        let (context, lock) = (self.context, self.lock);
        let mut matched = false;
        let mut more = true;
        if level > 0 && (source.access.is_full() || !matches!(source.kind, SourceKind::Table(_))) {
            let kept = self.keep(level)?;
            let found: Option<Vec<usize>> = if source.hash.is_empty() {
                None
            } else {
                let (mut values, mut collations) = (Vec::new(), Vec::new());
                for (_, theirs, collation) in &source.hash {
                    values.push(self.context.eval(theirs, row)?);
                    collations.push(*collation);
                }
                let alike =
                    |(value, classes): (&Value, &u8)| hash_class(value) & classes == *classes;
                if values.iter().any(Value::is_null) {
                    Some(Vec::new())
                } else if !values.iter().zip(&kept.classes).all(alike) {
                    // Values of different classes may be equal with different bytes.
                    None
                } else {
                    Some(
                        kept.by_hash
                            .get(&hash_key(&values, &collations))
                            .cloned()
                            .unwrap_or_default(),
                    )
                }
            };
            let indexes: Box<dyn Iterator<Item = usize>> = match found {
                Some(found) => Box::new(found.into_iter()),
                None => Box::new(0..kept.rows.len()),
            };
            for index in indexes {
                row[source.offset..source.offset + source.width]
                    .clone_from_slice(&kept.rows[index]);
                if !self.accept(source, row, &mut matched)? {
                    continue;
                }
                more = self.level(level + 1, row, emit)?;
                if !more {
                    break;
                }
            }
        } else {
            let mut inner = |row: &mut Row| -> Result<bool> {
                if !self.accept(source, row, &mut matched)? {
                    return Ok(true);
                }
                more = self.level(level + 1, row, emit)?;
                Ok(more)
            };
            read_source(context, source, row, lock, &mut inner)?;
        }
        if more && !matched && source.outer.is_some() {
            row[source.offset..source.offset + source.width].fill(Value::Null);
            if passes(self.context, self.filters(source), row)? {
                more = self.level(level + 1, row, emit)?;
            }
        }
        Ok(more)
    }

    fn accept(&self, source: &Source, row: &Row, matched: &mut bool) -> Result<bool> {
        if let Some(on) = &source.outer {
            if !passes(self.context, on, row)? {
                return Ok(false);
            }
            *matched = true;
        }
        passes(self.context, self.filters(source), row)
    }

    /// What is left to check once a row was read.
    fn filters<'s>(&self, source: &'s Source) -> &'s [Expr] {
        if self.lock.is_none() { &source.rest } else { &source.filters }
    }

    /// Reads a source whole, once.
    fn keep(&mut self, level: usize) -> Result<Rc<Kept>> {
        if let Some(kept) = &self.kept[level] {
            return Ok(kept.clone());
        }
        let source = &self.plan.sources[level];
        let own = source.offset..source.offset + source.width;
        let mut held = Held::new(self.context);
        let (mut rows, mut by_hash) = (Vec::new(), HashMap::<Vec<u8>, Vec<usize>>::new());
        let mut classes = vec![0; source.hash.len()];
        let mut row = vec![Value::Null; self.plan.width];
        let context = self.context;
        read_source(context, source, &mut row, self.lock, &mut |row| {
            held.add(&row[own.clone()])?;
            if !source.hash.is_empty() {
                let (mut values, mut collations) = (Vec::new(), Vec::new());
                for (ours, _, collation) in &source.hash {
                    values.push(context.eval(ours, row)?);
                    collations.push(*collation);
                }
                values.iter().zip(&mut classes).for_each(|(value, all)| *all |= hash_class(value));
                by_hash.entry(hash_key(&values, &collations)).or_default().push(rows.len());
            }
            rows.push(row[own.clone()].to_vec());
            Ok(true)
        })?;
        let kept = Rc::new(Kept { rows, by_hash, classes });
        self.kept[level] = Some(kept.clone());
        Ok(kept)
    }
}

/// Classes of values; within one, values are equal where their [`group_key`] is.
fn hash_class(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Int(_) | Value::UInt(_) | Value::Decimal(_) => 1,
        Value::Float(_) | Value::Double(_) => 2,
        Value::Text(_) => 4,
        Value::Bytes(_) => 8,
        Value::Date(_) | Value::DateTime(_) => 16,
        Value::Time(_) => 32,
    }
}

/// The bytes by which rows are found again: a date is the same as its midnight.
fn hash_key(values: &[Value], collations: &[Collation]) -> Vec<u8> {
    let plain: Vec<Value> = values
        .iter()
        .map(|value| match value {
            Value::Date(_) => spillway_types::convert::to_datetime(&value.as_ref())
                .map_or(Value::Null, Value::DateTime),
            other => other.clone(),
        })
        .collect();
    group_key(&plain, collations)
}

fn passes(context: &Context<'_>, filters: &[Expr], row: &[Value]) -> Result<bool> {
    for filter in filters {
        if !context.holds(filter, row)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// What takes a source's rows, in its slots of a wider row.
type Take<'e> = dyn FnMut(&mut Row) -> Result<bool> + 'e;

/// Reads a source's rows into its slots.
fn read_source(
    context: &Context<'_>,
    source: &Source,
    row: &mut Row,
    lock: Option<(LockMode, LockWait)>,
    take: &mut Take<'_>,
) -> Result<()> {
    match &source.kind {
        SourceKind::Table(table) => scan_table(context, source, table, row, lock, take),
        SourceKind::Derived(plan) => {
            let rows = subquery_rows(context, plan, row)?;
            for derived in rows.iter() {
                row[source.offset..source.offset + derived.len()].clone_from_slice(derived);
                if !take(row)? {
                    break;
                }
            }
            Ok(())
        }
        SourceKind::Virtual(name) => {
            let rows = crate::show::virtual_rows(
                context.instance,
                context.catalog,
                context.variables,
                name,
            );
            for values in rows {
                for (slot, value) in values.into_iter().enumerate() {
                    row[source.offset + slot] = value;
                }
                if !take(row)? {
                    break;
                }
            }
            Ok(())
        }
    }
}

/// Reads a table's rows into the source's slots; the last slot has the row's key.
///
/// A locking read locks each row that the conditions hold for, reads it anew, and checks them again. Where the whole primary
/// key is given it locks before it reads anything, so that the statement's snapshot is never older than the row (DESIGN,
/// D12).
pub(crate) fn scan_table(
    context: &Context<'_>,
    source: &Source,
    table: &TableDef,
    row: &mut Row,
    lock: Option<(LockMode, LockWait)>,
    take: &mut Take<'_>,
) -> Result<()> {
    let (access, spans) = spans::choose(context, source, table, row)?;
    if lock.is_none() {
        let mut fetched = Fetched { context, source, table, lock };
        return steps::scan_stored(context, source, table, (access, &spans), &mut |stored, key| {
            fetched.read(stored, key, row)?;
            take(row)
        });
    }
    let txn = context.txn;
    let mut stored = Vec::new();
    let whole_key = access.index.is_none() && access.point;
    let mut fetched = Fetched { context, source, table, lock };
    let count = spans.len();
    for at in 0..count {
        let span = &spans[if access.backward { count - 1 - at } else { at }];
        if whole_key && exact_point(table, &span.start) {
            let found = match lock {
                Some((mode, wait)) => {
                    txn.get_locked(table.rows(), &span.start, mode, wait, &mut stored)?
                }
                None => txn.get(table.rows(), &span.start, &mut stored)?,
            };
            if found {
                fetched.decode(&stored, &span.start, row)?;
                if !take(row)? {
                    return Ok(());
                }
            }
            continue;
        }
        let range = KeyRange::new(&span.start, span.end.as_deref());
        if range.is_empty() {
            continue;
        }
        let direction = if access.backward { Direction::Backward } else { Direction::Forward };
        let space = match access.index {
            None => table.rows(),
            Some(index) => spillway_base::TableId(table.indexes[index].space),
        };
        let mut scan = txn.scan(space, range, direction)?;
        let mut seen = 0_u32;
        while scan.advance()? {
            seen = seen.wrapping_add(1);
            if seen.is_multiple_of(256) {
                context.check_killed()?;
            }
            let key = match access.index {
                None => scan.key(),
                Some(index) => {
                    let key = row_key(table, index, scan.key())?;
                    if !txn.get(table.rows(), key, &mut stored)? {
                        // The entry is of a row that this snapshot does not see.
                        continue;
                    }
                    key
                }
            };
            let value = if access.index.is_none() { scan.value() } else { &stored };
            fetched.decode(value, key, row)?;
            if !fetched.lock(key, row)? {
                continue;
            }
            if !take(row)? {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Whether a key has all parts of the primary key, and nothing was left to check.
pub(super) fn exact_point(table: &TableDef, key: &[u8]) -> bool {
    let mut at = 0;
    for part in &table.primary {
        match key.get(at..).and_then(|rest| key::part_len(rest, &table.columns[part.column].ty)) {
            Some(len) => at += len,
            None => return false,
        }
    }
    at == key.len() && at > 0
}

/// The primary key at the end of an index's key.
pub(super) fn row_key<'k>(table: &TableDef, index: usize, key: &'k [u8]) -> Result<&'k [u8]> {
    let mut rest = key;
    for part in &table.indexes[index].parts {
        let len = key::part_len(rest, &table.columns[part.column].ty)
            .ok_or("an index key makes no sense")?;
        rest = rest.get(len..).ok_or("an index key makes no sense")?;
    }
    Ok(rest)
}

struct Fetched<'a> {
    context: &'a Context<'a>,
    source: &'a Source,
    table: &'a TableDef,
    lock: Option<(LockMode, LockWait)>,
}

impl Fetched<'_> {
    fn decode(&mut self, bytes: &[u8], key: &[u8], row: &mut Row) -> Result<()> {
        self.read(&Stored::new(bytes, self.source)?, key, row)
    }

    /// Copies the columns that are asked for into the source's slots.
    fn read(&mut self, stored: &Stored<'_>, key: &[u8], row: &mut Row) -> Result<()> {
        let offset = self.source.offset;
        let mut column = |at: usize| -> Result<()> {
            row[offset + at] = stored.get(at)?.to_owned();
            Ok(())
        };
        match &self.source.needed {
            Some(needed) => needed.iter().try_for_each(|at| column(*at))?,
            None => {
                (0..self.table.columns.len()).try_for_each(column)?;
                row[offset + self.source.width - 1] = Value::Bytes(key.to_vec());
            }
        }
        let shift = self.context.variables.borrow().time_offset_micros;
        shift_timestamps(self.table, &mut row[offset..offset + self.source.width - 1], shift);
        Ok(())
    }

    /// Locks a row that the conditions hold for, and reads it anew; `false` when it is not one any more.
    fn lock(&mut self, key: &[u8], row: &mut Row) -> Result<bool> {
        let Some((mode, wait)) = self.lock else { return Ok(true) };
        let own = self.source.offset..self.source.offset + self.source.width;
        let local = |expr: &&Expr| crate::expr::within(expr, &own);
        let hold = |row: &Row| -> Result<bool> {
            for filter in self.source.filters.iter().filter(local) {
                if !self.context.holds(filter, row)? {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        if !hold(row)? {
            return Ok(true);
        }
        let mut newest = Vec::new();
        if !self.context.txn.get_locked(self.table.rows(), key, mode, wait, &mut newest)? {
            return Ok(false);
        }
        self.decode(&newest, key, row)?;
        Ok(true)
    }
}
