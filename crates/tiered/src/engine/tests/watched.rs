//! A disk that tells what its queues are given.

use std::path::Path;

use spillway_storage::{
    AlignedBuffer, Completion, DiskLock, File, IoQueue, OpenMode, QueueSettings,
};

use super::*;

/// What the queues of a disk were given.
#[derive(Default)]
pub(super) struct Given {
    pub(super) reads: AtomicU64,
    pub(super) in_flight: AtomicU64,
    /// Bytes that are being read, and the most there were at once.
    reading: AtomicU64,
    pub(super) reading_most: AtomicU64,
    /// How many reads had begun, and how many operations were in flight, whenever blocks were to be merged.
    pub(super) at_merges: Mutex<Vec<(u64, u64)>>,
}

/// A disk that tells of its queues.
pub(super) struct Watched(pub(super) SimDisk, pub(super) Arc<Given>);

/// A queue of it, and how much each of its reads is of.
struct WatchedQueue(Box<dyn IoQueue>, Arc<Given>, BTreeMap<u64, u64>);

impl WatchedQueue {
    fn ended(&mut self, done: Option<Completion>) -> Option<Completion> {
        let done = done?;
        self.1.in_flight.fetch_sub(1, Ordering::SeqCst);
        let bytes = self.2.remove(&done.tag).unwrap_or(0);
        self.1.reading.fetch_sub(bytes, Ordering::SeqCst);
        Some(done)
    }
}

impl IoQueue for WatchedQueue {
    fn read(&mut self, tag: u64, file: &Arc<dyn File>, at: u64, len: usize, to: AlignedBuffer) {
        self.1.reads.fetch_add(1, Ordering::SeqCst);
        self.1.in_flight.fetch_add(1, Ordering::SeqCst);
        self.2.insert(tag, len as u64);
        let reading = self.1.reading.fetch_add(len as u64, Ordering::SeqCst) + len as u64;
        self.1.reading_most.fetch_max(reading, Ordering::SeqCst);
        self.0.read(tag, file, at, len, to);
    }

    fn write(&mut self, tag: u64, file: &Arc<dyn File>, offset: u64, buffer: AlignedBuffer) {
        self.1.in_flight.fetch_add(1, Ordering::SeqCst);
        self.0.write(tag, file, offset, buffer);
    }

    fn wait(&mut self) -> Option<Completion> {
        let done = self.0.wait();
        self.ended(done)
    }

    fn try_wait(&mut self) -> Option<Completion> {
        let done = self.0.try_wait();
        self.ended(done)
    }

    fn descriptor(&self) -> Option<std::os::fd::OwnedFd> {
        self.0.descriptor()
    }

    fn depth(&self) -> usize {
        self.0.depth()
    }

    fn in_flight(&self) -> usize {
        self.0.in_flight()
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
        Ok(Box::new(WatchedQueue(self.0.queue(settings)?, self.1.clone(), BTreeMap::new())))
    }
}
