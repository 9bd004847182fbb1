//! Values in a compact borrowed form, passed from storage to an output.

use crate::{Date, DateTime, Time, ValueRef};

/// A borrowed value of any kind except a decimal. It is less than half as large as a [`ValueRef`],
/// because that must hold a decimal. Code that passes columns of rows on unchanged uses fields.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Field<'a> {
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

const _: () = assert!(2 * size_of::<Field<'_>>() < size_of::<ValueRef<'_>>());

impl<'a> Field<'a> {
    /// A value as a field; `None` for a decimal.
    #[must_use]
    #[inline]
    pub fn of(value: ValueRef<'a>) -> Option<Field<'a>> {
        Some(match value {
            ValueRef::Null => Field::Null,
            ValueRef::Int(value) => Field::Int(value),
            ValueRef::UInt(value) => Field::UInt(value),
            ValueRef::Float(value) => Field::Float(value),
            ValueRef::Double(value) => Field::Double(value),
            ValueRef::Decimal(_) => return None,
            ValueRef::Text(text) => Field::Text(text),
            ValueRef::Bytes(bytes) => Field::Bytes(bytes),
            ValueRef::Date(date) => Field::Date(date),
            ValueRef::Time(time) => Field::Time(time),
            ValueRef::DateTime(at) => Field::DateTime(at),
        })
    }

    /// The value.
    #[must_use]
    #[inline]
    pub fn value(self) -> ValueRef<'a> {
        match self {
            Field::Null => ValueRef::Null,
            Field::Int(value) => ValueRef::Int(value),
            Field::UInt(value) => ValueRef::UInt(value),
            Field::Float(value) => ValueRef::Float(value),
            Field::Double(value) => ValueRef::Double(value),
            Field::Text(text) => ValueRef::Text(text),
            Field::Bytes(bytes) => ValueRef::Bytes(bytes),
            Field::Date(date) => ValueRef::Date(date),
            Field::Time(time) => ValueRef::Time(time),
            Field::DateTime(at) => ValueRef::DateTime(at),
        }
    }
}

impl<'a> From<Field<'a>> for ValueRef<'a> {
    #[inline]
    fn from(field: Field<'a>) -> ValueRef<'a> {
        field.value()
    }
}
