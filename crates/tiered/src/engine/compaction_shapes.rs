//! The shape that compactions give to sub-tables: the figures, such as sizes of levels, by which
//! the picker chooses compactions.
//!
//! The shape follows from the settings, so the engine computes it once, for all sub-tables. While
//! space is short, a variant of the shape makes compactions free space (PICKER-7). The picker
//! ([`crate::picker`]) chooses by the shape, and by the levels and running compactions of a
//! sub-table.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use spillway_base::{Csn, clock};

use crate::level::Levels;
use crate::picker::{Chooser, Conflicts, Shape};
use crate::settings::TieredSettings;
use crate::subtable::SubTable;

/// How long compactions free space after the engine was asked to give some. While the disk is full,
/// it is asked every half second.
const SEEKS_SPACE: Duration = Duration::from_secs(2);

/// The shape that compactions give to sub-tables.
pub(super) struct CompactionShapes {
    shape: Shape,
    /// Compactions free space until this time, in nanoseconds of the clock.
    seeks_space_until: AtomicU64,
}

impl CompactionShapes {
    /// The shape by settings. Hot data stays in Level1 if `keeps_hot`.
    pub(super) fn new(settings: &TieredSettings, keeps_hot: bool) -> CompactionShapes {
        let shape = settings.shape();
        let hot_share = if keeps_hot { shape.hot_share } else { 0.0 };
        let shape = Shape { hot_share, ..shape };
        CompactionShapes { shape, seeks_space_until: AtomicU64::new(0) }
    }

    /// Makes compactions free space for some time. Returns `false` if they already do.
    pub(super) fn seek_space(&self, now: Duration) -> bool {
        let until = (now + SEEKS_SPACE).as_nanos() as u64;
        let before = self.seeks_space_until.fetch_max(until, Ordering::AcqRel);
        before <= now.as_nanos() as u64
    }

    /// Whether compactions free space.
    pub(super) fn seeks_space(&self) -> bool {
        let until = self.seeks_space_until.load(Ordering::Acquire);
        until > 0 && (clock::now().as_nanos() as u64) < until
    }

    /// The shape that compactions give to sub-tables now.
    pub(super) fn current(&self) -> Shape {
        if self.seeks_space() { self.shape.short_of_space(u64::MAX) } else { self.shape }
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
        Chooser { shape: self.current(), levels, bars, oldest, memtables_from }
    }

    /// The least bytes of adjacent slices that are worth a recode compaction, and the approximate
    /// bytes that one takes.
    pub(super) fn recoding_bytes(&self) -> (u64, u64) {
        let shape = self.current();
        (4 * shape.extent_bytes, shape.input_bytes)
    }
}
