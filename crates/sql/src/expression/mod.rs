//! Expressions: bound to the columns that they name, and evaluated over a row.

mod arithmetic;
mod casts;
mod charset;
mod context;
mod eval;
mod functions;
mod list;
mod operands;
mod room;
mod server;
mod shape;

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use spillway_types::{Collation, ColumnType, Value};

use crate::errors::Result;

pub(crate) use charset::{Charset, charset_of, in_bytes, refuse_charset};
pub(crate) use context::Context;
pub(crate) use functions::{Patterns, Scalar};
pub(crate) use list::{List, RowParts, row_parts};
pub(crate) use operands::{bits_of_value, compare, truth_of};
pub(crate) use room::{Buffer, Room};
pub(crate) use server::{Server, Step};
pub(crate) use shape::{
    Fit, arithmetic_type, beside_column, common_collation, comparable, handed, is_clean, is_fixed,
    merge_types, merged, reshape, typed_value,
};

/// An operator of two values.
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

    /// Whether a comparison holds between values of this order.
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

/// What a subquery is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ask {
    Scalar,
    Exists,
    In,
    /// A comparison with any or all of its rows.
    Any(Op),
    All(Op),
    /// A comparison of a row with its only row.
    Row(Op),
}

/// A question to a subquery, and how its answer is found.
pub(crate) struct Question<'a> {
    pub(crate) ask: Ask,
    /// The left side of a comparison with its rows, if there is one: a value, or a row as a tuple.
    pub(crate) left: Option<&'a Expr>,
    /// By which its columns are compared.
    pub(crate) collations: &'a [Collation],
    /// Its columns of texts that are compared as the exact numbers that they begin with.
    pub(crate) exact: &'a [usize],
}

/// A planned subquery, as the expression that has it uses it. The planner makes it and the executor
/// runs it.
pub(crate) trait Subplan: fmt::Debug + Send + Sync {
    /// Whether it needs rows of the queries around it.
    fn is_correlated(&self) -> bool;

    /// The slots of the enclosing query that it needs.
    fn outer_reach(&self) -> usize;

    /// Whether the values of its first column are true or false by what they are.
    fn gives_truth(&self) -> bool;

    /// Calls `visit` with every expression of the subquery and of the tables that it makes, each
    /// with the number of queries that enclose its own.
    fn expressions(&self, visit: &mut dyn FnMut(usize, &Expr));

    /// The answer for a row of the query around it.
    ///
    /// # Errors
    /// 1242 for more than one row where one is asked for, and those of running it.
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
    /// A column of an enclosing query: how many queries out, and which.
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
    /// A parameter, as what it is compared with takes it.
    Fitted(Box<Expr>, Fit),
    /// The text of a value of this type.
    Shown(Box<Expr>, ColumnType),
    /// A text whose collation was named with it.
    Collated(Box<Expr>),
    /// The number of a member of this ENUM, or the bits of a value of this SET.
    Member(Box<Expr>, ColumnType),
    Call(Scalar, Vec<Expr>, Collation),
    /// A date and an interval of a unit; negative to subtract.
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
        /// By which its columns are compared.
        collations: Vec<Collation>,
        /// Its columns of texts that are compared as the exact numbers that they begin with.
        exact: Vec<usize>,
    },
    /// The value that an INSERT would have given a column.
    Inserted(usize),
}

impl Expr {
    /// Calls `visit` with this and every expression inside, but not those of subqueries.
    pub(crate) fn walk(&self, visit: &mut dyn FnMut(&Expr)) {
        visit(self);
        self.parts(&mut |part| part.walk(visit));
    }

    /// Calls `visit` with the expressions that this is made of.
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

    /// The largest column it needs, plus one; `usize::MAX` when a subquery may need any.
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

    /// Whether it is the same for every row of a statement.
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

    /// Whether its value is always a truth value: it is a comparison, a logical operator, one of
    /// the literals if they are distinct from numbers (`planner::bind`), or a choice among such.
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

    /// Whether it calls nothing, asks no query and looks for no pattern: it takes no longer than
    /// its values are long.
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

    /// Takes a conjunction apart.
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

/// An expression with what is known of its values.
#[derive(Clone, Debug)]
pub(crate) struct Typed {
    pub(crate) expr: Expr,
    pub(crate) ty: ColumnType,
    pub(crate) collation: Collation,
    pub(crate) nullable: bool,
}

/// Whether an expression needs nothing but these slots, and is the same however often it is
/// evaluated.
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
