//! Filters over the distinct keys of a block: whether a key may be there.
//!
//! # Guarantees
//!
//! - **I1 (no key is missed).** Of a key that the filter was built of it says yes.
//! - **I2 (few others pass).** Of other keys it says yes of 1 in 128, whatever the keys are: hashes alone decide.
//! - **I3 (it can always be built).** Of any hashes, also equal ones, in time and memory in proportion to their number.
//! - **I4 (the same bytes for the same keys).** What is built is a function of the hashes in their order.
//! - **I5 (any bytes can be asked).** Bytes that are no filter answer something, and bytes of a kind that is not known say yes.
//!
//! # Format
//!
//! A byte, and what it says:
//!
//! ```text
//! 0          a Bloom filter of lines of 64 bytes (see `bloom`)
//! 1..=127    a ribbon, of which this is the seed (see `ribbon`)
//! 128..=255  not given yet
//! ```
//!
//! Extents of version 2 have Bloom filters without that byte. It is put in front of them where they are read, and so is there when they
//! are carried into another extent. Checksums are the extent's.
//!
//! # Why a ribbon, and why one for each block
//!
//! A ribbon (Dillinger, Walzer, "Ribbon filter: practically smaller than Bloom and Xor", 2021) takes 7.3 bits for each of a block's 520 keys,
//! and of 30 keys 9.6; the Bloom filter took 10.9 and 17.3, as its lines are whole. It takes longer to build, 45 ns a key where that took 5, and
//! to ask, 18 ns where that took 6 to 12. `spillway bench filters` measures both.
//!
//! Each block has its own, so that a compaction can carry it into another extent without decoding it. That costs no memory: the fewer keys a
//! ribbon is of, the nearer it comes to the least there can be, and one over the 60,000 keys of an extent is larger by 1 % than those of its
//! blocks of 520. Rejected for the same reason: a binary fuse filter (Graf, Lemire, 2022), which of 520 keys needs 1.43 places a key (its
//! authors' rule for three places a key; with four 1.42), of eight bits each: 11.4 bits, and 9.0 only of millions of keys. And a filter
//! over an extent, whatever its kind, would have to be made anew of keys that nobody decodes.
//!
//! # Prefixes
//!
//! A scan of all keys with a prefix, as of a SQL index's rows of one value, asks no filter. It could ask one that has the prefixes as
//! well, and would be spared a block of each run without that prefix, but for 1 in 128. But the engine would have to be told
//! where a key's prefix ends, and each prefix takes as much as a key: 14.6 bits for each entry of an index whose values differ,
//! 8.0 where ten entries have the same (`spillway bench filters`, "with prefixes"). That is memory which point reads of the table
//! itself do without, and all that it spares are the first blocks of a few runs: Level0 of a table that is mostly read has at most a
//! quarter of its runs. So filters have whole keys alone.

mod bloom;
mod ribbon;
#[cfg(all(test, not(loom)))]
mod tests;

use std::fmt;

use xxhash_rust::xxh3::xxh3_64;

const BLOOM: u8 = 0;

/// A way to tell which keys are in a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FilterKind {
    /// Ten bits a key in lines of 64 bytes: what extents of version 2 have.
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

/// The filter of keys of these hashes. One that cannot be a ribbon, which would be very bad luck, is a Bloom filter (I3).
#[must_use]
pub fn build(kind: FilterKind, hashes: &[u64]) -> Vec<u8> {
    let ribbon = match kind {
        FilterKind::Bloom => None,
        FilterKind::Ribbon => ribbon::build(hashes),
    };
    ribbon.unwrap_or_else(|| tagged(&bloom::build(hashes)))
}

/// A Bloom filter of an extent of version 2, as it is known here.
pub(crate) fn tagged(lines: &[u8]) -> Vec<u8> {
    [&[BLOOM], lines].concat()
}

/// Whether a key of this hash may be among those the filter was built of.
#[inline]
#[must_use]
pub fn may_contain(filter: &[u8], hash: u64) -> bool {
    match filter.split_first() {
        Some((&seed @ 1..=ribbon::SEED_MAX, columns)) => ribbon::may_contain(columns, seed, hash),
        Some((&BLOOM, lines)) => bloom::may_contain(lines, hash),
        _ => true,
    }
}
