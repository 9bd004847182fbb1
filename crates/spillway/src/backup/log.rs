//! The file of a backup's commits: frames one after another (the format is on the page of
//! [`super`]).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use spillway_base::checksum::{crc32c, crc32c_append};
use spillway_base::{Error, Result};
use spillway_storage::{Disk, File, OpenMode};

/// Frames are gathered until they have this many bytes, and are then written together.
const BUFFER_BYTES: usize = 1 << 20;

pub(super) fn file_name(number: u64) -> String {
    format!("{number:06}.log")
}

/// Writes the file, frame by frame.
pub(super) struct Writer {
    file: Arc<dyn File>,
    buffer: Vec<u8>,
    at: u64,
    crc: u32,
}

impl Writer {
    pub(super) fn begin(disk: &dyn Disk, path: &Path) -> Result<Writer> {
        let file = disk.open(path, OpenMode::Create)?;
        Ok(Writer { file, buffer: Vec::new(), at: 0, crc: 0 })
    }

    pub(super) fn put(&mut self, lane: u32, frame: &[u8]) -> Result<()> {
        let start = self.buffer.len();
        self.buffer.extend_from_slice(&lane.to_le_bytes());
        self.buffer.extend_from_slice(&(frame.len() as u32).to_le_bytes());
        self.buffer.extend_from_slice(frame);
        let crc = crc32c(&self.buffer[start..]);
        self.buffer.extend_from_slice(&crc.to_le_bytes());
        if self.buffer.len() >= BUFFER_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        self.file.write_at(self.at, &self.buffer)?;
        self.crc = crc32c_append(self.crc, &self.buffer);
        self.at += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Makes the file durable. Returns its bytes and their CRC32C.
    pub(super) fn finish(mut self) -> Result<(u64, u32)> {
        self.write()?;
        self.file.sync()?;
        Ok((self.at, self.crc))
    }
}

/// Reads the file, verifies that it has `bytes` bytes and this CRC32C, and passes each frame on
/// with its lane.
pub(super) fn read(
    disk: &dyn Disk,
    path: PathBuf,
    (bytes, crc): (u64, u32),
    give: &mut dyn FnMut(u32, &[u8]) -> Result<()>,
) -> Result<()> {
    let damaged =
        |at: u64| Error::corruption(format!("{}: offset {at}: it is damaged", path.display()));
    let file = disk.open(&path, OpenMode::Read)?;
    if file.len()? != bytes {
        return Err(damaged(file.len()?.min(bytes)));
    }
    let (mut at, mut sum, mut frame) = (0, 0, Vec::new());
    while at < bytes {
        if bytes - at < 12 {
            return Err(damaged(at));
        }
        let mut head = [0; 8];
        file.read_at(at, &mut head)?;
        let number = |from: usize| {
            u32::from_le_bytes(head[from..from + 4].try_into().expect("four of eight bytes"))
        };
        let (lane, len) = (number(0), u64::from(number(4)));
        if bytes - at < 12 + len {
            return Err(damaged(at));
        }
        frame.resize(len as usize + 4, 0);
        file.read_at(at + 8, &mut frame)?;
        let (payload, stated) = frame.split_at(len as usize);
        if crc32c_append(crc32c(&head), payload).to_le_bytes() != *stated {
            return Err(damaged(at));
        }
        sum = crc32c_append(crc32c_append(sum, &head), &frame);
        give(lane, payload).map_err(|error| error.context(path.display()))?;
        at += 12 + len;
    }
    if sum == crc { Ok(()) } else { Err(damaged(0)) }
}
