//! Evaluates CAST and CONVERT.

use spillway_types::column::IntWidth;
use spillway_types::convert::{self, to_datetime, to_i128, to_time};
use spillway_types::temporal::TIME_MAX_MICROS;
use spillway_types::{ColumnType, DateTime, StoreError, Time, Value};

use super::context::{Context, wrong_value};
use super::operands::bits_of;
use crate::errors::{Result, SqlError};

/// 838:59:59 as a number.
const TIME_NUMBER_MAX: f64 = 8_385_959.0;

impl Context<'_> {
    pub(crate) fn cast(&self, value: &Value, ty: &ColumnType) -> Result<Value> {
        if value.is_null() {
            return Ok(Value::Null);
        }
        Ok(match ty {
            ColumnType::Int { width, .. } if *width != IntWidth::Big => self.fitted(ty, value),
            ColumnType::Int { unsigned, .. } => {
                if let Value::Text(_) | Value::Bytes(_) = value {
                    self.as_integer(value)?;
                }
                cast_integer(value, *unsigned)
            }
            ColumnType::Char(_)
            | ColumnType::VarChar(_)
            | ColumnType::Text(_)
            | ColumnType::Json => self.cast_text(value, ty)?,
            ColumnType::Binary(max) | ColumnType::VarBinary(max) => {
                let mut bytes = match value {
                    Value::Bytes(bytes) => bytes.clone(),
                    other => other.to_text().into_bytes(),
                };
                if bytes.len() > *max as usize {
                    self.cut(value, &format!("BINARY({max})"))?;
                    bytes.truncate(*max as usize);
                }
                if matches!(ty, ColumnType::Binary(_)) {
                    bytes.resize(*max as usize, 0);
                }
                Value::Bytes(bytes)
            }
            ColumnType::Date | ColumnType::DateTime(_) => self.cast_datetime(value, ty)?,
            ColumnType::Time(digits) => {
                let whole = to_time(&value.as_ref());
                if whole.is_none_or(|time| !time.in_range()) {
                    self.cut(value, "time")?;
                }
                let time = whole.or_else(|| match value {
                    Value::Text(_) | Value::Bytes(_) => convert::time_prefix(&value.to_text()),
                    number => longest_time(number),
                });
                time.map_or(Value::Null, |time| Value::Time(time.round(*digits).held()))
            }
            ColumnType::Decimal { .. } => {
                self.as_number(value, "DECIMAL")?;
                self.fitted(ty, value)
            }
            ColumnType::Double | ColumnType::Float => {
                self.as_number(value, "DOUBLE")?;
                self.fitted(ty, value)
            }
            other => self.fitted(other, value),
        })
    }

    /// Adds a warning that a value was truncated.
    fn cut(&self, value: &Value, kind: &str) -> Result<()> {
        let shown: String = value.to_text().chars().take(128).collect();
        self.raise(wrong_value(&format!("Truncated incorrect {kind}"), &shown))
    }

    fn cast_text(&self, value: &Value, ty: &ColumnType) -> Result<Value> {
        if let Value::Bytes(bytes) = value
            && std::str::from_utf8(bytes).is_err()
        {
            let shown = bytes.iter().take(6).map(|byte| format!("{byte:02X}"));
            let shown: String = shown.collect();
            let before = "Invalid utf8mb4 character string: '";
            self.raise(SqlError::quoting(1300, before, &shown, "'"))?;
            return Ok(Value::Null);
        }
        let text = value.to_text();
        Ok(match ty {
            ColumnType::Char(max) | ColumnType::VarChar(max) => {
                let short: String = text.chars().take(*max as usize).collect();
                if short.len() < text.len() {
                    self.cut(value, &format!("CHAR({max})"))?;
                }
                Value::Text(short)
            }
            _ => Value::Text(text),
        })
    }

    fn cast_datetime(&self, value: &Value, ty: &ColumnType) -> Result<Value> {
        let at = match value {
            Value::Time(time) => DateTime::from_micros_of(self.now().date, time.micros),
            other => to_datetime(&other.as_ref()),
        };
        let made = match ty {
            ColumnType::DateTime(digits) => {
                at.and_then(|at| at.round(*digits)).map(Value::DateTime)
            }
            _ => at.map(|at| Value::Date(at.date)),
        };
        if made.is_none() {
            let shown = value.to_text();
            self.raise(wrong_value("Incorrect datetime", &shown))?;
        }
        Ok(made.unwrap_or_default())
    }

    /// The value as a column of this type stores it. If it does not fit, the nearest value that
    /// does, with a warning.
    fn fitted(&self, ty: &ColumnType, value: &Value) -> Value {
        match ty.store(value) {
            Ok(value) => value,
            Err((why, nearest)) => {
                if why == StoreError::OutOfRange {
                    self.warn(SqlError::store(why, "cast", value, 1));
                }
                nearest
            }
        }
    }

    /// Adds a warning if text that is not an integer is converted to one.
    fn as_integer(&self, value: &Value) -> Result<()> {
        let shown = value.to_text();
        let digits = shown.trim_start().trim_start_matches(['-', '+']);
        if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(());
        }
        self.raise(wrong_value("Truncated incorrect INTEGER", &shown))
    }
}

/// The longest span, for a number with more hours than a span has; `None` if its minutes or its
/// seconds are none.
fn longest_time(number: &Value) -> Option<Time> {
    let number = convert::to_double(&number.as_ref())?.trunc();
    let is_long = number.abs() > TIME_NUMBER_MAX;
    let of_sixty = |part: f64| part.abs() < 60.0;
    // A larger double has no digits there.
    let is_time = number.abs() >= 1e15
        || (of_sixty(number % 100.0) && of_sixty((number / 100.0).trunc() % 100.0));
    let micros = if number < 0.0 { -TIME_MAX_MICROS } else { TIME_MAX_MICROS };
    (is_long && is_time).then_some(Time { micros })
}

fn cast_integer(value: &Value, unsigned: bool) -> Value {
    let number = to_i128(&value.as_ref()).unwrap_or(i128::MAX);
    match (value, unsigned) {
        (Value::Decimal(decimal), _) => {
            let number = decimal.to_i128().unwrap_or(if decimal.is_negative() {
                i128::MIN
            } else {
                i128::MAX
            });
            if unsigned {
                Value::UInt(number.clamp(0, u64::MAX.into()) as u64)
            } else {
                Value::Int(number.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
            }
        }
        (Value::Float(_) | Value::Double(_), false) => {
            Value::Int(number.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
        }
        (_, true) => Value::UInt(bits_of(number)),
        (_, false) => Value::Int(bits_of(number) as i64),
    }
}
