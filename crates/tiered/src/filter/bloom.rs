//! A blocked Bloom filter (Putze, Sanders, Singler, "Cache-, hash- and space-efficient Bloom
//! filters", 2007): all bits of a key lie in one line of 64 bytes.
//!
//! The filter is a sequence of lines. Each line is eight little-endian words, and a key sets six of
//! its 512 bits. With ten bits for each key, the false-positive rate is about 1 %.

const BITS_PER_KEY: usize = 10;
const LINE_BYTES: usize = 64;
const PROBES: u32 = 6;

/// The bits of a key within its line.
fn bits(hash: u64) -> impl Iterator<Item = usize> {
    let mut mixed = hash.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (0..PROBES).map(move |_| {
        let bit = (mixed >> 55) as usize;
        mixed <<= 9;
        bit
    })
}

fn line(hash: u64, lines: usize) -> usize {
    ((u128::from(hash) * lines as u128) >> 64) as usize
}

/// The filter of these keys.
pub(super) fn build(hashes: &[u64]) -> Vec<u8> {
    let lines = (hashes.len() * BITS_PER_KEY).div_ceil(8 * LINE_BYTES).max(1);
    let mut bytes = vec![0; lines * LINE_BYTES];
    for &hash in hashes {
        let at = line(hash, lines) * LINE_BYTES;
        bits(hash).for_each(|bit| bytes[at + bit / 8] |= 1 << (bit % 8));
    }
    bytes
}

/// Whether a key of this hash may be among the filter's keys. Returns `true` for bytes that are not
/// a filter.
pub(super) fn may_contain(filter: &[u8], hash: u64) -> bool {
    let lines = filter.len() / LINE_BYTES;
    if lines == 0 {
        return true;
    }
    let at = line(hash, lines) * LINE_BYTES;
    bits(hash).all(|bit| filter[at + bit / 8] >> (bit % 8) & 1 == 1)
}
