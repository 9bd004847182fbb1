//! Aggregate functions as plans have them (`executor/aggregate` computes them).

use spillway_types::Collation;
use spillway_types::ColumnType;
use spillway_types::column::LobSize;

use crate::expression::{Expr, Typed};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AggregateKind {
    Count,
    Sum,
    Avg,
    Min,
    Max,
    GroupConcat,
    BitAnd,
    BitOr,
    BitXor,
    StdDev,
    StdDevSample,
    Variance,
    VarianceSample,
}

impl AggregateKind {
    pub(crate) fn find(name: &str) -> Option<AggregateKind> {
        Some(match name {
            "count" => AggregateKind::Count,
            "sum" => AggregateKind::Sum,
            "avg" => AggregateKind::Avg,
            "min" => AggregateKind::Min,
            "max" => AggregateKind::Max,
            "group_concat" => AggregateKind::GroupConcat,
            "bit_and" => AggregateKind::BitAnd,
            "bit_or" => AggregateKind::BitOr,
            "bit_xor" => AggregateKind::BitXor,
            "std" | "stddev" | "stddev_pop" => AggregateKind::StdDev,
            "stddev_samp" => AggregateKind::StdDevSample,
            "variance" | "var_pop" => AggregateKind::Variance,
            "var_samp" => AggregateKind::VarianceSample,
            _ => return None,
        })
    }

    /// Whether the aggregate uses its arguments as numbers.
    pub(crate) fn is_arithmetic(self) -> bool {
        use AggregateKind as K;
        !matches!(self, K::Count | K::Min | K::Max | K::GroupConcat)
    }

    /// The type of the result, and whether it may be NULL.
    pub(crate) fn result(self, arg: Option<&Typed>) -> (ColumnType, bool) {
        let arg = arg.map(|arg| &arg.ty);
        let exact = |extra: u8, more: u8| match arg {
            Some(ColumnType::Decimal { precision, scale, .. }) => {
                Some((precision + extra, scale + more))
            }
            Some(
                ColumnType::Int { .. } | ColumnType::Year | ColumnType::Bit(_) | ColumnType::Date,
            ) => Some((20 + extra, more)),
            _ => None,
        };
        let decimal = |digits: Option<(u8, u8)>| match digits {
            Some((precision, scale)) => ColumnType::Decimal {
                precision: precision.min(65),
                scale: scale.min(30),
                unsigned: false,
            },
            None => ColumnType::Double,
        };
        match self {
            AggregateKind::Count => (ColumnType::BIGINT, false),
            AggregateKind::Sum => (decimal(exact(22, 0)), true),
            AggregateKind::Avg => (decimal(exact(4, 4)), true),
            AggregateKind::Min | AggregateKind::Max => match arg {
                // MIN and MAX compare members by name, and their result is text.
                Some(ColumnType::Enum(_) | ColumnType::Set(_)) => (ColumnType::VarChar(255), true),
                _ => (arg.cloned().unwrap_or(ColumnType::BIGINT), true),
            },
            AggregateKind::GroupConcat if arg.is_some_and(ColumnType::is_binary) => {
                (ColumnType::Blob(LobSize::Long), true)
            }
            AggregateKind::GroupConcat => (ColumnType::Text(LobSize::Long), true),
            AggregateKind::BitAnd | AggregateKind::BitOr | AggregateKind::BitXor => {
                (ColumnType::UBIGINT, false)
            }
            _ => (ColumnType::Double, true),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Aggregate {
    pub(crate) kind: AggregateKind,
    pub(crate) args: Vec<Expr>,
    pub(crate) distinct: bool,
    pub(crate) separator: String,
    pub(crate) order: Vec<(Expr, bool, Collation)>,
    pub(crate) collation: Collation,
    pub(crate) ty: ColumnType,
}

impl Aggregate {
    /// The expressions that the aggregate evaluates for each row.
    pub(crate) fn expressions(&self) -> impl Iterator<Item = &Expr> {
        self.args.iter().chain(self.order.iter().map(|(expr, ..)| expr))
    }
}
