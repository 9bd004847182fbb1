//! Building blocks of sorted entries, and what is told of each.

use spillway_base::codec::put_varint;

use super::{BLOCK_BYTES, Entry, put_frame};
use crate::extent_meta::Counts;
use crate::filter;

/// Bytes of body below which a block is small: one that is not worth a place of its own where entries come before or after
/// it.
pub(crate) const SMALL_BYTES: usize = BLOCK_BYTES / 4;

/// A block that has no place yet: its frame has no checksum.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BuiltBlock {
    /// A frame without its checksum.
    pub frame: Vec<u8>,
    /// Its first key.
    pub first: Box<[u8]>,
    /// Its last key.
    pub last: Box<[u8]>,
    /// What is in it.
    pub counts: Counts,
    /// The filter of its keys.
    pub filter: Vec<u8>,
}

/// Entries of a block that is being filled.
struct Open {
    body: Vec<u8>,
    offsets: Vec<u32>,
    hashes: Vec<u64>,
    first: Vec<u8>,
    last: Vec<u8>,
    counts: Counts,
}

impl Open {
    fn new() -> Open {
        Open {
            body: Vec::with_capacity(BLOCK_BYTES),
            offsets: Vec::new(),
            hashes: Vec::new(),
            first: Vec::new(),
            last: Vec::new(),
            counts: Counts::NONE,
        }
    }

    fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// Bytes the body would have now.
    fn bytes(&self) -> usize {
        self.body.len() + 4 * self.offsets.len() + 4
    }

    /// Adds an entry. `begins` is whether no version of its key came before.
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
        self.offsets.push(self.body.len() as u32);
        put_varint(&mut self.body, entry.key.len() as u64);
        put_varint(&mut self.body, entry.value.map_or(0, |value| value.len() as u64 + 1));
        self.body.extend_from_slice(&entry.csn.0.to_le_bytes());
        self.body.extend_from_slice(entry.key);
        self.body.extend_from_slice(entry.value.unwrap_or_default());
        let counts = &mut self.counts;
        counts.versions += 1;
        counts.keys += u64::from(begins);
        counts.tombstones += u64::from(entry.value.is_none());
        counts.payload_bytes += entry.payload() as u64;
        counts.csn_min = counts.csn_min.min(entry.csn);
        counts.csn_max = counts.csn_max.max(entry.csn);
    }

    /// Takes in the entries of a block that follows.
    fn append(&mut self, next: &Open) {
        let shift = self.body.len() as u32;
        self.body.extend_from_slice(&next.body);
        self.offsets.extend(next.offsets.iter().map(|offset| offset + shift));
        // A key that goes on in it has its hash twice, which does no harm.
        self.hashes.extend_from_slice(&next.hashes);
        self.last.clone_from(&next.last);
        self.counts.add(&next.counts);
    }

    fn finish(&mut self) -> BuiltBlock {
        for offset in &self.offsets {
            self.body.extend_from_slice(&offset.to_le_bytes());
        }
        self.body.extend_from_slice(&(self.offsets.len() as u32).to_le_bytes());
        let mut frame = Vec::with_capacity(super::FRAME_BYTES + self.body.len());
        put_frame(&mut frame, &self.body);
        let block = BuiltBlock {
            frame,
            first: self.first.as_slice().into(),
            last: self.last.as_slice().into(),
            counts: self.counts,
            filter: filter::build(&self.hashes),
        };
        self.clear();
        block
    }

    fn clear(&mut self) {
        self.body.clear();
        self.offsets.clear();
        self.hashes.clear();
        self.counts = Counts::NONE;
    }
}

/// Makes blocks of sorted entries. No block but the only one is small: what is left at the end goes into the one before.
pub(crate) struct BlockWriter {
    open: Open,
    /// Full, and kept back until it is known what follows.
    held: Open,
    blocks: Vec<BuiltBlock>,
}

impl Default for BlockWriter {
    fn default() -> BlockWriter {
        BlockWriter { open: Open::new(), held: Open::new(), blocks: Vec::new() }
    }
}

impl BlockWriter {
    /// Adds the next entry in order.
    pub(crate) fn push(&mut self, entry: &Entry<'_>) {
        if !self.open.is_empty() && self.open.bytes() + entry.encoded() + 4 > BLOCK_BYTES {
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

    /// Ends the last block, and gives all that were not given.
    pub(crate) fn finish(&mut self) -> Vec<BuiltBlock> {
        if !self.held.is_empty() && !self.open.is_empty() && self.open.bytes() < SMALL_BYTES {
            self.held.append(&self.open);
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
