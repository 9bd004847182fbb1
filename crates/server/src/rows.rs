//! Writes rows into the response: as text for queries, in binary for prepared statements.

use std::io::Write;

use spillway_types::convert::{to_datetime, to_double, to_i128, to_time};
use spillway_types::value::write_text;
use spillway_types::{Date, DateTime, Field, ValueRef};

use crate::codec::{put_bytes, put_short};
use crate::columns::Form;
use crate::packet::{self, ShortPacket};

/// Appends a row of a query's result.
pub(crate) fn put_text_row(out: &mut Vec<u8>, values: &[ValueRef<'_>], forms: &[Form]) {
    for (value, form) in values.iter().zip(forms) {
        match value {
            ValueRef::Null => out.push(0xFB),
            value => put_text(out, value, *form),
        }
    }
}

/// Appends a row of a prepared statement's result.
pub(crate) fn put_binary_row(out: &mut Vec<u8>, values: &[ValueRef<'_>], forms: &[Form]) {
    let nulls = out.len() + 1;
    // The bitmap begins with two unused bits.
    match (values.len() + 2).div_ceil(8) {
        1 => out.extend_from_slice(&[0; 2]),
        bytes => out.resize(nulls + bytes, 0),
    }
    for (at, (value, form)) in values.iter().zip(forms).enumerate() {
        if value.is_null() {
            out[nulls + (at + 2) / 8] |= 1 << ((at + 2) % 8);
        } else {
            put_binary(out, value, *form);
        }
    }
}

/// As [`put_text_row`], from fields.
pub(crate) fn put_text_fields(out: &mut Vec<u8>, fields: &[Field<'_>], forms: &[Form]) {
    for (field, form) in fields.iter().zip(forms) {
        match *field {
            Field::Null => out.push(0xFB),
            Field::Text(text) => put_bytes(out, text.as_bytes()),
            Field::Bytes(bytes) => put_bytes(out, bytes),
            field => put_text(out, &field.value(), *form),
        }
    }
}

/// As [`put_binary_row`], from fields.
pub(crate) fn put_binary_fields(out: &mut Vec<u8>, fields: &[Field<'_>], forms: &[Form]) {
    let nulls = out.len() + 1;
    match (fields.len() + 2).div_ceil(8) {
        1 => out.extend_from_slice(&[0; 2]),
        bytes => out.resize(nulls + bytes, 0),
    }
    for (at, (field, form)) in fields.iter().zip(forms).enumerate() {
        match (*field, *form) {
            (Field::Null, _) => out[nulls + (at + 2) / 8] |= 1 << ((at + 2) % 8),
            (Field::Text(text), Form::Text) => put_bytes(out, text.as_bytes()),
            (Field::Bytes(bytes), Form::Text) => put_bytes(out, bytes),
            (Field::Int(number), Form::Int32) => {
                out.extend_from_slice(&(number as u32).to_le_bytes())
            }
            (Field::Int(number), Form::Int64) => out.extend_from_slice(&number.to_le_bytes()),
            (field, form) => put_binary(out, &field.value(), form),
        }
    }
}

/// The output of [`put_binary_fields`] for a row that consists of a few integers; `None` for any
/// other row.
#[inline]
pub(crate) fn short_row(fields: &[Field<'_>], forms: &[Form]) -> Option<ShortPacket> {
    let begins_so = matches!(fields, [Field::Int(_) | Field::UInt(_), ..]);
    if !begins_so || fields.len() > ShortPacket::NUMBERS_MAX {
        return None;
    }
    let mut short = ShortPacket { bytes: [0; _], len: packet::HEAD + 2 };
    for (field, form) in fields.iter().zip(forms) {
        let bits = match *field {
            Field::Int(number) => number as u64,
            Field::UInt(number) => number,
            _ => return None,
        };
        // The next number overwrites the unused bytes of a shorter number.
        short
            .bytes
            .get_mut(short.len..)?
            .first_chunk_mut::<8>()?
            .copy_from_slice(&bits.to_le_bytes());
        short.len += form.whole_bytes()?;
    }
    Some(short)
}

fn put_text(out: &mut Vec<u8>, value: &ValueRef<'_>, form: Form) {
    match (value, form) {
        (ValueRef::Text(text), _) => put_bytes(out, text.as_bytes()),
        (ValueRef::Bytes(bytes), _) => put_bytes(out, bytes),
        (ValueRef::Int(number), Form::Year) => {
            put_short(out, |out| write_digits(out, *number as u64, 4))
        }
        (ValueRef::Int(number), _) => {
            put_bytes(out, itoa::Buffer::new().format(*number).as_bytes());
        }
        (ValueRef::UInt(number), Form::Bit(bytes)) => {
            put_bytes(out, &number.to_be_bytes()[8 - usize::from(bytes)..]);
        }
        (ValueRef::UInt(number), _) => {
            put_bytes(out, itoa::Buffer::new().format(*number).as_bytes());
        }
        (ValueRef::Decimal(number), _) => match number.to_i128().filter(|_| number.scale() == 0) {
            Some(whole) => put_bytes(out, itoa::Buffer::new().format(whole).as_bytes()),
            None => put_short(out, |out| {
                // Writing to memory does not fail.
                let _ = write!(out, "{number}");
            }),
        },
        (ValueRef::Date(date), _) => put_short(out, |out| write_date(out, *date)),
        (ValueRef::DateTime(at), Form::Date) => put_short(out, |out| write_date(out, at.date)),
        (ValueRef::DateTime(at), form) => {
            let digits = if let Form::DateTime(digits) = form { digits } else { at.digits() };
            put_short(out, |out| {
                write_date(out, at.date);
                out.push(b' ');
                write_clock(out, at.micros, digits);
            });
        }
        (ValueRef::Time(time), form) => {
            let digits = if let Form::Time(digits) = form { digits } else { time.digits() };
            put_short(out, |out| {
                if time.micros < 0 {
                    out.push(b'-');
                }
                write_clock(out, time.micros.unsigned_abs(), digits);
            });
        }
        // The text of a float differs from that of the equal double.
        (ValueRef::Double(number), Form::Float) => {
            put_short(out, |out| write_text(&ValueRef::Float(*number as f32), out))
        }
        (ValueRef::Float(_) | ValueRef::Double(_) | ValueRef::Null, _) => {
            put_short(out, |out| write_text(value, out))
        }
    }
}

/// Writes a number with at least this many digits.
fn write_digits(out: &mut Vec<u8>, number: u64, digits: usize) {
    let mut buffer = itoa::Buffer::new();
    let text = buffer.format(number).as_bytes();
    out.extend_from_slice(&b"000000"[..digits.saturating_sub(text.len())]);
    out.extend_from_slice(text);
}

fn write_date(out: &mut Vec<u8>, date: Date) {
    write_digits(out, u64::from(date.year), 4);
    out.push(b'-');
    write_digits(out, u64::from(date.month), 2);
    out.push(b'-');
    write_digits(out, u64::from(date.day), 2);
}

fn write_clock(out: &mut Vec<u8>, micros: u64, digits: u8) {
    let seconds = micros / 1_000_000;
    write_digits(out, seconds / 3600, 2);
    out.push(b':');
    write_digits(out, seconds / 60 % 60, 2);
    out.push(b':');
    write_digits(out, seconds % 60, 2);
    if digits > 0 {
        out.push(b'.');
        let start = out.len();
        write_digits(out, micros % 1_000_000, 6);
        out.truncate(start + usize::from(digits.min(6)));
    }
}

/// A value as an integer of eight bytes.
fn whole(value: &ValueRef<'_>) -> u64 {
    match *value {
        ValueRef::Int(number) => number as u64,
        ValueRef::UInt(number) => number,
        ref other => to_i128(other).unwrap_or(0) as u64,
    }
}

fn double(value: &ValueRef<'_>) -> f64 {
    to_double(value).unwrap_or(0.0)
}

fn put_binary(out: &mut Vec<u8>, value: &ValueRef<'_>, form: Form) {
    match form {
        Form::Int8 => out.push(whole(value) as u8),
        Form::Int16 | Form::Year => out.extend_from_slice(&(whole(value) as u16).to_le_bytes()),
        Form::Int32 => out.extend_from_slice(&(whole(value) as u32).to_le_bytes()),
        Form::Int64 => out.extend_from_slice(&whole(value).to_le_bytes()),
        Form::Float => out.extend_from_slice(&(double(value) as f32).to_le_bytes()),
        Form::Double => out.extend_from_slice(&double(value).to_le_bytes()),
        Form::Date => {
            let at = to_datetime(value).unwrap_or_default();
            put_date(out, &DateTime { micros: 0, ..at });
        }
        Form::DateTime(_) => put_date(out, &to_datetime(value).unwrap_or_default()),
        Form::Time(_) => {
            let micros = match value {
                ValueRef::Time(time) => time.micros,
                other => to_time(other).map_or(0, |time| time.micros),
            };
            put_time(out, micros);
        }
        Form::Bit(_) | Form::Text => put_text(out, value, form),
    }
}

fn put_date(out: &mut Vec<u8>, at: &DateTime) {
    let (hour, minute, second, micros) = at.clock();
    let len = match (at.date == Date::default(), at.micros == 0, micros == 0) {
        (true, true, _) => 0,
        (_, true, _) => 4,
        (_, _, true) => 7,
        _ => 11,
    };
    out.push(len);
    if len >= 4 {
        out.extend_from_slice(&at.date.year.to_le_bytes());
        out.extend_from_slice(&[at.date.month, at.date.day]);
    }
    if len >= 7 {
        out.extend_from_slice(&[hour as u8, minute as u8, second as u8]);
    }
    if len == 11 {
        out.extend_from_slice(&(micros as u32).to_le_bytes());
    }
}

fn put_time(out: &mut Vec<u8>, span: i64) {
    let micros = span.unsigned_abs();
    let seconds = micros / 1_000_000;
    let len = match (micros, micros % 1_000_000) {
        (0, _) => 0,
        (_, 0) => 8,
        _ => 12,
    };
    out.push(len);
    if len >= 8 {
        out.push(u8::from(span < 0));
        out.extend_from_slice(&((seconds / 86_400) as u32).to_le_bytes());
        let clock = [seconds / 3600 % 24, seconds / 60 % 60, seconds % 60];
        out.extend_from_slice(&clock.map(|part| part as u8));
    }
    if len == 12 {
        out.extend_from_slice(&((micros % 1_000_000) as u32).to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use spillway_base::rng::Rng;
    use spillway_types::{Decimal, Time};

    use super::*;

    fn text(value: &ValueRef<'_>, form: Form) -> String {
        let mut out = Vec::new();
        put_text(&mut out, value, form);
        assert_eq!(usize::from(out[0]), out.len() - 1);
        String::from_utf8(out.split_off(1)).unwrap()
    }

    /// Rows of a few integers have the same bytes either way, and `short_row` refuses other rows.
    #[test]
    fn short_rows_are_rows() {
        let mut rng = Rng::new(12);
        let forms = [Form::Int8, Form::Int16, Form::Int32, Form::Int64, Form::Int64, Form::Year];
        let mut shorts = 0;
        for _ in 0..20_000 {
            let count = 1 + rng.below(8) as usize;
            let (mut fields, mut given, mut plain) =
                (Vec::new(), Vec::new(), count <= ShortPacket::NUMBERS_MAX);
            for _ in 0..count {
                let (field, is_whole) = match rng.below(20) {
                    0..11 => (Field::Int(rng.next_u64() as i64), true),
                    11..18 => (Field::UInt(rng.next_u64()), true),
                    18 => (Field::Null, false),
                    _ => (Field::Double(7.5), false),
                };
                let form = forms[rng.below(41) as usize / 8];
                plain &= is_whole && form != Form::Year;
                fields.push(field);
                given.push(form);
            }
            let Some(ShortPacket { bytes, len }) = short_row(&fields, &given) else {
                assert!(!plain, "{fields:?} {given:?}");
                continue;
            };
            assert!(plain, "{fields:?} {given:?}");
            shorts += 1;
            let mut expected = Vec::new();
            put_binary_fields(&mut expected, &fields, &given);
            assert_eq!(bytes[packet::HEAD..len], expected, "{fields:?} {given:?}");
        }
        assert!(shorts > 1_000, "{shorts}");
    }

    #[test]
    fn times_read_as_their_types_show_them() {
        let mut rng = Rng::new(11);
        for _ in 0..5_000 {
            let digits = rng.below(7) as u8;
            let micros = rng.below(2 * 3_020_399_000_000) as i64 - 3_020_399_000_000;
            let time = Time { micros };
            assert_eq!(text(&ValueRef::Time(time), Form::Time(digits)), time.format(digits));
            let date = Date::from_days(rng.below(3_000_000) as i64).unwrap_or_default();
            assert_eq!(text(&ValueRef::Date(date), Form::Date), date.to_string());
            let at = DateTime { date, micros: rng.below(86_400_000_000) };
            assert_eq!(text(&ValueRef::DateTime(at), Form::DateTime(digits)), at.format(digits));
        }
    }

    #[test]
    fn a_decimal_reads_as_it_is_shown_elsewhere() {
        for digits in [0, 7, -7, 10, 1234, i128::from(i64::MIN), i128::MAX, i128::MIN] {
            for scale in [0, 1, 3, 30] {
                let number = Decimal::new(digits, scale);
                assert_eq!(text(&ValueRef::Decimal(number), Form::Text), number.to_string());
            }
        }
        let large = Decimal::parse(&"9".repeat(60)).unwrap();
        assert_eq!(text(&ValueRef::Decimal(large), Form::Text), "9".repeat(60));
    }

    #[test]
    fn every_double_has_its_length_before_it() {
        for number in [0.1, -1e308, 1e-300, 5e-324, 123_456_789.125, f64::MAX] {
            let shown = text(&ValueRef::Double(number), Form::Double);
            assert_eq!(shown.parse::<f64>().unwrap(), number, "{shown}");
        }
    }
}
