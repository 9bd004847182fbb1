//! Simulates how a table is filled, with sizes only and without data, to measure the write
//! amplification of the picks.

use std::sync::Arc;

use spillway_base::Csn;

use super::{Chooser, Conflicts, Kind, Pick, Shape};
use crate::extent_meta::ExtentId;
use crate::level::{Levels, LevelsEdit, Slice};
use crate::manifest::Place;

const KEYS: u64 = 10_000_000;
pub(super) const EXTENT_BYTES: u64 = 2 << 20;
const MEMTABLE_BYTES: u64 = 4 * EXTENT_BYTES;

/// The default shape of a simulation with memtables of this size.
pub(super) fn shape_for(memtable_bytes: u64) -> Shape {
    Shape {
        level0_target: 14,
        level0_limit: 46,
        level1_bytes_min: 4 * memtable_bytes,
        level0_bytes: 2 * memtable_bytes,
        level0_share: 0.125,
        level2_times: 3.0,
        hot_share: 0.0,
        input_bytes: 16 * EXTENT_BYTES,
        deletions_min: 1000,
        extent_bytes: EXTENT_BYTES,
        block_bytes: 0,
        space_max: 1.25,
        above_max: 0.6,
        even_level0: true,
        short_of_space: None,
    }
}

/// The most urgent compaction, by kind and urgency.
pub(super) fn next_pick(shape: Shape, levels: &Levels) -> Option<Pick> {
    let (bars, oldest, memtables_from) = (Conflicts::default(), Csn(1), Csn::MAX);
    let chooser = Chooser { shape, levels, bars: &bars, oldest, memtables_from };
    let mut due: Vec<_> =
        Kind::ORDER.into_iter().filter(|kind| chooser.urgency(*kind).is_some()).collect();
    due.sort_by_key(|kind| !chooser.is_pressing(*kind));
    due.into_iter().find_map(|kind| chooser.pick(kind))
}

/// A sub-table whose keys are spread evenly and inserted in random order.
struct Fill {
    shape: Shape,
    levels: Levels,
    extents: u64,
    came: u64,
    written: u64,
    sublevels_most: usize,
}

impl Fill {
    fn new(level0_target: usize, level0_share: f64, level2_times: f64) -> Fill {
        let shape = Shape {
            level0_target,
            level0_limit: 5 * level0_target,
            level0_share,
            level2_times,
            ..shape_for(MEMTABLE_BYTES)
        };
        let levels = Levels::default();
        Fill { shape, levels, extents: 0, came: 0, written: 0, sublevels_most: 0 }
    }

    /// Runs until the sub-table has `bytes` bytes.
    fn to(mut self, bytes: u64) -> Fill {
        while self.came < bytes {
            self.came += MEMTABLE_BYTES;
            let place = Place::Level0(self.levels.next_sublevel());
            self.write(&[(0, KEYS, MEMTABLE_BYTES)], place, Vec::new());
            while let Some(pick) = next_pick(self.shape, &self.levels) {
                let sources = pick.inputs().map(|slice| {
                    let number = |key: &[u8]| std::str::from_utf8(key).unwrap().parse().unwrap();
                    let meta = &slice.meta;
                    (number(&meta.smallest), number(&meta.largest) + 1, meta.bytes)
                });
                let sources: Vec<_> = sources.collect();
                self.write(&sources, pick.target, pick.inputs().cloned().collect());
            }
            self.sublevels_most = self.sublevels_most.max(self.levels.level0.len());
        }
        self
    }

    /// Merges ranges of keys, each with its bytes evenly spread, into full extents.
    fn write(&mut self, sources: &[(u64, u64, u64)], place: Place, removed: Vec<Arc<Slice>>) {
        let mut cuts: Vec<u64> = sources.iter().flat_map(|(from, to, _)| [*from, *to]).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let mut edit = LevelsEdit { removed, ..LevelsEdit::default() };
        let total: u64 = sources.iter().map(|(.., bytes)| bytes).sum();
        self.written += total;
        // Extents of the same size.
        let count = total.div_ceil(EXTENT_BYTES);
        let (mut from, mut gathered, mut done) = (cuts[0], 0.0, 0.0);
        for pair in cuts.windows(2) {
            let over = sources.iter().filter(|(from, to, _)| *from <= pair[0] && pair[1] <= *to);
            let each: f64 = over.map(|(from, to, bytes)| *bytes as f64 / (to - from) as f64).sum();
            let mut at = pair[0];
            loop {
                let bound = total as f64 * (edit.added.len() as f64 + 1.0) / count as f64;
                let reach = at + ((bound - done) / each.max(1e-9)) as u64;
                if reach + 1 >= pair[1] {
                    gathered += each * (pair[1] - at) as f64;
                    done += each * (pair[1] - at) as f64;
                    break;
                }
                let to = reach.max(from + 1);
                gathered += each * (to - at) as f64;
                done += each * (to - at) as f64;
                edit.added.push((place, self.slice(from, to, gathered)));
                (from, at, gathered) = (to, to, 0.0);
            }
        }
        let end = cuts[cuts.len() - 1];
        if end > from {
            edit.added.push((place, self.slice(from, end, gathered)));
        }
        self.levels = self.levels.apply(&edit).unwrap();
    }

    fn slice(&mut self, from: u64, to: u64, bytes: f64) -> Arc<Slice> {
        self.extents += 1;
        let key = |number: u64| format!("{number:08}");
        Slice::detached(ExtentId(self.extents), &key(from), &key(to - 1), bytes as u64, 0)
    }

    fn amplification(&self) -> f64 {
        self.written as f64 / self.came as f64
    }
}

/// A Level0 whose size is a share of the data below it is merged at a much lower cost, and its
/// number of sub-levels stays small.
#[test]
fn a_level0_that_holds_a_share_is_written_less_often() {
    let bytes = 160 * MEMTABLE_BYTES;
    let target = 8;
    let eager = Fill::new(target, 0.0, 0.0).to(bytes);
    let lazy = Fill::new(target, 0.125, 3.0).to(bytes);
    let (eager_times, lazy_times) = (eager.amplification(), lazy.amplification());
    println!("{eager_times:.2} and {lazy_times:.2}, {} sub-levels", lazy.sublevels_most);
    assert!(lazy_times < 0.6 * eager_times, "{lazy_times:.2} of {eager_times:.2}");
    assert!(lazy.sublevels_most <= 2 * target, "{} sub-levels", lazy.sublevels_most);
}
