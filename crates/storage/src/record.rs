//! Small files that are written atomically: the identity of a folder and of its owner.
//!
//! # Format
//! Little-endian: a magic of four bytes, the version (u16), a body, and the CRC32C of the preceding
//! bytes (u32).

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use spillway_base::checksum::crc32c;
use spillway_base::codec::Reader;
use spillway_base::{Error, ErrorKind, Result, clock};

use crate::{Disk, OpenMode};

/// A kind of record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordKind {
    /// Its first bytes.
    pub magic: &'static [u8; 4],
    /// The version of the body that is written, and the only one that is read.
    pub version: u16,
    /// The most bytes of such a record.
    pub bytes_max: u64,
}

impl RecordKind {
    /// Encodes a record with this body.
    #[must_use]
    pub fn encode(&self, body: &[u8]) -> Vec<u8> {
        let mut bytes = [&self.magic[..], &self.version.to_le_bytes(), body].concat();
        bytes.extend_from_slice(&crc32c(&bytes).to_le_bytes());
        bytes
    }

    /// Decodes a record. `decode` must read the whole body.
    ///
    /// # Errors
    /// [`ErrorKind::Corruption`], [`ErrorKind::UnsupportedFormat`], those of `decode`.
    pub fn decode<T>(
        &self,
        bytes: &[u8],
        decode: impl FnOnce(&mut Reader<'_>) -> Result<T>,
    ) -> Result<T> {
        let sum_at =
            bytes.len().checked_sub(4).ok_or_else(|| Error::corruption("it is cut off"))?;
        let (body, sum) = bytes.split_at(sum_at);
        if crc32c(body).to_le_bytes() != *sum || !body.starts_with(self.magic) {
            return Err(Error::corruption("its checksum is wrong"));
        }
        let mut reader = Reader::new(&body[self.magic.len()..]);
        let version = reader.u16()?;
        if version != self.version {
            let text = format!("version {version}; this program knows {}", self.version);
            return Err(Error::new(ErrorKind::UnsupportedFormat, text));
        }
        let decoded = decode(&mut reader)?;
        if !reader.is_empty() {
            return Err(Error::corruption("it has more than a record of its kind"));
        }
        Ok(decoded)
    }

    /// Reads a record; `None` if it does not exist.
    ///
    /// # Errors
    /// As [`RecordKind::decode`], and [`ErrorKind::Io`], with the file's name.
    pub fn read<T>(
        &self,
        disk: &dyn Disk,
        path: &Path,
        decode: impl FnOnce(&mut Reader<'_>) -> Result<T>,
    ) -> Result<Option<T>> {
        if !disk.exists(path)? {
            return Ok(None);
        }
        let file = disk.open(path, OpenMode::Read)?;
        let mut bytes = vec![0; file.len()?.min(self.bytes_max) as usize];
        file.read_at(0, &mut bytes)?;
        self.decode(&bytes, decode).map(Some).map_err(|error| error.context(path.display()))
    }

    /// Writes a record into a folder, durably, and replaces one of the same name.
    ///
    /// # Errors
    /// As [`Disk::open`]; the previous record then still exists.
    pub fn write(&self, disk: &dyn Disk, dir: &Path, name: &str, body: &[u8]) -> Result<()> {
        let bytes = self.encode(body);
        let beside = dir.join(format!("{name}.new"));
        disk.open(&beside, OpenMode::Create)?.write_and_sync(0, &bytes)?;
        disk.rename(&beside, &dir.join(name))?;
        disk.sync_dir(dir)
    }
}

/// A number that no database, log or backup had before.
#[must_use]
pub fn new_number() -> [u8; 16] {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut number = [0; 16];
    number[..8].copy_from_slice(&(clock::wall().as_nanos() as u64).to_le_bytes());
    let within = NEXT.fetch_add(1, Ordering::Relaxed) << 32 | u64::from(std::process::id());
    number[8..].copy_from_slice(&within.to_le_bytes());
    number
}

/// Reads such a number from a record.
///
/// # Errors
/// [`ErrorKind::Corruption`] if too few bytes are left.
pub fn number(reader: &mut Reader<'_>) -> Result<[u8; 16]> {
    Ok(reader.take(16)?.try_into().expect("16 bytes were asked for"))
}
