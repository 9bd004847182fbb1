//! Builds folders with the metadata of a large database, but without its data, to measure the cost
//! of metadata.
//!
//! The usual code writes and opens the manifest. Keys, sizes and levels are those of a database
//! with random writes. Data files are sparse, so blocks cannot be read.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use spillway_base::budget::Budget;
use spillway_base::clock::now;
use spillway_base::engine::Horizon;
use spillway_base::rng::Rng;
use spillway_base::{Csn, EngineKind, Error, Result, TableId};
use spillway_storage::{Disk, OpenMode};

use super::TieredEngine;
use super::change::Change;
use crate::coding::{Coding, Names};
use crate::extent_meta::{Counts, ExtentId, ExtentMeta, SliceMeta};
use crate::level::{LevelsEdit, Slice};
use crate::manifest::{Edit, Manifest, Place, State};
use crate::settings::TieredSettings;
use crate::space::SlotRun;
use crate::subtable::SubTable;
use crate::table::Table;

const SLOT_BYTES: usize = 2 << 20;
/// Slots of a data file.
const FILE_SLOTS: u64 = 512;
const BLOCKS: u32 = 120;
/// The keys of an extent at each place. Level2 has nine tenths of all extents, Level1 a tenth as
/// many as Level2, and each of two sub-levels of Level0 about a twentieth as many as Level1.
/// Wherever an extent of Level0 begins, one of each other place begins, too.
const KEYS: [(Place, u64); 4] = [
    (Place::Level2, 100),
    (Place::Level1, 1000),
    (Place::Level0(1), 18_000),
    (Place::Level0(2), 18_000),
];
const STEP: u64 = 18_000;
/// Extents in [`STEP`] keys.
const STEP_EXTENTS: u64 = 180 + 18 + 2;

/// The dimensions of a folder's metadata.
#[derive(Clone, Copy, Debug)]
pub struct Metadata {
    /// The approximate number of extents of 2 MiB.
    pub extents: u64,
    /// The number of tables.
    pub tables: u32,
    /// The sub-tables of each table.
    pub subtables: u64,
    /// The seed of all random choices.
    pub seed: u64,
}

/// The cost of a change of one slice's level.
#[derive(Clone, Copy, Debug, Default)]
pub struct EditCost {
    /// The time until the manifest's edit is durable.
    pub recorded: Duration,
    /// The same for the longer of two changes, including the wait for the manifest's lock.
    pub recorded_max: Duration,
    /// The time until readers see the new view, and data that is in no view any more is released.
    pub installed: Duration,
    /// The time for comparison with levels as flat lists: copying a pointer to each slice of the
    /// level, and dropping the pointers of the previous list.
    pub as_a_list: Duration,
}

/// The cost of dropping a view as its last reader.
#[derive(Clone, Copy, Debug, Default)]
pub struct LettingGo {
    /// The time of the reader if it leaves most parts to background threads.
    pub left: Duration,
    /// The time in which the background threads free the rest.
    pub later: Duration,
    /// The time of the reader if it frees everything itself.
    pub freed: Duration,
}

/// A horizon without readers, at which everything is stable.
struct Still;

impl Horizon for Still {
    fn stable(&self) -> Csn {
        Csn(1 << 40)
    }

    fn installed(&self) -> Csn {
        Csn(1 << 40)
    }

    fn live_snapshots(&self, out: &mut Vec<Csn>) {
        out.push(self.stable());
    }
}

/// A key in SQL's format: a number and a short text.
fn key(number: u64, rng: &mut Rng) -> Box<[u8]> {
    let mut key = vec![1];
    key.extend_from_slice(&(number ^ 1 << 63).to_be_bytes());
    key.push(1);
    key.extend_from_slice(&rng.next_u64().to_le_bytes());
    key.push(8);
    key.into()
}

impl Metadata {
    /// Creates the folder. Returns the bytes of its manifest.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::DiskFull`], [`spillway_base::ErrorKind::Io`], and
    /// [`spillway_base::ErrorKind::InvalidArgument`] if a dimension is zero.
    pub fn make(&self, disk: &Arc<dyn Disk>, dir: &Path) -> Result<u64> {
        if self.extents == 0 || self.tables == 0 || self.subtables == 0 {
            return Err(Error::invalid("metadata of nothing is none"));
        }
        disk.create_dir_all(dir)?;
        let mut edits = self.edits();
        let extents = edits.iter().filter(|edit| matches!(edit, Edit::AddExtent { .. })).count();
        for file in 0..(extents as u64).div_ceil(FILE_SLOTS) {
            let path = dir.join(format!("{:06}.data", file + 1));
            let file = disk.open(&path, OpenMode::Create)?;
            file.set_len(FILE_SLOTS * SLOT_BYTES as u64)?;
        }
        // The last edits are recorded a few at a time, as flushes and compactions do.
        let late = edits.split_off(edits.len() - edits.len().min(200));
        let mut state = State::default();
        edits.into_iter().try_for_each(|edit| state.apply(edit))?;
        Manifest::create(disk, dir, SLOT_BYTES as u32, &state)?;
        let mut manifest = Manifest::open(disk.clone(), dir, SLOT_BYTES as u32, u64::MAX)?;
        late.chunks(10).try_for_each(|few| manifest.commit(few.to_vec()))?;
        Ok(manifest.bytes())
    }

    fn edits(&self) -> Vec<Edit> {
        let mut rng = Rng::new(self.seed);
        let steps = (self.extents / u64::from(self.tables) / STEP_EXTENTS).max(self.subtables);
        let (mut edits, mut next) = (Vec::new(), 0);
        for ordinal in 1..=self.tables {
            let table = TableId::new(EngineKind::Tiered, ordinal);
            edits.push(Edit::CreateTable { table, created: Csn(1) });
            for part in 1..self.subtables {
                let at = part * steps / self.subtables * STEP;
                let start = [&[1], &(at ^ 1 << 63).to_be_bytes()[..]].concat().into();
                edits.push(Edit::Split { table, start, csn: Csn(1 << 30) });
            }
            for (place, keys) in KEYS {
                for first in (0..steps * STEP).step_by(keys as usize) {
                    add_extent(&mut edits, (table, place), next, first..first + keys, &mut rng);
                    next += 1;
                }
            }
        }
        edits
    }

    /// Opens a folder that [`Metadata::make`] created.
    ///
    /// # Errors
    /// As [`TieredEngine::open`].
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, memory_bytes: usize) -> Result<TieredEngine> {
        let settings = TieredSettings::for_memory(memory_bytes);
        TieredEngine::open(disk, dir, settings, Arc::new(Still), Budget::new(memory_bytes))
    }
}

/// Adds the `at`th extent, with the keys of a range. Every fifth extent has two slices with a gap
/// between them, as compactions leave it. The others are whole.
fn add_extent(
    edits: &mut Vec<Edit>,
    (table, place): (TableId, Place),
    at: u64,
    keys: std::ops::Range<u64>,
    rng: &mut Rng,
) {
    let id = ExtentId(at + 1);
    let data_bytes = 1_900_000 + rng.below(100_000);
    let meta = ExtentMeta {
        id,
        slots: SlotRun {
            file: (at / FILE_SLOTS) as u32 + 1,
            first: (at % FILE_SLOTS) as u32,
            count: 1,
        },
        len: data_bytes + 60_000,
        blocks: BLOCKS,
        data_bytes,
        crc: at as u32,
        coding: if place == Place::Level2 { Coding::ZstdDictionary } else { Coding::Stored },
        names: Names::default(),
    };
    edits.push(Edit::AddExtent { table, meta });
    let middle = keys.start + (keys.end - keys.start) / 2;
    let slices = match at.is_multiple_of(5) {
        false => vec![(0, BLOCKS, keys)],
        true => vec![(0, 55, keys.start..middle), (60, 60, middle..keys.end)],
    };
    for (first_block, blocks, keys) in slices {
        let versions = 300 * u64::from(blocks) + rng.below(1000);
        let bytes = data_bytes * u64::from(blocks) / u64::from(BLOCKS);
        let counts = Counts {
            versions,
            keys: versions - rng.below(300),
            tombstones: rng.below(300),
            payload_bytes: 2 * bytes,
            csn_min: Csn(1 + rng.below(1 << 29)),
            csn_max: Csn((1 << 29) + rng.below(1 << 29)),
        };
        let (smallest, largest) = (key(keys.start, rng), key(keys.end - 1, rng));
        let meta = SliceMeta { extent: id, first_block, blocks, bytes, smallest, largest, counts };
        edits.push(Edit::AddSlice { table, place, meta: Arc::new(meta) });
    }
}

impl TieredEngine {
    /// Moves a slice in the middle of the longest Level2 into a separate sub-level and back, as a
    /// compaction would: in the manifest and in the view. Returns the cost of the second change;
    /// `None` if Level2 is empty.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::DiskFull`], [`spillway_base::ErrorKind::Io`].
    pub fn rehearse_edit(&self) -> Result<Option<EditCost>> {
        let Some((table, part)) = self.longest() else { return Ok(None) };
        let levels = part.view().levels.clone();
        let Some(slice) = levels.level2.slices().get(levels.level2.slices().len() / 2).cloned()
        else {
            return Ok(None);
        };
        let mut cost = EditCost::default();
        for place in [Place::Level0(levels.next_sublevel()), Place::Level2] {
            let [asked, begin, recorded, installed] =
                self.move_slices((&table, &part), std::slice::from_ref(&slice), place)?;
            let list = levels.level2.slices().to_vec();
            let flat = now();
            drop(list.clone());
            let as_a_list = now() - flat;
            let recorded_max = cost.recorded_max.max(recorded - asked);
            let (recorded, installed) = (recorded - begin, installed - recorded);
            cost = EditCost { recorded, recorded_max, installed, as_a_list };
        }
        Ok(Some(cost))
    }

    /// Removes `slices` slices from all over the longest Level2 and puts them back, while a reader
    /// holds a view. Then drops the view: once with most of it left to background threads, and once
    /// with nothing left to them.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::DiskFull`], [`spillway_base::ErrorKind::Io`].
    pub fn rehearse_letting_go(&self, slices: usize) -> Result<LettingGo> {
        let cost = self.let_go_of_a_view(slices);
        self.0.context.garbage.begin();
        cost
    }

    /// As [`TieredEngine::rehearse_letting_go`]. At the end nothing is left to background threads.
    fn let_go_of_a_view(&self, slices: usize) -> Result<LettingGo> {
        let garbage = &self.0.context.garbage;
        let mut cost = LettingGo::default();
        let Some((table, part)) = self.longest() else { return Ok(cost) };
        for leaves in [true, false] {
            while garbage.free_some() {}
            if !leaves {
                garbage.end();
            }
            let view = part.view();
            let all = view.levels.level2.slices();
            let some: Vec<_> =
                all.iter().step_by(all.len().div_ceil(slices).max(1)).cloned().collect();
            for place in [Place::Level0(view.levels.next_sublevel()), Place::Level2] {
                self.move_slices((&table, &part), &some, place)?;
            }
            drop(some);
            let begin = now();
            drop(view);
            let end = now();
            while garbage.free_some() {}
            match leaves {
                true => (cost.left, cost.later) = (end - begin, now() - end),
                false => cost.freed = end - begin,
            }
        }
        Ok(cost)
    }

    /// The sub-table with the longest Level2.
    fn longest(&self) -> Option<(Arc<Table>, Arc<SubTable>)> {
        let slices = |part: &SubTable| part.view_now().levels.level2.slices().len();
        self.0.tables.all_parts().into_iter().max_by_key(|(_, part)| slices(part))
    }

    /// Moves slices to another place. Returns four times: of the request, when the manifest was
    /// locked, when the edit was durable, and when the view was published.
    fn move_slices(
        &self,
        (table, part): (&Table, &SubTable),
        slices: &[Arc<Slice>],
        place: Place,
    ) -> Result<[Duration; 4]> {
        let (removed, added) =
            (slices.to_vec(), slices.iter().map(|slice| (place, slice.clone())).collect());
        let edit = LevelsEdit { removed, added, ..LevelsEdit::default() };
        let asked = now();
        let mut manifest = self.0.persistence.record(&self.0.health)?;
        let edits = Change::of(&edit).edits(table, &edit, &part.view_now().levels.ranges);
        let begin = now();
        manifest.commit(edits)?;
        let recorded = now();
        part.edit(&edit, None);
        Ok([asked, begin, recorded, now()])
    }

    /// Writes a fresh manifest. If `beside`, flushes and compactions record edits meanwhile;
    /// otherwise they wait. Returns its bytes.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::DiskFull`], [`spillway_base::ErrorKind::Io`],
    /// [`spillway_base::ErrorKind::WritesStopped`].
    pub fn rewrite_manifest(&self, beside: bool) -> Result<u64> {
        self.0.persistence.rewrite_manifest(&self.0.health, beside)
    }
}
