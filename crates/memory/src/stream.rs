//! Files of a checkpoint: a stream of bytes in blocks with checksums, written once.
//!
//! ```text
//! block, one after another
//!   0  length   u32 bytes of the payload, at most 1 MiB; 0 ends the file
//!   4  crc      u32 CRC32C of the file's number (u64), the block's index (u64) and the payload
//!   8  payload
//! ```
//!
//! The end block has no payload. Each checksum covers the block's index in the file, so a reader
//! detects that a block is missing. Each checksum also covers the file's number, so a reader
//! detects a block of another file. All integers are little-endian.

use std::path::Path;
use std::sync::Arc;

use spillway_base::checksum::{crc32c, crc32c_append};
use spillway_base::codec::Reader;
use spillway_base::{Error, Result, thread};
use spillway_storage::{Disk, File, OpenMode};

const BLOCK_BYTES: usize = 1 << 20;
const HEAD_BYTES: usize = 8;

/// The position of a block; by default, of the first.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Position {
    /// Offset in the file, in bytes.
    pub(crate) offset: u64,
    /// The number of blocks before it.
    pub(crate) index: u64,
}

impl Position {
    /// The position past a payload that [`Writer::write_apart`] wrote here.
    pub(crate) fn past(self, payload_bytes: usize) -> Position {
        let blocks = payload_bytes.div_ceil(BLOCK_BYTES) as u64;
        let bytes = (payload_bytes as u64).saturating_add(blocks * HEAD_BYTES as u64);
        // A damaged file may have any length and any position. No block is past the end of a file.
        let (offset, index) =
            (self.offset.saturating_add(bytes), self.index.saturating_add(blocks));
        Position { offset, index }
    }
}

fn crc(number: u64, index: u64, payload: &[u8]) -> u32 {
    let crc = crc32c(&number.to_le_bytes());
    crc32c_append(crc32c_append(crc, &index.to_le_bytes()), payload)
}

/// Writes a stream to a new file.
pub(crate) struct Writer {
    file: Arc<dyn File>,
    number: u64,
    position: Position,
    block: Vec<u8>,
}

impl Writer {
    pub(crate) fn create(disk: &dyn Disk, path: &Path, number: u64) -> Result<Writer> {
        let file = disk.open(path, OpenMode::Create)?;
        let block = vec![0; HEAD_BYTES];
        Ok(Writer { file, number, position: Position::default(), block })
    }

    /// Lets `bytes` append to the buffer, and writes the buffer if it is half a block or longer.
    pub(crate) fn put(&mut self, bytes: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        bytes(&mut self.block);
        if self.block.len() >= BLOCK_BYTES / 2 {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        for payload in std::mem::take(&mut self.block)[HEAD_BYTES..].chunks(BLOCK_BYTES) {
            self.write(payload)?;
        }
        self.block.resize(HEAD_BYTES, 0);
        Ok(())
    }

    /// Writes a payload into blocks of its own, so that a reader can start at its position.
    pub(crate) fn write_apart(&mut self, payload: &[u8]) -> Result<()> {
        self.flush()?;
        payload.chunks(BLOCK_BYTES).try_for_each(|payload| self.write(payload))
    }

    /// The position of the next block. Bytes of [`Writer::put`] that are not written yet come
    /// before it.
    pub(crate) fn position(&self) -> Position {
        self.position
    }

    fn write(&mut self, payload: &[u8]) -> Result<()> {
        let Position { offset, index } = self.position;
        let mut block = Vec::with_capacity(HEAD_BYTES + payload.len());
        block.extend_from_slice(&(payload.len() as u32).to_le_bytes());
        block.extend_from_slice(&crc(self.number, index, payload).to_le_bytes());
        block.extend_from_slice(payload);
        thread::blocking(|| self.file.write_at(offset, &block))?;
        self.position = Position { offset: offset + block.len() as u64, index: index + 1 };
        Ok(())
    }

    /// Writes the end block and makes the file durable. Returns the file's length.
    pub(crate) fn finish(mut self) -> Result<u64> {
        self.flush()?;
        self.write(&[])?;
        thread::blocking(|| self.file.sync())?;
        Ok(self.position.offset)
    }
}

/// Reads a stream, a block at a time.
pub(crate) struct Blocks {
    file: Arc<dyn File>,
    path: String,
    number: u64,
    position: Position,
    len: u64,
}

impl Blocks {
    pub(crate) fn open(disk: &dyn Disk, path: &Path, number: u64) -> Result<Blocks> {
        let file = disk.open(path, OpenMode::Read)?;
        Blocks::of_file(file, path.display().to_string(), number)
    }

    /// As [`Blocks::open`], for an open file.
    pub(crate) fn of_file(file: Arc<dyn File>, path: String, number: u64) -> Result<Blocks> {
        let len = file.len()?;
        Ok(Blocks { file, path, number, position: Position::default(), len })
    }

    pub(crate) fn file(&self) -> Arc<dyn File> {
        self.file.clone()
    }

    /// Continues at a position.
    pub(crate) fn at(self, position: Position) -> Blocks {
        Blocks { position, ..self }
    }

    /// An error that names the file.
    pub(crate) fn damaged(&self, what: &str) -> Error {
        Error::corruption(format!("{}: {what}", self.path))
    }

    fn mismatch(&self, position: Position) -> Error {
        let offset = position.offset;
        self.damaged(&format!("the block at byte {offset} does not match its checksum"))
    }

    /// The length of the payload at a position, and its expected checksum.
    fn head(&self, position: Position) -> Result<(usize, u32)> {
        let Position { offset, .. } = position;
        // The position may come from a damaged manifest.
        let fits =
            |bytes: usize| offset.checked_add(bytes as u64).is_some_and(|end| end <= self.len);
        if !fits(HEAD_BYTES) {
            return Err(self.mismatch(position));
        }
        let mut head = [0; HEAD_BYTES];
        thread::blocking(|| self.file.read_at(offset, &mut head))?;
        let mut reader = Reader::new(&head);
        let (len, expected) = (reader.u32()? as usize, reader.u32()?);
        if len > BLOCK_BYTES || !fits(HEAD_BYTES + len) {
            return Err(self.mismatch(position));
        }
        Ok((len, expected))
    }

    /// The positions of all blocks from here on, the end block too. Only the blocks' lengths are
    /// read, and these are not verified: [`Blocks::read`] of every position does that.
    pub(crate) fn positions(&self) -> Result<Vec<Position>> {
        let mut positions = vec![self.position];
        loop {
            let last = *positions.last().expect("it has one");
            match self.head(last)? {
                (0, _) => return Ok(positions),
                (len, _) => positions.push(last.past(len)),
            }
        }
    }

    /// Appends the payload of the block at a position to `out`. Returns the position of the next
    /// block; `None` at the end.
    pub(crate) fn read(&self, position: Position, out: &mut Vec<u8>) -> Result<Option<Position>> {
        let (len, expected) = self.head(position)?;
        let begin = out.len();
        out.resize(begin + len, 0);
        let at = position.offset + HEAD_BYTES as u64;
        thread::blocking(|| self.file.read_at(at, &mut out[begin..]))?;
        if crc(self.number, position.index, &out[begin..]) != expected {
            return Err(self.mismatch(position));
        }
        Ok((len > 0).then(|| position.past(len)))
    }

    /// Appends the next block's payload to `out`; `false` at the end.
    pub(crate) fn next(&mut self, out: &mut Vec<u8>) -> Result<bool> {
        let next = self.read(self.position, out)?;
        self.position = next.unwrap_or(self.position);
        Ok(next.is_some())
    }

    /// Reads the rest of the stream.
    pub(crate) fn rest(mut self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        while self.next(&mut bytes)? {}
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spillway_base::ErrorKind;
    use spillway_base::rng::Rng;
    use spillway_storage::sim::SimDisk;

    #[test]
    fn a_stream_comes_back_and_every_flipped_bit_is_found() {
        let disk = SimDisk::new(0);
        let path = Path::new("/f");
        let mut rng = Rng::new(5);
        for bytes in [0, 1, 100, BLOCK_BYTES / 2, 2 * BLOCK_BYTES + 7] {
            let mut wanted = vec![0; bytes];
            rng.fill(&mut wanted);
            let mut writer = Writer::create(&disk, path, 9).unwrap();
            for part in wanted.chunks(70_001) {
                writer.put(|out| out.extend_from_slice(part)).unwrap();
            }
            let len = writer.finish().unwrap();
            let blocks = Blocks::open(&disk, path, 9).unwrap();
            let mut read = Vec::new();
            for position in blocks.positions().unwrap() {
                blocks.read(position, &mut read).unwrap();
            }
            assert_eq!((read, blocks.rest().unwrap()), (wanted.clone(), wanted));
            let other = Blocks::open(&disk, path, 8).unwrap().rest();
            assert_eq!(other.unwrap_err().kind(), ErrorKind::Corruption);
            for _ in 0..20 {
                let file = disk.open(path, OpenMode::Write).unwrap();
                let (at, mut byte) = (rng.below(len), [0]);
                file.read_at(at, &mut byte).unwrap();
                file.write_at(at, &[byte[0] ^ 1 << rng.below(8)]).unwrap();
                let read = Blocks::open(&disk, path, 9).unwrap().rest();
                assert_eq!(read.unwrap_err().kind(), ErrorKind::Corruption);
                file.write_at(at, &byte).unwrap();
            }
            disk.open(path, OpenMode::Write).unwrap().set_len(len - 1).unwrap();
            assert!(Blocks::open(&disk, path, 9).unwrap().rest().is_err());
        }
    }
}
