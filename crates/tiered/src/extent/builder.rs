//! Builds extents from blocks.

use spillway_base::TableId;
use spillway_base::checksum::crc32c;
use spillway_base::codec::{put_bytes, put_varint};

use super::footer::{FOOTER_BYTES, Footer};
use crate::block::{BuiltBlock, FRAME_BYTES, FrameId, dictionary_of, put_frame, seal_frame};
use crate::coding::{Coding, DictionaryId, Names};
use crate::extent_meta::{Counts, ExtentId, ExtentMeta, SliceMeta};
use crate::filter;
use crate::space::SlotRun;

/// The most bytes that a block takes in the index, in addition to its keys.
const INDEX_ENTRY_BYTES: usize = 80;

/// An extent ready to be written. The caller allocates its slots and fills them in.
pub(crate) struct BuiltExtent {
    pub(crate) meta: ExtentMeta,
    /// Its slices. Between two of them there is data that stays elsewhere.
    pub(crate) slices: Vec<SliceMeta>,
    pub(crate) bytes: Vec<u8>,
}

/// A block that is being added to an extent.
#[derive(Clone, Copy)]
pub(crate) struct BlockParts<'a> {
    /// Its frame. The checksum will be recomputed.
    pub(crate) frame: &'a [u8],
    pub(crate) first: &'a [u8],
    pub(crate) last: &'a [u8],
    pub(crate) counts: &'a Counts,
    pub(crate) filter: &'a [u8],
}

impl<'a> From<&'a BuiltBlock> for BlockParts<'a> {
    fn from(block: &'a BuiltBlock) -> BlockParts<'a> {
        BlockParts {
            frame: &block.frame,
            first: &block.first,
            last: &block.last,
            counts: &block.counts,
            filter: &block.filter,
        }
    }
}

/// Collects blocks of one table until an extent is full. All versions of a key go into one slice of
/// one extent, so that the slices of a run never share a key.
pub(crate) struct ExtentBuilder {
    table: TableId,
    slot_bytes: usize,
    coding: Coding,
    bytes: Vec<u8>,
    /// The offset of each frame.
    frames: Vec<usize>,
    index: Vec<u8>,
    filters: Vec<u8>,
    slices: Vec<SliceMeta>,
    /// Whether the next block begins a slice.
    is_cut: bool,
    largest: Vec<u8>,
    /// The dictionaries that frames name; one that equals the one before is left out
    /// (DICTIONARY-1).
    names: Vec<DictionaryId>,
    /// Whether blocks keep their range filters.
    has_range_filters: bool,
}

impl ExtentBuilder {
    /// A builder of extents whose blocks must all have at least this coding.
    pub(crate) fn new(table: TableId, slot_bytes: usize, coding: Coding) -> ExtentBuilder {
        ExtentBuilder {
            table,
            slot_bytes,
            coding,
            bytes: Vec::with_capacity(slot_bytes),
            frames: Vec::new(),
            index: Vec::new(),
            filters: Vec::new(),
            slices: Vec::new(),
            is_cut: true,
            largest: Vec::new(),
            names: Vec::new(),
            has_range_filters: true,
        }
    }

    /// Drops the blocks' range filters, for places where range filters are worth less than their
    /// memory.
    pub(crate) fn without_range_filters(mut self) -> ExtentBuilder {
        self.has_range_filters = false;
        self
    }

    fn filter_of<'b>(&self, block: &BlockParts<'b>) -> &'b [u8] {
        if self.has_range_filters { block.filter } else { filter::split_range(block.filter).1 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Whether the extent must be finished before this block is added.
    pub(crate) fn is_full_for(&self, block: &BlockParts<'_>) -> bool {
        let index = self.index.len() + block.first.len() + block.last.len() + INDEX_ENTRY_BYTES;
        let filters = self.filters.len() + self.filter_of(block).len();
        let bytes = self.bytes.len() + block.frame.len() + index + filters;
        let goes_on = self.largest == block.first;
        !self.is_empty() && !goes_on && bytes + 2 * FRAME_BYTES + FOOTER_BYTES > self.slot_bytes
    }

    /// Adds the next block in order.
    pub(crate) fn push(&mut self, block: &BlockParts<'_>) {
        let offset = self.bytes.len() as u64;
        let number = self.frames.len() as u32;
        self.frames.push(self.bytes.len());
        self.bytes.extend_from_slice(block.frame);
        let name = dictionary_of(block.frame);
        if name != DictionaryId::NONE && self.names.last() != Some(&name) {
            self.names.push(name);
        }
        put_bytes(&mut self.index, block.first);
        put_bytes(&mut self.index, block.last);
        put_varint(&mut self.index, offset);
        put_varint(&mut self.index, block.frame.len() as u64);
        block.counts.encode(&mut self.index);
        let filter = self.filter_of(block);
        put_varint(&mut self.index, filter.len() as u64);
        self.filters.extend_from_slice(filter);
        self.largest.clear();
        self.largest.extend_from_slice(block.last);
        match self.slices.last_mut().filter(|_| !self.is_cut) {
            Some(slice) => {
                slice.blocks += 1;
                slice.bytes += block.frame.len() as u64;
                slice.largest = block.last.into();
                slice.counts.add(block.counts);
            }
            None => self.slices.push(SliceMeta {
                extent: ExtentId(0),
                first_block: number,
                blocks: 1,
                bytes: block.frame.len() as u64,
                smallest: block.first.into(),
                largest: block.last.into(),
                counts: *block.counts,
            }),
        }
        self.is_cut = false;
    }

    /// Ends the slice, because data that stays elsewhere lies between the last block and the next
    /// one.
    pub(crate) fn cut(&mut self) {
        self.is_cut = true;
    }

    /// Finishes the extent, gives it this number, and begins the next extent.
    pub(crate) fn finish(&mut self, id: ExtentId) -> BuiltExtent {
        let next = ExtentBuilder {
            has_range_filters: self.has_range_filters,
            ..ExtentBuilder::new(self.table, self.slot_bytes, self.coding)
        };
        let mut done = std::mem::replace(self, next);
        let data_bytes = done.bytes.len() as u64;
        let blocks = done.frames.len() as u32;
        let mut part = |body: &[u8]| {
            let offset = done.bytes.len();
            done.frames.push(offset);
            put_frame(&mut done.bytes, body);
            (offset as u64, (done.bytes.len() - offset) as u32)
        };
        let index = part(&done.index);
        let filter = part(&done.filters);
        // The checksums cover the extent's number, which is known only now.
        let ends = done.frames.iter().skip(1).copied().chain([done.bytes.len()]);
        for (start, end) in done.frames.iter().copied().zip(ends) {
            let frame = FrameId { table: done.table, extent: id, offset: start as u64 };
            seal_frame(&mut done.bytes[start..end], frame);
        }
        let versions = done.slices.iter().map(|slice| slice.counts.versions).sum();
        let footer = Footer { table: done.table, id, index, filter, versions };
        done.bytes.extend_from_slice(&footer.encode());
        let count = done.bytes.len().div_ceil(self.slot_bytes) as u32;
        done.slices.iter_mut().for_each(|slice| slice.extent = id);
        let meta = ExtentMeta {
            id,
            slots: SlotRun { file: 0, first: 0, count },
            len: done.bytes.len() as u64,
            blocks,
            data_bytes,
            crc: crc32c(&done.bytes),
            coding: done.coding,
            names: Names::of(done.names),
        };
        BuiltExtent { meta, slices: done.slices, bytes: done.bytes }
    }
}
