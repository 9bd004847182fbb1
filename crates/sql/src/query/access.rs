//! How the rows of a table are found: whole, or through the index that narrows them the most.
//!
//! Conditions that an index serves are checked on the rows all the same, so a range may be wider than they say, and
//! never narrower.

use spillway_types::Collation;

use crate::catalog::{IndexPart, TableDef};
use crate::expr::{Expr, Op};

/// A way to a table's rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Access {
    /// The index; the rows themselves, in order of the primary key, where it is `None`.
    pub(crate) index: Option<usize>,
    /// Values of its first columns.
    pub(crate) equal: Vec<Expr>,
    /// One of these, for the next column.
    pub(crate) any: Option<Vec<Expr>>,
    /// Bounds of the next column, and whether they are included.
    pub(crate) low: Option<(Expr, bool)>,
    pub(crate) high: Option<(Expr, bool)>,
    pub(crate) backward: bool,
    /// Whether at most one row can be found.
    pub(crate) point: bool,
}

impl Access {
    /// Whether every row is read.
    pub(crate) fn is_full(&self) -> bool {
        self.equal.is_empty() && self.any.is_none() && self.low.is_none() && self.high.is_none()
    }

    pub(crate) fn parts<'t>(&self, table: &'t TableDef) -> &'t [IndexPart] {
        match self.index {
            None => &table.primary,
            Some(index) => &table.indexes[index].parts,
        }
    }

    /// How EXPLAIN calls it.
    pub(crate) fn name(&self, table: &TableDef) -> &'static str {
        match (self.point, self.is_full(), self.index) {
            (true, ..) => "const",
            (_, true, None) => "ALL",
            (_, true, Some(_)) => "index",
            _ if self.any.is_some() || self.low.is_some() || self.high.is_some() => "range",
            (_, _, Some(index)) if table.indexes[index].unique => "eq_ref",
            _ => "ref",
        }
    }

    fn score(&self) -> usize {
        let narrow = |bound: &Option<_>| usize::from(bound.is_some());
        usize::from(self.point) * 10_000
            + self.equal.len() * 100
            + usize::from(self.any.is_some()) * 60
            + (narrow(&self.low) + narrow(&self.high)) * 20
            + usize::from(self.index.is_none()) * 5
    }
}

/// Whether an expression can be evaluated when the slots that `known` says are filled.
pub(crate) fn available(expr: &Expr, known: &dyn Fn(usize) -> bool) -> bool {
    let mut all = true;
    expr.walk(&mut |e| match e {
        Expr::Column(slot) => all &= known(*slot),
        Expr::Subquery { .. } | Expr::Assign(..) => all = false,
        Expr::Call(call, _) if call.is_volatile() => all = false,
        _ => {}
    });
    all
}

/// A condition on one column.
struct Condition<'e> {
    op: Op,
    values: Vec<&'e Expr>,
    collation: Collation,
}

fn condition<'e>(
    expr: &'e Expr,
    slot: usize,
    known: &dyn Fn(usize) -> bool,
) -> Option<Condition<'e>> {
    match expr {
        Expr::Binary(op, a, b, collation) if op.is_comparison() && *op != Op::NotEq => {
            let (op, value) = match (&**a, &**b) {
                (Expr::Column(at), value) if *at == slot && available(value, known) => (*op, value),
                (value, Expr::Column(at)) if *at == slot && available(value, known) => {
                    (op.mirrored(), value)
                }
                _ => return None,
            };
            if matches!(value, Expr::Tuple(_)) {
                return None;
            }
            Some(Condition { op, values: vec![value], collation: *collation })
        }
        Expr::In(left, list, collation) => {
            let Expr::Column(at) = &**left else { return None };
            let all = list.iter().all(|e| !matches!(e, Expr::Tuple(_)) && available(e, known));
            (*at == slot && all).then(|| Condition {
                op: Op::Eq,
                values: list.iter().collect(),
                collation: *collation,
            })
        }
        Expr::IsNull(e) => match &**e {
            Expr::Column(at) if *at == slot => {
                Some(Condition { op: Op::NullEq, values: Vec::new(), collation: Collation::Binary })
            }
            _ => None,
        },
        _ => None,
    }
}

/// The best way to a table's rows, for conditions that all hold of them.
pub(crate) fn choose_access(
    table: &TableDef,
    offset: usize,
    conditions: &[Expr],
    known: &dyn Fn(usize) -> bool,
) -> Access {
    let mut best = Access::default();
    let candidates = std::iter::once(None).chain((0..table.indexes.len()).map(Some));
    for index in candidates {
        let access = index_access(table, index, offset, conditions, known);
        if access.score() > best.score() && !access.is_full() {
            best = access;
        }
    }
    best
}

fn index_access(
    table: &TableDef,
    index: Option<usize>,
    offset: usize,
    conditions: &[Expr],
    known: &dyn Fn(usize) -> bool,
) -> Access {
    let mut access = Access { index, ..Access::default() };
    let parts = access.parts(table);
    let null = Expr::Const(spillway_types::Value::Null);
    for part in parts {
        if part.prefix.is_some() {
            break;
        }
        let column = &table.columns[part.column];
        let found: Vec<Condition<'_>> = conditions
            .iter()
            .filter_map(|expr| condition(expr, offset + part.column, known))
            .collect();
        let fits = |condition: &&Condition<'_>, range: bool| {
            !column.ty.is_text()
                || condition.collation == column.collation
                || (!range && column.collation == Collation::GeneralCi)
        };
        if let Some(equal) = found
            .iter()
            .find(|c| matches!(c.op, Op::Eq | Op::NullEq) && c.values.len() <= 1 && fits(c, false))
        {
            // IS NULL and `<=> NULL` look up NULL; `= NULL` finds nothing, which the row check sees to.
            access.equal.push(equal.values.first().map_or(null.clone(), |value| (*value).clone()));
            continue;
        }
        if let Some(any) =
            found.iter().find(|c| c.op == Op::Eq && c.values.len() > 1 && fits(c, false))
        {
            access.any = Some(any.values.iter().map(|value| (*value).clone()).collect());
            break;
        }
        if matches!(column.ty, spillway_types::ColumnType::Enum(_)) {
            break;
        }
        for bound in found.iter().filter(|c| fits(c, true) && c.values.len() == 1) {
            let value = bound.values[0].clone();
            match bound.op {
                Op::Gt | Op::GtEq if access.low.is_none() => {
                    access.low = Some((value, bound.op == Op::GtEq))
                }
                Op::Lt | Op::LtEq if access.high.is_none() => {
                    access.high = Some((value, bound.op == Op::LtEq))
                }
                _ => {}
            }
        }
        break;
    }
    let unique = index.is_none_or(|index| table.indexes[index].unique);
    access.point =
        unique && !parts.is_empty() && access.equal.len() == parts.len() && access.any.is_none();
    access
}
