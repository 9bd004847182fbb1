//! The contents of a database, for inspection: levels, slices, memtables, compactions, and the
//! device space of the levels.
//!
//! An inspection uses the metadata of extents and slices, and reads no blocks.
//! `TieredEngine::inspect` inspects a running engine. All figures of one sub-table are of the same
//! moment; the figures of two sub-tables may be of different moments. [`Offline`] inspects a folder
//! that no database has open.

mod history;
mod offline;
mod space;
mod stats_snapshot;

use std::time::Duration;

use spillway_base::Csn;

pub use crate::temperature::{COLD as WARM_FROM, HOT as HOT_FROM};
pub use history::CompactionRecord;
pub(crate) use history::{History, Timer};
pub use offline::Offline;
pub use space::{ClassSpace, LevelSpace, TableSpace};
pub(crate) use space::{Ledger, PlacedSlice};
pub(crate) use stats_snapshot::StatsSnapshot;
#[cfg(fuzzing)]
pub(crate) use stats_snapshot::fuzz;

use crate::extent_meta::SliceMeta;
use crate::manifest::Place;
use crate::space::{ClassBytes, DeviceClass};

/// The names of codings, in the order of [`LevelSpace::coded_bytes`].
pub const CODINGS: [&str; 4] = ["none", "lz4", "zstd", "zstd with dictionary"];

/// A whole database.
#[derive(Clone, Debug, Default)]
pub struct Inspection {
    /// Bytes of a slot.
    pub slot_bytes: u64,
    /// The data files on each class of devices, the fastest first.
    pub files: Vec<FilesInspection>,
    /// Its tables, by number.
    pub tables: Vec<TableInspection>,
    /// The newest compactions, newest last. An open engine keeps them in memory. For a closed
    /// folder, they are those that its engine has stored last; `None` if it has not.
    pub compactions: Option<Vec<CompactionRecord>>,
    /// For a closed folder, the time when its engine stored compactions and temperatures, since the
    /// Unix epoch.
    pub as_of: Option<Duration>,
}

/// The bytes of memory of a key in addition to its own.
const KEY_BYTES: usize = 16;

impl Inspection {
    /// The approximate bytes of its memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.tables.iter().flat_map(|table| &table.subtables).map(SubTableInspection::bytes).sum()
    }

    /// The number of slices of the table that has the most.
    #[must_use]
    pub fn slices_of_largest(&self) -> usize {
        let slices = |table: &TableInspection| -> usize {
            table.subtables.iter().map(|part| part.slices.len()).sum()
        };
        self.tables.iter().map(slices).max().unwrap_or_default()
    }
}

/// The data files on devices of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FilesInspection {
    /// The class.
    pub class: DeviceClass,
    /// Bytes of the files for which the device has allocated space, as far as is known. For a
    /// closed folder, the bytes of extents.
    pub bytes: u64,
    /// Bytes among them that belong to no extent.
    pub free_bytes: u64,
}

impl From<ClassBytes> for FilesInspection {
    fn from(of: ClassBytes) -> FilesInspection {
        FilesInspection { class: of.class, bytes: of.all, free_bytes: of.free }
    }
}

/// A table.
#[derive(Clone, Debug)]
pub struct TableInspection {
    /// Its space.
    pub space: TableSpace,
    /// Its sub-tables, in key order.
    pub subtables: Vec<SubTableInspection>,
}

/// A sub-table.
#[derive(Clone, Debug)]
pub struct SubTableInspection {
    /// Its first key; empty if it begins before all keys.
    pub start: Box<[u8]>,
    /// The key before which it ends.
    pub end: Option<Box<[u8]>>,
    /// Commits up to this one are in extents.
    pub flushed: Csn,
    /// The memtables, newest first. The first takes writes. Offline there are none.
    pub memtables: Vec<MemtableInspection>,
    /// Sub-levels of Level0.
    pub sublevels: u64,
    /// Level0, Level1 and Level2.
    pub levels: [LevelSpace; 3],
    /// All slices: Level0 from the newest sub-level on, Level1, Level2, each in key order.
    pub slices: Vec<SliceInspection>,
    /// The damage that its compactions avoid, if any was found.
    pub quarantine: Option<String>,
}

impl SubTableInspection {
    /// The approximate bytes of its memory.
    fn bytes(&self) -> usize {
        let keys = |slice: &SliceInspection| keys_bytes(&slice.smallest, &slice.largest);
        size_of::<SubTableInspection>()
            + keys_bytes(&self.start, self.end.as_deref().unwrap_or_default())
            + self.memtables.len() * size_of::<MemtableInspection>()
            + self.slices.capacity() * size_of::<SliceInspection>()
            + self.slices.iter().map(keys).sum::<usize>()
    }
}

/// The bytes of memory of two keys.
fn keys_bytes(one: &[u8], other: &[u8]) -> usize {
    one.len() + other.len() + 2 * KEY_BYTES
}

/// A memtable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemtableInspection {
    /// Bytes of memory.
    pub bytes: u64,
    /// Keys, including those of other sub-tables after a split.
    pub keys: u64,
}

/// A slice: consecutive blocks of an extent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SliceInspection {
    /// 0, 1 or 2.
    pub level: u8,
    /// The sub-level's number, larger for newer ones; 0 in Level1 and Level2.
    pub sublevel: u64,
    /// The extent's number.
    pub extent: u64,
    /// Its first block in the extent.
    pub first_block: u32,
    /// Its blocks.
    pub blocks: u32,
    /// The extent's blocks.
    pub extent_blocks: u32,
    /// Its first key.
    pub smallest: Box<[u8]>,
    /// Its last key.
    pub largest: Box<[u8]>,
    /// Bytes of its blocks.
    pub block_bytes: u64,
    /// Its share of the extent's slots.
    pub slot_bytes: u64,
    /// Its share of the bytes of the extent's dead blocks.
    pub dead_bytes: u64,
    /// Bytes of keys and values, before coding.
    pub payload_bytes: u64,
    /// Versions.
    pub versions: u64,
    /// Distinct keys.
    pub keys: u64,
    /// Tombstones.
    pub tombstones: u64,
    /// The coding of its extent: one of [`CODINGS`].
    pub coding: &'static str,
    /// The device's class.
    pub class: DeviceClass,
    /// Its temperature, which compares it with others: it is hot from [`HOT_FROM`] on, and cold
    /// below [`WARM_FROM`]. `None` if it is not known: for a closed folder, of extents that are
    /// newer than the stored statistics.
    pub temperature: Option<u32>,
}

impl SliceInspection {
    /// The bytes of memory of a slice with these keys.
    pub(crate) fn bytes_with(smallest: &[u8], largest: &[u8]) -> usize {
        size_of::<SliceInspection>() + keys_bytes(smallest, largest)
    }

    pub(crate) fn of(piece: &PlacedSlice<'_>, share: &space::Share) -> SliceInspection {
        let SliceMeta { extent, first_block, blocks, bytes, .. } = *piece.meta;
        let counts = &piece.meta.counts;
        SliceInspection {
            level: level_of(piece.place) as u8,
            sublevel: if let Place::Level0(number) = piece.place { number } else { 0 },
            extent: extent.0,
            first_block,
            blocks,
            extent_blocks: piece.extent.blocks,
            smallest: piece.meta.smallest.clone(),
            largest: piece.meta.largest.clone(),
            block_bytes: bytes,
            slot_bytes: share.slot_bytes,
            dead_bytes: share.dead_bytes,
            payload_bytes: counts.payload_bytes,
            versions: counts.versions,
            keys: counts.keys,
            tombstones: counts.tombstones,
            coding: CODINGS[piece.extent.coding as usize],
            class: share.class,
            temperature: piece.temperature.map(|temperature| temperature.0),
        }
    }
}

/// The number of a level.
pub(crate) fn level_of(place: Place) -> usize {
    match place {
        Place::Level0(_) => 0,
        Place::Level1 => 1,
        Place::Level2 => 2,
    }
}
