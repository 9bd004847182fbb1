//! Filters over the distinct keys of a block: whether a key may be there, and where the next one
//! may be.
//!
//! # Guarantees
//!
//! - **FILTER-1 (no key is missed).** Of a key that the filter was built of it says yes.
//! - **FILTER-2 (few others pass).** Of other keys it says yes of 1 in 128, whatever the keys are:
//!   hashes alone decide.
//! - **FILTER-3 (it can always be built).** Of any hashes, also equal ones, in time and memory in
//!   proportion to their number.
//! - **FILTER-4 (the same bytes for the same keys).** A filter is a function of the hashes, or of
//!   the keys, in their order.
//! - **FILTER-5 (any bytes can be asked).** Bytes that are no filter answer something, and bytes of
//!   a kind that is not known say yes.
//! - **FILTER-6 (no key is passed).** Between a place and what a range filter answers for it, in
//!   either direction, the block has no key.
//!
//! # Format
//!
//! A byte, and what it says:
//!
//! ```text
//! 0          a Bloom filter of lines of 64 bytes (see `bloom`)
//! 1..=127    a ribbon, of which this is the seed (see `ribbon`)
//! 128        a range filter (see `range`): its length (varint), itself, and then a filter of another kind
//! 129..=255  not given yet
//! ```
//!
//! Checksums are the extent's.
//!
//! # Why a ribbon, and why one for each block
//!
//! A ribbon (Dillinger, Walzer, "Ribbon filter: practically smaller than Bloom and Xor", 2021)
//! takes 7.3 bits for each of a block's 520 keys, and of 30 keys 9.6; the Bloom filter took 10.9
//! and 17.3, as its lines are whole. It takes longer to build, 45 ns a key where that took 5, and
//! to ask, 18 ns where that took 6 to 12. `spillway-bench filters` measures both.
//!
//! Each block has its own, so that a compaction can carry it into another extent without decoding
//! it. That costs no memory: the fewer keys a ribbon is of, the nearer it comes to the least there
//! can be, and one over the 60,000 keys of an extent is larger by 1 % than those of its blocks
//! of 520. Rejected for the same reason: a binary fuse filter (Graf, Lemire, 2022), which of 520
//! keys needs 1.43 places a key (its authors' rule for three places a key; with four 1.42), of
//! eight bits each: 11.4 bits, and 9.0 only of millions of keys. And a filter over an extent,
//! whatever its kind, would have to be made anew of keys that nobody decodes.
//!
//! # Scans
//!
//! A scan uses the range filters of Level0 and Level1. Runs there have few of a table's rows, and
//! most have none of those that a short scan returns. Level2 has none: nearly each scan finds rows
//! there, and a byte for each key is more than point reads of it can spare. A block that is carried
//! there without being decoded loses its range filter (`ExtentBuilder`).
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

/// A way to tell which keys are in a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FilterKind {
    /// Ten bits a key in lines of 64 bytes. A block has it where no ribbon can be built.
    Bloom,
    /// Seven bits a key and a little.
    Ribbon,
}

impl FilterKind {
    /// All there are.
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

/// The hash of a key, for building and asking.
#[must_use]
pub fn hash(key: &[u8]) -> u64 {
    xxh3_64(key)
}

/// The filter of keys of these hashes. One that cannot be a ribbon, which would be very bad luck,
/// is a Bloom filter (FILTER-3).
#[must_use]
pub fn build(kind: FilterKind, hashes: &[u64]) -> Vec<u8> {
    let ribbon = match kind {
        FilterKind::Bloom => None,
        FilterKind::Ribbon => ribbon::build(hashes),
    };
    ribbon.unwrap_or_else(|| [&[BLOOM], &*bloom::build(hashes)].concat())
}

/// A filter with a range filter before it, if that tells anything.
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

/// Whether a key of this hash may be among those the filter was built of.
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
