//! Digests, and conversions between bytes and text.

use std::fmt::Write as _;

use sha1::{Digest, Sha1};
use sha2::{Sha224, Sha256, Sha384, Sha512};
use spillway_types::Value;

use super::scalar::Scalar;
use crate::errors::{Result, SqlError};
use crate::expression::context::Context;
use crate::expression::operands::{bytes_of, text, whole};

fn lower_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

pub(super) fn digest_function(
    context: &Context<'_>,
    call: Scalar,
    args: &[Value],
) -> Result<Value> {
    use Scalar as S;
    Ok(match call {
        S::Md5 => Value::Text(crate::catalog::md5_hex(&bytes_of(&args[0]))),
        S::Sha | S::Sha1 => Value::Text(lower_hex(&Sha1::digest(bytes_of(&args[0])))),
        S::Sha2 => {
            let bytes = bytes_of(&args[0]);
            Value::Text(match whole(&args[1]) {
                224 => lower_hex(&Sha224::digest(&bytes)),
                0 | 256 => lower_hex(&Sha256::digest(&bytes)),
                384 => lower_hex(&Sha384::digest(&bytes)),
                512 => lower_hex(&Sha512::digest(&bytes)),
                _ => return Ok(Value::Null),
            })
        }
        S::Crc32 => Value::UInt(u64::from(crc32(&bytes_of(&args[0])))),
        S::ToBase64 => {
            // The result has lines of 76 characters.
            let all = base64(&bytes_of(&args[0]));
            let lines: Vec<&str> =
                (0..all.len()).step_by(76).map(|at| &all[at..(at + 76).min(all.len())]).collect();
            Value::Text(lines.join("\n"))
        }
        S::FromBase64 => from_base64(&text(&args[0])).map_or(Value::Null, Value::Bytes),
        S::Uuid => {
            let seed =
                spillway_base::clock::wall().as_nanos() as u64 ^ context.server.next_number();
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
    let mut out = String::with_capacity(4 * bytes.len().div_ceil(3));
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

fn from_base64(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3 + 3);
    let (mut bits, mut count, mut padding) = (0_u32, 0_u32, 0);
    for byte in text.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        let digit = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            b'=' if count + padding >= 2 => {
                padding += 1;
                continue;
            }
            _ => return None,
        };
        if padding > 0 {
            return None;
        }
        bits = bits << 6 | u32::from(digit);
        count += 1;
        if count == 4 {
            out.extend_from_slice(&bits.to_be_bytes()[1..]);
            (bits, count) = (0, 0);
        }
    }
    match (count, padding) {
        (0, 0) => {}
        (2, 2) => out.push((bits >> 4) as u8),
        (3, 1) => out.extend_from_slice(&((bits >> 2) as u16).to_be_bytes()),
        _ => return None,
    }
    Some(out)
}
