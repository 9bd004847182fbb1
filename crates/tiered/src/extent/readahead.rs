//! Readahead: reads blocks before a scan needs them. Also reads the blocks that several gets miss,
//! in parallel.
//!
//! When a scan has missed a few consecutive blocks in the block cache, readahead reads the next
//! blocks while the scan processes the current ones. It uses an I/O queue of the disk
//! ([`spillway_storage::queue`]), bypasses the page cache, and reads consecutive blocks in one
//! piece. A block that was read ahead stays in the buffer of its piece until the scan needs it.
//! Only then does the block enter the cache, like any block that a reader missed.
//!
//! # Guarantees
//! - **READAHEAD-1 (the same blocks).** A block that was read ahead equals what a read at the
//!   moment of its use would return. It is checked like any block. Readahead keeps its extent in
//!   use, and an extent never changes.
//! - **READAHEAD-2 (no failure is lost, none is made up).** Readahead does not report failures. If
//!   a block could not be read ahead, or is damaged, the reader that needs the block reads it
//!   itself and gets the failure. No reader gets a failure of a block that it did not need.
//! - **READAHEAD-3 (no hidden wait).** Only a reader that may wait for a device (E9) starts reads
//!   and waits for them. A scan that ends early does not wait: its queue goes back to a pool with
//!   its reads in flight, and the next user of the queue waits until they end. A group of gets that
//!   stops because of a failure waits for its reads.
//! - **READAHEAD-4 (bounded).** The bytes that a scan has in flight, or has read and not used yet,
//!   are at most a limit, plus one piece. The limit is [`WINDOW_BYTES`], or a [`MEMORY_SHARE`]th of
//!   the budget if that is less. A group of gets has at most a [`MEMORY_SHARE`]th of the budget in
//!   flight. A single larger read is allowed, too. All of this memory is charged to the budget.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use spillway_base::budget::{Charge, Use};
use spillway_base::engine::Access;
use spillway_storage::{AlignedBuffer, Completion, Disk, IoQueue};

use super::direct_io::WIDENED_BYTES;
use super::handle::{CachedBlock, CachedTable, ExtentHandle, ReadContext};
use super::read_queues::{GETS_DEPTH, GETS_IDLE_MAX, SpareBuffers};
use super::resident::Missing;
use crate::cache::Kept;

/// The most bytes of a scan in flight, and of blocks that it has not taken yet.
const WINDOW_BYTES: u64 = 256 << 10;
/// The largest share of the budget for these bytes.
const MEMORY_SHARE: u64 = 128;
/// The bytes of the first piece. Each later piece is twice as large, up to half of the window.
const PIECE_BYTES: u64 = 32 << 10;

/// Reads for a group of gets, in parallel: as many as a queue takes and memory allows
/// (READAHEAD-4). Reads that were begun are collected until [`Fetcher::submit`] or
/// [`Fetcher::wait`] submits them together. Dropping the fetcher waits for the reads in flight.
pub(crate) struct Fetcher<'c> {
    context: &'c ReadContext,
    disk: &'c dyn Disk,
    /// The queue and buffers, from the first read on.
    means: Option<Means>,
    /// The reads in flight, by their tags.
    reads: Vec<Option<Read>>,
    bytes: usize,
    room: usize,
}

/// The queue and buffers of reads.
struct Means {
    queue: Box<dyn IoQueue>,
    spare: SpareBuffers,
}

struct Read {
    extent: Arc<ExtentHandle>,
    missing: Missing,
    bytes: usize,
}

/// The result of [`Fetcher::begin`].
pub(crate) enum Begun {
    /// A read is in flight with this tag. An earlier call may have begun it.
    Read(usize),
    /// There is no room until other reads complete.
    Full,
    /// The part cannot be read here any more. The caller must look it up again.
    Gone,
}

impl<'c> Fetcher<'c> {
    /// A fetcher without reads in flight.
    pub(crate) fn new(context: &'c ReadContext, disk: &'c dyn Disk) -> Fetcher<'c> {
        let room = context.budget.limit() / MEMORY_SHARE as usize;
        Fetcher { context, disk, means: None, reads: Vec::new(), bytes: 0, room }
    }

    /// Its queue and buffers; `None` if there is no queue.
    fn means(&mut self) -> Option<&mut Means> {
        if self.means.is_none() {
            let queue = self.context.queues.take_for_gets(self.disk, self.context.direct)?;
            let spare = self.context.queues.spare.lock().take().unwrap_or_else(|| SpareBuffers {
                buffers: Vec::new(),
                charge: self.context.budget.charge(Use::Caches, 0),
            });
            self.means = Some(Means { queue, spare });
        }
        self.means.as_mut()
    }

    /// Begins a read, unless the same read is in flight.
    pub(crate) fn begin(&mut self, extent: &Arc<ExtentHandle>, missing: Missing) -> Begun {
        let is_it = |read: &Read| read.missing == missing && Arc::ptr_eq(&read.extent, extent);
        if let Some(tag) = self.reads.iter().position(|read| read.as_ref().is_some_and(is_it)) {
            return Begun::Read(tag);
        }
        let Some((file, at, bytes)) = extent.place_of(missing) else { return Begun::Gone };
        let fits = self.bytes == 0 || self.bytes + bytes <= self.room;
        let Some(means) = self.means() else { return Begun::Gone };
        if means.queue.is_full() || !fits {
            return Begun::Full;
        }
        let buffer = means.spare.take(bytes + WIDENED_BYTES);
        let free = self.reads.iter().position(Option::is_none);
        let tag = free.unwrap_or(self.reads.len());
        if let Some(means) = &mut self.means {
            means.queue.read(tag as u64, file, at, bytes, buffer);
        }
        self.bytes += bytes;
        let read = Some(Read { extent: extent.clone(), missing, bytes });
        match self.reads.get_mut(tag) {
            Some(place) => *place = read,
            None => self.reads.push(read),
        }
        Begun::Read(tag)
    }

    /// Submits the collected reads to the device.
    pub(crate) fn submit(&mut self) {
        if let Some(means) = &mut self.means {
            means.queue.submit();
        }
    }

    /// Waits for the read that completes first, and puts its data into the cache. Returns its tag,
    /// and whether it succeeded. If it failed, the reader that needs the data gets the failure
    /// itself. Returns `None` if no read is in flight.
    pub(crate) fn wait(&mut self) -> Option<(usize, bool)> {
        let means = self.means.as_mut()?;
        let done = means.queue.wait()?;
        let tag = done.tag as usize;
        let read = self.reads.get_mut(tag)?.take()?;
        self.bytes -= read.bytes;
        let is_read = done.outcome.is_ok();
        // If the block is damaged, the reader that needs it finds the damage.
        let is_kept = is_read && read.extent.keep_read(read.missing, &done.buffer).is_ok();
        self.context.queues.fetched.fetch_add(u64::from(is_read), Ordering::Relaxed);
        means.spare.buffers.push(done.buffer);
        Some((tag, is_kept))
    }

    /// The number of reads in flight.
    pub(crate) fn in_flight(&self) -> usize {
        self.means.as_ref().map_or(0, |means| means.queue.in_flight())
    }

    /// Whether there is room for a quarter of the reads and bytes that may be in flight.
    pub(crate) fn has_much_room(&self) -> bool {
        self.in_flight() <= GETS_DEPTH * 3 / 4 && self.bytes <= self.room * 3 / 4
    }
}

impl Drop for Fetcher<'_> {
    fn drop(&mut self) {
        while self.wait().is_some() {}
        if let Some(Means { queue, mut spare }) = self.means.take() {
            self.context.queues.of_gets.keep(queue, GETS_IDLE_MAX);
            spare.shrink(self.room);
            let other = self.context.queues.spare.lock().replace(spare);
            drop(other);
        }
    }
}

/// Consecutive blocks of an extent that are being read, or have been read.
struct ReadaheadPiece {
    tag: u64,
    extent: Arc<ExtentHandle>,
    table: Kept<CachedTable>,
    /// The blocks that were not taken yet.
    blocks: Range<usize>,
    /// Its offset in the extent.
    offset: u64,
    bytes: usize,
    frames: Option<AlignedBuffer>,
}

/// The readahead of one scan.
pub(crate) struct ReadAhead {
    /// `None` after it went back to the pool.
    queue: Option<Box<dyn IoQueue>>,
    /// The pieces, in the order in which they were begun.
    pieces: VecDeque<ReadaheadPiece>,
    /// The buffer of a finished piece, for the next piece.
    spare: Option<AlignedBuffer>,
    next_tag: u64,
    piece_bytes: u64,
    window_bytes: u64,
    charge: Charge,
    home: Arc<ExtentHandle>,
}

impl ReadAhead {
    /// A readahead for a scan of an extent and the following extents; `None` if there is no queue.
    pub(crate) fn new(extent: &Arc<ExtentHandle>) -> Option<ReadAhead> {
        let (context, disk) = extent.queues_and_disk();
        let queue = context.queues.take(disk)?;
        let limit = context.budget.limit() as u64 / MEMORY_SHARE;
        Some(ReadAhead {
            queue: Some(queue),
            pieces: VecDeque::new(),
            spare: None,
            next_tag: 0,
            piece_bytes: PIECE_BYTES.min(limit),
            window_bytes: WINDOW_BYTES.min(limit),
            charge: context.budget.charge(Use::Caches, 0),
            home: extent.clone(),
        })
    }

    /// Whether another piece may be begun.
    pub(crate) fn has_room(&self) -> bool {
        let under_way: usize = self.pieces.iter().map(|piece| piece.bytes).sum();
        let full = self.queue.as_ref().is_none_or(|queue| queue.is_full());
        !full && (under_way as u64) < self.window_bytes
    }

    /// Begins to read a piece of these blocks: the first ones, or in a `backward` scan the last
    /// ones. Returns which blocks the piece has, at least one.
    pub(crate) fn begin(
        &mut self,
        extent: &Arc<ExtentHandle>,
        table: &Kept<CachedTable>,
        blocks: Range<usize>,
        backward: bool,
    ) -> Range<usize> {
        let len = |blocks: &Range<usize>| {
            let (first, last) = (table.place(blocks.start), table.place(blocks.end - 1));
            last.offset - first.offset + u64::from(last.len)
        };
        let mut chosen = match backward {
            false => blocks.start..blocks.start + 1,
            true => blocks.end - 1..blocks.end,
        };
        loop {
            let more = match backward {
                false => chosen.start..chosen.end + 1,
                true => chosen.start.saturating_sub(1)..chosen.end,
            };
            let inside = blocks.start <= more.start && more.end <= blocks.end && more != chosen;
            if !inside || len(&more) > self.piece_bytes {
                break;
            }
            chosen = more;
        }
        self.piece_bytes = (2 * self.piece_bytes).min((self.window_bytes / 2).max(1));
        let (offset, bytes) = (table.place(chosen.start).offset, len(&chosen) as usize);
        self.next_tag += 1;
        let Some(queue) = &mut self.queue else { return chosen };
        let (file, at) = extent.file_and_offset(offset);
        let spare = self.spare.take();
        let buffer = spare.unwrap_or_else(|| AlignedBuffer::with_capacity(bytes + WIDENED_BYTES));
        queue.read(self.next_tag, file, at, bytes, buffer);
        self.pieces.push_back(ReadaheadPiece {
            tag: self.next_tag,
            extent: extent.clone(),
            table: table.clone(),
            blocks: chosen.clone(),
            offset,
            bytes,
            frames: None,
        });
        self.account();
        chosen
    }

    fn account(&mut self) {
        self.charge.resize(self.pieces.iter().map(|piece| piece.bytes).sum());
    }

    /// Records a completion of the queue for its piece.
    fn note(&mut self, done: Completion) {
        let Some(at) = self.pieces.iter().position(|piece| piece.tag == done.tag) else { return };
        match done.outcome {
            Ok(()) => self.pieces[at].frames = Some(done.buffer),
            // The scan that reaches the block reads it, and gets the failure (READAHEAD-2).
            Err(_) => drop(self.pieces.remove(at)),
        }
    }

    /// A block that was read ahead, once it has arrived. Drops earlier pieces, because the scan has
    /// passed them.
    pub(crate) fn take(
        &mut self,
        extent: &Arc<ExtentHandle>,
        block: usize,
        access: Access,
    ) -> Option<Kept<CachedBlock>> {
        let is_it = |piece: &ReadaheadPiece| {
            Arc::ptr_eq(&piece.extent, extent) && piece.blocks.contains(&block)
        };
        let tag = self.pieces.iter().find(|piece| is_it(piece))?.tag;
        loop {
            // A piece is removed if its read fails.
            let piece = self.pieces.iter().find(|piece| piece.tag == tag)?;
            if piece.frames.is_some() {
                break;
            }
            if access != Access::Blocking {
                return None;
            }
            let done = self.queue.as_mut()?.wait()?;
            self.note(done);
        }
        while self.pieces.front().is_some_and(|piece| piece.tag != tag) {
            self.pieces.pop_front();
        }
        let piece = self.pieces.front_mut()?;
        let place = piece.table.place(block);
        let from = (place.offset - piece.offset) as usize;
        let frame = &piece.frames.as_ref()?[from..from + place.len as usize];
        let found = extent.keep_frame(&piece.table, block, frame).ok();
        // The scan has passed the blocks on the shorter side, and those on the other side are still
        // to come.
        let before = block - piece.blocks.start;
        let after = piece.blocks.end - 1 - block;
        piece.blocks =
            if before < after { block + 1..piece.blocks.end } else { piece.blocks.start..block };
        if piece.blocks.is_empty() {
            self.spare = self.pieces.pop_front().and_then(|piece| piece.frames);
        }
        self.account();
        if found.is_some() {
            let (context, _) = self.home.queues_and_disk();
            context.queues.taken.fetch_add(1, Ordering::Relaxed);
        }
        found
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            let (context, _) = self.home.queues_and_disk();
            context.queues.lay_aside(queue);
        }
    }
}
