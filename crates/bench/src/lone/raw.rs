//! Raw durable writes.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use rustix::io::ReadWriteFlags;

/// How a raw write is made durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sync {
    /// `pwrite`, then `fdatasync`.
    Fdatasync,
    /// `pwritev2` with `RWF_DSYNC`: one call.
    Dsync,
}

/// A file of zeros whose blocks are on the disk, written from its begin to its end and over again.
pub(super) struct RawLog {
    file: File,
    path: PathBuf,
    sync: Sync,
    bytes: Vec<u8>,
    at: u64,
    file_bytes: u64,
}

impl RawLog {
    /// Makes the file, for writes of so many bytes.
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
        Ok(RawLog { file, path: path.to_owned(), sync, bytes, at: 0, file_bytes })
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

impl Drop for RawLog {
    fn drop(&mut self) {
        // A run that fails otherwise has told so.
        let _ = std::fs::remove_file(&self.path);
    }
}
