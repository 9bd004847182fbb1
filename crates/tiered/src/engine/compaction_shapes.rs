//! The shapes that compactions give to sub-tables, by the use of their tables.
//!
//! A shape follows from the settings, so the shapes are computed once. The picker works with the
//! shape, the levels and the running compactions of a sub-table ([`crate::picker`]).

use spillway_base::Csn;

use crate::access_pattern::TableUse;
use crate::level::Levels;
use crate::picker::{Chooser, Conflicts, Shape};
use crate::settings::TieredSettings;
use crate::subtable::SubTable;

/// The shape of a sub-table for each use of its table.
pub(super) struct CompactionShapes([Shape; TableUse::ALL.len()]);

impl CompactionShapes {
    /// The shapes by settings. Hot data stays in Level1 if `keeps_hot`.
    pub(super) fn new(settings: &TieredSettings, keeps_hot: bool) -> CompactionShapes {
        CompactionShapes(TableUse::ALL.map(|used_for| {
            let shape = settings.shape(used_for);
            Shape { hot_share: if keeps_hot { shape.hot_share } else { 0.0 }, ..shape }
        }))
    }

    /// The shape that compactions give to a sub-table.
    pub(super) fn of(&self, part: &SubTable) -> Shape {
        self.0[part.mix.used_for() as usize]
    }

    /// The picker's view of a sub-table with these levels. `bars` are the keys that no pick may
    /// touch, and `oldest` is the oldest live snapshot.
    pub(super) fn chooser<'a>(
        &self,
        part: &SubTable,
        levels: &'a Levels,
        bars: &'a Conflicts,
        oldest: Csn,
    ) -> Chooser<'a> {
        let memtables_from = part.view_now().memtables().map(|memtable| memtable.csn_min()).min();
        let memtables_from = memtables_from.unwrap_or(Csn::MAX);
        Chooser { shape: self.of(part), levels, bars, oldest, memtables_from }
    }

    /// The least bytes of adjacent slices that are worth a recode compaction, and the approximate
    /// bytes that one takes.
    pub(super) fn recoding_bytes(&self, part: &SubTable) -> (u64, u64) {
        let shape = self.of(part);
        (4 * shape.extent_bytes, shape.input_bytes)
    }
}
