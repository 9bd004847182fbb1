//! Building extents of sorted versions.

use spillway_base::codec::{put_bytes, put_varint};
use spillway_base::{Csn, TableId};

use super::{FOOTER_BYTES, Footer};
use crate::block::{BLOCK_BYTES, BlockBuilder, Entry, FRAME_BYTES, FrameId, put_frame, seal_frame};
use crate::extent_meta::{ExtentId, ExtentMeta};
use crate::filter;
use crate::space::SlotRun;

/// An extent ready to be written. Its slots are filled in by whoever finds room for it.
pub(crate) struct BuiltExtent {
    pub(crate) meta: ExtentMeta,
    pub(crate) bytes: Vec<u8>,
}

/// Collects sorted versions of one table until an extent is full. All versions of a key go into one extent, so
/// that the extents of a run never share a key.
pub(crate) struct ExtentBuilder {
    table: TableId,
    slot_bytes: usize,
    bytes: Vec<u8>,
    /// Where each frame begins.
    frames: Vec<usize>,
    block: BlockBuilder,
    index: Vec<u8>,
    hashes: Vec<u64>,
    smallest: Vec<u8>,
    largest: Vec<u8>,
    csns: (Csn, Csn),
    versions: u64,
    tombstones: u64,
    payload_bytes: u64,
}

impl ExtentBuilder {
    pub(crate) fn new(table: TableId, slot_bytes: usize) -> ExtentBuilder {
        ExtentBuilder {
            table,
            slot_bytes,
            bytes: Vec::with_capacity(slot_bytes),
            frames: Vec::new(),
            block: BlockBuilder::default(),
            index: Vec::new(),
            hashes: Vec::new(),
            smallest: Vec::new(),
            largest: Vec::new(),
            csns: (Csn::MAX, Csn::ZERO),
            versions: 0,
            tombstones: 0,
            payload_bytes: 0,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.versions == 0
    }

    /// The bytes of the extent if it were finished now, and this entry added.
    fn bytes_with(&self, entry: &Entry<'_>) -> usize {
        let filter = (self.hashes.len() + 1) * 10 / 8 + 64;
        let index = self.index.len() + self.largest.len() + entry.key.len() + 32;
        let blocks = self.bytes.len() + self.block.bytes() + 2 * FRAME_BYTES;
        blocks + BlockBuilder::cost(entry) + filter + index + 2 * FRAME_BYTES + FOOTER_BYTES
    }

    /// Whether the extent must be finished before this entry.
    pub(crate) fn is_full_for(&self, entry: &Entry<'_>) -> bool {
        !self.is_empty()
            && entry.key != self.largest.as_slice()
            && self.bytes_with(entry) > self.slot_bytes
    }

    /// Adds the next entry in order.
    pub(crate) fn push(&mut self, entry: &Entry<'_>) {
        if !self.block.is_empty() && self.block.bytes() + BlockBuilder::cost(entry) > BLOCK_BYTES {
            self.finish_block();
        }
        if self.is_empty() {
            self.smallest = entry.key.to_vec();
        }
        if self.is_empty() || entry.key != self.largest.as_slice() {
            self.hashes.push(filter::hash(entry.key));
            self.largest.clear();
            self.largest.extend_from_slice(entry.key);
        }
        self.block.push(entry);
        self.csns = (self.csns.0.min(entry.csn), self.csns.1.max(entry.csn));
        self.versions += 1;
        self.tombstones += u64::from(entry.value.is_none());
        self.payload_bytes += entry.payload() as u64;
    }

    fn finish_block(&mut self) {
        let offset = self.bytes.len();
        self.frames.push(offset);
        self.block.finish(&mut self.bytes);
        put_bytes(&mut self.index, &self.largest);
        put_varint(&mut self.index, offset as u64);
        put_varint(&mut self.index, (self.bytes.len() - offset) as u64);
    }

    /// Finishes the extent under this number, and starts over.
    pub(crate) fn finish(&mut self, id: ExtentId) -> BuiltExtent {
        self.finish_block();
        let mut done = std::mem::replace(self, ExtentBuilder::new(self.table, self.slot_bytes));
        let mut part = |body: &[u8]| {
            let offset = done.bytes.len();
            done.frames.push(offset);
            put_frame(&mut done.bytes, body);
            (offset as u64, (done.bytes.len() - offset) as u32)
        };
        let index = part(&done.index);
        let filter = part(&filter::build(&done.hashes));
        // The number is known only now, and is part of what the checksums cover.
        let ends = done.frames.iter().skip(1).copied().chain([done.bytes.len()]);
        for (start, end) in done.frames.iter().copied().zip(ends) {
            let frame = FrameId { table: done.table, extent: id, offset: start as u64 };
            seal_frame(&mut done.bytes[start..end], frame);
        }
        let footer = Footer { table: done.table, id, index, filter, versions: done.versions };
        done.bytes.extend_from_slice(&footer.encode());
        let count = done.bytes.len().div_ceil(self.slot_bytes) as u32;
        let meta = ExtentMeta {
            id,
            slots: SlotRun { file: 0, first: 0, count },
            len: done.bytes.len() as u64,
            smallest: done.smallest.into(),
            largest: done.largest.into(),
            csn_min: done.csns.0,
            csn_max: done.csns.1,
            versions: done.versions,
            keys: done.hashes.len() as u64,
            tombstones: done.tombstones,
            payload_bytes: done.payload_bytes,
        };
        BuiltExtent { meta, bytes: done.bytes }
    }
}
