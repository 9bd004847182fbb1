//! The exchange of `caching_sha2_password`.
//!
//! A client first sends a *fast answer*: a hash of the password and the server's nonce. To check
//! it, the server needs SHA256(SHA256(password)), which it cannot compute from the stored hash.
//! When the server receives the password itself in a login, it keeps this value in memory for later
//! logins.
//!
//! # Guarantees
//!
//! - **CACHING-1 (the password itself).** The server asks for the password itself if it cannot
//!   check the fast answer or the fast answer is wrong. The client sends the password in TLS, over
//!   a Unix socket, or encrypted with a public key of this process. A password in clear text over
//!   an open network is refused, whether or not it is right.
//! - **CACHING-2 (the fast answer).** A fast answer is accepted only for the password that is
//!   stored now. After the password was changed, or the account was dropped and created again, the
//!   server asks for the password itself.
//! - **CACHING-3 (strangers).** For a name without an account, the exchange is the same and takes
//!   as long, and the login fails.

use std::collections::HashMap;
use std::sync::OnceLock;

use parking_lot::Mutex;
use rsa::PrivateKey;
use rsa::pkcs8::{EncodePublicKey, LineEnding};
use rsa::rand_core::{TryCryptoRng, TryRng};
use sha1::Sha1;
use sha2::{Digest, Sha256};
use spillway_base::thread::blocking;
use spillway_sql::{Instance, UserDef};

use crate::auth::{self, CACHING, Nonce};
use crate::packet::{Packets, ReadError};
use crate::transport::{Security, Transport};

const KEY_BITS: usize = 2_048;
/// The client asks for the public key.
const WANTS_KEY: &[u8] = &[2];

/// SHA256(SHA256(password)).
type Twice = [u8; 32];

/// The server's key, and SHA256(SHA256(password)) for the passwords that it has received.
#[derive(Default)]
pub(crate) struct Caching {
    /// By name and host of the account: the stored hash at the time of the login, and the value
    /// that checks fast answers.
    seen: Mutex<HashMap<(String, String), (Vec<u8>, Twice)>>,
    /// Created when the first client requests it; `None` if it could not be created.
    key: OnceLock<Option<PasswordKey>>,
}

/// A key, and its public half as the server sends it to clients.
struct PasswordKey {
    private: PrivateKey,
    public: String,
}

impl PasswordKey {
    fn make() -> Option<PasswordKey> {
        let private = PrivateKey::new(&mut SystemRandom, KEY_BITS).ok()?;
        let public = private.to_public_key().to_public_key_pem(LineEnding::LF).ok()?;
        Some(PasswordKey { private, public })
    }
}

/// The system's random bytes.
struct SystemRandom;

impl TryRng for SystemRandom {
    type Error = getrandom::Error;

    fn try_next_u32(&mut self) -> Result<u32, getrandom::Error> {
        getrandom::u32()
    }

    fn try_next_u64(&mut self) -> Result<u64, getrandom::Error> {
        getrandom::u64()
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), getrandom::Error> {
        getrandom::fill(bytes)
    }
}

impl TryCryptoRng for SystemRandom {}

fn account(user: &UserDef) -> (String, String) {
    (user.name.clone(), user.host.clone())
}

impl Caching {
    /// The value that checks an account's fast answer, if the server has received the password that
    /// is stored now (CACHING-2).
    fn twice(&self, user: &UserDef) -> Option<Twice> {
        let seen = self.seen.lock();
        // The stored hash includes a salt, so it changes even if the same password is set again.
        seen.get(&account(user))
            .filter(|(stored, _)| *stored == user.stored)
            .map(|(_, twice)| *twice)
    }

    fn remember(&self, user: &UserDef, password: &[u8], instance: &Instance) {
        let mut seen = self.seen.lock();
        let (_, accounts) = instance.accounts_with(CACHING);
        if seen.len() as u64 > accounts {
            // More entries than accounts: some of the accounts no longer exist.
            seen.clear();
        }
        let twice = Sha256::digest(Sha256::digest(password)).into();
        seen.insert(account(user), (user.stored.clone(), twice));
    }

    fn key(&self) -> Option<&PasswordKey> {
        self.key.get_or_init(|| blocking(PasswordKey::make)).as_ref()
    }
}

/// Continues the exchange with a client whose fast answer to `nonce` is `answer`. Returns whether
/// the client knows the user's password. Without a user, the exchange is the same (CACHING-3).
pub(crate) fn prove<T: Transport>(
    packets: &mut Packets<T>,
    (caching, instance): (&Caching, &Instance),
    user: Option<&UserDef>,
    nonce: &Nonce,
    answer: &[u8],
) -> Result<bool, ReadError> {
    if answer.len() != 32 {
        return Ok(false);
    }
    let twice = user.and_then(|user| caching.twice(user));
    if twice.is_some_and(|twice| auth::verify(CACHING, &twice, nonce, answer)) {
        packets.packet(|out| out.extend_from_slice(&[1, 3]))?;
        return Ok(true);
    }
    packets.packet(|out| out.extend_from_slice(&[1, 4]))?;
    packets.send()?;
    let mut sent = Vec::new();
    packets.read(&mut sent)?;
    if packets.transport().security() == Security::Plain {
        if sent == WANTS_KEY {
            let Some(key) = caching.key() else { return Ok(false) };
            packets.packet(|out| {
                out.push(1);
                out.extend_from_slice(key.public.as_bytes());
            })?;
            packets.send()?;
            packets.read(&mut sent)?;
        }
        // A password in clear text does not decrypt: its length or its bytes are not those of a
        // ciphertext.
        let key = caching.key.get().and_then(Option::as_ref);
        let opened = key.and_then(|key| {
            key.private.oaep_decrypt_with_rng::<Sha1, _>(&mut SystemRandom, &sent).ok()
        });
        let Some(masked) = opened else { return Ok(false) };
        sent.clear();
        sent.extend(masked.iter().zip(nonce.iter().cycle()).map(|(byte, mask)| byte ^ mask));
    }
    let password = sent.strip_suffix(&[0]).unwrap_or(&sent);
    let known = UserDef::has_password(user, password);
    if let Some(user) = user.filter(|_| known) {
        caching.remember(user, password, instance);
    }
    Ok(known)
}
