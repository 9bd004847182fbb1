//! The index lookup: from a key to the block that may hold it, and to that block's filter.
//!
//! The lookup finds the block with search nodes over the last keys of the extent's blocks
//! ([`crate::block_search`]). Then a get needs the block's filter. If the filter rules the key out,
//! the get needs nothing else of the block. The search nodes also have the offset of each block's
//! filter: it is the word beside the head of the block's last key. This word lies in the leaf in
//! which the search ends, or in the next one. So the get finds the filter without reading the list
//! of block properties.
//!
//! The lookup prefetches the filter before the leaf has arrived from memory. A search that ends in
//! a leaf finds one of eight blocks, whose filters lie one after the other. A small array has, for
//! each leaf, the offset at which these filters begin. So once the search of the root has
//! determined the leaf, the lookup prefetches all eight filters, if they take few cache lines. They
//! take few if rows are long: a block then has few keys, and its filter is small.

use std::ops::Range;

use spillway_base::prefetch::{self, LINE_BYTES};

use super::resident::Resident;
use crate::block_search::{self, Nodes, Way};

/// Nodes over the last keys of an extent's blocks.
pub(super) struct BlockNodes {
    nodes: Nodes,
    memory: Box<[u8]>,
    /// For each leaf, the offset of the filter of the block after the leaf's first. A search that
    /// ends in a leaf finds this block or one of the seven blocks after it.
    leaves: Box<[u32]>,
    /// The end of the last block's filter.
    filters_end: u32,
}

/// The most cache lines of filters that are prefetched for a leaf. The lookup needs one or two of
/// them.
const LINES_MAX: usize = 8;

impl BlockNodes {
    pub(super) fn over(resident: &Resident, way: Way) -> BlockNodes {
        let blocks = resident.blocks();
        let nodes = Nodes::new(blocks, resident.last(0), resident.last(blocks - 1), way);
        let mut memory = vec![0; block_search::bytes_of(blocks)].into_boxed_slice();
        for (block, begins) in resident.begins[..blocks].iter().enumerate() {
            nodes.set(&mut memory, block, begins.filter, block as u32);
        }
        nodes.fill(&mut memory, |_, block| nodes.head(resident.last(block as usize)));
        let leaves = resident.begins[1..].iter().step_by(block_search::LEAF_KEYS);
        let leaves = leaves.map(|begins| begins.filter).collect();
        BlockNodes { nodes, memory, leaves, filters_end: resident.begins[blocks].filter }
    }

    /// Bytes of its memory.
    pub(super) fn bytes(&self) -> usize {
        self.memory.len() + size_of_val(&*self.leaves)
    }

    /// The number of blocks that end below a key. `last` returns a block's last key.
    #[inline]
    pub(super) fn seek<'k>(&self, key: &[u8], last: impl Fn(usize) -> &'k [u8]) -> usize {
        self.nodes.seek(&self.memory, key, last)
    }

    /// As [`BlockNodes::seek`], for a caller that reads the filter of the found block next.
    #[inline]
    pub(super) fn seek_filter<'k>(
        &self,
        key: &[u8],
        filters: &[u8],
        last: impl Fn(usize) -> &'k [u8],
    ) -> usize {
        self.nodes.seek_told(&self.memory, key, last, |leaf| self.expect(leaf, filters))
    }

    /// Prefetches the filters that belong to a leaf, if they take few lines. Also prefetches the
    /// next leaf, which may have the beginning or the end of the last filter.
    #[inline(always)]
    fn expect(&self, leaf: usize, filters: &[u8]) {
        self.nodes.prefetch_leaf(&self.memory, leaf + 1);
        let Range { start, end } = self.filters_of(leaf);
        let at = filters.as_ptr().wrapping_add(start);
        let lines = (at.addr() % LINE_BYTES + end.saturating_sub(start)).div_ceil(LINE_BYTES);
        if lines <= LINES_MAX {
            prefetch::lines(at, lines);
        }
    }

    /// The range of the filters of all blocks that a search ending in this leaf may find.
    #[inline(always)]
    pub(super) fn filters_of(&self, leaf: usize) -> Range<usize> {
        let begins = |leaf: usize| self.leaves.get(leaf).copied().unwrap_or(self.filters_end);
        begins(leaf) as usize..begins(leaf + 1) as usize
    }

    /// The range of a block's filter.
    #[inline]
    pub(super) fn filter(&self, block: usize) -> Range<usize> {
        let begins = |block| self.nodes.word(&self.memory, block);
        let end = if block + 1 < self.nodes.len() { begins(block + 1) } else { self.filters_end };
        begins(block) as usize..end as usize
    }
}
