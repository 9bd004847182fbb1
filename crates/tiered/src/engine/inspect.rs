//! What tables take of the devices, and what for.
//!
//! All of it is counted from records in memory, and exact for what is in extents, but for one figure: how much of the
//! payload are newest versions. A slice's versions are taken to be of one size for that, and what a higher level replaces
//! in a lower one is not known before they are merged.

use rustc_hash::FxHashMap;
use spillway_base::TableId;
use spillway_base::engine::Metric;

use super::{Inner, TieredEngine};
use crate::extent_meta::ExtentId;
use crate::manifest::Place;
use crate::space::DeviceClass;
use crate::table::Table;
use crate::temperature::Warmth;

/// What is in a level of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LevelSpace {
    /// Bytes of keys and values, of all versions, before they were coded.
    pub payload_bytes: u64,
    /// Of those, about how many are of each key's newest version in its slice.
    pub newest_bytes: u64,
    /// Bytes of the blocks that hold them.
    pub block_bytes: u64,
    /// Of those, how many are read much more often than the average, lately.
    pub hot_bytes: u64,
    /// And how many are read much less often.
    pub cold_bytes: u64,
}

/// What a table has on devices of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClassSpace {
    /// Extents.
    pub extents: u64,
    /// Bytes of their slots.
    pub slot_bytes: u64,
    /// Bytes of blocks that no slice needs any more. They go with their extents.
    pub dead_bytes: u64,
    /// Bytes of slots past the ends of extents.
    pub slack_bytes: u64,
}

impl ClassSpace {
    fn add(&mut self, other: &ClassSpace) {
        self.extents += other.extents;
        self.slot_bytes += other.slot_bytes;
        self.dead_bytes += other.dead_bytes;
        self.slack_bytes += other.slack_bytes;
    }
}

/// What a table takes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableSpace {
    /// The table.
    pub table: TableId,
    /// Level0, Level1 and Level2.
    pub levels: [LevelSpace; 3],
    /// By class of device, the fastest first; none that it has nothing on.
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

    /// About how many bytes of keys and values its newest versions have.
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

impl TieredEngine {
    /// What each table takes of the devices, by number. What is in memory is not in it.
    #[must_use]
    pub fn space(&self) -> Vec<TableSpace> {
        let tables = self.0.tables.load();
        let mut all: Vec<_> = tables.values().map(|table| self.0.space_of(table)).collect();
        all.sort_by_key(|space| space.table);
        all
    }
}

impl Inner {
    fn space_of(&self, table: &Table) -> TableSpace {
        let classes = self.space.classes_of_files();
        let mut levels = [LevelSpace::default(); 3];
        let mut extents: FxHashMap<ExtentId, (DeviceClass, ClassSpace)> = FxHashMap::default();
        for part in table.all_parts() {
            for (place, slice) in part.view().levels.places() {
                let level = &mut levels[match place {
                    Place::Level0(_) => 0,
                    Place::Level1 => 1,
                    Place::Level2 => 2,
                }];
                let counts = &slice.meta.counts;
                level.payload_bytes += counts.payload_bytes;
                let newest = u128::from(counts.payload_bytes) * u128::from(counts.keys);
                level.newest_bytes += (newest / u128::from(counts.versions.max(1))) as u64;
                level.block_bytes += slice.meta.bytes;
                match slice.temperature().warmth() {
                    Warmth::Hot => level.hot_bytes += slice.meta.bytes,
                    Warmth::Cold => level.cold_bytes += slice.meta.bytes,
                    Warmth::Warm => {}
                }
                let meta = &slice.extent.meta;
                let slot_bytes = u64::from(meta.slots.count) * self.space.slot_bytes() as u64;
                let extent = extents.entry(meta.id).or_insert_with(|| {
                    let class = classes.get(&meta.slots.file).map_or(DeviceClass::Ssd, |on| on.0);
                    let whole = ClassSpace {
                        extents: 1,
                        slot_bytes,
                        dead_bytes: meta.data_bytes,
                        slack_bytes: slot_bytes.saturating_sub(meta.len),
                    };
                    (class, whole)
                });
                extent.1.dead_bytes = extent.1.dead_bytes.saturating_sub(slice.meta.bytes);
            }
        }
        let mut on: Vec<(DeviceClass, ClassSpace)> = Vec::new();
        for class in DeviceClass::ALL {
            let mut all = ClassSpace::default();
            extents.values().filter(|(of, _)| *of == class).for_each(|(_, one)| all.add(one));
            if all.extents > 0 {
                on.push((class, all));
            }
        }
        TableSpace { table: table.id, levels, classes: on }
    }

    /// Figures of all tables together.
    pub(super) fn space_metrics(&self) -> [Metric; 7] {
        let mut on = ClassSpace::default();
        let (mut payload, mut newest, mut hot, mut cold) = (0, 0, 0, 0);
        for table in self.tables.load().values() {
            let space = self.space_of(table);
            on.add(&space.on_devices());
            payload += space.payload_bytes();
            newest += space.newest_bytes();
            hot += space.levels.iter().map(|level| level.hot_bytes).sum::<u64>();
            cold += space.levels.iter().map(|level| level.cold_bytes).sum::<u64>();
        }
        let gauge = |name, help, value: f64| Metric { name, help, counter: false, value };
        let amplification = if newest == 0 { 1.0 } else { on.slot_bytes as f64 / newest as f64 };
        [
            gauge("tiered_payload_bytes", "Keys and values of all versions.", payload as f64),
            gauge("tiered_newest_bytes", "Of those, about the newest versions'.", newest as f64),
            gauge("tiered_dead_bytes", "Blocks that no slice needs.", on.dead_bytes as f64),
            gauge("tiered_slack_bytes", "Ends of slots past extents.", on.slack_bytes as f64),
            gauge("tiered_hot_bytes", "Blocks read more often than others lately.", hot as f64),
            gauge("tiered_cold_bytes", "Blocks read less often than others lately.", cold as f64),
            gauge(
                "tiered_space_amplification",
                "Bytes of extents' slots for each of the newest versions'.",
                amplification,
            ),
        ]
    }
}
