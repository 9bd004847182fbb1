//! Reads and writes that overlap with the merge of a flush or compaction (X-Engine, section 3.3.2,
//! "Asynchronous I/O").
//!
//! The reads and writes bypass the page cache and use buffers of the flush or compaction. A
//! compaction reads everything once, and would only evict other pages from the page cache.
//!
//! Without overlap (`TieredSettings::overlapped_compactions`), a flush or compaction makes the same
//! reads and writes when it needs them, and waits for each, so that a benchmark can compare the two
//! modes.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use spillway_base::Result;
use spillway_base::budget::{Budget, Charge, Use};
use spillway_storage::{ALIGN, AlignedBuffer, Cache, Disk, File, IoQueue, QueueSettings};

/// Operations in flight: more were no quicker (`spillway-bench extents`).
const DEPTH: usize = 4;
/// The share of the memory that buffers may have, as far as the work can do with less: those of one
/// work, and those of all.
const MEMORY_SHARE: usize = 32;
const MEMORY_SHARE_OF_ALL: usize = 8;
/// Writes are not cut into less.
const PIECE_BYTES: usize = 128 << 10;
/// Bytes of the largest read ahead.
const READ_BYTES: usize = 512 << 10;
/// Reads that a source has the memory of at once: the last two, and the next.
const READS_EACH: usize = 3;
/// The share of a work's memory that reads may have: writes have the rest.
const READS_SHARE: usize = 2;
/// Buffers that are kept for the next operation.
const SPARE: usize = DEPTH;

/// A read that was begun. Its owner takes it or cancels it; otherwise its buffer is held until the
/// work ends.
#[derive(Debug)]
#[must_use]
pub(crate) struct ReadTicket(u64);

/// What a flush or compaction has under way. Clones share it; all stay on one thread.
#[derive(Clone)]
pub(crate) struct Bulk(Rc<RefCell<BulkState>>);

struct BulkState {
    queue: Box<dyn IoQueue>,
    next: u64,
    /// Writes that are under way, by their tags, and those that failed.
    writing: FxHashSet<u64>,
    failed: Result<()>,
    read: FxHashMap<u64, Result<AlignedBuffer>>,
    /// Reads under way that nobody wants any more.
    given_up: FxHashSet<u64>,
    spare: Vec<AlignedBuffer>,
    /// Of all buffers that are in flight, at somebody's, or spare.
    charge: Charge,
    /// Bytes of those past which nothing is begun beside something else that can wait.
    most: usize,
    /// Bytes that are written at once, at most.
    piece: usize,
    /// Sources that read by it.
    sources: usize,
    /// Whether anything goes on beside the caller.
    overlaps: bool,
    budget: Budget,
}

impl Bulk {
    /// A queue of its own, whose buffers are charged to the budget. Unless it `overlaps`, nothing
    /// is under way between two calls.
    ///
    /// # Errors
    /// As [`Disk::queue`].
    pub(crate) fn new(disk: &dyn Disk, budget: &Budget, overlaps: bool) -> Result<Bulk> {
        let depth = if overlaps { DEPTH } else { 1 };
        let queue = disk.queue(QueueSettings { depth, cache: Cache::Bypass })?;
        Ok(Bulk(Rc::new(RefCell::new(BulkState {
            queue,
            next: 0,
            writing: FxHashSet::default(),
            failed: Ok(()),
            read: FxHashMap::default(),
            given_up: FxHashSet::default(),
            spare: Vec::new(),
            charge: budget.charge(Use::Compactions, 0),
            most: budget.limit() / MEMORY_SHARE,
            piece: (budget.limit() / MEMORY_SHARE / DEPTH / ALIGN * ALIGN).max(PIECE_BYTES),
            sources: 0,
            overlaps,
            budget: budget.clone(),
        }))))
    }

    /// One source more reads by it.
    pub(crate) fn add_source(&self) {
        self.0.borrow_mut().sources += 1;
    }

    /// Bytes that are worth reading ahead at once, at most: the more sources there are, the less
    /// each.
    pub(crate) fn read_bytes_most(&self) -> usize {
        let state = self.0.borrow();
        READ_BYTES.min(state.most / READS_SHARE / (READS_EACH * state.sources.max(1)))
    }

    /// Whether it is of use to begin a read before it is needed.
    pub(crate) fn overlaps(&self) -> bool {
        self.0.borrow().overlaps
    }

    /// Begins to read so many bytes of a file, one or more.
    pub(crate) fn begin_read(&self, file: &Arc<dyn File>, offset: u64, len: usize) -> ReadTicket {
        let state = &mut *self.0.borrow_mut();
        let tag = state.begin();
        let buffer = state.buffer(len);
        state.queue.read(tag, file, offset, len, buffer);
        state.settle();
        ReadTicket(tag)
    }

    /// Waits for a read. Its buffer is to be given back.
    ///
    /// # Errors
    /// That of the read.
    pub(crate) fn take(&self, ticket: ReadTicket) -> Result<AlignedBuffer> {
        let state = &mut *self.0.borrow_mut();
        loop {
            if let Some(outcome) = state.read.remove(&ticket.0) {
                return outcome;
            }
            state.step();
        }
    }

    /// Cancels a read. Its result is ignored.
    pub(crate) fn give_up(&self, ticket: ReadTicket) {
        let state = &mut *self.0.borrow_mut();
        match state.read.remove(&ticket.0) {
            Some(Ok(buffer)) => state.keep(buffer),
            Some(Err(_)) => {}
            None => _ = state.given_up.insert(ticket.0),
        }
    }

    /// Takes a buffer back.
    pub(crate) fn give_back(&self, buffer: AlignedBuffer) {
        self.0.borrow_mut().keep(buffer);
    }

    /// Begins to write bytes at an offset that is a multiple of a page; up to the next such
    /// multiple, zeros follow.
    ///
    /// # Errors
    /// That of an earlier write, or of this one where it was waited for.
    pub(crate) fn write(&self, file: &Arc<dyn File>, offset: u64, bytes: &[u8]) -> Result<()> {
        let state = &mut *self.0.borrow_mut();
        state.failed.clone()?;
        let pieces = bytes.chunks(state.piece);
        for (piece, offset) in pieces.zip((offset..).step_by(state.piece)) {
            while state.lacks(piece.len()) && !state.writing.is_empty() {
                state.step();
            }
            let tag = state.begin();
            let mut buffer = state.buffer(piece.len());
            buffer.clear();
            buffer.extend_from_slice(piece);
            buffer.pad();
            state.writing.insert(tag);
            state.queue.write(tag, file, offset, buffer);
            state.settle();
        }
        if state.overlaps { Ok(()) } else { state.failed.clone() }
    }

    /// Waits until no write is under way.
    ///
    /// # Errors
    /// That of one of them.
    pub(crate) fn finish_writes(&self) -> Result<()> {
        let state = &mut *self.0.borrow_mut();
        while !state.writing.is_empty() {
            state.step();
        }
        state.failed.clone()
    }
}

impl BulkState {
    /// A tag for an operation, for which there is room.
    fn begin(&mut self) -> u64 {
        while self.queue.is_full() {
            self.step();
        }
        self.next += 1;
        self.next
    }

    /// Waits for all that was begun, where nothing goes on beside the caller.
    fn settle(&mut self) {
        while !self.overlaps && !self.queue.is_idle() {
            self.step();
        }
    }

    /// Waits for one operation.
    fn step(&mut self) {
        let Some(done) = self.queue.wait() else { return };
        if self.writing.remove(&done.tag) {
            if self.failed.is_ok() {
                self.failed = done.outcome;
            }
            self.keep(done.buffer);
            return;
        }
        if self.given_up.remove(&done.tag) {
            return self.keep(done.buffer);
        }
        let outcome = match done.outcome {
            Ok(()) => Ok(done.buffer),
            Err(error) => {
                self.keep(done.buffer);
                Err(error)
            }
        };
        self.read.insert(done.tag, outcome);
    }

    /// Whether a buffer of this size would exceed the limit.
    fn lacks(&self, bytes: usize) -> bool {
        let spare = self.spare_for(bytes).is_some();
        let of_all = self.budget.used_for(Use::Compactions) + bytes;
        let crowded = of_all > self.budget.limit() / MEMORY_SHARE_OF_ALL;
        !spare && (crowded || self.charge.bytes() + bytes > self.most)
    }

    /// The place of a spare buffer for this many bytes: the smallest that is at most twice as
    /// large. A source keeps what it read for a while, and would otherwise hold a buffer that was
    /// made for a write.
    fn spare_for(&self, bytes: usize) -> Option<usize> {
        let capacity = |at: &usize| self.spare[*at].capacity();
        let fits = |at: &usize| (bytes..=2 * bytes.max(ALIGN)).contains(&capacity(at));
        (0..self.spare.len()).filter(fits).min_by_key(capacity)
    }

    /// A buffer with memory for so many bytes, whatever is in it.
    fn buffer(&mut self, bytes: usize) -> AlignedBuffer {
        if let Some(at) = self.spare_for(bytes) {
            return self.spare.swap_remove(at);
        }
        let buffer = AlignedBuffer::with_capacity(bytes);
        let charged = self.charge.bytes();
        self.charge.resize(charged + buffer.capacity());
        buffer
    }

    fn keep(&mut self, buffer: AlignedBuffer) {
        self.spare.push(buffer);
        if self.spare.len() > SPARE {
            let least = (0..self.spare.len()).min_by_key(|&at| self.spare[at].capacity());
            let gone = self.spare.swap_remove(least.unwrap_or_default());
            let charged = self.charge.bytes();
            self.charge.resize(charged.saturating_sub(gone.capacity()));
        }
    }
}
