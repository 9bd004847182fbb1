//! Blocks that are read before a scan has come to them, and what many gets lack, read at once.
//!
//! A scan that has shown that it goes on, and finds its blocks in no cache, has the next ones read while it goes through those it has: by
//! a queue of the disk ([`spillway_storage::queue`]), past the page cache, consecutive blocks in one piece. What was read waits here until
//! the scan comes to it, and goes into the cache only then, as any block that a reader missed.
//!
//! # Guarantees
//! - **F1 (the same blocks).** What is taken from here is what reading the block at that moment would have given: checked as any, of an
//!   extent that is held meanwhile, and extents do not change.
//! - **F2 (no failure is lost, none is made up).** A block that could not be read ahead, or that is damaged, is not to be had here: its
//!   reader reads it itself, and is told what that meets. Nobody is told of a failure to read a block that nobody came to.
//! - **F3 (no hidden wait).** Only who may wait for a device (E9) begins reads, and waits for them. Who stops reading waits for
//!   nothing: a queue with reads in flight is laid aside, and whoever is given it next lets them end.
//! - **F4 (bounded).** A scan has at most [`WINDOW_BYTES`] under way or waiting, or a [`MEMORY_SHARE`]th of the budget where that is less,
//!   and one piece more; who reads for several gets has that part of the budget under way at the most,
//!   or one read. The memory of all of it is charged to the budget.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use spillway_base::budget::{Charge, Use};
use spillway_base::engine::Access;
use spillway_storage::{ALIGN, AlignedBuffer, Cache, Completion, Disk, IoQueue, QueueSettings};

use super::handle::{CachedBlock, CachedTable, ExtentHandle};
use crate::subtable::Missing;

/// Reads of one scan in flight.
pub(super) const DEPTH: usize = 16;
/// Reads in flight of what several gets lack.
const GETS_DEPTH: usize = 64;
/// Bytes that a reader has under way or waiting for it.
const WINDOW_BYTES: u64 = 256 << 10;
/// The part of the budget that these may be at the most.
const MEMORY_SHARE: u64 = 128;
/// Bytes of the first piece. Each later one is twice as large, up to half of what a reader may have.
const PIECE_BYTES: u64 = 32 << 10;
/// Queues that are kept for the next scans, and for the next ones who read for several gets, of whom there may be one for each client.
const IDLE_MAX: usize = 8;
const GETS_IDLE_MAX: usize = 32;
/// What a read is widened by to whole pages of a file: a buffer with room for it is not made anew.
pub(super) const WIDENED_BYTES: usize = 2 * ALIGN;

/// Queues of the disk for readers of extents.
#[derive(Default)]
pub(crate) struct Queues {
    on: AtomicBool,
    /// Blocks that readers had from here, and tables and blocks that were read for several gets at once.
    taken: AtomicU64,
    fetched: AtomicU64,
    of_scans: LaidAside,
    of_gets: LaidAside,
}

/// Queues that nobody uses now.
#[derive(Default)]
struct LaidAside(Mutex<Vec<Box<dyn IoQueue>>>);

impl LaidAside {
    /// One of them, with nothing in flight, or a new one.
    fn take(&self, open: impl FnOnce() -> Option<Box<dyn IoQueue>>) -> Option<Box<dyn IoQueue>> {
        let known = self.0.lock().pop();
        match known {
            Some(mut queue) => {
                while queue.wait().is_some() {}
                Some(queue)
            }
            None => open(),
        }
    }

    /// Keeps a queue, where there are fewer than so many, or somebody has to wait for what it has in flight.
    fn keep(&self, queue: Box<dyn IoQueue>, most: usize) {
        let mut queues = self.0.lock();
        if queues.len() < most || !queue.is_idle() {
            queues.push(queue);
        } else {
            drop(queues);
            drop(queue);
        }
    }
}

impl Queues {
    /// Readers may have queues from now on.
    pub(crate) fn allow(&self) {
        self.on.store(true, Ordering::Relaxed);
    }

    /// Blocks that scans found read ahead, and what was read for several gets at once.
    pub(crate) fn taken_and_fetched(&self) -> (u64, u64) {
        (self.taken.load(Ordering::Relaxed), self.fetched.load(Ordering::Relaxed))
    }

    /// A scan's queue with nothing in flight; none where there is to be none, or the system has no more.
    pub(super) fn take(&self, disk: &dyn Disk) -> Option<Box<dyn IoQueue>> {
        let open = || disk.queue(QueueSettings { depth: DEPTH, cache: Cache::Bypass }).ok();
        self.on.load(Ordering::Relaxed).then(|| self.of_scans.take(open))?
    }

    pub(super) fn lay_aside(&self, queue: Box<dyn IoQueue>) {
        self.of_scans.keep(queue, IDLE_MAX);
    }

    /// The same, for what several gets lack, which is handed over together. It goes past the page cache where gets do.
    fn take_for_gets(&self, disk: &dyn Disk, direct: bool) -> Option<Box<dyn IoQueue>> {
        let cache = if direct { Cache::Bypass } else { Cache::Through };
        let open = || {
            let mut queue = disk.queue(QueueSettings { depth: GETS_DEPTH, cache }).ok()?;
            queue.gather(true);
            Some(queue)
        };
        self.on.load(Ordering::Relaxed).then(|| self.of_gets.take(open))?
    }
}

/// Reads what readers lack into memory, all at once as far as a queue goes. What could not be read is not told of: a reader meets that.
/// Nothing is read where there is no queue.
pub(crate) fn fetch_all(lacking: &[(Arc<ExtentHandle>, Missing)]) {
    let Some((first, _)) = lacking.first() else { return };
    let (context, disk) = first.queues_and_disk();
    let Some(mut queue) = context.queues.take_for_gets(disk, context.direct) else { return };
    let room = context.budget.limit() / MEMORY_SHARE as usize;
    let mut charge = context.budget.charge(Use::Caches, 0);
    let mut buffers: Vec<AlignedBuffer> = Vec::new();
    let mut lengths = vec![0; lacking.len()];
    let (mut next, mut under_way) = (0, 0);
    while next < lacking.len() || !queue.is_idle() {
        while next < lacking.len() && !queue.is_full() {
            let (extent, missing) = &lacking[next];
            if let Some((file, at, len)) = extent.place_of(*missing) {
                if under_way > 0 && under_way + len > room {
                    break;
                }
                under_way += len;
                lengths[next] = len;
                let needed = len + WIDENED_BYTES;
                let spare = buffers.pop();
                let more = needed.saturating_sub(spare.as_ref().map_or(0, AlignedBuffer::capacity));
                charge.resize(charge.bytes() + more);
                let buffer = spare.unwrap_or_else(|| AlignedBuffer::with_capacity(needed));
                queue.read(next as u64, file, at, len, buffer);
            }
            next += 1;
        }
        let Some(done) = queue.wait() else { continue };
        let (extent, missing) = &lacking[done.tag as usize];
        under_way -= lengths[done.tag as usize];
        if done.outcome.is_ok() {
            // What is not as it should be, who needs it finds out.
            let _ = extent.keep_read(*missing, &done.buffer);
            context.queues.fetched.fetch_add(1, Ordering::Relaxed);
        }
        buffers.push(done.buffer);
    }
    context.queues.of_gets.keep(queue, GETS_IDLE_MAX);
}

/// Consecutive blocks of an extent that are being read, or were.
struct Piece {
    tag: u64,
    extent: Arc<ExtentHandle>,
    table: Arc<CachedTable>,
    /// Those that nobody has taken.
    blocks: Range<usize>,
    /// Where in the extent it begins.
    offset: u64,
    bytes: usize,
    frames: Option<AlignedBuffer>,
}

/// What one scan has read ahead.
pub(crate) struct ReadAhead {
    /// `None` once it is laid aside.
    queue: Option<Box<dyn IoQueue>>,
    /// In the order in which they were begun.
    pieces: VecDeque<Piece>,
    /// Of a piece that was used up, for the next.
    spare: Option<AlignedBuffer>,
    next_tag: u64,
    piece_bytes: u64,
    window_bytes: u64,
    charge: Charge,
    home: Arc<ExtentHandle>,
}

impl ReadAhead {
    /// For a reader of an extent and those that come after it; none where there is no queue.
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

    /// Whether more is to be begun.
    pub(crate) fn has_room(&self) -> bool {
        let under_way: usize = self.pieces.iter().map(|piece| piece.bytes).sum();
        let full = self.queue.as_ref().is_none_or(|queue| queue.is_full());
        !full && (under_way as u64) < self.window_bytes
    }

    /// Begins to read blocks, as many of these as one piece has: the first ones, or the last ones. Answers which, one at the least.
    pub(crate) fn begin(
        &mut self,
        extent: &Arc<ExtentHandle>,
        table: &Arc<CachedTable>,
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
        self.pieces.push_back(Piece {
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

    /// What of a queue's completions belongs to a piece.
    fn note(&mut self, done: Completion) {
        let Some(at) = self.pieces.iter().position(|piece| piece.tag == done.tag) else { return };
        match done.outcome {
            Ok(()) => self.pieces[at].frames = Some(done.buffer),
            // Who comes to it reads it, and is told (F2).
            Err(_) => drop(self.pieces.remove(at)),
        }
    }

    /// A block that was read ahead, once it is there. What was begun before it and was not taken is given up: the reader has passed it.
    pub(crate) fn take(
        &mut self,
        extent: &Arc<ExtentHandle>,
        block: usize,
        access: Access,
    ) -> Option<Arc<CachedBlock>> {
        let is_it =
            |piece: &Piece| Arc::ptr_eq(&piece.extent, extent) && piece.blocks.contains(&block);
        let tag = self.pieces.iter().find(|piece| is_it(piece))?.tag;
        loop {
            // One that failed has left.
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
        // Those on the other side of it are still to come.
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
