//! The way from a key to the block that may have it, and to that block's filter.
//!
//! A get of a key that is not there waits for memory, one look after the other: nodes over the last keys of the extent's blocks tell the block, and
//! where its filter is must be known before that is asked. So the word that stands beside a key's head, in the line that the search ends in, is
//! where the filter begins, and the list of what else is known of blocks is not looked at.

use std::ops::Range;

use super::Resident;
use crate::nodes::{self, Nodes, Way};

/// Nodes over the last keys of an extent's blocks.
pub(super) struct BlockNodes {
    nodes: Nodes,
    memory: Box<[u8]>,
    /// Where the last block's filter ends.
    filters_end: u32,
}

impl BlockNodes {
    pub(super) fn over(resident: &Resident, way: Way) -> BlockNodes {
        let blocks = resident.blocks();
        let nodes = Nodes::new(blocks, resident.last(0), resident.last(blocks - 1), way);
        let mut memory = vec![0; nodes::bytes_of(blocks)].into_boxed_slice();
        for (block, begins) in resident.begins[..blocks].iter().enumerate() {
            nodes.set(&mut memory, block, begins.filter, block as u32);
        }
        nodes.fill(&mut memory, |_, block| nodes.head(resident.last(block as usize)));
        BlockNodes { nodes, memory, filters_end: resident.begins[blocks].filter }
    }

    /// Bytes of its memory.
    pub(super) fn bytes(&self) -> usize {
        self.memory.len()
    }

    /// How many blocks end below a key; `last` gives a block's last key.
    #[inline]
    pub(super) fn seek<'k>(&self, key: &[u8], last: impl Fn(usize) -> &'k [u8]) -> usize {
        self.nodes.seek(&self.memory, key, last)
    }

    /// Where the filter of a block is.
    #[inline]
    pub(super) fn filter(&self, block: usize) -> Range<usize> {
        let begins = |block| self.nodes.word(&self.memory, block);
        let end = if block + 1 < self.nodes.len() { begins(block + 1) } else { self.filters_end };
        begins(block) as usize..end as usize
    }
}
