//! The encoding of index keys, whose bytes compare in the order of the values.
//!
//! A key consists of parts, one for each value. Each part begins with a byte: 0 for NULL, which
//! sorts first, else 1. After a 1, the value follows. All numbers in it are big-endian; "sign
//! flipped" means that the sign bit is inverted.
//!
//! ```text
//! integer        8 bytes; sign flipped, unless the column is unsigned
//! bit, enum      8 bytes: the bits; the number of the member
//! decimal        32 bytes: the digits in the column's scale, as an integer; sign flipped
//! float, double  8 bytes, as a double: all bits inverted if it is negative, else sign flipped
//! text           the collation's sort key, in groups or padded groups (see below)
//! bytes          the bytes, in groups
//! date           4 bytes: year (2), month (1), day (1)
//! time           8 bytes: microseconds; sign flipped
//! datetime       12 bytes: a date (4), then the microseconds of the day (8)
//! ```
//!
//! A group has 8 bytes, and a byte that follows them. That byte is 9 if another group follows. In
//! the last group it is the number of bytes that are used, and the unused bytes are zero.
//!
//! Texts of collations with PAD SPACE have padded groups, because with PAD SPACE a text may be less
//! than its own prefix. The unused bytes of the last group have the weights of spaces. The byte
//! after a group is the result of comparing the rest of the text with spaces: 9 if the rest is
//! less, 11 if it is greater, and 10 if nothing but spaces follows. A 10 ends the part. MyRocks
//! encodes such texts in the same way (`Rdb_key_def::pack_with_varchar_space_pad`).
//!
//! The end of a part follows from its own bytes and the column's type. So a key that has only the
//! first parts is a prefix of all keys that begin with those values.
//!
//! [`read_part`] decodes a part of a key. It does so only for columns for which [`is_exact`]
//! returns true, because the parts of other columns do not determine their values.

use crate::{Collation, ColumnType, Date, DateTime, Decimal, Field, Time, Value, ValueRef};

const GROUP: usize = 8;
/// The byte after a group that is not the last one.
const MORE: u8 = GROUP as u8 + 1;
/// The bytes after padded groups: all that follows is less than spaces, is spaces, or is greater.
const MORE_BELOW: u8 = 9;
const PADDED_END: u8 = 10;
const MORE_ABOVE: u8 = 11;

/// Two different decimals with at most this many digits are different doubles.
const DOUBLE_DIGITS: u8 = 15;
/// Two different whole numbers below this are different doubles.
const DOUBLE_WHOLE_MAX: f64 = 9_007_199_254_740_992.0;

/// Appends a part. The value is as the column stores it.
pub fn write_part(
    value: &ValueRef<'_>,
    column: &ColumnType,
    collation: Collation,
    prefix: Option<u32>,
    out: &mut Vec<u8>,
) {
    if value.is_null() {
        out.push(0);
        return;
    }
    out.push(1);
    match *value {
        ValueRef::Null => {}
        ValueRef::Int(number) => out.extend_from_slice(&(number as u64 ^ 1 << 63).to_be_bytes()),
        ValueRef::UInt(number) => out.extend_from_slice(&number.to_be_bytes()),
        ValueRef::Float(number) => write_double(f64::from(number), out),
        ValueRef::Double(number) => write_double(number, out),
        ValueRef::Decimal(number) => out.extend_from_slice(&number.to_ordered_bytes()),
        ValueRef::Text(text) => {
            if let ColumnType::Enum(names) = column {
                let index = names.iter().position(|name| name == text).map_or(0, |index| index + 1);
                out.extend_from_slice(&(index as u64).to_be_bytes());
                return;
            }
            let cut = match prefix {
                Some(max) => {
                    text.char_indices().nth(max as usize).map_or(text, |(at, _)| &text[..at])
                }
                None => text,
            };
            let start = out.len();
            collation.sort_key(cut.as_bytes(), out);
            match collation.padding() {
                Some(padding) => group_padded(out, start, padding),
                None => group(out, start),
            }
        }
        ValueRef::Bytes(bytes) => {
            let cut = prefix.map_or(bytes.len(), |max| bytes.len().min(max as usize));
            let start = out.len();
            out.extend_from_slice(&bytes[..cut]);
            group(out, start);
        }
        ValueRef::Date(date) => {
            out.extend_from_slice(&date.year.to_be_bytes());
            out.extend_from_slice(&[date.month, date.day]);
        }
        ValueRef::Time(time) => {
            out.extend_from_slice(&(time.micros as u64 ^ 1 << 63).to_be_bytes());
        }
        ValueRef::DateTime(at) => {
            out.extend_from_slice(&at.date.year.to_be_bytes());
            out.extend_from_slice(&[at.date.month, at.date.day]);
            out.extend_from_slice(&at.micros.to_be_bytes());
        }
    }
}

/// Whether a part of a key determines the value from which it was made, so that [`read_part`]
/// returns that value. It does not if the key has only a prefix of the value, the sort weights of a
/// text, or a text without its trailing spaces (except CHAR, which stores none). Nor does it for
/// floats, because 0 and -0 have the same key.
#[must_use]
pub fn is_exact(column: &ColumnType, collation: Collation, prefix: Option<u32>) -> bool {
    use ColumnType as T;
    let told = match column {
        T::Int { .. } | T::Decimal { .. } | T::Bit(_) | T::Year | T::Enum(_) => true,
        T::Date | T::Time(_) | T::DateTime(_) | T::Timestamp(_) => true,
        T::Binary(_) | T::VarBinary(_) | T::Blob(_) => true,
        T::Char(_) => collation.is_bytewise(),
        T::VarChar(_) | T::Text(_) => collation.is_bytewise() && !collation.pads(),
        T::Float | T::Double | T::Set(_) | T::Json => false,
    };
    told && prefix.is_none()
}

/// The contents of a part of a key.
#[derive(Clone, Copy, Debug)]
pub enum KeyPart<'c> {
    /// A value that needs no buffer.
    Value(ValueRef<'c>),
    /// The text of `len` bytes at `at` in the buffer.
    Text {
        /// The text's offset in the buffer.
        at: usize,
        /// The text's length in bytes.
        len: usize,
    },
    /// The bytes of length `len` at `at` in the buffer.
    Bytes {
        /// The offset of the bytes in the buffer.
        at: usize,
        /// The number of bytes.
        len: usize,
    },
}

impl<'c> KeyPart<'c> {
    /// The value; `None` if the bytes in the buffer are not valid text.
    #[must_use]
    #[inline]
    pub fn value<'r>(&self, room: &'r [u8]) -> Option<ValueRef<'r>>
    where
        'c: 'r,
    {
        Some(match *self {
            KeyPart::Value(value) => value,
            KeyPart::Text { at, len } => {
                ValueRef::Text(std::str::from_utf8(room.get(at..at + len)?).ok()?)
            }
            KeyPart::Bytes { at, len } => ValueRef::Bytes(room.get(at..at + len)?),
        })
    }
}

/// Reads the part at the front of a key, for an integer column, and returns it with the rest of the
/// key. `None` for NULL, and if the bytes are not such a part.
#[must_use]
#[inline]
pub fn read_whole(key: &[u8], unsigned: bool) -> Option<(Field<'static>, &[u8])> {
    let (part, rest) = key.split_first_chunk::<9>()?;
    let [1, bits @ ..] = *part else { return None };
    let bits = u64::from_be_bytes(bits);
    Some((if unsigned { Field::UInt(bits) } else { Field::Int(signed(bits)) }, rest))
}

fn signed(bits: u64) -> i64 {
    (bits ^ 1 << 63) as i64
}

/// Reads the part at the front of a key, for a column that [`is_exact`], and returns its length.
/// Texts and bytes, which the key holds in groups, are joined at the end of `room`. `None` if the
/// bytes are not such a part.
#[inline]
pub fn read_part<'c>(
    key: &[u8],
    column: &'c ColumnType,
    room: &mut Vec<u8>,
) -> Option<(KeyPart<'c>, usize)> {
    if let ColumnType::Int { unsigned, .. } = column
        && let Some((field, _)) = read_whole(key, *unsigned)
    {
        return Some((KeyPart::Value(field.value()), 9));
    }
    let (kind, rest) = key.split_first()?;
    if *kind == 0 {
        return Some((KeyPart::Value(ValueRef::Null), 1));
    }
    let eight = || rest.first_chunk::<8>().map(|bytes| u64::from_be_bytes(*bytes));
    let (value, len) = match column {
        ColumnType::Int { unsigned: false, .. } | ColumnType::Year => {
            (ValueRef::Int(signed(eight()?)), 8)
        }
        ColumnType::Int { unsigned: true, .. } | ColumnType::Bit(_) => {
            (ValueRef::UInt(eight()?), 8)
        }
        ColumnType::Decimal { scale, .. } => {
            (ValueRef::Decimal(Decimal::from_ordered_bytes(rest.first_chunk()?, *scale)), 32)
        }
        ColumnType::Enum(names) => {
            let name = match usize::try_from(eight()?).ok()?.checked_sub(1) {
                // The stored value for a text that is no member.
                None => "",
                Some(at) => names.get(at)?.as_str(),
            };
            (ValueRef::Text(name), 8)
        }
        ColumnType::Date => (ValueRef::Date(read_date(rest)?), 4),
        ColumnType::Time(_) => (ValueRef::Time(Time { micros: signed(eight()?) }), 8),
        ColumnType::DateTime(_) | ColumnType::Timestamp(_) => {
            let micros = u64::from_be_bytes(*rest.get(4..)?.first_chunk()?);
            (ValueRef::DateTime(DateTime { date: read_date(rest)?, micros }), 12)
        }
        ColumnType::Float | ColumnType::Double | ColumnType::Set(_) | ColumnType::Json => {
            return None;
        }
        text_or_bytes => {
            let at = room.len();
            let groups = read_groups(rest, room)?;
            if let ColumnType::Char(_) = column {
                // A CHAR has no trailing spaces, so these are padding.
                let text = &room[at..];
                let spaces = text.iter().rev().take_while(|byte| **byte == b' ').count();
                room.truncate(room.len() - spaces);
            }
            let len = room.len() - at;
            let part = match text_or_bytes.is_text() {
                true => KeyPart::Text { at, len },
                false => KeyPart::Bytes { at, len },
            };
            return Some((part, 1 + groups));
        }
    };
    Some((KeyPart::Value(value), 1 + len))
}

fn read_date(bytes: &[u8]) -> Option<Date> {
    let [high, low, month, day] = *bytes.first_chunk()?;
    Date::new(u16::from_be_bytes([high, low]), month, day)
}

/// The number of used bytes of a group, from the byte after it, if it is the last one.
#[inline]
fn used_of_last(after: u8) -> Option<usize> {
    match usize::from(after) {
        used @ 0..=GROUP => Some(used),
        _ if after == PADDED_END => Some(GROUP),
        _ => None,
    }
}

/// Joins groups, and returns the number of bytes that the groups take in the key. The padding of
/// padded groups is joined, too. `None` if the last group is missing.
#[must_use]
pub fn read_groups(bytes: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let mut at = 0;
    loop {
        let group = bytes.get(at..)?.first_chunk::<{ GROUP + 1 }>()?;
        at += GROUP + 1;
        let last = used_of_last(group[GROUP]);
        out.extend_from_slice(&group[..last.unwrap_or(GROUP)]);
        if last.is_some() {
            return Some(at);
        }
    }
}

fn write_double(number: f64, out: &mut Vec<u8>) {
    let bits = if number == 0.0 { 0 } else { number.to_bits() };
    let ordered = if bits >> 63 == 1 { !bits } else { bits ^ 1 << 63 };
    out.extend_from_slice(&ordered.to_be_bytes());
}

/// Splits the bytes from `start` on into groups, in place.
fn group(out: &mut Vec<u8>, start: usize) {
    let len = out.len() - start;
    let groups = len.div_ceil(GROUP).max(1);
    out.resize(start + groups * (GROUP + 1), 0);
    // The unused bytes of the last group are still zero.
    let mut after = (len - (groups - 1) * GROUP) as u8;
    for at in (0..groups).rev() {
        move_group(&mut out[start..], at, 0, after);
        after = MORE;
    }
}

/// Splits the bytes from `start` on, which do not end with padding, into padded groups, in place.
fn group_padded(out: &mut Vec<u8>, start: usize, padding: [u8; GROUP]) {
    let len = out.len() - start;
    let groups = len.div_ceil(GROUP).max(1);
    out.resize(start + groups * (GROUP + 1), 0);
    let padding = u64::from_be_bytes(padding);
    let unused_bits = 8 * (groups * GROUP - len) as u32;
    let mut fill = padding & u64::MAX.checked_shr(u64::BITS - unused_bits).unwrap_or(0);
    let mut after = PADDED_END;
    for at in (0..groups).rev() {
        let moved = move_group(&mut out[start..], at, fill, after);
        if moved != padding {
            after = if moved < padding { MORE_BELOW } else { MORE_ABOVE };
        }
        fill = 0;
    }
}

/// Moves a group to its place, fills its unused bytes, writes the byte after it, and returns the
/// group. The last group must move first, so that no group overwrites one that is yet to move.
#[inline]
fn move_group(out: &mut [u8], at: usize, fill: u64, after: u8) -> u64 {
    const MISSING: &str = "the buffer has all groups";
    let from = out[at * GROUP..].first_chunk::<GROUP>().expect(MISSING);
    let group = u64::from_be_bytes(*from) | fill;
    let to = out[at * (GROUP + 1)..].first_chunk_mut::<{ GROUP + 1 }>().expect(MISSING);
    to[..GROUP].copy_from_slice(&group.to_be_bytes());
    to[GROUP] = after;
    group
}

/// Where an index has the entries whose value equals a given value.
#[derive(Clone, Debug)]
pub enum Lookup {
    /// At this value, as the column stores it.
    At(Value),
    /// Nowhere: no value of the column equals it.
    Nowhere,
    /// The order of the index does not decide it, as for text that is compared with a number.
    Unknown,
}

/// Where an index of a column has the entries whose value equals `value`.
#[must_use]
pub fn lookup(value: &Value, column: &ColumnType) -> Lookup {
    // Whether both are compared as exact numbers. Then a value that the column cannot store equals
    // no value of the column.
    let exact = match (value, column) {
        (Value::Null, _) => return Lookup::At(Value::Null),
        (Value::Int(number), ColumnType::Int { width, unsigned: false, .. })
            if width.holds(*number) =>
        {
            return Lookup::At(Value::Int(*number));
        }
        (
            Value::Int(_) | Value::UInt(_) | Value::Decimal(_),
            ColumnType::Int { .. } | ColumnType::Bit(_) | ColumnType::Decimal { .. },
        ) => true,
        (Value::Int(_), ColumnType::Year) => return Lookup::At(value.clone()),
        (Value::UInt(number), ColumnType::Year) => {
            return i64::try_from(*number).map_or(Lookup::Nowhere, |n| Lookup::At(Value::Int(n)));
        }
        (
            Value::Int(_) | Value::UInt(_) | Value::Float(_) | Value::Double(_) | Value::Decimal(_),
            ColumnType::Double,
        ) => false,
        (Value::Text(_), column)
            if column.is_text() && !matches!(column, ColumnType::Set(_) | ColumnType::Json) =>
        {
            return match column {
                ColumnType::Enum(names) => member_named(names, &value.to_text()),
                ColumnType::Char(_) => {
                    Lookup::At(Value::Text(value.to_text().trim_end_matches(' ').to_owned()))
                }
                _ => Lookup::At(value.clone()),
            };
        }
        (
            Value::Bytes(_) | Value::Text(_),
            ColumnType::Binary(_) | ColumnType::VarBinary(_) | ColumnType::Blob(_),
        ) => {
            return Lookup::At(Value::Bytes(match value {
                Value::Bytes(bytes) => bytes.clone(),
                other => other.to_text().into_bytes(),
            }));
        }
        (
            Value::Text(_) | Value::Date(_) | Value::DateTime(_),
            ColumnType::DateTime(_) | ColumnType::Timestamp(_),
        ) => false,
        (Value::Text(_) | Value::Date(_) | Value::DateTime(_), ColumnType::Date) => {
            return match crate::convert::to_datetime(&value.as_ref()) {
                Some(at) if at.micros == 0 => Lookup::At(Value::Date(at.date)),
                Some(_) => Lookup::Nowhere,
                None => Lookup::Unknown,
            };
        }
        // A numeric column is compared as a double with a text that is not constant. Where doubles
        // cannot distinguish numbers, several numbers equal the text's.
        (Value::Text(text), ColumnType::Int { .. } | ColumnType::Decimal { .. }) => {
            let limit = match column {
                ColumnType::Decimal { precision, .. } if *precision > DOUBLE_DIGITS => 0.0,
                _ => DOUBLE_WHOLE_MAX,
            };
            if crate::convert::text_to_double(text.as_bytes()).abs() >= limit {
                return Lookup::Unknown;
            }
            false
        }
        (Value::Text(_), ColumnType::Double) => false,
        (Value::Text(_) | Value::Time(_), ColumnType::Time(_)) => false,
        _ => return Lookup::Unknown,
    };
    match column.store(value) {
        // If storing changed the value, the lookup would find entries that do not equal it.
        Ok(stored) if same(&stored, value) => Lookup::At(stored),
        _ if exact => Lookup::Nowhere,
        _ => Lookup::Unknown,
    }
}

/// Where an index of an ENUM has the member with this name. The column's collation may hold other
/// members equal to a text that is none of them.
fn member_named(names: &[String], text: &str) -> Lookup {
    let name = names.iter().find(|name| **name == text.trim_end_matches(' '));
    name.map_or(Lookup::Unknown, |name| Lookup::At(Value::Text(name.clone())))
}

/// Whether an index of a column can serve for equality with another column's values, as far as the
/// types decide that.
#[must_use]
pub fn serves(column: &ColumnType, other: &ColumnType) -> bool {
    use ColumnType as T;
    let exact = matches!(other, T::Int { .. } | T::Year | T::Bit(_) | T::Decimal { .. });
    match column {
        T::Int { .. } | T::Decimal { .. } => exact || other.is_text(),
        T::Bit(_) => exact,
        T::Year => exact && !matches!(other, T::Decimal { .. }),
        T::Double => other.is_numeric() || other.is_text(),
        T::Float | T::Set(_) | T::Json => false,
        T::Char(_) | T::VarChar(_) | T::Text(_) | T::Enum(_) => other.is_text(),
        T::Binary(_) | T::VarBinary(_) | T::Blob(_) => other.is_text() || other.is_binary(),
        T::DateTime(_) | T::Timestamp(_) | T::Date => {
            other.is_text() || matches!(other, T::Date | T::DateTime(_) | T::Timestamp(_))
        }
        T::Time(_) => other.is_text() || matches!(other, T::Time(_)),
    }
}

fn same(stored: &Value, value: &Value) -> bool {
    match (stored, value) {
        (Value::Int(stored), Value::Int(value)) => stored == value,
        (Value::DateTime(at), _) => crate::convert::to_datetime(&value.as_ref()) == Some(*at),
        (Value::Time(time), _) => crate::convert::to_time(&value.as_ref()) == Some(*time),
        (stored, value) => {
            crate::convert::to_decimal(&stored.as_ref())
                == crate::convert::to_decimal(&value.as_ref())
        }
    }
}

/// The length of the part at the front of a key; `None` if the bytes are not such a part.
#[must_use]
pub fn part_len(key: &[u8], column: &ColumnType) -> Option<usize> {
    if *key.first()? == 0 {
        return Some(1);
    }
    let fixed = match column {
        ColumnType::Int { .. } | ColumnType::Year | ColumnType::Bit(_) | ColumnType::Enum(_) => 8,
        ColumnType::Float | ColumnType::Double | ColumnType::Time(_) => 8,
        ColumnType::Decimal { .. } => 32,
        ColumnType::Date => 4,
        ColumnType::DateTime(_) | ColumnType::Timestamp(_) => 12,
        _ => {
            let mut at = 1 + GROUP;
            while used_of_last(*key.get(at)?).is_none() {
                at += 1 + GROUP;
            }
            return Some(at + 1);
        }
    };
    (key.len() > fixed).then_some(1 + fixed)
}
