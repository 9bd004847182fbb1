//! Point reads: columns of the one row that has a primary key of whole numbers.
//!
//! Such a query has nothing to choose and nothing to test: its key is written from its parameters, and what is found there is the answer. Who
//! runs it is `session/point`.

use std::sync::Arc;

use smallvec::SmallVec;
use spillway_base::Csn;
use spillway_types::key::{Lookup, lookup, write_part};
use spillway_types::{ColumnType, Value};

use super::take::{Onward, Projection, TakeRow, TakeStored};
use super::{Body, Direct, QueryPlan, SourceKind};
use crate::catalog::TableDef;
use crate::errors::Result;
use crate::expr::Expr;
use crate::rows::{Stored, Versions};

/// A query that is one look-up.
#[derive(Debug)]
pub(crate) struct Point {
    table: Arc<TableDef>,
    versions: Arc<Versions>,
    /// Of the primary key's columns: constants and parameters.
    key: SmallVec<[Expr; 2]>,
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

fn is_whole(value: &Value) -> bool {
    matches!(value, Value::Int(_) | Value::UInt(_))
}

impl Point {
    /// A query as one look-up, where it is no more than that whatever its parameters are, as long as they are whole numbers.
    pub(crate) fn of(plan: &QueryPlan) -> Option<Point> {
        let Body::Select(select) = &plan.body else { return None };
        let (Some(Direct::Columns(columns)), [source]) = (&select.direct, &select.sources[..])
        else {
            return None;
        };
        let SourceKind::Table(table) = &source.kind else { return None };
        let access = &source.access;
        let parts = &table.primary;
        let by_key = access.point
            && access.index.is_none()
            && access.intervals.is_empty()
            && source.others.is_empty()
            && access.equal.len() == parts.len();
        let whole = |part: &crate::catalog::IndexPart| {
            matches!(table.columns[part.column].ty, ColumnType::Int { .. })
        };
        let given = |expr: &Expr| matches!(expr, Expr::Const(_) | Expr::Param(_));
        let answers_all = (0..source.tests.len()).all(|test| access.answered.contains(&test));
        let is_one = by_key
            && answers_all
            && parts.iter().all(whole)
            && access.equal.iter().chain(&plan.limit).all(given)
            && select.constant.is_empty()
            && !select.ordered
            && plan.offset.is_none()
            && !plan.counted;
        is_one.then(|| Point {
            table: table.clone(),
            versions: source.versions.clone(),
            key: access.equal.iter().cloned().collect(),
            columns: columns.clone(),
            limit: plan.limit.clone(),
        })
    }

    /// The table whose row it is.
    pub(crate) fn table(&self) -> &TableDef {
        &self.table
    }

    /// The commit that a snapshot must see to have the table's rows; zero where all do.
    pub(crate) fn since(&self) -> Csn {
        self.table.since
    }

    /// Writes the row's key; `false` where it has to be looked for in some other way, or is not wanted.
    pub(crate) fn write_key(&self, params: &[Value], out: &mut Vec<u8>) -> bool {
        let wanted = |limit: &Expr| match known(limit, params) {
            Some(Value::Int(limit)) => *limit > 0,
            Some(Value::UInt(limit)) => *limit > 0,
            _ => false,
        };
        if !self.limit.as_ref().is_none_or(wanted) {
            return false;
        }
        for (expr, part) in self.key.iter().zip(&self.table.primary) {
            let column = &self.table.columns[part.column];
            let Some(value) = known(expr, params).filter(|value| is_whole(value)) else {
                return false;
            };
            let Lookup::At(value) = lookup(value, &column.ty) else { return false };
            write_part(&value.as_ref(), &column.ty, column.collation, part.prefix, out);
        }
        true
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
