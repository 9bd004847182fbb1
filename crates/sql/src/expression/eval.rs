//! Evaluation, with MySQL's conversions.

use std::any::Any;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;
use spillway::Transaction;
use spillway_types::convert::{self, to_datetime, to_decimal, to_double, to_time, truth};
use spillway_types::{Collation, ColumnType, DateTime, Value, ValueRef};

use super::arithmetic::arithmetic;
use super::list::{Index, List, Parts, row_parts};
use super::room::Room;
use super::shape::{Fit, show};
use super::{Expr, Op, Question, Server, functions};
use crate::catalog::{Catalog, utc};
use crate::errors::{Result, SqlError};
use crate::parser::on_enough_stack;
use crate::variables::Variables;

/// What an expression is evaluated in, beside its row.
pub(crate) struct Context<'a> {
    pub(crate) txn: &'a Transaction,
    pub(crate) server: &'a dyn Server,
    pub(crate) catalog: &'a Catalog,
    pub(crate) variables: &'a RefCell<Variables>,
    pub(crate) params: &'a [Value],
    pub(crate) room: &'a Room,
    /// The rows of enclosing queries, the nearest last.
    pub(crate) outer: RefCell<Vec<Vec<Value>>>,
    /// Results of subqueries that depend on nothing outside, by the numbers of their plans: the
    /// executor's.
    pub(crate) cached: RefCell<HashMap<usize, Rc<dyn Any>>>,
    /// What it has found out about lists of IN, by where they are.
    pub(crate) lists: RefCell<HashMap<usize, Rc<Index>, FxBuildHasher>>,
    /// The row that an INSERT would have made.
    pub(crate) inserted: RefCell<Vec<Value>>,
    /// Since 1970, in the session's time zone: when the statement began.
    pub(crate) now_micros: i64,
    /// The same, once somebody has asked.
    pub(crate) now: Cell<Option<DateTime>>,
    pub(crate) warnings: RefCell<Vec<SqlError>>,
    /// Rows of a query that counts them beyond its limit.
    pub(crate) found: Cell<u64>,
    /// Whether a row was not in memory that was looked up by its primary key, where somebody asks
    /// for that.
    pub(crate) missed: Cell<Option<bool>>,
    /// Rows that its scans met since it was last asked whether it was ended.
    pub(crate) met: Cell<usize>,
    /// Rows that had changed when they were locked since they were found (`executor/to_lock`).
    pub(crate) moved: Cell<u64>,
    /// Whether the statement may start over for a row that is gone.
    pub(crate) starts_over: bool,
    /// Whether what its queries read is locked shared.
    pub(crate) shares: bool,
    /// When a query must have ended, by the clock: `max_execution_time`.
    pub(crate) deadline: Option<Duration>,
    /// Whether a strict change is under way: what else is a warning is an error then.
    pub(crate) strict: Cell<bool>,
    pub(crate) patterns: functions::Patterns,
}

impl Context<'_> {
    /// The same, with other parameters. Its warnings are its own.
    pub(crate) fn with_params<'b>(&'b self, params: &'b [Value]) -> Context<'b> {
        Context {
            params,
            met: Cell::new(0),
            moved: self.moved.clone(),
            outer: RefCell::default(),
            cached: RefCell::default(),
            lists: RefCell::default(),
            inserted: RefCell::default(),
            warnings: RefCell::default(),
            found: Cell::new(0),
            missed: Cell::new(None),
            now: self.now.clone(),
            strict: self.strict.clone(),
            patterns: functions::Patterns::default(),
            ..*self
        }
    }

    /// When the statement began, in the session's time zone.
    pub(crate) fn now(&self) -> DateTime {
        let now = self.now.get().unwrap_or_else(|| utc(self.now_micros));
        self.now.set(Some(now));
        now
    }

    pub(crate) fn warn(&self, error: SqlError) {
        let mut warnings = self.warnings.borrow_mut();
        if warnings.len() < 1024 {
            warnings.push(error);
        }
    }

    /// A warning, or in a strict change an error.
    pub(crate) fn raise(&self, error: SqlError) -> Result<()> {
        if self.strict.get() {
            return Err(error);
        }
        self.warn(error);
        Ok(())
    }

    /// Notes that text which is no number is taken as one.
    pub(crate) fn as_number(&self, value: &Value, kind: &str) -> Result<()> {
        let text = match value {
            Value::Text(text) => text.as_bytes(),
            Value::Bytes(bytes) => bytes.as_slice(),
            _ => return Ok(()),
        };
        if convert::number_prefix(text).1 {
            return Ok(());
        }
        let shown: String = String::from_utf8_lossy(text).chars().take(128).collect();
        self.raise(SqlError::new(1292, format!("Truncated incorrect {kind} value: '{shown}'")))
    }

    /// Whether a condition holds of a row.
    pub(crate) fn holds(&self, condition: &Expr, row: &[Value]) -> Result<bool> {
        Ok(self.truth(&*self.value(condition, row)?)? == Some(true))
    }

    /// Whether a value counts as true; `None` for NULL.
    pub(super) fn truth(&self, value: &Value) -> Result<Option<bool>> {
        self.as_number(value, "DOUBLE")?;
        Ok(truth(&value.as_ref()))
    }

    /// Compares, and notes text that is compared as a number.
    pub(crate) fn compare(
        &self,
        a: &Value,
        b: &Value,
        collation: Collation,
    ) -> Result<Option<Ordering>> {
        let number = |value: &Value| {
            matches!(
                value,
                Value::Int(_)
                    | Value::UInt(_)
                    | Value::Float(_)
                    | Value::Double(_)
                    | Value::Decimal(_)
            )
        };
        if number(a) {
            self.as_number(b, "DOUBLE")?;
        } else if number(b) {
            self.as_number(a, "DOUBLE")?;
        }
        // A time of day beside a date is one of today.
        let today = |value: &Value| match value {
            Value::Time(time) => DateTime::from_micros_of(self.now().date, time.micros),
            _ => None,
        };
        Ok(match (a, b) {
            (Value::Time(_), Value::Date(_) | Value::DateTime(_)) => {
                compare(&today(a).map_or(Value::Null, Value::DateTime), b, collation)
            }
            (Value::Date(_) | Value::DateTime(_), Value::Time(_)) => {
                compare(a, &today(b).map_or(Value::Null, Value::DateTime), collation)
            }
            _ => compare(a, b, collation),
        })
    }

    /// Compares a stored value with another: the common kinds at once, the others as
    /// [`Context::compare`] does.
    pub(crate) fn compare_stored(
        &self,
        a: ValueRef<'_>,
        b: &Value,
        collation: Collation,
    ) -> Result<Option<Ordering>> {
        Ok(Some(match (a, b) {
            (ValueRef::Null, _) | (_, Value::Null) => return Ok(None),
            (ValueRef::Int(a), Value::Int(b)) => a.cmp(b),
            (ValueRef::UInt(a), Value::UInt(b)) => a.cmp(b),
            (ValueRef::Int(a), Value::UInt(b)) => i128::from(a).cmp(&i128::from(*b)),
            (ValueRef::UInt(a), Value::Int(b)) => i128::from(a).cmp(&i128::from(*b)),
            (ValueRef::Text(a), Value::Text(b)) => collation.compare(a.as_bytes(), b.as_bytes()),
            (ValueRef::Bytes(a), Value::Bytes(b)) => a.cmp(b),
            (a, b) => return self.compare(&a.to_owned(), b, collation),
        }))
    }

    pub(crate) fn check_killed(&self) -> Result<()> {
        if self.txn.is_cancelled() {
            self.txn.cancel_handle().clear();
            return Err(SqlError::new(1317, "Query execution was interrupted"));
        }
        if self.deadline.is_some_and(|deadline| spillway_base::clock::now() >= deadline) {
            return Err(SqlError::new(
                3024,
                "Query execution was interrupted, maximum statement execution time exceeded",
            ));
        }
        Ok(())
    }

    /// The value of an expression over a row.
    pub(crate) fn eval(&self, expr: &Expr, row: &[Value]) -> Result<Value> {
        Ok(self.value(expr, row)?.into_owned())
    }

    /// The value of an expression over a row, borrowed where it is a column or a constant.
    pub(crate) fn value<'v>(&'v self, expr: &'v Expr, row: &'v [Value]) -> Result<Cow<'v, Value>> {
        Ok(match expr {
            Expr::Const(value) => Cow::Borrowed(value),
            Expr::Column(slot) => Cow::Borrowed(&row[*slot]),
            Expr::Param(index) => Cow::Borrowed(
                self.params
                    .get(*index)
                    .ok_or_else(|| SqlError::new(1210, "Incorrect arguments to EXECUTE"))?,
            ),
            other => Cow::Owned(on_enough_stack(|| self.compute(other, row))?),
        })
    }

    /// The value that an expression is sought by: of a text that is taken as a number, without a
    /// warning, which is for the rows that it is compared with.
    pub(crate) fn sought<'v>(&'v self, expr: &'v Expr, row: &'v [Value]) -> Result<Cow<'v, Value>> {
        let Expr::Fitted(e, Fit::Exact) = expr else { return self.value(expr, row) };
        let value = self.value(e, row)?;
        Ok(match Fit::Exact.of(&value)? {
            Some(number) => Cow::Owned(number),
            None => value,
        })
    }

    /// A value as `fit` takes it; `None` where it stays what it is. A text that is no number
    /// raises a warning, or an error in a strict change.
    pub(crate) fn taken_as(&self, value: &Value, fit: Fit) -> Result<Option<Value>> {
        if fit == Fit::Exact {
            self.as_number(value, "DECIMAL")?;
        }
        fit.of(value)
    }

    fn compute(&self, expr: &Expr, row: &[Value]) -> Result<Value> {
        match expr {
            Expr::Const(_) | Expr::Column(_) | Expr::Param(_) => self.eval(expr, row),
            Expr::Outer(depth, slot) => {
                let outer = self.outer.borrow();
                let at = outer.len().checked_sub(*depth).and_then(|at| outer.get(at));
                Ok(at.and_then(|row| row.get(*slot)).cloned().unwrap_or_default())
            }
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
                value => Value::UInt(!functions::bits_of_value(value)),
            }),
            Expr::IsNull(e) => Ok(Value::from(self.value(e, row)?.is_null())),
            Expr::IsTruth(e, wanted) => {
                Ok(Value::from(self.truth(self.value(e, row)?.as_ref())? == Some(*wanted)))
            }
            Expr::Tuple(_) => Err(SqlError::new(1241, "Operand should contain 1 column(s)")),
            Expr::In(e, list) => self.in_list(e, list, row),
            Expr::Like { text, pattern, escape, collation } => {
                let (text, pattern) = (self.value(text, row)?, self.value(pattern, row)?);
                if text.is_null() || pattern.is_null() {
                    return Ok(Value::Null);
                }
                Ok(Value::from(collation.like(&text.to_text(), &pattern.to_text(), *escape)))
            }
            Expr::Regexp { text, pattern, collation } => {
                let (text, pattern) = (self.value(text, row)?, self.value(pattern, row)?);
                if text.is_null() || pattern.is_null() {
                    return Ok(Value::Null);
                }
                let regex = self.patterns.get(&pattern.to_text(), *collation)?;
                Ok(Value::from(regex.is_match(&text.to_text())))
            }
            Expr::Case { operand, branches, otherwise, collation } => {
                let operand = operand.as_ref().map(|e| self.value(e, row)).transpose()?;
                for (when, then) in branches {
                    let when = self.value(when, row)?;
                    let hit = match &operand {
                        Some(operand) => {
                            self.compare(operand, &when, *collation)? == Some(Ordering::Equal)
                        }
                        None => self.truth(&when)? == Some(true),
                    };
                    if hit {
                        return self.eval(then, row);
                    }
                }
                otherwise.as_ref().map_or(Ok(Value::Null), |e| self.eval(e, row))
            }
            Expr::Fitted(e, fit) => {
                let value = self.value(e, row)?;
                Ok(self.taken_as(&value, *fit)?.unwrap_or_else(|| value.into_owned()))
            }
            Expr::Cast(e, ty) => {
                let value = self.value(e, row)?;
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
                plan.answer(self, &question, row)
            }
        }
    }

    fn in_list(&self, e: &Expr, list: &Arc<List>, row: &[Value]) -> Result<Value> {
        let left = row_parts(e).iter().map(|part| self.value(part, row));
        let left = left.collect::<Result<SmallVec<[_; 2]>>>()?;
        let left: Parts<'_> = left.iter().map(|part| part.as_ref().as_ref()).collect();
        Ok(self.is_in(list, &left, row)?.map_or(Value::Null, Value::from))
    }

    /// What a comparison of two expressions says; `None` where it is not known.
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
        // What does not compare, as text that is no time, is not the same.
        Ok(if op == Op::NullEq { Some(is == Some(true)) } else { is })
    }

    /// What a comparison of two rows says.
    pub(crate) fn compare_rows(
        &self,
        op: Op,
        left: &[Value],
        right: &[Value],
        collations: &[Collation],
    ) -> Result<Option<bool>> {
        let mut unknown = false;
        for ((a, b), collation) in left.iter().zip(right).zip(collations) {
            if op == Op::NullEq && (a.is_null() || b.is_null()) {
                if a.is_null() && b.is_null() {
                    continue;
                }
                return Ok(Some(false));
            }
            match self.compare(a, b, *collation)? {
                Some(Ordering::Equal) => {}
                // The first parts that differ decide, and one that is not known leaves all unknown
                // but for equality.
                Some(order) => return Ok(Some(op.accepts(order))),
                None if matches!(op, Op::Eq | Op::NotEq) => unknown = true,
                None => return Ok(if op == Op::NullEq { Some(false) } else { None }),
            }
        }
        Ok(if unknown { None } else { Some(op.accepts(Ordering::Equal)) })
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
                // This value decides the outcome, on either side.
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

pub(super) fn member(value: &Value, ty: &ColumnType) -> Value {
    let Value::Text(text) = value else { return value.clone() };
    match ty {
        ColumnType::Enum(names) => {
            let at = names.iter().position(|name| name == text);
            Value::UInt(at.map_or(0, |at| at as u64 + 1))
        }
        ColumnType::Set(names) => {
            let chosen =
                text.split(',').filter_map(|part| names.iter().position(|name| name == part));
            Value::UInt(chosen.fold(0, |bits, at| bits | 1 << at))
        }
        _ => value.clone(),
    }
}

/// Whether a value counts as true in a condition.
pub(crate) fn truth_of(value: &Value) -> bool {
    truth(&value.as_ref()) == Some(true)
}

/// Compares as MySQL does: texts by collation, numbers exactly where both are exact, dates as
/// dates, and everything else as doubles. `None` where either is NULL.
pub(crate) fn compare(a: &Value, b: &Value, collation: Collation) -> Option<Ordering> {
    use Value::{Bytes, Date, DateTime, Decimal, Double, Int, Null, Text, Time, UInt};
    Some(match (a, b) {
        (Null, _) | (_, Null) => return None,
        (Int(a), Int(b)) => a.cmp(b),
        (UInt(a), UInt(b)) => a.cmp(b),
        (Int(a), UInt(b)) => i128::from(*a).cmp(&i128::from(*b)),
        (UInt(a), Int(b)) => i128::from(*a).cmp(&i128::from(*b)),
        (Text(a), Text(b)) => collation.compare(a.as_bytes(), b.as_bytes()),
        (Bytes(a), Bytes(b)) => a.cmp(b),
        (Text(a), Bytes(b)) => a.as_bytes().cmp(b),
        (Bytes(a), Text(b)) => a.as_slice().cmp(b.as_bytes()),
        (Date(_) | DateTime(_), Date(_) | DateTime(_) | Text(_))
        | (Text(_), Date(_) | DateTime(_)) => {
            match (to_datetime(&a.as_ref()), to_datetime(&b.as_ref())) {
                (Some(a), Some(b)) => a.cmp(&b),
                // Text that is no date compares with none.
                _ => return None,
            }
        }
        (Time(_), Time(_) | Text(_)) | (Text(_), Time(_)) => {
            match (to_time(&a.as_ref()), to_time(&b.as_ref())) {
                (Some(a), Some(b)) => a.cmp(&b),
                _ => return None,
            }
        }
        (Double(_) | Text(_) | Bytes(_), _) | (_, Double(_) | Text(_) | Bytes(_)) => {
            return to_double(&a.as_ref())?.partial_cmp(&to_double(&b.as_ref())?);
        }
        (Int(_) | UInt(_) | Decimal(_), Int(_) | UInt(_) | Decimal(_)) => {
            to_decimal(&a.as_ref())?.cmp(&to_decimal(&b.as_ref())?)
        }
        _ => return to_double(&a.as_ref())?.partial_cmp(&to_double(&b.as_ref())?),
    })
}

/// The text of a value, for functions.
pub(super) fn text(value: &Value) -> String {
    value.to_text()
}

pub(super) fn number(value: &Value) -> f64 {
    to_double(&value.as_ref()).unwrap_or(0.0)
}

pub(super) fn whole(value: &Value) -> i64 {
    match convert::to_integer(&value.as_ref()) {
        Value::Int(number) => number,
        Value::UInt(number) => i64::try_from(number).unwrap_or(i64::MAX),
        _ => 0,
    }
}
