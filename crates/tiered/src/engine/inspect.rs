//! Reports what an engine's tables contain, and the device space that they take.

use std::collections::BTreeMap;
use std::sync::Arc;

use spillway_base::TableId;
use spillway_base::engine::Metric;
use spillway_base::managed::TableSize;

use super::TieredEngine;
use super::table_set::TableSet;
use crate::inspect::{
    ClassSpace, Inspection, Ledger, LevelSpace, MemtableInspection, PlacedSlice, SliceInspection,
    SubTableInspection, TableInspection, TableSpace,
};
use crate::memtable::Memtable;
use crate::space::{DeviceClass, SpaceManager};
use crate::subtable::SubTable;
use crate::table::Table;
use crate::view::View;

impl TieredEngine {
    /// The device space of each table, by number, without its memory.
    #[must_use]
    pub fn space(&self) -> Vec<TableSpace> {
        let mut all = spaces(&self.0.tables, &self.0.space);
        all.sort_by_key(|space| space.table);
        all
    }

    /// The contents of the tables, by number.
    #[must_use]
    pub fn inspect(&self) -> Inspection {
        let inner = &self.0;
        let classes = classes(&inner.space);
        let slot_bytes = inner.space.slot_bytes() as u64;
        let tables = inner.tables.load_full();
        let looks = tables.values().map(|table| Look::at(table).inspect(&classes, slot_bytes));
        let mut all: Vec<TableInspection> = looks.collect();
        all.sort_by_key(|table| table.space.table);
        Inspection {
            slot_bytes,
            files: inner.space.bytes_by_class().into_iter().map(Into::into).collect(),
            tables: all,
            compactions: Some(inner.statistics.newest_compactions()),
            as_of: None,
        }
    }

    /// The most bytes of memory that [`TieredEngine::inspect`] takes, including temporary memory,
    /// unless something changes before it is called.
    #[must_use]
    pub fn inspection_bytes(&self) -> usize {
        let tables = self.0.tables.load_full();
        let looks = tables.values().map(|table| Look::at(table).inspection_bytes());
        let (kept, needed) =
            looks.fold((0, 0), |(kept, most), (of, needed)| (kept + of, needed.max(most)));
        kept + needed
    }

    /// The approximate size of a table; zeros for a table that does not exist.
    #[must_use]
    pub fn size(&self, table: TableId) -> TableSize {
        let inner = &self.0;
        let tables = inner.tables.load();
        let Some(table) = tables.get(&table) else { return TableSize::default() };
        let look = Look::at(table);
        let space = look.space(&classes(&inner.space), inner.space.slot_bytes() as u64);
        let on = space.on_devices();
        let free_bytes = on.dead_bytes + on.slack_bytes;
        let mut size = TableSize {
            rows: rows_of(&space),
            used_bytes: on.slot_bytes.saturating_sub(free_bytes),
            free_bytes,
        };
        for memtable in look.memtables() {
            size.rows += memtable.keys() as u64;
            size.used_bytes += memtable.bytes() as u64;
        }
        size
    }
}

/// The bytes of memory for a sub-table's name and its bounds.
const NAMED_BYTES: usize = 1 << 10;

/// The number of existing keys, estimated from the lowest level up: a tombstone is no key, and
/// removes one key of the levels below, if one is left.
fn rows_of(space: &TableSpace) -> u64 {
    space.levels.iter().rev().fold(0, |below: u64, level| {
        let gone = level.tombstones.min(level.keys);
        below.saturating_sub(gone) + level.keys - gone
    })
}

/// A table at one moment.
struct Look {
    table: TableId,
    parts: Vec<(Arc<SubTable>, Arc<View>)>,
}

impl Look {
    fn at(table: &Table) -> Look {
        let parts = table.all_parts().into_iter().map(|part| {
            let view = part.view();
            (part, view)
        });
        Look { table: table.id, parts: parts.collect() }
    }

    fn pieces(&self) -> impl Iterator<Item = PlacedSlice<'_>> + Clone {
        self.parts.iter().enumerate().flat_map(|(part, (_, view))| {
            view.levels.places().map(move |(place, slice)| PlacedSlice {
                part,
                place,
                meta: &slice.meta,
                extent: &slice.extent.meta,
                temperature: Some(slice.temperature()),
            })
        })
    }

    /// The memtables that are not empty. A memtable that several sub-tables have yet to flush is
    /// listed once.
    fn memtables(&self) -> Vec<&Arc<Memtable>> {
        let all = self.parts.iter().flat_map(|(_, view)| view.memtables());
        let mut all: Vec<_> = all.filter(|memtable| !memtable.is_empty()).collect();
        all.sort_by_key(|memtable| Arc::as_ptr(memtable));
        all.dedup_by(|one, other| Arc::ptr_eq(one, other));
        all
    }

    fn space(&self, classes: &BTreeMap<u32, DeviceClass>, slot_bytes: u64) -> TableSpace {
        let (table, parts) = (self.table, self.parts.len());
        Ledger::of(table, parts, self.pieces(), classes, slot_bytes, |_, _| {}).space
    }

    /// The bytes of memory of an inspection, and the temporary bytes while it is being made.
    fn inspection_bytes(&self) -> (usize, usize) {
        let (mut kept, mut needed) = (0, 0);
        for (_, view) in &self.parts {
            kept += size_of::<SubTableInspection>() + NAMED_BYTES;
            kept += view.memtables().count() * size_of::<MemtableInspection>();
            for (_, slice) in view.levels.places() {
                kept += SliceInspection::bytes_with(&slice.meta.smallest, &slice.meta.largest);
                needed += Ledger::EXTENT_BYTES;
            }
        }
        (kept, needed)
    }

    fn inspect(&self, classes: &BTreeMap<u32, DeviceClass>, slot_bytes: u64) -> TableInspection {
        let count = |view: &View| view.levels.runs().map(|run| run.slices().len()).sum();
        let room = |(_, view): &(_, Arc<View>)| Vec::with_capacity(count(view));
        let mut slices: Vec<Vec<SliceInspection>> = self.parts.iter().map(room).collect();
        let ledger = Ledger::of(
            self.table,
            self.parts.len(),
            self.pieces(),
            classes,
            slot_bytes,
            |piece, share| slices[piece.part].push(SliceInspection::of(piece, share)),
        );
        let parts = self.parts.iter().zip(ledger.parts).zip(slices);
        let subtables = parts.map(|(((part, view), levels), slices)| SubTableInspection {
            start: part.start.clone(),
            end: part.end.clone(),
            flushed: part.flushed(),
            memtables: view
                .memtables()
                .map(|memtable| MemtableInspection {
                    bytes: memtable.bytes() as u64,
                    keys: memtable.keys() as u64,
                })
                .collect(),
            sublevels: view.levels.level0.len() as u64,
            levels,
            slices,
            quarantine: part.quarantined().map(|error| error.to_string()),
        });
        TableInspection { space: ledger.space, subtables: subtables.collect() }
    }
}

/// A figure of a level, by the name of its metric.
type LevelFigure = ([&'static str; 3], &'static str, fn(&LevelSpace) -> u64);

const LEVEL_FIGURES: [LevelFigure; 4] = [
    (
        [
            "tiered_level0_payload_bytes",
            "tiered_level1_payload_bytes",
            "tiered_level2_payload_bytes",
        ],
        "Bytes of keys and values of all versions in this level.",
        |level| level.payload_bytes,
    ),
    (
        ["tiered_level0_slot_bytes", "tiered_level1_slot_bytes", "tiered_level2_slot_bytes"],
        "Bytes of extents' slots that belong to this level.",
        |level| level.slot_bytes,
    ),
    (
        ["tiered_level0_dead_bytes", "tiered_level1_dead_bytes", "tiered_level2_dead_bytes"],
        "Bytes of blocks that no slice needs, in extents of this level.",
        |level| level.dead_bytes,
    ),
    (
        ["tiered_level0_tombstones", "tiered_level1_tombstones", "tiered_level2_tombstones"],
        "Tombstones in this level.",
        |level| level.tombstones,
    ),
];

/// The class of each data file.
fn classes(space: &SpaceManager) -> BTreeMap<u32, DeviceClass> {
    space.classes_of_files().into_iter().map(|(file, on)| (file, on.0)).collect()
}

fn spaces(tables: &TableSet, space: &SpaceManager) -> Vec<TableSpace> {
    let (classes, slot_bytes) = (classes(space), space.slot_bytes() as u64);
    let tables = tables.load_full();
    tables.values().map(|table| Look::at(table).space(&classes, slot_bytes)).collect()
}

/// Figures of all tables together.
pub(super) fn space_metrics(tables: &TableSet, space: &SpaceManager) -> Vec<Metric> {
    let mut on = ClassSpace::default();
    let (mut payload, mut newest, mut hot, mut cold) = (0, 0, 0, 0);
    let spaces = spaces(tables, space);
    for space in &spaces {
        on.add(&space.on_devices());
        payload += space.payload_bytes();
        newest += space.newest_bytes();
        hot += space.levels.iter().map(|level| level.hot_bytes).sum::<u64>();
        cold += space.levels.iter().map(|level| level.cold_bytes).sum::<u64>();
    }
    let gauge = |name, help, value: f64| Metric { name, help, counter: false, value };
    let amplification = if newest == 0 { 1.0 } else { on.slot_bytes as f64 / newest as f64 };
    let mut all = vec![
        gauge("tiered_payload_bytes", "Bytes of keys and values of all versions.", payload as f64),
        gauge(
            "tiered_newest_bytes",
            "Bytes of keys and values of the newest versions, estimated.",
            newest as f64,
        ),
        gauge("tiered_dead_bytes", "Bytes of blocks that no slice needs.", on.dead_bytes as f64),
        gauge(
            "tiered_slack_bytes",
            "Bytes of slots behind the end of their extents.",
            on.slack_bytes as f64,
        ),
        gauge(
            "tiered_hot_bytes",
            "Bytes of blocks that were recently read at least twice as often as the average.",
            hot as f64,
        ),
        gauge(
            "tiered_cold_bytes",
            "Bytes of blocks that were recently read at most half as often as the average.",
            cold as f64,
        ),
        gauge(
            "tiered_space_amplification",
            "Bytes of extents' slots for each byte of the newest versions.",
            amplification,
        ),
    ];
    for (names, help, figure) in LEVEL_FIGURES {
        all.extend(names.into_iter().enumerate().map(|(level, name)| {
            let sum: u64 = spaces.iter().map(|space| figure(&space.levels[level])).sum();
            gauge(name, help, sum as f64)
        }));
    }
    all
}
