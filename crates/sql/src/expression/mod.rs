//! Bound expressions, whose names are resolved to columns, and their evaluation over a row.

mod arithmetic;
mod casts;
mod charset;
mod context;
mod eval;
mod functions;
mod list;
mod operands;
mod random;
mod room;
mod server;
mod shape;
mod value_memory;

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use spillway_types::{Collation, ColumnType, Value};

use crate::errors::Result;

pub(crate) use charset::{Charset, charset_of, in_bytes, refuse_charset};
pub(crate) use context::Context;
pub(crate) use functions::{Patterns, Scalar, is_document};
pub(crate) use list::{List, RowParts, row_parts};
pub(crate) use operands::{bits_of_value, compare, truth_of};
pub(crate) use room::{Buffer, Room};
pub(crate) use server::{Server, Step};
pub(crate) use shape::{
    Fit, arithmetic_type, beside_column, collated, common_collation, comparable, handed, is_clean,
    is_fixed, merge_types, merged, reshape, retyped, typed_value,
};
pub(crate) use value_memory::{ValueMemory, length};

/// A binary operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Op {
    Add,
    Sub,
    Mul,
    Div,
    IntDiv,
    Mod,
    Eq,
    NullEq,
    NotEq,
    Lt,
    LtEq,
    Gt,
    GtEq,
    And,
    Or,
    Xor,
    BitAnd,
    BitOr,
    BitXor,
    ShiftLeft,
    ShiftRight,
}

impl Op {
    pub(crate) fn is_comparison(self) -> bool {
        matches!(self, Op::Eq | Op::NullEq | Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq)
    }

    /// Whether a comparison holds for two values with this ordering.
    pub(crate) fn accepts(self, order: Ordering) -> bool {
        match self {
            Op::Eq | Op::NullEq => order.is_eq(),
            Op::NotEq => order.is_ne(),
            Op::Lt => order.is_lt(),
            Op::LtEq => order.is_le(),
            Op::Gt => order.is_gt(),
            Op::GtEq => order.is_ge(),
            _ => false,
        }
    }

    /// The comparison with its sides exchanged.
    pub(crate) fn mirrored(self) -> Op {
        match self {
            Op::Lt => Op::Gt,
            Op::LtEq => Op::GtEq,
            Op::Gt => Op::Lt,
            Op::GtEq => Op::LtEq,
            other => other,
        }
    }
}

/// The kind of result needed from a subquery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ask {
    Scalar,
    Exists,
    In,
    /// A comparison with any of its rows; [`Ask::All`] compares with all of them.
    Any(Op),
    All(Op),
    /// A comparison of a row with its only row.
    Row(Op),
}

/// A request to a subquery, with the data needed to evaluate it.
pub(crate) struct Question<'a> {
    pub(crate) ask: Ask,
    /// The left side of a comparison with the subquery's rows, if there is one: a value, or a row
    /// as a tuple.
    pub(crate) left: Option<&'a Expr>,
    /// The collations by which the subquery's columns are compared.
    pub(crate) collations: &'a [Collation],
    /// The subquery's text columns that are compared as the exact numbers with which the texts
    /// begin.
    pub(crate) exact: &'a [usize],
}

/// A planned subquery, as the expression containing it uses it. The planner creates it and the
/// executor runs it.
pub(crate) trait Subplan: fmt::Debug + Send + Sync {
    /// Whether the subquery needs rows of the enclosing queries.
    fn is_correlated(&self) -> bool;

    /// The number of slots of the enclosing query that the subquery needs.
    fn outer_reach(&self) -> usize;

    /// Whether the values of its first column are always truth values.
    fn gives_truth(&self) -> bool;

    /// Calls `visit` with every expression of the subquery and of its derived tables, each with the
    /// number of queries that enclose the expression's query.
    fn expressions(&self, visit: &mut dyn FnMut(usize, &Expr));

    /// The result for a row of the enclosing query.
    ///
    /// # Errors
    /// 1242 for more than one row if one is required, and the errors of running it.
    fn answer(
        &self,
        context: &Context<'_>,
        question: &Question<'_>,
        row: &[Value],
    ) -> Result<Value>;
}

/// A bound expression.
#[derive(Clone, Debug)]
pub(crate) enum Expr {
    Const(Value),
    Param(usize),
    Column(usize),
    /// A column of an enclosing query: the number of levels outwards, and the slot.
    Outer(usize, usize),
    UserVariable(String),
    Assign(String, Box<Expr>),
    Binary(Op, Box<Expr>, Box<Expr>, Collation),
    Not(Box<Expr>),
    Neg(Box<Expr>),
    BitNot(Box<Expr>),
    IsNull(Box<Expr>),
    IsTruth(Box<Expr>, bool),
    /// Whether a value, or a row of them, is in a list.
    In(Box<Expr>, Arc<List>),
    Tuple(Vec<Expr>),
    Like {
        text: Box<Expr>,
        pattern: Box<Expr>,
        escape: Option<char>,
        collation: Collation,
    },
    Regexp {
        text: Box<Expr>,
        pattern: Box<Expr>,
        collation: Collation,
    },
    Case {
        operand: Option<Box<Expr>>,
        branches: Vec<(Expr, Expr)>,
        otherwise: Option<Box<Expr>>,
        collation: Collation,
    },
    Cast(Box<Expr>, ColumnType),
    /// A parameter, converted for the value with which it is compared.
    Fitted(Box<Expr>, Fit),
    /// A value of this type as text.
    Shown(Box<Expr>, ColumnType),
    /// A text with an explicit COLLATE.
    Collated(Box<Expr>),
    /// A value of this ENUM as its member number, or a value of this SET as its bits.
    Member(Box<Expr>, ColumnType),
    Call(Scalar, Vec<Expr>, Collation),
    /// A date plus an interval of a unit, or minus it if `negative`.
    Interval {
        date: Box<Expr>,
        amount: Box<Expr>,
        unit: String,
        negative: bool,
    },
    Subquery {
        plan: Arc<dyn Subplan>,
        ask: Ask,
        left: Option<Box<Expr>>,
        /// The collations by which the subquery's columns are compared.
        collations: Vec<Collation>,
        /// The subquery's text columns that are compared as the exact numbers with which the texts
        /// begin.
        exact: Vec<usize>,
    },
    /// The value that an INSERT would have assigned to a column.
    Inserted(usize),
}

impl Expr {
    /// Calls `visit` with this expression and every one inside it, but not with those of
    /// subqueries.
    pub(crate) fn walk(&self, visit: &mut dyn FnMut(&Expr)) {
        visit(self);
        self.parts(&mut |part| part.walk(visit));
    }

    /// Calls `visit` with the direct operands of this expression.
    pub(crate) fn parts(&self, visit: &mut dyn FnMut(&Expr)) {
        match self {
            Expr::Const(_)
            | Expr::Param(_)
            | Expr::Column(_)
            | Expr::Outer(..)
            | Expr::UserVariable(_)
            | Expr::Inserted(_) => {}
            Expr::Assign(_, e)
            | Expr::Not(e)
            | Expr::Neg(e)
            | Expr::BitNot(e)
            | Expr::IsNull(e)
            | Expr::IsTruth(e, _)
            | Expr::Cast(e, _)
            | Expr::Fitted(e, _)
            | Expr::Shown(e, _)
            | Expr::Collated(e)
            | Expr::Member(e, _) => visit(e),
            Expr::Binary(_, a, b, _) => {
                visit(a);
                visit(b);
            }
            Expr::Like { text: a, pattern: b, .. }
            | Expr::Regexp { text: a, pattern: b, .. }
            | Expr::Interval { date: a, amount: b, .. } => {
                visit(a);
                visit(b);
            }
            Expr::In(e, list) => {
                visit(e);
                list.items().iter().for_each(visit);
            }
            Expr::Tuple(list) | Expr::Call(_, list, _) => list.iter().for_each(visit),
            Expr::Case { operand, branches, otherwise, .. } => {
                operand.iter().for_each(|e| visit(e));
                branches.iter().for_each(|(when, then)| {
                    visit(when);
                    visit(then);
                });
                otherwise.iter().for_each(|e| visit(e));
            }
            Expr::Subquery { left, .. } => left.iter().for_each(|e| visit(e)),
        }
    }

    /// The largest column that the expression needs, plus one; `usize::MAX` if a subquery may need
    /// any.
    pub(crate) fn reach(&self) -> usize {
        let mut reach = 0;
        self.walk(&mut |e| match e {
            Expr::Column(slot) => reach = reach.max(slot + 1),
            Expr::Subquery { plan, .. } => {
                reach = reach.max(plan.outer_reach());
            }
            _ => {}
        });
        reach
    }

    /// Whether the value is the same for every row of a statement.
    pub(crate) fn is_constant(&self) -> bool {
        let mut constant = true;
        self.walk(&mut |e| {
            if matches!(
                e,
                Expr::Column(_)
                    | Expr::Outer(..)
                    | Expr::Subquery { .. }
                    | Expr::Assign(..)
                    | Expr::Inserted(_)
            ) {
                constant = false;
            }
            if let Expr::Call(call, ..) = e {
                constant &= !call.is_volatile();
            }
        });
        constant
    }

    /// Whether the value is always a truth value. The expression is then a comparison, a logical
    /// operator, a truth literal if these are distinct from numbers (`planner::bind`), or a choice
    /// among such expressions.
    pub(crate) fn is_truth(&self) -> bool {
        let all = |exprs: &[Expr]| exprs.iter().all(Expr::is_truth);
        match self {
            Expr::Binary(op, ..) => op.is_comparison() || matches!(op, Op::And | Op::Or | Op::Xor),
            Expr::Not(_)
            | Expr::IsNull(_)
            | Expr::IsTruth(..)
            | Expr::In(..)
            | Expr::Like { .. }
            | Expr::Regexp { .. } => true,
            Expr::Subquery { ask: Ask::Scalar, plan, .. } => plan.gives_truth(),
            Expr::Subquery { .. } => true,
            Expr::Call(Scalar::Isnull | Scalar::JsonValid | Scalar::RegexpLike, ..) => true,
            Expr::Call(Scalar::If, args, _) => all(&args[1..]),
            Expr::Call(Scalar::Nullif, args, _) => all(&args[..1]),
            Expr::Call(
                Scalar::Ifnull | Scalar::Coalesce | Scalar::Greatest | Scalar::Least,
                args,
                _,
            ) => all(args),
            Expr::Case { branches, otherwise, .. } => {
                let mut results = branches.iter().map(|(_, then)| then).chain(otherwise.as_deref());
                results.all(Expr::is_truth)
            }
            _ => false,
        }
    }

    /// Whether the expression has no calls, subqueries or pattern matches. Its evaluation time is
    /// then at most proportional to the length of its values.
    pub(crate) fn is_plain(&self) -> bool {
        let mut plain = true;
        self.walk(&mut |e| {
            plain &= !matches!(
                e,
                Expr::Call(..) | Expr::Subquery { .. } | Expr::Like { .. } | Expr::Regexp { .. }
            )
        });
        plain
    }

    /// Splits a conjunction into its conditions.
    pub(crate) fn conjuncts(self, out: &mut Vec<Expr>) {
        match self {
            Expr::Binary(Op::And, a, b, _) => {
                a.conjuncts(out);
                b.conjuncts(out);
            }
            other => out.push(other),
        }
    }
}

/// An expression with its type and other properties of its values.
#[derive(Clone, Debug)]
pub(crate) struct Typed {
    pub(crate) expr: Expr,
    pub(crate) ty: ColumnType,
    pub(crate) collation: Collation,
    pub(crate) nullable: bool,
}

/// Whether an expression needs only these slots and has the same value each time it is evaluated.
pub(crate) fn within(expr: &Expr, slots: &std::ops::Range<usize>) -> bool {
    let mut all = true;
    expr.walk(&mut |e| match e {
        Expr::Column(slot) => all &= slots.contains(slot),
        Expr::Subquery { .. } | Expr::Assign(..) => all = false,
        Expr::Call(call, ..) => all &= !call.is_volatile(),
        _ => {}
    });
    all
}
