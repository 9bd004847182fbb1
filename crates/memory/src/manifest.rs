//! The manifest of a checkpoint lists all files of the checkpoint. The manifest of the next
//! checkpoint replaces it atomically.
//!
//! The manifest is a stream (see [`crate::stream`]) with the file number 0. Integers are
//! little-endian:
//!
//! ```text
//! magic     8       "SPLWMEM2"
//! number    u64     of the checkpoint, from 1
//! csn       u64     of the checkpoint (MEMORY-3)
//! files     u64     the numbers of all files are below this one
//! segments  u32     how many segments have rows; then of each:
//!   handle  u32     the number by which places name the segment
//!   lane    u32     its lane, or 0xFFFFFFFF: log compaction made it
//!   number  u64     its number in the lane, or the number of the compacted segment's file
//! tables    u32     how many; then of each:
//!   id      u32
//!   created u64     the CSN that created the table
//!   index   u64     number of the file with its index (see [`crate::index_file`])
//!   keys    u64     number of keys in this file
//!   offset  u64     offset of the file's directory, in bytes
//!   blocks  u64     number of the stream's blocks before the directory
//!   pages   u32     number of files with pages of its array, the oldest first; then of each:
//!     file  u64     the file's number
//!     count u64     number of pages in it
//!   ranges  u32     deleted ranges whose rows are not all removed; then of each:
//!     start bytes   the first key, after its length (varint)
//!     ends  u8      1: an end follows
//!     end   bytes   the first key past the range, after its length (varint)
//!     csn   u64     the commit that deleted the range
//!     upto  u64     versions up to this CSN are deleted
//! ```

use std::path::Path;

use spillway_base::codec::{Reader, put_bytes};
use spillway_base::{Csn, EngineKind, Error, ErrorKind, Result, TableId};
use spillway_storage::Disk;

use crate::index_file::IndexFile;
use crate::segments::Origin;
use crate::stream::{Blocks, Position, Writer};
use crate::table::DeletedRange;

const MAGIC: &[u8; 7] = b"SPLWMEM";
const FORMAT: u8 = b'2';
/// The name of the manifest's file.
pub(crate) const NAME: &str = "checkpoint";
const NEW_NAME: &str = "checkpoint.tmp";

/// Kinds of a checkpoint's files, as in their names: array pages, an index, compacted rows.
pub(crate) const PAGES: &str = "pages";
pub(crate) const INDEX: &str = "index";
pub(crate) const ROWS: &str = "rows";

/// The name of a checkpoint's file.
pub(crate) fn file_name(number: u64, kind: &str) -> String {
    format!("{number:016x}.{kind}")
}

/// A file with pages of a table's array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PageFile {
    pub(crate) number: u64,
    pub(crate) pages: u64,
}

/// The files of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TableFiles {
    pub(crate) id: TableId,
    pub(crate) created: Csn,
    pub(crate) index: IndexFile,
    /// The oldest first. A page in a later file replaces the page in an earlier file.
    pub(crate) pages: Vec<PageFile>,
    pub(crate) ranges: Vec<DeletedRange>,
}

/// The content of a manifest.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Manifest {
    pub(crate) number: u64,
    pub(crate) csn: Csn,
    /// Files have numbers below this one.
    pub(crate) files: u64,
    pub(crate) segments: Vec<(u32, Origin)>,
    pub(crate) tables: Vec<TableFiles>,
}

impl Manifest {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(MAGIC);
        out.push(FORMAT);
        let u64s = |out: &mut Vec<u8>, value: u64| out.extend_from_slice(&value.to_le_bytes());
        let u32s = |out: &mut Vec<u8>, value: u32| out.extend_from_slice(&value.to_le_bytes());
        [self.number, self.csn.0, self.files].into_iter().for_each(|value| u64s(&mut out, value));
        u32s(&mut out, self.segments.len() as u32);
        for (handle, origin) in &self.segments {
            let (lane, number) = origin.numbers();
            u32s(&mut out, *handle);
            u32s(&mut out, lane);
            u64s(&mut out, number);
        }
        u32s(&mut out, self.tables.len() as u32);
        for table in &self.tables {
            u32s(&mut out, table.id.0);
            let IndexFile { number, keys, directory } = table.index;
            [table.created.0, number, keys, directory.offset, directory.index]
                .into_iter()
                .for_each(|value| u64s(&mut out, value));
            u32s(&mut out, table.pages.len() as u32);
            for file in &table.pages {
                [file.number, file.pages].into_iter().for_each(|value| u64s(&mut out, value));
            }
            u32s(&mut out, table.ranges.len() as u32);
            for range in &table.ranges {
                put_bytes(&mut out, &range.start);
                out.push(u8::from(range.end.is_some()));
                range.end.iter().for_each(|end| put_bytes(&mut out, end));
                [range.csn.0, range.upto.0].into_iter().for_each(|value| u64s(&mut out, value));
            }
        }
        out
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Manifest> {
        let mut reader = Reader::new(bytes);
        if reader.take(MAGIC.len())? != MAGIC {
            return Err(Error::corruption("it is no checkpoint of the memory engine"));
        }
        let format = reader.u8()?;
        if format != FORMAT {
            return Err(Error::new(
                ErrorKind::UnsupportedFormat,
                format!("the checkpoint has format {format}; this version reads format {FORMAT}"),
            ));
        }
        let mut manifest = Manifest {
            number: reader.u64()?,
            csn: Csn(reader.u64()?),
            files: reader.u64()?,
            ..Manifest::default()
        };
        for _ in 0..reader.u32()? {
            let (handle, lane) = (reader.u32()?, reader.u32()?);
            manifest.segments.push((handle, Origin::from_numbers(lane, reader.u64()?)));
        }
        for _ in 0..reader.u32()? {
            let id = TableId(reader.u32()?);
            if id.engine() != Some(EngineKind::Memory) {
                return Err(Error::corruption(format!("{id:?} is no table of the memory engine")));
            }
            let created = Csn(reader.u64()?);
            let index = IndexFile {
                number: reader.u64()?,
                keys: reader.u64()?,
                directory: Position { offset: reader.u64()?, index: reader.u64()? },
            };
            let mut table =
                TableFiles { id, created, index, pages: Vec::new(), ranges: Vec::new() };
            for _ in 0..reader.u32()? {
                table.pages.push(PageFile { number: reader.u64()?, pages: reader.u64()? });
            }
            for _ in 0..reader.u32()? {
                let start = reader.bytes()?.to_vec();
                let end = match reader.u8()? {
                    0 => None,
                    _ => Some(reader.bytes()?.to_vec()),
                };
                let (csn, upto) = (Csn(reader.u64()?), Csn(reader.u64()?));
                table.ranges.push(DeletedRange { start, end, csn, upto });
            }
            manifest.tables.push(table);
        }
        if !reader.is_empty() {
            return Err(Error::corruption("the checkpoint is longer than it says"));
        }
        Ok(manifest)
    }

    /// Makes this the checkpoint of a folder, durably. After an error either this or the previous
    /// checkpoint is in effect, so the caller keeps the files of both. Returns the length of the
    /// manifest's file.
    pub(crate) fn write(&self, disk: &dyn Disk, dir: &Path) -> Result<u64> {
        let new = dir.join(NEW_NAME);
        let mut writer = Writer::create(disk, &new, 0)?;
        writer.put(|out| out.extend_from_slice(&self.encode()))?;
        let bytes = writer.finish()?;
        disk.rename(&new, &dir.join(NAME))?;
        disk.sync_dir(dir)?;
        Ok(bytes)
    }

    /// Removes what a failed call of [`Manifest::write`] has left.
    pub(crate) fn remove_unfinished(disk: &dyn Disk, dir: &Path) {
        // The next call overwrites the file.
        let _ = disk.remove(&dir.join(NEW_NAME));
    }

    /// The checkpoint of a folder.
    pub(crate) fn read(disk: &dyn Disk, dir: &Path) -> Result<Option<Manifest>> {
        let path = dir.join(NAME);
        if !disk.exists(&path)? {
            return Ok(None);
        }
        let bytes = Blocks::open(disk, &path, 0)?.rest()?;
        let manifest = Manifest::decode(&bytes);
        manifest
            .map(Some)
            .map_err(|error| Error::new(error.kind(), format!("{}: {error}", path.display())))
    }

    /// The numbers of all its files.
    pub(crate) fn file_numbers(&self) -> impl Iterator<Item = u64> {
        let tables = self.tables.iter().flat_map(|table| {
            table.pages.iter().map(|file| file.number).chain([table.index.number])
        });
        let compacted = self.segments.iter().filter_map(|(_, origin)| match origin {
            Origin::Compacted { number } => Some(*number),
            Origin::Log { .. } => None,
        });
        tables.chain(compacted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use spillway_base::rng::Rng;

    #[test]
    fn a_manifest_comes_back_and_any_bytes_are_survived() {
        let range = |end: Option<&[u8]>| DeletedRange {
            start: vec![1, 2],
            end: end.map(<[u8]>::to_vec),
            csn: Csn(9),
            upto: Csn(7),
        };
        let manifest = Manifest {
            number: 3,
            csn: Csn(77),
            files: 12,
            segments: vec![
                (4, Origin::Log { lane: 1, segment: 8 }),
                (7, Origin::Compacted { number: 3 }),
            ],
            tables: vec![TableFiles {
                id: TableId::new(EngineKind::Memory, 5),
                created: Csn(2),
                index: IndexFile {
                    number: 9,
                    keys: 100,
                    directory: Position { offset: 4000, index: 2 },
                },
                pages: vec![PageFile { number: 1, pages: 4 }, PageFile { number: 10, pages: 1 }],
                ranges: vec![range(None), range(Some(b"z"))],
            }],
        };
        let bytes = manifest.encode();
        assert_eq!(Manifest::decode(&bytes).unwrap(), manifest);
        assert_eq!(manifest.file_numbers().collect::<Vec<_>>(), [1, 10, 9, 3]);
        let mut rng = Rng::new(1);
        for _ in 0..5000 {
            let mut noisy = bytes.clone();
            let at = rng.below(noisy.len() as u64) as usize;
            noisy[at] = rng.next_u64() as u8;
            noisy.truncate(rng.below(noisy.len() as u64 + 1) as usize);
            let _ = Manifest::decode(&noisy);
        }
    }
}
