//! A backup's catalogue: its metadata, without the bytes of extents and log.
//!
//! The file begins with `SWBK` and the version (2 bytes), and ends with the CRC32C of the preceding
//! bytes (4 bytes). Between these, little-endian:
//!
//! ```text
//! number           u64, of the backup
//! identity         16 bytes, of the database
//! taken            u64, when the backup began: milliseconds of the wall clock since 1970
//! persisted        u64, the CSN up to which the copied files of both engines have all commits
//! through          u64, the CSN up to which the backup has all commits
//! log              bytes u64, CRC32C u32, commits u64, of the backup's file of commits
//! segment bytes    u64, the size of a segment of the database's log
//! new extents      u64, the number of extents that this backup copied
//! new bytes        u64, of these extents, and of the memory engine's files that this backup copied
//! version          length u32, text: the version of Spillway that wrote the backup
//! manifest         length u64, bytes: the tiered engine's manifest, which names all extents of the
//!                  backup, with the CRC32C of each
//! memory files     count u32, then of each: folder u8 (0: the memory engine's, 1: the log's), name
//!                  (length varint, text), bytes u64, CRC32C u32
//! ```

#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Duration;

use spillway_base::codec::{Reader, put_bytes};
use spillway_base::{Csn, Error, Result};
use spillway_memory::is_pinned_name;
use spillway_storage::Disk;
use spillway_storage::record::{self, RecordKind};
use spillway_tiered::{Copied, ExtentCopy};

use crate::log_home::Number;

const RECORD: RecordKind = RecordKind { magic: b"SWBK", version: 4, bytes_max: u64::MAX };

/// A backup's description.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Backup {
    /// Its number in the repository.
    pub number: u64,
    /// When it began, by the wall clock, since 1970.
    pub taken: Duration,
    /// The last commit in it.
    pub through: Csn,
    /// Extents in it.
    pub extents: u64,
    /// Bytes of those extents.
    pub data_bytes: u64,
    /// Bytes of the memory engine's files: its checkpoint, and the segments with its rows.
    pub memory_bytes: u64,
    /// Commits that are in its log.
    pub log_commits: u64,
    /// Bytes of that log.
    pub log_bytes: u64,
    /// Extents that were copied for it. The repository already had the others.
    pub new_extents: u64,
    /// Bytes of extents and of the memory engine's files that were copied for it.
    pub new_bytes: u64,
    /// The version of Spillway that took it.
    pub version: String,
}

/// A file of the memory engine, as a backup has it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct MemoryFile {
    /// Whether it belongs in the log's folder.
    pub(super) in_log: bool,
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) crc: u32,
}

pub(super) struct Catalogue {
    pub(super) backup: Backup,
    pub(super) identity: Number,
    pub(super) persisted: Csn,
    pub(super) log_crc: u32,
    pub(super) segment_bytes: u64,
    pub(super) manifest: Vec<u8>,
    /// The extents of the manifest.
    pub(super) extents: Vec<ExtentCopy>,
    pub(super) memory: Vec<MemoryFile>,
}

pub(super) fn file_name(number: u64) -> String {
    format!("{number:06}.backup")
}

/// The name of a catalogue that is being written.
pub(super) fn new_name(number: u64) -> String {
    format!("{}.new", file_name(number))
}

pub(super) fn parse_name(name: &str) -> Option<u64> {
    name.strip_suffix(".backup")?.parse().ok()
}

impl Catalogue {
    /// Makes the backup valid by writing its catalogue.
    pub(super) fn write(&self, disk: &dyn Disk, dir: &Path) -> Result<()> {
        RECORD.write(disk, dir, &file_name(self.backup.number), &self.encode())
    }

    fn encode(&self) -> Vec<u8> {
        let Catalogue { backup, manifest, .. } = self;
        let mut body = Vec::with_capacity(manifest.len() + 200);
        body.extend_from_slice(&backup.number.to_le_bytes());
        body.extend_from_slice(&self.identity);
        let taken = backup.taken.as_millis() as u64;
        let figures = [taken, self.persisted.0, backup.through.0, backup.log_bytes];
        figures.iter().for_each(|figure| body.extend_from_slice(&figure.to_le_bytes()));
        body.extend_from_slice(&self.log_crc.to_le_bytes());
        let figures =
            [backup.log_commits, self.segment_bytes, backup.new_extents, backup.new_bytes];
        figures.iter().for_each(|figure| body.extend_from_slice(&figure.to_le_bytes()));
        body.extend_from_slice(&(backup.version.len() as u32).to_le_bytes());
        body.extend_from_slice(backup.version.as_bytes());
        body.extend_from_slice(&(manifest.len() as u64).to_le_bytes());
        body.extend_from_slice(manifest);
        body.extend_from_slice(&(self.memory.len() as u32).to_le_bytes());
        for file in &self.memory {
            body.push(u8::from(file.in_log));
            put_bytes(&mut body, file.name.as_bytes());
            body.extend_from_slice(&file.bytes.to_le_bytes());
            body.extend_from_slice(&file.crc.to_le_bytes());
        }
        body
    }

    /// Reads the catalogue of a backup; `None` when there is no such backup.
    pub(super) fn read(disk: &dyn Disk, dir: &Path, number: u64) -> Result<Option<Catalogue>> {
        let path = dir.join(file_name(number));
        let read = RECORD.read(disk, &path, Catalogue::decode)?;
        match read {
            Some(read) if read.backup.number != number => Err(Error::corruption(format!(
                "{} is the catalogue of backup {}",
                path.display(),
                read.backup.number
            ))),
            read => Ok(read),
        }
    }

    fn decode(reader: &mut Reader<'_>) -> Result<Catalogue> {
        let number = reader.u64()?;
        let identity = record::number(reader)?;
        let taken = Duration::from_millis(reader.u64()?);
        let (persisted, through) = (Csn(reader.u64()?), Csn(reader.u64()?));
        let (log_bytes, log_crc) = (reader.u64()?, reader.u32()?);
        let (log_commits, segment_bytes) = (reader.u64()?, reader.u64()?);
        let (new_extents, new_bytes) = (reader.u64()?, reader.u64()?);
        let len = reader.u32()? as usize;
        let version = String::from_utf8(reader.take(len)?.to_vec())
            .map_err(|_| Error::corruption("a version that is not UTF-8"))?;
        let len = usize::try_from(reader.u64()?).unwrap_or(usize::MAX);
        let manifest = reader.take(len)?.to_vec();
        let extents = Copied::decode(&manifest)?.extents();
        if persisted.0.checked_add(log_commits) != Some(through.0) {
            return Err(Error::corruption("it makes no sense"));
        }
        let mut memory = Vec::new();
        for _ in 0..reader.u32()? {
            let in_log = match reader.u8()? {
                0 => false,
                1 => true,
                _ => return Err(Error::corruption("a file of no folder")),
            };
            let name = String::from_utf8_lossy(reader.bytes()?).into_owned();
            if !is_pinned_name(in_log, &name) {
                return Err(Error::corruption(format!("{name:?} is no file of the memory engine")));
            }
            memory.push(MemoryFile { in_log, name, bytes: reader.u64()?, crc: reader.u32()? });
        }
        let memory_bytes = memory.iter().map(|file| file.bytes).try_fold(0, u64::checked_add);
        let memory_bytes =
            memory_bytes.ok_or_else(|| Error::corruption("files larger than any disk"))?;
        let data_bytes = extents.iter().map(|copy| copy.bytes).try_fold(0_u64, u64::checked_add);
        let data_bytes =
            data_bytes.ok_or_else(|| Error::corruption("extents larger than any disk"))?;
        let backup = Backup {
            number,
            taken,
            through,
            extents: extents.len() as u64,
            data_bytes,
            memory_bytes,
            log_commits,
            log_bytes,
            new_extents,
            new_bytes,
            version,
        };
        Ok(Catalogue {
            backup,
            identity,
            persisted,
            log_crc,
            segment_bytes,
            manifest,
            extents,
            memory,
        })
    }
}

#[cfg(fuzzing)]
pub(crate) mod fuzz {
    use super::*;

    /// The bytes of the figures before the version.
    const FIGURES_BYTES: usize = 92;

    /// Decodes the bytes as a catalogue, and as parts of a catalogue whose lengths and checksums
    /// are valid.
    pub(crate) fn catalogue(bytes: &[u8]) {
        body(bytes);
        let mut reader = Reader::new(bytes);
        let (Ok(figures), Ok(version), Ok(edits)) =
            (reader.take(FIGURES_BYTES), reader.bytes(), reader.bytes())
        else {
            return;
        };
        let manifest = spillway_tiered::fuzz::manifest_of(edits);
        body(
            &[
                figures,
                &(version.len() as u32).to_le_bytes(),
                version,
                &(manifest.len() as u64).to_le_bytes(),
                &manifest,
                reader.rest(),
            ]
            .concat(),
        );
    }

    fn body(bytes: &[u8]) {
        let sealed = RECORD.encode(bytes);
        let Ok(catalogue) = RECORD.decode(&sealed, Catalogue::decode) else { return };
        assert_eq!(catalogue.encode(), bytes);
    }
}
