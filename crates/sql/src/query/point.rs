//! The one row that has a primary key of whole numbers, and queries that read columns of it.
//!
//! Who asks for such a row has nothing to choose and nothing to test: its key is written from the statement's parameters, and what is found there
//! is the row. Queries are run by `session/point`, changes by `dml/point`.

use std::sync::Arc;

use smallvec::SmallVec;
use spillway_base::Csn;
use spillway_types::key::{Lookup, lookup, write_part};
use spillway_types::{ColumnType, Value};

use super::access::answered;
use super::take::{Onward, Projection, TakeRow, TakeStored};
use super::{Body, Direct, QueryPlan, Source, SourceKind};
use crate::catalog::{IndexPart, TableDef};
use crate::errors::Result;
use crate::expr::Expr;
use crate::rows::{Stored, Versions};

/// The whole primary key of a row, of whole numbers that are known without another row.
#[derive(Debug)]
pub(crate) struct PointKey {
    table: Arc<TableDef>,
    /// Of the primary key's columns: constants and parameters.
    parts: SmallVec<[Expr; 2]>,
}

/// A query that is one look-up.
#[derive(Debug)]
pub(crate) struct Point {
    key: PointKey,
    versions: Arc<Versions>,
    columns: Vec<usize>,
    limit: Option<Expr>,
}

/// A value that is known without a row and without a session.
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

fn is_whole(value: &Value) -> bool {
    matches!(value, Value::Int(_) | Value::UInt(_))
}

impl PointKey {
    /// The key of a source's row, where that it has this key is all that is asked of it, as long as what is given for it are whole numbers.
    pub(crate) fn of(source: &Source) -> Option<PointKey> {
        let SourceKind::Table(table) = &source.kind else { return None };
        let access = &source.access;
        let by_key = access.point
            && access.index.is_none()
            && access.intervals.is_empty()
            && source.others.is_empty()
            && access.equal.len() == table.primary.len();
        let whole =
            |part: &IndexPart| matches!(table.columns[part.column].ty, ColumnType::Int { .. });
        let is_one = by_key && table.primary.iter().all(whole) && access.equal.iter().all(is_given);
        if !is_one {
            return None;
        }
        let answered = answered(table, access, source.offset, &source.filters);
        let answers_all = (0..source.filters.len()).all(|filter| answered.contains(&filter));
        answers_all.then(|| PointKey {
            table: table.clone(),
            parts: access.equal.iter().cloned().collect(),
        })
    }

    /// Writes it; `false` where the row has to be looked for in some other way.
    pub(crate) fn write(&self, params: &[Value], out: &mut Vec<u8>) -> bool {
        for (expr, part) in self.parts.iter().zip(&self.table.primary) {
            let column = &self.table.columns[part.column];
            let Some(value) = known(expr, params).filter(|value| is_whole(value)) else {
                return false;
            };
            let Lookup::At(value) = lookup(value, &column.ty) else { return false };
            write_part(&value.as_ref(), &column.ty, column.collation, part.prefix, out);
        }
        true
    }
}

impl Point {
    /// A query as one look-up, where it is no more than that whatever its parameters are, as long as they are whole numbers.
    pub(crate) fn of(plan: &QueryPlan) -> Option<Point> {
        let Body::Select(select) = &plan.body else { return None };
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

    /// The table whose row it is.
    pub(crate) fn table(&self) -> &TableDef {
        &self.key.table
    }

    /// The commit that a snapshot must see to have the table's rows; zero where all do.
    pub(crate) fn since(&self) -> Csn {
        self.key.table.since
    }

    /// Writes the row's key; `false` where it has to be looked for in some other way, or is not wanted.
    pub(crate) fn write_key(&self, params: &[Value], out: &mut Vec<u8>) -> bool {
        let wanted = |limit: &Expr| match known(limit, params) {
            Some(Value::Int(limit)) => *limit > 0,
            Some(Value::UInt(limit)) => *limit > 0,
            _ => false,
        };
        self.limit.as_ref().is_none_or(wanted) && self.key.write(params, out)
    }

    /// Gives the row's columns on: as `fields`, where they are such.
    ///
    /// # Errors
    /// 1034 for a row that is damaged, of which nothing has been given then; and those of `take`.
    pub(crate) fn give(&self, row: &[u8], fields: bool, take: &mut dyn TakeRow) -> Result<()> {
        let row = Stored::new(row, &self.versions)?;
        Projection::new(&self.columns, fields, Onward(take)).take_one(&row, &[]).map(drop)
    }
}
