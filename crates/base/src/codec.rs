//! Little-endian integers, LEB128 varints and length-prefixed bytes.
//!
//! Every decoder of Spillway uses [`Reader`]: it never panics, never trusts a length, and reports
//! the offset at which the bytes are invalid.

use crate::{Error, ErrorKind, Result};

/// Appends `value` as a LEB128 varint (1 to 10 bytes).
pub fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends the length of `bytes` as a varint, then `bytes`.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The number of bytes [`put_varint`] appends for `value`.
#[must_use]
pub fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

/// Reads a byte string from its front.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    /// A reader at the front of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, offset: 0 }
    }

    /// The number of bytes that were read.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// The bytes that are left to read.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        &self.bytes[self.offset..]
    }

    /// Whether everything was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.offset == self.bytes.len()
    }

    #[cold]
    fn truncated(&self, what: &str) -> Error {
        Error::new(
            ErrorKind::Corruption,
            format!("{what} expected at byte {} of {}", self.offset, self.bytes.len()),
        )
    }

    /// The next `len` bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Corruption`] when fewer are left.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let rest = self.rest();
        if len > rest.len() {
            return Err(self.truncated("more bytes"));
        }
        self.offset += len;
        Ok(&rest[..len])
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let Some(array) = self.rest().first_chunk::<N>() else {
            return Err(self.truncated("an integer"));
        };
        self.offset += N;
        Ok(*array)
    }

    /// One byte.
    ///
    /// # Errors
    /// [`ErrorKind::Corruption`] at the end.
    pub fn u8(&mut self) -> Result<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// A little-endian `u16`.
    ///
    /// # Errors
    /// [`ErrorKind::Corruption`] when too few bytes are left.
    pub fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// A little-endian `u32`.
    ///
    /// # Errors
    /// [`ErrorKind::Corruption`] when too few bytes are left.
    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// A little-endian `u64`.
    ///
    /// # Errors
    /// [`ErrorKind::Corruption`] when too few bytes are left.
    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A LEB128 varint.
    ///
    /// # Errors
    /// [`ErrorKind::Corruption`] when it does not end within ten bytes, or is past `u64::MAX`.
    pub fn varint(&mut self) -> Result<u64> {
        let mut value = 0u64;
        for (index, &byte) in self.rest().iter().take(10).enumerate() {
            let bits = u64::from(byte & 0x7F);
            if index == 9 && bits > 1 {
                break;
            }
            value |= bits << (7 * index);
            if byte < 0x80 {
                self.offset += index + 1;
                return Ok(value);
            }
        }
        Err(self.truncated("a varint"))
    }

    /// A varint that must fit a `u32`.
    ///
    /// # Errors
    /// [`ErrorKind::Corruption`] when it does not.
    pub fn varint_u32(&mut self) -> Result<u32> {
        u32::try_from(self.varint()?).map_err(|_| self.truncated("a 32-bit varint before"))
    }

    /// Bytes written by [`put_bytes`].
    ///
    /// # Errors
    /// [`ErrorKind::Corruption`] when the length is past what is left.
    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = self.varint()?;
        let len = usize::try_from(len).map_err(|_| self.truncated("a length before"))?;
        self.take(len)
    }
}

/// The first eight bytes of a key as a big-endian number, padded with zeros. The numbers have the
/// order of the keys, except that different keys may have equal numbers.
#[inline]
#[must_use]
pub fn key_head(key: &[u8]) -> u64 {
    if let Some(first) = key.first_chunk() {
        return u64::from_be_bytes(*first);
    }
    let mut head = [0; 8];
    head[..key.len()].copy_from_slice(key);
    u64::from_be_bytes(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_have_the_order_of_their_keys() {
        let keys: [&[u8]; 7] = [b"", b"\0", b"a", b"a\0b", b"abcdefgh", b"abcdefghi", b"b"];
        assert!(keys.map(key_head).is_sorted());
        assert_eq!(key_head(b"ab"), 0x6162 << 48);
        assert_eq!(key_head(b"abcdefgh"), key_head(b"abcdefghi"));
    }

    #[test]
    fn varints_round_trip_and_know_their_length() {
        for shift in 0..64 {
            for value in [1u64 << shift, (1u64 << shift) - 1, u64::MAX >> shift] {
                let mut out = Vec::new();
                put_varint(&mut out, value);
                assert_eq!(out.len(), varint_len(value), "{value}");
                let mut reader = Reader::new(&out);
                assert_eq!(reader.varint().unwrap(), value);
                assert!(reader.is_empty());
            }
        }
    }

    #[test]
    fn truncated_and_overlong_input_is_an_error() {
        assert!(Reader::new(&[0x80; 3]).varint().is_err());
        assert!(Reader::new(&[0xFF; 10]).varint().is_err());
        assert!(Reader::new(&[5, 1, 2]).bytes().is_err());
        assert!(Reader::new(&[0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01]).bytes().is_err());
        assert_eq!(Reader::new(&[1, 2]).u32().unwrap_err().kind(), ErrorKind::Corruption);
    }
}
