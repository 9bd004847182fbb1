//! Binds operators and casts.

use spillway_types::column::LobSize;
use spillway_types::{Collation, ColumnType, Decimal, Value};
use sqlparser::ast::{self, BinaryOperator, UnaryOperator};

use super::calls::interval_expr;
use super::{Binder, boxed, comparison};
use crate::errors::{Result, SqlError};
use crate::expression::{
    Expr, Op, Scalar, Typed, arithmetic_type, common_collation, in_bytes, typed_value,
};
use crate::names;

impl Binder<'_> {
    pub(super) fn unary(&mut self, op: UnaryOperator, expr: &ast::Expr) -> Result<Typed> {
        let mut inner = self.bind(expr)?;
        if matches!(op, UnaryOperator::Minus | UnaryOperator::BitwiseNot) {
            inner = inner.numbered();
        } else if op != UnaryOperator::Plus {
            inner = inner.counted();
        }
        match op {
            UnaryOperator::Plus => Ok(inner),
            UnaryOperator::Not | UnaryOperator::BangNot => {
                Ok(self.truth(Expr::Not(boxed(inner.expr))))
            }
            UnaryOperator::BitwiseNot => {
                Ok(Typed { ty: ColumnType::UBIGINT, ..self.truth(Expr::BitNot(boxed(inner.expr))) })
            }
            UnaryOperator::Minus => {
                // The sign belongs to the literal, so -9223372036854775808 is an integer.
                if let Expr::Const(value) = &inner.expr {
                    let negated = match value {
                        Value::Int(number) => number.checked_neg().map(Value::Int),
                        Value::UInt(9_223_372_036_854_775_808) => Some(Value::Int(i64::MIN)),
                        Value::UInt(number) => Some(Value::Decimal(Decimal::from(*number).neg())),
                        Value::Decimal(number) => Some(Value::Decimal(number.neg())),
                        Value::Double(number) => Some(Value::Double(-number)),
                        _ => None,
                    };
                    if let Some(value) = negated {
                        return Ok(typed_value(value));
                    }
                }
                let ty = match &inner.ty {
                    ColumnType::Int { .. }
                    | ColumnType::Year
                    | ColumnType::Bit(_)
                    | ColumnType::Date => ColumnType::BIGINT,
                    ColumnType::Decimal { .. } => inner.ty.clone(),
                    ColumnType::Time(scale)
                    | ColumnType::DateTime(scale)
                    | ColumnType::Timestamp(scale) => {
                        ColumnType::Decimal { precision: 20, scale: *scale, unsigned: false }
                    }
                    _ => ColumnType::Double,
                };
                Ok(Typed { expr: Expr::Neg(boxed(inner.expr)), ty, ..inner })
            }
            other => Err(SqlError::unsupported(other)),
        }
    }

    /// `@name := value`.
    fn assignment(&mut self, left: &ast::Expr, right: &ast::Expr) -> Result<Typed> {
        let name = match left {
            ast::Expr::Identifier(ident) if ident.quote_style.is_none() => &ident.value,
            other => return Err(SqlError::syntax(format!("near '{other} :='"))),
        };
        let Some(name) = name.strip_prefix('@').filter(|name| !name.starts_with('@')) else {
            return Err(SqlError::syntax(format!("near '{name} :='")));
        };
        names::check_variable(name)?;
        let value = self.bind(right)?;
        let expr = Expr::Assign(name.to_ascii_lowercase(), boxed(value.expr));
        Ok(Typed { expr, ..value })
    }

    pub(super) fn binary(
        &mut self,
        left: &ast::Expr,
        op: &BinaryOperator,
        right: &ast::Expr,
    ) -> Result<Typed> {
        if let (BinaryOperator::Plus | BinaryOperator::Minus, ast::Expr::Interval(interval)) =
            (op, right)
        {
            let (date, amount) = (self.bind(left)?, self.bind(&interval.value)?);
            let unit = interval.leading_field.as_ref().map(ToString::to_string).unwrap_or_default();
            return Ok(interval_expr(date, amount, unit, *op == BinaryOperator::Minus));
        }
        if let (BinaryOperator::Plus, ast::Expr::Interval(_)) = (op, left) {
            return self.binary(right, op, left);
        }
        if *op == BinaryOperator::Assignment {
            return self.assignment(left, right);
        }
        if *op == BinaryOperator::StringConcat {
            // If `||` means OR in the SQL mode, the tokens already have OR.
            return self.call(Scalar::Concat, &[left, right]);
        }
        if let Some(op) = comparison(op) {
            return self.compared(left, op, right);
        }
        let (mut a, mut b) = (self.bind(left)?, self.bind(right)?);
        if matches!(op, BinaryOperator::And | BinaryOperator::Or | BinaryOperator::Xor) {
            (a, b) = (a.counted(), b.counted());
        } else if *op == BinaryOperator::Regexp {
            (a, b) = (a.shown(), b.shown());
        } else {
            (a, b) = (a.numbered(), b.numbered());
        }
        let collation = common_collation(&[&a, &b])?;
        let make = |op| Expr::Binary(op, boxed(a.expr.clone()), boxed(b.expr.clone()), collation);
        let op = match op {
            BinaryOperator::And => Op::And,
            BinaryOperator::Or => Op::Or,
            BinaryOperator::Xor => Op::Xor,
            BinaryOperator::Plus => Op::Add,
            BinaryOperator::Minus => Op::Sub,
            BinaryOperator::Multiply => Op::Mul,
            BinaryOperator::Divide => Op::Div,
            BinaryOperator::Modulo => Op::Mod,
            BinaryOperator::MyIntegerDivide => Op::IntDiv,
            BinaryOperator::BitwiseAnd => Op::BitAnd,
            BinaryOperator::BitwiseOr => Op::BitOr,
            BinaryOperator::BitwiseXor | BinaryOperator::PGBitwiseXor => Op::BitXor,
            BinaryOperator::PGBitwiseShiftLeft => Op::ShiftLeft,
            BinaryOperator::PGBitwiseShiftRight => Op::ShiftRight,
            BinaryOperator::Regexp => {
                let regexp =
                    Expr::Regexp { text: boxed(a.expr), pattern: boxed(b.expr), collation };
                return Ok(self.truth(regexp));
            }
            other => return Err(SqlError::unsupported(other)),
        };
        if matches!(op, Op::And | Op::Or | Op::Xor) {
            return Ok(self.truth(make(op)));
        }
        if matches!(op, Op::BitAnd | Op::BitOr | Op::BitXor) && a.ty.is_binary() && b.ty.is_binary()
        {
            return Err(SqlError::unsupported("bit operations on binary strings"));
        }
        let ty = arithmetic_type(op, &a.ty, &b.ty);
        let nullable = a.nullable || b.nullable || matches!(op, Op::Div | Op::IntDiv | Op::Mod);
        Ok(Typed { expr: make(op), ty, collation: Collation::Binary, nullable })
    }

    pub(super) fn cast(&mut self, inner: Typed, name: &str) -> Result<Typed> {
        let upper = name.to_ascii_uppercase();
        let ty = match upper.split('(').next().unwrap_or_default().trim() {
            "SIGNED" | "SIGNED INTEGER" => ColumnType::BIGINT,
            "UNSIGNED" | "UNSIGNED INTEGER" => ColumnType::UBIGINT,
            "BINARY" if !upper.contains('(') => ColumnType::VarBinary(65_535),
            "CHAR" | "CHARACTER" if !upper.contains('(') => ColumnType::Text(LobSize::Long),
            _ => crate::catalog::parse_type(name, name)?.0,
        };
        let inner = match &ty {
            // Integers are read from the text of a date that DATE_ADD gives as text.
            ColumnType::Int { .. } | ColumnType::Year => inner.by_member(),
            ColumnType::Decimal { .. } if inner.is_moment_text() => inner.moment_number(),
            ty if ty.is_numeric() => inner.counted(),
            ColumnType::Date | ColumnType::DateTime(_) if inner.is_moment_text() => {
                inner.moment_today()
            }
            ty if ty.is_binary() => in_bytes(inner).shown(),
            ty if ty.is_text() => inner.shown(),
            _ => inner,
        };
        let collation = if inner.ty.is_text() { inner.collation } else { Collation::GeneralCi };
        let expr = Expr::Cast(boxed(inner.expr), ty.clone());
        let collation = if ty.is_text() { collation } else { Collation::Binary };
        // The value is filled with zeros up to its length; the type is that of any bytes.
        let ty = if let ColumnType::Binary(len) = ty { ColumnType::VarBinary(len) } else { ty };
        Ok(Typed { expr, ty, collation, nullable: true })
    }
}
