//! CRC32C, the checksum of every on-disk format (decision 010), with the processor's CRC
//! instructions where it has them.

use crc_fast::{CrcAlgorithm, Digest};

/// The CRC32C of `bytes`.
#[inline]
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// The CRC32C of the bytes whose checksum is `crc`, followed by `bytes`.
#[inline]
#[must_use]
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    // The digest's initial state is the complement of the checksum.
    let mut digest = Digest::new_with_init_state(CrcAlgorithm::Crc32Iscsi, u64::from(!crc));
    digest.update(bytes);
    digest.finalize() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Rng;

    /// CRC32C bit by bit, as it is defined.
    fn by_definition(bytes: &[u8]) -> u32 {
        let step = |crc: u32, _| if crc & 1 == 1 { crc >> 1 ^ 0x82F6_3B78 } else { crc >> 1 };
        !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
    }

    #[test]
    fn it_is_crc32c() {
        // The test vector of RFC 3720, appendix B.4.
        assert_eq!(crc32c(&[0; 32]), 0x8A91_36AA);
        assert_eq!(crc32c(&[0xFF; 32]), 0x62A8_AB43);
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
        assert_eq!(crc32c(b""), 0);
    }

    /// Many lengths, because the implementation uses other instructions for other lengths.
    #[test]
    fn it_is_what_its_definition_gives_in_one_piece_or_two() {
        let mut rng = Rng::new(1);
        let mut bytes = vec![0; 20_000];
        rng.fill(&mut bytes);
        let lengths = (0..600).chain([1000, 1023, 4096, 16_001, 19_000]);
        for len in lengths {
            let from = rng.below(100) as usize;
            let bytes = &bytes[from..from + len];
            let crc = by_definition(bytes);
            assert_eq!(crc32c(bytes), crc, "{len}");
            for _ in 0..4 {
                let (one, other) = bytes.split_at(rng.below(len as u64 + 1) as usize);
                assert_eq!(
                    crc32c_append(crc32c(one), other),
                    crc,
                    "{} and {}",
                    one.len(),
                    other.len()
                );
            }
        }
    }
}
