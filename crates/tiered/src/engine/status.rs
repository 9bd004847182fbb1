//! The status and the metrics of the engine.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use spillway_base::TableId;
use spillway_base::engine::{Debt, Metric};
use spillway_base::stall::Tally;

use super::inspect::space_metrics;
use super::statistics::EngineFigures;
use super::table_set::TableSet;
use super::{Inner, TieredEngine};
use crate::cache::RowCache;
use crate::extent::ReadContext;
use crate::level::Run;
use crate::picker::Kind;
use crate::space::{ClassBytes, DeviceClass, SpaceManager};
use crate::subtable::SubTable;
use crate::view::View;

/// One level of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LevelStatus {
    /// Slices of extents.
    pub slices: u64,
    /// Bytes of their blocks.
    pub bytes: u64,
    /// Versions in them.
    pub versions: u64,
}

/// One table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TableStatus {
    /// The table.
    pub table: TableId,
    /// Sub-tables.
    pub subtables: u64,
    /// Bytes in memtables.
    pub memory_bytes: u64,
    /// Sub-levels of Level0, in the sub-table that has the most.
    pub sublevels: u64,
    /// Sub-levels at which Level0 is compacted.
    pub sublevels_target: u64,
    /// Level0, Level1 and Level2.
    pub levels: [LevelStatus; 3],
    /// The damage that compactions of the table avoid, if any was found.
    pub quarantine: Option<String>,
    /// The table's last merge since the opening that an executor refused, or did with another
    /// result, and the reason.
    pub refused_merge: Option<String>,
}

fn level<'a>(runs: impl Iterator<Item = &'a Run>) -> LevelStatus {
    let mut status = LevelStatus::default();
    for slice in runs.flat_map(|run| run.slices()) {
        status.slices += 1;
        status.bytes += slice.meta.bytes;
        status.versions += slice.meta.counts.versions;
    }
    status
}

impl TieredEngine {
    /// The tables and their levels, by number.
    #[must_use]
    pub fn status(&self) -> Vec<TableStatus> {
        let tables = self.0.tables.load();
        let mut all: Vec<TableStatus> = tables
            .values()
            .map(|table| {
                let parts = table.parts();
                let parts = parts.all();
                let views: Vec<_> = parts.iter().map(|part| part.view()).collect();
                let runs = |of: fn(&View) -> &Run| level(views.iter().map(|view| of(view)));
                let level0 = views.iter().flat_map(|view| &view.levels.level0);
                // Of several sub-tables, the one that is furthest behind counts.
                let sublevels = |part: &Arc<SubTable>| part.view_now().levels.level0.len() as u64;
                let behind = parts.iter().max_by_key(|part| sublevels(part));
                let behind = behind.expect("a table has a sub-table");
                TableStatus {
                    table: table.id,
                    subtables: parts.len() as u64,
                    memory_bytes: table.memory_bytes() as u64,
                    sublevels: sublevels(behind),
                    sublevels_target: self.0.compaction_shapes.current().level0_target as u64,
                    levels: [
                        level(level0.map(|sublevel| &*sublevel.run)),
                        runs(|view| &view.levels.level1),
                        runs(|view| &view.levels.level2),
                    ],
                    quarantine: parts.iter().find_map(|p| p.quarantined().map(|e| e.to_string())),
                    refused_merge: table.refusal(),
                }
            })
            .collect();
        all.sort_by_key(|status| status.table);
        all
    }
}

/// A count since the opening.
fn counter(name: &'static str, help: &'static str, value: u64) -> Metric {
    Metric { name, help, counter: true, value: value as f64 }
}

/// A value at this moment.
fn gauge(name: &'static str, help: &'static str, value: f64) -> Metric {
    Metric { name, help, counter: false, value }
}

impl Inner {
    pub(super) fn metrics(&self) -> Vec<Metric> {
        let figures = self.statistics.figures();
        let mut all = work_metrics(&figures, &self.tables, &self.context);
        all.extend(wait_metrics(self.statistics.memory_waits()));
        all.extend(cache_metrics(&self.context));
        all.extend(size_metrics(&self.tables, &self.space, self.debt()));
        all.extend(Kind::ALL.iter().map(|kind| {
            let (name, help) = told(*kind);
            counter(name, help, figures.compactions[*kind as usize])
        }));
        all.extend(self.statistics.reuse_metrics());
        all.extend(space_metrics(&self.tables, &self.space));
        all.extend(metrics_of_tiers(&self.space, &self.context));
        all.extend(read_metrics(&self.context));
        all
    }
}

/// What flushes, compactions and scans did.
fn work_metrics(counts: &EngineFigures, tables: &TableSet, context: &ReadContext) -> Vec<Metric> {
    let gap_figures = tables.gap_figures();
    vec![
        counter("tiered_flushes_total", "Memtables flushed.", counts.flushes),
        counter("tiered_flushed_bytes_total", "Bytes flushed.", counts.flushed_bytes),
        counter(
            "tiered_scan_tombstones_total",
            "Tombstones and hidden rows that scans passed one by one.",
            gap_figures.walked.load(Ordering::Relaxed),
        ),
        counter(
            "tiered_gaps_total",
            "Ranges of tombstones that scans published, so that later scans skip them.",
            gap_figures.published.load(Ordering::Relaxed),
        ),
        counter(
            "tiered_hidden_slices_total",
            "Slices that range tombstones hid completely and that were dropped unread.",
            counts.hidden_slices,
        ),
        counter(
            "tiered_hidden_bytes_total",
            "Bytes that range tombstones hid and that were dropped unread: whole slices, and keys and \
             values of single blocks.",
            counts.hidden_bytes,
        ),
        gauge(
            "tiered_range_tombstones",
            "Range tombstones over versions in extents.",
            tables
                .all_parts()
                .iter()
                .map(|(_, part)| part.view_now().levels.ranges.len())
                .sum::<usize>() as f64,
        ),
        gauge(
            "tiered_views_to_free",
            "Metadata of old views that waits to be freed in the background.",
            context.garbage.len() as f64,
        ),
        Metric {
            name: "tiered_views_left_total",
            help: "Old views whose metadata was mostly left to be freed in the background.",
            counter: true,
            value: context.garbage.handed_over() as f64,
        },
        counter("tiered_splits_total", "Sub-tables that were split.", counts.splits),
        counter("tiered_joins_total", "Sub-tables that were joined.", counts.joins),
        counter(
            "tiered_compaction_written_bytes_total",
            "Bytes written by compactions.",
            counts.compaction_written_bytes,
        ),
        counter(
            "tiered_moved_bytes_total",
            "Bytes of extents that were moved between devices.",
            counts.moved_bytes,
        ),
        counter(
            "tiered_kept_bytes_total",
            "Bytes that major compactions left in Level1 because they were hot.",
            counts.kept_bytes,
        ),
    ]
}

/// The waits for memory.
fn wait_metrics(waits: &Tally) -> [Metric; 2] {
    [
        Metric {
            name: "stall_memory_total",
            help: "Waits for memtable memory.",
            counter: true,
            value: waits.count() as f64,
        },
        Metric {
            name: "stall_memory_seconds_total",
            help: "Seconds of waits for memtable memory.",
            counter: true,
            value: waits.time().as_secs_f64(),
        },
    ]
}

/// The metrics of the caches of rows and blocks.
fn cache_metrics(context: &ReadContext) -> Vec<Metric> {
    let (hits, misses) = context.cache.hits_and_misses();
    let (block_bytes, table_bytes) = context.cache.bytes();
    let rows = context.rows.as_ref();
    let (row_hits, row_misses) = rows.map(RowCache::hits_and_misses).unwrap_or_default();
    let row_bytes = rows.map_or(0, RowCache::bytes);
    let row_share = rows.map_or(0.0, RowCache::share);
    let row_ghost_missed = rows.map_or(0, RowCache::ghost_missed);
    let (_, block_ghost_missed) = context.cache.read_and_ghost_missed();
    vec![
        counter("tiered_block_cache_hits_total", "Blocks found in the cache.", hits),
        counter("tiered_block_cache_misses_total", "Blocks read from the device.", misses),
        counter(
            "tiered_row_cache_hits_total",
            "Point reads that found their row in the row cache.",
            row_hits,
        ),
        counter(
            "tiered_row_cache_misses_total",
            "Point reads that looked into the row cache and did not find their row.",
            row_misses,
        ),
        gauge("tiered_row_cache_bytes", "Bytes of the row cache.", row_bytes as f64),
        gauge(
            "tiered_row_cache_share",
            "The share of the cache memory that the row cache may use.",
            row_share,
        ),
        counter(
            "tiered_row_cache_ghost_miss_bytes_total",
            "Bytes read for rows that a little more memory of the row cache would have kept.",
            row_ghost_missed,
        ),
        counter(
            "tiered_block_cache_ghost_miss_bytes_total",
            "Bytes read for blocks and indexes that a little more memory would have kept.",
            block_ghost_missed,
        ),
        gauge("tiered_cache_bytes", "Bytes of cached blocks.", block_bytes as f64),
        gauge(
            "tiered_cache_free_bytes",
            "Bytes of memory for cached blocks that hold none now.",
            context.pages.free_bytes() as f64,
        ),
        gauge(
            "tiered_resident_bytes",
            "Bytes of block indexes and filters in memory.",
            table_bytes as f64,
        ),
    ]
}

/// The sizes of memtables and data files, and the debt.
fn size_metrics(tables: &TableSet, space: &SpaceManager, debt: Debt) -> Vec<Metric> {
    let (bytes, free) = space.bytes();
    vec![
        gauge("tiered_memtable_bytes", "Bytes of memtables.", tables.memtables_bytes() as f64),
        gauge(
            "tiered_data_bytes",
            "Bytes of data files that are allocated on the device.",
            bytes as f64,
        ),
        gauge("tiered_data_free_bytes", "Free bytes in data files.", free as f64),
        gauge("tiered_debt_flush", "Flush debt; 1 is the limit.", debt.flush.max(0.0)),
        gauge("tiered_debt_level0", "Level0 debt; 1 is the limit.", debt.level0),
        gauge("tiered_debt_compaction", "Compaction debt; 1 is the limit.", debt.compaction),
    ]
}

/// The metrics of reads, besides those of the caches.
fn read_metrics(context: &ReadContext) -> impl Iterator<Item = Metric> {
    let (taken, fetched) = context.queues.taken_and_fetched();
    let (begun, shared) = context.async_reads.begun_and_shared();
    let parts = context.reads_of_parts.load(Ordering::Relaxed);
    let ahead = [
        ("tiered_part_reads_total", "Partial block reads by gets.", parts),
        (
            "tiered_read_ahead_blocks_total",
            "Blocks that readahead read before a scan reached them.",
            taken,
        ),
        ("tiered_prefetched_total", "Blocks and indexes read together for several gets.", fetched),
        (
            "tiered_reads_begun_total",
            "Asynchronous reads of blocks and indexes for waiting statements.",
            begun,
        ),
        (
            "tiered_reads_shared_total",
            "Statements that joined an asynchronous read in progress.",
            shared,
        ),
    ];
    ahead.into_iter().map(|(name, help, count)| counter(name, help, count))
}

/// The metrics of each class of devices in use.
fn metrics_of_tiers(space: &SpaceManager, context: &ReadContext) -> Vec<Metric> {
    let displaced = space.displaced_slots() as f64;
    let mut all = vec![Metric {
        name: "tiered_tier_displaced_slots_total",
        help: "Slots allocated on a device of another class, because the intended one was full.",
        counter: true,
        value: displaced,
    }];
    for ClassBytes { class, all: bytes, free } in space.bytes_by_class() {
        let (names, reads) = match class {
            DeviceClass::Fast => {
                (["tiered_fast_bytes", "tiered_fast_free_bytes"], "tiered_fast_reads_total")
            }
            DeviceClass::Ssd => {
                (["tiered_ssd_bytes", "tiered_ssd_free_bytes"], "tiered_ssd_reads_total")
            }
            DeviceClass::Hdd => {
                (["tiered_hdd_bytes", "tiered_hdd_free_bytes"], "tiered_hdd_reads_total")
            }
        };
        all.push(Metric {
            name: reads,
            help: "Blocks that gets and scans read from this class.",
            counter: true,
            value: context.reads[class as usize].load(Ordering::Relaxed) as f64,
        });
        let helps =
            ["Bytes of data files on this class.", "Free bytes in data files on this class."];
        all.extend([0, 1].map(|at| Metric {
            name: names[at],
            help: helps[at],
            counter: false,
            value: [bytes, free][at] as f64,
        }));
    }
    all
}

/// The name and help text of the count of compactions of a kind.
fn told(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::Deletion => {
            ("tiered_compactions_deletion_total", "Compactions chosen to drop deleted rows.")
        }
        Kind::IntraLevel0 => (
            "tiered_compactions_intra_level0_total",
            "Compactions of sub-levels of Level0 into one.",
        ),
        Kind::Minor => ("tiered_compactions_minor_total", "Compactions of Level0 into Level1."),
        Kind::Major => ("tiered_compactions_major_total", "Compactions of Level1 into Level2."),
        Kind::SelfMajor => {
            ("tiered_compactions_self_major_total", "Compactions within Level2, to save space.")
        }
        Kind::Full => ("tiered_compactions_full_total", "Compactions of a whole table."),
        Kind::Recode => (
            "tiered_compactions_recode_total",
            "Compactions that recompress slices in Level2 with its coding.",
        ),
    }
}
