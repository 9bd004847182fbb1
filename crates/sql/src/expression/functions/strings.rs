//! Functions of text and of bytes. A position or a length counts characters in a text, and bytes in
//! a value of bytes.

use std::fmt::Write as _;

use regex::Regex;
use spillway_types::convert::to_i128;
use spillway_types::{Collation, Value};

use super::digests::digest_function;
use super::patterns::MatchOptions;
use super::scalar::Scalar;
use crate::errors::{Result, SqlError};
use crate::expression::context::Context;
use crate::expression::operands::{bits_of, bytes_of, number, text, whole};
use crate::expression::shape::text_of_bytes;
use crate::expression::value_memory::length;

/// The longest text that a function may return, whatever the session's `max_allowed_packet`.
const LENGTH_MAX: usize = 64 << 20;

/// The longest text that a function may return in this session.
pub(super) fn length_max(context: &Context<'_>) -> usize {
    let packet = context.variables.borrow().number("max_allowed_packet");
    packet.map_or(LENGTH_MAX, |packet| LENGTH_MAX.min(packet as usize))
}

/// The result in place of a text that is too long: NULL, with a warning.
#[cold]
pub(super) fn too_long(context: &Context<'_>, call: Scalar) -> Value {
    let (name, most) = (call.name(), length_max(context));
    let text =
        format!("Result of {name}() was larger than max_allowed_packet ({most}) - truncated");
    context.warn(SqlError::new(1301, text));
    Value::Null
}

/// REGEXP_LIKE of a text, a pattern, and perhaps a match type.
fn regexp_like(
    context: &Context<'_>,
    call: Scalar,
    args: &[Value],
    collation: Collation,
) -> Result<Value> {
    let mut options = MatchOptions::of(collation);
    if let Some(match_type) = args.get(2) {
        options = options.with(&text(match_type), call.name())?;
    }
    let regex = context.patterns.get(&text(&args[1]), options)?;
    Ok(Value::from(regex.is_match(&text(&args[0]))))
}

/// Concatenates the parts, with `between` between them. The result is bytes if any part is.
pub(super) fn join(parts: &[Value], between: &Value) -> Value {
    let bytes = |value: &Value| matches!(value, Value::Bytes(_));
    let all = parts.iter().map(length).sum::<usize>() + parts.len() * length(between);
    let mut out = Vec::with_capacity(all);
    for (at, part) in parts.iter().enumerate() {
        if at > 0 {
            out.extend_from_slice(&bytes_of(between));
        }
        out.extend_from_slice(&bytes_of(part));
    }
    if parts.iter().any(bytes) || bytes(between) {
        return Value::Bytes(out);
    }
    made(out)
}

/// The bytes as text if they are valid text, else as bytes.
fn made(bytes: Vec<u8>) -> Value {
    String::from_utf8(bytes).map_or_else(|error| Value::Bytes(error.into_bytes()), Value::Text)
}

/// Characters of text, or bytes: what positions count.
struct Units {
    bytes: bool,
    units: Vec<u32>,
}

impl Units {
    fn of(value: &Value, bytes: bool) -> Units {
        match value {
            Value::Bytes(raw) => {
                Units { bytes: true, units: raw.iter().copied().map(u32::from).collect() }
            }
            other if bytes => Units { bytes, units: text(other).bytes().map(u32::from).collect() },
            other => {
                let text = text(other);
                let mut units = Vec::with_capacity(text.chars().count());
                units.extend(text.chars().map(u32::from));
                Units { bytes, units }
            }
        }
    }

    fn value(bytes: bool, units: &[u32]) -> Value {
        if bytes {
            Value::Bytes(units.iter().map(|unit| *unit as u8).collect())
        } else {
            let chars = || units.iter().filter_map(|unit| char::from_u32(*unit));
            let mut text = String::with_capacity(chars().map(char::len_utf8).sum());
            text.extend(chars());
            Value::Text(text)
        }
    }
}

/// Converts values to units of one kind.
fn alike<const N: usize>(values: [&Value; N]) -> [Units; N] {
    let bytes = values.iter().any(|value| matches!(value, Value::Bytes(_)));
    values.map(|value| Units::of(value, bytes))
}

fn find<T: PartialEq>(hay: &[T], needle: &[T]) -> Option<usize> {
    if needle.is_empty() || needle.len() > hay.len() {
        return None;
    }
    hay.windows(needle.len()).position(|part| part == needle)
}

/// The number of bytes of a value.
fn bytes_in(value: &Value) -> i64 {
    match value {
        Value::Text(_) | Value::Bytes(_) => length(value) as i64,
        other => bytes_of(other).len() as i64,
    }
}

/// The number of characters of a text, or of bytes.
fn characters(value: &Value) -> i64 {
    match value {
        Value::Bytes(bytes) => bytes.len() as i64,
        Value::Text(text) => text.chars().count() as i64,
        other => text(other).chars().count() as i64,
    }
}

fn substring(value: &Value, from: i64, count: Option<i64>) -> Value {
    let Units { bytes, units } = Units::of(value, false);
    let len = units.len() as i64;
    let start = if from > 0 { from - 1 } else { len.saturating_add(from) };
    let count = count.unwrap_or(len).min(len.saturating_sub(start));
    if from == 0 || start < 0 || start >= len || count <= 0 {
        return Units::value(bytes, &[]);
    }
    Units::value(bytes, &units[start as usize..(start + count) as usize])
}

fn substring_index(args: &[Value]) -> Value {
    let [hay, needle] = alike([&args[0], &args[1]]);
    let count = whole(&args[2]);
    if needle.units.is_empty() || count == 0 {
        return Units::value(hay.bytes, &[]);
    }
    let mut left = count.unsigned_abs();
    let (units, width) = (&hay.units, needle.units.len());
    if count > 0 {
        let mut at = 0;
        while let Some(found) = find(&units[at..], &needle.units) {
            left -= 1;
            if left == 0 {
                return Units::value(hay.bytes, &units[..at + found]);
            }
            at += found + width;
        }
    } else {
        let mut end = units.len();
        while let Some(found) = (0..=end.saturating_sub(width))
            .rev()
            .find(|at| at + width <= end && units[*at..at + width] == needle.units)
        {
            left -= 1;
            if left == 0 {
                return Units::value(hay.bytes, &units[found + width..]);
            }
            end = found;
        }
    }
    Units::value(hay.bytes, units)
}

fn trim(value: &Value, what: &Value, leading: bool, trailing: bool) -> Value {
    let [hay, what] = alike([value, what]);
    let mut rest = hay.units.as_slice();
    if !what.units.is_empty() {
        while leading && let Some(cut) = rest.strip_prefix(what.units.as_slice()) {
            rest = cut;
        }
        while trailing && let Some(cut) = rest.strip_suffix(what.units.as_slice()) {
            rest = cut;
        }
    }
    Units::value(hay.bytes, rest)
}

/// Calls `visit` with each position at which `what` occurs, from left to right, without overlaps.
fn each_place(hay: &[u8], what: &[u8], mut visit: impl FnMut(usize)) {
    if let (Ok(hay), Ok(what)) = (std::str::from_utf8(hay), std::str::from_utf8(what)) {
        hay.match_indices(what).for_each(|(at, _)| visit(at));
        return;
    }
    let mut at = 0;
    while let Some(found) = hay[at..].windows(what.len()).position(|part| part == what) {
        visit(at + found);
        at += found + what.len();
    }
}

/// REPLACE. `None` if the result would be longer than `most`.
fn replace(context: &Context<'_>, args: &[Value], most: usize) -> Result<Option<Value>> {
    let bytes = args.iter().any(|arg| matches!(arg, Value::Bytes(_)));
    let (hay, from, to) = (bytes_of(&args[0]), bytes_of(&args[1]), bytes_of(&args[2]));
    let whole = |all| if bytes { Value::Bytes(all) } else { made(all) };
    if from.is_empty() {
        return Ok(Some(whole(hay)));
    }
    let mut count = 0_usize;
    each_place(&hay, &from, |_| count += 1);
    let len = (hay.len() - count * from.len()).saturating_add(count.saturating_mul(to.len()));
    if len > most {
        return Ok(None);
    }
    context.hold_if_large(len)?;
    let (mut out, mut last) = (Vec::with_capacity(len), 0);
    each_place(&hay, &from, |at| {
        out.extend_from_slice(&hay[last..at]);
        out.extend_from_slice(&to);
        last = at + from.len();
    });
    out.extend_from_slice(&hay[last..]);
    Ok(Some(whole(out)))
}

/// REGEXP_REPLACE. `None` if the result would be longer than `most`.
fn regexp_replace(
    context: &Context<'_>,
    regex: &Regex,
    hay: &str,
    to: &str,
    most: usize,
) -> Result<Option<Value>> {
    let (mut out, mut last) = (String::new(), 0);
    for found in regex.captures_iter(hay) {
        let Some(whole) = found.get(0) else { continue };
        reserve(context, &mut out, whole.start() - last + to.len())?;
        out.push_str(&hay[last..whole.start()]);
        let before = out.capacity();
        found.expand(to, &mut out);
        // A group may be longer than its name in `to`.
        if out.capacity() > before {
            context.hold_if_large(out.capacity())?;
        }
        last = whole.end();
        if out.len() > most {
            return Ok(None);
        }
    }
    reserve(context, &mut out, hay.len() - last)?;
    out.push_str(&hay[last..]);
    Ok(Some(Value::Text(out)))
}

/// Gives a text room for more bytes, and charges for it. While the text moves, both its old and its
/// new memory are held.
fn reserve(context: &Context<'_>, out: &mut String, more: usize) -> Result<()> {
    if more > out.capacity() - out.len() {
        let all = (out.len() + more).max(2 * out.capacity());
        context.hold_if_large(all)?;
        out.reserve_exact(all - out.len());
    }
    Ok(())
}

/// LPAD and RPAD. `None` if the result could be longer than `most`.
fn pad(context: &Context<'_>, args: &[Value], left: bool, most: usize) -> Result<Option<Value>> {
    let [hay, with] = alike([&args[0], &args[2]]);
    let Ok(len) = usize::try_from(whole(&args[1])) else { return Ok(Some(Value::Null)) };
    if len <= hay.units.len() {
        return Ok(Some(Units::value(hay.bytes, &hay.units[..len])));
    }
    // A character may have four bytes.
    if len > if hay.bytes { most } else { most / 4 } {
        return Ok(None);
    }
    if with.units.is_empty() {
        return Ok(Some(Value::Null));
    }
    // As characters, and as text.
    context.hold_if_large(8 * len)?;
    let filling = with.units.iter().copied().cycle().take(len - hay.units.len());
    let mut units: Vec<u32> = Vec::with_capacity(len);
    if left {
        units.extend(filling.chain(hay.units.iter().copied()));
    } else {
        units.extend(hay.units.iter().copied().chain(filling));
    }
    Ok(Some(Units::value(hay.bytes, &units)))
}

/// The place of a text in another. As in MySQL, it is found only where it has as many bytes, so
/// that `e` is not found in `é`.
fn locate(needle: &Value, hay: &Value, from: i64, collation: Collation) -> Value {
    let Ok(start) = usize::try_from(from - 1) else { return Value::Int(0) };
    let place = |found: Option<usize>| Value::Int(found.map_or(0, |at| (start + at + 1) as i64));
    if matches!(needle, Value::Bytes(_)) || matches!(hay, Value::Bytes(_)) {
        let (needle, hay) = (bytes_of(needle), bytes_of(hay));
        let Some(rest) = hay.get(start..) else { return Value::Int(0) };
        return place(match needle.len() {
            0 => Some(0),
            len => rest.windows(len).position(|window| window == needle),
        });
    }
    let (needle, hay) = (text(needle), text(hay));
    let weights: Vec<u64> = needle.chars().map(|c| collation.weight(c)).collect();
    let is_at = |(begin, _): (usize, char)| {
        let mut bytes = 0;
        let mut chars = hay[begin..].chars().inspect(|c| bytes += c.len_utf8());
        weights.iter().all(|w| chars.next().is_some_and(|c| collation.weight(c) == *w))
            && bytes == needle.len()
    };
    if needle.is_empty() {
        return place((start <= hay.chars().count()).then_some(0));
    }
    place(hay.char_indices().skip(start).position(is_at))
}

fn insert(args: &[Value]) -> Value {
    let [old, new] = alike([&args[0], &args[3]]);
    let (at, len) = (whole(&args[1]), whole(&args[2]));
    if at < 1 || at as usize > old.units.len() {
        return Units::value(old.bytes, &old.units);
    }
    let at = at as usize - 1;
    let rest = old.units.len() - at;
    let end = at + usize::try_from(len).map_or(rest, |len| len.min(rest));
    let mut units = old.units[..at].to_vec();
    units.extend_from_slice(&new.units);
    units.extend_from_slice(&old.units[end..]);
    Units::value(old.bytes, &units)
}

/// The integer at the front of a text, in a base, limited to 64 bits.
fn parse_base(text: &str, base: u32, signed: bool) -> u64 {
    let text = text.trim_start();
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut number: u64 = 0;
    for digit in digits.chars().map_while(|c| c.to_digit(base)) {
        number = match number.checked_mul(base.into()).and_then(|n| n.checked_add(digit.into())) {
            Some(number) => number,
            None if signed && negative => return i64::MIN as u64,
            None if signed => return i64::MAX as u64,
            None => return u64::MAX,
        };
    }
    if signed {
        number = if negative { number.min(1 << 63) } else { number.min(i64::MAX as u64) };
    }
    if negative { number.wrapping_neg() } else { number }
}

fn show_base(number: u64, base: u32, signed: bool) -> String {
    let (sign, mut number) = if signed && (number as i64) < 0 {
        ("-", (number as i64).unsigned_abs())
    } else {
        ("", number)
    };
    let mut digits = Vec::new();
    loop {
        let digit = char::from_digit((number % u64::from(base)) as u32, base).unwrap_or('0');
        digits.push(digit.to_ascii_uppercase());
        number /= u64::from(base);
        if number == 0 {
            break;
        }
    }
    digits.extend(sign.chars());
    digits.into_iter().rev().collect()
}

fn conv(value: &Value, from: i64, to: i64) -> Value {
    let base =
        |base: i64| u32::try_from(base.unsigned_abs()).ok().filter(|base| (2..=36).contains(base));
    let (Some(of), Some(into)) = (base(from), base(to)) else { return Value::Null };
    let number = match value {
        // A BIT or a hexadecimal literal is a number already.
        Value::UInt(number) => *number,
        other => match text(other) {
            shown if shown.is_empty() => return Value::Null,
            shown => parse_base(&shown, of, from < 0),
        },
    };
    Value::Text(show_base(number, into, to < 0))
}

fn quote(value: &Value) -> Value {
    let bytes = bytes_of(value);
    let mut out = Vec::with_capacity(2 * bytes.len() + 2);
    out.push(b'\'');
    for byte in bytes {
        match byte {
            b'\\' | b'\'' => out.extend([b'\\', byte]),
            0 => out.extend(*b"\\0"),
            26 => out.extend(*b"\\Z"),
            other => out.push(other),
        }
    }
    out.push(b'\'');
    if matches!(value, Value::Bytes(_)) { Value::Bytes(out) } else { made(out) }
}

/// The original Soundex. Consecutive letters with one code count once, even with vowels between
/// them.
fn soundex(text: &str) -> String {
    const CODES: &[u8; 26] = b"01230120022455012623010202";
    let code = |c: char| match c {
        c if c.is_ascii_alphabetic() => {
            Some(CODES[usize::from(c.to_ascii_uppercase() as u8 - b'A')] as char)
        }
        // As in MySQL, whatever is behind the signs of Latin-1 counts as a letter.
        c if c >= '\u{C0}' => Some('0'),
        _ => None,
    };
    let mut out = String::new();
    let mut last = '0';
    for c in text.chars() {
        let Some(code) = code(c) else { continue };
        if out.is_empty() {
            out.push(c.to_ascii_uppercase());
            last = code;
        } else if code != '0' && code != last {
            out.push(code);
            last = code;
        }
    }
    if out.is_empty() {
        return out;
    }
    while out.chars().count() < 4 {
        out.push('0');
    }
    out
}

/// EXPORT_SET. `None` if the result would be longer than `most`.
fn export_set(context: &Context<'_>, args: &[Value], most: usize) -> Result<Option<Value>> {
    let bits = bits_of(to_i128(&args[0].as_ref()).unwrap_or(0));
    let count = args.get(4).map_or(64, whole);
    let count = if (0..=64).contains(&count) { count as usize } else { 64 };
    let between = args.get(3).cloned().unwrap_or_else(|| Value::from(","));
    let chosen = (0..count).map(|at| &args[if bits >> at & 1 == 1 { 1 } else { 2 }]);
    let len: usize = chosen.clone().map(length).sum();
    let len = len + count.saturating_sub(1) * length(&between);
    if len > most {
        return Ok(None);
    }
    // The chosen ones, and the result.
    context.hold_if_large(2 * len)?;
    Ok(Some(join(&chosen.cloned().collect::<Vec<Value>>(), &between)))
}

fn hex(value: &Value) -> String {
    match value {
        Value::Float(_) | Value::Double(_) | Value::Decimal(_) => {
            let x = number(value);
            let bits = if x <= i64::MIN as f64 {
                u64::MAX
            } else {
                bits_of((x + 0.5f64.copysign(x)) as i128)
            };
            format!("{bits:X}")
        }
        Value::Int(_) | Value::UInt(_) => {
            format!("{:X}", bits_of(to_i128(&value.as_ref()).unwrap_or(0)))
        }
        other => {
            let bytes = bytes_of(other);
            let mut out = String::with_capacity(2 * bytes.len());
            for byte in bytes {
                let _ = write!(out, "{byte:02X}");
            }
            out
        }
    }
}

fn letters(value: &Value, change: fn(char) -> Option<char>) -> Value {
    match value {
        Value::Bytes(_) => value.clone(),
        other => Value::Text(text(other).chars().map(|c| change(c).unwrap_or(c)).collect()),
    }
}

/// The upper case of a letter, if that is one letter.
fn upper(c: char) -> Option<char> {
    let mut all = c.to_uppercase();
    all.next().filter(|_| all.next().is_none())
}

/// The lower case of a letter. MySQL's table has one for the capital I with a dot, and none for the
/// capital sharp S.
fn lower(c: char) -> Option<char> {
    let mut all = c.to_lowercase();
    match c {
        'İ' => Some('i'),
        'ẞ' => None,
        _ => all.next().filter(|_| all.next().is_none()),
    }
}

fn inet_aton(text: &str) -> Value {
    // A missing number counts as zero, except the last one.
    let number = |part: &str| if part.is_empty() { Some(0) } else { part.parse().ok() };
    let parts: Vec<Option<u64>> =
        text.split('.').map(|part| number(part).filter(|n| *n <= 255)).collect();
    let clean = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        && text.ends_with(|c: char| c.is_ascii_digit());
    let Some(parts) =
        parts.into_iter().collect::<Option<Vec<u64>>>().filter(|parts| clean && parts.len() <= 4)
    else {
        return Value::Null;
    };
    let Some((last, rest)) = parts.split_last() else { return Value::Null };
    let head = rest.iter().enumerate().fold(0, |sum, (at, part)| sum | part << (24 - 8 * at));
    Value::UInt(head | last)
}

fn unhex(digits: String) -> Value {
    let even = if digits.len() % 2 == 1 { format!("0{digits}") } else { digits };
    if even.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        Value::Bytes(crate::parser::unhex(&even))
    } else {
        Value::Null
    }
}

pub(super) fn text_function(
    context: &Context<'_>,
    call: Scalar,
    args: &[Value],
    collation: Collation,
) -> Result<Value> {
    use Scalar as S;
    let first = || text(&args[0]);
    let most = || length_max(context);
    let fitting = |value: Option<Value>| value.unwrap_or_else(|| too_long(context, call));
    Ok(match call {
        S::Length | S::OctetLength => Value::Int(bytes_in(&args[0])),
        S::BitLength => Value::Int(8 * bytes_in(&args[0])),
        S::CharLength | S::CharacterLength => Value::Int(characters(&args[0])),
        S::Upper | S::Ucase => letters(&args[0], upper),
        S::Lower | S::Lcase => letters(&args[0], lower),
        S::Concat => join(args, &Value::from("")),
        S::Substring | S::Substr | S::Mid => {
            substring(&args[0], whole(&args[1]), args.get(2).map(whole))
        }
        S::Left => substring(&args[0], 1, Some(whole(&args[1]))),
        S::Right => {
            let count = whole(&args[1]);
            let len = characters(&args[0]);
            substring(&args[0], if count <= 0 { 0 } else { -count.min(len) }, None)
        }
        S::SubstringIndex => substring_index(args),
        S::Trim => trim(&args[0], &Value::from(" "), true, true),
        S::Ltrim => trim(&args[0], &Value::from(" "), true, false),
        S::Rtrim => trim(&args[0], &Value::from(" "), false, true),
        S::TrimBoth => trim(&args[0], &args[1], true, true),
        S::TrimLead => trim(&args[0], &args[1], true, false),
        S::TrimTrail => trim(&args[0], &args[1], false, true),
        S::Replace => fitting(replace(context, args, most())?),
        S::Reverse => {
            let mut all = Units::of(&args[0], false);
            all.units.reverse();
            Units::value(all.bytes, &all.units)
        }
        S::Repeat | S::Space => {
            let what = if call == S::Space { Value::from(" ") } else { args[0].clone() };
            let count = whole(&args[args.len() - 1]).max(0) as usize;
            let bytes = bytes_of(&what);
            if bytes.len().saturating_mul(count) > most() {
                return Ok(too_long(context, call));
            }
            context.hold_if_large(bytes.len() * count)?;
            let all = bytes.repeat(count);
            if matches!(what, Value::Bytes(_)) { Value::Bytes(all) } else { made(all) }
        }
        S::Lpad => fitting(pad(context, args, true, most())?),
        S::Rpad => fitting(pad(context, args, false, most())?),
        S::Instr => locate(&args[1], &args[0], 1, collation),
        S::Locate | S::Position => {
            locate(&args[0], &args[1], args.get(2).map_or(1, whole), collation)
        }
        S::Strcmp => Value::Int(match context.compare(&args[0], &args[1], collation)? {
            Some(std::cmp::Ordering::Less) => -1,
            Some(std::cmp::Ordering::Greater) => 1,
            _ => 0,
        }),
        S::Ascii => Value::Int(bytes_of(&args[0]).first().map_or(0, |byte| i64::from(*byte))),
        S::Ord => Value::Int(match &args[0] {
            Value::Bytes(bytes) => bytes.first().map_or(0, |byte| i64::from(*byte)),
            other => text(other).chars().next().map_or(0, |c| {
                let mut buffer = [0; 4];
                let bytes = c.encode_utf8(&mut buffer).bytes();
                bytes.fold(0, |code, byte| code << 8 | i64::from(byte))
            }),
        }),
        S::Hex => Value::Text(hex(&args[0])),
        S::Unhex => unhex(first()),
        S::Bin => conv(&args[0], 10, 2),
        S::Oct => conv(&args[0], 10, 8),
        S::Conv => conv(&args[0], whole(&args[1]), whole(&args[2])),
        S::FindInSet => {
            let (needle, list) = (bytes_of(&args[0]), bytes_of(&args[1]));
            let mut parts = list.split(|byte| *byte == b',');
            let at = parts.position(|part| collation.compare(part, &needle).is_eq());
            Value::Int(if list.is_empty() { 0 } else { at.map_or(0, |at| at as i64 + 1) })
        }
        S::Insert => insert(args),
        S::Quote => quote(&args[0]),
        S::Soundex => match &args[0] {
            Value::Bytes(_) => Value::Bytes(soundex(&first()).into_bytes()),
            _ => Value::Text(soundex(&first())),
        },
        S::ExportSet => fitting(export_set(context, args, most())?),
        S::RegexpLike => regexp_like(context, call, args, collation)?,
        S::RegexpReplace => {
            let regex = context.patterns.get(&text(&args[1]), MatchOptions::of(collation))?;
            fitting(regexp_replace(context, &regex, &first(), &text(&args[2]), most())?)
        }
        S::Charset => Value::from(match &args[0] {
            Value::Text(_) => "utf8mb4",
            _ => "binary",
        }),
        S::CollationOf => Value::from(match &args[0] {
            Value::Text(_) => collation.name(),
            _ => "binary",
        }),
        S::BytesText => text_of_bytes(args[0].clone())?,
        S::InetAton => inet_aton(&first()),
        S::InetNtoa => match u32::try_from(to_i128(&args[0].as_ref()).unwrap_or(-1)) {
            Ok(number) => Value::Text(std::net::Ipv4Addr::from(number).to_string()),
            Err(_) => Value::Null,
        },
        S::JsonValid | S::JsonUnquote | S::JsonExtract => super::json::json_function(call, args)?,
        other => return digest_function(context, other, args),
    })
}
