//! Point queries: queries that read columns of the one row with a given primary key. All columns of
//! the key are integers, texts or bytes.
//!
//! A point query needs no choice of an index and no filter. The executor encodes the key from the
//! statement's constants and parameters, and the row at that key is the result. `session/point`
//! runs point queries.

use std::sync::Arc;

use smallvec::SmallVec;
use spillway::ColumnsRead;
use spillway_base::Csn;
use spillway_types::key::{Lookup, lookup, write_part};
use spillway_types::{ColumnType, Value, ValueRef};

use super::row_sink::{Onward, Projection, TakeRow, TakeStored};
use crate::catalog::{IndexPart, StoredRow, TableDef, Versions, same_stored};
use crate::errors::Result;
use crate::expression::{Expr, Op};
use crate::planner::{Direct, QueryBody, QueryPlan, Source, SourceKind, answered, columns_read};

/// The whole primary key of a row, from values that are known without reading a row.
#[derive(Debug)]
struct PointKey {
    table: Arc<TableDef>,
    /// For each column of the primary key, the constant or parameter, and the kind that its value
    /// must have.
    parts: SmallVec<[(Expr, ComparedKind); 2]>,
}

/// A query that is a single lookup by primary key.
#[derive(Debug)]
pub(crate) struct Point {
    key: PointKey,
    versions: Arc<Versions>,
    columns: Vec<usize>,
    limit: Option<Expr>,
}

/// The value of an expression, if it is known without a row and without a session.
fn known<'v>(expr: &'v Expr, params: &'v [Value]) -> Option<&'v Value> {
    match expr {
        Expr::Const(value) => Some(value),
        Expr::Param(at) => params.get(*at),
        _ => None,
    }
}

fn is_given(expr: &Expr) -> bool {
    matches!(expr, Expr::Const(_) | Expr::Param(_))
}

fn is_same(a: &Expr, b: &Expr) -> bool {
    match (a, b) {
        (Expr::Param(a), Expr::Param(b)) => a == b,
        (Expr::Const(a), Expr::Const(b)) => same_stored(a, b),
        _ => false,
    }
}

/// The kind of the values that a key column is compared with. For such values the lookup is exact:
/// two texts are equal by the column's collation exactly if their key parts have the same bytes, so
/// a text can be written into the key as it is given. A value of another kind may equal several
/// stored values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum ComparedKind {
    Whole,
    Text,
    Bytes,
}

impl ComparedKind {
    fn of(ty: &ColumnType) -> Option<ComparedKind> {
        Some(match ty {
            ColumnType::Int { .. } => ComparedKind::Whole,
            ColumnType::Char(_) | ColumnType::VarChar(_) | ColumnType::Text(_) => {
                ComparedKind::Text
            }
            ColumnType::Binary(_) | ColumnType::VarBinary(_) | ColumnType::Blob(_) => {
                ComparedKind::Bytes
            }
            _ => return None,
        })
    }
}

impl PointKey {
    /// The key of a source's row, if the only condition on the row is that it has this key. The
    /// values that are given for the key must have the kinds of its columns.
    fn of(source: &Source) -> Option<PointKey> {
        let SourceKind::Table(table) = &source.kind else { return None };
        let access = &source.access;
        let by_key = access.point
            && access.index.is_none()
            && access.intervals.is_empty()
            && source.others.is_empty()
            && access.equal.len() == table.primary.len();
        if !by_key || !access.equal.iter().all(is_given) {
            return None;
        }
        let parts = table.primary.iter().zip(&access.equal).map(|(part, value)| {
            let kind = ComparedKind::of(&table.columns[part.column].ty);
            Some((value.clone(), kind.filter(|_| part.prefix.is_none())?))
        });
        let parts = parts.collect::<Option<_>>()?;
        let answered = answered(table, access, source.offset, &source.filters);
        let is_answered = |(at, filter): (usize, &Expr)| {
            answered.contains(&at) || PointKey::is_equality(source, table, filter)
        };
        let answers_all = source.filters.iter().enumerate().all(is_answered);
        answers_all.then(|| PointKey { table: table.clone(), parts })
    }

    /// Whether a condition repeats what the access already implies: that a key column equals a
    /// value by the column's own collation.
    fn is_equality(source: &Source, table: &TableDef, filter: &Expr) -> bool {
        let Expr::Binary(Op::Eq, a, b, collation) = filter else { return false };
        let (slot, value) = match (&**a, &**b) {
            (Expr::Column(slot), value) | (value, Expr::Column(slot)) => (*slot, value),
            _ => return false,
        };
        let is_of = |part: &IndexPart| source.offset + part.column == slot;
        let Some(at) = table.primary.iter().position(is_of) else { return false };
        let column = &table.columns[table.primary[at].column];
        is_same(value, &source.access.equal[at]) && *collation == column.collation
    }

    /// Writes the key. Returns `false` if the row must be found by the general path.
    fn write(&self, params: &[Value], out: &mut Vec<u8>) -> bool {
        for ((expr, kind), part) in self.parts.iter().zip(&self.table.primary) {
            let column = &self.table.columns[part.column];
            let Some(value) = known(expr, params) else { return false };
            let whole;
            let value = match (kind, value) {
                (ComparedKind::Whole, Value::Int(_) | Value::UInt(_)) => {
                    let Lookup::At(kept) = lookup(value, &column.ty) else { return false };
                    whole = kept;
                    whole.as_ref()
                }
                (ComparedKind::Text, Value::Text(_)) | (ComparedKind::Bytes, Value::Bytes(_)) => {
                    value.as_ref()
                }
                (ComparedKind::Bytes, Value::Text(text)) => ValueRef::Bytes(text.as_bytes()),
                _ => return false,
            };
            write_part(&value, &column.ty, column.collation, part.prefix, out);
        }
        true
    }
}

impl Point {
    /// The query as a point query, if it is one for all parameters that have the kinds of the key's
    /// columns.
    pub(crate) fn of(plan: &QueryPlan) -> Option<Point> {
        let QueryBody::Select(select) = &plan.body else { return None };
        let (Some(Direct::Columns(columns)), [source]) = (&select.direct, &select.sources[..])
        else {
            return None;
        };
        let is_one = plan.limit.iter().all(is_given)
            && select.constant.is_empty()
            && !select.ordered
            && plan.offset.is_none()
            && !plan.counted;
        let key = PointKey::of(source).filter(|_| is_one)?;
        Some(Point {
            key,
            versions: source.versions.clone(),
            columns: columns.clone(),
            limit: plan.limit.clone(),
        })
    }

    /// The table of the row.
    pub(crate) fn table(&self) -> &TableDef {
        &self.key.table
    }

    /// The columns that the query reads.
    pub(crate) fn columns_read(&self) -> ColumnsRead {
        columns_read(self.table(), self.columns.iter().copied())
    }

    /// The commit that a snapshot must see to have all rows of the table; zero if every snapshot
    /// has them.
    pub(crate) fn since(&self) -> Csn {
        self.key.table.since
    }

    /// Writes the row's key. Returns `false` if the general path must find the row, or if the limit
    /// is zero.
    pub(crate) fn write_key(&self, params: &[Value], out: &mut Vec<u8>) -> bool {
        let wanted = |limit: &Expr| match known(limit, params) {
            Some(Value::Int(limit)) => *limit > 0,
            Some(Value::UInt(limit)) => *limit > 0,
            _ => false,
        };
        self.limit.as_ref().is_none_or(wanted) && self.key.write(params, out)
    }

    /// Passes the row's columns to `take`, as fields if `fields` is set and no column is a decimal.
    ///
    /// # Errors
    /// 1034 for a damaged row, before any of it was passed on; and the errors of `take`.
    pub(crate) fn give(&self, row: &[u8], fields: bool, take: &mut dyn TakeRow) -> Result<()> {
        let row = StoredRow::new(row, &self.versions)?;
        Projection::new(&self.columns, fields, Onward(take)).take_one(&row, &[]).map(drop)
    }
}
