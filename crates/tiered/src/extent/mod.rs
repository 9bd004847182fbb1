//! Extents: 2 MB of sorted versions of one table, the unit of space, of compaction and of reuse
//! (X-Engine, section 3.1.1).
//!
//! # Format
//! An extent begins at a slot of a data file and takes as many slots as it needs: one, but for a
//! version that is larger by itself. Frames are those of [`crate::block`].
//!
//! ```text
//! data blocks   frames, in key order
//! index         a frame, whose body has for each block: its first key and its last (varint length, bytes),
//!               its offset from the start of the extent and its length, frame included (varints),
//!               versions, keys that begin in it, tombstones, payload bytes, smallest CSN, largest CSN (varints),
//!               the bytes of its filter (varint)
//! filter        a frame, whose body is the blocks' filters (see [`crate::filter`]), one after another
//! footer        64 bytes:
//!    0  magic      8  "SPWYEXTN"
//!    8  version    u32  1
//!   12  table      u32
//!   16  extent id  u64
//!   24  index      offset u64, length u32
//!   36  filter     offset u64, length u32
//!   48  versions   u64
//!   56  zero       4 bytes
//!   60  checksum   u32  CRC32C of bytes 0..60
//! ```
//!
//! The properties of each block, and its filter, belong to the block, so that a compaction can
//! carry it into another extent without decoding it. Between the keys of two neighbouring blocks
//! there may be keys in other extents: an extent holds what one compaction wrote, and slices that
//! it left in place may lie between.

mod async_reads;
mod builder;
mod check;
mod corruption_report;
mod direct_io;
mod expect;
mod handle;
mod index_lookup;
mod partial_read;
mod readahead;
mod settings;
#[cfg(all(test, not(loom)))]
mod tests;

use std::ops::Range;

use spillway_base::checksum::crc32c;
use spillway_base::codec::Reader;
use spillway_base::{Error, Result, TableId};

use crate::block::BlockSearch;
use crate::extent_meta::{Counts, ExtentId, SliceMeta};
use crate::filter::RangeFilter;

use self::index_lookup::BlockNodes;
use self::partial_read::Parts;

pub(crate) use async_reads::ExtentRead;
pub(crate) use builder::{BlockParts, BuiltExtent, ExtentBuilder};
pub(crate) use check::check_extent;
pub(crate) use handle::{CachedBlock, CachedTable, ExtentHandle, ReadContext, read_by_this_thread};
pub(crate) use readahead::{Begun, Fetcher, ReadAhead};
pub(crate) use settings::ReadSettings;
#[cfg(all(test, not(loom)))]
pub(crate) use tests::bytes_of_parts;

const MAGIC: &[u8; 8] = b"SPWYEXTN";
const VERSION: u32 = 1;
pub(crate) const FOOTER_BYTES: usize = 64;

/// A part of an extent that a read needs and that is not in memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Missing {
    Table,
    Block(usize),
}

/// The places of the parts of an extent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Footer {
    table: TableId,
    id: ExtentId,
    index: (u64, u32),
    filter: (u64, u32),
    versions: u64,
}

impl Footer {
    fn encode(&self) -> [u8; FOOTER_BYTES] {
        let mut bytes = [0; FOOTER_BYTES];
        let mut at = 0;
        let mut put = |part: &[u8]| {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        };
        put(MAGIC);
        put(&VERSION.to_le_bytes());
        put(&self.table.0.to_le_bytes());
        put(&self.id.0.to_le_bytes());
        for (offset, len) in [self.index, self.filter] {
            put(&offset.to_le_bytes());
            put(&len.to_le_bytes());
        }
        put(&self.versions.to_le_bytes());
        let crc = crc32c(&bytes[..FOOTER_BYTES - 4]);
        bytes[FOOTER_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Footer> {
        let mut reader = Reader::new(bytes);
        let magic = reader.take(MAGIC.len())?;
        let version = reader.u32()?;
        let footer = Footer {
            table: TableId(reader.u32()?),
            id: ExtentId(reader.u64()?),
            index: (reader.u64()?, reader.u32()?),
            filter: (reader.u64()?, reader.u32()?),
            versions: reader.u64()?,
        };
        reader.take(4)?;
        if magic != MAGIC || reader.u32()? != crc32c(&bytes[..FOOTER_BYTES - 4]) {
            return Err(Error::corruption("the footer does not match its checksum"));
        }
        if version != VERSION {
            return Err(Error::corruption(format!(
                "its format is version {version}; this build reads version {VERSION}"
            )));
        }
        Ok(footer)
    }
}

/// The place of a block in its extent, and its counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockPlace {
    pub(crate) offset: u64,
    pub(crate) len: u32,
    pub(crate) counts: Counts,
}

/// The beginnings of a block, its keys, its filter and its counts. Each ends where the next block's
/// begins.
#[derive(Clone, Copy)]
struct Begins {
    block: u64,
    first: u32,
    last: u32,
    filter: u32,
    counts: u32,
}

/// The part of an extent that the cache holds to read it: its block index and its filters.
pub(crate) struct Resident {
    /// For each block, and for one past the last.
    begins: Box<[Begins]>,
    keys: Box<[u8]>,
    filters: Box<[u8]>,
    /// As stored, because reads do not use them.
    counts: Box<[u8]>,
    /// The search nodes over the last keys, if blocks are searched by nodes.
    nodes: Option<BlockNodes>,
    /// Partial reads of its blocks.
    parts: Parts,
}

impl Resident {
    /// Of the bodies of the two frames of an extent of this length.
    fn decode(
        index: &[u8],
        filters: &[u8],
        extent_len: u64,
        search: BlockSearch,
    ) -> Result<Resident> {
        let mut reader = Reader::new(index);
        let mut begins: Vec<Begins> = Vec::new();
        let (mut keys, mut counts) = (Vec::new(), Vec::new());
        let mut filters_end = 0_u32;
        let mut data_end = 0_u64;
        let bad = || Error::corruption("the block index makes no sense");
        let mut before: &[u8] = &[];
        while !reader.is_empty() {
            let (first, last) = (reader.bytes()?, reader.bytes()?);
            let (offset, len) = (reader.varint()?, reader.varint_u32()?);
            let begin = Begins {
                block: offset,
                first: keys.len() as u32,
                last: (keys.len() + first.len()) as u32,
                filter: filters_end,
                counts: counts.len() as u32,
            };
            Counts::decode(&mut reader)?.encode(&mut counts);
            let filter_len = reader.varint_u32()?;
            let end = offset.checked_add(u64::from(len)).filter(|end| *end <= extent_len);
            let ordered = before <= first && first <= last && offset == data_end;
            data_end = end.filter(|_| ordered).ok_or_else(bad)?;
            filters_end = filters_end.checked_add(filter_len).ok_or_else(bad)?;
            before = last;
            keys.extend_from_slice(first);
            keys.extend_from_slice(last);
            begins.push(begin);
        }
        let long = u32::try_from(keys.len().max(counts.len())).is_err();
        if begins.is_empty() || long || filters_end as usize != filters.len() {
            return Err(bad());
        }
        let (first, counts_end) = (keys.len() as u32, counts.len() as u32);
        let filter = filters_end;
        begins.push(Begins { block: data_end, first, last: first, filter, counts: counts_end });
        let keys = keys.into();
        let filters = filters.into();
        let mut resident = Resident {
            begins: begins.into(),
            keys,
            filters,
            counts: counts.into(),
            nodes: None,
            parts: Parts::default(),
        };
        if let BlockSearch::Nodes(way) = search {
            resident.nodes = Some(BlockNodes::over(&resident, way));
        }
        Ok(resident)
    }

    fn bytes(&self) -> usize {
        let nodes = self.nodes.as_ref().map_or(0, BlockNodes::bytes);
        let rest = self.keys.len() + self.filters.len() + self.counts.len();
        size_of_val(&*self.begins) + rest + nodes
    }

    /// The number of blocks.
    pub(crate) fn blocks(&self) -> usize {
        self.begins.len() - 1
    }

    /// The place and counts of a block.
    pub(crate) fn place(&self, block: usize) -> BlockPlace {
        let len = self.offset(block + 1) - self.offset(block);
        BlockPlace { offset: self.offset(block), len: len as u32, counts: self.counts(block) }
    }

    /// The offset of a block; for the number of blocks, the end of the last one.
    pub(crate) fn offset(&self, block: usize) -> u64 {
        self.begins[block].block
    }

    /// The counts of a block's versions.
    pub(crate) fn counts(&self, block: usize) -> Counts {
        let mut reader = Reader::new(&self.counts[self.begins[block].counts as usize..]);
        Counts::decode(&mut reader).expect("they were encoded when the index was decoded")
    }

    /// A block's first key.
    pub(crate) fn first(&self, block: usize) -> &[u8] {
        let begin = self.begins[block];
        &self.keys[begin.first as usize..begin.last as usize]
    }

    /// A block's last key.
    pub(crate) fn last(&self, block: usize) -> &[u8] {
        &self.keys[self.begins[block].last as usize..self.begins[block + 1].first as usize]
    }

    /// A block's filter, with its range filter before it.
    #[inline]
    pub(crate) fn filter(&self, block: usize) -> &[u8] {
        let begins = |block: usize| self.begins[block].filter as usize;
        let place = match &self.nodes {
            Some(nodes) => nodes.filter(block),
            None => begins(block)..begins(block + 1),
        };
        &self.filters[place]
    }

    /// The name of a block in a damage report: its number, place and keys.
    pub(crate) fn name(&self, block: usize) -> String {
        let (first, last) = (self.first(block).escape_ascii(), self.last(block).escape_ascii());
        let offset = self.offset(block);
        format!("block {block} at byte {offset} with keys from \"{first}\" to \"{last}\"")
    }

    /// Whether versions of a block's last key continue in the next block.
    pub(crate) fn goes_on(&self, block: usize) -> bool {
        block + 1 < self.blocks() && self.last(block) == self.first(block + 1)
    }

    /// The first of these blocks that could hold `key` or a larger one; past the last if none
    /// could.
    pub(crate) fn seek(&self, blocks: Range<usize>, key: &[u8]) -> usize {
        if let Some(nodes) = &self.nodes {
            // This searches all of the extent's last keys, not only those of these blocks.
            let below = nodes.seek(key, |block| self.last(block));
            return below.clamp(blocks.start, blocks.end);
        }
        let (mut from, mut to) = (blocks.start, blocks.end);
        while from < to {
            let middle = from.midpoint(to);
            match self.last(middle) < key {
                true => from = middle + 1,
                false => to = middle,
            }
        }
        from
    }

    /// As [`Resident::seek`], for a caller that asks that block's filter next.
    #[inline]
    pub(crate) fn seek_filter(&self, blocks: Range<usize>, key: &[u8]) -> usize {
        match &self.nodes {
            Some(nodes) => nodes
                .seek_filter(key, &self.filters, |block| self.last(block))
                .clamp(blocks.start, blocks.end),
            None => self.seek(blocks, key),
        }
    }

    /// Whether a key of this hash may be in the block.
    #[inline]
    pub(crate) fn may_contain(&self, block: usize, hash: u64) -> bool {
        crate::filter::may_contain(self.filter(block), hash)
    }

    /// The key span of a block, as far as it is known.
    pub(crate) fn range_filter(&self, block: usize) -> Option<RangeFilter<'_>> {
        let (range, _) = crate::filter::split_range(self.filter(block));
        RangeFilter::new(range?, self.first(block), self.last(block))
    }

    /// The record of a slice of these blocks.
    pub(crate) fn slice(&self, extent: ExtentId, blocks: Range<usize>) -> SliceMeta {
        let mut counts = Counts::NONE;
        blocks.clone().for_each(|block| counts.add(&self.counts(block)));
        SliceMeta {
            extent,
            first_block: blocks.start as u32,
            blocks: blocks.len() as u32,
            bytes: self.offset(blocks.end) - self.offset(blocks.start),
            smallest: self.first(blocks.start).into(),
            largest: self.last(blocks.end - 1).into(),
            counts,
        }
    }
}

#[cfg(fuzzing)]
pub(crate) mod fuzz {
    use super::*;

    pub(crate) fn footer(bytes: &[u8]) {
        let Some(bytes) = bytes.first_chunk::<FOOTER_BYTES>() else { return };
        let mut bytes = *bytes;
        if bytes[0] & 1 == 1 {
            bytes[..8].copy_from_slice(MAGIC);
            bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        }
        crate::fuzz::seal(&mut bytes);
        if let Ok(footer) = Footer::decode(&bytes) {
            assert_eq!(Footer::decode(&footer.encode()).ok(), Some(footer));
        }
    }

    pub(crate) fn resident(bytes: &[u8]) {
        let mut reader = Reader::new(bytes);
        let (Ok(len), Ok(index)) = (reader.u32(), reader.bytes()) else { return };
        let filter = reader.rest();
        let search = BlockSearch::best();
        let resident = Resident::decode(index, filter, len.into(), search);
        let Ok(resident) = resident else { return };
        let all = 0..resident.blocks();
        for block in all.clone() {
            let found = resident.seek(all.clone(), resident.last(block));
            assert!(found <= block && resident.last(found) == resident.last(block));
            let place = resident.place(block);
            assert!(place.offset + u64::from(place.len) <= len.into());
            resident.may_contain(block, crate::filter::hash(resident.last(block)));
            if let Some(range) = resident.range_filter(block) {
                let mut bound = Vec::new();
                range.least_from(resident.first(block), &mut bound);
                assert!(bound.as_slice() >= resident.first(block));
                range.past_before(resident.last(block), &mut bound);
                assert!(bound.as_slice() <= resident.last(block));
            }
        }
        assert!(resident.bytes() > 0);
    }
}
