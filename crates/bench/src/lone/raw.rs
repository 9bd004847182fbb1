//! Raw durable writes.

// A ring reads memory through pointers, which the compiler cannot check.
#![allow(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use io_uring::squeue::Flags;
use io_uring::types::{Fd, FsyncFlags};
use io_uring::{IoUring, opcode};

use rustix::io::ReadWriteFlags;

/// How a raw write is made durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sync {
    /// `pwrite`, then `fdatasync`.
    Fdatasync,
    /// `pwritev2` with `RWF_DSYNC`: one call.
    Dsync,
    /// A write and a linked fdatasync, submitted to `io_uring` and waited for in one call.
    Ring,
}

impl Sync {
    pub(super) const ALL: [Sync; 3] = [Sync::Fdatasync, Sync::Dsync, Sync::Ring];

    /// The name in the report.
    pub(super) fn name(self) -> &'static str {
        match self {
            Sync::Fdatasync => "raw write + fdatasync",
            Sync::Dsync => "raw pwritev2 dsync",
            Sync::Ring => "raw io_uring write + fdatasync",
        }
    }
}

/// Whether the system allows this process a ring.
pub(super) fn has_rings() -> bool {
    IoUring::new(2).is_ok()
}

/// A file of zeros whose blocks are allocated, written from start to end again and again.
pub(super) struct RawLog {
    file: File,
    path: PathBuf,
    sync: Sync,
    ring: Option<IoUring>,
    bytes: Vec<u8>,
    at: u64,
    file_bytes: u64,
}

impl RawLog {
    /// Creates the file, for writes of this many bytes.
    pub(super) fn new(
        path: &Path,
        sync: Sync,
        write_bytes: usize,
        file_bytes: u64,
    ) -> std::io::Result<RawLog> {
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        let zeros = vec![0; 1 << 20];
        let mut left = file_bytes;
        while left > 0 {
            let piece = left.min(zeros.len() as u64);
            file.write_all(&zeros[..piece as usize])?;
            left -= piece;
        }
        file.sync_all()?;
        let bytes = (0..write_bytes).map(|at| at as u8 | 1).collect();
        let ring = if sync == Sync::Ring { Some(IoUring::new(2)?) } else { None };
        Ok(RawLog { file, path: path.to_owned(), sync, ring, bytes, at: 0, file_bytes })
    }

    /// Writes once, durably.
    pub(super) fn write(&mut self) -> std::io::Result<()> {
        let length = self.bytes.len() as u64;
        if self.at + length > self.file_bytes {
            self.at = 0;
        }
        match self.sync {
            Sync::Fdatasync => {
                std::os::unix::fs::FileExt::write_all_at(&self.file, &self.bytes, self.at)?;
                self.file.sync_data()?;
            }
            Sync::Ring => {
                let ring = self.ring.as_mut().expect("made with the file");
                write_by_ring(ring, &self.file, self.at, &self.bytes)?;
            }
            Sync::Dsync => {
                let pieces = [std::io::IoSlice::new(&self.bytes)];
                let flags = ReadWriteFlags::DSYNC;
                let written = rustix::io::pwritev2(&self.file, &pieces, self.at, flags)?;
                if written != self.bytes.len() {
                    return Err(std::io::ErrorKind::WriteZero.into());
                }
            }
        }
        self.at += length;
        Ok(())
    }
}

/// Writes these bytes and syncs the file's data, in one submission.
fn write_by_ring(ring: &mut IoUring, file: &File, at: u64, bytes: &[u8]) -> std::io::Result<()> {
    const WRITE: u64 = 1;
    let file = Fd(file.as_raw_fd());
    let write = opcode::Write::new(file, bytes.as_ptr(), bytes.len() as u32).offset(at).build();
    let sync = opcode::Fsync::new(file).flags(FsyncFlags::DATASYNC).build();
    // SAFETY: file and bytes are borrowed until both entries have completed, below; a submission
    // that fails leaves them in the ring, which is not entered again, as the run ends with it.
    let pushed = unsafe {
        let entries = [write.flags(Flags::IO_LINK).user_data(WRITE), sync.user_data(WRITE + 1)];
        ring.submission().push_multiple(&entries)
    };
    pushed.map_err(std::io::Error::other)?;
    let mut left = 2;
    let mut outcome = Ok(());
    while left > 0 {
        match ring.submit_and_wait(left) {
            Err(error) if error.kind() != std::io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for completed in ring.completion() {
            left -= 1;
            let result = completed.result();
            let is_short = completed.user_data() == WRITE && result != bytes.len() as i32;
            if result < 0 {
                outcome = outcome.and(Err(std::io::Error::from_raw_os_error(-result)));
            } else if is_short {
                outcome = Err(std::io::ErrorKind::WriteZero.into());
            }
        }
    }
    outcome
}

impl Drop for RawLog {
    fn drop(&mut self) {
        // A run that fails otherwise has reported its error.
        let _ = std::fs::remove_file(&self.path);
    }
}
