//! Lenient conversions between numbers, text and dates, as in MySQL's expressions.

use crate::{Date, DateTime, Decimal, Time, Value, ValueRef};

/// The number at the front of a text; zero if there is none.
#[must_use]
pub fn text_to_double(text: &[u8]) -> f64 {
    number_prefix(text).0
}

/// The number at the front of a text, and whether the whole text is that number.
#[must_use]
pub fn number_prefix(text: &[u8]) -> (f64, bool) {
    let start = text.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(text.len());
    let rest = &text[start..];
    let mut end = usize::from(matches!(rest.first(), Some(b'-' | b'+')));
    let digits = |from: usize| rest[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits(end);
    end += whole;
    let mut part = 0;
    if rest.get(end) == Some(&b'.') {
        part = digits(end + 1);
        end += 1 + part;
    }
    if whole + part == 0 {
        return (0.0, false);
    }
    if let Some(b'e' | b'E') = rest.get(end) {
        let sign = usize::from(matches!(rest.get(end + 1), Some(b'-' | b'+')));
        let exponent = digits((end + 1 + sign).min(rest.len()));
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    let number = std::str::from_utf8(&rest[..end]).ok().and_then(|text| text.parse().ok());
    let clean = rest[end..].iter().all(u8::is_ascii_whitespace);
    (number.unwrap_or(0.0), clean && number.is_some())
}

fn number_of_date(date: Date) -> i64 {
    i64::from(date.year) * 10_000 + i64::from(date.month) * 100 + i64::from(date.day)
}

fn number_of_time(micros: u64) -> i64 {
    let seconds = (micros / 1_000_000) as i64;
    seconds / 3600 * 10_000 + seconds / 60 % 60 * 100 + seconds % 60
}

/// The exact number of a date or time, as `20240229123456`.
fn temporal_number(value: &ValueRef<'_>) -> Option<Decimal> {
    let with_fraction = |whole: i64, micros: u64| match micros % 1_000_000 {
        0 => Decimal::from(whole),
        part => Decimal::new(i128::from(whole) * 1_000_000 + i128::from(part), 6),
    };
    match *value {
        ValueRef::Date(date) => Some(Decimal::from(number_of_date(date))),
        ValueRef::DateTime(at) => {
            let whole = number_of_date(at.date) * 1_000_000 + number_of_time(at.micros);
            Some(with_fraction(whole, at.micros))
        }
        ValueRef::Time(time) => {
            let micros = time.micros.unsigned_abs();
            let number = with_fraction(number_of_time(micros), micros);
            Some(if time.micros < 0 { number.neg() } else { number })
        }
        _ => None,
    }
}

/// The value as a double; `None` for NULL.
#[must_use]
pub fn to_double(value: &ValueRef<'_>) -> Option<f64> {
    match *value {
        ValueRef::Null => None,
        ValueRef::Int(number) => Some(number as f64),
        ValueRef::UInt(number) => Some(number as f64),
        ValueRef::Float(number) => Some(f64::from(number)),
        ValueRef::Double(number) => Some(number),
        ValueRef::Decimal(number) => Some(number.to_f64()),
        ValueRef::Text(text) => Some(text_to_double(text.as_bytes())),
        ValueRef::Bytes(bytes) => Some(text_to_double(bytes)),
        _ => temporal_number(value).map(|number| number.to_f64()),
    }
}

/// The value as a decimal; `None` for NULL and for values that no decimal can hold.
#[must_use]
pub fn to_decimal(value: &ValueRef<'_>) -> Option<Decimal> {
    match *value {
        ValueRef::Null => None,
        ValueRef::Int(number) => Some(number.into()),
        ValueRef::UInt(number) => Some(number.into()),
        ValueRef::Float(number) => Decimal::from_f64(f64::from(number)),
        ValueRef::Double(number) => Decimal::from_f64(number),
        ValueRef::Decimal(number) => Some(number),
        ValueRef::Text(text) => text_decimal(text.as_bytes()),
        ValueRef::Bytes(bytes) => text_decimal(bytes),
        _ => temporal_number(value),
    }
}

/// The number at the front of a text, zero if there is none; `None` for a number that no decimal
/// can hold.
#[must_use]
pub fn text_decimal(text: &[u8]) -> Option<Decimal> {
    match Decimal::parse_prefix(text.trim_ascii_start()) {
        Some((number, _)) => Some(number),
        None => (number_prefix(text).0 == 0.0).then_some(Decimal::ZERO),
    }
}

/// The value as an integer, rounded, clamped to the range of `i64` (or of `u64` above it); `None`
/// for NULL. A date or a time is rounded to its nearest second before it becomes a number.
#[must_use]
pub fn to_i128(value: &ValueRef<'_>) -> Option<i128> {
    match *value {
        ValueRef::Null => None,
        ValueRef::Int(number) => Some(number.into()),
        ValueRef::UInt(number) => Some(number.into()),
        ValueRef::Float(number) => Some(f64::from(number).round_ties_even() as i128),
        ValueRef::Double(number) => Some(number.round_ties_even() as i128),
        ValueRef::Text(text) => Some(text_integer(text.as_bytes())),
        ValueRef::Bytes(bytes) => Some(text_integer(bytes)),
        _ => to_decimal(&whole_seconds(*value))?.to_i128(),
    }
}

/// A time rounded to whole seconds, which may carry into the minute and up to the year; other
/// values unchanged. The last second of the year 9999 loses its fraction instead.
fn whole_seconds(value: ValueRef<'_>) -> ValueRef<'_> {
    match value {
        ValueRef::DateTime(at) => {
            let last = DateTime { micros: at.micros / 1_000_000 * 1_000_000, ..at };
            ValueRef::DateTime(at.round(0).unwrap_or(last))
        }
        ValueRef::Time(time) => ValueRef::Time(time.round(0)),
        value => value,
    }
}

/// The digits at the front of a text, clamped to 64 bits. Anything after them is ignored, including
/// a fraction.
fn text_integer(text: &[u8]) -> i128 {
    let text = text.trim_ascii_start();
    let (negative, digits) = match text.first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
    let number = digits.fold(0_i128, |number, digit| {
        (number * 10 + i128::from(digit - b'0')).min(i128::from(u64::MAX) + 1)
    });
    if negative { (-number).max(i64::MIN.into()) } else { number.min(u64::MAX.into()) }
}

/// The integer nearest to the number at the front of a text, as an integer column stores it.
#[must_use]
pub fn text_rounded(text: &[u8]) -> i128 {
    match Decimal::parse_prefix(text.trim_ascii_start()) {
        Some((number, _)) => number.to_i128().unwrap_or(i128::MAX),
        None => text_to_double(text) as i128,
    }
}

/// The value as an integer: signed if it fits, otherwise unsigned, otherwise the nearest that fits.
#[must_use]
pub fn to_integer(value: &ValueRef<'_>) -> Value {
    match to_i128(value) {
        None => Value::Null,
        Some(number) => integer(number),
    }
}

/// The integer with this value: signed if it fits, otherwise unsigned, otherwise the nearest that
/// fits.
#[must_use]
pub fn integer(number: i128) -> Value {
    match i64::try_from(number) {
        Ok(number) => Value::Int(number),
        Err(_) if number > 0 => Value::UInt(u64::try_from(number).unwrap_or(u64::MAX)),
        Err(_) => Value::Int(i64::MIN),
    }
}

/// Whether the value is true; `None` for NULL.
#[must_use]
pub fn truth(value: &ValueRef<'_>) -> Option<bool> {
    match *value {
        ValueRef::Null => None,
        ValueRef::Int(number) => Some(number != 0),
        ValueRef::UInt(number) => Some(number != 0),
        ValueRef::Decimal(number) => Some(!number.is_zero()),
        _ => to_double(value).map(|number| number != 0.0),
    }
}

/// The value as a date and time; `None` if it is not one.
#[must_use]
pub fn to_datetime(value: &ValueRef<'_>) -> Option<DateTime> {
    match *value {
        ValueRef::Date(date) => Some(DateTime { date, micros: 0 }),
        ValueRef::DateTime(at) => Some(at),
        ValueRef::Text(text) => DateTime::parse(text),
        ValueRef::Bytes(bytes) => DateTime::parse(std::str::from_utf8(bytes).ok()?),
        ValueRef::Int(0) | ValueRef::UInt(0) => Some(DateTime::default()),
        ValueRef::Int(number) if number > 0 => DateTime::parse(&pad_date(&number.to_string())),
        ValueRef::UInt(number) => DateTime::parse(&pad_date(&number.to_string())),
        ValueRef::Decimal(number) if number.is_zero() => Some(DateTime::default()),
        ValueRef::Decimal(number) if !number.is_negative() => {
            // Only a date with a time has a fraction.
            let is_date = number < Decimal::from(100_000_000_i64);
            let number = if is_date { number.truncate(0) } else { number };
            DateTime::parse(&pad_date(&number.to_string()))
        }
        ValueRef::Double(number) if number >= 1.0 => {
            DateTime::parse(&pad_date(&Decimal::from_f64(number)?.round(6).to_string()))
        }
        _ => None,
    }
}

fn pad_date(digits: &str) -> String {
    let whole = digits.split('.').next().map_or(0, str::len);
    let width = match whole {
        0..=6 => 6,
        7 | 8 => 8,
        9..=12 => 12,
        _ => 14,
    };
    format!("{}{digits}", "0".repeat(width.max(whole) - whole))
}

/// The least number that a time reads as a date and a time: the first day of the year 1.
const DATETIME_NUMBER_MIN: i64 = 10_000_000_000;

/// The value as a span of time; `None` if it is not one.
#[must_use]
pub fn to_time(value: &ValueRef<'_>) -> Option<Time> {
    match *value {
        ValueRef::Time(time) => Some(time),
        ValueRef::DateTime(at) => Some(at.time()),
        ValueRef::Date(_) => Some(Time::default()),
        ValueRef::Text(text) => whole_time(text),
        ValueRef::Bytes(bytes) => whole_time(std::str::from_utf8(bytes).ok()?),
        ValueRef::Null => None,
        _ => {
            let number = to_decimal(value)?;
            // A number this long is a date and a time.
            match to_datetime(value).filter(|_| number >= Decimal::from(DATETIME_NUMBER_MIN)) {
                Some(at) => Some(at.time()),
                None => Time::parse(&number.to_string()),
            }
        }
    }
}

fn whole_time(text: &str) -> Option<Time> {
    read_time(text).filter(|(_, whole)| *whole).map(|(time, _)| time)
}

/// The span at the front of a text that is not a span as a whole. For example, `2024-12-31` begins
/// with `2024`, which is 00:20:24. `None` if the numbers there are not a time.
#[must_use]
pub fn time_prefix(text: &str) -> Option<Time> {
    read_time(text).map(|(time, _)| time)
}

/// The span at the front of a text, and whether that is the whole text. If a long text is a date
/// and time, returns its time of day.
fn read_time(text: &str) -> Option<(Time, bool)> {
    let text = text.trim();
    let timed = text.contains(':') || text.bytes().take_while(u8::is_ascii_digit).count() >= 12;
    if text.len() >= 12
        && timed
        && let Some(at) = DateTime::parse(text)
    {
        return Some((at.time(), true));
    }
    Time::parse_prefix(text)
}
