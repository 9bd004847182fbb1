//! The part of an extent that the cache holds so that reads can find its blocks: the block index
//! and the filters.

use std::ops::Range;

use spillway_base::codec::Reader;
use spillway_base::{Error, Result};

use super::index_lookup::BlockNodes;
use super::part_index::PartIndex;
use crate::block::BlockSearch;
use crate::extent_meta::{Counts, ExtentId, SliceMeta};
use crate::filter::RangeFilter;

/// A part of an extent that a read needs and that is not in memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Missing {
    Table,
    Block(usize),
}

/// The place of a block in its extent, and its counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BlockPlace {
    pub(crate) offset: u64,
    pub(crate) len: u32,
    pub(crate) counts: Counts,
}

/// The offsets at which a block begins, and its keys, its filter and its counts. Each of these ends
/// where that of the next block begins.
#[derive(Clone, Copy)]
pub(super) struct BlockBegins {
    pub(super) block: u64,
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) filter: u32,
    pub(super) counts: u32,
}

/// The block index and the filters of an extent, in memory.
pub(crate) struct Resident {
    /// For each block, and for the end of the last one.
    pub(super) begins: Box<[BlockBegins]>,
    keys: Box<[u8]>,
    filters: Box<[u8]>,
    /// Encoded as in the extent, because reads do not use the counts.
    counts: Box<[u8]>,
    /// The search nodes over the last keys, if blocks are searched by nodes.
    pub(super) nodes: Option<BlockNodes>,
    /// The notes on its blocks, for partial reads.
    pub(super) parts: PartIndex,
}

impl Resident {
    /// Decodes the bodies of the two frames of an extent of this length.
    pub(super) fn decode(
        index: &[u8],
        filters: &[u8],
        extent_len: u64,
        search: BlockSearch,
    ) -> Result<Resident> {
        let mut reader = Reader::new(index);
        let mut begins: Vec<BlockBegins> = Vec::new();
        let (mut keys, mut counts) = (Vec::new(), Vec::new());
        let mut filters_end = 0_u32;
        let mut data_end = 0_u64;
        let bad = || Error::corruption("the block index makes no sense");
        let mut before: &[u8] = &[];
        while !reader.is_empty() {
            let (first, last) = (reader.bytes()?, reader.bytes()?);
            let (offset, len) = (reader.varint()?, reader.varint_u32()?);
            let begin = BlockBegins {
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
        begins.push(BlockBegins {
            block: data_end,
            first,
            last: first,
            filter,
            counts: counts_end,
        });
        let keys = keys.into();
        let filters = filters.into();
        let mut resident = Resident {
            begins: begins.into(),
            keys,
            filters,
            counts: counts.into(),
            nodes: None,
            parts: PartIndex::default(),
        };
        if let BlockSearch::Nodes(way) = search {
            resident.nodes = Some(BlockNodes::over(&resident, way));
        }
        Ok(resident)
    }

    pub(super) fn bytes(&self) -> usize {
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

    /// The offset of a block. For the number of blocks, the offset at which the last block ends.
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

    /// A block's filter: the range filter, if there is one, and then the point filter.
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

    /// The first of these blocks that could hold `key` or a larger key. If none could, the index
    /// after the last block.
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

    /// As [`Resident::seek`], for a caller that reads the filter of the found block next.
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

    /// The range filter of a block, if it has one.
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
