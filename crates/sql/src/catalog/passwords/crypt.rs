//! The hash that `caching_sha2_password` stores: `$A$005$`, 20 bytes of salt, and 43 letters of
//! SHA-crypt with SHA-256 (Drepper, "Unix crypt using SHA-256 and SHA-512", 2008) over 5,000
//! rounds. The existing crates for SHA-crypt cannot compute it, because MySQL 8's salt is four
//! bytes longer than that paper allows.

use sha2::{Digest, Sha256};

/// The number of salt bytes.
const SALT: usize = 20;
const DIGEST: usize = 43;
/// The stored bytes before the salt: the algorithm, and the number of rounds in thousands, in
/// hexadecimal.
const PREFIX: &[u8] = b"$A$005$";
const ROUNDS: u32 = 5_000;
const LETTERS: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The stored form of a password. The salt is made of the random bytes, and is printable.
pub(super) fn stored(password: &[u8], random: [u8; SALT]) -> Vec<u8> {
    let salt = random.map(|byte| LETTERS[usize::from(byte % 64)]);
    let mut stored = [PREFIX, &salt].concat();
    stored.extend(sha256_crypt(password, &salt, ROUNDS));
    stored
}

/// The parts of the stored form: rounds, salt and digest. `None` if the bytes have another form.
fn parts(stored: &[u8]) -> Option<(u32, &[u8], &[u8])> {
    let rest = stored.strip_prefix(b"$A$")?;
    let (thousands, rest) = rest.split_at_checked(3)?;
    let rest = rest.strip_prefix(b"$")?;
    let (salt, digest) = rest.split_at_checked(SALT)?;
    let thousands = std::str::from_utf8(thousands).ok()?;
    let thousands = u32::from_str_radix(thousands, 16).ok().filter(|number| *number > 0)?;
    let fits = digest.len() == DIGEST && digest.iter().all(|byte| LETTERS.contains(byte));
    fits.then_some((thousands * 1_000, salt, digest))
}

/// Whether bytes have the form that [`stored`] returns.
pub(super) fn is_stored(stored: &[u8]) -> bool {
    parts(stored).is_some()
}

/// Whether `stored` is the stored form of this password. The check takes the same time if `stored`
/// is not a valid form.
pub(super) fn is_of(stored: &[u8], password: &[u8]) -> bool {
    let (rounds, salt, digest) = parts(stored).unwrap_or((ROUNDS, &[b'.'; SALT], b""));
    let made = sha256_crypt(password, salt, rounds);
    // Every byte is compared, so that the duration reveals nothing.
    digest.len() == made.len() && digest.iter().zip(&made).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

/// SHA-crypt with SHA-256, without its prefix. Step numbers are those of the paper.
fn sha256_crypt(password: &[u8], salt: &[u8], rounds: u32) -> Vec<u8> {
    let cycle =
        |block: &[u8], len: usize| -> Vec<u8> { block.iter().copied().cycle().take(len).collect() };
    // Steps 4 to 8.
    let b = Sha256::new().chain_update(password).chain_update(salt).chain_update(password);
    let b = b.finalize();
    // Steps 1 to 3 and 9 to 12.
    let mut a = Sha256::new().chain_update(password).chain_update(salt);
    a.update(cycle(&b, password.len()));
    let mut bits = password.len();
    while bits > 0 {
        if bits & 1 == 1 {
            a.update(b)
        } else {
            a.update(password)
        }
        bits >>= 1;
    }
    let mut digest = a.finalize();
    // Steps 13 to 16.
    let mut p = Sha256::new();
    (0..password.len()).for_each(|_| p.update(password));
    let p = cycle(&p.finalize(), password.len());
    // Steps 17 to 20.
    let mut s = Sha256::new();
    (0..16 + usize::from(digest[0])).for_each(|_| s.update(salt));
    let s = cycle(&s.finalize(), salt.len());
    // Step 21.
    for round in 0..rounds {
        let odd = round & 1 == 1;
        let mut c = Sha256::new();
        if odd {
            c.update(&p)
        } else {
            c.update(digest)
        }
        if round % 3 != 0 {
            c.update(&s);
        }
        if round % 7 != 0 {
            c.update(&p);
        }
        if odd {
            c.update(digest)
        } else {
            c.update(&p)
        }
        digest = c.finalize();
    }
    letters(digest.as_slice())
}

/// Step 22: the digest in letters of six bits each, its bytes in the paper's order.
fn letters(digest: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(DIGEST);
    let mut put = |a: u8, b: u8, c: u8, count: usize| {
        let mut bits = u32::from_be_bytes([0, a, b, c]);
        for _ in 0..count {
            out.push(LETTERS[(bits & 63) as usize]);
            bits >>= 6;
        }
    };
    for group in 0..10 {
        let at = |third: usize| digest[(group * 21 + third * 10) % 30];
        put(at(0), at(1), at(2), 4);
    }
    put(0, digest[31], digest[30], 3);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crypt(password: &str, salt: &[u8], rounds: u32) -> String {
        String::from_utf8(sha256_crypt(password.as_bytes(), salt, rounds)).unwrap()
    }

    /// Compares with results of `crypt` in the C library.
    #[test]
    fn sha256_crypt_is_that_of_others() {
        let long = "we have a short salt string but not a short password";
        for (password, salt, rounds, digest) in [
            ("Hello world!", "saltstring", 5_000, "5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5"),
            (long, "short", 77_777, "JiO1O3ZpDAxGJeaDIuqCoEFysAe1mZNJRs3pw0KQRd/"),
            ("", "saltstring", 5_000, "FdNfA4gXqvCeO6iZs7G/.wwwoywYZqo0l1pwmfWaBA7"),
        ] {
            assert_eq!(crypt(password, salt.as_bytes(), rounds), digest);
        }
    }

    /// The hash of a MySQL 8 account: the example of hashcat's mode 7401.
    #[test]
    fn what_mysql_stores_is_known() {
        let salt = [
            0xF9, 0xCC, 0x98, 0xCE, 0x08, 0x89, 0x29, 0x24, 0xF5, 0x0A, 0x21, 0x3B, 0x6B, 0xC5,
            0x71, 0xA2, 0xC1, 0x17, 0x78, 0xC5,
        ];
        let digest = b"bTy95Y99eAME1dwEkHOA1ndHGBWz.1bxSSRkuTXFGV/";
        let theirs = [PREFIX, &salt, digest].concat();
        assert!(is_stored(&theirs) && is_of(&theirs, b"hashcat") && !is_of(&theirs, b"Hashcat"));
    }

    #[test]
    fn a_password_is_stored_with_its_salt() {
        let (one, other) = (stored(b"secret", [7; SALT]), stored(b"secret", [8; SALT]));
        assert!(one != other && one.len() == 70 && one.starts_with(PREFIX));
        assert!(one.iter().all(u8::is_ascii_graphic), "it can be written as text");
        for stored in [&one, &other] {
            assert!(is_stored(stored) && is_of(stored, b"secret"));
            assert!(!is_of(stored, b"secre") && !is_of(stored, b"") && !is_of(stored, b"secret\0"));
        }
        for wrong in [&b""[..], b"$A$005$", &one[..69], &[&one[..], b"x"].concat(), &[0; 70]] {
            assert!(!is_stored(wrong) && !is_of(wrong, b"secret") && !is_of(wrong, b""));
        }
    }
}
