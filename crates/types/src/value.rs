//! A value, owned or borrowed.

use crate::double::{format_double, format_float};
use crate::{Date, DateTime, Decimal, Time};

/// A value that owns its bytes.
#[derive(Clone, Debug, Default)]
pub enum Value {
    /// NULL.
    #[default]
    Null,
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// A float.
    Float(f32),
    /// A double.
    Double(f64),
    /// An exact decimal.
    Decimal(Decimal),
    /// Text.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A date.
    Date(Date),
    /// A span of time.
    Time(Time),
    /// A date and a time.
    DateTime(DateTime),
}

/// A value that borrows its bytes.
#[derive(Clone, Copy, Debug)]
pub enum ValueRef<'a> {
    /// NULL.
    Null,
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// A float.
    Float(f32),
    /// A double.
    Double(f64),
    /// An exact decimal.
    Decimal(Decimal),
    /// Text.
    Text(&'a str),
    /// Bytes.
    Bytes(&'a [u8]),
    /// A date.
    Date(Date),
    /// A span of time.
    Time(Time),
    /// A date and a time.
    DateTime(DateTime),
}

impl Value {
    /// The value, borrowed.
    #[must_use]
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Value::Null => ValueRef::Null,
            Value::Int(number) => ValueRef::Int(*number),
            Value::UInt(number) => ValueRef::UInt(*number),
            Value::Float(number) => ValueRef::Float(*number),
            Value::Double(number) => ValueRef::Double(*number),
            Value::Decimal(number) => ValueRef::Decimal(*number),
            Value::Text(text) => ValueRef::Text(text),
            Value::Bytes(bytes) => ValueRef::Bytes(bytes),
            Value::Date(date) => ValueRef::Date(*date),
            Value::Time(time) => ValueRef::Time(*time),
            Value::DateTime(at) => ValueRef::DateTime(*at),
        }
    }

    /// Whether it is NULL.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// The text that a client sees; empty for NULL.
    #[must_use]
    pub fn to_text(&self) -> String {
        if let Value::Text(text) = self {
            return text.clone();
        }
        let mut out = Vec::new();
        write_text(&self.as_ref(), &mut out);
        String::from_utf8(out)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Value {
        Value::Int(truth.into())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::Text(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Int(number)
    }
}

impl From<u64> for Value {
    fn from(number: u64) -> Value {
        Value::UInt(number)
    }
}

impl ValueRef<'_> {
    /// The value, owned.
    #[must_use]
    pub fn to_owned(&self) -> Value {
        match *self {
            ValueRef::Null => Value::Null,
            ValueRef::Int(number) => Value::Int(number),
            ValueRef::UInt(number) => Value::UInt(number),
            ValueRef::Float(number) => Value::Float(number),
            ValueRef::Double(number) => Value::Double(number),
            ValueRef::Decimal(number) => Value::Decimal(number),
            ValueRef::Text(text) => Value::Text(text.to_owned()),
            ValueRef::Bytes(bytes) => Value::Bytes(bytes.to_owned()),
            ValueRef::Date(date) => Value::Date(date),
            ValueRef::Time(time) => Value::Time(time),
            ValueRef::DateTime(at) => Value::DateTime(at),
        }
    }

    /// Copies this into `value`, and reuses its memory if possible.
    pub fn clone_into(&self, value: &mut Value) {
        match (*self, value) {
            (ValueRef::Text(from), Value::Text(to)) => {
                to.clear();
                to.push_str(from);
            }
            (ValueRef::Bytes(from), Value::Bytes(to)) => {
                to.clear();
                to.extend_from_slice(from);
            }
            (_, to) => *to = self.to_owned(),
        }
    }

    /// Whether the value is NULL.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, ValueRef::Null)
    }
}

/// Appends the text that a client sees. NULL appends nothing.
pub fn write_text(value: &ValueRef<'_>, out: &mut Vec<u8>) {
    match *value {
        ValueRef::Null => {}
        ValueRef::Int(number) => {
            out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes())
        }
        ValueRef::UInt(number) => {
            out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes())
        }
        ValueRef::Float(number) => out.extend_from_slice(format_float(number).as_bytes()),
        ValueRef::Double(number) => out.extend_from_slice(format_double(number).as_bytes()),
        ValueRef::Decimal(number) => out.extend_from_slice(number.to_string().as_bytes()),
        ValueRef::Text(text) => out.extend_from_slice(text.as_bytes()),
        ValueRef::Bytes(bytes) => out.extend_from_slice(bytes),
        ValueRef::Date(date) => out.extend_from_slice(date.to_string().as_bytes()),
        ValueRef::Time(time) => out.extend_from_slice(time.format(time.digits()).as_bytes()),
        ValueRef::DateTime(at) => out.extend_from_slice(at.format(at.digits()).as_bytes()),
    }
}
