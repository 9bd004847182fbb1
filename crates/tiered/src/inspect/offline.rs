//! Inspects a folder that no database has open.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use spillway_base::budget::Budget;
use spillway_base::engine::Access;
use spillway_base::{Csn, Result, TableId};
use spillway_storage::Disk;

use super::{
    Inspection, Ledger, PlacedSlice, SliceInspection, StatsSnapshot, SubTableInspection,
    TableInspection,
};
use crate::extent::{ExtentHandle, ReadContext, ReadSettings};
use crate::extent_meta::SliceMeta;
use crate::manifest::{self, Place, State, TableState};
use crate::space::{DeviceClass, SpaceManager, find};

/// The memory for the blocks from which rows are read.
const CACHE_BYTES: usize = 8 << 20;

/// A closed engine's folder: its manifest, and the statistics that its engine has stored last.
/// Nothing is changed.
pub struct Offline {
    state: State,
    slot_bytes: u32,
    space: Arc<SpaceManager>,
    recent: Option<StatsSnapshot>,
}

impl Offline {
    /// Reads the manifest of a folder; `None` if there is none. The caller ensures that no engine
    /// has the folder open.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Corruption`], [`spillway_base::ErrorKind::UnsupportedFormat`],
    /// [`spillway_base::ErrorKind::InvalidArgument`] for a tier that does not exist,
    /// [`spillway_base::ErrorKind::Io`].
    pub fn open(disk: &Arc<dyn Disk>, dir: &Path) -> Result<Option<Offline>> {
        let Some((state, slot_bytes)) = manifest::read(&**disk, dir)? else { return Ok(None) };
        let folders = find(&**disk, dir)?;
        let extents = state.tables.values().flat_map(|table| table.extents.values());
        let space = SpaceManager::open(
            disk.clone(),
            folders,
            u64::from(slot_bytes),
            u64::MAX / 2,
            extents.map(|extent| (extent.meta.slots, extent.meta.len)),
        )?;
        let recent = StatsSnapshot::read(&**disk, dir);
        Ok(Some(Offline { state, slot_bytes, space: Arc::new(space), recent }))
    }

    /// The CSN up to which the folder's extents have all commits.
    #[must_use]
    pub fn persisted(&self) -> Csn {
        self.state.persisted
    }

    /// The contents of the folder.
    #[must_use]
    pub fn inspect(&self) -> Inspection {
        let classes: BTreeMap<u32, DeviceClass> =
            self.space.classes_of_files().into_iter().map(|(file, on)| (file, on.0)).collect();
        let tables = self.state.tables.iter();
        Inspection {
            slot_bytes: self.slot_bytes.into(),
            files: self.space.bytes_by_class().into_iter().map(Into::into).collect(),
            tables: tables.map(|(&id, state)| self.table(id, state, &classes)).collect(),
            compactions: self.recent.as_ref().map(|recent| recent.compactions.clone()),
            as_of: self.recent.as_ref().map(|recent| recent.at),
        }
    }

    fn table(
        &self,
        id: TableId,
        stored: &TableState,
        classes: &BTreeMap<u32, DeviceClass>,
    ) -> TableInspection {
        let starts: Vec<&Box<[u8]>> = stored.parts.keys().collect();
        let mut pieces = Vec::new();
        for extent in stored.extents.values() {
            pieces.extend(extent.slices().map(|(place, meta)| PlacedSlice {
                part: starts[1..].partition_point(|start| **start <= meta.smallest),
                place: *place,
                meta,
                extent: &extent.meta,
                temperature:
                    self.recent.as_ref().and_then(|recent| recent.temperature(meta, &extent.meta)),
            }));
        }
        let key = |meta: &SliceMeta| meta.smallest.clone();
        pieces.sort_by_cached_key(|piece| (piece.part, order(piece.place), key(piece.meta)));
        let mut slices = vec![Vec::new(); starts.len()];
        let of_all = pieces.iter().copied();
        let slot_bytes = self.slot_bytes.into();
        let accounts = Ledger::of(id, starts.len(), of_all, classes, slot_bytes, |piece, share| {
            slices[piece.part].push(SliceInspection::of(piece, share));
        });
        let subtables = stored.parts.iter().zip(accounts.parts).zip(slices).enumerate().map(
            |(at, (((start, flushed), levels), slices))| SubTableInspection {
                start: start.clone(),
                end: starts.get(at + 1).map(|end| (*end).clone()),
                flushed: *flushed,
                memtables: Vec::new(),
                sublevels: sublevels_of(&slices),
                levels,
                slices,
                quarantine: None,
            },
        );
        TableInspection { space: accounts.space, subtables: subtables.collect() }
    }

    /// Passes on every version that a table has in extents, in no order: a key, its CSN, and the
    /// value, which is `None` for a tombstone.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Corruption`], [`spillway_base::ErrorKind::Io`].
    pub fn versions(
        &self,
        table: TableId,
        visit: &mut dyn FnMut(&[u8], Csn, Option<&[u8]>),
    ) -> Result<()> {
        let Some(stored) = self.state.tables.get(&table) else { return Ok(()) };
        let budget = Budget::new(usize::MAX);
        let context = ReadContext::new(ReadSettings::once(CACHE_BYTES), None, &budget);
        let dictionaries = context.dictionaries.of(table);
        stored.dictionaries(|dictionary| dictionaries.add(Arc::new(dictionary)))?;
        for extent in stored.extents.values() {
            let handle = ExtentHandle::new(table, extent.meta.clone(), &self.space, &context)?;
            let resident = handle.resident(Access::Blocking)?;
            let blocks = extent.slices().flat_map(|(_, slice)| slice.block_range());
            for index in blocks {
                let block = handle.read_block(&resident, index)?;
                for at in 0..block.len() {
                    let entry = block.entry(at);
                    visit(entry.key, entry.csn, entry.value);
                }
            }
        }
        Ok(())
    }
}

/// The order of levels in an inspection: Level0 first, from its newest sub-level on.
fn order(place: Place) -> (u8, std::cmp::Reverse<u64>) {
    match place {
        Place::Level0(number) => (0, std::cmp::Reverse(number)),
        Place::Level1 => (1, std::cmp::Reverse(0)),
        Place::Level2 => (2, std::cmp::Reverse(0)),
    }
}

/// The number of sub-levels of slices in that order.
fn sublevels_of(slices: &[SliceInspection]) -> u64 {
    let level0 = slices.iter().filter(|slice| slice.level == 0);
    let mut numbers: Vec<u64> = level0.map(|slice| slice.sublevel).collect();
    numbers.dedup();
    numbers.len() as u64
}
