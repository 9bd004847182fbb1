//! The access to a table's rows: a full scan, or the most selective index.
//!
//! An access derives ranges of keys from conditions. The ranges may contain more rows than satisfy
//! the conditions, but never fewer. So the executor also checks the conditions on the rows, unless
//! the ranges are exact. The planner marks the conditions that exact ranges imply ([`answered`]).
//! Once the values in these conditions are known, the executor determines whether the ranges are
//! exact (`Spans::exact`). Ranges can be exact only if all values are integers or NULL.

use std::sync::Arc;

use smallvec::SmallVec;
use spillway_types::{Collation, ColumnType, Value};

use sqlparser::ast;

use crate::catalog::{ColumnDef, Cover, IndexPart, TableDef};
use crate::errors::{Result, SqlError};
use crate::expression::{Expr, List, Op, row_parts};

/// An access path to a table's rows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Access {
    /// The index; `None` means the rows themselves, in the order of the primary key.
    pub(crate) index: Option<usize>,
    /// The values that the index's first columns must equal. NULL finds the rows with NULL.
    pub(crate) equal: Vec<Expr>,
    /// The intervals of the next column, or of the next few columns: a row must be in one of them.
    /// If there are none, these columns are not restricted.
    pub(crate) intervals: Vec<Interval>,
    pub(crate) backward: bool,
    /// Whether the query relies on the order of the access.
    pub(crate) ordered: bool,
    /// Whether the access finds at most one row.
    pub(crate) point: bool,
    /// The source's tests that the equalities and intervals imply. They need not be checked on the
    /// rows if the values can be looked up exactly.
    pub(crate) answered: Vec<usize>,
    /// How the index's entries provide all columns that the query reads. `None` if the rows are
    /// read.
    pub(crate) cover: Option<Cover>,
}

/// An end of an interval, and whether the interval includes it.
pub(crate) type Bound = (Expr, bool);

/// Values of an index's column, or of several consecutive columns.
#[derive(Clone, Debug)]
pub(crate) enum Interval {
    /// The columns equal an item of a list. The numbers say which part of an item each column, in
    /// order, must equal.
    Listed(Arc<List>, SmallVec<[usize; 2]>),
    /// Equal to a value. If the value is NULL, the interval is empty.
    Point(Expr),
    /// Equal to a value, or both are NULL.
    Same(Expr),
    /// Between bounds, and not NULL.
    Range { low: Option<Bound>, high: Option<Bound> },
}

impl Interval {
    /// The values of the interval's bounds or points.
    fn values(&self) -> impl Iterator<Item = &Expr> {
        let (one, other, list) = match self {
            Interval::Listed(list, _) => (None, None, Some(list.values())),
            Interval::Point(value) | Interval::Same(value) => (Some(value), None, None),
            Interval::Range { low, high } => {
                (low.as_ref().map(|(low, _)| low), high.as_ref().map(|(high, _)| high), None)
            }
        };
        one.into_iter().chain(other).chain(list.into_iter().flatten())
    }

    /// The most key ranges that the interval can become.
    pub(crate) fn count(&self) -> usize {
        if let Interval::Listed(list, _) = self { list.items().len() } else { 1 }
    }

    /// The number of columns that the interval restricts.
    fn width(&self) -> usize {
        if let Interval::Listed(_, parts) = self { parts.len() } else { 1 }
    }

    fn is_closed(&self) -> bool {
        !matches!(self, Interval::Range { low: None, .. } | Interval::Range { high: None, .. })
    }

    fn is_point(&self) -> bool {
        !matches!(self, Interval::Range { .. })
    }
}

impl Access {
    /// Whether the access's values are known without function calls and without other queries
    /// ([`Expr::is_plain`]).
    pub(crate) fn is_plain(&self) -> bool {
        let values = self.intervals.iter().flat_map(Interval::values);
        self.equal.iter().chain(values).all(Expr::is_plain)
    }
}

/// All rows, in the order of the table.
pub(crate) static WHOLE: Access = Access {
    index: None,
    equal: Vec::new(),
    intervals: Vec::new(),
    backward: false,
    ordered: false,
    point: false,
    answered: Vec::new(),
    cover: None,
};

impl Access {
    /// Whether the access reads every row.
    pub(crate) fn is_full(&self) -> bool {
        self.equal.is_empty() && self.intervals.is_empty()
    }

    /// The values by which the access finds its rows.
    pub(crate) fn values(&self) -> impl Iterator<Item = &Expr> {
        self.equal.iter().chain(self.intervals.iter().flat_map(Interval::values))
    }

    pub(crate) fn parts<'t>(&self, table: &'t TableDef) -> &'t [IndexPart] {
        match self.index {
            None => &table.primary,
            Some(index) => &table.indexes[index].parts,
        }
    }

    /// Whether the access looks up the items of a list.
    fn has_list(&self) -> bool {
        self.intervals.iter().any(|interval| matches!(interval, Interval::Listed(..)))
    }

    /// The access type that EXPLAIN shows.
    pub(crate) fn name(&self, table: &TableDef) -> &'static str {
        match (self.point, self.is_full(), self.index) {
            (true, ..) => "const",
            (_, true, None) => "ALL",
            (_, true, Some(_)) => "index",
            _ if !self.intervals.is_empty() => "range",
            (_, _, Some(index)) if table.indexes[index].unique => "eq_ref",
            _ => "ref",
        }
    }

    /// An estimate of how selective the access is, without knowledge of the data.
    fn score(&self) -> usize {
        let last = match self.intervals.as_slice() {
            [] => 0,
            all if all.iter().all(Interval::is_point) => 60,
            all if all.iter().all(Interval::is_closed) => 40,
            _ => 20,
        };
        usize::from(self.point) * 10_000
            + self.equal.len() * 100
            + last
            + usize::from(self.index.is_none()) * 5
    }
}

/// Whether an expression can be evaluated once the slots that `known` accepts are filled.
pub(crate) fn available(expr: &Expr, known: &dyn Fn(usize) -> bool) -> bool {
    let mut all = true;
    expr.walk(&mut |e| match e {
        Expr::Column(slot) => all &= known(*slot),
        Expr::Subquery { .. } | Expr::Assign(..) => all = false,
        Expr::Call(call, ..) if call.is_volatile() => all = false,
        _ => {}
    });
    all
}

/// A column of an index, for finding the conditions that restrict the column.
struct SoughtColumn<'t> {
    column: &'t ColumnDef,
    slot: usize,
    known: &'t dyn Fn(usize) -> bool,
}

/// With this many points or more, a scan of the whole table is considered as well.
const POINTS_MANY: usize = 64;

impl SoughtColumn<'_> {
    fn is(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Column(slot) => *slot == self.slot,
            Expr::Collated(text) => self.is(text),
            _ => false,
        }
    }

    fn value(&self, expr: &Expr) -> bool {
        !matches!(expr, Expr::Tuple(_)) && available(expr, self.known)
    }

    /// Whether the index can serve comparisons by a collation. If the collation distinguishes more
    /// values than the column's own, the index finds all equal values, and others, too.
    fn fits(&self, collation: Collation, range: bool) -> bool {
        !self.column.ty.is_text()
            || collation == self.column.collation
            || (!range && self.column.collation.is_coarser_than(collation))
    }

    /// The intervals in which the column must be if a condition holds; `None` if the condition does
    /// not restrict the column.
    fn intervals(&self, expr: &Expr) -> Option<Vec<Interval>> {
        match expr {
            Expr::Binary(Op::Or, a, b, _) => {
                let mut all = self.intervals(a)?;
                all.extend(self.intervals(b)?);
                Some(all)
            }
            Expr::Binary(Op::And, ..) => {
                let mut parts = Vec::new();
                expr.clone().conjuncts(&mut parts);
                self.narrowest(parts.iter()).map(|found| found.intervals)
            }
            Expr::Binary(op, a, b, collation) if op.is_comparison() && *op != Op::NotEq => {
                let (op, value) = if self.is(a) && self.value(b) {
                    (*op, &**b)
                } else if self.is(b) && self.value(a) {
                    (op.mirrored(), &**a)
                } else {
                    return None;
                };
                self.comparison(op, value, *collation).map(|interval| vec![interval])
            }
            Expr::In(left, list) if self.is(left) => {
                let fits = self.fits(list.collations()[0], false);
                (fits && list.items().iter().all(|e| self.value(e))).then(|| {
                    let parts = smallvec::smallvec![0];
                    match list.items() {
                        [only] => vec![Interval::Point(only.clone())],
                        _ => vec![Interval::Listed(list.clone(), parts)],
                    }
                })
            }
            Expr::IsNull(e) if self.is(e) => Some(vec![Interval::Same(Expr::Const(Value::Null))]),
            _ => None,
        }
    }

    fn comparison(&self, op: Op, value: &Expr, collation: Collation) -> Option<Interval> {
        let range = !matches!(op, Op::Eq | Op::NullEq);
        // The key of an ENUM is a member's number, but ranges do not compare numbers.
        if !self.fits(collation, range) || (range && matches!(self.column.ty, ColumnType::Enum(_)))
        {
            return None;
        }
        let bound = |included: bool| Some((value.clone(), included));
        Some(match op {
            Op::NullEq => Interval::Same(value.clone()),
            Op::Eq => Interval::Point(value.clone()),
            Op::Lt | Op::LtEq => Interval::Range { low: None, high: bound(op == Op::LtEq) },
            _ => Interval::Range { low: bound(op == Op::GtEq), high: None },
        })
    }

    /// The narrowest intervals for a conjunction of conditions: preferably one point, then several
    /// points, then a range, whose bounds may come from different conditions.
    fn narrowest<'e>(&self, conditions: impl Iterator<Item = &'e Expr>) -> Option<Narrowest> {
        let mut best: Option<Narrowest> = None;
        let (mut low, mut high) = (None, None);
        let mut from = Vec::new();
        let found = conditions.enumerate();
        for (at, found) in found.filter_map(|(at, expr)| Some((at, self.intervals(expr)?))) {
            if let [Interval::Range { low: l, high: h }] = found.as_slice() {
                // A second bound for the same end is not used.
                if !(l.is_some() && low.is_some() || h.is_some() && high.is_some()) {
                    from.push(at);
                }
                low = low.or_else(|| l.clone());
                high = high.or_else(|| h.clone());
                continue;
            }
            let rank = |all: &[Interval]| (!all.iter().all(Interval::is_point), count(all));
            if best.as_ref().is_none_or(|best| rank(&found) < rank(&best.intervals)) {
                best = Some(Narrowest { intervals: found, from: vec![at] });
            }
        }
        if low.is_some() || high.is_some() {
            let closed = low.is_some() && high.is_some();
            let intervals = vec![Interval::Range { low, high }];
            match &best {
                Some(best) if !closed || best.intervals.iter().all(Interval::is_point) => {}
                _ => best = Some(Narrowest { intervals, from }),
            }
        }
        best
    }

    /// Whether a condition holds exactly for the values in its intervals.
    fn is_all(&self, expr: &Expr) -> bool {
        match expr {
            Expr::Binary(Op::Or, a, b, _) => self.is_all(a) && self.is_all(b),
            Expr::Binary(Op::And, ..) => {
                let mut parts = Vec::new();
                expr.clone().conjuncts(&mut parts);
                let found = self.narrowest(parts.iter());
                found.is_some_and(|found| found.from.len() == parts.len())
                    && parts.iter().all(|part| self.is_all(part))
            }
            other => self.intervals(other).is_some(),
        }
    }
}

/// The most key ranges that these intervals can become.
fn count(intervals: &[Interval]) -> usize {
    intervals.iter().map(Interval::count).sum()
}

/// The restriction of a column by a conjunction of conditions.
struct Narrowest {
    intervals: Vec<Interval>,
    /// The conditions from which the intervals come. Each of them is used completely.
    from: Vec<usize>,
}

impl Narrowest {
    /// Whether this restricts the next column of an index more than a list of rows restricts that
    /// column and the following ones.
    fn is_better_than(&self, rows: &Interval) -> bool {
        match self.intervals.as_slice() {
            [Interval::Point(_) | Interval::Same(_)] => true,
            points if points.iter().all(Interval::is_point) && rows.width() == 1 => {
                count(points) <= rows.count()
            }
            _ => false,
        }
    }
}

/// The indexes that a table's hints allow. `None` stands for the primary key.
#[derive(Clone, Default, Debug)]
pub(crate) struct Hints {
    barred: Vec<Option<usize>>,
    /// Whether a scan of the full table is allowed only if no index can be used.
    forced: bool,
}

impl Hints {
    /// Interprets USE, FORCE and IGNORE INDEX.
    ///
    /// # Errors
    /// 1176 for an index that the table does not have; 1235 for a hint about sorting or grouping
    /// alone.
    pub(crate) fn new(table: &TableDef, hints: &[ast::TableIndexHints]) -> Result<Hints> {
        let mut found = Hints::default();
        let mut used: Option<Vec<Option<usize>>> = None;
        for hint in hints {
            if hint.for_clause.as_ref().is_some_and(|of| of.to_string() != "JOIN") {
                return Err(SqlError::unsupported(hint));
            }
            let named = hint.index_names.iter().map(|name| {
                if name.value.eq_ignore_ascii_case("primary") && !table.primary.is_empty() {
                    return Ok(None);
                }
                let unknown = || {
                    let text =
                        format!("Key '{}' doesn't exist in table '{}'", name.value, table.name);
                    SqlError::new(1176, text)
                };
                table.index(&name.value).map(Some).ok_or_else(unknown)
            });
            let named = named.collect::<Result<Vec<Option<usize>>>>()?;
            match hint.hint_type {
                ast::TableIndexHintType::Ignore => found.barred.extend(named),
                ast::TableIndexHintType::Use => used.get_or_insert_default().extend(named),
                ast::TableIndexHintType::Force => {
                    found.forced = true;
                    used.get_or_insert_default().extend(named);
                }
            }
        }
        if let Some(used) = used {
            let all = std::iter::once(None).chain((0..table.indexes.len()).map(Some));
            found.barred.extend(all.filter(|index| !used.contains(index)));
        }
        Ok(found)
    }

    /// Whether an index may be used.
    pub(crate) fn allow(&self, index: Option<usize>) -> bool {
        !self.barred.contains(&index)
    }
}

/// The access to all rows: the table itself, or, of the indexes that cover the query, the one with
/// the shortest entries.
pub(crate) fn whole(
    table: &TableDef,
    hints: &Hints,
    cover: &dyn Fn(usize) -> Option<Cover>,
) -> Access {
    let indexes = (0..table.indexes.len()).filter(|index| hints.allow(Some(*index)));
    let covering = indexes.filter_map(|index| Some((index, cover(index)?)));
    let shortest = covering.min_by_key(|(index, _)| crate::catalog::entry_bytes(table, *index));
    match shortest {
        Some((index, cover))
            if crate::catalog::entry_bytes(table, index) < crate::catalog::row_bytes(table) =>
        {
            Access { index: Some(index), cover: Some(cover), ..Access::default() }
        }
        _ => Access::default(),
    }
}

/// The accesses to the rows of a table that satisfy a conjunction of conditions, the one that seems
/// best first. There are others only if the data must decide which is better. `cover` returns how
/// an index covers the query, if it does.
pub(crate) fn choose_access(
    table: &TableDef,
    offset: usize,
    conditions: &[Expr],
    hints: &Hints,
    known: &dyn Fn(usize) -> bool,
    cover: &dyn Fn(usize) -> Option<Cover>,
) -> (Access, Vec<Access>) {
    let mut found: Vec<Access> = std::iter::once(None)
        .chain((0..table.indexes.len()).map(Some))
        .filter(|index| hints.allow(*index))
        .map(|index| index_access(table, index, offset, conditions, known))
        .filter(|access| !access.is_full())
        .map(|access| Access { cover: access.index.and_then(cover), ..access })
        .collect();
    found.sort_by_key(|access| std::cmp::Reverse((access.score(), access.cover.is_some())));
    let mut found = found.into_iter();
    let Some(best) = found.next() else { return (whole(table, hints, cover), Vec::new()) };
    if best.point || best.index.is_none() && best.intervals.is_empty() {
        return (best, Vec::new());
    }
    let points =
        best.intervals.iter().all(Interval::is_point) && count(&best.intervals) < POINTS_MANY;
    // A covering index reads no row in vain, but looking up many items may find few rows.
    let dear = best.cover.is_none() && (best.index.is_some() || best.has_list());
    let whole = (dear && !points && !hints.forced).then(|| whole(table, hints, cover));
    let others = found.filter(|access| best.equal.is_empty() || !access.equal.is_empty());
    let others = others.chain(whole).collect();
    (best, others)
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
    // A unique index may have several rows with NULL.
    let mut nulls = false;
    for part in parts {
        if part.prefix.is_some() {
            break;
        }
        let target =
            SoughtColumn { column: &table.columns[part.column], slot: offset + part.column, known };
        let found = target.narrowest(conditions.iter());
        let rest = &parts[access.equal.len()..];
        if let Some(rows) = listed_rows(table, rest, offset, conditions, known)
            && found.as_ref().is_none_or(|found| !found.is_better_than(&rows))
        {
            access.intervals = vec![rows];
            break;
        }
        let Some(found) = found else { break };
        match <[Interval; 1]>::try_from(found.intervals) {
            Ok([Interval::Point(value)]) => access.equal.push(value),
            Ok([Interval::Same(value)]) => {
                nulls = true;
                access.equal.push(value);
            }
            Ok(range) => {
                access.intervals = range.into();
                break;
            }
            Err(several) => {
                access.intervals = several;
                break;
            }
        }
    }
    let unique = index.is_none_or(|index| table.indexes[index].unique);
    access.point = unique && !nulls && !parts.is_empty() && access.equal.len() == parts.len();
    access
}

/// The rows of values that a list gives for the first columns of an index, for as many columns as
/// possible.
fn listed_rows(
    table: &TableDef,
    parts: &[IndexPart],
    offset: usize,
    conditions: &[Expr],
    known: &dyn Fn(usize) -> bool,
) -> Option<Interval> {
    let listed = |condition: &Expr| {
        let Expr::In(left, list) = condition else { return None };
        let left = row_parts(left);
        let place = |part: &IndexPart| {
            let column = &table.columns[part.column];
            let target = SoughtColumn { column, slot: offset + part.column, known };
            let at = left.iter().position(|e| target.is(e))?;
            let fits = part.prefix.is_none()
                && target.fits(list.collations()[at], false)
                && list.items().iter().all(|item| target.value(&row_parts(item)[at]));
            fits.then_some(at)
        };
        let places: SmallVec<[usize; 2]> = parts.iter().map_while(place).collect();
        (left.len() > 1 && !places.is_empty()).then(|| Interval::Listed(list.clone(), places))
    };
    let found = conditions.iter().filter_map(listed);
    found.max_by_key(|rows| (rows.width(), std::cmp::Reverse(rows.count())))
}

/// The conditions of a source that an access implies if its values can be looked up exactly: those
/// from which its equalities and intervals come. The source must be the only one, because this
/// function derives the restrictions again.
pub(crate) fn answered(
    table: &TableDef,
    access: &Access,
    offset: usize,
    conditions: &[Expr],
) -> Vec<usize> {
    let mut answered = Vec::new();
    let is_of_rows = |interval: &Interval| match interval {
        Interval::Listed(list, _) => list.collations().len() > 1,
        _ => false,
    };
    // The list may have rows of which only some columns are looked up, so its condition must be
    // checked.
    let one = !access.intervals.is_empty() && !access.intervals.iter().any(is_of_rows);
    let looked_up = access.equal.len() + usize::from(one);
    for part in &access.parts(table)[..looked_up] {
        let column = &table.columns[part.column];
        if !matches!(column.ty, ColumnType::Int { .. }) {
            // Comparisons of these types do not always agree with the index's order.
            continue;
        }
        let target = SoughtColumn { column, slot: offset + part.column, known: &|_| false };
        let Some(found) = target.narrowest(conditions.iter()) else { continue };
        answered.extend(found.from.into_iter().filter(|at| target.is_all(&conditions[*at])));
    }
    answered
}
