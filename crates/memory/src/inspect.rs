//! Describes the engine: its tables, the log segments that have its rows, and its last checkpoint.
//!
//! [`crate::MemoryEngine::inspect`] describes an open engine. [`inspect_folder`] describes the
//! folder of a closed engine from its checkpoint, and reports damage.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use spillway_base::{Csn, ErrorKind, Result, TableId};
use spillway_storage::plog::KeptSegments;
use spillway_storage::{Disk, OpenMode};

use crate::manifest::{self, Manifest, TableFiles};
use crate::segments::Origin;

/// An engine.
#[derive(Clone, Default, Debug)]
pub struct MemoryInspection {
    /// Its tables, by number.
    pub tables: Vec<MemoryTableInspection>,
    /// The segments that have or had rows of the engine, by lane and number.
    pub segments: Vec<SegmentInspection>,
    /// The last checkpoint; `None` if there is none.
    pub checkpoint: Option<CheckpointInspection>,
    /// The engine's figures; `None` for a closed folder.
    pub figures: Option<MemoryFigures>,
    /// For a closed folder: files that are damaged or missing.
    pub damage: Vec<String>,
}

/// A table.
#[derive(Clone, Debug)]
pub struct MemoryTableInspection {
    /// The table's number.
    pub table: TableId,
    /// Keys in its index, including those of deleted rows that are not collected yet. For a closed
    /// folder, the keys in the checkpoint.
    pub keys: u64,
    /// Its memory; `None` for a closed folder.
    pub memory: Option<TableMemory>,
    /// The table in the last checkpoint; `None` if the checkpoint does not have it.
    pub stored: Option<StoredTable>,
}

/// The memory of a table.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct TableMemory {
    /// Rows whose newest version is in memory, including deletions.
    pub rows: u64,
    /// Rows that are only in the log.
    pub evicted_rows: u64,
    /// Bytes of versions, including older ones. Estimated from a sample of the rows.
    pub version_bytes: u64,
    /// Bytes of its index.
    pub index_bytes: u64,
    /// Bytes of its indirection array.
    pub array_bytes: u64,
    /// Deleted ranges whose rows are not removed yet.
    pub deleted_ranges: u64,
}

/// A table in a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct StoredTable {
    /// Keys in the file of its index.
    pub keys: u64,
    /// Files with pages of its array.
    pub page_files: u64,
    /// Pages in these files, each with 512 rows. A page in several files counts several times.
    pub pages: u64,
    /// Bytes of all these files.
    pub bytes: u64,
    /// Deleted ranges.
    pub deleted_ranges: u64,
}

/// A segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentInspection {
    /// Its lane in the log; `None` for a segment that log compaction wrote.
    pub lane: Option<u32>,
    /// Its number in the lane, or among the compacted segments.
    pub number: u64,
    /// Where it is.
    pub home: SegmentHome,
    /// The length of its file, if known.
    pub bytes: Option<u64>,
    /// Bytes of its live records; `None` for a closed folder.
    pub live_bytes: Option<u64>,
}

/// Where a segment is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SegmentHome {
    /// In the redo log.
    Log,
    /// Kept for its rows.
    Kept,
    /// In neither. The engine removes a segment without live rows even if the last checkpoint still
    /// names it.
    Missing,
}

/// A checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CheckpointInspection {
    /// Its number.
    pub number: u64,
    /// The checkpoint has exactly what a snapshot at this CSN sees.
    pub csn: Csn,
    /// The number of its files, including the manifest.
    pub files: u64,
    /// Total length of its files in bytes.
    pub bytes: u64,
    /// The number of segments that it names.
    pub segments: u64,
    /// Time since it was written; `None` if it was written before the opening.
    pub age: Option<Duration>,
}

/// Figures of an open engine.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MemoryFigures {
    /// Bytes of memory for versions, including free room in their pages.
    pub version_bytes: u64,
    /// Bytes of memory for indexes, including free room in their pages.
    pub index_bytes: u64,
    /// Bytes of memory for indirection arrays.
    pub array_bytes: u64,
    /// The stable CSN: every commit up to it is durable and visible.
    pub stable: Csn,
    /// The low watermark: of the versions up to it, only the newest of each row is kept.
    pub watermark: Csn,
    /// Rows with versions that wait to be collected.
    pub uncollected_rows: u64,
    /// Bytes of these versions, estimated from a sample of the rows.
    pub uncollected_bytes: u64,
    /// Commits whose place in the log is not known. Their rows cannot be evicted.
    pub unplaced_commits: u64,
    /// Rows evicted since the opening.
    pub evicted_total: u64,
    /// Rows read from the log since the opening.
    pub log_reads_total: u64,
}

impl MemoryInspection {
    /// About how many bytes of memory it takes.
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

/// Describes a checkpoint. Calls `missed` for each file that is missing or cannot be opened.
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

/// Describes the folder of a closed engine: the last checkpoint, the segments that it names, and
/// the kept segments. Changes nothing and reads no rows.
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

/// Looks for a segment that a checkpoint names.
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
