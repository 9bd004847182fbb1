//! MySQL's value system: the kinds of values, how they are compared, converted and shown, and how
//! rows and keys of them are stored.
//!
//! - [`value`]: a value, owned or borrowed; [`field`]: a stored value that is passed on;
//!   [`decimal`], [`temporal`]: values with arithmetic of their own;
//! - [`mod@column`]: column types, and storing a value into one;
//! - [`collation`]: how text compares;
//! - [`convert`]: conversions between numbers, text and dates;
//! - [`row`], [`key`]: the bytes that tables and indexes hold.

pub mod collation;
pub mod column;
pub mod convert;
pub mod decimal;
pub mod field;
pub mod key;
pub mod row;
pub mod temporal;
#[cfg(test)]
mod tests;
mod text;
pub mod value;

pub use collation::Collation;
pub use column::{ColumnType, StoreError};
pub use decimal::Decimal;
pub use field::Field;
pub use temporal::{Date, DateTime, Time};
pub use value::{Value, ValueRef};
