//! Filters over the distinct keys of a block: whether the block may have a key, and where its next
//! key may be.
//!
//! # Guarantees
//!
//! - **FILTER-1 (no key is missed).** There are no false negatives: a lookup returns `true` for
//!   each key that the filter was built from.
//! - **FILTER-2 (few others pass).** The false-positive rate is 1/128, whatever the keys are: the
//!   filter depends only on hashes.
//! - **FILTER-3 (it can always be built).** A filter can be built from any hashes, also equal ones,
//!   in time and memory in proportion to their number.
//! - **FILTER-4 (the same bytes for the same keys).** A filter is a function of the hashes, or of
//!   the keys, in their order.
//! - **FILTER-5 (any bytes can be asked).** A lookup in bytes that are not a filter returns some
//!   result. In a filter of an unknown kind, it returns `true` for every key.
//! - **FILTER-6 (no key is passed).** Between the position of a seek in a range filter and the
//!   position that the seek returns, in either direction, the block has no key.
//!
//! # Format
//!
//! The first byte gives the kind of the filter:
//!
//! ```text
//! 0          a Bloom filter of lines of 64 bytes (see `bloom`)
//! 1..=127    a ribbon, of which this is the seed (see `ribbon`)
//! 128        a range filter (see `range`): its length (varint), itself, and then a filter of another kind
//! 129..=255  not given yet
//! ```
//!
//! The checksum of the extent's filter frame covers the filters.
//!
//! # Why a ribbon, and why one for each block
//!
//! A ribbon (Dillinger, Walzer, "Ribbon filter: practically smaller than Bloom and Xor", 2021)
//! takes 7.3 bits for each key of a block of 520 keys, and 9.6 for 30 keys. The Bloom filter took
//! 10.9 and 17.3, because it consists of whole lines. The ribbon takes longer to build, 45 ns for
//! each key instead of 5, and a lookup takes 18 ns instead of 6 to 12. `spillway-bench filters`
//! measures both.
//!
//! Each block has its own filter, so that a compaction can carry the block into another extent
//! without decoding it. Separate filters cost no memory: the fewer keys a ribbon has, the closer it
//! comes to the lower bound, and one ribbon over the 60,000 keys of an extent is 1 % larger than
//! those of its blocks of 520 keys. A filter over an extent, of any kind, would have to be rebuilt
//! from keys that no compaction decodes.
//!
//! Rejected: a binary fuse filter (Graf, Lemire, 2022). For 520 keys it needs 1.43 slots of eight
//! bits for each key (by its authors' rule for three slots a key; 1.42 with four). These are 11.4
//! bits, and 9.0 only for millions of keys.
//!
//! # Scans
//!
//! A scan uses the range filters of Level0 and Level1. Runs of these levels have few of a table's
//! rows, and most runs have none of the rows that a short scan returns. Level2 has no range
//! filters: nearly each scan finds rows there, and point reads need the memory of a byte for each
//! key more. A block that is carried to Level2 without being decoded loses its range filter
//! (`ExtentBuilder`).
//!
//! Rejected: prefixes beside the keys in the point filters, for scans of all keys with one prefix.
//! The engine would need to know where a key's prefix ends. Each prefix takes as much as a key
//! (14.6 bits for each entry of an index whose values differ, 8.0 if ten have the same;
//! `spillway-bench filters`, "with prefixes"). A scan of any other range would gain nothing.

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
    /// Ten bits a key, in lines of 64 bytes. A block has it if no ribbon can be built.
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

/// The filter of keys with these hashes. If it cannot be a ribbon, which is very unlikely, it is a
/// Bloom filter (FILTER-3).
#[must_use]
pub fn build(kind: FilterKind, hashes: &[u64]) -> Vec<u8> {
    let ribbon = match kind {
        FilterKind::Bloom => None,
        FilterKind::Ribbon => ribbon::build(hashes),
    };
    ribbon.unwrap_or_else(|| [&[BLOOM], &*bloom::build(hashes)].concat())
}

/// A filter with a range filter before it, unless the range filter is empty.
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

/// The range filter, if there is one, and the filter without it. A truncated range filter counts as
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
