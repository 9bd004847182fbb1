//! Column types, and the conversion of a value to the form in which a column stores it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::convert::{number_prefix, time_prefix, to_datetime, to_decimal, to_double, to_time};
use crate::decimal::{DIGITS_MAX, SCALE_MAX};
use crate::double::format_double_within;
use crate::{Collation, Decimal, Time, Value, ValueRef};

/// The width of an integer column.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum IntWidth {
    /// One byte.
    Tiny,
    /// Two bytes.
    Small,
    /// Three bytes.
    Medium,
    /// Four bytes.
    Normal,
    /// Eight bytes.
    Big,
}

impl IntWidth {
    fn bits(self) -> u32 {
        match self {
            IntWidth::Tiny => 8,
            IntWidth::Small => 16,
            IntWidth::Medium => 24,
            IntWidth::Normal => 32,
            IntWidth::Big => 64,
        }
    }

    /// Whether a signed column of this width keeps a number unchanged.
    pub(crate) fn holds(self, number: i64) -> bool {
        let spare = 64 - self.bits();
        number << spare >> spare == number
    }
}

/// The size class of a TEXT or BLOB column.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum LobSize {
    /// 255 bytes.
    Tiny,
    /// 65,535 bytes.
    Normal,
    /// 16 MB.
    Medium,
    /// 4 GB.
    Long,
}

impl LobSize {
    /// The most bytes of a value.
    #[must_use]
    pub fn bytes_max(self) -> u64 {
        match self {
            LobSize::Tiny => 0xFF,
            LobSize::Normal => 0xFFFF,
            LobSize::Medium => 0xFF_FFFF,
            LobSize::Long => 0xFFFF_FFFF,
        }
    }

    fn prefix(self) -> &'static str {
        match self {
            LobSize::Tiny => "tiny",
            LobSize::Normal => "",
            LobSize::Medium => "medium",
            LobSize::Long => "long",
        }
    }
}

/// The type of a column. It displays as in SHOW CREATE TABLE.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum ColumnType {
    /// TINYINT to BIGINT.
    Int {
        /// The width of the integer.
        width: IntWidth,
        /// Whether the integer is unsigned.
        unsigned: bool,
        /// Whether it was declared BOOL, which is shown as `tinyint(1)`.
        boolean: bool,
    },
    /// DECIMAL.
    Decimal {
        /// All digits.
        precision: u8,
        /// Digits after the point.
        scale: u8,
        /// Whether the number is unsigned.
        unsigned: bool,
    },
    /// FLOAT.
    Float,
    /// DOUBLE.
    Double,
    /// BIT with this many bits.
    Bit(u8),
    /// CHAR with this many characters.
    Char(u32),
    /// VARCHAR with this many characters.
    VarChar(u32),
    /// TEXT.
    Text(LobSize),
    /// BINARY with this many bytes.
    Binary(u32),
    /// VARBINARY with this many bytes.
    VarBinary(u32),
    /// BLOB.
    Blob(LobSize),
    /// DATE.
    Date,
    /// TIME with this many fractional digits of a second.
    Time(u8),
    /// DATETIME with this many fractional digits of a second.
    DateTime(u8),
    /// TIMESTAMP with this many fractional digits of a second.
    Timestamp(u8),
    /// YEAR.
    Year,
    /// ENUM with these members.
    Enum(Vec<String>),
    /// SET with these members.
    Set(Vec<String>),
    /// JSON, stored as text.
    Json,
}

/// Why a value does not fit a column. The names are those of MySQL's errors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StoreError {
    /// 1264.
    OutOfRange,
    /// 1265.
    Truncated,
    /// 1366: not a value of the named kind.
    Incorrect(&'static str),
    /// 1292: not a date or time.
    IncorrectTime(&'static str),
    /// 1406.
    TooLong,
    /// 3140.
    Json,
}

impl ColumnType {
    /// INT.
    pub const INT: ColumnType =
        ColumnType::Int { width: IntWidth::Normal, unsigned: false, boolean: false };
    /// BIGINT.
    pub const BIGINT: ColumnType =
        ColumnType::Int { width: IntWidth::Big, unsigned: false, boolean: false };
    /// BIGINT UNSIGNED.
    pub const UBIGINT: ColumnType =
        ColumnType::Int { width: IntWidth::Big, unsigned: true, boolean: false };

    /// Whether the type's values are text in a character set.
    #[must_use]
    pub fn is_text(&self) -> bool {
        matches!(
            self,
            ColumnType::Char(_)
                | ColumnType::VarChar(_)
                | ColumnType::Text(_)
                | ColumnType::Enum(_)
                | ColumnType::Set(_)
                | ColumnType::Json
        )
    }

    /// Whether the type's values are bytes without a character set.
    #[must_use]
    pub fn is_binary(&self) -> bool {
        matches!(self, ColumnType::Binary(_) | ColumnType::VarBinary(_) | ColumnType::Blob(_))
    }

    /// Whether the type's values are numbers.
    #[must_use]
    pub fn is_numeric(&self) -> bool {
        matches!(
            self,
            ColumnType::Int { .. }
                | ColumnType::Decimal { .. }
                | ColumnType::Float
                | ColumnType::Double
                | ColumnType::Year
                | ColumnType::Bit(_)
        )
    }

    /// Whether the type's values are unsigned numbers.
    #[must_use]
    pub fn is_unsigned(&self) -> bool {
        matches!(
            self,
            ColumnType::Int { unsigned: true, .. }
                | ColumnType::Decimal { unsigned: true, .. }
                | ColumnType::Bit(_)
                | ColumnType::Year
        )
    }

    /// The name without sizes, as `DATA_TYPE` of information_schema shows it.
    #[must_use]
    pub fn name(&self) -> String {
        let shown = self.to_string();
        shown.split(['(', ' ']).next().unwrap_or_default().to_owned()
    }

    /// The value that a column of this type gets outside of strict mode if it needs one and the
    /// statement gives none.
    #[must_use]
    pub fn zero(&self) -> Value {
        match self {
            ColumnType::Int { unsigned: true, .. } | ColumnType::Bit(_) => Value::UInt(0),
            ColumnType::Int { .. } | ColumnType::Year => Value::Int(0),
            ColumnType::Decimal { scale, .. } => Value::Decimal(Decimal::ZERO.round(*scale)),
            ColumnType::Float => Value::Float(0.0),
            ColumnType::Double => Value::Double(0.0),
            ColumnType::Date => Value::Date(crate::Date::default()),
            ColumnType::Time(_) => Value::Time(crate::Time::default()),
            ColumnType::DateTime(_) | ColumnType::Timestamp(_) => {
                Value::DateTime(crate::DateTime::default())
            }
            ColumnType::Enum(names) => Value::Text(names.first().cloned().unwrap_or_default()),
            ColumnType::Json => Value::Text("null".to_owned()),
            ColumnType::Binary(len) => Value::Bytes(vec![0; *len as usize]),
            _ if self.is_binary() => Value::Bytes(Vec::new()),
            _ => Value::Text(String::new()),
        }
    }

    /// Whether the type's sizes are within their bounds. A type that was read from storage may have
    /// any sizes.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        match self {
            ColumnType::Decimal { precision, scale, .. } => {
                (1..=DIGITS_MAX).contains(precision) && *scale <= SCALE_MAX.min(*precision)
            }
            ColumnType::Bit(bits) => (1..=64).contains(bits),
            ColumnType::Char(max) | ColumnType::Binary(max) => *max <= 255,
            ColumnType::Time(digits)
            | ColumnType::DateTime(digits)
            | ColumnType::Timestamp(digits) => *digits <= 6,
            ColumnType::Set(names) => names.len() <= 64,
            _ => true,
        }
    }

    /// A quick check of whether this column stores a value unchanged: if it returns `true`,
    /// [`ColumnType::store`] returns the same value.
    #[must_use]
    pub fn keeps(&self, value: &Value) -> bool {
        match (self, value) {
            (ColumnType::Int { width, unsigned: false, .. }, Value::Int(number)) => {
                // The bits above the sign bit must equal the sign bit.
                let above = number >> (width.bits() - 1);
                above == 0 || above == -1
            }
            // A character takes at least one byte.
            (ColumnType::Char(max), Value::Text(text)) => {
                text.len() <= *max as usize && !text.ends_with(' ')
            }
            (ColumnType::VarChar(max), Value::Text(text)) => text.len() <= *max as usize,
            _ => false,
        }
    }

    /// The value as this column stores it. NULL stays NULL. If the value does not fit, the error
    /// includes the nearest value that does, for statements that are not strict.
    ///
    /// # Errors
    /// Why the value does not fit, and the nearest value that does.
    pub fn store(&self, value: &Value) -> Result<Value, (StoreError, Value)> {
        self.store_in(value, Collation::GeneralCi)
    }

    /// As [`ColumnType::store`], in a column of this collation, which finds the members that a text
    /// names.
    ///
    /// # Errors
    /// As [`ColumnType::store`].
    pub fn store_in(
        &self,
        value: &Value,
        collation: Collation,
    ) -> Result<Value, (StoreError, Value)> {
        if value.is_null() {
            return Ok(Value::Null);
        }
        if let Some((text, is_lost)) = self.shortened(value) {
            let stored = self.store_in(&Value::Text(text), collation)?;
            return if is_lost { Err((StoreError::TooLong, stored)) } else { Ok(stored) };
        }
        match self {
            ColumnType::Int { width, unsigned, .. } => store_int(value, *width, *unsigned),
            ColumnType::Decimal { precision, scale, unsigned } => {
                store_decimal(value, *precision, *scale, *unsigned)
            }
            ColumnType::Float => store_float(value),
            ColumnType::Double => store_double(value).map(Value::Double),
            ColumnType::Bit(bits) => store_bit(value, *bits),
            ColumnType::Year => store_year(value),
            ColumnType::Char(max) => {
                let trimmed = |text: &str| Value::from(text.trim_end_matches(' '));
                match store_text(value, u64::from(*max), true) {
                    Ok(text) => Ok(trimmed(&text)),
                    Err((why, Value::Text(text))) => Err((why, trimmed(&text))),
                    Err(other) => Err(other),
                }
            }
            ColumnType::VarChar(max) => store_text(value, u64::from(*max), true).map(Value::Text),
            ColumnType::Text(size) => store_text(value, size.bytes_max(), false).map(Value::Text),
            ColumnType::Json => {
                let text = value_text(value).map_err(|error| (error, Value::from("null")))?;
                Ok(Value::Text(text))
            }
            ColumnType::Binary(max) => {
                let mut bytes = store_bytes(value, u64::from(*max))?;
                bytes.resize(*max as usize, 0);
                Ok(Value::Bytes(bytes))
            }
            ColumnType::VarBinary(max) => store_bytes(value, u64::from(*max)).map(Value::Bytes),
            ColumnType::Blob(size) => store_bytes(value, size.bytes_max()).map(Value::Bytes),
            ColumnType::Date => match to_datetime(&value.as_ref()) {
                Some(at) => Ok(Value::Date(at.date)),
                None => Err((StoreError::IncorrectTime("date"), self.zero())),
            },
            ColumnType::DateTime(digits) | ColumnType::Timestamp(digits) => {
                match to_datetime(&value.as_ref()).and_then(|at| at.round(*digits)) {
                    Some(at) => Ok(Value::DateTime(at)),
                    None => Err((StoreError::IncorrectTime("datetime"), self.zero())),
                }
            }
            ColumnType::Time(digits) => store_time(value, *digits),
            ColumnType::Enum(names) => store_enum(value, names, collation),
            ColumnType::Set(names) => store_set(value, names, collation),
        }
    }

    /// The text of a float or double with as many digits as a column of short texts has room for,
    /// and whether the text stands for another number. TEXT and BLOB take all digits.
    fn shortened(&self, value: &Value) -> Option<(String, bool)> {
        let number = match value {
            Value::Float(number) => f64::from(*number),
            Value::Double(number) => *number,
            _ => return None,
        };
        match self {
            ColumnType::Char(max)
            | ColumnType::VarChar(max)
            | ColumnType::Binary(max)
            | ColumnType::VarBinary(max) => Some(format_double_within(number, *max as usize)),
            _ => None,
        }
    }
}

fn store_int(value: &Value, width: IntWidth, unsigned: bool) -> Result<Value, (StoreError, Value)> {
    let bits = width.bits();
    let (low, high) = if unsigned {
        (0, (1_i128 << bits) - 1)
    } else {
        (-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1)
    };
    let make = |number: i128| {
        if unsigned { Value::UInt(number as u64) } else { Value::Int(number as i64) }
    };
    let text = match value {
        Value::Text(text) => Some(text.as_bytes()),
        Value::Bytes(bytes) => Some(bytes.as_slice()),
        _ => None,
    };
    let number = match text {
        Some(text) => crate::convert::text_rounded(text),
        None => crate::convert::to_i128(&value.as_ref()).unwrap_or(0),
    };
    let held = number.clamp(low, high);
    if let Some(text) = text
        && !number_prefix(text).1
    {
        return Err((StoreError::Incorrect("integer"), make(held)));
    }
    // MySQL refuses a negative decimal in an unsigned column, even if it rounds to zero.
    let below = unsigned && matches!(value, Value::Decimal(number) if number.is_negative());
    if number == held && !below {
        Ok(make(number))
    } else {
        Err((StoreError::OutOfRange, make(held)))
    }
}

fn store_decimal(
    value: &Value,
    precision: u8,
    scale: u8,
    unsigned: bool,
) -> Result<Value, (StoreError, Value)> {
    let clean = match value {
        Value::Text(text) => number_prefix(text.as_bytes()).1,
        Value::Bytes(bytes) => number_prefix(bytes).1,
        _ => true,
    };
    let most = Decimal::parse(&format!(
        "{}.{}",
        "9".repeat(usize::from(precision - scale)),
        "9".repeat(usize::from(scale))
    ))
    .or_else(|| Decimal::parse(&"9".repeat(usize::from(precision))))
    .unwrap_or(Decimal::ZERO)
    .round(scale);
    let least = if unsigned { Decimal::ZERO.round(scale) } else { most.neg() };
    let Some(number) = to_decimal(&value.as_ref()) else {
        let below = to_double(&value.as_ref()).is_some_and(|number| number < 0.0);
        let nearest = if below { least } else { most };
        return Err((StoreError::OutOfRange, Value::Decimal(nearest)));
    };
    let number = number.round(scale);
    let held = number.max(least).min(most);
    if !clean {
        return Err((StoreError::Incorrect("decimal"), Value::Decimal(held)));
    }
    if number == held {
        Ok(Value::Decimal(number))
    } else {
        Err((StoreError::OutOfRange, Value::Decimal(held)))
    }
}

fn store_double(value: &Value) -> Result<f64, (StoreError, Value)> {
    let clean = match value {
        Value::Text(text) => number_prefix(text.as_bytes()).1,
        Value::Bytes(bytes) => number_prefix(bytes).1,
        _ => true,
    };
    let number = to_double(&value.as_ref()).unwrap_or(0.0);
    if !clean {
        return Err((StoreError::Incorrect("double"), Value::Double(number)));
    }
    if number.is_finite() {
        Ok(number)
    } else {
        Err((StoreError::OutOfRange, Value::Double(f64::MAX)))
    }
}

fn store_float(value: &Value) -> Result<Value, (StoreError, Value)> {
    let held =
        |number: f64| Value::Float(number.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32);
    match store_double(value) {
        Ok(number) if number.abs() <= f64::from(f32::MAX) => Ok(Value::Float(number as f32)),
        Ok(number) => Err((StoreError::OutOfRange, held(number))),
        Err((why, nearest)) => Err((why, held(to_double(&nearest.as_ref()).unwrap_or(0.0)))),
    }
}

fn store_bit(value: &Value, bits: u8) -> Result<Value, (StoreError, Value)> {
    let most = if bits >= 64 { u64::MAX } else { (1 << bits) - 1 };
    let number = match value {
        Value::Bytes(bytes) if bytes.len() <= 8 => {
            bytes.iter().fold(0, |number, byte| number << 8 | i128::from(*byte))
        }
        Value::Text(text) if text.len() <= 8 => {
            text.bytes().fold(0, |number, byte| number << 8 | i128::from(byte))
        }
        Value::Bytes(_) | Value::Text(_) => i128::MAX,
        // Other numbers convert to the nearest integer.
        Value::Float(_) | Value::Double(_) => {
            to_double(&value.as_ref()).unwrap_or(0.0).trunc() as i128
        }
        _ => crate::convert::to_i128(&value.as_ref()).unwrap_or(0),
    };
    match u64::try_from(number) {
        Ok(number) if number <= most => Ok(Value::UInt(number)),
        _ => Err((StoreError::TooLong, Value::UInt(most))),
    }
}

/// 838:59:59 as a number.
const TIME_NUMBER_MAX: f64 = 8_385_959.0;

fn store_time(value: &Value, digits: u8) -> Result<Value, (StoreError, Value)> {
    let whole = to_time(&value.as_ref());
    let read = whole.or_else(|| match value {
        Value::Text(_) | Value::Bytes(_) => time_prefix(&value.to_text()),
        _ => None,
    });
    // A number that is too large for a time is the longest one.
    let longest = || match value {
        Value::Text(_) | Value::Bytes(_) => Time::default(),
        _ => {
            let number = to_double(&value.as_ref()).unwrap_or(0.0);
            let is_long = number.abs() > TIME_NUMBER_MAX;
            let micros = if is_long { i64::MAX } else { 0 };
            Time { micros: if number < 0.0 { -micros } else { micros } }
        }
    };
    let time = read.map_or_else(longest, |time| time.round(digits));
    if whole.is_some() && time.in_range() {
        return Ok(Value::Time(time));
    }
    Err((StoreError::IncorrectTime("time"), Value::Time(time.held())))
}

fn store_year(value: &Value) -> Result<Value, (StoreError, Value)> {
    let text = matches!(value, Value::Text(_) | Value::Bytes(_)).then(|| value.to_text());
    let number = match (&text, value) {
        (Some(text), _) => number_prefix(text.as_bytes()).0.round() as i128,
        (_, Value::Date(date)) => i128::from(date.year),
        (_, Value::DateTime(at)) => i128::from(at.date.year),
        (_, Value::Float(_) | Value::Double(_)) => {
            to_double(&value.as_ref()).unwrap_or(0.0) as i128
        }
        _ => crate::convert::to_i128(&value.as_ref()).unwrap_or(0),
    };
    let year = match number {
        0 if text.as_ref().is_some_and(|text| text.len() != 4) => 2000,
        0 => 0,
        1..=69 => number as i64 + 2000,
        70..=99 => number as i64 + 1900,
        1901..=2155 => number as i64,
        _ => return Err((StoreError::OutOfRange, Value::Int(0))),
    };
    match text.filter(|text| !number_prefix(text.as_bytes()).1) {
        None => Ok(Value::Int(year)),
        Some(text) if !begins_with_number(&text) => {
            Err((StoreError::Incorrect("integer"), Value::Int(0)))
        }
        Some(_) => Err((StoreError::Truncated, Value::Int(year))),
    }
}

/// Whether a text has a number at its front, with or without something behind it.
fn begins_with_number(text: &str) -> bool {
    let text = text.trim_ascii_start();
    let text = text.strip_prefix(['-', '+']).unwrap_or(text);
    text.strip_prefix('.').unwrap_or(text).starts_with(|first: char| first.is_ascii_digit())
}

fn value_text(value: &Value) -> Result<String, StoreError> {
    match value {
        Value::Bytes(bytes) => std::str::from_utf8(bytes)
            .map(str::to_owned)
            .map_err(|_| StoreError::Incorrect("string")),
        other => Ok(other.to_text()),
    }
}

fn store_text(value: &Value, max: u64, characters: bool) -> Result<String, (StoreError, Value)> {
    let length = |text: &str| match characters {
        true => text.chars().count() as u64,
        false => text.len() as u64,
    };
    let cut = |text: &str| -> String {
        let mut indices = text.char_indices();
        let end = match characters {
            true => indices.nth(max as usize).map(|(at, _)| at),
            false => indices.find(|(at, c)| (at + c.len_utf8()) as u64 > max).map(|(at, _)| at),
        };
        text[..end.unwrap_or(text.len())].to_owned()
    };
    let text = value_text(value).map_err(|error| {
        // As MySQL, the column keeps the text before the first wrong bytes, and does not look at
        // bytes past its end.
        let Value::Bytes(bytes) = value else { return (error, Value::from("")) };
        let text = bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid());
        let why = if length(text) >= max { StoreError::TooLong } else { error };
        (why, Value::Text(cut(text)))
    })?;
    if length(&text) <= max {
        return Ok(text);
    }
    let cut = cut(&text);
    // Trailing spaces past the end are dropped silently.
    if text[cut.len()..].bytes().all(|byte| byte == b' ') {
        return Ok(cut);
    }
    Err((StoreError::TooLong, Value::Text(cut)))
}

fn store_bytes(value: &Value, max: u64) -> Result<Vec<u8>, (StoreError, Value)> {
    let mut bytes = match value {
        Value::Bytes(bytes) => bytes.clone(),
        other => other.to_text().into_bytes(),
    };
    if bytes.len() as u64 <= max {
        return Ok(bytes);
    }
    bytes.truncate(max as usize);
    Err((StoreError::TooLong, Value::Bytes(bytes)))
}

/// The number of an ENUM's member, or of a SET's members, that a number stands for: its whole part.
fn member_number(value: &Value) -> i128 {
    match value {
        Value::Float(_) | Value::Double(_) | Value::Decimal(_) => {
            to_double(&value.as_ref()).unwrap_or(0.0).clamp(i64::MIN as f64, i64::MAX as f64)
                as i128
        }
        _ => crate::convert::to_i128(&value.as_ref()).unwrap_or(0),
    }
}

/// The number that a text is as a whole, after spaces and with a sign, as an ENUM and a SET read it
/// if it names no member.
fn member_number_of(text: &str) -> Option<i128> {
    let text = text.trim_ascii_start();
    let (sign, digits) = match text.as_bytes().first() {
        Some(b'-') => (-1, &text[1..]),
        Some(b'+') => (1, &text[1..]),
        _ => (1, text),
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { digits.parse::<i128>().ok().map(|number| sign * number) } else { None }
}

fn store_enum(
    value: &Value,
    names: &[String],
    collation: Collation,
) -> Result<Value, (StoreError, Value)> {
    const DIGITS_MAX: usize = 5;
    let none = || (StoreError::Truncated, Value::from(""));
    let member = |number: i128| match usize::try_from(number) {
        // A text of zero is the value that stands for no member.
        Ok(0) => Some(Value::from("")),
        Ok(number) => names.get(number - 1).map(|name| Value::Text(name.clone())),
        Err(_) => None,
    };
    if !matches!(value, Value::Text(_) | Value::Bytes(_)) {
        let number = member_number(value);
        return if number == 0 { Err(none()) } else { member(number).ok_or_else(none) };
    }
    let text = value.to_text();
    let text = text.trim_end_matches(' ');
    let same = |name: &&String| collation.compare(name.as_bytes(), text.as_bytes()).is_eq();
    if let Some(name) = names.iter().find(same) {
        return Ok(Value::Text(name.clone()));
    }
    let number = member_number_of(text).filter(|_| text.len() <= DIGITS_MAX);
    number.and_then(member).ok_or_else(none)
}

fn store_set(
    value: &Value,
    names: &[String],
    collation: Collation,
) -> Result<Value, (StoreError, Value)> {
    const DIGITS_MAX: usize = 21;
    let (bits, is_clean) = if let Value::Text(_) | Value::Bytes(_) = value {
        let text = value.to_text();
        let (named, is_clean) = named_members(text.trim_end_matches(' '), names, collation);
        let digits = named == 0 && !text.is_empty() && text.len() <= DIGITS_MAX;
        match member_number_of(&text).filter(|bits| digits && bits >> names.len() == 0) {
            Some(bits) => (bits, true),
            None => (named, is_clean && !digits),
        }
    } else {
        let bits = member_number(value);
        (bits, bits >> names.len() == 0)
    };
    let chosen = names.iter().enumerate().filter(|(at, _)| bits >> at & 1 == 1);
    let chosen: Vec<&str> = chosen.map(|(_, name)| name.as_str()).collect();
    let value = Value::Text(chosen.join(","));
    if is_clean { Ok(value) } else { Err((StoreError::Truncated, value)) }
}

/// The bits of a SET's members that a text names, and whether it names nothing else. An empty name
/// between commas is no member.
fn named_members(text: &str, names: &[String], collation: Collation) -> (i128, bool) {
    let mut bits = 0;
    let mut is_clean = true;
    for part in text.split(',').filter(|_| !text.is_empty()) {
        let same = |name: &String| collation.compare(name.as_bytes(), part.as_bytes()).is_eq();
        match names.iter().position(same) {
            Some(at) => bits |= 1 << at,
            None => is_clean = false,
        }
    }
    (bits, is_clean)
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = |name: &str, digits: u8| {
            if digits == 0 { name.to_owned() } else { format!("{name}({digits})") }
        };
        let escaped = |name: &str| name.replace('\\', "\\\\").replace('\'', "''");
        let list = |names: &[String]| {
            let quoted: Vec<_> = names.iter().map(|name| format!("'{}'", escaped(name))).collect();
            quoted.join(",")
        };
        match self {
            ColumnType::Int { width, unsigned, boolean } => {
                let name = match width {
                    IntWidth::Tiny if *boolean => "tinyint(1)",
                    IntWidth::Tiny => "tinyint",
                    IntWidth::Small => "smallint",
                    IntWidth::Medium => "mediumint",
                    IntWidth::Normal => "int",
                    IntWidth::Big => "bigint",
                };
                write!(f, "{name}{}", if *unsigned { " unsigned" } else { "" })
            }
            ColumnType::Decimal { precision, scale, unsigned } => {
                write!(
                    f,
                    "decimal({precision},{scale}){}",
                    if *unsigned { " unsigned" } else { "" }
                )
            }
            ColumnType::Float => f.write_str("float"),
            ColumnType::Double => f.write_str("double"),
            ColumnType::Bit(bits) => write!(f, "bit({bits})"),
            ColumnType::Char(max) => write!(f, "char({max})"),
            ColumnType::VarChar(max) => write!(f, "varchar({max})"),
            ColumnType::Text(size) => write!(f, "{}text", size.prefix()),
            ColumnType::Binary(max) => write!(f, "binary({max})"),
            ColumnType::VarBinary(max) => write!(f, "varbinary({max})"),
            ColumnType::Blob(size) => write!(f, "{}blob", size.prefix()),
            ColumnType::Date => f.write_str("date"),
            ColumnType::Time(fsp) => f.write_str(&digits("time", *fsp)),
            ColumnType::DateTime(fsp) => f.write_str(&digits("datetime", *fsp)),
            ColumnType::Timestamp(fsp) => f.write_str(&digits("timestamp", *fsp)),
            ColumnType::Year => f.write_str("year"),
            ColumnType::Enum(names) => write!(f, "enum({})", list(names)),
            ColumnType::Set(names) => write!(f, "set({})", list(names)),
            ColumnType::Json => f.write_str("json"),
        }
    }
}

/// The type of a value outside of a column.
#[must_use]
pub fn type_of(value: &ValueRef<'_>) -> ColumnType {
    match value {
        ValueRef::Null => ColumnType::VarBinary(0),
        ValueRef::Int(_) => ColumnType::BIGINT,
        ValueRef::UInt(_) => ColumnType::UBIGINT,
        ValueRef::Float(_) => ColumnType::Float,
        ValueRef::Double(_) => ColumnType::Double,
        ValueRef::Decimal(number) => ColumnType::Decimal {
            precision: number.precision(),
            scale: number.scale(),
            unsigned: false,
        },
        ValueRef::Text(text) => ColumnType::VarChar(text.chars().count() as u32),
        ValueRef::Bytes(bytes) => ColumnType::VarBinary(bytes.len() as u32),
        ValueRef::Date(_) => ColumnType::Date,
        ValueRef::Time(time) => ColumnType::Time(time.digits()),
        ValueRef::DateTime(at) => ColumnType::DateTime(at.digits()),
    }
}
