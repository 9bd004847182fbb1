//! When the source of a run reads ahead, and how far.
//!
//! - In backward scans, and in forward scans that bypass the system's page cache, a source reads
//!   ahead through a queue of asynchronous reads. Where the page cache is bypassed (`bench scan
//!   --cold`, 2 M rows of 516 bytes, 128 MiB), a scan with the queue is 6 to 7 times as fast as
//!   without, in either direction.
//! - In forward scans through the page cache, a source leaves readahead to the system. The system
//!   detects ascending reads of a file, and takes less processor time than the queue. Forward scans
//!   with the queue were 0.5 to 1.0 times as fast as without (1.5 M rows of 224 bytes with 48 MiB,
//!   a busy machine).
//!
//! A source begins to read ahead once three consecutive blocks of the scan were not in the block
//! cache. Most scans end earlier, and so cause no unneeded reads. A source that reads ahead always
//! has a read in flight, and each read is larger than the one before, up to a limit. The source
//! stops reading ahead when it finds several consecutive blocks in the block cache: another reader
//! may have read these blocks, and then it may have read the following ones too.

use std::ops::Range;
use std::sync::Arc;

use spillway_base::engine::Access;
use spillway_base::{Direction, Result};

use super::OwnedRange;
use crate::cache::Kept;
use crate::extent::{CachedBlock, CachedTable, ExtentHandle, ReadAhead};
use crate::level::Run;

/// The consecutive missed blocks, including the first one, after which a scan begins to read ahead.
const MISSED_TO_BEGIN: u32 = 3;
/// The consecutive blocks found in memory after which it stops.
const FOUND_TO_END: u32 = 8;

/// The state of a source's readahead.
pub(super) struct ScanReadahead {
    direction: Direction,
    /// The consecutive blocks that were not in memory.
    missed: u32,
    found: u32,
    reading: Option<Box<Reading>>,
}

/// A readahead in progress.
struct Reading {
    ahead: ReadAhead,
    /// A slice, and its blocks, in the direction, whose reads were not begun yet.
    left: Option<(usize, Range<usize>)>,
}

impl ScanReadahead {
    pub(super) fn new(direction: Direction) -> ScanReadahead {
        ScanReadahead { direction, missed: 0, found: 0, reading: None }
    }

    /// Records that a block was found in memory.
    pub(super) fn pass(&mut self) {
        self.missed = 0;
        self.found += 1;
        if self.found == FOUND_TO_END {
            self.reading = None;
        }
    }

    /// Reads a block that is not in memory.
    ///
    /// # Errors
    /// As [`ExtentHandle::fetch_block`].
    pub(super) fn fetch(
        &mut self,
        extent: &Arc<ExtentHandle>,
        table: &Kept<CachedTable>,
        block: usize,
        access: Access,
    ) -> Result<Kept<CachedBlock>> {
        let reading = self.reading.as_mut();
        let read = reading.and_then(|reading| reading.ahead.take(extent, block, access));
        let data = match read {
            Some(data) => data,
            None => extent.fetch_block(table, block, access)?,
        };
        (self.missed, self.found) = (self.missed + 1, 0);
        Ok(data)
    }

    /// Whether blocks should be read ahead. `direct` is whether the extent is read past the
    /// system's page cache.
    pub(super) fn is_worth_it(&self, direct: bool) -> bool {
        let is_ours = direct || self.direction == Direction::Backward;
        is_ours && (self.reading.is_some() || self.missed >= MISSED_TO_BEGIN)
    }

    /// Begins reads of the blocks after one that the scan has reached.
    pub(super) fn fill(
        &mut self,
        run: &Run,
        bounds: &OwnedRange,
        (slice, block): (usize, usize),
        table: &Kept<CachedTable>,
    ) {
        let extent = &run.slices().at(slice).extent;
        if self.reading.is_none() {
            let begun = ReadAhead::new(extent);
            self.reading = begun.map(|ahead| Box::new(Reading { ahead, left: None }));
        }
        let Some(Reading { ahead: reading, left }) = self.reading.as_deref_mut() else {
            // No queue is available now. Try again after as many blocks.
            self.missed = 0;
            return;
        };
        let backward = self.direction == Direction::Backward;
        let behind = |slice: usize, block: usize| {
            let blocks = run.slices().at(slice).meta.block_range();
            if backward { blocks.start..block } else { block + 1..blocks.end }
        };
        // Begin behind the scan's block if the scan has overtaken the blocks that were begun.
        let is_ahead = match &*left {
            Some((at, left)) if *at == slice => {
                if backward {
                    left.end <= block
                } else {
                    block < left.start
                }
            }
            Some((at, _)) => {
                if backward {
                    *at < slice
                } else {
                    slice < *at
                }
            }
            None => false,
        };
        if !is_ahead {
            *left = Some((slice, behind(slice, block)));
        }
        while let Some((at, blocks)) = &mut *left
            && reading.has_room()
        {
            let own = run.slices().at(*at);
            let resident =
                if *at == slice { Some(table.clone()) } else { own.extent.resident_now() };
            // The index is read when the scan comes there.
            let Some(resident) = resident else { return };
            let within = within(&resident, blocks.clone(), bounds, self.direction);
            if within.start == within.end {
                let next = if backward { at.checked_sub(1) } else { Some(*at + 1) };
                let next =
                    next.filter(|next| blocks.start == blocks.end && *next < run.slices().len());
                let Some(next) = next else { return };
                *left = Some((next, run.slices().at(next).meta.block_range()));
                continue;
            }
            let begun = reading.begin(&own.extent, &resident, within, backward);
            *blocks = if backward { blocks.start..begun.start } else { begun.end..blocks.end };
        }
    }
}

/// The blocks among these that may have rows inside of the bounds, from the end where the direction
/// begins.
fn within(
    table: &CachedTable,
    blocks: Range<usize>,
    bounds: &OwnedRange,
    direction: Direction,
) -> Range<usize> {
    let Range { start, end } = blocks;
    match (direction, bounds.end()) {
        (Direction::Forward, None) => start..end,
        (Direction::Forward, Some(past)) => {
            // The block with the end is needed, and none after it.
            let last = table.seek(start..end, past);
            let begins = last < end && table.first(last) < past;
            start..last + usize::from(begins)
        }
        (Direction::Backward, _) => table.seek(start..end, bounds.start())..end,
    }
}
