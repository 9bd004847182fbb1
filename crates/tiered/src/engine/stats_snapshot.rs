//! Stores the engine's recent statistics ([`StatsSnapshot`]) in its folder, for a later inspection
//! of the folder. The engine stores them when it closes, and periodically in the background, in
//! case the process is killed. No other part of the engine uses the stored statistics, so the
//! engine ignores a failure to store them.

use std::path::PathBuf;
use std::time::Duration;

use spillway_base::budget::Use;
use spillway_base::clock;
use spillway_base::lock::Mutex;

use super::Inner;
use super::table_set::TableSet;
use crate::extent_meta::ExtentId;
use crate::inspect::{CompactionRecord, StatsSnapshot};
use crate::temperature::REGIONS;

/// The least time between two snapshots in the background.
const EVERY: Duration = Duration::from_secs(30);
/// The least time between two snapshots, as a multiple of the time that the first one took.
const RESTS: u32 = 100;

/// The state of writing snapshots.
pub(super) struct StatsSnapshots {
    dir: PathBuf,
    when: Mutex<When>,
}

struct When {
    next: Duration,
    /// The numbers of completed compactions, and of completed epochs of temperatures, at the last
    /// snapshot. If they are unchanged, there is nothing new.
    at: (u64, u32),
}

impl StatsSnapshots {
    /// The state of an engine that is opened at this time.
    pub(super) fn new(dir: PathBuf, now: Duration) -> StatsSnapshots {
        StatsSnapshots { dir, when: Mutex::new(When { next: now + EVERY, at: (0, 0) }) }
    }
}

impl Inner {
    /// Writes a snapshot if the last one is old and there is something new. Returns whether it did.
    /// Without background threads it never does: a simulation must be repeatable, whatever time it
    /// takes.
    pub(super) fn note_now_and_then(&self, now: Duration) -> bool {
        if self.wakeups.is_alone() {
            return false;
        }
        let Some(mut when) = self.stats_snapshots.when.try_lock() else { return false };
        let at = (self.statistics.compactions_ended(), self.context.thermometer.epochs());
        if now < when.next || at == when.at {
            return false;
        }
        let began = clock::now();
        self.note();
        let took = clock::now().saturating_sub(began);
        *when = When { next: now + EVERY.max(took * RESTS), at };
        true
    }

    /// Writes a snapshot. If an engine was open for too short a time to have any statistics, the
    /// snapshot of an earlier opening stays.
    pub(super) fn note(&self) {
        let (disk, dir) = (self.space.disk(), &self.stats_snapshots.dir);
        let parts = self.tables.all_parts();
        let slices = parts.iter().flat_map(|(_, part)| {
            let view = part.view_now();
            view.levels.runs().map(|run| run.slices().len()).collect::<Vec<_>>()
        });
        let bytes = StatsSnapshot::bytes_to_make(slices.sum());
        let Ok(_charge) = self.write_buffer.accounts().budget.try_charge(Use::Compactions, bytes)
        else {
            return;
        };
        // A number that was assigned and not recorded may be assigned again after a crash. So this
        // is the recorded one.
        let next_extent = self.persistence.manifest().state().next_extent;
        let compactions = self.statistics.newest_compactions();
        let recent = recent(&self.tables, next_extent, compactions);
        let is_worth_less = recent.is_empty() && StatsSnapshot::read(disk, dir).is_some();
        if !is_worth_less {
            // A failure of the disk is reported by work that needs the disk.
            let _ = recent.write(disk, dir);
        }
    }
}

/// The statistics of an engine with these tables. `next_extent` is the next number of an extent.
fn recent(
    tables: &TableSet,
    next_extent: ExtentId,
    compactions: Vec<CompactionRecord>,
) -> StatsSnapshot {
    let mut counts = Vec::new();
    for (_, part) in tables.all_parts() {
        for (_, slice) in part.view().levels.places() {
            let of = slice.extent.readings().map(|count| count as u8);
            if of != [0; REGIONS] {
                counts.push((slice.extent.meta.id, of));
            }
        }
    }
    // An extent is listed once for each of its slices, and may be read in between.
    counts.sort_unstable();
    counts.dedup_by_key(|(id, _)| *id);
    StatsSnapshot { at: clock::wall(), next_extent, counts, compactions }
}
