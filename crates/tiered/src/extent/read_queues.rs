//! The disk's I/O queues for readers of extents: for readahead of scans, and for reads of several
//! gets in parallel.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use spillway_base::budget::Charge;
use spillway_base::lock::Mutex;
use spillway_storage::{AlignedBuffer, Cache, Disk, IdleQueues, IoQueue, QueueSettings};

/// The most reads in flight of one scan.
pub(super) const DEPTH: usize = 16;
/// The most reads in flight for a group of gets.
pub(super) const GETS_DEPTH: usize = 64;
/// The idle queues that are kept for later scans, and for later groups of gets. Each client may
/// have one such group.
const IDLE_MAX: usize = 8;
pub(super) const GETS_IDLE_MAX: usize = 32;

/// The I/O queues of the disk for readers of extents.
#[derive(Default)]
pub(crate) struct ReadQueues {
    on: AtomicBool,
    /// The number of blocks that readers took from readahead.
    pub(super) taken: AtomicU64,
    /// The number of tables and blocks that were read for groups of gets.
    pub(super) fetched: AtomicU64,
    of_scans: IdleQueues,
    pub(super) of_gets: IdleQueues,
    /// The buffers of the last group of gets. The next group reuses them, because the system clears
    /// new memory each time.
    pub(super) spare: Mutex<Option<SpareBuffers>>,
}

/// Buffers that no read uses now. The charge covers these and the buffers of reads in progress.
pub(super) struct SpareBuffers {
    pub(super) buffers: Vec<AlignedBuffer>,
    pub(super) charge: Charge,
}

impl SpareBuffers {
    /// A buffer for `bytes` bytes.
    pub(super) fn take(&mut self, bytes: usize) -> AlignedBuffer {
        let spare = self.buffers.pop();
        let more = bytes.saturating_sub(spare.as_ref().map_or(0, AlignedBuffer::capacity));
        self.charge.resize(self.charge.bytes() + more);
        spare.unwrap_or_else(|| AlignedBuffer::with_capacity(bytes))
    }

    /// Frees buffers beyond `most` bytes. No read is in progress.
    pub(super) fn shrink(&mut self, most: usize) {
        let mut kept = 0;
        self.buffers.retain(|buffer| {
            let fits = kept + buffer.capacity() <= most;
            kept += if fits { buffer.capacity() } else { 0 };
            fits
        });
        self.charge.resize(kept);
    }
}

impl ReadQueues {
    /// Allows readers to use queues from now on.
    pub(crate) fn allow(&self) {
        self.on.store(true, Ordering::Relaxed);
    }

    /// Whether readers may use queues.
    pub(crate) fn are_allowed(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// The number of blocks that scans took from readahead, and of reads for groups of gets.
    pub(crate) fn taken_and_fetched(&self) -> (u64, u64) {
        (self.taken.load(Ordering::Relaxed), self.fetched.load(Ordering::Relaxed))
    }

    /// A scan's queue with nothing in flight; `None` if queues are not allowed, or if the system
    /// provides no more.
    pub(super) fn take(&self, disk: &dyn Disk) -> Option<Box<dyn IoQueue>> {
        let open = || disk.queue(QueueSettings { depth: DEPTH, cache: Cache::Bypass }).ok();
        self.are_allowed().then(|| self.of_scans.take(open))?
    }

    pub(super) fn lay_aside(&self, queue: Box<dyn IoQueue>) {
        self.of_scans.keep(queue, IDLE_MAX);
    }

    /// A queue for the reads of a group of gets, which are submitted together. The queue bypasses
    /// the page cache if gets do.
    pub(super) fn take_for_gets(&self, disk: &dyn Disk, direct: bool) -> Option<Box<dyn IoQueue>> {
        let cache = if direct { Cache::Bypass } else { Cache::Through };
        let open = || {
            let mut queue = disk.queue(QueueSettings { depth: GETS_DEPTH, cache }).ok()?;
            queue.gather(true);
            Some(queue)
        };
        self.are_allowed().then(|| self.of_gets.take(open))?
    }
}
