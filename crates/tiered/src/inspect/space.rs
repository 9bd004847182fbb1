//! The device space of tables, by use.
//!
//! All figures are computed from the metadata of extents and slices; memtables are not included.
//! The figures are exact, except for the payload bytes of newest versions. The estimate of these
//! bytes assumes that all versions of a slice have the same size. It counts a key once in each
//! slice that has it. (Only a merge finds out that a version in a higher level replaces one below.)
//!
//! Slots, dead blocks and unused ends of slots belong to a whole extent, but the slices of one
//! extent may be in several levels and sub-tables. So each slice gets a share of these bytes, in
//! proportion to the bytes of its blocks. The sums over all levels equal the sums over the extents.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use spillway_base::TableId;

use super::level_of;
use crate::extent_meta::{ExtentId, ExtentMeta, SliceMeta};
use crate::manifest::Place;
use crate::space::DeviceClass;
use crate::temperature::{Temperature, Warmth};

/// The contents of a level.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LevelSpace {
    /// Slices of extents.
    pub slices: u64,
    /// Extents with slices in it. An extent may have slices in other levels and sub-tables as well.
    pub extents: u64,
    /// Versions, tombstones included.
    pub versions: u64,
    /// The sum of the distinct keys of each slice.
    pub keys: u64,
    /// Tombstones.
    pub tombstones: u64,
    /// Bytes of keys and values, of all versions, before they were coded.
    pub payload_bytes: u64,
    /// Of `payload_bytes`, approximately those of each key's newest version in its slice.
    pub newest_bytes: u64,
    /// Bytes of the slices' blocks, as they are stored.
    pub block_bytes: u64,
    /// Of `block_bytes`, those that were recently read much more often than the average, if that is
    /// known.
    pub hot_bytes: u64,
    /// Of `block_bytes`, those that were recently read much less often than the average, if that is
    /// known.
    pub cold_bytes: u64,
    /// Bytes of blocks by the intended coding of their extents, in the order of [`super::CODINGS`].
    pub coded_bytes: [u64; 4],
    /// Bytes of slots: its share of its extents' slots.
    pub slot_bytes: u64,
    /// `slot_bytes` by class of device, the fastest first.
    pub class_bytes: [u64; 3],
    /// Bytes of blocks that no slice needs any more: its share of its extents' dead blocks.
    pub dead_bytes: u64,
    /// Bytes of slots past the ends of extents: its share of those of its extents.
    pub slack_bytes: u64,
}

impl LevelSpace {
    /// The share of its slots that holds used blocks.
    #[must_use]
    pub fn density(&self) -> f64 {
        self.block_bytes as f64 / self.slot_bytes.max(1) as f64
    }

    fn add(&mut self, piece: &PlacedSlice<'_>, share: &Share) {
        let PlacedSlice { meta, extent, .. } = piece;
        let counts = &meta.counts;
        self.slices += 1;
        self.versions += counts.versions;
        self.keys += counts.keys;
        self.tombstones += counts.tombstones;
        self.payload_bytes += counts.payload_bytes;
        self.newest_bytes += newest_bytes_of(meta);
        self.block_bytes += meta.bytes;
        match piece.temperature.map(Temperature::warmth) {
            Some(Warmth::Hot) => self.hot_bytes += meta.bytes,
            Some(Warmth::Cold) => self.cold_bytes += meta.bytes,
            Some(Warmth::Warm) | None => {}
        }
        self.coded_bytes[extent.coding as usize] += meta.bytes;
        self.slot_bytes += share.slot_bytes;
        self.class_bytes[share.class as usize] += share.slot_bytes;
        self.dead_bytes += share.dead_bytes;
        self.slack_bytes += share.slack_bytes;
    }
}

/// The approximate payload bytes of a slice's newest versions.
fn newest_bytes_of(slice: &SliceMeta) -> u64 {
    let counts = &slice.counts;
    let newest = u128::from(counts.payload_bytes) * u128::from(counts.keys);
    (newest / u128::from(counts.versions.max(1))) as u64
}

/// The space of a table on devices of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClassSpace {
    /// Extents.
    pub extents: u64,
    /// Bytes of keys and values, of all versions, before they were coded.
    pub payload_bytes: u64,
    /// Of `payload_bytes`, approximately those of each key's newest version in its slice.
    pub newest_bytes: u64,
    /// Bytes of the slices' blocks, as they are stored.
    pub block_bytes: u64,
    /// Bytes of the extents' slots.
    pub slot_bytes: u64,
    /// Bytes of blocks that no slice needs any more. They are freed with their extents.
    pub dead_bytes: u64,
    /// Bytes of slots past the ends of extents.
    pub slack_bytes: u64,
}

impl ClassSpace {
    pub(crate) fn add(&mut self, other: &ClassSpace) {
        self.extents += other.extents;
        self.payload_bytes += other.payload_bytes;
        self.newest_bytes += other.newest_bytes;
        self.block_bytes += other.block_bytes;
        self.slot_bytes += other.slot_bytes;
        self.dead_bytes += other.dead_bytes;
        self.slack_bytes += other.slack_bytes;
    }
}

/// The space of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableSpace {
    /// The table.
    pub table: TableId,
    /// Level0, Level1 and Level2.
    pub levels: [LevelSpace; 3],
    /// By class of device, the fastest first, without unused classes.
    pub classes: Vec<(DeviceClass, ClassSpace)>,
}

impl TableSpace {
    /// Its bytes on all devices.
    #[must_use]
    pub fn on_devices(&self) -> ClassSpace {
        let mut all = ClassSpace::default();
        self.classes.iter().for_each(|(_, class)| all.add(class));
        all
    }

    /// The approximate bytes of keys and values of its newest versions.
    #[must_use]
    pub fn newest_bytes(&self) -> u64 {
        self.levels.iter().map(|level| level.newest_bytes).sum()
    }

    /// Bytes of keys and values of all its versions in extents.
    #[must_use]
    pub fn payload_bytes(&self) -> u64 {
        self.levels.iter().map(|level| level.payload_bytes).sum()
    }
}

/// A slice of a table, and its place.
#[derive(Clone, Copy)]
pub(crate) struct PlacedSlice<'a> {
    /// The index of the sub-table among those of its table.
    pub(crate) part: usize,
    pub(crate) place: Place,
    pub(crate) meta: &'a SliceMeta,
    pub(crate) extent: &'a ExtentMeta,
    pub(crate) temperature: Option<Temperature>,
}

/// The share of an extent's bytes that counts for a slice.
pub(crate) struct Share {
    pub(crate) class: DeviceClass,
    pub(crate) slot_bytes: u64,
    pub(crate) dead_bytes: u64,
    slack_bytes: u64,
}

struct Whole {
    class: DeviceClass,
    space: ClassSpace,
    /// Bytes of the slices that have received their shares.
    shared_bytes: u64,
    /// The sub-table and level of its first slice. Usually all its slices are there.
    met_first: Option<(usize, usize)>,
    /// The other sub-tables and levels with slices of it.
    met_then: Vec<(usize, usize)>,
}

impl Whole {
    /// The share of the next slice, which has this many bytes. The shares of all slices add up to
    /// the whole.
    fn share(&mut self, bytes: u64) -> Share {
        let (from, to) = (self.shared_bytes, self.shared_bytes + bytes);
        self.shared_bytes = to;
        let up_to = |at: u64, of: u64| {
            (u128::from(of) * u128::from(at) / u128::from(self.space.block_bytes.max(1))) as u64
        };
        let part = |of: u64| up_to(to, of) - up_to(from, of);
        let ClassSpace { slot_bytes, dead_bytes, slack_bytes, .. } = self.space;
        Share {
            class: self.class,
            slot_bytes: part(slot_bytes),
            dead_bytes: part(dead_bytes),
            slack_bytes: part(slack_bytes),
        }
    }

    /// Records a level of a sub-table with a slice of the extent. Returns whether it is the first
    /// slice in that level of the table, and the first in that level of the sub-table.
    fn meet(&mut self, part: usize, level: usize) -> (bool, bool) {
        let mut met = self.met_first.iter().chain(&self.met_then);
        let of_level = met.clone().all(|(_, other)| *other != level);
        let of_part = met.all(|other| *other != (part, level));
        match self.met_first {
            None => self.met_first = Some((part, level)),
            Some(_) if of_part => self.met_then.push((part, level)),
            Some(_) => {}
        }
        (of_level, of_part)
    }
}

/// The space accounts of a table.
pub(crate) struct Ledger {
    pub(crate) space: TableSpace,
    /// The levels of each sub-table.
    pub(crate) parts: Vec<[LevelSpace; 3]>,
}

impl Ledger {
    /// The most bytes of memory for each extent while a ledger is made: those of a hash table that
    /// is being doubled.
    pub(crate) const EXTENT_BYTES: usize = 4 * size_of::<(ExtentId, Whole)>();

    /// Counts the space of a table with this many sub-tables. `visit` receives every slice with its
    /// share, in the order of `pieces`.
    pub(crate) fn of<'a>(
        table: TableId,
        parts: usize,
        pieces: impl Iterator<Item = PlacedSlice<'a>> + Clone,
        classes: &BTreeMap<u32, DeviceClass>,
        slot_bytes: u64,
        mut visit: impl FnMut(&PlacedSlice<'a>, &Share),
    ) -> Ledger {
        let mut extents: FxHashMap<ExtentId, Whole> = FxHashMap::default();
        for PlacedSlice { meta, extent, .. } in pieces.clone() {
            let whole = extents.entry(extent.id).or_insert_with(|| {
                let slot_bytes = u64::from(extent.slots.count) * slot_bytes;
                Whole {
                    class: classes.get(&extent.slots.file).map_or(DeviceClass::Ssd, |class| *class),
                    space: ClassSpace {
                        extents: 1,
                        slot_bytes,
                        dead_bytes: extent.data_bytes,
                        slack_bytes: slot_bytes.saturating_sub(extent.len),
                        ..ClassSpace::default()
                    },
                    shared_bytes: 0,
                    met_first: None,
                    met_then: Vec::new(),
                }
            });
            whole.space.payload_bytes += meta.counts.payload_bytes;
            whole.space.newest_bytes += newest_bytes_of(meta);
            whole.space.block_bytes += meta.bytes;
            whole.space.dead_bytes = whole.space.dead_bytes.saturating_sub(meta.bytes);
        }
        let mut levels = [LevelSpace::default(); 3];
        let mut of_parts = vec![levels; parts];
        for piece in pieces {
            let Some(whole) = extents.get_mut(&piece.extent.id) else { continue };
            let share = whole.share(piece.meta.bytes);
            let level = level_of(piece.place);
            let (of_level, of_part) = whole.meet(piece.part, level);
            levels[level].add(&piece, &share);
            levels[level].extents += u64::from(of_level);
            let in_part = &mut of_parts[piece.part][level];
            in_part.add(&piece, &share);
            in_part.extents += u64::from(of_part);
            visit(&piece, &share);
        }
        let mut on = [ClassSpace::default(); 3];
        extents.values().for_each(|whole| on[whole.class as usize].add(&whole.space));
        let classes = DeviceClass::ALL.into_iter().zip(on).filter(|(_, on)| on.extents > 0);
        let space = TableSpace { table, levels, classes: classes.collect() };
        Ledger { space, parts: of_parts }
    }
}
