//! Prefetches the cache lines that a read of an extent's block needs next.

use spillway_base::prefetch::{self, LINE_BYTES};

use super::handle::{CachedBlock, CachedTable, ExtentHandle};
use crate::cache::Pin;

/// The bytes of the reference counts before the target of a reference.
const COUNTS_BYTES: usize = 2 * size_of::<usize>();

impl ExtentHandle {
    /// Prefetches what a lookup reads first: of the data block if it is in memory, and otherwise of
    /// the block's part index.
    #[inline]
    pub(crate) fn prefetch_block(&self, table: &CachedTable, index: usize, pin: &Pin<'_>) {
        match table.peek(index, pin) {
            Some(block) => block.prefetch(),
            None => table.parts.prefetch(index),
        }
    }

    /// Prefetches the pointers to a data block, if it is in memory.
    #[inline]
    pub(crate) fn expect_block(&self, table: &CachedTable, index: usize, pin: &Pin<'_>) {
        if let Some(block) = table.peek(index, pin) {
            const BYTES: usize = COUNTS_BYTES + size_of::<CachedBlock>();
            let from = (&raw const *block).wrapping_byte_sub(COUNTS_BYTES);
            prefetch::lines(from, BYTES.div_ceil(LINE_BYTES));
        }
    }
}
