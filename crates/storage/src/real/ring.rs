//! Operations that the system executes through `io_uring`.
//!
//! Each operation is normally submitted at once, so that it runs while the caller does something
//! else. The cost of one system call for each operation is small compared with a compaction's
//! transfers, but not compared with the read of a block. A queue that gathers
//! ([`crate::IoQueue::gather`]) submits several operations with one call, which notifies the device
//! once.
//!
//! When a process is killed, the system continues the I/O that its rings have in flight, and no
//! process waits for it. IO-QUEUE-8 holds because a ring has the lock files of the folders that it
//! writes into among its registered files: the system closes them after the last operation.
#![allow(unsafe_code)] // A leaf: the system reads and writes memory whose address it gets.

use std::fs;
use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use io_uring::types::Fd;
use io_uring::{IoUring, Probe, opcode, squeue};
use rustix::io::Errno;
use spillway_base::clock::Clock;
use spillway_base::thread;

use super::carrier::Carrier;
use super::operation::{Operation, OperationKind};

/// How long to pause when the system is short of memory.
const PAUSE: Duration = Duration::from_millis(1);

/// The most locked folders that one queue writes into.
const LOCKS_MAX: usize = 64;

/// A ring, and the operations that it executes.
pub(super) struct Ring {
    ring: IoUring,
    /// Operations whose buffer and descriptor the system may use, by their numbers in the ring.
    /// Nothing else touches a buffer until the step of its operation is completed.
    slots: Vec<Option<Operation>>,
    free: Vec<usize>,
    /// Locks that are registered with the ring, in this order.
    locks: Vec<Arc<fs::File>>,
    /// Whether pushed entries are held back until `submit`.
    gathers: bool,
}

impl Ring {
    /// A ring for this many concurrent operations.
    ///
    /// # Errors
    /// The system has none that can read and write, or has no more.
    pub(super) fn new(operations: usize) -> io::Result<Ring> {
        let ring = IoUring::new(operations as u32)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if ![opcode::Read::CODE, opcode::Write::CODE].iter().all(|code| probe.is_supported(*code)) {
            return Err(io::ErrorKind::Unsupported.into());
        }
        // Empty places for locks.
        ring.submitter().register_files(&[-1; LOCKS_MAX])?;
        let slots = (0..operations).map(|_| None).collect();
        Ok(Ring { ring, slots, free: (0..operations).collect(), locks: Vec::new(), gathers: false })
    }

    /// Pushes the next step of an operation.
    fn push(&mut self, slot: usize) {
        let operation = self.slots[slot].as_mut().expect("the slot was just taken");
        let (range, offset) = operation.next();
        let fd = Fd(operation.descriptor().as_raw_fd());
        let bytes = operation.memory()[range].as_mut_ptr_range();
        let (from, len) = (bytes.start, bytes.end.addr() - bytes.start.addr());
        let entry: squeue::Entry = match operation.kind {
            OperationKind::Read => opcode::Read::new(fd, from, len as u32).offset(offset).build(),
            OperationKind::Write => opcode::Write::new(fd, from, len as u32).offset(offset).build(),
        };
        // SAFETY: the operation owns the buffer and keeps the descriptor open, and leaves its slot
        // only when the step is completed. Where it is never completed, `Drop` lets neither of them
        // go.
        let pushed = unsafe { self.ring.submission().push(&entry.user_data(slot as u64)) };
        pushed.expect("the ring has an entry for each operation");
        if !self.gathers {
            self.enter(0);
        }
    }

    /// Submits the pushed entries, and waits for this many completions. Entries that the system
    /// cannot accept now stay in the ring until the next time.
    fn enter(&mut self, completions: usize) {
        let entered = match completions {
            0 => self.ring.submit(),
            _ => thread::blocking(|| self.ring.submit_and_wait(completions)),
        };
        let Err(error) = entered else { return };
        match Errno::from_io_error(&error) {
            Some(Errno::INTR) => {}
            Some(Errno::AGAIN | Errno::BUSY | Errno::NOMEM) => {
                if completions > 0 && self.ring.completion().is_empty() {
                    Clock::system().sleep(PAUSE);
                }
            }
            _ => panic!("a ring that was made cannot be entered: {error}"),
        }
    }
}

impl Carrier<Operation> for Ring {
    fn prepare(&mut self, operation: &Operation) -> Result<(), Errno> {
        let Some(lock) = operation.lock().filter(|_| operation.kind == OperationKind::Write) else {
            return Ok(());
        };
        if self.locks.iter().any(|known| Arc::ptr_eq(known, &lock)) {
            return Ok(());
        }
        assert!(self.locks.len() < LOCKS_MAX, "a queue writes into more than {LOCKS_MAX} folders");
        let (place, fd) = (self.locks.len() as u32, lock.as_raw_fd());
        let registered = self.ring.submitter().register_files_update(place, &[fd]);
        registered.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        // A refused registration is retried with the next write.
        self.locks.push(lock);
        Ok(())
    }

    fn begin(&mut self, operation: Operation) {
        let slot = self.free.pop().expect("a queue that is not full");
        self.slots[slot] = Some(operation);
        self.push(slot);
    }

    fn finished(&mut self) -> Operation {
        loop {
            if let Some(operation) = self.try_finished() {
                return operation;
            }
            self.enter(1);
        }
    }

    fn try_finished(&mut self) -> Option<Operation> {
        if !self.gathers {
            // Entries that the system did not accept before.
            self.submit();
        }
        loop {
            let completed = self.ring.completion().next()?;
            let slot = completed.user_data() as usize;
            let mut operation = self.slots[slot].take().expect("what is completed was submitted");
            operation.advance(match completed.result() {
                moved @ 0.. => Ok(moved as usize),
                errno => Err(Errno::from_raw_os_error(-errno)),
            });
            if operation.is_over() {
                self.free.push(slot);
                return Some(operation);
            }
            self.slots[slot] = Some(operation);
            self.push(slot);
        }
    }

    fn gather(&mut self, gathers: bool) {
        self.gathers = gathers;
    }

    fn submit(&mut self) -> bool {
        if !self.ring.submission().is_empty() {
            self.enter(0);
        }
        !self.keeps()
    }

    fn keeps(&mut self) -> bool {
        !self.ring.submission().is_empty()
    }

    fn descriptor(&self) -> Option<OwnedFd> {
        // SAFETY: the ring keeps its descriptor open for as long as it lives, and is borrowed here.
        let ring = unsafe { BorrowedFd::borrow_raw(self.ring.as_raw_fd()) };
        ring.try_clone_to_owned().ok()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // A queue waits for its operations. If that failed, the system may still use their memory
        // at any time, so it is leaked.
        let left = self.slots.drain(..).flatten();
        if left.map(mem::forget).count() == 0 {
            // The system may close a ring late. Unregistering releases the locks now.
            let _ = self.ring.submitter().unregister_files();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use spillway_base::ErrorKind;

    use crate::{AlignedBuffer, Cache, Disk, File, Means, OpenMode, QueueSettings, RealDisk};

    fn pipe(path: &Path) -> Arc<dyn File> {
        mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        RealDisk.open(path, OpenMode::Write).unwrap()
    }

    #[test]
    fn io_queue_5_operations_do_not_wait_for_one_another() {
        if !Means::Ring.is_there() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let pipes: Vec<_> =
            (0..3).map(|number| pipe(&dir.path().join(format!("{number}")))).collect();
        let settings = QueueSettings { depth: 4, cache: Cache::Through };
        let mut queue = RealDisk.queue_by(settings, Means::Ring).unwrap();
        for (tag, pipe) in (0..).zip(&pipes) {
            queue.read(tag, pipe, 0, 4096, AlignedBuffer::with_capacity(0));
        }
        // Each read waits for bytes that are written after all of them.
        for tag in [1, 2, 0] {
            let mut buffer = AlignedBuffer::new(4096);
            buffer.fill(tag as u8);
            queue.write(9, &pipes[tag], 0, buffer);
            let mut done = [queue.wait().unwrap(), queue.wait().unwrap()];
            done.sort_by_key(|done| done.tag);
            assert_eq!([done[0].tag, done[1].tag], [tag as u64, 9]);
            assert_eq!(done[0].buffer[..], [tag as u8; 4096]);
        }
    }
    #[test]
    fn io_queue_8_a_folder_is_locked_as_long_as_a_ring_writes_into_it() {
        if !Means::Ring.is_there() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let lock = RealDisk.lock(dir.path()).unwrap();
        let pipe = pipe(&dir.path().join("pipe"));
        let settings = QueueSettings { depth: 2, cache: Cache::Through };
        let mut queue = RealDisk.queue_by(settings, Means::Ring).unwrap();
        // The second write waits for a read of the first, which fills the pipe.
        queue.write(1, &pipe, 0, AlignedBuffer::new(64 << 10));
        queue.wait().unwrap().outcome.unwrap();
        queue.write(2, &pipe, 0, AlignedBuffer::new(4096));
        drop(lock);
        let locked = || RealDisk.lock(dir.path()).map(drop).map_err(|error| error.kind());
        assert_eq!(locked(), Err(ErrorKind::InUse));
        queue.read(3, &pipe, 0, 64 << 10, AlignedBuffer::with_capacity(0));
        while let Some(done) = queue.wait() {
            done.outcome.unwrap();
        }
        drop(queue);
        assert_eq!(locked(), Ok(()));
    }
}
