//! The bytes of a stored row.
//!
//! ```text
//! format    u8   1 if the schema version is 0, else 2
//! columns   u16  the number of columns in the row
//! schema    u16  the schema version under which the row was written; only in format 2
//! nulls          one bit for each column, set for NULL
//! ends      u32  for each column: where its value ends, counted from the start of the values
//! values         the columns' values, one after another; NULL has no bytes
//! ```
//!
//! All numbers are little-endian. A value begins with a byte for its kind, so a row can be read
//! without its table's types. After the kind follow:
//!
//! ```text
//!  1 signed      i64
//!  2 unsigned    u64
//!  3 double      f64
//!  4 decimal     scale u8, digits as an integer of 32 bytes
//!  5 text        UTF-8
//!  6 bytes
//!  7 date        year u16, month u8, day u8
//!  8 time        microseconds i64
//!  9 datetime    a date, then microseconds of the day u64
//! 10 float       f32
//! ```
//!
//! Each column can be read without the others. The schema version says to which columns of the
//! table the values belong; only the table's definition can interpret it. A row may lack the last
//! columns of its schema version: columns can be added at the end of a table without a new version.
//! So a reader must handle both the version and missing columns. [`widened`] converts a value that
//! was written before its column's type was widened.

use crate::{ColumnType, Date, DateTime, Decimal, Field, Time, ValueRef, text};

/// The first byte of a row of schema version 0, which does not store its version.
const PLAIN: u8 = 1;
/// The first byte of a row that stores its schema version.
const VERSIONED: u8 = 2;

/// Why bytes are not a row.
pub type RowError = &'static str;

/// The memory to reserve for a value of usual length.
const VALUE_BYTES: usize = 16;

/// Appends a row of these values, written under a version of its table's schema.
pub fn write_row<'a>(
    schema: u16,
    values: impl ExactSizeIterator<Item = ValueRef<'a>>,
    out: &mut Vec<u8>,
) {
    let columns = values.len();
    out.reserve(1 + 2 + 2 + columns.div_ceil(8) + columns * (4 + VALUE_BYTES));
    out.push(if schema == 0 { PLAIN } else { VERSIONED });
    out.extend_from_slice(&(columns as u16).to_le_bytes());
    if schema != 0 {
        out.extend_from_slice(&schema.to_le_bytes());
    }
    let nulls_at = out.len();
    let ends_at = nulls_at + columns.div_ceil(8);
    let values_at = ends_at + 4 * columns;
    out.resize(values_at, 0);
    for (column, value) in values.enumerate() {
        if value.is_null() {
            out[nulls_at + column / 8] |= 1 << (column % 8);
        }
        write_value(&value, out);
        let end = (out.len() - values_at) as u32;
        out[ends_at + 4 * column..ends_at + 4 * column + 4].copy_from_slice(&end.to_le_bytes());
    }
}

fn write_value(value: &ValueRef<'_>, out: &mut Vec<u8>) {
    let mut put = |kind: u8, bytes: &[u8]| {
        out.reserve(1 + bytes.len());
        out.push(kind);
        out.extend_from_slice(bytes);
    };
    match *value {
        ValueRef::Null => {}
        ValueRef::Int(number) => put(1, &number.to_le_bytes()),
        ValueRef::UInt(number) => put(2, &number.to_le_bytes()),
        ValueRef::Float(number) => put(10, &number.to_le_bytes()),
        ValueRef::Double(number) => put(3, &number.to_le_bytes()),
        ValueRef::Decimal(number) => put(DECIMAL, &number.to_bytes()),
        ValueRef::Text(text) => put(5, text.as_bytes()),
        ValueRef::Bytes(bytes) => put(6, bytes),
        ValueRef::Date(date) => put(7, &date_bytes(date)),
        ValueRef::Time(time) => put(8, &time.micros.to_le_bytes()),
        ValueRef::DateTime(at) => {
            put(9, &date_bytes(at.date));
            out.extend_from_slice(&at.micros.to_le_bytes());
        }
    }
}

fn date_bytes(date: Date) -> [u8; 4] {
    let [low, high] = date.year.to_le_bytes();
    [low, high, date.month, date.day]
}

/// A row, read in place.
#[derive(Clone, Copy, Debug)]
pub struct RowReader<'a> {
    bytes: &'a [u8],
    /// The offsets of the null bits, the ends and the values.
    nulls_at: u32,
    ends_at: u32,
    values_at: u32,
    columns: u16,
    schema: u16,
}

impl<'a> RowReader<'a> {
    /// Reads the head of a row.
    ///
    /// # Errors
    /// If the bytes are not a row.
    #[inline(always)]
    pub fn new(bytes: &'a [u8]) -> Result<RowReader<'a>, RowError> {
        let ([version, low, high], rest) =
            bytes.split_first_chunk().ok_or("the row has no head")?;
        let (schema, nulls_at) = match *version {
            PLAIN => (0, 3),
            VERSIONED => {
                let schema = rest.first_chunk().ok_or("the row is cut short")?;
                (u16::from_le_bytes(*schema), 5)
            }
            _ => return Err("the row is of an unknown version"),
        };
        let columns = u16::from_le_bytes([*low, *high]);
        let ends_at = nulls_at + u32::from(columns).div_ceil(8);
        let values_at = ends_at + 4 * u32::from(columns);
        if bytes.len() < values_at as usize {
            return Err("the row is cut short");
        }
        Ok(RowReader { bytes, nulls_at, ends_at, values_at, columns, schema })
    }

    /// The schema version of the table under which the row was written.
    #[must_use]
    pub fn schema(&self) -> u16 {
        self.schema
    }

    /// The number of columns that the row holds.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns.into()
    }

    /// The bytes of a column that the row holds; `None` for NULL.
    #[inline(always)]
    fn bytes(&self, column: usize) -> Result<Option<&'a [u8]>, RowError> {
        const OUTSIDE: RowError = "a column lies outside of its row";
        let nulls = self.bytes.get(self.nulls_at as usize + column / 8).ok_or(OUTSIDE)?;
        if nulls >> (column % 8) & 1 == 1 {
            return Ok(None);
        }
        let end_at = self.ends_at as usize + 4 * column;
        let (start, end) = if column == 0 {
            let end = self.bytes.get(end_at..).and_then(<[u8]>::first_chunk).ok_or(OUTSIDE)?;
            (0, u32::from_le_bytes(*end))
        } else {
            // The previous column's end, where this column begins, is stored just before this one's
            // end.
            let both = self.bytes.get(end_at - 4..).and_then(<[u8]>::first_chunk).ok_or(OUTSIDE)?;
            let both = u64::from_le_bytes(*both);
            (both as u32, (both >> 32) as u32)
        };
        let [start, end] = [start, end].map(|at| self.values_at as usize + at as usize);
        self.bytes.get(start..end).map(Some).ok_or(OUTSIDE)
    }

    /// Whether two rows of the same schema version have the same bytes for a column, or both lack
    /// the column.
    #[must_use]
    pub fn has_same(&self, other: &RowReader<'_>, column: usize) -> bool {
        match (column < self.columns(), column < other.columns()) {
            (true, true) => {
                matches!((self.bytes(column), other.bytes(column)), (Ok(own), Ok(its)) if own == its)
            }
            (own, its) => own == its,
        }
    }

    /// A column as a compact [`Field`]. `None` if the row lacks the column, and for a decimal.
    ///
    /// # Errors
    /// As [`RowReader::get`].
    #[inline(always)]
    pub fn field(&self, column: usize) -> Result<Option<Field<'a>>, RowError> {
        if column >= self.columns() {
            return Ok(None);
        }
        self.bytes(column)?.map_or(Ok(Some(Field::Null)), read_field)
    }

    /// A column; `None` if the row lacks it.
    ///
    /// # Errors
    /// If the column's bytes are not a value.
    #[inline]
    pub fn get(&self, column: usize) -> Result<Option<ValueRef<'a>>, RowError> {
        if column >= self.columns() {
            return Ok(None);
        }
        let Some(bytes) = self.bytes(column)? else { return Ok(Some(ValueRef::Null)) };
        match read_field(bytes)? {
            Some(field) => Ok(Some(field.value())),
            None => read_decimal(bytes).map(|decimal| Some(ValueRef::Decimal(decimal))),
        }
    }
}

/// The kind of a decimal.
const DECIMAL: u8 = 4;

#[cold]
fn read_decimal(bytes: &[u8]) -> Result<Decimal, RowError> {
    Decimal::from_bytes(&bytes[1..]).ok_or("a decimal makes no sense")
}

/// A value; `None` for a decimal.
#[inline]
fn read_field(bytes: &[u8]) -> Result<Option<Field<'_>>, RowError> {
    const SHORT: RowError = "a value is cut short";
    let (kind, rest) = bytes.split_first().ok_or(SHORT)?;
    let eight = || rest.first_chunk::<8>().copied().ok_or(SHORT);
    Ok(Some(match *kind {
        1 => Field::Int(i64::from_le_bytes(eight()?)),
        2 => Field::UInt(u64::from_le_bytes(eight()?)),
        3 => Field::Double(f64::from_le_bytes(eight()?)),
        DECIMAL => return Ok(None),
        5 => Field::Text(text::from_utf8(rest).map_err(|_| "a text is not UTF-8")?),
        6 => Field::Bytes(rest),
        7 => Field::Date(read_date(rest)?),
        8 => Field::Time(Time { micros: i64::from_le_bytes(eight()?) }),
        9 => {
            let micros = rest.get(4..).and_then(|rest| rest.first_chunk::<8>()).ok_or(SHORT)?;
            let micros = u64::from_le_bytes(*micros);
            Field::DateTime(DateTime { date: read_date(rest)?, micros })
        }
        10 => {
            let four = rest.first_chunk::<4>().copied().ok_or(SHORT)?;
            Field::Float(f32::from_le_bytes(four))
        }
        _ => return Err("a value is of an unknown kind"),
    }))
}

fn read_date(bytes: &[u8]) -> Result<Date, RowError> {
    let [low, high, month, day] = *bytes.first_chunk::<4>().ok_or("a date is cut short")?;
    Date::new(u16::from_le_bytes([low, high]), month, day).ok_or("a date makes no sense")
}

/// Converts a value that may have been written before its column's type was widened. Every value of
/// the current type is returned unchanged. Conversions from all earlier types must stay, because a
/// value may be several types old.
#[must_use]
pub fn widened<'a>(value: ValueRef<'a>, ty: &ColumnType) -> ValueRef<'a> {
    match (value, ty) {
        (ValueRef::UInt(number), ColumnType::Int { unsigned: false, .. }) => {
            i64::try_from(number).map_or(value, ValueRef::Int)
        }
        (ValueRef::Float(number), ColumnType::Double) => ValueRef::Double(f64::from(number)),
        (ValueRef::Decimal(number), ColumnType::Decimal { scale, .. })
            if number.scale() != *scale =>
        {
            ValueRef::Decimal(number.round(*scale))
        }
        _ => value,
    }
}
