//! Writes and reads the handshake's packets, and checks whether a client's answer proves that it
//! knows the password.
//!
//! The default plugin is `mysql_native_password`: every client library still in use supports it, on
//! any transport. The server stores the hash of the password's hash, which is enough to check each
//! answer. The exchange of `caching_sha2_password` is in [`crate::caching`].

use sha1::{Digest, Sha1};
use sha2::Sha256;

use crate::capabilities as can;
use crate::codec::Take;

pub(crate) const NATIVE: &str = "mysql_native_password";
pub(crate) const CACHING: &str = "caching_sha2_password";

/// The challenge with which a client proves its password.
pub(crate) type Nonce = [u8; 20];

/// Twenty unpredictable bytes, none of them zero.
pub(crate) fn nonce() -> std::io::Result<Nonce> {
    let mut nonce = [0; 20];
    getrandom::fill(&mut nonce).map_err(|error| std::io::Error::other(error.to_string()))?;
    nonce.iter_mut().for_each(|byte| *byte = *byte % 127 + 1);
    Ok(nonce)
}

/// The server's greeting.
pub(crate) fn greeting(out: &mut Vec<u8>, connection_id: u64, nonce: &Nonce, capabilities: u32) {
    out.push(10);
    out.extend_from_slice(spillway_sql::VERSION.as_bytes());
    out.push(0);
    out.extend_from_slice(&(connection_id as u32).to_le_bytes());
    out.extend_from_slice(&nonce[..8]);
    out.push(0);
    out.extend_from_slice(&capabilities.to_le_bytes()[..2]);
    out.push(45);
    out.extend_from_slice(&2_u16.to_le_bytes());
    out.extend_from_slice(&capabilities.to_le_bytes()[2..]);
    out.push(21);
    out.extend_from_slice(&[0; 6]);
    out.extend_from_slice(&can::CACHE_METADATA.to_le_bytes());
    out.extend_from_slice(&nonce[8..]);
    out.push(0);
    out.extend_from_slice(NATIVE.as_bytes());
    out.push(0);
}

/// A client's handshake response.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) capabilities: u32,
    /// MariaDB's extended capabilities, if the client knows them.
    pub(crate) extended: u32,
    /// The collation, which names its character set; zero for none.
    pub(crate) collation: u16,
    pub(crate) user: String,
    pub(crate) answer: Vec<u8>,
    pub(crate) database: Option<String>,
    pub(crate) plugin: String,
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Whether a packet requests TLS, over which the hello follows.
pub(crate) fn asks_for_tls(payload: &[u8]) -> bool {
    payload.len() == 32
        && Take(payload).u32().is_some_and(|capabilities| capabilities & can::SSL != 0)
}

/// Reads a client's response to the greeting. Returns `None` if it is malformed, or uses the
/// protocol from before 4.1.
pub(crate) fn read_hello(payload: &[u8]) -> Option<Hello> {
    let mut take = Take(payload);
    let capabilities = take.u32()?;
    if capabilities & can::PROTOCOL_41 == 0 {
        return None;
    }
    take.bytes(4)?;
    let collation = u16::from(take.u8()?);
    take.bytes(19)?;
    let extended = take.u32()?;
    let extended = if capabilities & can::MYSQL == 0 { extended } else { 0 };
    let user = text(take.until_zero()?);
    let answer = if capabilities & can::PLUGIN_AUTH_LENENC != 0 {
        take.sized()?.to_vec()
    } else if capabilities & can::SECURE_CONNECTION != 0 {
        let len = take.u8()?;
        take.bytes(usize::from(len))?.to_vec()
    } else {
        take.until_zero()?.to_vec()
    };
    let database = if capabilities & can::CONNECT_WITH_DB != 0 {
        Some(text(take.until_zero_or_end())).filter(|name| !name.is_empty())
    } else {
        None
    };
    let plugin = if capabilities & can::PLUGIN_AUTH != 0 {
        text(take.until_zero_or_end())
    } else {
        NATIVE.to_owned()
    };
    Some(Hello { capabilities, extended, collation, user, answer, database, plugin })
}

/// Reads COM_CHANGE_USER.
pub(crate) fn read_change_user(payload: &[u8], capabilities: u32) -> Option<Hello> {
    let mut take = Take(payload);
    let user = text(take.until_zero()?);
    let len = take.u8()?;
    let answer = take.bytes(usize::from(len))?.to_vec();
    let database = Some(text(take.until_zero()?)).filter(|name| !name.is_empty());
    let collation = take.u16().unwrap_or(0);
    let plugin = if capabilities & can::PLUGIN_AUTH != 0 {
        text(take.until_zero_or_end())
    } else {
        NATIVE.to_owned()
    };
    Some(Hello { capabilities, extended: 0, collation, user, answer, database, plugin })
}

/// Whether text of a collation's character set is valid UTF-8 without conversion, or is bytes. The
/// numbers are MySQL's. MariaDB adds, from 1024 on, collations without padding, and from 2048 on,
/// those of newer Unicode versions.
pub(crate) fn is_utf8(collation: u16) -> bool {
    match collation {
        // None, binary, ASCII.
        0 | 63 | 11 | 65 => true,
        // utf8mb3, then utf8mb4.
        33 | 76 | 83 | 192..=215 | 223 | 45 | 46 | 224..=247 | 255..=323 => true,
        1025..=1347 => is_utf8(collation - 1024),
        2048..=2559 => true,
        _ => false,
    }
}

fn same(a: &[u8], b: &[u8]) -> bool {
    // Compare every byte, so that the duration does not depend on where the first difference is.
    a.len() == b.len() && a.iter().zip(b).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

/// Whether an answer proves that its sender knows the password. `stored` is the hash of the
/// password's hash, with which the plugin checks it.
pub(crate) fn verify(plugin: &str, stored: &[u8], nonce: &Nonce, answer: &[u8]) -> bool {
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

/// The client's side of both plugins.
#[cfg(test)]
pub(crate) fn prove(plugin: &str, password: &str, nonce: &[u8]) -> Vec<u8> {
    let xor = |a: &[u8], b: &[u8]| -> Vec<u8> { a.iter().zip(b).map(|(a, b)| a ^ b).collect() };
    if password.is_empty() {
        Vec::new()
    } else if plugin == NATIVE {
        let once = Sha1::digest(password);
        xor(&once, &Sha1::new().chain_update(nonce).chain_update(Sha1::digest(once)).finalize())
    } else {
        let once = Sha256::digest(password);
        xor(&once, &Sha256::new().chain_update(Sha256::digest(once)).chain_update(nonce).finalize())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_plugins_know_the_password_and_nothing_else() {
        let nonce = nonce().unwrap();
        let stored = |plugin: &str| match plugin {
            NATIVE => Sha1::digest(Sha1::digest("secret")).to_vec(),
            _ => Sha256::digest(Sha256::digest("secret")).to_vec(),
        };
        for plugin in [NATIVE, CACHING] {
            assert!(verify(plugin, &stored(plugin), &nonce, &prove(plugin, "secret", &nonce)));
            assert!(!verify(plugin, &stored(plugin), &nonce, &prove(plugin, "Secret", &nonce)));
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
            let _ = read_change_user(&bytes, can::OURS);
        }
    }
}
