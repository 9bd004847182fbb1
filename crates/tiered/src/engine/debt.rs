//! The debt of the background work. It determines how much writers are slowed (decision 008).
//!
//! Every commit reads the debt, so reading it takes no lock. The debt has a part for the memtables,
//! which follows from one counter, and parts for the levels, which are computed and stored whenever
//! levels change. A reader may see parts of two different moments. Each of them was correct at its
//! moment.

use std::sync::atomic::{AtomicU64, Ordering};

use spillway_base::engine::Debt;
use spillway_base::lock::Mutex;
use spillway_base::{Csn, Result};

use super::Inner;
use crate::picker::{Conflicts, Shape};
use crate::subtable::SubTable;

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
}

/// Remembers that a search found nothing to do. The search visits all slices, so it is repeated
/// only after something has changed.
#[derive(Default)]
pub(super) struct Settled {
    /// The number of changes of levels before the search, plus one, combined with the number of
    /// completed epochs of temperatures.
    at: AtomicU64,
}

impl Inner {
    /// Searches for something to do, unless the last search found nothing and nothing has changed
    /// since.
    pub(super) fn unless_settled(
        &self,
        settled: &Settled,
        look: impl FnOnce() -> Result<bool>,
    ) -> Result<bool> {
        // Read before the search, so that a change during the search causes another search.
        let changes = self.levels_debt.changes.load(Ordering::Acquire) + 1;
        // In a new epoch, data may have cooled down.
        let changes = changes ^ u64::from(self.context.thermometer.epochs()) << 32;
        if settled.at.load(Ordering::Acquire) == changes {
            return Ok(false);
        }
        // A search skips the slices of running compactions, and their changes may have been counted
        // before it. So while one is running, nothing is remembered.
        let parts = self.tables.all_parts();
        let busy = parts.iter().any(|(_, part)| part.is_compacting());
        let found = look()?;
        if !found && !busy {
            settled.at.store(changes, Ordering::Release);
        }
        Ok(found)
    }

    /// The debt of memtables and levels.
    pub(super) fn debt(&self) -> Debt {
        let levels = &self.levels_debt;
        Debt {
            flush: self.write_buffer.flush_debt(),
            level0: f64::from_bits(levels.level0.load(Ordering::Relaxed)),
            compaction: f64::from_bits(levels.compaction.load(Ordering::Relaxed)),
        }
    }

    /// The shape that compactions give to a sub-table.
    pub(super) fn shape_of(&self, part: &SubTable) -> Shape {
        let mut shape = self.settings.shape(part.mix.used_for());
        if !self.level_storage.keeps_hot() {
            shape.hot_share = 0.0;
        }
        shape
    }

    /// Recomputes the debt of all tables' levels, after one of them changed.
    pub(super) fn refresh_debt(&self) {
        // Of two concurrent calls, the one that computes later stores later.
        let _refreshing = self.levels_debt.refreshing.lock();
        self.levels_debt.changes.fetch_add(1, Ordering::AcqRel);
        let (mut level0, mut compaction) = (0.0_f64, 0.0);
        for (table, part) in self.tables.all_parts() {
            // A table that will not be compacted does not slow writers.
            if table.dropped() != Csn::MAX {
                continue;
            }
            let view = part.view_now();
            let shape = self.shape_of(&part);
            let mut damaged = Conflicts::default();
            part.bar_damaged(&mut damaged);
            if !damaged.is_empty() {
                // Damaged keys and the data around them do not count: they would slow writers
                // forever. Only the sub-levels that compactions can reach count.
                let chooser = self.chooser(&part, &view.levels, &damaged, Csn::ZERO);
                let sublevels = chooser.sublevels_in_reach();
                level0 = level0.max(sublevels as f64 / shape.level0_limit as f64);
                continue;
            }
            level0 = level0.max(view.levels.level0.len() as f64 / shape.level0_limit as f64);
            let behind = shape.debt_bytes(&view.levels) as f64;
            compaction += behind / (shape.level0_bytes as f64 * 64.0);
        }
        self.levels_debt.level0.store(level0.to_bits(), Ordering::Relaxed);
        self.levels_debt.compaction.store(compaction.to_bits(), Ordering::Relaxed);
    }
}
