//! Builds blocks from sorted entries, with the counts and filters of each block.

use spillway_reclaim::pages::PAGE_ALIGN;

use super::body::{entry_bytes, put_entry, put_trailer, read_all};
use super::{BLOCK_BYTES, Entry, FRAME_BYTES, put_frame};
use crate::block_search;
use crate::coding::{TRAILER_BYTES, csn_bytes};
use crate::extent_meta::Counts;
use crate::filter::{self, FilterKind};

/// The bytes of a body below which a block is small. The entries of a small block are added to the
/// block before it, if there is one.
pub(crate) const SMALL_BYTES: usize = BLOCK_BYTES / 4;

/// Bytes in memory of a block with a body of this many bytes and entries, laid out as in
/// [`super::Block`].
fn memory_bytes(body_bytes: usize, entries: usize) -> usize {
    (FRAME_BYTES + body_bytes).next_multiple_of(PAGE_ALIGN) + block_search::bytes_of(entries)
}

/// A block that has no place in an extent yet. Its frame has no checksum.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BuiltBlock {
    /// The frame, without its checksum.
    pub frame: Vec<u8>,
    /// Its first key.
    pub first: Box<[u8]>,
    /// Its last key.
    pub last: Box<[u8]>,
    /// The counts of its entries.
    pub counts: Counts,
    /// The filters of its keys.
    pub filter: Vec<u8>,
}

/// Entries of a block that is being filled.
struct Open {
    body: Vec<u8>,
    entries: usize,
    csn_bytes: u8,
    hashes: Vec<u64>,
    first: Vec<u8>,
    last: Vec<u8>,
    counts: Counts,
}

impl Open {
    fn new() -> Open {
        Open {
            body: Vec::with_capacity(BLOCK_BYTES),
            entries: 0,
            csn_bytes: 0,
            hashes: Vec::new(),
            first: Vec::new(),
            last: Vec::new(),
            counts: Counts::NONE,
        }
    }

    fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Bytes the block would have in memory.
    fn bytes(&self) -> usize {
        memory_bytes(self.body.len() + TRAILER_BYTES, self.entries)
    }

    /// Bytes that the block would have with this entry added.
    fn bytes_with(&self, entry: &Entry<'_>) -> usize {
        let wider = csn_bytes(entry.csn).saturating_sub(self.csn_bytes);
        let entries = self.body.len() + usize::from(wider) * self.entries;
        let body = entries + entry_bytes(entry, self.csn_bytes + wider) + TRAILER_BYTES;
        memory_bytes(body, self.entries + 1)
    }

    /// Widens the CSNs to this many bytes.
    fn widen(&mut self, csn_bytes: u8) {
        if csn_bytes > self.csn_bytes {
            let narrow = std::mem::take(&mut self.body);
            self.body.reserve(BLOCK_BYTES);
            for entry in read_all(&narrow, self.csn_bytes) {
                put_entry(&mut self.body, &entry, csn_bytes);
            }
            self.csn_bytes = csn_bytes;
        }
    }

    /// Adds an entry. `begins` says that no earlier version of its key was added.
    fn push(&mut self, entry: &Entry<'_>, begins: bool) {
        if self.is_empty() {
            self.first.clear();
            self.first.extend_from_slice(entry.key);
        }
        if begins || self.is_empty() {
            self.hashes.push(filter::hash(entry.key));
            self.last.clear();
            self.last.extend_from_slice(entry.key);
        }
        self.widen(csn_bytes(entry.csn));
        put_entry(&mut self.body, entry, self.csn_bytes);
        self.entries += 1;
        let counts = &mut self.counts;
        counts.versions += 1;
        counts.keys += u64::from(begins);
        counts.tombstones += u64::from(entry.value.is_none());
        counts.payload_bytes += entry.payload() as u64;
        counts.csn_min = counts.csn_min.min(entry.csn);
        counts.csn_max = counts.csn_max.max(entry.csn);
    }

    /// Appends the entries of the next block.
    fn append(&mut self, next: &mut Open) {
        let csn_bytes = self.csn_bytes.max(next.csn_bytes);
        self.widen(csn_bytes);
        next.widen(csn_bytes);
        self.body.extend_from_slice(&next.body);
        self.entries += next.entries;
        // If a key continues in the next block, its hash occurs twice, which is harmless.
        self.hashes.extend_from_slice(&next.hashes);
        self.last.clone_from(&next.last);
        self.counts.add(&next.counts);
    }

    fn finish(&mut self) -> BuiltBlock {
        let keys = read_all(&self.body, self.csn_bytes).map(|entry| entry.key);
        let range = filter::build_range((&self.first, &self.last), self.hashes.len(), keys);
        put_trailer(&mut self.body, self.entries, self.csn_bytes);
        let mut frame = Vec::with_capacity(FRAME_BYTES + self.body.len());
        put_frame(&mut frame, &self.body);
        let block = BuiltBlock {
            frame,
            first: self.first.as_slice().into(),
            last: self.last.as_slice().into(),
            counts: self.counts,
            filter: filter::with_range(&range, filter::build(FilterKind::Ribbon, &self.hashes)),
        };
        self.clear();
        block
    }

    fn clear(&mut self) {
        self.body.clear();
        (self.entries, self.csn_bytes) = (0, 0);
        self.hashes.clear();
        self.counts = Counts::NONE;
    }
}

/// Builds blocks from sorted entries. Only a sole block may be small. If there are several blocks,
/// a small rest at the end goes into the block before it.
pub(crate) struct BlockWriter {
    block_bytes: usize,
    open: Open,
    /// A full block that is kept back until the next block is known not to be small.
    held: Open,
    blocks: Vec<BuiltBlock>,
}

impl Default for BlockWriter {
    fn default() -> BlockWriter {
        BlockWriter::new(BLOCK_BYTES)
    }
}

impl BlockWriter {
    /// Builds blocks that have `block_bytes` bytes in memory when they are full.
    pub(crate) fn new(block_bytes: usize) -> BlockWriter {
        BlockWriter { block_bytes, open: Open::new(), held: Open::new(), blocks: Vec::new() }
    }

    /// Adds the next entry in order.
    pub(crate) fn push(&mut self, entry: &Entry<'_>) {
        if !self.open.is_empty() && self.open.bytes_with(entry) > self.block_bytes {
            if !self.held.is_empty() {
                self.blocks.push(self.held.finish());
            }
            std::mem::swap(&mut self.open, &mut self.held);
        }
        let before = if self.open.is_empty() { &self.held } else { &self.open };
        let begins = before.is_empty() || before.last != entry.key;
        self.open.push(entry, begins);
    }

    /// The blocks that are ready.
    pub(crate) fn ready(&mut self) -> impl Iterator<Item = BuiltBlock> {
        self.blocks.drain(..)
    }

    /// Ends the last block, and returns all blocks that were not returned yet.
    pub(crate) fn finish(&mut self) -> Vec<BuiltBlock> {
        if !self.held.is_empty()
            && !self.open.is_empty()
            && self.open.bytes() < SMALL_BYTES.min(self.block_bytes / 4)
        {
            self.held.append(&mut self.open);
            self.open.clear();
        }
        for block in [&mut self.held, &mut self.open] {
            if !block.is_empty() {
                self.blocks.push(block.finish());
            }
        }
        std::mem::take(&mut self.blocks)
    }
}
