//! The context in which expressions are evaluated, besides the row. Operators and functions use it
//! to raise warnings and to compare values.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

use rustc_hash::FxBuildHasher;
use spillway::Transaction;
use spillway_types::convert::{self, truth};
use spillway_types::{Collation, DateTime, Value, ValueRef};

use super::functions::Patterns;
use super::list::Index;
use super::operands::compare;
use super::random::RandSequence;
use super::room::Room;
use super::value_memory::ValueMemory;
use super::{Op, Server};
use crate::catalog::{Catalog, utc};
use crate::errors::{Result, SqlError};
use crate::variables::Variables;

/// 1292: a value that is not of the kind that its use needs.
pub(super) fn wrong_value(what: &str, value: &str) -> SqlError {
    SqlError::quoting(1292, &format!("{what} value: '"), value, "'")
}

/// The context in which expressions are evaluated, besides the row.
pub(crate) struct Context<'a> {
    pub(crate) txn: &'a Transaction,
    pub(crate) server: &'a dyn Server,
    pub(crate) catalog: &'a Catalog,
    pub(crate) variables: &'a RefCell<Variables>,
    pub(crate) params: &'a [Value],
    pub(crate) room: &'a Room,
    /// The rows of enclosing queries, the innermost last.
    pub(crate) outer: RefCell<Vec<Vec<Value>>>,
    /// The rows of uncorrelated subqueries, by the number of the plan. The executor fills this.
    pub(crate) cached: RefCell<HashMap<usize, Rc<dyn Any>>>,
    /// The index that was built for each IN list, by the list's address.
    pub(crate) lists: RefCell<HashMap<usize, Rc<Index>, FxBuildHasher>>,
    /// The state of each RAND(N) whose seed is constant, by the address of the call's arguments.
    pub(crate) random: RefCell<HashMap<usize, RandSequence, FxBuildHasher>>,
    /// The row that an INSERT would have inserted, for VALUES().
    pub(crate) inserted: RefCell<Vec<Value>>,
    /// The time when the statement began, in microseconds since 1970 in the session's time zone.
    pub(crate) now_micros: i64,
    /// [`Context::now_micros`] as a date and time, once it was needed.
    pub(crate) now: Cell<Option<DateTime>>,
    pub(crate) warnings: RefCell<Vec<SqlError>>,
    /// How many rows a query with SQL_CALC_FOUND_ROWS has found, those beyond its limit included.
    pub(crate) found: Cell<u64>,
    /// Whether a lookup by primary key found that its row was not in memory; `None` if this is not
    /// tracked.
    pub(crate) missed: Cell<Option<bool>>,
    /// The rows that were scanned since the last check whether the statement must end.
    pub(crate) met: Cell<usize>,
    /// How many rows changed between being found and being locked (`executor/to_lock`).
    pub(crate) moved: Cell<u64>,
    /// Whether the statement may start over if a row that it has found is gone.
    pub(crate) starts_over: bool,
    /// Whether the statement's queries take shared locks on the rows that they read.
    pub(crate) shares: bool,
    /// The time by which a query must have ended: `max_execution_time`.
    pub(crate) deadline: Option<Duration>,
    /// Whether the statement changes rows in strict mode. Warnings about values are errors then.
    pub(crate) strict: Cell<bool>,
    pub(crate) patterns: Patterns,
    pub(crate) value_memory: ValueMemory,
}

impl Context<'_> {
    /// A copy with other parameters, and with warnings of its own.
    pub(crate) fn with_params<'b>(&'b self, params: &'b [Value]) -> Context<'b> {
        Context {
            params,
            met: Cell::new(0),
            moved: self.moved.clone(),
            outer: RefCell::default(),
            cached: RefCell::default(),
            lists: RefCell::default(),
            random: RefCell::default(),
            inserted: RefCell::default(),
            warnings: RefCell::default(),
            found: Cell::new(0),
            missed: Cell::new(None),
            now: self.now.clone(),
            strict: self.strict.clone(),
            patterns: Patterns::default(),
            value_memory: ValueMemory::default(),
            ..*self
        }
    }

    /// The time when the statement began, in the session's time zone.
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

    /// Adds a warning, or fails with it if rows are changed in strict mode.
    pub(crate) fn raise(&self, error: SqlError) -> Result<()> {
        if self.strict.get() {
            return Err(error);
        }
        self.warn(error);
        Ok(())
    }

    /// Raises a warning if text that is no number is used as one.
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
        self.raise(wrong_value(&format!("Truncated incorrect {kind}"), &shown))
    }

    /// Whether a value counts as true; `None` for NULL.
    pub(super) fn truth(&self, value: &Value) -> Result<Option<bool>> {
        self.as_number(value, "DOUBLE")?;
        Ok(truth(&value.as_ref()))
    }

    /// Compares two values. Raises a warning if text that is no number is compared as one.
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
        // A time of day that is compared with a date gets today's date.
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

    /// Compares a stored value with another. Values of the common types are compared directly,
    /// others by [`Context::compare`].
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
            return Err(SqlError::out_of_time());
        }
        Ok(())
    }

    /// The result of a comparison of two rows.
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
                // The first parts that differ decide. A part that is NULL makes the result unknown;
                // for = and <>, a later difference still decides.
                Some(order) => return Ok(Some(op.accepts(order))),
                None if matches!(op, Op::Eq | Op::NotEq) => unknown = true,
                None => return Ok(if op == Op::NullEq { Some(false) } else { None }),
            }
        }
        Ok(if unknown { None } else { Some(op.accepts(Ordering::Equal)) })
    }
}
