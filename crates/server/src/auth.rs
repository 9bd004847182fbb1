//! The handshake: who the client is, and whether it can prove it.
//!
//! The default plugin is `mysql_native_password`: every client library still in use has it, on any transport.
//! `caching_sha2_password` is answered without its slow exchange: what is stored is the hash of the hash, which is enough to check the
//! fast answer each time.

use sha1::{Digest, Sha1};
use sha2::Sha256;

use crate::packet::Take;

pub(crate) const NATIVE: &str = "mysql_native_password";
pub(crate) const CACHING: &str = "caching_sha2_password";

pub(crate) const LONG_PASSWORD: u32 = 1;
pub(crate) const FOUND_ROWS: u32 = 1 << 1;
pub(crate) const LONG_FLAG: u32 = 1 << 2;
pub(crate) const CONNECT_WITH_DB: u32 = 1 << 3;
pub(crate) const PROTOCOL_41: u32 = 1 << 9;
pub(crate) const TRANSACTIONS: u32 = 1 << 13;
pub(crate) const SECURE_CONNECTION: u32 = 1 << 15;
pub(crate) const MULTI_STATEMENTS: u32 = 1 << 16;
pub(crate) const MULTI_RESULTS: u32 = 1 << 17;
pub(crate) const PS_MULTI_RESULTS: u32 = 1 << 18;
pub(crate) const PLUGIN_AUTH: u32 = 1 << 19;
pub(crate) const CONNECT_ATTRS: u32 = 1 << 20;
pub(crate) const PLUGIN_AUTH_LENENC: u32 = 1 << 21;
pub(crate) const DEPRECATE_EOF: u32 = 1 << 24;

/// What this server can.
pub(crate) const CAPABILITIES: u32 = LONG_PASSWORD
    | FOUND_ROWS
    | LONG_FLAG
    | CONNECT_WITH_DB
    | PROTOCOL_41
    | TRANSACTIONS
    | SECURE_CONNECTION
    | MULTI_STATEMENTS
    | MULTI_RESULTS
    | PS_MULTI_RESULTS
    | PLUGIN_AUTH
    | CONNECT_ATTRS
    | PLUGIN_AUTH_LENENC
    | DEPRECATE_EOF;

/// Twenty bytes that nobody can foresee, none of them zero.
pub(crate) fn scramble() -> std::io::Result<[u8; 20]> {
    let mut nonce = [0; 20];
    getrandom::fill(&mut nonce).map_err(|error| std::io::Error::other(error.to_string()))?;
    nonce.iter_mut().for_each(|byte| *byte = *byte % 127 + 1);
    Ok(nonce)
}

/// The server's greeting.
pub(crate) fn greeting(out: &mut Vec<u8>, connection_id: u64, nonce: &[u8; 20]) {
    out.push(10);
    out.extend_from_slice(spillway_sql::VERSION.as_bytes());
    out.push(0);
    out.extend_from_slice(&(connection_id as u32).to_le_bytes());
    out.extend_from_slice(&nonce[..8]);
    out.push(0);
    out.extend_from_slice(&CAPABILITIES.to_le_bytes()[..2]);
    out.push(45);
    out.extend_from_slice(&2_u16.to_le_bytes());
    out.extend_from_slice(&CAPABILITIES.to_le_bytes()[2..]);
    out.push(21);
    out.extend_from_slice(&[0; 10]);
    out.extend_from_slice(&nonce[8..]);
    out.push(0);
    out.extend_from_slice(NATIVE.as_bytes());
    out.push(0);
}

/// What a client says of itself.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) capabilities: u32,
    pub(crate) user: String,
    pub(crate) answer: Vec<u8>,
    pub(crate) database: Option<String>,
    pub(crate) plugin: String,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Reads a client's answer to the greeting; `None` where it makes no sense, or asks for TLS or the protocol before 4.1.
pub(crate) fn read_hello(payload: &[u8]) -> Option<Hello> {
    let mut take = Take(payload);
    let capabilities = take.u32()?;
    if capabilities & PROTOCOL_41 == 0 {
        return None;
    }
    take.bytes(4 + 1 + 23)?;
    let user = text(take.until_zero()?);
    let answer = if capabilities & PLUGIN_AUTH_LENENC != 0 {
        take.sized()?.to_vec()
    } else if capabilities & SECURE_CONNECTION != 0 {
        let len = take.u8()?;
        take.bytes(usize::from(len))?.to_vec()
    } else {
        take.until_zero()?.to_vec()
    };
    let database = if capabilities & CONNECT_WITH_DB != 0 {
        Some(text(take.until_zero().unwrap_or(take.0))).filter(|name| !name.is_empty())
    } else {
        None
    };
    let plugin = if capabilities & PLUGIN_AUTH != 0 {
        text(take.until_zero().unwrap_or(take.0))
    } else {
        NATIVE.to_owned()
    };
    Some(Hello { capabilities, user, answer, database, plugin })
}

/// Reads COM_CHANGE_USER.
pub(crate) fn read_change_user(payload: &[u8], capabilities: u32) -> Option<Hello> {
    let mut take = Take(payload);
    let user = text(take.until_zero()?);
    let len = take.u8()?;
    let answer = take.bytes(usize::from(len))?.to_vec();
    let database = Some(text(take.until_zero()?)).filter(|name| !name.is_empty());
    let _charset = take.bytes(2);
    let plugin = take.until_zero().map_or_else(|| NATIVE.to_owned(), text);
    Some(Hello { capabilities, user, answer, database, plugin })
}

fn same(a: &[u8], b: &[u8]) -> bool {
    // Every byte is looked at, so that the time taken tells nothing.
    a.len() == b.len() && a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

/// Whether an answer proves that its sender knows the password.
pub(crate) fn verify(plugin: &str, stored: &[u8], nonce: &[u8; 20], answer: &[u8]) -> bool {
    if stored.is_empty() {
        return answer.is_empty() || answer == [0];
    }
    let xor = |mask: &[u8]| -> Vec<u8> { answer.iter().zip(mask).map(|(a, b)| a ^ b).collect() };
    match plugin {
        NATIVE if answer.len() == 20 => {
            let mask = Sha1::new().chain_update(nonce).chain_update(stored).finalize();
            same(&Sha1::digest(xor(&mask)), stored)
        }
        CACHING if answer.len() == 32 => {
            let mask = Sha256::new().chain_update(stored).chain_update(nonce).finalize();
            same(&Sha256::digest(xor(&mask)), stored)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The client's side of both plugins.
    pub(crate) fn answer(plugin: &str, password: &str, nonce: &[u8; 20]) -> Vec<u8> {
        if plugin == NATIVE {
            let once = Sha1::digest(password);
            let mask = Sha1::new().chain_update(nonce).chain_update(Sha1::digest(once)).finalize();
            once.iter().zip(mask).map(|(a, b)| a ^ b).collect()
        } else {
            let once = Sha256::digest(password);
            let mask =
                Sha256::new().chain_update(Sha256::digest(once)).chain_update(nonce).finalize();
            once.iter().zip(mask).map(|(a, b)| a ^ b).collect()
        }
    }

    #[test]
    fn both_plugins_know_the_password_and_nothing_else() {
        let nonce = scramble().unwrap();
        let stored = |plugin: &str| match plugin {
            NATIVE => Sha1::digest(Sha1::digest("secret")).to_vec(),
            _ => Sha256::digest(Sha256::digest("secret")).to_vec(),
        };
        for plugin in [NATIVE, CACHING] {
            assert!(verify(plugin, &stored(plugin), &nonce, &answer(plugin, "secret", &nonce)));
            assert!(!verify(plugin, &stored(plugin), &nonce, &answer(plugin, "Secret", &nonce)));
            assert!(!verify(plugin, &stored(plugin), &nonce, b""));
            assert!(verify(plugin, b"", &nonce, b"") && !verify(plugin, b"", &nonce, b"x"));
        }
    }

    #[test]
    fn any_bytes_are_a_hello_or_none() {
        let mut rng = spillway_base::rng::Rng::new(1);
        for _ in 0..20_000 {
            let mut bytes = vec![0; rng.below(120) as usize];
            rng.fill(&mut bytes);
            if let Some(byte) = bytes.get_mut(1) {
                *byte |= 2;
            }
            let _ = read_hello(&bytes);
            let _ = read_change_user(&bytes, CAPABILITIES);
        }
    }
}
