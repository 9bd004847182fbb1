//! MySQL's value system: the kinds of values, their comparison, conversion and text form, and the
//! storage of rows and keys.
//!
//! - [`value`]: a value, owned or borrowed; [`field`]: a stored value in compact form; [`decimal`],
//!   [`temporal`]: values with their own arithmetic; [`double`]: doubles as text;
//! - [`mod@column`]: column types, and the conversion of values to the form in which a column
//!   stores them;
//! - [`collation`]: the comparison of text;
//! - [`convert`]: conversions between numbers, text and dates;
//! - [`row`], [`key`]: the bytes of rows and index keys.

pub mod collation;
pub mod column;
pub mod convert;
pub mod decimal;
pub mod double;
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
