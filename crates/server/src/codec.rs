//! Numbers and bytes of the protocol: little-endian, with length prefixes of one, three, four or
//! nine bytes.

use crate::packet::LARGE;

/// Appends a length-encoded integer.
pub(crate) fn put_len(out: &mut Vec<u8>, number: u64) {
    match number {
        0..=250 => out.push(number as u8),
        251..=0xFFFF => {
            out.push(0xFC);
            out.extend_from_slice(&(number as u16).to_le_bytes());
        }
        0x1_0000..=0xFF_FFFF => {
            out.push(0xFD);
            out.extend_from_slice(&(number as u32).to_le_bytes()[..3]);
        }
        _ => {
            out.push(0xFE);
            out.extend_from_slice(&number.to_le_bytes());
        }
    }
}

/// Appends bytes with their length before them.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_len(out, bytes.len() as u64);
    if bytes.len() > LARGE {
        // Exactly this much, because the buffer is freed once it is sent.
        out.reserve_exact(bytes.len());
    }
    out.extend_from_slice(bytes);
}

/// Appends the output of `write` with its length before it. It is optimised for short output: one
/// byte is reserved for the length, and longer output is moved.
pub(crate) fn put_short(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    out.push(0);
    write(out);
    let len = out.len() - at - 1;
    if len <= 250 {
        out[at] = len as u8;
    } else {
        let long = out.split_off(at + 1);
        out.truncate(at);
        put_bytes(out, &long);
    }
}

/// Reads a client's payload. Every method returns `None` if the payload ends too early.
pub(crate) struct Take<'a>(pub(crate) &'a [u8]);

impl<'a> Take<'a> {
    pub(crate) fn bytes(&mut self, len: usize) -> Option<&'a [u8]> {
        let (now, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(now)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Bytes up to a zero byte.
    pub(crate) fn until_zero(&mut self) -> Option<&'a [u8]> {
        let at = self.0.iter().position(|byte| *byte == 0)?;
        let text = self.bytes(at)?;
        self.bytes(1)?;
        Some(text)
    }

    /// Bytes up to a zero byte, or all that are left.
    pub(crate) fn until_zero_or_end(&mut self) -> &'a [u8] {
        self.until_zero().unwrap_or_else(|| std::mem::take(&mut self.0))
    }

    fn len(&mut self) -> Option<u64> {
        match self.u8()? {
            0xFC => self.u16().map(u64::from),
            0xFD => self.array::<3>().map(|[a, b, c]| u64::from(u32::from_le_bytes([a, b, c, 0]))),
            // Ignore the upper half: a packet is shorter, and some clients fill it with other data,
            // which MySQL ignores too.
            0xFE => self.u64().map(|len| len & 0xFFFF_FFFF),
            0xFB | 0xFF => None,
            small => Some(u64::from(small)),
        }
    }

    /// Bytes with their length before them.
    pub(crate) fn sized(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.len()?).ok()?;
        self.bytes(len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_read_as_they_were_written_and_never_past_the_end() {
        for len in [0, 1, 250, 251, 252, 0xFFFF, 0x1_0000, 0xFF_FFFF, 0x100_0000] {
            let bytes = vec![7; len];
            let (mut plain, mut short) = (Vec::new(), vec![1]);
            put_bytes(&mut plain, &bytes);
            put_short(&mut short, |out| out.extend_from_slice(&bytes));
            assert_eq!(plain, short[1..], "{len}");
            let mut take = Take(&plain);
            assert_eq!(take.sized(), Some(bytes.as_slice()));
            assert!(take.0.is_empty());
            for cut in [0, plain.len() / 2, plain.len() - 1] {
                assert_eq!(Take(&plain[..cut]).sized(), None, "{len} cut to {cut}");
            }
        }
        assert_eq!(Take(&[0xFB]).sized(), None);
        assert_eq!(Take(&[0xFF, 0, 0]).sized(), None);
    }
}
