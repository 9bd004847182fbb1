//! Filters over the distinct keys of a block. A *point filter* (Bloom or ribbon) says whether the
//! block may have a key. A *range filter* says where the block's next key may be.
//!
//! # Guarantees
//!
//! - **FILTER-1 (no key is missed).** A lookup returns `true` for each key from which the filter
//!   was built: there are no false negatives.
//! - **FILTER-2 (few false positives).** The false-positive rate of a ribbon filter is 1/128, and
//!   that of a Bloom filter is about 1 %. Both rates hold for any keys, because these filters
//!   depend only on hashes. A range filter has no such bound: it depends on how evenly the keys are
//!   spread.
//! - **FILTER-3 (it can always be built).** A point filter can be built from any hashes, even from
//!   equal ones, in time and memory in proportion to their number.
//! - **FILTER-4 (the same bytes for the same keys).** The bytes of a point filter depend only on
//!   the hashes and their order. The bytes of a range filter depend only on the keys.
//! - **FILTER-5 (any bytes can be asked).** A lookup in bytes that are not a filter returns `true`
//!   or `false`, and never panics. A lookup in a filter of an unknown kind returns `true` for every
//!   key.
//! - **FILTER-6 (a seek skips no key).** A seek in a range filter begins at one position and
//!   returns another position, in either direction. The block has no key between the two positions.
//!
//! # Format
//!
//! The first byte gives the kind of the filter:
//!
//! ```text
//! 0          a Bloom filter of lines of 64 bytes (see `bloom`)
//! 1..=127    a ribbon filter; the byte is its seed (see `ribbon`)
//! 128        a range filter (see `range`): length (varint) and bytes, then a point filter
//! 129..=255  not used yet
//! ```
//!
//! The checksum of the extent's filter frame covers the filters.
//!
//! # Why a ribbon, and why one for each block
//!
//! A ribbon (Dillinger, Walzer, "Ribbon filter: practically smaller than Bloom and Xor", 2021)
//! takes 7.3 bits for each key in a block of 520 keys, and 9.6 in a block of 30 keys. A Bloom
//! filter takes 10.9 and 17.3 bits, because it consists of whole 64-byte lines. On the other hand,
//! a ribbon takes 45 ns for each key to build, and a Bloom filter 5 ns. A lookup in a ribbon takes
//! 18 ns, and one in a Bloom filter 6 to 12 ns. `spillway-bench filters` measures both.
//!
//! Each block has its own filter, so that a compaction can carry the block into another extent
//! without decoding it. A filter over a whole extent would have to be rebuilt from all its keys,
//! which such a compaction does not decode. Separate filters cost no memory: one ribbon over the
//! 60,000 keys of an extent is 1 % larger than the ribbons of its blocks of 520 keys together,
//! because a ribbon over more keys needs more spare slots.
//!
//! Rejected: a binary fuse filter (Graf, Lemire, 2022). For 520 keys it needs 1.43 slots of eight
//! bits for each key (by its authors' rule for three slots a key; 1.42 with four). These are 11.4
//! bits, more than a Bloom filter takes. Only for millions of keys does it take as little as 9.0
//! bits.
//!
//! # Scans
//!
//! A scan uses the range filters of Level0 and Level1. Runs of these levels have few of a table's
//! rows. Most of these runs have none of the rows that a short scan returns, and with the range
//! filter the scan reads no block of such a run. Level2 has no range filters. Nearly each scan
//! finds rows there, so a filter would save few reads. It would also take a byte of memory for each
//! key, which point reads use better. A block that is carried to Level2 without being decoded loses
//! its range filter (`ExtentBuilder`).
//!
//! Rejected: adding prefixes of the keys to the point filters, beside the keys. A scan of all keys
//! with one prefix could then skip a block, but a scan of any other range would gain nothing. The
//! engine would need to know where a key's prefix ends. Each distinct prefix takes as much memory
//! as a key: 14.6 bits for each entry of an index whose values differ, 8.0 if ten entries have the
//! same value (`spillway-bench filters`, "with prefixes").

mod bloom;
mod range;
mod ribbon;
#[cfg(all(test, not(loom)))]
mod tests;

use std::fmt;

use spillway_base::codec::{Reader, put_bytes};
use xxhash_rust::xxh3::xxh3_64;

pub(crate) use self::range::{RangeFilter, build as build_range, place_between};

const BLOOM: u8 = 0;
const RANGE: u8 = 128;

/// A kind of filter of a block's keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FilterKind {
    /// Ten bits a key, in lines of 64 bytes. A block has it if no ribbon could be built.
    Bloom,
    /// A little more than seven bits a key.
    Ribbon,
}

impl FilterKind {
    /// All kinds.
    pub const ALL: [FilterKind; 2] = [FilterKind::Bloom, FilterKind::Ribbon];
}

impl fmt::Display for FilterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            FilterKind::Bloom => "bloom",
            FilterKind::Ribbon => "ribbon",
        })
    }
}

/// The hash of a key, for building a filter and for querying it.
#[must_use]
pub fn hash(key: &[u8]) -> u64 {
    xxh3_64(key)
}

/// The point filter of keys with these hashes. In the very unlikely case that no ribbon can be
/// built, it is a Bloom filter (FILTER-3).
#[must_use]
pub fn build(kind: FilterKind, hashes: &[u64]) -> Vec<u8> {
    let ribbon = match kind {
        FilterKind::Bloom => None,
        FilterKind::Ribbon => ribbon::build(hashes),
    };
    ribbon.unwrap_or_else(|| [&[BLOOM], &*bloom::build(hashes)].concat())
}

/// Puts a range filter before a point filter, unless the range filter is empty.
pub(crate) fn with_range(range: &[u8], filter: Vec<u8>) -> Vec<u8> {
    if range.is_empty() {
        return filter;
    }
    let mut both = Vec::with_capacity(range.len() + filter.len() + 4);
    both.push(RANGE);
    put_bytes(&mut both, range);
    both.extend_from_slice(&filter);
    both
}

/// The range filter, if there is one, and the point filter. A truncated range filter counts as
/// none.
pub(crate) fn split_range(filter: &[u8]) -> (Option<&[u8]>, &[u8]) {
    let Some((&RANGE, rest)) = filter.split_first() else { return (None, filter) };
    let mut reader = Reader::new(rest);
    match reader.bytes() {
        Ok(range) => (Some(range), reader.rest()),
        Err(_) => (None, filter),
    }
}

/// Whether a key of this hash may be among the filter's keys.
#[inline]
#[must_use]
pub fn may_contain(filter: &[u8], hash: u64) -> bool {
    let (_, filter) = split_range(filter);
    match filter.split_first() {
        Some((&seed @ 1..=ribbon::SEED_MAX, columns)) => ribbon::may_contain(columns, seed, hash),
        Some((&BLOOM, lines)) => bloom::may_contain(lines, hash),
        _ => true,
    }
}
