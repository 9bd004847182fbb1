//! Describes the engine: its tables, the log segments that have its rows, and its last checkpoint.
//!
//! [`crate::MemoryEngine::inspect`] describes an open engine, [`inspect_folder`] a folder that no
//! engine has open, from its checkpoint. The result includes damage in the folder.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use spillway_base::{Csn, ErrorKind, Result, TableId};
use spillway_storage::plog::KeptSegments;
use spillway_storage::{Disk, OpenMode};

use crate::manifest::{self, Manifest, TableFiles};
use crate::segments::Origin;

/// A whole engine.
#[derive(Clone, Default, Debug)]
pub struct MemoryInspection {
    /// Its tables, by number.
    pub tables: Vec<MemoryTableInspection>,
    /// The segments that have rows of it or had them, by lane and number.
    pub segments: Vec<SegmentInspection>,
    /// The last checkpoint; `None` if there is none.
    pub checkpoint: Option<CheckpointInspection>,
    /// The engine's figures; `None` for a closed folder.
    pub figures: Option<MemoryFigures>,
    /// The damage of a closed folder: files that are damaged or missing.
    pub damage: Vec<String>,
}

/// A table.
#[derive(Clone, Debug)]
pub struct MemoryTableInspection {
    /// The table.
    pub table: TableId,
    /// Keys in its index, those of deleted rows too until they are collected. For a closed folder,
    /// those that the checkpoint has.
    pub keys: u64,
    /// Its memory; `None` for a closed folder.
    pub memory: Option<TableMemory>,
    /// What the last checkpoint has of it, if anything.
    pub stored: Option<StoredTable>,
}

/// The memory of a table.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TableMemory {
    /// Rows whose newest version is in memory, a deletion too.
    pub rows: u64,
    /// Rows that are in the log alone.
    pub evicted_rows: u64,
    /// Bytes of versions, the older ones too. Estimated from a sample of the rows.
    pub version_bytes: u64,
    /// Bytes of its index.
    pub index_bytes: u64,
    /// Bytes of its indirection array.
    pub array_bytes: u64,
    /// Deleted ranges whose rows are not removed yet.
    pub deleted_ranges: u64,
}

/// What a checkpoint has of a table.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StoredTable {
    /// Keys in the file of its index.
    pub keys: u64,
    /// Files with pages of its array.
    pub page_files: u64,
    /// Pages in these files, each with 512 rows. A page may be in several of them.
    pub pages: u64,
    /// Bytes of all these files.
    pub bytes: u64,
    /// Deleted ranges.
    pub deleted_ranges: u64,
}

/// A segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentInspection {
    /// The log's lane; `None` for a segment that log compaction wrote.
    pub lane: Option<u32>,
    /// The number in its lane, or among the compacted segments.
    pub number: u64,
    /// Where it is.
    pub home: SegmentHome,
    /// The bytes of its file, if they are known.
    pub bytes: Option<u64>,
    /// Bytes of the records in it that a row needs; `None` for a closed folder.
    pub live_bytes: Option<u64>,
}

/// Where a segment is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SegmentHome {
    /// In the redo log.
    Log,
    /// Kept for its rows.
    Kept,
    /// In neither. The engine removes a segment without rows, which the last checkpoint may still
    /// name.
    Missing,
}

/// A checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckpointInspection {
    /// Its number.
    pub number: u64,
    /// It has exactly what a snapshot here sees.
    pub csn: Csn,
    /// Its files, with the one that names them.
    pub files: u64,
    /// The bytes of its files.
    pub bytes: u64,
    /// The number of segments that it names.
    pub segments: u64,
    /// The time since it was written; `None` if that was before the opening.
    pub age: Option<Duration>,
}

/// Figures of an open engine.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MemoryFigures {
    /// Bytes of memory that versions take, with free room on their pages.
    pub version_bytes: u64,
    /// Bytes of memory that indexes take, with free room on their pages.
    pub index_bytes: u64,
    /// Bytes of memory that indirection arrays take.
    pub array_bytes: u64,
    /// Every commit up to here is durable and visible.
    pub stable: Csn,
    /// Up to here, only the newest version of a row is kept.
    pub watermark: Csn,
    /// Rows with versions that wait to be collected.
    pub uncollected_rows: u64,
    /// Bytes of these versions, estimated from a sample of the rows.
    pub uncollected_bytes: u64,
    /// Commits whose place in the log is not known. Their rows cannot be evicted.
    pub unplaced_commits: u64,
    /// Rows that have left memory since the opening.
    pub evicted_total: u64,
    /// Rows that were read from the log since the opening.
    pub log_reads_total: u64,
}

impl MemoryInspection {
    /// Bytes of memory that it takes, about.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.tables.capacity() * size_of::<MemoryTableInspection>()
            + self.segments.capacity() * size_of::<SegmentInspection>()
            + self.damage.iter().map(String::capacity).sum::<usize>()
    }

    /// Whether there is nothing to show: no tables, no segments, and no damage.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty() && self.segments.is_empty() && self.damage.is_empty()
    }

    /// The kept segments.
    pub fn kept(&self) -> impl Iterator<Item = &SegmentInspection> {
        self.segments.iter().filter(|segment| segment.home == SegmentHome::Kept)
    }
}

impl SegmentInspection {
    pub(crate) fn new(origin: Origin, home: SegmentHome) -> SegmentInspection {
        let (lane, number) = match origin {
            Origin::Log { lane, segment } => (Some(lane), segment),
            Origin::Compacted { number } => (None, number),
        };
        SegmentInspection { lane, number, home, bytes: None, live_bytes: None }
    }
}

/// The length of a file, or `None` if there is none.
fn len_of(disk: &dyn Disk, path: &Path) -> Result<Option<u64>> {
    match disk.open(path, OpenMode::Read) {
        Ok(file) => file.len().map(Some),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Describes a checkpoint. `missed` is called for files that are not there or cannot be opened.
pub(crate) fn describe_checkpoint(
    disk: &dyn Disk,
    dir: &Path,
    manifest: &Manifest,
    missed: &mut dyn FnMut(String),
) -> (CheckpointInspection, BTreeMap<TableId, StoredTable>) {
    let mut bytes_of = |name: &str| {
        let path = dir.join(name);
        match len_of(disk, &path) {
            Ok(Some(bytes)) => return bytes,
            Ok(None) => missed(format!("{} is missing", path.display())),
            Err(error) => missed(format!("{}: {error}", path.display())),
        }
        0
    };
    let (mut files, mut bytes) = (1, bytes_of(manifest::NAME));
    let mut tables = BTreeMap::new();
    for table in &manifest.tables {
        let mut stored = stored_counts(table);
        stored.bytes = bytes_of(&manifest::file_name(table.index.number, manifest::INDEX));
        for pages in &table.pages {
            stored.bytes += bytes_of(&manifest::file_name(pages.number, manifest::PAGES));
        }
        files += 1 + stored.page_files;
        bytes += stored.bytes;
        tables.insert(table.id, stored);
    }
    let segments = manifest.segments.len() as u64;
    let (number, csn) = (manifest.number, manifest.csn);
    (CheckpointInspection { number, csn, files, bytes, segments, age: None }, tables)
}

fn stored_counts(table: &TableFiles) -> StoredTable {
    StoredTable {
        keys: table.index.keys,
        page_files: table.pages.len() as u64,
        pages: table.pages.iter().map(|file| file.pages).sum(),
        bytes: 0,
        deleted_ranges: table.ranges.len() as u64,
    }
}

/// Describes the folder of a closed engine: what the last checkpoint says, and the segments that it
/// names or that are kept. It changes nothing, and reads no rows.
#[must_use]
pub fn inspect_folder(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    log: &dyn KeptSegments,
) -> MemoryInspection {
    let mut inspection = MemoryInspection::default();
    let damage = &mut inspection.damage;
    let manifest = match Manifest::read(&**disk, dir) {
        Ok(manifest) => manifest,
        Err(error) => {
            damage.push(error.to_string());
            None
        }
    };
    let mut segments = BTreeMap::new();
    if let Some(manifest) = &manifest {
        let (checkpoint, stored) =
            describe_checkpoint(&**disk, dir, manifest, &mut |missed| damage.push(missed));
        inspection.checkpoint = Some(checkpoint);
        inspection.tables = stored
            .into_iter()
            .map(|(table, stored)| MemoryTableInspection {
                table,
                keys: stored.keys,
                memory: None,
                stored: Some(stored),
            })
            .collect();
        for (_, origin) in &manifest.segments {
            let found = find_segment(&**disk, dir, log, *origin);
            let found = found.unwrap_or_else(|error| {
                damage.push(error.to_string());
                SegmentInspection::new(*origin, SegmentHome::Missing)
            });
            segments.insert(*origin, found);
        }
    }
    match log.list() {
        Ok(kept) => {
            for kept in kept {
                let origin = Origin::Log { lane: kept.lane, segment: kept.segment };
                let segment = SegmentInspection::new(origin, SegmentHome::Kept);
                segments.insert(origin, SegmentInspection { bytes: Some(kept.bytes), ..segment });
            }
        }
        Err(error) => damage.push(error.to_string()),
    }
    inspection.segments = segments.into_values().collect();
    inspection
}

/// A segment that a checkpoint names.
fn find_segment(
    disk: &dyn Disk,
    dir: &Path,
    log: &dyn KeptSegments,
    origin: Origin,
) -> Result<SegmentInspection> {
    let (found, home) = match origin {
        Origin::Log { lane, segment } => (log.open(lane, segment), SegmentHome::Log),
        Origin::Compacted { number } => {
            let name = manifest::file_name(number, manifest::ROWS);
            (disk.open(&dir.join(name), OpenMode::Read), SegmentHome::Kept)
        }
    };
    match found {
        Ok(file) => {
            let bytes = Some(file.len()?);
            Ok(SegmentInspection { bytes, ..SegmentInspection::new(origin, home) })
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            Ok(SegmentInspection::new(origin, SegmentHome::Missing))
        }
        Err(error) => Err(error),
    }
}
