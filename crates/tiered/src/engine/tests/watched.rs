//! A disk that records the reads and writes that its I/O queues receive.

use std::path::Path;

use spillway_storage::{
    AlignedBuffer, Completion, DiskLock, File, IoQueue, OpenMode, QueueSettings,
};

use super::*;

/// The operations that the queues of a disk were given.
#[derive(Default)]
pub(super) struct Given {
    pub(super) reads: AtomicU64,
    pub(super) in_flight: AtomicU64,
    /// The number of reads that wait to be submitted together.
    pub(super) kept: AtomicU64,
    /// Bytes that are being read.
    reading: AtomicU64,
    /// The most bytes that were being read at the same time.
    pub(super) reading_most: AtomicU64,
    /// For each merge of blocks, the number of reads begun, and of operations in flight.
    pub(super) at_merges: Mutex<Vec<(u64, u64)>>,
}

/// A disk that records the operations of its queues.
pub(super) struct Watched(pub(super) SimDisk, pub(super) Arc<Given>);

/// A queue of the disk, with the bytes of each read. If the queue collects reads, they are not in
/// flight before they are submitted.
struct WatchedQueue {
    queue: Box<dyn IoQueue>,
    given: Arc<Given>,
    bytes: BTreeMap<u64, u64>,
    gathers: bool,
    kept: u64,
    handed_over: u64,
}

impl WatchedQueue {
    fn hand_over(&mut self, operations: u64) {
        self.handed_over += operations;
        self.given.in_flight.fetch_add(operations, Ordering::SeqCst);
    }

    fn hand_over_kept(&mut self) {
        let kept = std::mem::take(&mut self.kept);
        self.given.kept.fetch_sub(kept, Ordering::SeqCst);
        self.hand_over(kept);
    }

    fn ended(&mut self, done: Option<Completion>) -> Option<Completion> {
        let done = done?;
        self.handed_over -= 1;
        self.given.in_flight.fetch_sub(1, Ordering::SeqCst);
        let bytes = self.bytes.remove(&done.tag).unwrap_or(0);
        self.given.reading.fetch_sub(bytes, Ordering::SeqCst);
        Some(done)
    }
}

impl IoQueue for WatchedQueue {
    fn read(&mut self, tag: u64, file: &Arc<dyn File>, at: u64, len: usize, to: AlignedBuffer) {
        self.given.reads.fetch_add(1, Ordering::SeqCst);
        self.bytes.insert(tag, len as u64);
        let reading = self.given.reading.fetch_add(len as u64, Ordering::SeqCst) + len as u64;
        self.given.reading_most.fetch_max(reading, Ordering::SeqCst);
        if self.gathers {
            self.kept += 1;
            self.given.kept.fetch_add(1, Ordering::SeqCst);
        } else {
            self.hand_over(1);
        }
        self.queue.read(tag, file, at, len, to);
    }

    fn write(&mut self, tag: u64, file: &Arc<dyn File>, offset: u64, buffer: AlignedBuffer) {
        self.hand_over(1);
        self.queue.write(tag, file, offset, buffer);
    }

    fn gather(&mut self, gathers: bool) {
        self.gathers = gathers;
        self.queue.gather(gathers);
    }

    fn submit(&mut self) -> bool {
        self.hand_over_kept();
        self.queue.submit()
    }

    fn keeps(&mut self) -> bool {
        self.kept > 0 || self.queue.keeps()
    }

    /// Submits nothing while operations are in flight, like a queue that finds a completed
    /// operation.
    fn wait(&mut self) -> Option<Completion> {
        if self.handed_over == 0 {
            self.hand_over_kept();
        }
        let done = self.queue.wait();
        self.ended(done)
    }

    fn try_wait(&mut self) -> Option<Completion> {
        if self.handed_over == 0 {
            return None;
        }
        let done = self.queue.try_wait();
        self.ended(done)
    }

    fn descriptor(&self) -> Option<std::os::fd::OwnedFd> {
        self.queue.descriptor()
    }

    fn depth(&self) -> usize {
        self.queue.depth()
    }

    fn in_flight(&self) -> usize {
        self.queue.in_flight()
    }
}

impl Disk for Watched {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        self.0.open(path, mode)
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        self.0.exists(path)
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.0.list(dir)
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.0.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.0.rename(from, to)
    }

    fn create_dir_all(&self, dir: &Path) -> Result<()> {
        self.0.create_dir_all(dir)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.0.sync_dir(dir)
    }

    fn lock(&self, dir: &Path) -> Result<Box<dyn DiskLock>> {
        self.0.lock(dir)
    }

    fn available(&self, path: &Path) -> Result<u64> {
        self.0.available(path)
    }

    fn queue(&self, settings: QueueSettings) -> Result<Box<dyn IoQueue>> {
        Ok(Box::new(WatchedQueue {
            queue: self.0.queue(settings)?,
            given: self.1.clone(),
            bytes: BTreeMap::new(),
            gathers: false,
            kept: 0,
            handed_over: 0,
        }))
    }
}
