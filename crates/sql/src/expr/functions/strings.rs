//! Functions of text and bytes.

use std::fmt::Write as _;

use regex::{Regex, RegexBuilder};
use sha1::{Digest, Sha1};
use sha2::{Sha224, Sha256, Sha384, Sha512};
use spillway_types::convert::{to_decimal, to_i128};
use spillway_types::{Collation, Decimal, Value};

use super::Scalar;
use crate::errors::{Result, SqlError};
use crate::expr::eval::{text, whole};
use crate::expr::{Context, compare};

/// A regular expression, without regard to case where the collation has none.
pub(in crate::expr) fn regex(pattern: &str, collation: Collation) -> Result<Regex> {
    RegexBuilder::new(pattern)
        .case_insensitive(collation == Collation::GeneralCi)
        .size_limit(1 << 20)
        .build()
        .map_err(|_| SqlError::new(3685, "Illegal argument to a regular expression."))
}

fn substring(value: &Value, from: i64, count: Option<i64>) -> Value {
    fn cut<T: Copy>(items: &[T], from: i64, count: Option<i64>) -> Vec<T> {
        let len = items.len() as i64;
        let start = if from > 0 { from - 1 } else { len + from };
        if from == 0 || start < 0 || start >= len {
            return Vec::new();
        }
        let count = count.unwrap_or(len).max(0).min(len - start);
        items[start as usize..(start + count) as usize].to_vec()
    }
    match value {
        Value::Bytes(bytes) => Value::Bytes(cut(bytes, from, count)),
        other => {
            let chars: Vec<char> = text(other).chars().collect();
            Value::Text(cut(&chars, from, count).into_iter().collect())
        }
    }
}

fn bytes_of(value: &Value) -> Vec<u8> {
    match value {
        Value::Bytes(bytes) => bytes.clone(),
        other => text(other).into_bytes(),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02X}");
        out
    })
}

fn pad(value: &str, len: i64, with: &str, left: bool) -> Value {
    let chars: Vec<char> = value.chars().collect();
    let Ok(len) = usize::try_from(len) else { return Value::Null };
    if len <= chars.len() {
        return Value::Text(chars[..len].iter().collect());
    }
    if with.is_empty() || len > 16 << 20 {
        return Value::Null;
    }
    let filling: String = with.chars().cycle().take(len - chars.len()).collect();
    Value::Text(if left { format!("{filling}{value}") } else { format!("{value}{filling}") })
}

fn locate(needle: &str, hay: &str, from: i64) -> i64 {
    let fold = |text: &str| text.to_lowercase().chars().collect::<Vec<_>>();
    let (needle, hay) = (fold(needle), fold(hay));
    let Ok(start) = usize::try_from(from - 1) else { return 0 };
    if needle.is_empty() {
        return if start <= hay.len() { from } else { 0 };
    }
    let found = hay
        .get(start..)
        .and_then(|rest| rest.windows(needle.len()).position(|part| part == needle));
    found.map_or(0, |at| (start + at + 1) as i64)
}

pub(super) fn text_function(context: &Context<'_>, call: Scalar, args: &[Value]) -> Result<Value> {
    use Scalar as S;
    let first = || text(&args[0]);
    Ok(match call {
        S::Length | S::OctetLength => Value::Int(bytes_of(&args[0]).len() as i64),
        S::BitLength => Value::Int(8 * bytes_of(&args[0]).len() as i64),
        S::CharLength | S::CharacterLength => Value::Int(match &args[0] {
            Value::Bytes(bytes) => bytes.len() as i64,
            other => text(other).chars().count() as i64,
        }),
        S::Upper | S::Ucase => Value::Text(first().to_uppercase()),
        S::Lower | S::Lcase => Value::Text(first().to_lowercase()),
        S::Concat => {
            if args.iter().any(|arg| matches!(arg, Value::Bytes(_))) {
                Value::Bytes(args.iter().flat_map(bytes_of).collect())
            } else {
                Value::Text(args.iter().map(text).collect())
            }
        }
        S::Substring | S::Substr | S::Mid => {
            substring(&args[0], whole(&args[1]), args.get(2).map(whole))
        }
        S::Left => substring(&args[0], 1, Some(whole(&args[1]))),
        S::Right => {
            let count = whole(&args[1]);
            let len = match &args[0] {
                Value::Bytes(bytes) => bytes.len() as i64,
                other => text(other).chars().count() as i64,
            };
            if count <= 0 { Value::from("") } else { substring(&args[0], -count.min(len), None) }
        }
        S::SubstringIndex => {
            let (hay, needle, count) = (first(), text(&args[1]), whole(&args[2]));
            if needle.is_empty() || count == 0 {
                return Ok(Value::from(""));
            }
            let parts: Vec<&str> = hay.split(needle.as_str()).collect();
            let keep = (count.unsigned_abs() as usize).min(parts.len());
            let kept = if count > 0 { &parts[..keep] } else { &parts[parts.len() - keep..] };
            Value::Text(kept.join(&needle))
        }
        S::Trim => Value::from(first().trim_matches(' ')),
        S::Ltrim => Value::from(first().trim_start_matches(' ')),
        S::Rtrim => Value::from(first().trim_end_matches(' ')),
        S::TrimBoth | S::TrimLead | S::TrimTrail => {
            let (hay, what) = (first(), text(&args[1]));
            let mut rest = hay.as_str();
            if !what.is_empty() {
                while call != S::TrimTrail
                    && let Some(cut) = rest.strip_prefix(what.as_str())
                {
                    rest = cut;
                }
                while call != S::TrimLead
                    && let Some(cut) = rest.strip_suffix(what.as_str())
                {
                    rest = cut;
                }
            }
            Value::from(rest)
        }
        S::Replace => {
            let from = text(&args[1]);
            if from.is_empty() {
                Value::Text(first())
            } else {
                Value::Text(first().replace(&from, &text(&args[2])))
            }
        }
        S::Reverse => Value::Text(first().chars().rev().collect()),
        S::Repeat => {
            let count = whole(&args[1]).max(0) as usize;
            if first().len().saturating_mul(count) > 64 << 20 {
                context.warn(SqlError::new(
                    1301,
                    "Result of repeat() was larger than max_allowed_packet - truncated",
                ));
                return Ok(Value::Null);
            }
            match &args[0] {
                Value::Bytes(bytes) => Value::Bytes(bytes.repeat(count)),
                other => Value::Text(text(other).repeat(count)),
            }
        }
        S::Space => Value::Text(" ".repeat(whole(&args[0]).clamp(0, 16 << 20) as usize)),
        S::Lpad | S::Rpad => pad(&first(), whole(&args[1]), &text(&args[2]), call == S::Lpad),
        S::Instr => Value::Int(locate(&text(&args[1]), &first(), 1)),
        S::Locate | S::Position => {
            Value::Int(locate(&first(), &text(&args[1]), args.get(2).map_or(1, whole)))
        }
        S::Strcmp => Value::Int(match compare(&args[0], &args[1], Collation::GeneralCi) {
            Some(std::cmp::Ordering::Less) => -1,
            Some(std::cmp::Ordering::Greater) => 1,
            _ => 0,
        }),
        S::Ascii => Value::Int(bytes_of(&args[0]).first().map_or(0, |byte| i64::from(*byte))),
        S::Ord => Value::Int(first().chars().next().map_or(0, |c| {
            let mut buffer = [0; 4];
            c.encode_utf8(&mut buffer).bytes().fold(0, |code, byte| code << 8 | i64::from(byte))
        })),
        S::Hex => Value::Text(match &args[0] {
            Value::Int(_) | Value::UInt(_) | Value::Double(_) | Value::Decimal(_) => {
                format!("{:X}", to_i128(&args[0].as_ref()).unwrap_or(0) as u64)
            }
            other => hex(&bytes_of(other)),
        }),
        S::Unhex => {
            let digits = first();
            if digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                Value::Bytes(crate::catalog::unhex(&digits))
            } else {
                Value::Null
            }
        }
        S::Bin => Value::Text(format!("{:b}", whole(&args[0]))),
        S::Oct => Value::Text(format!("{:o}", whole(&args[0]))),
        S::Conv => {
            let (from, to) =
                (whole(&args[1]).unsigned_abs() as u32, whole(&args[2]).unsigned_abs());
            if !(2..=36).contains(&from) || !(2..=36).contains(&to) {
                return Ok(Value::Null);
            }
            let mut number = u64::from_str_radix(first().trim(), from).unwrap_or(0);
            let mut digits = Vec::new();
            loop {
                digits.push(
                    char::from_digit((number % to) as u32, to as u32)
                        .unwrap_or('0')
                        .to_ascii_uppercase(),
                );
                number /= to;
                if number == 0 {
                    break;
                }
            }
            Value::Text(digits.into_iter().rev().collect())
        }
        S::Format => {
            let digits = whole(&args[1]).clamp(0, 30) as u8;
            let number =
                to_decimal(&args[0].as_ref()).unwrap_or(Decimal::ZERO).round(digits).to_string();
            let (sign, number) =
                number.strip_prefix('-').map_or(("", number.as_str()), |rest| ("-", rest));
            let (whole, part) = number.split_once('.').unwrap_or((number, ""));
            let mut grouped = String::new();
            for (at, digit) in whole.chars().enumerate() {
                if at > 0 && (whole.len() - at) % 3 == 0 {
                    grouped.push(',');
                }
                grouped.push(digit);
            }
            let dot = if part.is_empty() { "" } else { "." };
            Value::Text(format!("{sign}{grouped}{dot}{part}"))
        }
        S::FindInSet => {
            let needle = first();
            let list = text(&args[1]);
            let at = list.split(',').position(|part| {
                Collation::GeneralCi.compare(part.as_bytes(), needle.as_bytes()).is_eq()
            });
            Value::Int(at.map_or(0, |at| at as i64 + 1))
        }
        S::Insert => {
            let chars: Vec<char> = first().chars().collect();
            let (at, len) = (whole(&args[1]), whole(&args[2]));
            if at < 1 || at as usize > chars.len() {
                return Ok(Value::Text(first()));
            }
            let at = at as usize - 1;
            let end = if len < 0 { chars.len() } else { (at + len as usize).min(chars.len()) };
            let head: String = chars[..at].iter().collect();
            let tail: String = chars[end..].iter().collect();
            Value::Text(format!("{head}{}{tail}", text(&args[3])))
        }
        S::Quote => {
            Value::Text(format!("'{}'", first().replace('\\', "\\\\").replace('\'', "\\'")))
        }
        S::Md5 => Value::Text(crate::users::md5_hex(&bytes_of(&args[0]))),
        S::Sha | S::Sha1 => Value::Text(hex(&Sha1::digest(bytes_of(&args[0]))).to_lowercase()),
        S::Sha2 => {
            let bytes = bytes_of(&args[0]);
            let digest = match whole(&args[1]) {
                224 => hex(&Sha224::digest(&bytes)),
                0 | 256 => hex(&Sha256::digest(&bytes)),
                384 => hex(&Sha384::digest(&bytes)),
                512 => hex(&Sha512::digest(&bytes)),
                _ => return Ok(Value::Null),
            };
            Value::Text(digest.to_lowercase())
        }
        S::Uuid => {
            let seed =
                spillway_base::clock::wall().as_nanos() as u64 ^ context.instance.next_number();
            let mut rng = spillway_base::rng::Rng::new(seed);
            let (a, b) = (rng.next_u64(), rng.next_u64());
            Value::Text(format!(
                "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
                a >> 32,
                (a >> 16) & 0xFFFF,
                a & 0xFFF,
                (b >> 48) & 0x3FFF | 0x8000,
                b & 0xFFFF_FFFF_FFFF
            ))
        }
        S::ToBase64 => Value::Text(base64(&bytes_of(&args[0]))),
        S::RegexpLike => {
            Value::from(regex(&text(&args[1]), Collation::GeneralCi)?.is_match(&first()))
        }
        S::RegexpReplace => {
            let regex = regex(&text(&args[1]), Collation::GeneralCi)?;
            Value::Text(regex.replace_all(&first(), text(&args[2]).as_str()).into_owned())
        }
        S::Charset => Value::from(match &args[0] {
            Value::Text(_) => "utf8mb4",
            _ => "binary",
        }),
        S::CollationOf => Value::from(match &args[0] {
            Value::Text(_) => Collation::GeneralCi.name(),
            _ => "binary",
        }),
        S::Crc32 => Value::UInt(u64::from(crc32(&bytes_of(&args[0])))),
        S::JsonValid => Value::from(serde_json::from_str::<serde_json::Value>(&first()).is_ok()),
        S::JsonUnquote => {
            let shown = first();
            Value::Text(serde_json::from_str::<String>(&shown).unwrap_or(shown))
        }
        S::JsonExtract => {
            let document: serde_json::Value = serde_json::from_str(&first()).map_err(|_| {
                SqlError::new(3141, "Invalid JSON text in argument 1 to function json_extract")
            })?;
            let path = text(&args[1]);
            let mut at = Some(&document);
            for step in
                path.trim_start_matches('$').split(['.', '[']).filter(|step| !step.is_empty())
            {
                let step = step.trim_end_matches(']').trim_matches('"');
                at = at.and_then(|at| match step.parse::<usize>() {
                    Ok(index) if at.is_array() => at.get(index),
                    _ => at.get(step),
                });
            }
            at.map_or(Value::Null, |at| Value::Text(at.to_string()))
        }
        S::InetAton => match first().parse::<std::net::Ipv4Addr>() {
            Ok(address) => Value::UInt(u64::from(u32::from(address))),
            Err(_) => Value::Null,
        },
        S::InetNtoa => match u32::try_from(whole(&args[0])) {
            Ok(number) => Value::Text(std::net::Ipv4Addr::from(number).to_string()),
            Err(_) => Value::Null,
        },
        other => return Err(SqlError::unsupported(other.name())),
    })
}

/// CRC-32 (IEEE), bit by bit.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = !0u32;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte))
            << (8 * (3 - group.len()));
        for at in 0..4 {
            let digit = DIGITS[(bits >> (18 - 6 * at) & 63) as usize] as char;
            out.push(if at <= group.len() { digit } else { '=' });
        }
    }
    out
}
