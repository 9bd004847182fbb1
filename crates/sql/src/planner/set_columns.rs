//! The result columns of set operations, such as UNION.

use spillway_types::column::IntWidth;
use spillway_types::{Collation, ColumnType, Value};

use super::query_plan::{QueryBody, QueryPlan};
use crate::api::{ColumnFlags, ResultColumn};
use crate::errors::{Result, SqlError};
use crate::expression::{Expr, Typed, common_collation, merge_types};

/// A column of a set operation, from the columns of its two sides.
///
/// # Errors
/// 1235 if one side is a time and the other a date.
pub(super) fn set_column(left: &QueryPlan, right: &QueryPlan, at: usize) -> Result<ResultColumn> {
    let (a, b) = (&left.columns[at], &right.columns[at]);
    let [mut x, mut y] = [left, right].map(|side| typed(side, at));
    if x.ty.is_text() != y.ty.is_text()
        && let Ok(collation) = common_collation(&[&x, &y])
    {
        x = x.bytes_as_text(collation)?;
        y = y.bytes_as_text(collation)?;
    }
    let span = |column: &ResultColumn| matches!(column.column_type, ColumnType::Time(_));
    let ty = merge_types([&x, &y].into_iter());
    if span(a) != span(b) && matches!(ty, ColumnType::DateTime(_)) {
        return Err(SqlError::unsupported("set operations of times and dates"));
    }
    let ty = if ty.is_binary() { filled(left, right, at).unwrap_or(ty) } else { ty };
    let flags =
        ColumnFlags { not_null: a.flags.not_null && b.flags.not_null, ..ColumnFlags::default() };
    // One column decides if the other is no text, or if the two have no common collation.
    let text = |column: &&ResultColumn| column.column_type.is_text();
    let first = [a, b].into_iter().find(text).map(|column| column.collation);
    let common = match [a, b].iter().all(text) {
        true => common_collation(&[&x, &y]).ok(),
        false => None,
    };
    let collation = common.or(first).unwrap_or(Collation::GeneralCi);
    let collation = if ty.is_text() { collation } else { Collation::Binary };
    Ok(ResultColumn { column_type: ty, collation, flags, ..a.clone() })
}

fn typed(plan: &QueryPlan, at: usize) -> Typed {
    let column = &plan.columns[at];
    let expr = match &plan.body {
        QueryBody::Select(select) => select.projections[at].clone(),
        _ => Expr::Column(0),
    };
    Typed {
        expr,
        ty: column.column_type.clone(),
        collation: column.collation,
        nullable: !column.flags.not_null,
    }
}

/// BINARY of the longer side's length, if one side has a fixed length and the other has one, too,
/// or is a number, a date or a member. Shorter values are filled with zeros. `None` for other
/// columns.
fn filled(left: &QueryPlan, right: &QueryPlan, at: usize) -> Option<ColumnType> {
    let is_fixed = |plan: &QueryPlan| {
        matches!(plan.columns[at].column_type, ColumnType::Binary(_) | ColumnType::Char(_))
    };
    if !is_fixed(left) && !is_fixed(right) {
        return None;
    }
    let len = bytes_most(left, at)?.max(bytes_most(right, at)?);
    (1..=255).contains(&len).then_some(ColumnType::Binary(len))
}

/// The most bytes of a column's values as text. `None` if the values have no such bound, or if it
/// is not known, as for expressions.
fn bytes_most(plan: &QueryPlan, at: usize) -> Option<u32> {
    let column = &plan.columns[at];
    if let QueryBody::Select(select) = &plan.body {
        match &select.projections[at] {
            Expr::Const(Value::Null) => return Some(0),
            Expr::Const(Value::Text(_) | Value::Bytes(_)) => return None,
            Expr::Const(value) => return u32::try_from(value.to_text().len()).ok(),
            Expr::Column(_) if !column.schema.is_empty() => {}
            _ => return None,
        }
    }
    let characters = |count: usize| u32::try_from(count * 4).ok();
    let fraction = |digits: u8| if digits == 0 { 0 } else { u32::from(digits) + 1 };
    match &column.column_type {
        ColumnType::Binary(len) => Some(*len),
        ColumnType::Char(len) => characters(*len as usize),
        ColumnType::Int { width, unsigned, .. } => {
            let (signed, digits) = match width {
                IntWidth::Tiny => (4, 3),
                IntWidth::Small => (6, 5),
                IntWidth::Medium => (9, 8),
                IntWidth::Normal => (11, 10),
                IntWidth::Big => (20, 20),
            };
            Some(if *unsigned { digits } else { signed })
        }
        ColumnType::Decimal { precision, scale, unsigned } => {
            Some(u32::from(*precision) + u32::from(*scale > 0) + u32::from(!unsigned))
        }
        ColumnType::Float => Some(12),
        ColumnType::Double => Some(22),
        ColumnType::Year => Some(4),
        ColumnType::Date => Some(10),
        ColumnType::Time(digits) => Some(10 + fraction(*digits)),
        ColumnType::DateTime(digits) | ColumnType::Timestamp(digits) => {
            Some(19 + fraction(*digits))
        }
        ColumnType::Enum(names) => {
            characters(names.iter().map(|name| name.chars().count()).max().unwrap_or(0))
        }
        ColumnType::Set(names) => {
            let letters: usize = names.iter().map(|name| name.chars().count()).sum();
            characters(letters + names.len().saturating_sub(1))
        }
        _ => None,
    }
}
