//! The methods to move extents.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Advice, fadvise};
use spillway_base::Result;
use spillway_base::checksum::crc32c;
use spillway_base::rng::Rng;
use spillway_storage::{
    AlignedBuffer, Cache, Disk, File, IoQueue, Means, OpenMode, QueueSettings, RealDisk,
};

/// Bytes of an extent.
pub(super) const EXTENT_BYTES: usize = 2 << 20;

/// The operation that a thread applies to the extents of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ExtentTask {
    /// Reads each.
    Read,
    /// Writes each, and syncs them all.
    Write,
    /// Reads each, works on it and writes it to another file, which is synced.
    Copy,
}

impl ExtentTask {
    pub(super) const ALL: [ExtentTask; 3] = [ExtentTask::Read, ExtentTask::Write, ExtentTask::Copy];

    /// The name in the report.
    pub(super) fn name(self) -> &'static str {
        match self {
            ExtentTask::Read => "read",
            ExtentTask::Write => "write",
            ExtentTask::Copy => "read, work, write",
        }
    }
}

/// How the extents are moved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// One `pread` or `pwrite` after another.
    Blocking,
    /// Through a queue.
    Queue(Means, QueueSettings),
}

impl Way {
    /// All methods that the system has, with queues of these depths.
    pub(super) fn all(depths: &[usize]) -> Vec<Way> {
        let mut ways = vec![Way::Blocking];
        for means in Means::ALL.into_iter().filter(|means| means.is_there()) {
            for cache in [Cache::Through, Cache::Bypass] {
                let queue =
                    |depth: &usize| Way::Queue(means, QueueSettings { depth: *depth, cache });
                ways.extend(depths.iter().map(queue));
            }
        }
        ways
    }

    /// The name in the report.
    pub(super) fn name(self) -> String {
        let Way::Queue(means, QueueSettings { depth, cache }) = self else {
            return "pread/pwrite".to_owned();
        };
        let means = match means {
            Means::Ring => "ring",
            Means::Threads => "threads",
        };
        let cache = match cache {
            Cache::Through => "cached",
            Cache::Bypass => "direct",
        };
        format!("{means} {cache} {depth}")
    }
}

/// A file of extents to read, another to write, and the work.
pub(super) struct Movers {
    source: Arc<dyn File>,
    target: Arc<dyn File>,
    paths: [PathBuf; 2],
    extents: u64,
    /// Checksums over each extent that is worked on.
    passes: u32,
}

impl Movers {
    /// Creates both files, with all blocks allocated.
    pub(super) fn new(folder: &Path, extents: u64, passes: u32, seed: u64) -> Result<Movers> {
        let mut rng = Rng::new(seed);
        let mut extent = vec![0; EXTENT_BYTES];
        let paths = ["source", "target"].map(|name| folder.join(name));
        let mut files = Vec::new();
        for path in &paths {
            let file = RealDisk.open(path, OpenMode::Create)?;
            file.allocate(0, extents * EXTENT_BYTES as u64)?;
            for place in 0..extents {
                rng.fill(&mut extent);
                file.write_at(place * EXTENT_BYTES as u64, &extent)?;
            }
            file.sync()?;
            files.push(file);
        }
        let [source, target] = <[_; 2]>::try_from(files).ok().expect("a file for each path");
        Ok(Movers { source, target, paths, extents, passes })
    }

    /// Drops both files from the page cache.
    pub(super) fn drop_cache(&self) -> std::io::Result<()> {
        for path in &self.paths {
            fadvise(OpenOptions::new().read(true).open(path)?, 0, None, Advice::DontNeed)?;
        }
        Ok(())
    }

    /// Executes a task on all extents. Returns the sum of the checksums of the extents read, or of
    /// those in the target afterwards.
    pub(super) fn run(&self, task: ExtentTask, way: Way) -> Result<u64> {
        match way {
            Way::Blocking => self.block(task),
            Way::Queue(means, settings) => {
                self.queue(task, &mut *RealDisk.queue_by(settings, means)?)
            }
        }
    }

    /// The work on an extent; a plain read only touches it.
    fn work(&self, task: ExtentTask, bytes: &[u8]) -> u64 {
        match task {
            ExtentTask::Copy => (0..self.passes).fold(0, |_, _| u64::from(crc32c(bytes))),
            ExtentTask::Read | ExtentTask::Write => u64::from(bytes[bytes.len() - 1]),
        }
    }

    fn block(&self, task: ExtentTask) -> Result<u64> {
        let mut extent = vec![1; EXTENT_BYTES];
        let mut sum = 0;
        for place in 0..self.extents {
            let offset = place * EXTENT_BYTES as u64;
            if task != ExtentTask::Write {
                self.source.read_at(offset, &mut extent)?;
            }
            sum += self.work(task, &extent);
            if task != ExtentTask::Read {
                self.target.write_at(offset, &extent)?;
            }
        }
        if task != ExtentTask::Read {
            self.target.sync()?;
        }
        Ok(sum)
    }

    fn queue(&self, task: ExtentTask, queue: &mut dyn IoQueue) -> Result<u64> {
        let mut moving = Moving { queue, inputs: BTreeMap::new(), spare: Vec::new() };
        // Half of the queue is for writes.
        let ahead = match task {
            ExtentTask::Read => moving.queue.depth(),
            ExtentTask::Write | ExtentTask::Copy => (moving.queue.depth() / 2).max(1),
        };
        let mut places = 0..self.extents;
        let mut sum = 0;
        for place in 0..self.extents {
            let extent = if task == ExtentTask::Write {
                moving.spare.pop().unwrap_or_else(|| {
                    let mut extent = AlignedBuffer::new(EXTENT_BYTES);
                    extent.fill(1);
                    extent
                })
            } else {
                moving.input(place, &mut places, ahead, &self.source)?
            };
            sum += self.work(task, &extent);
            if task == ExtentTask::Read {
                moving.spare.push(extent);
            } else {
                while moving.queue.is_full() {
                    moving.take()?;
                }
                let offset = place * EXTENT_BYTES as u64;
                moving.queue.write(WRITE | place, &self.target, offset, extent);
            }
        }
        while !moving.queue.is_idle() {
            moving.take()?;
        }
        if task != ExtentTask::Read {
            self.target.sync()?;
        }
        Ok(sum)
    }
}

/// The bit that marks a write's tag.
const WRITE: u64 = 1 << 63;

/// The state of a run with a queue.
struct Moving<'a> {
    queue: &'a mut dyn IoQueue,
    /// Extents that were read, by their index.
    inputs: BTreeMap<u64, AlignedBuffer>,
    spare: Vec<AlignedBuffer>,
}

impl Moving<'_> {
    /// Takes the next completion.
    fn take(&mut self) -> Result<()> {
        let done = self.queue.wait().expect("something is in flight");
        done.outcome?;
        if done.tag & WRITE != 0 {
            self.spare.push(done.buffer);
        } else {
            self.inputs.insert(done.tag, done.buffer);
        }
        Ok(())
    }

    /// The extent at this index, with this many read ahead.
    fn input(
        &mut self,
        place: u64,
        places: &mut std::ops::Range<u64>,
        ahead: usize,
        source: &Arc<dyn File>,
    ) -> Result<AlignedBuffer> {
        loop {
            while !self.queue.is_full() && (places.start - place) < ahead as u64 {
                let Some(next) = places.next() else { break };
                let new = || AlignedBuffer::with_capacity(EXTENT_BYTES);
                let buffer = self.spare.pop().unwrap_or_else(new);
                let offset = next * EXTENT_BYTES as u64;
                self.queue.read(next, source, offset, EXTENT_BYTES, buffer);
            }
            if let Some(extent) = self.inputs.remove(&place) {
                return Ok(extent);
            }
            self.take()?;
        }
    }
}
