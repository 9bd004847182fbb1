//! Conversion of operands to texts, numbers, bits and truth values, and comparison of operands.

use std::cmp::Ordering;

use spillway_types::convert::{self, to_datetime, to_decimal, to_double, to_i128, to_time, truth};
use spillway_types::{Collation, ColumnType, Value};

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

/// Compares as MySQL does: texts by collation, numbers exactly if both are exact, dates as dates,
/// and everything else as doubles. `None` if either is NULL.
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
                // Text that is no date cannot be compared with a date.
                _ => return None,
            }
        }
        (Time(_), Time(_) | Text(_)) | (Text(_), Time(_)) => {
            match (to_time(&a.as_ref()), to_time(&b.as_ref())) {
                (Some(a), Some(b)) => a.cmp(&b),
                // A time and a text that is no time are compared as text.
                _ => collation.compare(a.to_text().as_bytes(), b.to_text().as_bytes()),
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

pub(super) fn bytes_of(value: &Value) -> Vec<u8> {
    match value {
        Value::Bytes(bytes) => bytes.clone(),
        other => text(other).into_bytes(),
    }
}

/// The 64 bits of a value, as an operand of a bit operation.
pub(crate) fn bits_of_value(value: &Value) -> u64 {
    let number = to_i128(&value.as_ref()).unwrap_or(0);
    match value {
        Value::Float(_) | Value::Double(_) => bits_of(number.min(i64::MAX.into())),
        _ => bits_of(number),
    }
}

/// The 64 bits of a number, limited to the possible range.
pub(crate) fn bits_of(number: i128) -> u64 {
    if number < 0 {
        number.max(i64::MIN.into()) as u64
    } else {
        u64::try_from(number).unwrap_or(u64::MAX)
    }
}
