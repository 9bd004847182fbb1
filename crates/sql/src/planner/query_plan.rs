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
use crate::expression::{Expr, List, Op, Typed, is_fixed, refuse_charset};

/// A planned query.
#[derive(Debug)]
pub(crate) struct QueryPlan {
    pub(crate) columns: Vec<ResultColumn>,
    pub(crate) body: QueryBody,
    /// The order over the result's own columns, for set operations.
    pub(crate) order: Vec<(Expr, bool, Collation)>,
    pub(crate) limit: Option<Expr>,
    pub(crate) offset: Option<Expr>,
    /// Whether the rows beyond the limit are counted, for FOUND_ROWS(): SQL_CALC_FOUND_ROWS.
    pub(crate) counted: bool,
    /// How many slots of the enclosing query the query needs.
    pub(crate) outer_reach: usize,
    pub(crate) correlated: bool,
    /// The number of enclosing queries. The query may read their rows.
    pub(crate) depth: usize,
    /// The plan's number, by which results are cached.
    pub(crate) id: usize,
}

impl QueryPlan {
    /// Whether the query is a locking read.
    pub(crate) fn is_locking(&self) -> bool {
        matches!(&self.body, QueryBody::Select(select) if select.lock.is_some())
    }

    /// Whether the query looks up one row by its whole primary key and does nothing before that.
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

    /// Whether the query returns only constants, or only stored columns or totals of one table's
    /// rows, and calls no function. Then it takes long only if it reads many rows, and it reports
    /// that itself (`check_now_and_then`).
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

    /// Refuses columns of text in another character set, because readers of the query's result
    /// would not know the set.
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

    /// Whether the values of its first column are always truth values.
    pub(crate) fn gives_truth(&self) -> bool {
        match &self.body {
            QueryBody::Select(select) => select.projections.first().is_some_and(Expr::is_truth),
            _ => false,
        }
    }

    /// Whether a column has the same value in all rows, or in all rows of each SELECT of a set
    /// operation.
    pub(crate) fn is_fixed(&self, at: usize) -> bool {
        match &self.body {
            QueryBody::Select(select) => select.projections.get(at).is_some_and(is_fixed),
            QueryBody::Set { left, right, .. } => left.is_fixed(at) && right.is_fixed(at),
            QueryBody::Values(_) => false,
        }
    }

    /// The literal of bytes that a column consists of, if it does.
    pub(crate) fn literal_bytes(&self, at: usize) -> Option<&Expr> {
        let QueryBody::Select(select) = &self.body else { return None };
        select.projections.get(at).filter(|expr| matches!(expr, Expr::Const(Value::Bytes(_))))
    }

    /// Replaces a column that is a literal of bytes by another literal.
    pub(crate) fn replace_literal_bytes(&mut self, at: usize, with: &Typed) {
        if self.literal_bytes(at).is_none() {
            return;
        }
        if let QueryBody::Select(select) = &mut self.body {
            select.projections[at] = with.expr.clone();
            self.columns[at].column_type = with.ty.clone();
        }
    }

    /// If a column is a hexadecimal or bit literal, makes it the number of the literal.
    pub(crate) fn count_literal_bytes(&mut self, at: usize) {
        let Some(expr) = self.literal_bytes(at).cloned() else { return };
        let ty = self.columns[at].column_type.clone();
        let literal = Typed { expr, ty, collation: Collation::Binary, nullable: false };
        self.replace_literal_bytes(at, &literal.by_member());
    }

    /// If a column is an ENUM or SET, makes it the numbers of the members.
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
    /// The sources, in the order in which they are read.
    pub(crate) sources: Vec<Source>,
    pub(crate) width: usize,
    /// The conditions that need no row of a source. If there is no source, all conditions are here.
    pub(crate) constant: Vec<Expr>,
    pub(crate) grouped: bool,
    pub(crate) group: Vec<(Expr, Collation)>,
    pub(crate) aggregates: Vec<Aggregate>,
    pub(crate) having: Option<Expr>,
    pub(crate) projections: Vec<Expr>,
    /// The collations of the projections, for DISTINCT.
    pub(crate) collations: Vec<Collation>,
    pub(crate) distinct: bool,
    pub(crate) order: Vec<(Expr, bool, Collation)>,
    /// Whether the sources provide the rows in order.
    pub(crate) ordered: bool,
    pub(crate) lock: Option<(LockMode, LockWait)>,
    /// How the query runs over stored rows without decoding them, if it can.
    pub(crate) direct: Option<Direct>,
}

/// A table of a query, and how its rows are found.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) kind: SourceKind,
    pub(crate) alias: String,
    pub(crate) offset: usize,
    /// The number of columns, plus one for the row's key if the table is stored.
    pub(crate) width: usize,
    pub(crate) access: Access,
    /// Other accesses, if the data must decide which one is best.
    pub(crate) others: Vec<Access>,
    /// The table's index hints.
    pub(crate) hints: Hints,
    /// For an outer join: the conditions under which this source's rows are joined.
    pub(crate) outer: Option<Vec<Expr>>,
    /// The conditions that a row must satisfy once this source is joined.
    pub(crate) filters: Vec<Expr>,
    /// The filters that are checked on the stored row, unless rows are locked. `rest` has all other
    /// filters.
    pub(crate) tests: Vec<Test>,
    pub(crate) rest: Vec<Expr>,
    /// How to read the rows of a stored table.
    pub(crate) versions: Arc<Versions>,
    /// The columns that are needed; `None` for all.
    pub(crate) needed: Option<Vec<usize>>,
    /// Whether an index that has all needed columns may be read instead of the rows.
    pub(crate) index_only: bool,
    /// Whether a change of several tables only reads this one. Then its rows are locked in shared
    /// mode.
    pub(crate) shared: bool,
    /// The equalities with earlier sources by which rows are looked up if the source is read
    /// completely.
    pub(crate) hash: Vec<(Expr, Expr, Collation)>,
}

impl Source {
    /// How an index of the source's table covers the needed columns, if it does and may be read
    /// instead of the rows.
    pub(crate) fn cover(&self, table: &TableDef, index: usize) -> Option<Cover> {
        let needed = self.needed.as_ref().filter(|_| self.index_only)?;
        Cover::of(table, index, needed)
    }

    /// The conditions on the source's rows, those of an outer join included.
    pub(crate) fn conditions(&self) -> impl Iterator<Item = &Expr> {
        self.filters.iter().chain(self.outer.iter().flatten())
    }

    /// Whether the source is at most one row, which is looked up by its whole primary key before
    /// anything else is evaluated. The values of that key have no side effects, and may be
    /// evaluated again.
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

/// How a query of one table produces its result without decoding rows.
#[derive(Debug)]
pub(crate) enum Direct {
    /// These columns, unchanged.
    Columns(Vec<usize>),
    /// Columns in an order that no index provides, or distinct rows of columns.
    Gathered(Gathering),
    /// Totals of columns; `None` counts rows.
    Totals(Vec<Option<usize>>),
    /// MIN and MAX of columns, found at the ends of indexes.
    Ends(MinMaxAccesses),
}

/// The columns that are gathered from a table's rows, and the order of the result.
#[derive(Debug)]
pub(crate) struct Gathering {
    /// The result columns, followed by others that the order needs.
    pub(crate) columns: Vec<usize>,
    /// The number of result columns.
    pub(crate) shown: usize,
    /// The order, by positions among the columns; empty if the rows need none.
    pub(crate) order: Vec<OrderColumn>,
    /// The collations under which rows are made distinct, if they are.
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
    /// Whether the order makes equal rows adjacent: rows are equal in all result columns exactly if
    /// the order ranks them as equal.
    pub(crate) fn sorts_equals_together(&self, collations: &[Collation]) -> bool {
        let of = |place| self.order.iter().find(|key| key.place == place);
        self.order.iter().all(|key| key.place < self.shown)
            && (0..self.shown).all(|at| of(at).is_some_and(|key| key.collation == collations[at]))
    }
}

/// For each MIN or MAX of a query, the access that finds its value.
#[derive(Debug)]
pub(crate) struct MinMaxAccesses(pub(crate) Vec<MinMaxAccess>);

/// The first row of the access that satisfies the conditions and is not NULL in the column has the
/// value.
#[derive(Debug)]
pub(crate) struct MinMaxAccess {
    pub(crate) access: Access,
    pub(crate) column: usize,
}

/// A row of a result.
pub(crate) type Row = Vec<Value>;
