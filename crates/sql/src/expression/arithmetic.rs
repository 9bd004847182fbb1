//! Evaluates arithmetic operators, with MySQL's result types.

use spillway_types::Value;
use spillway_types::convert::{integer, to_decimal, to_double, to_i128};

use super::Op;
use super::context::Context;
use super::operands::bits_of_value;
use crate::errors::{Result, SqlError};

impl Context<'_> {
    pub(super) fn negate(&self, value: &Value) -> Result<Value> {
        let overflow = || SqlError::out_of_range("BIGINT", &format!("-({})", value.to_text()));
        self.as_number(value, "DOUBLE")?;
        Ok(match value {
            Value::Null => Value::Null,
            Value::Int(number) => Value::Int(number.checked_neg().ok_or_else(overflow)?),
            Value::UInt(number) if *number <= 1 << 63 => Value::Int((-i128::from(*number)) as i64),
            Value::UInt(_) => return Err(overflow()),
            Value::Decimal(number) => Value::Decimal(number.neg()),
            Value::Date(_) | Value::Time(_) | Value::DateTime(_) => to_decimal(&value.as_ref())
                .map_or(Value::Null, |number| Value::Decimal(number.neg())),
            other => Value::Double(-to_double(&other.as_ref()).unwrap_or(0.0)),
        })
    }
}

pub(super) fn arithmetic(context: &Context<'_>, op: Op, a: &Value, b: &Value) -> Result<Value> {
    if a.is_null() || b.is_null() {
        return Ok(Value::Null);
    }
    let bitwise =
        matches!(op, Op::BitAnd | Op::BitOr | Op::BitXor | Op::ShiftLeft | Op::ShiftRight);
    let kind = if bitwise { "INTEGER" } else { "DOUBLE" };
    context.as_number(a, kind)?;
    context.as_number(b, kind)?;
    if bitwise {
        return Ok(of_bits(op, bits_of_value(a), bits_of_value(b)));
    }
    let whole = |value: &Value| matches!(value, Value::Int(_) | Value::UInt(_));
    let exact = |value: &Value| {
        matches!(
            value,
            Value::Int(_)
                | Value::UInt(_)
                | Value::Decimal(_)
                | Value::Date(_)
                | Value::Time(_)
                | Value::DateTime(_)
        )
    };
    let number = match op {
        _ if whole(a) && whole(b) && op != Op::Div => of_integers(op, a, b)?,
        _ if exact(a) && exact(b) => of_decimals(op, a, b)?,
        _ => of_doubles(op, a, b)?,
    };
    number.map_or_else(|| division_by_zero(context), Ok)
}

/// An operation as text, for an error message.
fn shown(op: Op, a: &Value, b: &Value) -> String {
    let sign = match op {
        Op::Add => "+",
        Op::Sub => "-",
        Op::Mul => "*",
        Op::IntDiv => "DIV",
        _ => "%",
    };
    format!("({} {sign} {})", a.to_text(), b.to_text())
}

fn of_bits(op: Op, a: u64, b: u64) -> Value {
    let shift = u32::try_from(b).unwrap_or(64);
    Value::UInt(match op {
        Op::BitAnd => a & b,
        Op::BitOr => a | b,
        Op::BitXor => a ^ b,
        Op::ShiftLeft => a.checked_shl(shift).unwrap_or(0),
        _ => a.checked_shr(shift).unwrap_or(0),
    })
}

/// An operation on integers; `None` for a division by zero.
fn of_integers(op: Op, a: &Value, b: &Value) -> Result<Option<Value>> {
    let (x, y) = (to_i128(&a.as_ref()).unwrap_or(0), to_i128(&b.as_ref()).unwrap_or(0));
    if y == 0 && matches!(op, Op::IntDiv | Op::Mod) {
        return Ok(None);
    }
    let number = match op {
        Op::Add => x + y,
        Op::Sub => x - y,
        Op::Mul => {
            x.checked_mul(y).ok_or_else(|| SqlError::out_of_range("BIGINT", &shown(op, a, b)))?
        }
        Op::IntDiv => x / y,
        _ => x % y,
    };
    let unsigned = matches!(a, Value::UInt(_)) || matches!(b, Value::UInt(_));
    if unsigned && op != Op::Mod {
        return u64::try_from(number)
            .map(|number| Some(Value::UInt(number)))
            .map_err(|_| SqlError::out_of_range("BIGINT UNSIGNED", &shown(op, a, b)));
    }
    i64::try_from(number)
        .map(Value::Int)
        .or_else(|_| if op == Op::Mod { Ok(integer(number)) } else { Err(()) })
        .map(Some)
        .map_err(|()| SqlError::out_of_range("BIGINT", &shown(op, a, b)))
}

/// An operation on exact numbers; `None` for a division by zero.
fn of_decimals(op: Op, a: &Value, b: &Value) -> Result<Option<Value>> {
    let out_of_range = || SqlError::out_of_range("DECIMAL", &shown(op, a, b));
    let (Some(x), Some(y)) = (to_decimal(&a.as_ref()), to_decimal(&b.as_ref())) else {
        return Err(out_of_range());
    };
    if y.is_zero() && matches!(op, Op::Div | Op::IntDiv | Op::Mod) {
        return Ok(None);
    }
    let number = match op {
        Op::Add => x.add(&y),
        Op::Sub => x.sub(&y),
        Op::Mul => x.mul(&y),
        Op::Div => x.quotient(&y),
        Op::IntDiv => x.quotient(&y).map(|number| number.truncate(0)),
        _ => x.rem(&y),
    };
    let number = number.ok_or_else(out_of_range)?;
    Ok(Some(match op {
        Op::IntDiv => quotient_of(number.to_i128().unwrap_or(i128::MAX), (a, b))?,
        _ => Value::Decimal(number),
    }))
}

/// An operation on doubles; `None` for a division by zero.
fn of_doubles(op: Op, a: &Value, b: &Value) -> Result<Option<Value>> {
    let (x, y) = (to_double(&a.as_ref()).unwrap_or(0.0), to_double(&b.as_ref()).unwrap_or(0.0));
    if y == 0.0 && matches!(op, Op::Div | Op::IntDiv | Op::Mod) {
        return Ok(None);
    }
    let number = match op {
        Op::Add => x + y,
        Op::Sub => x - y,
        Op::Mul => x * y,
        Op::Div => x / y,
        Op::IntDiv => return quotient_of((x / y).trunc() as i128, (a, b)).map(Some),
        _ => x % y,
    };
    if !number.is_finite() {
        return Err(SqlError::out_of_range("DOUBLE", &shown(op, a, b)));
    }
    Ok(Some(Value::Double(number)))
}

/// A whole quotient of two numbers, if it fits the result type. If either number is unsigned, the
/// quotient must not be negative.
fn quotient_of(number: i128, (a, b): (&Value, &Value)) -> Result<Value> {
    let unsigned = [a, b].iter().any(|value| matches!(value, Value::UInt(_)));
    let fits = u64::try_from(number).is_ok() || (!unsigned && i64::try_from(number).is_ok());
    if !fits {
        let kind = if unsigned { "BIGINT UNSIGNED" } else { "BIGINT" };
        return Err(SqlError::out_of_range(kind, &shown(Op::IntDiv, a, b)));
    }
    Ok(integer(number))
}

fn division_by_zero(context: &Context<'_>) -> Result<Value> {
    if context.variables.borrow().has_mode("ERROR_FOR_DIVISION_BY_ZERO") {
        context.raise(SqlError::new(1365, "Division by 0"))?;
    }
    Ok(Value::Null)
}
