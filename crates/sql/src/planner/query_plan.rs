//! The plan of a query: its sources with the access to each, its filters and its projections.

use std::sync::Arc;

use smallvec::SmallVec;
use spillway::{LockMode, LockWait};
use spillway_types::{Collation, ColumnType, Value};

use super::access::{Access, Hints};
use super::aggregate::Aggregate;
use crate::api::ResultColumn;
use crate::catalog::{Cover, TableDef, Versions};
use crate::errors::Result;
use crate::expression::{Expr, List, Op, is_fixed, refuse_charset};

/// A planned query.
#[derive(Debug)]
pub(crate) struct QueryPlan {
    pub(crate) columns: Vec<ResultColumn>,
    pub(crate) body: QueryBody,
    /// Over the result's own columns: for set operations.
    pub(crate) order: Vec<(Expr, bool, Collation)>,
    pub(crate) limit: Option<Expr>,
    pub(crate) offset: Option<Expr>,
    /// Whether the rows beyond the limit are counted, for FOUND_ROWS(): SQL_CALC_FOUND_ROWS.
    pub(crate) counted: bool,
    /// The slots of the enclosing query that it needs.
    pub(crate) outer_reach: usize,
    pub(crate) correlated: bool,
    /// How many queries enclose it: so many of their rows it may look at.
    pub(crate) depth: usize,
    /// Tells plans apart, for the cache of results.
    pub(crate) id: usize,
}

impl QueryPlan {
    /// Whether it is a locking read.
    pub(crate) fn is_locking(&self) -> bool {
        matches!(&self.body, QueryBody::Select(select) if select.lock.is_some())
    }

    /// Whether it looks one row up by its whole primary key, and does nothing before.
    pub(crate) fn looks_up(&self) -> bool {
        match &self.body {
            QueryBody::Select(select) => match &select.sources[..] {
                [source] => {
                    let plain = select.direct.is_some() || select.lock.is_some();
                    plain && select.constant.is_empty() && source.looks_up()
                }
                _ => false,
            },
            QueryBody::Set { .. } | QueryBody::Values(_) => false,
        }
    }

    /// Whether it gives values that it has, or columns or totals of one table's rows as they are
    /// stored, and calls nothing. It takes long then only where it meets many rows, and says so
    /// when it does (`check_now_and_then`).
    pub(crate) fn is_brief(&self) -> bool {
        let QueryBody::Select(select) = &self.body else { return false };
        let plain = |exprs: &[Expr]| exprs.iter().all(Expr::is_plain);
        let rows = match &select.sources[..] {
            [] => !select.grouped && select.having.is_none() && select.order.is_empty(),
            [source] => {
                let mut ways = source.others.iter().chain([&source.access]);
                select.direct.is_some() && plain(&source.filters) && ways.all(Access::is_plain)
            }
            _ => false,
        };
        rows && plain(&select.projections) && plain(&select.constant)
    }

    /// Refuses text in another character set among its columns: who reads them would not know of
    /// it.
    pub(crate) fn refuse_charsets(&self) -> Result<()> {
        match &self.body {
            QueryBody::Select(select) => select.projections.iter().try_for_each(refuse_charset),
            QueryBody::Set { left, right, .. } => {
                left.refuse_charsets()?;
                right.refuse_charsets()
            }
            QueryBody::Values(_) => Ok(()),
        }
    }

    /// Whether the values of its first column are true or false by what they are.
    pub(crate) fn gives_truth(&self) -> bool {
        match &self.body {
            QueryBody::Select(select) => select.projections.first().is_some_and(Expr::is_truth),
            _ => false,
        }
    }

    /// Whether a column has one value in all rows, or in all rows of each SELECT of a set.
    pub(crate) fn is_fixed(&self, at: usize) -> bool {
        match &self.body {
            QueryBody::Select(select) => select.projections.get(at).is_some_and(is_fixed),
            QueryBody::Set { left, right, .. } => left.is_fixed(at) && right.is_fixed(at),
            QueryBody::Values(_) => false,
        }
    }

    /// Makes numbers of an ENUM's or SET's members in a column.
    pub(crate) fn count_members(&mut self, at: usize) {
        let (Some(column), QueryBody::Select(select)) = (self.columns.get_mut(at), &mut self.body)
        else {
            return;
        };
        if let ColumnType::Enum(_) | ColumnType::Set(_) = column.column_type
            && let Some(expr) = select.projections.get_mut(at)
        {
            let ty = std::mem::replace(&mut column.column_type, ColumnType::UBIGINT);
            let member = std::mem::replace(expr, Expr::Const(Value::Null));
            *expr = Expr::Member(Box::new(member), ty);
        }
    }
}

#[derive(Debug)]
pub(crate) enum QueryBody {
    Select(Box<SelectPlan>),
    Set { left: Box<QueryPlan>, right: Box<QueryPlan>, op: SetOp, all: bool },
    Values(Vec<Vec<Expr>>),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SetOp {
    Union,
    Intersect,
    Except,
}

#[derive(Debug)]
pub(crate) struct SelectPlan {
    /// In the order they are read.
    pub(crate) sources: Vec<Source>,
    pub(crate) width: usize,
    /// Conditions that need no row of the sources: all of them where there is no source.
    pub(crate) constant: Vec<Expr>,
    pub(crate) grouped: bool,
    pub(crate) group: Vec<(Expr, Collation)>,
    pub(crate) aggregates: Vec<Aggregate>,
    pub(crate) having: Option<Expr>,
    pub(crate) projections: Vec<Expr>,
    /// Of the projections, for DISTINCT.
    pub(crate) collations: Vec<Collation>,
    pub(crate) distinct: bool,
    pub(crate) order: Vec<(Expr, bool, Collation)>,
    /// Whether the sources give the rows in order already.
    pub(crate) ordered: bool,
    pub(crate) lock: Option<(LockMode, LockWait)>,
    /// How it is run without making values of rows, where it can be.
    pub(crate) direct: Option<Direct>,
}

/// A table of a query, and how its rows are found.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) kind: SourceKind,
    pub(crate) alias: String,
    pub(crate) offset: usize,
    /// Columns, and one more for the key of a stored table's row.
    pub(crate) width: usize,
    pub(crate) access: Access,
    /// Other ways, where the data must tell which is best.
    pub(crate) others: Vec<Access>,
    /// What its hints say of indexes.
    pub(crate) hints: Hints,
    /// For an outer join: what its rows must meet to be joined.
    pub(crate) outer: Option<Vec<Expr>>,
    /// What a row must meet once this source is joined.
    pub(crate) filters: Vec<Expr>,
    /// Those of the filters that are checked on the row as it is stored, unless it is locked; and
    /// the others.
    pub(crate) tests: Vec<Test>,
    pub(crate) rest: Vec<Expr>,
    /// How a stored table's rows are read.
    pub(crate) versions: Arc<Versions>,
    /// Columns that anybody asks for; all where it is `None`.
    pub(crate) needed: Option<Vec<usize>>,
    /// Whether an index that has them all may be read alone.
    pub(crate) index_only: bool,
    /// Whether a change of several tables reads it and does not change it: its rows are locked
    /// shared then.
    pub(crate) shared: bool,
    /// Equalities with earlier sources, by which rows that are read whole are found again.
    pub(crate) hash: Vec<(Expr, Expr, Collation)>,
}

impl Source {
    /// How an index of the table that it is covers what is asked for, if it does and may be read
    /// alone.
    pub(crate) fn cover(&self, table: &TableDef, index: usize) -> Option<Cover> {
        let needed = self.needed.as_ref().filter(|_| self.index_only)?;
        Cover::of(table, index, needed)
    }

    /// What its rows must meet, to be joined or once they are.
    pub(crate) fn conditions(&self) -> impl Iterator<Item = &Expr> {
        self.filters.iter().chain(self.outer.iter().flatten())
    }

    /// Whether it is one row at the most, which is looked up by its whole primary key, before
    /// anything is found out about it. Finding out that key does nothing, and may be done again.
    pub(crate) fn looks_up(&self) -> bool {
        let access = &self.access;
        access.index.is_none() && access.point && access.equal.iter().all(Expr::is_constant)
    }
}

#[derive(Debug)]
pub(crate) enum SourceKind {
    Table(Arc<TableDef>),
    Derived(Arc<QueryPlan>),
    Virtual(String),
}

/// A condition on a stored row.
#[derive(Debug)]
pub(crate) enum Test {
    /// A column compared with a value.
    Compare {
        column: usize,
        op: Op,
        value: Expr,
        collation: Collation,
    },
    /// A column, or a row of them, in a list.
    In {
        columns: SmallVec<[usize; 2]>,
        list: Arc<List>,
    },
    Not(Box<Test>),
    Null {
        column: usize,
        is: bool,
    },
    All(Vec<Test>),
    Any(Vec<Test>),
}

/// How a query of one table gives what it is asked for without making values of rows.
#[derive(Debug)]
pub(crate) enum Direct {
    /// These columns, as they are.
    Columns(Vec<usize>),
    /// Columns in an order that no index gives, or each once.
    Gathered(Gathering),
    /// Totals of columns; `None` counts rows.
    Totals(Vec<Option<usize>>),
    /// The least or the greatest values of columns, which are found at ends of indexes.
    Ends(MinMaxAccesses),
}

/// The columns to gather from a table's rows, and the order of the result.
#[derive(Debug)]
pub(crate) struct Gathering {
    /// The columns that are shown, and behind them others that the order needs.
    pub(crate) columns: Vec<usize>,
    /// How many are shown.
    pub(crate) shown: usize,
    /// The order, by places among the columns; none where rows may go as they come.
    pub(crate) order: Vec<OrderColumn>,
    /// Whether rows are distinct, and by which collations.
    pub(crate) once: Option<Vec<Collation>>,
}

/// A column of an order.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct OrderColumn {
    pub(crate) place: usize,
    pub(crate) ascending: bool,
    pub(crate) collation: Collation,
}

impl Gathering {
    /// Whether rows that are equal in what is shown are those that are equal in order, and so lie
    /// side by side in it.
    pub(crate) fn sorts_equals_together(&self, collations: &[Collation]) -> bool {
        let of = |place| self.order.iter().find(|key| key.place == place);
        self.order.iter().all(|key| key.place < self.shown)
            && (0..self.shown).all(|at| of(at).is_some_and(|key| key.collation == collations[at]))
    }
}

/// Where the least and greatest values of columns are found, for each of a query's aggregates.
#[derive(Debug)]
pub(crate) struct MinMaxAccesses(pub(crate) Vec<MinMaxAccess>);

/// The first row of an access that meets the conditions and is not NULL in the column has the
/// value.
#[derive(Debug)]
pub(crate) struct MinMaxAccess {
    pub(crate) access: Access,
    pub(crate) column: usize,
}

/// A row of a result.
pub(crate) type Row = Vec<Value>;
