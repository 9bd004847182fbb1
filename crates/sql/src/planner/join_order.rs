//! Chooses the order in which sources are read, the access to each, and where each condition is
//! checked.

use std::sync::Arc;

use spillway_types::{Collation, ColumnType, key};

use super::access::{Access, Hints, available, choose_access};
use super::query_plan::{SelectPlan, Source, SourceKind};
use crate::catalog::TableDef;
use crate::expression::{Expr, Op};

/// Puts the sources in the order in which they are read, chooses their access, and assigns each
/// condition to the first source at which it can be checked.
pub(crate) fn arrange(
    sources: Vec<Source>,
    mut conditions: Vec<Expr>,
    straight: bool,
) -> Vec<Source> {
    let mut rest = sources;
    let mut placed: Vec<Source> = Vec::new();
    let mut known: Vec<std::ops::Range<usize>> = Vec::new();
    while !rest.is_empty() {
        let mut best: Option<(usize, usize, (Access, Vec<Access>))> = None;
        for (at, source) in rest.iter().enumerate() {
            let filled = |slot: usize| known.iter().any(|range| range.contains(&slot));
            let usable: Vec<Expr> = match &source.outer {
                Some(on) => on.clone(),
                None => conditions.clone(),
            };
            let access = match &source.kind {
                SourceKind::Table(table) => {
                    let served = |expr: &&Expr| index_serves(expr, source, table, &placed);
                    let served: Vec<Expr> = usable.iter().filter(served).cloned().collect();
                    let cover = |index| source.cover(table, index);
                    let (offset, hints) = (source.offset, &source.hints);
                    choose_access(table, offset, &served, hints, &filled, &cover)
                }
                _ => Default::default(),
            };
            let joined = usize::from(usable.iter().any(|expr| joins(expr, source, &filled)));
            let score =
                10 * usize::from(!access.0.is_full()) + 5 * usize::from(access.0.point) + joined;
            if best.as_ref().is_none_or(|(_, most, _)| score > *most) {
                best = Some((at, score, access));
            }
            if straight {
                break;
            }
        }
        let Some((at, _, access)) = best else { break };
        let mut source = rest.remove(at);
        (source.access, source.others) = access;
        if !placed.is_empty() {
            // The access is used for each row of the earlier sources, so rules choose it in
            // advance, and not the data each time.
            source.others.clear();
        }
        known.push(source.offset..source.offset + source.width);
        let filled = |slot: usize| known.iter().any(|range| range.contains(&slot));
        let last = rest.is_empty();
        let (now, later) =
            conditions.into_iter().partition(|expr| last || checkable(expr, &filled));
        source.filters = now;
        conditions = later;
        if source.access.is_full() && !placed.is_empty() {
            let own = source.offset..source.offset + source.width;
            let before = |slot: usize| filled(slot) && !own.contains(&slot);
            let from = source.outer.as_ref().unwrap_or(&source.filters);
            source.hash = from.iter().filter_map(|expr| hash_pair(expr, &own, &before)).collect();
        }
        placed.push(source);
    }
    placed
}

/// Whether an index can find rows by a condition. It cannot if a column is compared with a column
/// whose values the index cannot look up: for each row of the earlier sources, the whole index
/// would be read.
fn index_serves(expr: &Expr, source: &Source, table: &TableDef, placed: &[Source]) -> bool {
    let Expr::Binary(op, a, b, _) = expr else { return true };
    let (Expr::Column(a), Expr::Column(b)) = (&**a, &**b) else { return true };
    let own = |slot: usize| table.columns.get(slot.checked_sub(source.offset)?).map(|c| &c.ty);
    let theirs = |slot: usize| placed.iter().find_map(|source| type_of(source, slot));
    let serves = |ours: usize, other: usize| match (own(ours), theirs(other)) {
        (Some(column), Some(other)) => key::serves(column, other),
        _ => true,
    };
    !op.is_comparison() || (serves(*a, *b) && serves(*b, *a))
}

/// The type of the column in a slot, if the slot belongs to this source and the type is known.
fn type_of(source: &Source, slot: usize) -> Option<&ColumnType> {
    let at = slot.checked_sub(source.offset)?;
    match &source.kind {
        SourceKind::Table(table) => table.columns.get(at).map(|column| &column.ty),
        SourceKind::Derived(plan) => plan.columns.get(at).map(|column| &column.column_type),
        SourceKind::Virtual(_) => None,
    }
}

fn checkable(expr: &Expr, filled: &dyn Fn(usize) -> bool) -> bool {
    let mut all = true;
    expr.walk(&mut |e| match e {
        Expr::Column(slot) => all &= filled(*slot),
        Expr::Subquery { plan, .. } => all &= !plan.is_correlated(),
        _ => {}
    });
    all
}

fn joins(expr: &Expr, source: &Source, filled: &dyn Fn(usize) -> bool) -> bool {
    let own = source.offset..source.offset + source.width;
    hash_pair(expr, &own, filled).is_some()
}

/// The sides of an equality between a source and earlier ones, the source's own side first.
fn hash_pair(
    expr: &Expr,
    own: &std::ops::Range<usize>,
    before: &dyn Fn(usize) -> bool,
) -> Option<(Expr, Expr, Collation)> {
    let Expr::Binary(Op::Eq, a, b, collation) = expr else { return None };
    let inside = |e: &Expr| e.reach() > 0 && available(e, &|slot| own.contains(&slot));
    let outside = |e: &Expr| e.reach() > 0 && available(e, before);
    if inside(a) && outside(b) {
        Some(((**a).clone(), (**b).clone(), *collation))
    } else if inside(b) && outside(a) {
        Some(((**b).clone(), (**a).clone(), *collation))
    } else {
        None
    }
}

/// If an index of the only table provides the order, uses that index and omits the sort.
pub(crate) fn use_index_order(plan: &mut SelectPlan) {
    let [source] = plan.sources.as_mut_slice() else { return };
    if !plan.grouped && !plan.order.is_empty() && !plan.distinct {
        plan.ordered = by_order(source, &plan.order);
    }
}

/// Makes a source be read in the given order, which is not empty, if the table or an index provides
/// it. Returns whether one does.
pub(crate) fn by_order(source: &mut Source, order: &[(Expr, bool, Collation)]) -> bool {
    let SourceKind::Table(table) = &source.kind else { return false };
    if source.access.point && source.access.index.is_none() {
        return true;
    }
    let ascending = order[0].1;
    let slots: Option<Vec<usize>> = order
        .iter()
        .map(|(expr, asc, collation)| {
            let (expr, member) = match expr {
                Expr::Member(e, ColumnType::Enum(_)) => (&**e, true),
                expr => (expr, false),
            };
            let Expr::Column(slot) = expr else { return None };
            let slot = slot.checked_sub(source.offset)?;
            let column = table.columns.get(slot)?;
            // An index orders text by its column's collation, and ENUM values by their numbers.
            let fits = match &column.ty {
                ColumnType::Enum(_) => member,
                ty => !ty.is_text() || *collation == column.collation,
            };
            (fits && *asc == ascending).then_some(slot)
        })
        .collect();
    let Some(slots) = slots else { return false };
    let fits = |access: &Access| {
        let mut parts = access.parts(table).iter().skip(access.equal.len());
        let in_parts = slots.iter().all(|slot| {
            parts.next().is_some_and(|part| part.column == *slot && part.prefix.is_none())
        });
        in_parts && !slots.is_empty()
    };
    let mut access = source.access.clone();
    if !fits(&access) && access.is_full() {
        let indexes = (0..table.indexes.len())
            .filter(|index| source.hints.allow(Some(*index)))
            .map(|index| Access {
                index: Some(index),
                cover: source.cover(table, index),
                ..Access::default()
            });
        let ways = std::iter::once(Access::default()).chain(indexes).filter(fits);
        // The table's own order is best, and a covering index is as good.
        match ways.min_by_key(|access| access.index.is_some() && access.cover.is_none()) {
            Some(found) => access = found,
            None => return false,
        }
    }
    let is_ordered = fits(&access);
    if is_ordered {
        (access.backward, access.ordered) = (!ascending, true);
        source.access = access;
        source.others.clear();
    }
    is_ordered
}

/// Determines which columns of each table these expressions, or the join itself, need.
pub(crate) fn find_needed<'e>(sources: &mut [Source], expressions: impl Iterator<Item = &'e Expr>) {
    let mut used: Vec<usize> = Vec::new();
    let mut all = false;
    {
        let mut note = |expr: &Expr| {
            expr.walk(&mut |e| match e {
                Expr::Column(slot) => used.push(*slot),
                Expr::Subquery { plan, .. } => all |= plan.is_correlated(),
                _ => {}
            });
        };
        expressions.for_each(&mut note);
        sources.iter().flat_map(|source| source.outer.iter().flatten()).for_each(&mut note);
    }
    if all {
        return;
    }
    for source in sources {
        let own = source.offset..source.offset + source.width - 1;
        let mut needed: Vec<usize> = used
            .iter()
            .filter(|slot| own.contains(slot))
            .map(|slot| slot - source.offset)
            .collect();
        needed.sort_unstable();
        needed.dedup();
        source.needed = Some(needed);
    }
}

/// The source for an UPDATE or DELETE of one table, with the conditions that its rows must satisfy.
pub(crate) fn plan_table(
    table: &Arc<TableDef>,
    alias: &str,
    conditions: Vec<Expr>,
    hints: Hints,
) -> Source {
    let (access, others) = choose_access(table, 0, &conditions, &hints, &|_| false, &|_| None);
    Source {
        kind: SourceKind::Table(table.clone()),
        alias: alias.to_owned(),
        offset: 0,
        width: table.columns.len() + 1,
        access,
        others,
        hints,
        outer: None,
        rest: conditions.clone(),
        filters: conditions,
        tests: Vec::new(),
        versions: table.versions.clone(),
        needed: None,
        index_only: false,
        shared: false,
        hash: Vec::new(),
    }
}
