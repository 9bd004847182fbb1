//! Plans to read MIN and MAX at the ends of indexes, and not all rows (`executor/min_max` reads
//! them).

use spillway_types::ColumnType;
use spillway_types::key;

use super::access::{Access, Interval};
use super::aggregate::AggregateKind;
use super::query_plan::{MinMaxAccess, MinMaxAccesses, SelectPlan, Source};
use crate::catalog::TableDef;
use crate::expression::Expr;

/// The accesses to the ends of indexes that answer a query, if it consists only of MIN and MAX of
/// one table's columns and indexes provide all of them.
pub(crate) fn ends(plan: &SelectPlan, source: &Source, table: &TableDef) -> Option<MinMaxAccesses> {
    if !source.index_only || plan.aggregates.is_empty() {
        return None;
    }
    let end = |aggregate: &super::aggregate::Aggregate| {
        let backward = match aggregate.kind {
            AggregateKind::Min => false,
            AggregateKind::Max => true,
            _ => return None,
        };
        let [Expr::Column(slot)] = aggregate.args.as_slice() else { return None };
        let column = slot.checked_sub(source.offset).filter(|at| *at < table.columns.len())?;
        let of = &table.columns[column];
        // The index must show the exact value: of several values that are equal but not identical,
        // it might show any. Members are compared by name and not by number, and a TIMESTAMP is
        // shown in a time zone.
        let told = key::is_exact(&of.ty, of.collation, None)
            && !matches!(of.ty, ColumnType::Enum(_) | ColumnType::Timestamp(_));
        if !told {
            return None;
        }
        let mut access = in_order_of(source, table, column)?;
        access.backward = backward;
        if access.intervals.is_empty() {
            // MIN and MAX skip NULL.
            access.intervals.push(Interval::Range { low: None, high: None });
        }
        Some(MinMaxAccess { access, column })
    };
    plan.aggregates.iter().map(end).collect::<Option<Vec<_>>>().map(MinMaxAccesses)
}

/// An access that finds the source's rows in the order of a column, and not many rows that do not
/// satisfy the conditions.
fn in_order_of(source: &Source, table: &TableDef, column: usize) -> Option<Access> {
    let fits = |access: &Access| {
        let part = access.parts(table).get(access.equal.len());
        part.is_some_and(|part| part.column == column && part.prefix.is_none())
    };
    if fits(&source.access) && !source.access.point {
        let equal = &source.access.parts(table)[..source.access.equal.len()];
        let mut served = true;
        source.filters.iter().for_each(|filter| {
            filter.walk(&mut |e| {
                if let Expr::Column(slot) = e {
                    let at = slot.wrapping_sub(source.offset);
                    served &= at == column || equal.iter().any(|part| part.column == at);
                }
            });
        });
        return served.then(|| source.access.clone());
    }
    if !source.filters.is_empty() {
        return None;
    }
    let by_index =
        (0..table.indexes.len()).filter(|index| source.hints.allow(Some(*index))).map(|index| {
            Access { index: Some(index), cover: source.cover(table, index), ..Access::default() }
        });
    let ways = std::iter::once(Access::default()).chain(by_index).filter(fits);
    ways.min_by_key(|access| access.index.is_some() && access.cover.is_none())
}
