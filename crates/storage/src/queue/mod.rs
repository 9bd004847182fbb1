//! Asynchronous reads and writes: the bulk I/O of compactions (X-Engine, 3.3.2), and the reads of
//! [`crate::async_reads`].
//!
//! A queue belongs to one thread at a time. The thread submits reads and writes of a disk's files,
//! each with a buffer and a tag, and the queue returns them as they complete.
//! [`crate::Disk::queue`] creates a queue: with `io_uring` if the system has it, otherwise with a
//! few threads, and with a seeded scheduler on the simulated disk. All kinds of queues give these
//! guarantees, in addition to those of the disk (DISK-1 to DISK-9):
//!
//! - **IO-QUEUE-1.** [`IoQueue::wait`] returns every submitted operation once, in any order, with
//!   its tag and its buffer.
//! - **IO-QUEUE-2.** Operations are not ordered, neither among each other nor with other calls on
//!   their files. A write *is written*, in the sense of DISK-1 to DISK-3, once the queue has
//!   returned it. So a [`crate::File::sync`] that begins after the return makes the write durable.
//!   Until the return, any set of the write's sectors may have been written, and the file may have
//!   grown or not.
//! - **IO-QUEUE-3.** An operation completes in full or fails. If the system executes only a part of
//!   it, the queue submits the rest. A read beyond the end of its file fails.
//! - **IO-QUEUE-4.** A failure concerns one operation only. The queue returns its buffer too. The
//!   contents of a failed read's buffer are undefined, and so are the bytes in the range of a
//!   failed write. A full disk is [`spillway_base::ErrorKind::DiskFull`], and DISK-6 holds.
//! - **IO-QUEUE-5.** As many operations as the queue's depth may be in flight at once, and they do
//!   not wait for one another.
//! - **IO-QUEUE-6.** A file stays open while an operation on it is in flight. Dropping a queue
//!   waits for the operations in flight: afterwards each has completed or failed, without a report,
//!   and no buffer is accessed any more.
//! - **IO-QUEUE-7.** One file may be used through a queue that bypasses the cache
//!   ([`Cache::Bypass`]), through a queue that does not, and directly. All three read the same
//!   bytes: a write through a queue is visible to the others once the queue has returned it.
//! - **IO-QUEUE-8.** A process that has ended may leave operations of its queues in flight. The
//!   disk executes none of these operations once another process holds the folder's lock
//!   ([`crate::Disk::lock`]): it makes the other process wait for the lock until the operations
//!   have ended. Of each write that was in flight, any set of sectors is written, as in IO-QUEUE-2.
//!   If a process drops a folder's lock before it drops a queue that wrote into the folder, the
//!   lock becomes free when that queue is dropped.
//! - **IO-QUEUE-9.** [`IoQueue::try_wait`] does not block: it returns a completed operation, if it
//!   knows of one. To receive all operations, a caller calls `try_wait` until it returns none. The
//!   caller does this after each submission, and whenever the queue's descriptor
//!   ([`IoQueue::descriptor`]) becomes readable.
//! - **IO-QUEUE-10.** A queue that gathers ([`IoQueue::gather`]) may hold back operations, until
//!   [`IoQueue::submit`] or [`IoQueue::wait`] is called. If the system has executed only a part of
//!   an operation, the queue may hold back the rest in the same way. The caller of such a queue
//!   must call one of the two. Once `submit` has returned `true`, nothing is held back.
//!
//! The caller's obligations, whose violation causes a panic:
//!
//! - Files belong to the queue's disk.
//! - No operation is empty.
//! - A write begins at a multiple of [`ALIGN`], and its length is a multiple of [`ALIGN`]
//!   ([`AlignedBuffer::pad`]).
//! - Nothing is submitted to a full queue.
//!
//! While a write is in flight, no other call may access its range. The queue does not check this:
//! the bytes that are read or stored there would be undefined.
//!
//! # Through the page cache, and past it
//!
//! Through the page cache ([`Cache::Through`]), each transfer costs a copy, and readers find
//! written bytes in the cache. The queue makes the system begin to write them to the device at
//! once, so a later sync finds little to wait for.
//!
//! [`Cache::Bypass`] transfers directly between the device and the buffer (`O_DIRECT`). The rest of
//! the contract is the same. A read may begin and end anywhere: the queue widens the read to whole
//! pages of the file, and the buffer has room for these. A write still has to be synced, for the
//! device's own cache and for the file system's metadata.
//!
//! The same file is also read and written through the page cache: by point reads, and by readahead
//! into adjacent bytes. This relies on the behaviour of Linux. A direct read first writes back the
//! dirty pages in its range. A direct write drops the cached pages of its range before it begins
//! and again when it has ended. So a page with old bytes can appear only while a write to it is in
//! flight, and is gone when the queue returns that write. This would not hold for a memory-mapped
//! file, and Spillway maps none.
//!
//! A file system may refuse direct transfers, all or some. A refused transfer goes through the page
//! cache, and the queue then asks the system to drop the transfer's pages. The system drops clean
//! pages at once. It begins to write dirty pages, so these stay for a while.
//!
//! # Overlapping reads, merge and writes
//!
//! The merge of a compaction waits only for input that has not arrived yet, or for room to write.
//! In this example half of the queue's depth is for reads.
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
//! /// Waits for an operation. Stores the buffer of a read in `inputs`, by the place of the extent
//! /// that was read, and the buffer of a write in `spare`, for later reads.
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
//!             // Read ahead with half of the queue, then wait for any operation.
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
mod idle;
#[cfg(test)]
mod tests;

use std::os::fd::OwnedFd;
use std::sync::Arc;

use spillway_base::{Error, Result};

pub use buffer::{ALIGN, AlignedBuffer};
pub use idle::IdleQueues;

use crate::File;

/// Whether transfers go through the system's page cache.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Cache {
    /// Through the page cache, like those of [`File`]. The system begins to write bytes to the
    /// device as soon as they are there.
    Through,
    /// Past it, as far as the file system can.
    Bypass,
}

/// The options of a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueSettings {
    /// The most operations in flight at once: 1 to [`QueueSettings::DEPTH_MAX`].
    pub depth: usize,
    /// Whether its transfers go through the page cache.
    pub cache: Cache,
}

impl QueueSettings {
    /// The largest depth.
    pub const DEPTH_MAX: usize = 1024;

    /// Refuses invalid settings.
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
    /// The tag of the submission.
    pub tag: u64,
    /// The submission's buffer; that of a read holds the bytes read.
    pub buffer: AlignedBuffer,
    /// Whether the operation succeeded.
    pub outcome: Result<()>,
}

/// Asynchronous operations on files. A queue may move to another thread. But when a thread ends,
/// the system may end the operations that it has submitted, and these then fail. So no write may be
/// in flight when its thread ends.
pub trait IoQueue: Send {
    /// Starts to read `len` bytes into a buffer. It reuses the buffer's memory if that is large
    /// enough, whatever its contents.
    ///
    /// # Panics
    /// If the queue is full, `len` is zero, or the file belongs to another disk.
    fn read(
        &mut self,
        tag: u64,
        file: &Arc<dyn File>,
        offset: u64,
        len: usize,
        buffer: AlignedBuffer,
    );

    /// Starts to write a buffer's bytes, and extends the file if needed.
    ///
    /// # Panics
    /// If the queue is full, the buffer is empty, the offset or length is no multiple of [`ALIGN`],
    /// or the file belongs to another disk.
    fn write(&mut self, tag: u64, file: &Arc<dyn File>, offset: u64, buffer: AlignedBuffer);

    /// Sets whether later operations may be held back until [`IoQueue::submit`], to be submitted
    /// together (IO-QUEUE-10).
    fn gather(&mut self, gathers: bool) {
        let _ = gathers;
    }

    /// Submits the operations that were held back, or not accepted before. `false` if the system
    /// does not accept one now: the caller must call again.
    fn submit(&mut self) -> bool {
        true
    }

    /// Whether [`IoQueue::submit`] would have something to submit: operations held back, or further
    /// steps that [`IoQueue::try_wait`] has prepared (IO-QUEUE-10).
    fn keeps(&mut self) -> bool {
        false
    }

    /// Waits for any operation to complete; `None` if none is in flight.
    fn wait(&mut self) -> Option<Completion>;

    /// A completed operation, if there is one now (IO-QUEUE-9).
    fn try_wait(&mut self) -> Option<Completion>;

    /// A descriptor that becomes readable when an operation in flight completes, for `epoll`
    /// (IO-QUEUE-9); `None` if the queue has none. The caller owns it, and it may outlive the
    /// queue.
    fn descriptor(&self) -> Option<OwnedFd>;

    /// The most operations in flight at once.
    fn depth(&self) -> usize;

    /// The number of operations that were submitted and not returned.
    fn in_flight(&self) -> usize;

    /// Whether nothing is in flight.
    fn is_idle(&self) -> bool {
        self.in_flight() == 0
    }

    /// Whether an operation must be returned before another can be submitted.
    fn is_full(&self) -> bool {
        self.in_flight() == self.depth()
    }
}

/// Panics if the caller of a queue violates its part of the contract.
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
