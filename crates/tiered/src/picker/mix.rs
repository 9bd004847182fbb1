//! Simulates the mixed workload of figure 20 of the X-Engine paper with keys only, to measure the
//! bytes that the picks write. It uses no clock and no disk, so the result is deterministic.

use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use spillway_base::rng::Rng;

use super::Shape;
use super::fill::{EXTENT_BYTES, next_pick, shape_for};
use crate::extent_meta::ExtentId;
use crate::level::{Levels, LevelsEdit, Slice};
use crate::manifest::Place;

const MEMTABLE_BYTES: u64 = 16 << 20;
/// Bytes of a row in an extent.
const ROW_BYTES: u64 = 220;
/// The distinct rows of a memtable, which takes more memory for each than the row.
const MEMTABLE_ROWS: usize = 14_000;
/// Rows that were loaded.
const LOADED: u32 = 9_000_000;

/// A sub-table in which some rows are updated, most often the same ones, and others are inserted
/// past all existing ones and updated soon.
struct Mix {
    shape: Shape,
    levels: Levels,
    keys: FxHashMap<ExtentId, Arc<[u32]>>,
    extents: u64,
    rows: u32,
    from: u32,
    rng: Rng,
    hot: Zipf,
    recent: Zipf,
    flushed: u64,
    written: [u64; 7],
    sublevels: Vec<usize>,
    largest: u64,
}

/// Ranks of approximately a Zipf distribution with an exponent of 0.99.
struct Zipf(f64);

impl Zipf {
    fn draw(&self, rng: &mut Rng) -> u64 {
        // The inverse distribution function of the continuous version.
        let share = rng.below(1 << 40) as f64 / (1u64 << 40) as f64;
        let power = 0.01;
        let all = (self.0 + 1.0).powf(power) - 1.0;
        ((share * all + 1.0).powf(1.0 / power) - 1.0) as u64
    }
}

impl Mix {
    /// A sub-table with the last rows of a table; the fraction `from` of the rows is before them.
    fn new(shape: Shape, from: f64, seed: u64) -> Mix {
        let from = (f64::from(LOADED) * from) as u32;
        let mut mix = Mix {
            shape,
            levels: Levels::default(),
            keys: FxHashMap::default(),
            extents: 0,
            rows: LOADED,
            from,
            rng: Rng::new(seed),
            hot: Zipf(f64::from(LOADED)),
            recent: Zipf(100_000.0),
            flushed: 0,
            written: [0; 7],
            sublevels: Vec::new(),
            largest: 0,
        };
        mix.put((from..LOADED).collect(), Place::Level2, Vec::new());
        mix
    }

    /// The sub-table's keys in one memtable.
    fn memtable(&mut self) -> Vec<u32> {
        let mut keys = BTreeSet::new();
        while keys.len() < MEMTABLE_ROWS {
            let key = match self.rng.below(6) {
                0 | 1 => {
                    self.rows += 1;
                    self.rows - 1
                }
                2 | 3 => {
                    let ago = self.recent.draw(&mut self.rng) as u32 * 4;
                    self.rows.saturating_sub(1 + ago)
                }
                _ => {
                    let rank = self.hot.draw(&mut self.rng);
                    (rank.wrapping_mul(0x9e37_79b9_7f4a_7c15) % u64::from(LOADED)) as u32
                }
            };
            if key >= self.from {
                keys.insert(key);
            }
        }
        keys.into_iter().collect()
    }

    /// Flushes a number of memtables.
    fn after(mut self, memtables: usize) -> Mix {
        for _ in 0..memtables {
            self.flush();
        }
        self
    }

    fn flush(&mut self) {
        let keys = self.memtable();
        self.flushed += keys.len() as u64 * ROW_BYTES;
        let place = Place::Level0(self.levels.next_sublevel());
        self.put(keys, place, Vec::new());
        while let Some(pick) = next_pick(self.shape, &self.levels) {
            let mut keys: Vec<u32> = Vec::new();
            for slice in pick.inputs() {
                keys.extend_from_slice(&self.keys[&slice.meta.extent]);
            }
            keys.sort_unstable();
            keys.dedup();
            let bytes = keys.len() as u64 * ROW_BYTES;
            self.written[pick.kind as usize] += bytes;
            self.largest = self.largest.max(bytes);
            self.put(keys, pick.target, pick.inputs().cloned().collect());
        }
        self.sublevels.push(self.levels.level0.len());
    }

    fn put(&mut self, keys: Vec<u32>, place: Place, removed: Vec<Arc<Slice>>) {
        for slice in &removed {
            self.keys.remove(&slice.meta.extent);
        }
        let mut edit = LevelsEdit { removed, ..LevelsEdit::default() };
        for keys in keys.chunks((EXTENT_BYTES / ROW_BYTES) as usize) {
            self.extents += 1;
            let key = |key: u32| format!("{key:08}");
            let id = ExtentId(self.extents);
            let (smallest, largest) = (key(keys[0]), key(keys[keys.len() - 1]));
            let bytes = keys.len() as u64 * ROW_BYTES;
            edit.added.push((place, Slice::detached(id, &smallest, &largest, bytes, 0)));
            self.keys.insert(id, keys.into());
        }
        self.levels = self.levels.apply(&edit).unwrap();
    }

    /// The bytes that compactions wrote for each flushed byte.
    fn times(&self) -> f64 {
        self.written.iter().sum::<u64>() as f64 / self.flushed as f64
    }
}

fn shape(even_level0: bool) -> Shape {
    let level0_target = if even_level0 { 14 } else { 12 };
    Shape { level0_target, even_level0, ..shape_for(MEMTABLE_BYTES / 3) }
}

/// The results for a sub-table with the last rows of a table, after as many memtables as in a
/// benchmark run: bytes written for each flushed byte, the bytes of the largest compaction, and the
/// average number of sub-levels.
fn outcome(even_level0: bool, from: f64) -> (f64, u64, f64) {
    let (mut times, mut mix) = (0.0_f64, Mix::new(shape(even_level0), from, 42).after(60));
    for _ in 0..10 {
        mix = mix.after(4);
        times = times.max(mix.times());
    }
    let sublevels = mix.sublevels.iter().sum::<usize>() as f64 / mix.sublevels.len() as f64;
    println!("from {from}, {even_level0}: {times:.2}, {} MiB, {sublevels:.1}", mix.largest >> 20);
    (times, mix.largest, sublevels)
}

/// Recently inserted rows go down alone, and not with everything that overlaps them: no compaction
/// is many times as large as the others, wherever the sub-table begins.
#[test]
fn no_compaction_of_a_mix_is_many_times_the_others() {
    for from in [0.25, 0.5] {
        let (times, largest, sublevels) = outcome(true, from);
        assert!(times < 1.8, "from {from}: {times:.2} times");
        assert!(largest < 100 << 20, "from {from}: {} MiB at once", largest >> 20);
        assert!(sublevels < 9.0, "from {from}: {sublevels:.1} sub-levels");
    }
    let (times, largest, _) = outcome(false, 0.5);
    assert!(times > 2.0 && largest > 250 << 20, "{times:.2} times, {} MiB", largest >> 20);
}
