//! Reads and writes that go on beside their caller: what a compaction reads and writes in bulk
//! (X-Engine, 3.3.2).
//!
//! A queue belongs to one thread at a time. It is given reads and writes of a disk's files, each
//! with a buffer and a tag, and gives them back as they are done. [`crate::Disk::queue`] makes one:
//! of `io_uring` where the system has it, of a few threads elsewhere, of a seeded scheduler on the
//! simulated disk. All keep these guarantees, beside those of the disk (K1 to K9):
//!
//! - **A1.** Every operation that was submitted is given back by [`IoQueue::wait`] once, in any
//!   order, with its tag and its buffer.
//! - **A2.** Operations are not ordered, neither among each other nor with other calls on their
//!   files. A write *is written*, in the sense of K1 to K3, when it was given back: what was given
//!   back before a [`crate::File::sync`] began survives a crash. Until then any set of its sectors
//!   may have been written, and the file may be longer or not.
//! - **A3.** An operation is whole or has failed. Where the system does a part of it, the queue
//!   goes on to its end. A read beyond the end of its file fails.
//! - **A4.** A failure is that of one operation, and says nothing of others. Its buffer comes back,
//!   too; what is in that of a read is unknown, and so is what a failed write has changed within
//!   its range. A full disk is
//!   [`spillway_base::ErrorKind::DiskFull`], and K6 holds.
//! - **A5.** As many operations as the queue is deep may be in flight at once, and they do not wait
//!   for one another.
//! - **A6.** A file is open as long as an operation on it is in flight. Dropping a queue waits for
//!   what is in flight: afterwards each operation has been done or has failed, which nobody is told
//!   of, and no buffer is touched any more.
//! - **A7.** Through a queue that bypasses the cache ([`Cache::Bypass`]), bytes are the same as
//!   through one that does not, and as through the files themselves, once the writes are given
//!   back; all may be used for one file.
//! - **A8.** When a process has ended, however, nothing of its queues happens any more by the time
//!   that another has the folder ([`crate::Disk::lock`]), whom the disk has wait for that. Of the
//!   writes in flight any set of sectors is written, as in A2. A lock that is dropped before a
//!   queue that wrote into its folder is free when that is dropped, too.
//!
//! - **A9.** [`IoQueue::try_wait`] waits for nothing: it gives back an operation that is done, if
//!   it knows of one. Whoever asks it until it has none, whenever the queue's descriptor
//!   ([`IoQueue::descriptor`]) has become readable and after each submission, is given back all.
//! - **A10.** A queue that gathers ([`IoQueue::gather`]) may keep what it is given, and what it has
//!   to go on with, until
//!   [`IoQueue::submit`] or [`IoQueue::wait`]; its caller comes to one of them. Once `submit` has
//!   answered `true`, nothing is kept.
//!
//! The caller's part: files are those of the queue's disk; no operation is empty; a write begins at
//! a multiple of [`ALIGN`] and is a multiple of it long ([`AlignedBuffer::pad`]); nothing is
//! submitted to a full queue. Who does otherwise meets a panic. And a range that a write in flight
//! changes is left alone by everybody else, or what is read or left there is unknown.
//!
//! # Past the page cache
//!
//! A compaction reads everything once, and what it writes is read later, in part, through the
//! database's own cache. In the page cache both would only drive out others' pages, and be copied
//! on the way. So [`Cache::Bypass`] transfers between the device and the buffer (`O_DIRECT`).
//! Nothing else in the contract differs: a read may begin and end anywhere (it is widened to whole
//! pages of the file, for which a buffer has room), and a write still has to be synced: for the
//! device's own cache, and for what the file system has to note about the file.
//!
//! The same file is read and written through the page cache as well: by point reads, and where
//! somebody reads ahead into a neighbour's bytes. What is relied on is what Linux does: a direct
//! read first writes back what is dirty in its range; a direct write drops the cached pages of its
//! range before it begins and once more when it has ended. So a page that holds old bytes can be
//! made only while a write to it is in flight, and is gone when that write is given back. It would
//! not hold for a file that is mapped into memory, and none of ours is.
//!
//! Where a file system refuses direct transfers, or one of them, they go through the page cache,
//! and the system is asked to drop the pages afterwards. It drops those that are clean and begins
//! to write the others; so some stay for a while.
//!
//! # Overlapping reads, merge and writes
//!
//! The merge of a compaction waits only for input that has not come yet, or for room to write. Half
//! of the depth here is for reads.
//!
//! ```
//! # use std::collections::{BTreeMap, VecDeque};
//! # use std::path::Path;
//! # use std::sync::Arc;
//! # use spillway_base::Result;
//! # use spillway_storage::sim::SimDisk;
//! # use spillway_storage::{AlignedBuffer, Cache, Disk, File, IoQueue, OpenMode, QueueSettings};
//! # const EXTENT: usize = 8192;
//! const WRITE: u64 = 1 << 63;
//!
//! /// Gives back what has come: an input, by its place, or the buffer of an output.
//! fn take(
//!     queue: &mut dyn IoQueue,
//!     inputs: &mut BTreeMap<u64, AlignedBuffer>,
//!     spare: &mut Vec<AlignedBuffer>,
//! ) -> Result<()> {
//!     let done = queue.wait().expect("something is in flight");
//!     done.outcome?;
//!     if done.tag & WRITE != 0 {
//!         spare.push(done.buffer);
//!     } else {
//!         inputs.insert(done.tag, done.buffer);
//!     }
//!     Ok(())
//! }
//!
//! fn compact(disk: &dyn Disk, from: &[(Arc<dyn File>, u64)], to: &Arc<dyn File>) -> Result<()> {
//!     let mut queue = disk.queue(QueueSettings { depth: 8, cache: Cache::Bypass })?;
//!     let (mut inputs, mut spare) = (BTreeMap::new(), Vec::new());
//!     let mut ahead = from.iter().zip(0..);
//!     for place in 0..from.len() as u64 {
//!         let mut merged = loop {
//!             // Reads ahead as far as half of the queue goes, then waits for what comes first.
//!             while queue.in_flight() + inputs.len() < queue.depth() / 2 {
//!                 let Some(((file, offset), place)) = ahead.next() else { break };
//!                 let buffer = spare.pop().unwrap_or_else(|| AlignedBuffer::with_capacity(EXTENT));
//!                 queue.read(place, file, *offset, EXTENT, buffer);
//!             }
//!             match inputs.remove(&place) {
//!                 Some(input) => break input,
//!                 None => take(&mut *queue, &mut inputs, &mut spare)?,
//!             }
//!         };
//!         merged.iter_mut().for_each(|byte| *byte += 1); // The merge, while the others are on their way.
//!         merged.pad();
//!         while queue.is_full() {
//!             take(&mut *queue, &mut inputs, &mut spare)?;
//!         }
//!         queue.write(WRITE | place, to, place * EXTENT as u64, merged);
//!     }
//!     while !queue.is_idle() {
//!         take(&mut *queue, &mut inputs, &mut spare)?;
//!     }
//!     to.sync()
//! }
//! # let disk = SimDisk::new(1);
//! # let from = disk.open(Path::new("from"), OpenMode::Create)?;
//! # let to = disk.open(Path::new("to"), OpenMode::Create)?;
//! # from.write_at(0, &[4; 9 * EXTENT])?;
//! # let inputs: Vec<_> = (0..9).map(|place| (from.clone(), place * EXTENT as u64)).collect();
//! # compact(&disk, &inputs, &to)?;
//! # let mut bytes = vec![0; 9 * EXTENT];
//! # to.read_at(0, &mut bytes)?;
//! # assert_eq!(bytes, [5; 9 * EXTENT]);
//! # Ok::<(), spillway_base::Error>(())
//! ```

mod buffer;
mod operation;
mod real;
mod ring;
#[cfg(test)]
mod tests;
mod threads;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use spillway_base::{Error, Result};

pub use buffer::{ALIGN, AlignedBuffer};
pub(crate) use operation::read_now_past;
pub use real::Means;
pub(crate) use real::{open, open_by};

use crate::File;

/// Whether transfers go through the system's page cache.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Cache {
    /// Through it, as those of [`File`].
    Through,
    /// Past it, as far as the file system can.
    Bypass,
}

/// What a queue is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueSettings {
    /// Operations in flight at once, at most: 1 to [`QueueSettings::DEPTH_MAX`].
    pub depth: usize,
    /// Whether its transfers go through the page cache.
    pub cache: Cache,
}

impl QueueSettings {
    /// The deepest queue.
    pub const DEPTH_MAX: usize = 1024;

    /// Refuses what no queue can be.
    pub(crate) fn check(self) -> Result<()> {
        match self.depth {
            1..=Self::DEPTH_MAX => Ok(()),
            depth => Err(Error::invalid(format!("a queue cannot be {depth} deep"))),
        }
    }
}

/// An operation that is done or has failed.
#[derive(Debug)]
pub struct Completion {
    /// That of the submission.
    pub tag: u64,
    /// The submission's buffer; that of a read holds what was read.
    pub buffer: AlignedBuffer,
    /// Whether it was done.
    pub outcome: Result<()>,
}

/// Operations on files that go on beside their caller. It may go on to another thread. But the
/// system may end what a thread submitted together with the thread: what is in flight then may
/// fail, and writes must not be.
pub trait IoQueue: Send {
    /// Begins to read `len` bytes into a buffer: the same memory where it is large enough, whatever
    /// is in it.
    ///
    /// # Panics
    /// When the queue is full, `len` is zero, or the file is of another disk.
    fn read(
        &mut self,
        tag: u64,
        file: &Arc<dyn File>,
        offset: u64,
        len: usize,
        buffer: AlignedBuffer,
    );

    /// Begins to write a buffer's bytes, making the file longer where needed.
    ///
    /// # Panics
    /// When the queue is full, the buffer is empty, offset or length are no multiples of [`ALIGN`],
    /// or the file is of another disk.
    fn write(&mut self, tag: u64, file: &Arc<dyn File>, offset: u64, buffer: AlignedBuffer);

    /// Whether what is given from now on may be kept until [`IoQueue::submit`], to be handed over
    /// together (A10).
    fn gather(&mut self, gathers: bool) {
        let _ = gathers;
    }

    /// Hands over what was kept, or was not taken before. `false` where the system takes something
    /// only later: it is to be asked again.
    fn submit(&mut self) -> bool {
        true
    }

    /// Whether [`IoQueue::submit`] would have something to hand over: what was kept, or what
    /// [`IoQueue::try_wait`] has gone on with (A10).
    fn keeps(&mut self) -> bool {
        false
    }

    /// Waits for an operation to be done, whichever comes first; nothing when none is in flight.
    fn wait(&mut self) -> Option<Completion>;

    /// An operation that is done, if there is one now (A9).
    fn try_wait(&mut self) -> Option<Completion>;

    /// What becomes readable when an operation in flight is done, for `epoll` (A9); nothing where
    /// the queue cannot tell. It is the caller's own, and may outlive the queue.
    fn descriptor(&self) -> Option<OwnedFd>;

    /// Operations in flight at once, at most.
    fn depth(&self) -> usize;

    /// Operations that were submitted and not given back.
    fn in_flight(&self) -> usize;

    /// Whether nothing is in flight.
    fn is_idle(&self) -> bool {
        self.in_flight() == 0
    }

    /// Whether nothing can be submitted before something is given back.
    fn is_full(&self) -> bool {
        self.in_flight() == self.depth()
    }
}

/// Panics where a caller of a queue has not kept to its part.
fn check_submission(queue: &dyn IoQueue, len: usize) {
    assert!(!queue.is_full(), "a full queue, of depth {}, was given an operation", queue.depth());
    assert!(len > 0, "a queue was given an empty operation");
}

/// As [`check_submission`], for a read.
pub(crate) fn check_read(queue: &dyn IoQueue, len: usize) {
    check_submission(queue, len);
}

/// As [`check_submission`], for a write.
pub(crate) fn check_write(queue: &dyn IoQueue, offset: u64, len: usize) {
    check_submission(queue, len);
    assert!(
        offset.is_multiple_of(ALIGN as u64) && len.is_multiple_of(ALIGN),
        "a queue was given a write of {len} bytes at {offset}: no whole pages"
    );
}
