//! Describes an open engine, without reading rows, and without locks that a commit, a checkpoint or
//! a compaction holds for long.

use std::sync::Arc;

use super::inner::{Inner, MemoryEngine};
use crate::inspect::{
    MemoryFigures, MemoryInspection, MemoryTableInspection, SegmentHome, SegmentInspection,
    TableMemory, describe_checkpoint,
};
use crate::segments::{Home, Segments};
use crate::store::Store;
use crate::table::Table;
use crate::version::{Target, Word};

/// Rows of a table from which the bytes of its versions are estimated.
const SAMPLED: u64 = 1024;
/// The most versions of a row that are counted.
const WALKED_MAX: usize = 256;

impl MemoryEngine {
    /// Describes the engine. Reads every entry of the arrays.
    #[must_use]
    pub fn inspect(&self) -> MemoryInspection {
        self.0.inspect()
    }

    /// The most memory in bytes that [`MemoryEngine::inspect`] takes, if the engine does not change
    /// before.
    #[must_use]
    pub fn inspection_bytes(&self) -> usize {
        let segments = self.0.segments.iter().count();
        self.0.tables.load().len() * size_of::<MemoryTableInspection>()
            + segments * size_of::<SegmentInspection>()
    }
}

impl Inner {
    fn inspect(&self) -> MemoryInspection {
        let (checkpoint, mut stored) = match self.checkpoints.shown() {
            Some((manifest, age)) => {
                // A newer checkpoint may have removed files of this one meanwhile.
                let described = describe_checkpoint(&*self.disk, &self.dir, &manifest, &mut |_| ());
                (Some(crate::inspect::CheckpointInspection { age, ..described.0 }), described.1)
            }
            None => Default::default(),
        };
        let tables = self.tables.load_full();
        let mut tables: Vec<MemoryTableInspection> = tables
            .values()
            .map(|table| MemoryTableInspection {
                table: table.id,
                keys: table.keys(),
                memory: Some(table_memory(&self.store, table)),
                stored: stored.remove(&table.id),
            })
            .collect();
        tables.sort_by_key(|table| table.table);
        MemoryInspection {
            tables,
            segments: inspect_segments(&self.segments),
            checkpoint,
            figures: Some(self.figures()),
            damage: Vec::new(),
        }
    }

    fn figures(&self) -> MemoryFigures {
        let tables = self.tables.load();
        MemoryFigures {
            version_bytes: self.store.slabs.charged_bytes() as u64,
            index_bytes: self.tables.nodes().charged_bytes() as u64,
            array_bytes: tables.values().map(|table| table.rows.bytes() as u64).sum(),
            // Read before `stable`, so that the watermark is not above it.
            watermark: self.pins.watermark(),
            stable: self.pins.stable(),
            uncollected_rows: self.collector.len() as u64,
            uncollected_bytes: self.collector.uncollected_bytes(&self.store),
            unplaced_commits: self.unplaced.len() as u64,
            evicted_total: self.evictor.evicted(),
            log_reads_total: self.log.counts()[0],
        }
    }
}

fn inspect_segments(segments: &Segments) -> Vec<SegmentInspection> {
    let mut inspected = Vec::new();
    for (_, segment) in segments.iter() {
        let live = segment.live();
        let (home, bytes) = match segment.home() {
            Home::Released => continue,
            Home::Redo if live == 0 => continue,
            Home::Redo => (SegmentHome::Log, None),
            Home::Missing if live == 0 => continue,
            Home::Missing => (SegmentHome::Missing, None),
            // Its length is not known yet.
            Home::Kept(0) => (SegmentHome::Kept, None),
            Home::Kept(bytes) => (SegmentHome::Kept, Some(bytes)),
        };
        let found = SegmentInspection::new(segment.origin, home);
        let found = SegmentInspection { bytes, live_bytes: Some(live), ..found };
        inspected.push((segment.origin, found));
    }
    inspected.sort_unstable_by_key(|(origin, _)| *origin);
    inspected.into_iter().map(|(_, segment)| segment).collect()
}

fn table_memory(store: &Store, table: &Arc<Table>) -> TableMemory {
    let mut memory = TableMemory {
        index_bytes: table.index.bytes() as u64,
        array_bytes: table.rows.bytes() as u64,
        deleted_ranges: table.ranges().len() as u64,
        ..TableMemory::default()
    };
    let step = (table.keys() / SAMPLED).max(1);
    let (mut sampled, mut bytes) = (0, 0);
    for slot in 0..table.rows.end() {
        let Some(entry) = table.rows.entry(slot) else { continue };
        match entry.load().target() {
            Target::Empty => {}
            Target::Place(_) => memory.evicted_rows += 1,
            Target::Version(_) => {
                if memory.rows.is_multiple_of(step) {
                    bytes += chain_bytes(store, table, slot);
                    sampled += 1;
                }
                memory.rows += 1;
            }
        }
    }
    memory.version_bytes =
        (u128::from(bytes) * u128::from(memory.rows) / u128::from(sampled.max(1_u64))) as u64;
    memory
}

/// Bytes of the versions of a row that are in memory.
fn chain_bytes(store: &Store, table: &Table, slot: u64) -> u64 {
    let pin = store.pin();
    let mut word = table.rows.entry(slot).map_or(Word::EMPTY, |entry| entry.load());
    let (mut bytes, mut walked) = (0, 0);
    while let Target::Version(at) = word.target()
        && walked < WALKED_MAX
    {
        let version = store.version(at, &pin);
        bytes += version.bytes() as u64;
        word = version.next();
        walked += 1;
    }
    bytes
}
