//! The debt of the background work. It determines how much writers are slowed (decision 008).
//!
//! Every commit reads the debt, so reading it takes no lock. The debt has a part for the memtables,
//! which follows from one counter ([`super::write_buffer`]), and parts for the levels, which are
//! computed and stored whenever levels change. A reader may see parts of two different moments.
//! Each of them was correct at its moment.
//!
//! - **LEVELS-DEBT-1 (the last change).** Once the refresh after a change of levels has ended, the
//!   debt includes this change.
//! - **LEVELS-DEBT-2 (idle searches).** A search for data to recompress, or for extents to move,
//!   visits all slices. If it finds nothing while no compaction runs, the next search runs only
//!   after levels have changed or an epoch of temperatures has ended.

use std::sync::atomic::{AtomicU64, Ordering};

use spillway_base::engine::Debt;
use spillway_base::lock::Mutex;
use spillway_base::{Csn, Result};

use super::compaction_shapes::CompactionShapes;
use super::table_set::TableSet;
use crate::picker::Conflicts;

/// The debt of all tables' levels, as computed at the last change of levels.
#[derive(Default)]
pub(super) struct LevelsDebt {
    /// The bits of two `f64`.
    level0: AtomicU64,
    compaction: AtomicU64,
    /// The number of changes of levels.
    changes: AtomicU64,
    /// Held while the figures are computed and stored.
    refreshing: Mutex<()>,
    /// For each search that found nothing, the number of changes of levels before it, plus one,
    /// combined with the number of completed epochs of temperatures.
    idle: [AtomicU64; 2],
}

/// A search for data to work on. It visits all slices.
#[derive(Clone, Copy)]
pub(super) enum SliceSearch {
    /// For data to recompress.
    Recode,
    /// For extents to move to other devices.
    Move,
}

impl LevelsDebt {
    /// Runs a search, unless the last one found nothing and nothing has changed since. `epochs` is
    /// the number of completed epochs of temperatures.
    pub(super) fn unless_idle(
        &self,
        search: SliceSearch,
        epochs: u32,
        tables: &TableSet,
        look: impl FnOnce() -> Result<bool>,
    ) -> Result<bool> {
        let idle = &self.idle[search as usize];
        // Read before the search, so that a change during the search causes another search.
        let changes = self.changes.load(Ordering::Acquire) + 1;
        // In a new epoch, data may have cooled down.
        let changes = changes ^ u64::from(epochs) << 32;
        if idle.load(Ordering::Acquire) == changes {
            return Ok(false);
        }
        // A search skips the slices of running compactions, and their changes may have been counted
        // before it. So while one is running, nothing is remembered.
        let busy = tables.all_parts().iter().any(|(_, part)| part.is_compacting());
        let found = look()?;
        if !found && !busy {
            idle.store(changes, Ordering::Release);
        }
        Ok(found)
    }

    /// The debt of the levels, and of memtables (`flush`).
    pub(super) fn with_flush(&self, flush: f64) -> Debt {
        Debt {
            flush,
            level0: f64::from_bits(self.level0.load(Ordering::Relaxed)),
            compaction: f64::from_bits(self.compaction.load(Ordering::Relaxed)),
        }
    }

    /// Recomputes the debt of all tables' levels, after one of them changed.
    pub(super) fn refresh(&self, tables: &TableSet, shapes: &CompactionShapes) {
        // Of two concurrent calls, the one that computes later stores later.
        let _refreshing = self.refreshing.lock();
        self.changes.fetch_add(1, Ordering::AcqRel);
        let (mut level0, mut compaction) = (0.0_f64, 0.0);
        for (table, part) in tables.all_parts() {
            // A table that will not be compacted does not slow writers.
            if table.dropped() != Csn::MAX {
                continue;
            }
            let view = part.view_now();
            let shape = shapes.current();
            let mut damaged = Conflicts::default();
            part.bar_damaged(&mut damaged);
            if !damaged.is_empty() {
                // Damaged keys and the data around them do not count: they would slow writers
                // forever. Only the sub-levels that compactions can reach count.
                let chooser = shapes.chooser(&part, &view.levels, &damaged, Csn::ZERO);
                let sublevels = chooser.sublevels_in_reach();
                level0 = level0.max(sublevels as f64 / shape.level0_limit as f64);
                continue;
            }
            level0 = level0.max(view.levels.level0.len() as f64 / shape.level0_limit as f64);
            let behind = shape.debt_bytes(&view.levels) as f64;
            compaction += behind / (shape.level0_bytes as f64 * 64.0);
        }
        self.level0.store(level0.to_bits(), Ordering::Relaxed);
        self.compaction.store(compaction.to_bits(), Ordering::Relaxed);
    }
}
