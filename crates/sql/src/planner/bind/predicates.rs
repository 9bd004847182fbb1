//! Binds predicates: comparisons with subqueries, BETWEEN, LIKE and RLIKE.

use sqlparser::ast;

use super::{Binder, boxed, comparison};
use crate::errors::{Result, SqlError};
use crate::expression::{Ask, Expr, Op, Typed, collated, common_collation};
use crate::planner::literals::literal;
use crate::planner::scope::LITERALS;

impl Binder<'_> {
    /// Binds a comparison with any or all rows of a subquery.
    pub(super) fn quantified(
        &mut self,
        left: &ast::Expr,
        op: &ast::BinaryOperator,
        right: &ast::Expr,
        ask: fn(Op) -> Ask,
    ) -> Result<Typed> {
        let ast::Expr::Subquery(subquery) = right else {
            return Err(SqlError::syntax("ANY and ALL need a subquery"));
        };
        let op = comparison(op).ok_or_else(|| SqlError::unsupported(op))?;
        // As in MySQL, rows know only what IN and NOT IN say too.
        if let Some(parts) = self.row(left)? {
            let width = parts.len();
            let negated = match ask(op) {
                Ask::Any(Op::Eq) => false,
                Ask::All(Op::NotEq) => true,
                _ => return Err(SqlError::new(1241, "Operand should contain 1 column(s)")),
            };
            let asked = self.subquery(subquery, Ask::In, parts, width)?.expr;
            return Ok(self.truth(if negated { Expr::Not(boxed(asked)) } else { asked }));
        }
        let left = self.bind(left)?;
        self.subquery(subquery, ask(op), vec![left], 1)
    }

    pub(super) fn between(
        &mut self,
        expr: &ast::Expr,
        (low, high): (&ast::Expr, &ast::Expr),
        negated: bool,
    ) -> Result<Typed> {
        let parts = vec![self.bind(expr)?, self.bind(low)?, self.bind(high)?];
        let (parts, collation) = collated(self.comparable(parts)?)?;
        let Ok([value, low, high]) = <[Typed; 3]>::try_from(parts) else {
            return Err(SqlError::syntax("BETWEEN takes two bounds"));
        };
        self.note_copies(&value.expr, 1)?;
        let above = Expr::Binary(Op::GtEq, boxed(value.expr.clone()), boxed(low.expr), collation);
        let below = Expr::Binary(Op::LtEq, boxed(value.expr), boxed(high.expr), collation);
        let both = Expr::Binary(Op::And, boxed(above), boxed(below), collation);
        Ok(self.truth(if negated { Expr::Not(boxed(both)) } else { both }))
    }

    pub(super) fn like(
        &mut self,
        expr: &ast::Expr,
        pattern: &ast::Expr,
        escape: Option<&ast::ValueWithSpan>,
        negated: bool,
    ) -> Result<Typed> {
        let (text, pattern) = (self.bind(expr)?.shown(), self.bind(pattern)?.shown());
        let collation = common_collation(&[&text, &pattern])?;
        let escape = match escape {
            Some(value) if value.value != ast::Value::Null => {
                let escape = literal(&value.value)?.to_text();
                let mut letters = escape.chars();
                let letter = letters.next();
                if letters.next().is_some() {
                    return Err(SqlError::new(1210, "Incorrect arguments to ESCAPE"));
                }
                letter
            }
            _ => {
                let mode = (self.names.variables)(LITERALS, "escape");
                if mode.is_some() { None } else { Some('\\') }
            }
        };
        let like =
            Expr::Like { text: boxed(text.expr), pattern: boxed(pattern.expr), escape, collation };
        Ok(self.truth(if negated { Expr::Not(boxed(like)) } else { like }))
    }

    pub(super) fn rlike(
        &mut self,
        expr: &ast::Expr,
        pattern: &ast::Expr,
        negated: bool,
    ) -> Result<Typed> {
        let (text, pattern) = (self.bind(expr)?.shown(), self.bind(pattern)?.shown());
        let collation = common_collation(&[&text, &pattern])?;
        let regexp =
            Expr::Regexp { text: boxed(text.expr), pattern: boxed(pattern.expr), collation };
        Ok(self.truth(if negated { Expr::Not(boxed(regexp)) } else { regexp }))
    }
}
