//! The reads and writes of flushes and compactions, which overlap with the merge (X-Engine, section
//! 3.3.2, "Asynchronous I/O").
//!
//! The reads and writes use buffers of the flush or compaction. They go through the page cache, so
//! that readers and the next compaction find the written bytes there. If readers bypass the page
//! cache ([`crate::TieredSettings::direct_reads`]), flushes and compactions bypass it, too.
//! Decision 015 gives the measurements.
//!
//! A benchmark can turn the overlap off, to measure its gain
//! (`TieredSettings::overlapped_compactions`). A flush or compaction without overlap makes the same
//! reads and writes, but begins a read only when the merge needs the bytes, and waits for each
//! operation before it continues.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use spillway_base::Result;
use spillway_base::budget::{Budget, Charge, Use};
use spillway_storage::{ALIGN, AlignedBuffer, Cache, Disk, File, IoQueue, QueueSettings};

/// The most operations in flight. More were not faster (`spillway-bench extents`).
const DEPTH: usize = 4;
/// The part of the memory that the buffers of one job may take (a 32nd), and of all jobs together
/// (an eighth). A job that cannot continue without a buffer may exceed them.
const MEMORY_SHARE: usize = 32;
const MEMORY_SHARE_OF_ALL: usize = 8;
/// The least bytes of one write.
const PIECE_BYTES: usize = 128 << 10;
/// The bytes of the largest readahead.
const READ_BYTES: usize = 512 << 10;
/// The reads of one source whose buffers exist at once: the last two, and the next.
const READS_EACH: usize = 3;
/// Reads may take this fraction of a job's memory; writes take the rest.
const READS_SHARE: usize = 2;
/// The buffers that are kept for later operations.
const SPARE: usize = DEPTH;

/// A read in flight. Its owner takes it or cancels it. If the owner does neither, the buffer is
/// held until the job ends.
#[derive(Debug)]
#[must_use]
pub(crate) struct ReadTicket(u64);

/// The I/O of one flush or compaction. Clones share it; all stay on one thread.
#[derive(Clone)]
pub(crate) struct Bulk(Rc<RefCell<BulkState>>);

struct BulkState {
    queue: Box<dyn IoQueue>,
    next: u64,
    /// The tags of the writes in flight.
    writing: FxHashSet<u64>,
    /// The failure of a write, if one failed.
    failed: Result<()>,
    read: FxHashMap<u64, Result<AlignedBuffer>>,
    /// Reads in flight that were cancelled.
    given_up: FxHashSet<u64>,
    spare: Vec<AlignedBuffer>,
    /// The charge for all buffers: in flight, with callers, or spare.
    charge: Charge,
    /// The bytes of buffers above which an operation that can wait is not begun.
    most: usize,
    /// The most bytes of one write.
    piece: usize,
    /// The number of sources that read with these buffers.
    sources: usize,
    /// Whether operations run while the caller does other work.
    overlaps: bool,
    budget: Budget,
}

impl Bulk {
    /// Opens a separate I/O queue. Its buffers are charged to the budget. If `overlaps` is `false`,
    /// no operation is in flight between two calls. `direct` transfers bypass the page cache.
    ///
    /// # Errors
    /// As [`Disk::queue`].
    pub(crate) fn new(
        disk: &dyn Disk,
        budget: &Budget,
        overlaps: bool,
        direct: bool,
    ) -> Result<Bulk> {
        let depth = if overlaps { DEPTH } else { 1 };
        let cache = if direct { Cache::Bypass } else { Cache::Through };
        let queue = disk.queue(QueueSettings { depth, cache })?;
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

    /// Adds a source of reads.
    pub(crate) fn add_source(&self) {
        self.0.borrow_mut().sources += 1;
    }

    /// The most bytes worth reading ahead at once. With more sources, each reads less.
    pub(crate) fn read_bytes_most(&self) -> usize {
        let state = self.0.borrow();
        READ_BYTES.min(state.most / READS_SHARE / (READS_EACH * state.sources.max(1)))
    }

    /// Whether it helps to begin a read before its result is needed.
    pub(crate) fn overlaps(&self) -> bool {
        self.0.borrow().overlaps
    }

    /// Begins to read `len` bytes of a file, at least one.
    pub(crate) fn begin_read(&self, file: &Arc<dyn File>, offset: u64, len: usize) -> ReadTicket {
        let state = &mut *self.0.borrow_mut();
        let tag = state.begin();
        let buffer = state.buffer(len);
        state.queue.read(tag, file, offset, len, buffer);
        state.settle();
        ReadTicket(tag)
    }

    /// Waits for a read. The caller must return the buffer with [`Bulk::give_back`].
    ///
    /// # Errors
    /// The error of the read.
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

    /// Begins to write bytes at an offset that is a multiple of a page. They are padded with zeros
    /// to the next such multiple.
    ///
    /// # Errors
    /// The error of an earlier write, or of this one if the call waited for it.
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

    /// Waits until no write is in flight.
    ///
    /// # Errors
    /// The error of one of them.
    pub(crate) fn finish_writes(&self) -> Result<()> {
        let state = &mut *self.0.borrow_mut();
        while !state.writing.is_empty() {
            state.step();
        }
        state.failed.clone()
    }
}

impl BulkState {
    /// A tag for an operation. Waits until the queue has room for it.
    fn begin(&mut self) -> u64 {
        while self.queue.is_full() {
            self.step();
        }
        self.next += 1;
        self.next
    }

    /// Without overlap, waits for all operations.
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

    /// The index of the smallest spare buffer that has this many bytes and at most twice as many.
    /// The upper bound keeps the large buffers of writes from readers: a source keeps the buffer of
    /// a read for a while.
    fn spare_for(&self, bytes: usize) -> Option<usize> {
        let capacity = |at: &usize| self.spare[*at].capacity();
        let fits = |at: &usize| (bytes..=2 * bytes.max(ALIGN)).contains(&capacity(at));
        (0..self.spare.len()).filter(fits).min_by_key(capacity)
    }

    /// A buffer with memory for `bytes` bytes, of arbitrary contents.
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
