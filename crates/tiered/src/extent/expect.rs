//! Prefetches the cache lines of an extent's blocks that a read needs next.

use spillway_base::prefetch::{self, LINE_BYTES};

use super::handle::{CachedBlock, CachedTable, ExtentHandle};
use crate::cache::Pin;

/// Bytes before what a reference leads to, in which references are counted.
const COUNTS_BYTES: usize = 2 * size_of::<usize>();

impl ExtentHandle {
    /// Asks the processor for what is looked at first of a data block, if that is in memory, or of
    /// its parts.
    #[inline]
    pub(crate) fn prefetch_block(&self, table: &CachedTable, index: usize, pin: &Pin<'_>) {
        match table.peek(index, pin) {
            Some(block) => block.prefetch(),
            None => table.parts.prefetch(index),
        }
    }

    /// Asks the processor for what leads to all of a data block, if that is in memory.
    #[inline]
    pub(crate) fn expect_block(&self, table: &CachedTable, index: usize, pin: &Pin<'_>) {
        if let Some(block) = table.peek(index, pin) {
            const BYTES: usize = COUNTS_BYTES + size_of::<CachedBlock>();
            let from = (&raw const *block).wrapping_byte_sub(COUNTS_BYTES);
            prefetch::lines(from, BYTES.div_ceil(LINE_BYTES));
        }
    }
}
