//! A read or a write of a real file. The executor of its queue ([`super::carrier::Carrier`])
//! advances it by one transfer at a time, until all bytes are transferred or the operation has
//! failed.

use std::fs;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;

use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, pread, pwrite};
use spillway_base::Result;

use super::file::RealFile;
use super::writeback;
use crate::queue::{ALIGN, AlignedBuffer, Cache, Completion};

/// The kind of the operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OperationKind {
    Read,
    Write,
}

/// The most bytes of one system call: every kernel accepts it, and it is a multiple of [`ALIGN`].
const STEP_MAX: usize = 1 << 30;

/// A read or a write of a real file. Positions in the buffer count from the start of its memory.
/// The position in the file is larger by `base`, so that whole pages of the memory are whole pages
/// of the file.
pub(super) struct Operation {
    tag: u64,
    file: Arc<RealFile>,
    pub(super) kind: OperationKind,
    buffer: AlignedBuffer,
    base: u64,
    /// The next position to read or write.
    at: usize,
    /// The end of the wanted bytes.
    end: usize,
    cache: Cache,
    /// Whether the next step bypasses the page cache.
    direct: bool,
    /// Whether any step went through the page cache although it should have bypassed it.
    cached: bool,
    outcome: Option<Result<()>>,
}

impl Operation {
    /// A read of this many bytes.
    pub(super) fn read(
        tag: u64,
        file: Arc<RealFile>,
        offset: u64,
        len: usize,
        mut buffer: AlignedBuffer,
        cache: Cache,
    ) -> Operation {
        buffer.frame(offset, len);
        Operation::new(tag, file, OperationKind::Read, offset, buffer, cache)
    }

    /// A write of the buffer's bytes.
    pub(super) fn write(
        tag: u64,
        file: Arc<RealFile>,
        offset: u64,
        mut buffer: AlignedBuffer,
        cache: Cache,
    ) -> Operation {
        buffer.settle();
        Operation::new(tag, file, OperationKind::Write, offset, buffer, cache)
    }

    fn new(
        tag: u64,
        file: Arc<RealFile>,
        kind: OperationKind,
        offset: u64,
        buffer: AlignedBuffer,
        cache: Cache,
    ) -> Operation {
        let (start, end) = (buffer.start(), buffer.start() + buffer.len());
        let direct = cache == Cache::Bypass && file.direct().is_some();
        let mut operation = Operation {
            tag,
            file,
            kind,
            buffer,
            base: offset - start as u64,
            at: if direct { 0 } else { start },
            end,
            cache,
            direct,
            cached: false,
            outcome: None,
        };
        // The system interprets larger offsets differently.
        let last = operation.base.checked_add(end.next_multiple_of(ALIGN) as u64);
        if last.is_none_or(|last| last > i64::MAX as u64) {
            operation.fail(Errno::INVAL);
        }
        operation
    }

    /// The lock of its file's folder, if this process holds one.
    pub(super) fn lock(&self) -> Option<Arc<fs::File>> {
        self.file.lock()
    }

    /// Whether it is done or has failed.
    pub(super) fn is_over(&self) -> bool {
        self.outcome.is_some()
    }

    /// The descriptor for the next step.
    pub(super) fn descriptor(&self) -> &fs::File {
        match self.file.direct() {
            Some(direct) if self.direct => direct,
            _ => self.file.file(),
        }
    }

    /// The buffer's memory.
    pub(super) fn memory(&mut self) -> &mut [u8] {
        self.buffer.all()
    }

    /// The range of the memory that the next step moves, within its capacity, and the file offset.
    pub(super) fn next(&self) -> (Range<usize>, u64) {
        let end = if self.direct { self.end.next_multiple_of(ALIGN) } else { self.end };
        (self.at..end.min(self.at + STEP_MAX), self.base + self.at as u64)
    }

    /// Takes the next step on this thread, and returns the input of [`Operation::advance`].
    pub(super) fn step(&mut self) -> Result<usize, Errno> {
        let (range, offset) = self.next();
        // Taken out, because the descriptor borrows the operation.
        let mut buffer = std::mem::replace(&mut self.buffer, AlignedBuffer::with_capacity(0));
        let bytes = &mut buffer.all()[range];
        let moved = match self.kind {
            OperationKind::Read => pread(self.descriptor(), bytes, offset),
            OperationKind::Write => pwrite(self.descriptor(), bytes, offset),
        };
        self.buffer = buffer;
        moved
    }

    /// Records the system's result of the next step.
    pub(super) fn advance(&mut self, moved: Result<usize, Errno>) {
        self.cached |= self.cache == Cache::Bypass && !self.direct;
        match moved {
            Ok(0) => self.fail_with(match self.kind {
                OperationKind::Read => io::ErrorKind::UnexpectedEof.into(),
                OperationKind::Write => io::ErrorKind::WriteZero.into(),
            }),
            Ok(count) => {
                self.at += count;
                if self.at >= self.end {
                    self.outcome = Some(Ok(()));
                } else if !self.at.is_multiple_of(ALIGN) {
                    // The file ends here, or did during the call: direct transfers begin at whole
                    // pages only.
                    self.go_through_cache();
                }
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(Errno::INVAL) if self.direct => {
                self.file.refuse_direct();
                self.go_through_cache();
            }
            Err(errno) => self.fail(errno),
        }
    }

    fn go_through_cache(&mut self) {
        self.direct = false;
        // Bytes that were read only to fill the first page are not needed.
        self.at = self.at.max(self.buffer.start());
    }

    /// Ends it with this failure.
    pub(super) fn fail(&mut self, errno: Errno) {
        self.fail_with(errno.into());
    }

    fn fail_with(&mut self, error: io::Error) {
        let what = match self.kind {
            OperationKind::Read => "read",
            OperationKind::Write => "write",
        };
        self.outcome = Some(Err(self.file.failed(what, error)));
    }

    /// The result for its caller. It must be over.
    pub(super) fn complete(self) -> Completion {
        if self.cached {
            let len = NonZeroU64::new(self.end as u64);
            // A failure only costs memory.
            let _ = fadvise(self.file.file(), self.base, len, Advice::DontNeed);
        }
        let outcome = self.outcome.expect("it is over");
        if self.kind == OperationKind::Write && self.cache == Cache::Through && outcome.is_ok() {
            let (start, len) = (self.buffer.start() as u64, self.buffer.len() as u64);
            writeback::begin(self.file.file(), self.base + start, len);
        }
        Completion { tag: self.tag, buffer: self.buffer, outcome }
    }
}

/// Reads past the page cache on this thread, to the end.
pub(crate) fn read_now_past(
    file: Arc<RealFile>,
    offset: u64,
    len: usize,
    buffer: AlignedBuffer,
) -> Completion {
    let mut operation = Operation::read(0, file, offset, len, buffer, Cache::Bypass);
    while !operation.is_over() {
        let moved = operation.step();
        operation.advance(moved);
    }
    operation.complete()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{Disk, OpenMode, RealDisk};

    fn file(path: &Path, bytes: &[u8]) -> Arc<RealFile> {
        let file = RealDisk.open(path, OpenMode::Create).unwrap();
        file.write_at(0, bytes).unwrap();
        let file: Arc<dyn std::any::Any + Send + Sync> = file;
        file.downcast().unwrap()
    }

    /// Runs an operation to its end on a system that moves at most this many bytes at once, and is
    /// interrupted at times.
    fn run(mut operation: Operation, most: usize) -> Completion {
        while !operation.is_over() {
            operation.advance(Err(Errno::INTR));
            let moved = operation.step();
            operation.advance(moved.map(|count| count.min(most)));
        }
        operation.complete()
    }

    #[test]
    fn io_queue_3_short_transfers_are_carried_on_to_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..4 * ALIGN).map(|at| (at / 7) as u8).collect();
        for cache in [Cache::Through, Cache::Bypass] {
            for most in [1000, ALIGN, ALIGN + 1, 3 * ALIGN, usize::MAX] {
                let file = file(&dir.path().join("f"), &[]);
                let mut buffer = AlignedBuffer::with_capacity(0);
                buffer.extend_from_slice(&bytes);
                let written = Operation::write(1, file.clone(), 0, buffer, cache);
                run(written, most).outcome.unwrap();
                for (offset, len) in [(0, 4 * ALIGN), (5000, 10_000), (4 * ALIGN - 1, 1)] {
                    let buffer = AlignedBuffer::with_capacity(0);
                    let read = Operation::read(1, file.clone(), offset as u64, len, buffer, cache);
                    let read = run(read, most);
                    read.outcome.unwrap();
                    assert_eq!(read.buffer[..], bytes[offset..offset + len], "{cache:?} {most}");
                }
            }
        }
    }

    #[test]
    fn io_queue_7_a_file_system_may_refuse_to_go_past_the_cache() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(&dir.path().join("f"), &[]);
        let refused = |mut operation: Operation| {
            operation.direct = true;
            operation.at = 0;
            operation.advance(Err(Errno::INVAL));
            assert!(!operation.is_over() && !operation.direct);
            run(operation, usize::MAX)
        };
        let mut buffer = AlignedBuffer::new(2 * ALIGN);
        buffer.fill(3);
        let write = Operation::write(1, file.clone(), 0, buffer, Cache::Bypass);
        refused(write).outcome.unwrap();
        assert!(file.direct().is_none(), "it is not asked again");
        let buffer = AlignedBuffer::with_capacity(0);
        let read = Operation::read(1, file.clone(), 100, 5000, buffer, Cache::Bypass);
        assert_eq!(refused(read).buffer[..], [3; 5000]);
        let buffer = AlignedBuffer::with_capacity(0);
        let read = Operation::read(1, file.clone(), 0, 8192, buffer, Cache::Bypass);
        assert_eq!(run(read, usize::MAX).buffer[..], [3; 8192]);
        let read = read_now_past(file, 5, 5000, AlignedBuffer::with_capacity(0));
        read.outcome.unwrap();
        assert_eq!(read.buffer[..], [3; 5000], "DISK-9: who waits is served, too");
    }

    #[test]
    fn a_failure_names_what_was_done_to_which_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = file(&dir.path().join("name"), &[]);
        let buffer = AlignedBuffer::with_capacity(0);
        let read = Operation::read(1, file, 0, 1, buffer, Cache::Through);
        let error = run(read, usize::MAX).outcome.unwrap_err().to_string();
        assert!(error.contains("cannot read") && error.contains("name"), "{error}");
    }
}
