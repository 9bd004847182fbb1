//! Reads the blocks of a slice that a compaction takes apart, in stretches of consecutive blocks.
//!
//! A merge decodes some blocks of a slice and carries others. It copies a carried block only after
//! it has decoded blocks behind that block. So where decoded and carried blocks alternate, the
//! merge reads the slice at two positions. The reader keeps the last two stretches, and serves both
//! positions from them. A stretch is short at first, because often no more is needed. Stretches
//! grow while the requested blocks lie close behind the last stretch.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use spillway_base::Result;
use spillway_base::engine::Access;
use spillway_storage::AlignedBuffer;

use crate::bulk_io::{Bulk, ReadTicket};
use crate::cache::Kept;
use crate::extent::CachedTable;
use crate::level::Slice;

/// Bytes of the first stretch.
const READ_BYTES: usize = 32 << 10;

/// An opened slice of an input.
#[derive(Clone)]
pub(crate) struct OpenSlice {
    pub(crate) slice: Arc<Slice>,
    pub(crate) resident: Kept<CachedTable>,
    reader: Rc<RefCell<SliceReader>>,
}

/// Frames of consecutive blocks.
struct ReadStretch {
    blocks: Range<usize>,
    frames: AlignedBuffer,
}

struct SliceReader {
    bulk: Bulk,
    /// The last stretch, and the one before.
    held: [Option<ReadStretch>; 2],
    /// The next stretch, which is being read.
    ahead: Option<(Range<usize>, ReadTicket)>,
    /// The bytes of the next stretch.
    window: usize,
}

impl OpenSlice {
    /// Opens a slice.
    ///
    /// # Errors
    /// As [`crate::extent::ExtentHandle::resident`].
    pub(crate) fn new(slice: Arc<Slice>, bulk: &Bulk) -> Result<OpenSlice> {
        let resident = slice.extent.resident(Access::Blocking)?;
        let held = [None, None];
        let reader = SliceReader { bulk: bulk.clone(), held, ahead: None, window: READ_BYTES };
        Ok(OpenSlice { slice, resident, reader: Rc::new(RefCell::new(reader)) })
    }

    /// Passes the unchecked frame of a block to `give`.
    ///
    /// # Errors
    /// The error of reading, and any error of `give`.
    pub(crate) fn frame<T>(
        &self,
        block: usize,
        give: impl FnOnce(&[u8]) -> Result<T>,
    ) -> Result<T> {
        let mut reader = self.reader.borrow_mut();
        let has =
            |held: &Option<ReadStretch>| held.as_ref().is_some_and(|h| h.blocks.contains(&block));
        if !reader.held.iter().any(has) {
            self.fetch(&mut reader, block)?;
        }
        let stretch = reader.held.iter().flatten().find(|held| held.blocks.contains(&block));
        let stretch = stretch.expect("it was just read");
        let place = self.resident.place(block);
        let from = (place.offset - self.resident.offset(stretch.blocks.start)) as usize;
        give(&stretch.frames[from..from + place.len as usize])
    }

    fn fetch(&self, reader: &mut SliceReader, block: usize) -> Result<()> {
        let end = reader.held[0].as_ref().map(|held| held.blocks.end);
        let gap = |end: usize| self.resident.offset(block) - self.resident.offset(end);
        let is_near = end.is_some_and(|end| end <= block && gap(end) <= reader.window as u64);
        let most = reader.bulk.read_bytes_most().max(READ_BYTES);
        reader.window = if is_near { (2 * reader.window).min(most) } else { READ_BYTES };
        let (blocks, ticket) = match reader.ahead.take() {
            Some((blocks, ticket)) if blocks.contains(&block) => (blocks, ticket),
            other => {
                if let Some((_, ticket)) = other {
                    reader.bulk.give_up(ticket);
                }
                self.begin(reader, block)?
            }
        };
        let goes_on = is_near && blocks.end < self.slice.meta.block_range().end;
        if goes_on && reader.bulk.overlaps() {
            reader.ahead = Some(self.begin(reader, blocks.end)?);
        }
        let frames = reader.bulk.take(ticket)?;
        if let Some(gone) = reader.held[1].take() {
            reader.bulk.give_back(gone.frames);
        }
        reader.held[1] = reader.held[0].replace(ReadStretch { blocks, frames });
        Ok(())
    }

    /// Begins to read a stretch that starts with a block.
    fn begin(&self, reader: &SliceReader, from: usize) -> Result<(Range<usize>, ReadTicket)> {
        let start = self.resident.offset(from);
        let rest = from + 1..self.slice.meta.block_range().end;
        let inside =
            |block: &usize| self.resident.offset(*block + 1) - start <= reader.window as u64;
        let blocks = from..from + 1 + rest.take_while(inside).count();
        let extent = &self.slice.extent;
        let ticket = extent.begin_read(&self.resident, blocks.clone(), &reader.bulk)?;
        Ok((blocks, ticket))
    }
}

impl Drop for SliceReader {
    fn drop(&mut self) {
        for held in self.held.iter_mut().filter_map(Option::take) {
            self.bulk.give_back(held.frames);
        }
        if let Some((_, ticket)) = self.ahead.take() {
            self.bulk.give_up(ticket);
        }
    }
}
