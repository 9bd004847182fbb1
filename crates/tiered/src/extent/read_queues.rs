//! The disk's I/O queues, with which readers of extents read ahead, or read several blocks at once.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use spillway_base::budget::Charge;
use spillway_base::lock::Mutex;
use spillway_storage::{AlignedBuffer, Cache, Disk, IdleQueues, IoQueue, QueueSettings};

/// Reads of one scan in flight.
pub(super) const DEPTH: usize = 16;
/// Reads in flight for several gets.
pub(super) const GETS_DEPTH: usize = 64;
/// Queues that are kept for later scans, and for later readers of several gets, of which each
/// client may have one.
const IDLE_MAX: usize = 8;
pub(super) const GETS_IDLE_MAX: usize = 32;

/// ReadQueues of the disk for readers of extents.
#[derive(Default)]
pub(crate) struct ReadQueues {
    on: AtomicBool,
    /// The number of blocks that readers took from readahead.
    pub(super) taken: AtomicU64,
    /// The number of tables and blocks that were read for several gets at once.
    pub(super) fetched: AtomicU64,
    of_scans: IdleQueues,
    pub(super) of_gets: IdleQueues,
    /// The buffers of the last reader of several gets, for the next one, because the system clears
    /// new memory each time.
    pub(super) spare: Mutex<Option<SpareBuffers>>,
}

/// Buffers without a read in progress, and the charge for them and for those with one.
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
    /// Readers may have queues from now on.
    pub(crate) fn allow(&self) {
        self.on.store(true, Ordering::Relaxed);
    }

    /// Whether readers may have queues.
    pub(crate) fn are_allowed(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// The number of blocks that scans found read ahead, and of reads for several gets at once.
    pub(crate) fn taken_and_fetched(&self) -> (u64, u64) {
        (self.taken.load(Ordering::Relaxed), self.fetched.load(Ordering::Relaxed))
    }

    /// A scan's queue with nothing in flight; `None` if queues are not allowed, or the system has
    /// no more.
    pub(super) fn take(&self, disk: &dyn Disk) -> Option<Box<dyn IoQueue>> {
        let open = || disk.queue(QueueSettings { depth: DEPTH, cache: Cache::Bypass }).ok();
        self.are_allowed().then(|| self.of_scans.take(open))?
    }

    pub(super) fn lay_aside(&self, queue: Box<dyn IoQueue>) {
        self.of_scans.keep(queue, IDLE_MAX);
    }

    /// A queue for reads of several gets, which are submitted together. It bypasses the page cache
    /// if gets do.
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
