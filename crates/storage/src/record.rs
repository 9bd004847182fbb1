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
        let file = disk.open(&beside, OpenMode::Create)?;
        file.write_at(0, &bytes)?;
        // Of the whole file: a crash may have left a longer one of this name, and `write_and_sync`
        // does not make it durable that the file was emptied.
        file.sync()?;
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::sim::{Fault, SimDisk};

    const KIND: RecordKind = RecordKind { magic: b"TEST", version: 1, bytes_max: 1 << 10 };

    /// After a failed write has left a longer file beside, a crash still leaves a whole record.
    #[test]
    fn a_record_is_whole_after_a_longer_one_was_left_half_written() {
        let dir = Path::new("/records");
        let write = |disk: &SimDisk, len: u8| KIND.write(disk, dir, "one", &vec![len; len.into()]);
        for at in 1..10 {
            for seed in 0..20 {
                let disk = SimDisk::new(seed);
                disk.create_dir_all(dir).unwrap();
                write(&disk, 7).unwrap();
                disk.fail_operation(disk.operations() + 3, Fault::Io);
                write(&disk, 200).unwrap_err();
                disk.heal();
                disk.fail_operation(disk.operations() + at, Fault::Crash);
                let written = write(&disk, 9).is_ok();
                disk.crash();
                disk.restart();
                let all = |reader: &mut Reader<'_>| {
                    let rest = reader.rest().len();
                    Ok(reader.take(rest)?.to_vec())
                };
                let found = KIND.read(&disk, &dir.join("one"), all).unwrap().unwrap();
                let expected = [vec![7; 7], vec![9; 9]];
                assert!(expected.contains(&found), "{found:?}, {at}, {seed}");
                assert!(!written || found == expected[1], "{found:?}, {at}, {seed}");
            }
        }
    }
}
