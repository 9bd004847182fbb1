//! Fast validation of UTF-8.
#![allow(unsafe_code)] // A leaf: ASCII is valid UTF-8.

use std::str::Utf8Error;

/// Converts bytes to text, if they are UTF-8. Most texts are ASCII, for which the processor checks
/// many bytes at a time.
///
/// # Errors
/// As [`std::str::from_utf8`].
#[inline]
pub(crate) fn from_utf8(bytes: &[u8]) -> Result<&str, Utf8Error> {
    if is_ascii(bytes) {
        // SAFETY: all bytes are ASCII, so they are UTF-8.
        return Ok(unsafe { std::str::from_utf8_unchecked(bytes) });
    }
    std::str::from_utf8(bytes)
}

/// Whether all bytes are ASCII. The standard library's check handles the last bytes one by one,
/// which is most of its work for texts of a hundred bytes.
#[inline]
fn is_ascii(bytes: &[u8]) -> bool {
    const WORDS: usize = 4;
    let words = |chunk: &[u8; 8 * WORDS]| -> [u64; WORDS] {
        let (words, _) = chunk.as_chunks::<8>();
        std::array::from_fn(|at| u64::from_ne_bytes(words[at]))
    };
    // The last bytes may be checked twice.
    let all = if let Some(last) = bytes.last_chunk() {
        let (chunks, _) = bytes.as_chunks();
        let all = chunks
            .iter()
            .map(words)
            .fold(words(last), |all, some| std::array::from_fn(|at| all[at] | some[at]));
        all.iter().fold(0, |all, word| all | word)
    } else if let Some(last) = bytes.last_chunk() {
        let (chunks, _) = bytes.as_chunks();
        let words = chunks.iter().chain([last]).map(|chunk| u64::from_ne_bytes(*chunk));
        words.fold(0, |all, word| all | word)
    } else {
        bytes.iter().fold(0, |all, byte| all | u64::from(*byte))
    };
    all & NOT_ASCII == 0
}

/// The bits of eight bytes that are zero in ASCII.
pub(crate) const NOT_ASCII: u64 = 0x8080_8080_8080_8080;

/// Eight bytes of ASCII in upper case.
#[inline]
pub(crate) fn capitals(bytes: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    // The highest bit of each byte: whether it is `a` or above, and whether it is above `z`.
    let from_a = bytes + (0x80 - u64::from(b'a')) * EACH;
    let past_z = bytes + (0x7F - u64::from(b'z')) * EACH;
    bytes - ((from_a & !past_z & NOT_ASCII) >> 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_the_standard_library_says() {
        let lasts: [&[u8]; 6] = [b"", b"a", "\u{e9}".as_bytes(), b"\xE9", b"\x80", b"\xFF"];
        for len in 0..200 {
            for last in lasts {
                let bytes = [&vec![b'x'; len][..], last, b"y"].concat();
                assert_eq!(from_utf8(&bytes), std::str::from_utf8(&bytes), "{len}, {last:?}");
            }
        }
    }

    #[test]
    fn capitals_are_those_of_the_standard_library() {
        for byte in 0..0x80 {
            let bytes: [u8; 8] = std::array::from_fn(|at| (byte + 16 * at as u8) & 0x7F);
            let made = capitals(u64::from_be_bytes(bytes)).to_be_bytes();
            assert_eq!(made, bytes.map(|byte| byte.to_ascii_uppercase()));
        }
    }
}
