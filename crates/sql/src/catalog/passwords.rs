//! Hashes of passwords.
//!
//! - **SECRET-1.** For `mysql_native_password`, the catalog stores the SHA-1 of the SHA-1 of a
//!   password, because the protocol of that plugin needs this hash. For `caching_sha2_password`, it
//!   stores the same hash as MySQL 8 (`crypt`). That hash has a separate salt for each account and
//!   takes 5,000 rounds, so each guess is expensive and tests one account only.

mod crypt;

use sha1::{Digest, Sha1};

use crate::errors::{Result, SqlError};
use crate::parser::unhex;

pub(crate) const NATIVE: &str = "mysql_native_password";
pub(crate) const CACHING: &str = "caching_sha2_password";

/// MD5 (RFC 1321), in hexadecimal. It is for the SQL function of that name only, not for secrets.
pub(crate) fn md5_hex(bytes: &[u8]) -> String {
    let mut state: [u32; 4] = [0x6745_2301, 0xEFCD_AB89, 0x98BA_DCFE, 0x1032_5476];
    let shifts: [[u32; 4]; 4] = [[7, 12, 17, 22], [5, 9, 14, 20], [4, 11, 16, 23], [6, 10, 15, 21]];
    let mut message = bytes.to_vec();
    message.push(0x80);
    while message.len() % 64 != 56 {
        message.push(0);
    }
    message.extend_from_slice(&(bytes.len() as u64 * 8).to_le_bytes());
    for chunk in message.chunks(64) {
        let word =
            |at: usize| chunk[4 * at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let [mut a, mut b, mut c, mut d] = state;
        for step in 0..64 {
            let (mix, at) = match step / 16 {
                0 => ((b & c) | (!b & d), step),
                1 => ((d & b) | (!d & c), (5 * step + 1) % 16),
                2 => (b ^ c ^ d, (3 * step + 5) % 16),
                _ => (c ^ (b | !d), 7 * step % 16),
            };
            let constant = ((step as f64 + 1.0).sin().abs() * 4_294_967_296.0) as u32;
            let sum = a.wrapping_add(mix).wrapping_add(constant).wrapping_add(word(at));
            (a, d, c) = (d, c, b);
            b = b.wrapping_add(sum.rotate_left(shifts[step / 16][step % 4]));
        }
        for (sum, part) in state.iter_mut().zip([a, b, c, d]) {
            *sum = sum.wrapping_add(part);
        }
    }
    state.iter().flat_map(|word| word.to_le_bytes()).map(|byte| format!("{byte:02x}")).collect()
}

/// The longest password that `caching_sha2_password` accepts, in bytes. The time of hashing grows
/// with the password's length.
const CACHING_MAX: usize = 256;

/// The data that a plugin stores for a password.
pub(crate) fn stored_password(plugin: &str, password: &str) -> Result<Vec<u8>> {
    if ![NATIVE, CACHING].contains(&plugin) {
        return Err(SqlError::new(1524, format!("Plugin '{plugin}' is not loaded")));
    }
    if password.is_empty() {
        return Ok(Vec::new());
    }
    if plugin == NATIVE {
        return Ok(Sha1::digest(Sha1::digest(password)).to_vec());
    }
    if password.len() > CACHING_MAX {
        let text = "Your password does not satisfy the current policy requirements";
        return Err(SqlError::new(1819, text));
    }
    let mut random = [0; 20];
    getrandom::fill(&mut random).map_err(|error| SqlError::new(1105, error.to_string()))?;
    Ok(crypt::stored(password.as_bytes(), random))
}

/// Whether `stored` is what `caching_sha2_password` stores for this password. The check takes the
/// same time if `stored` comes from another plugin.
pub(crate) fn is_password(stored: &[u8], password: &[u8]) -> bool {
    password.len() <= CACHING_MAX && crypt::is_of(stored, password)
}

/// The data that a plugin stores, from its text in `IDENTIFIED WITH ... AS`.
pub(crate) fn stored_from_text(plugin: &str, text: &[u8]) -> Result<Vec<u8>> {
    let stored = match plugin {
        _ if text.is_empty() => Some(Vec::new()),
        NATIVE => std::str::from_utf8(text)
            .ok()
            .and_then(|text| text.strip_prefix('*'))
            .filter(|hex| hex.len() == 40 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .map(unhex),
        CACHING => crypt::is_stored(text).then(|| text.to_vec()),
        _ => return Err(SqlError::new(1524, format!("Plugin '{plugin}' is not loaded"))),
    };
    let text = "The password hash doesn't have the expected format.";
    stored.ok_or_else(|| SqlError::new(1827, text))
}

/// The data that a plugin stores as text for SHOW CREATE USER: quoted, or as a hexadecimal number
/// if not all of it is printable ASCII.
pub(crate) fn stored_as_text(plugin: &str, stored: &[u8]) -> String {
    let hex = || stored.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
    match plugin {
        NATIVE => format!("'*{}'", hex()),
        _ if stored.iter().all(|byte| byte.is_ascii_graphic() && !b"'\\".contains(byte)) => {
            format!("'{}'", String::from_utf8_lossy(stored))
        }
        _ => format!("0x{}", hex()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn md5_is_rfc_1321() {
        assert_eq!(md5_hex(b""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(md5_hex(b"message digest"), "f96b697d7cb7938d525a2f31aaf161d0");
    }
}
