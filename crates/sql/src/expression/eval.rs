//! Evaluates expressions, with MySQL's conversions.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::Arc;

use smallvec::SmallVec;
use spillway_types::{Collation, ColumnType, Value};

use super::arithmetic::arithmetic;
use super::context::Context;
use super::functions::MatchOptions;
use super::list::{List, RowParts, row_parts};
use super::operands::{bits_of_value, bytes_of, member};
use super::shape::{Fit, show};
use super::value_memory::length;
use super::{Expr, Op, Question, functions};
use crate::errors::{Result, SqlError};
use crate::parser::on_enough_stack;

impl Context<'_> {
    /// Whether a condition holds for a row.
    pub(crate) fn holds(&self, condition: &Expr, row: &[Value]) -> Result<bool> {
        Ok(self.truth(&*self.value(condition, row)?)? == Some(true))
    }

    /// The value of an expression over a row.
    pub(crate) fn eval(&self, expr: &Expr, row: &[Value]) -> Result<Value> {
        Ok(self.value(expr, row)?.into_owned())
    }

    /// The value of an expression over a row, borrowed if it is a column or a constant.
    pub(crate) fn value<'v>(&'v self, expr: &'v Expr, row: &'v [Value]) -> Result<Cow<'v, Value>> {
        Ok(match expr {
            Expr::Const(value) => Cow::Borrowed(value),
            Expr::Column(slot) => Cow::Borrowed(&row[*slot]),
            Expr::Param(index) => Cow::Borrowed(
                self.params
                    .get(*index)
                    .ok_or_else(|| SqlError::new(1210, "Incorrect arguments to EXECUTE"))?,
            ),
            other => {
                let evaluate = || on_enough_stack(|| self.compute(other, row));
                Cow::Owned(self.held_value(evaluate)?)
            }
        })
    }

    /// The value of an expression for an index lookup. A text that is used as a number raises no
    /// warning here, because the comparison with each row raises it.
    pub(crate) fn sought<'v>(&'v self, expr: &'v Expr, row: &'v [Value]) -> Result<Cow<'v, Value>> {
        let Expr::Fitted(e, Fit::Exact) = expr else { return self.value(expr, row) };
        let value = self.value(e, row)?;
        Ok(match Fit::Exact.of(&value)? {
            Some(number) => Cow::Owned(number),
            None => value,
        })
    }

    /// A value converted as `fit` says; `None` if it stays unchanged. A text that is no number
    /// raises a warning, or an error if rows are changed in strict mode.
    pub(crate) fn taken_as(&self, value: &Value, fit: Fit) -> Result<Option<Value>> {
        if fit == Fit::Exact {
            self.as_number(value, "DECIMAL")?;
        }
        fit.of(value)
    }

    fn compute(&self, expr: &Expr, row: &[Value]) -> Result<Value> {
        match expr {
            Expr::Const(_) | Expr::Column(_) | Expr::Param(_) => self.eval(expr, row),
            Expr::Outer(depth, slot) => Ok(self.of_outer_row(*depth, *slot)),
            Expr::UserVariable(name) => {
                Ok(self.variables.borrow().user.get(name).cloned().unwrap_or_default())
            }
            Expr::Assign(name, value) => {
                let value = self.eval(value, row)?;
                self.variables.borrow_mut().user.assign(name, value.clone())?;
                Ok(value)
            }
            Expr::Inserted(column) => {
                Ok(self.inserted.borrow().get(*column).cloned().unwrap_or_default())
            }
            Expr::Binary(op, a, b, collation) => self.binary(*op, a, b, *collation, row),
            Expr::Not(e) => Ok(match self.truth(self.value(e, row)?.as_ref())? {
                Some(is) => Value::from(!is),
                None => Value::Null,
            }),
            Expr::Neg(e) => self.negate(self.value(e, row)?.as_ref()),
            Expr::BitNot(e) => Ok(match self.value(e, row)?.as_ref() {
                Value::Null => Value::Null,
                value => Value::UInt(!bits_of_value(value)),
            }),
            Expr::IsNull(e) => Ok(Value::from(self.value(e, row)?.is_null())),
            Expr::IsTruth(e, wanted) => {
                Ok(Value::from(self.truth(self.value(e, row)?.as_ref())? == Some(*wanted)))
            }
            Expr::Tuple(_) => Err(SqlError::new(1241, "Operand should contain 1 column(s)")),
            Expr::In(e, list) => self.in_list(e, list, row),
            Expr::Like { text, pattern, escape, collation } => {
                let (text, pattern) = (self.value(text, row)?, self.value(pattern, row)?);
                // A byte that counts as a character may take two bytes.
                self.hold_if_large(2 * (length(&text) + length(&pattern)))?;
                Ok(like(&text, &pattern, *escape, *collation))
            }
            Expr::Regexp { text, pattern, collation } => {
                let (text, pattern) = (self.value(text, row)?, self.value(pattern, row)?);
                self.matches(&text, &pattern, *collation)
            }
            Expr::Case { operand, branches, otherwise, collation } => {
                self.case(operand.as_deref(), branches, otherwise.as_deref(), *collation, row)
            }
            Expr::Fitted(e, fit) => {
                let value = self.value(e, row)?;
                Ok(self.taken_as(&value, *fit)?.unwrap_or_else(|| value.into_owned()))
            }
            Expr::Cast(e, ty) => {
                let value = self.value(e, row)?;
                let made = if let ColumnType::Binary(bytes) = ty { *bytes as usize } else { 0 };
                self.hold_if_large(2 * length(&value) + made)?;
                self.cast(&value, ty)
            }
            Expr::Member(e, ty) => Ok(member(self.value(e, row)?.as_ref(), ty)),
            Expr::Shown(e, ty) => Ok(show(self.value(e, row)?.as_ref(), ty)),
            Expr::Collated(e) => self.eval(e, row),
            Expr::Call(call, args, collation) => {
                functions::call(self, *call, args, *collation, row)
            }
            Expr::Interval { date, amount, unit, negative } => {
                let (date, amount) = (self.value(date, row)?, self.value(amount, row)?);
                functions::add_interval(self, &date, &amount, unit, *negative)
            }
            Expr::Subquery { plan, ask, left, collations, exact } => {
                let question = Question { ask: *ask, left: left.as_deref(), collations, exact };
                self.held_query(|| plan.answer(self, &question, row))
            }
        }
    }

    /// A value of the current row of an outer query.
    fn of_outer_row(&self, depth: usize, slot: usize) -> Value {
        let outer = self.outer.borrow();
        let at = outer.len().checked_sub(depth).and_then(|at| outer.get(at));
        at.and_then(|row| row.get(slot)).cloned().unwrap_or_default()
    }

    /// Whether a text matches a regular expression.
    fn matches(&self, text: &Value, pattern: &Value, collation: Collation) -> Result<Value> {
        if text.is_null() || pattern.is_null() {
            return Ok(Value::Null);
        }
        self.hold_if_large(length(text) + length(pattern))?;
        let regex = self.patterns.get(&pattern.to_text(), MatchOptions::of(collation))?;
        Ok(Value::from(regex.is_match(&text.to_text())))
    }

    fn case(
        &self,
        operand: Option<&Expr>,
        branches: &[(Expr, Expr)],
        otherwise: Option<&Expr>,
        collation: Collation,
        row: &[Value],
    ) -> Result<Value> {
        let operand = operand.map(|e| self.value(e, row)).transpose()?;
        for (when, then) in branches {
            let when = self.value(when, row)?;
            let hit = match &operand {
                Some(operand) => self.compare(operand, &when, collation)? == Some(Ordering::Equal),
                None => self.truth(&when)? == Some(true),
            };
            if hit {
                return self.eval(then, row);
            }
        }
        otherwise.map_or(Ok(Value::Null), |e| self.eval(e, row))
    }

    fn in_list(&self, e: &Expr, list: &Arc<List>, row: &[Value]) -> Result<Value> {
        let left = row_parts(e).iter().map(|part| self.value(part, row));
        let left = left.collect::<Result<SmallVec<[_; 2]>>>()?;
        let left: RowParts<'_> = left.iter().map(|part| part.as_ref().as_ref()).collect();
        Ok(self.is_in(list, &left, row)?.map_or(Value::Null, Value::from))
    }

    /// The result of comparing two expressions; `None` if it is unknown.
    fn compare_exprs(
        &self,
        op: Op,
        a: &Expr,
        b: &Expr,
        collation: Collation,
        row: &[Value],
    ) -> Result<Option<bool>> {
        let (a, b) = (self.value(a, row)?, self.value(b, row)?);
        if op == Op::NullEq && (a.is_null() || b.is_null()) {
            return Ok(Some(a.is_null() && b.is_null()));
        }
        let is = self.compare(&a, &b, collation)?.map(|order| op.accepts(order));
        // Values that cannot be compared, such as a time and text that is no time, are not the
        // same.
        Ok(if op == Op::NullEq { Some(is == Some(true)) } else { is })
    }

    fn binary(
        &self,
        op: Op,
        a: &Expr,
        b: &Expr,
        collation: Collation,
        row: &[Value],
    ) -> Result<Value> {
        if op.is_comparison() {
            let is = self.compare_exprs(op, a, b, collation, row)?;
            return Ok(is.map_or(Value::Null, Value::from));
        }
        match op {
            Op::And | Op::Or => {
                // An operand with this value decides the result, whatever the other operand is.
                let decisive = op == Op::Or;
                let left = self.truth(&*self.value(a, row)?)?;
                if left == Some(decisive) {
                    return Ok(Value::from(decisive));
                }
                let right = self.truth(&*self.value(b, row)?)?;
                Ok(match (left, right) {
                    (_, Some(right)) if right == decisive => Value::from(decisive),
                    (Some(_), Some(_)) => Value::from(!decisive),
                    _ => Value::Null,
                })
            }
            Op::Xor => {
                let left = self.truth(&*self.value(a, row)?)?;
                let right = self.truth(&*self.value(b, row)?)?;
                Ok(match (left, right) {
                    (Some(a), Some(b)) => Value::from(a != b),
                    _ => Value::Null,
                })
            }
            _ => {
                let (a, b) = (self.value(a, row)?, self.value(b, row)?);
                arithmetic(self, op, &a, &b)
            }
        }
    }
}

fn like(text: &Value, pattern: &Value, escape: Option<char>, collation: Collation) -> Value {
    if text.is_null() || pattern.is_null() {
        return Value::Null;
    }
    // With bytes, each byte counts as a character.
    let read = |value: &Value| match collation {
        Collation::Binary => bytes_of(value).into_iter().map(char::from).collect(),
        _ => value.to_text(),
    };
    Value::from(collation.like(&read(text), &read(pattern), escape))
}
