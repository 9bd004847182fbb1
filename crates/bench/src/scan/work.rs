//! The load of a store, and the operations on it.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use clap::ValueEnum;
use rustix::fs::{Advice, fadvise};
use spillway_base::checksum::crc32c_append;
use spillway_base::rng::Rng;
use spillway_base::{Direction, clock};

use crate::machine::{self, Io};
use crate::measure::{Values, files_below, key};
use crate::store::{Store, load};

/// The measured operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
#[value(rename_all = "kebab-case")]
pub enum ScanTask {
    /// Seeks to random keys, and steps forward from each
    Seek,
    /// Seeks to random keys, and steps backward from each
    SeekBack,
    /// All rows, forward
    All,
    /// All rows, backward
    AllBack,
    /// Gets of many random keys at once
    MultiGet,
    /// The same keys, one by one
    Gets,
}

impl ScanTask {
    /// All of them, in the order of a run.
    pub const ALL: [ScanTask; 6] = [
        ScanTask::Seek,
        ScanTask::SeekBack,
        ScanTask::All,
        ScanTask::AllBack,
        ScanTask::MultiGet,
        ScanTask::Gets,
    ];

    /// Its name in the report.
    pub(super) fn name(self) -> &'static str {
        match self {
            ScanTask::Seek => "seek",
            ScanTask::SeekBack => "seek back",
            ScanTask::All => "all",
            ScanTask::AllBack => "all back",
            ScanTask::MultiGet => "multi_get",
            ScanTask::Gets => "gets",
        }
    }
}

/// Where the rows lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
#[value(rename_all = "kebab-case")]
pub enum Layout {
    /// All in one level
    One,
    /// Three tenths of them were written again since
    Layers,
}

impl Layout {
    /// Its name in the report.
    pub(super) fn name(self) -> &'static str {
        match self {
            Layout::One => "one level",
            Layout::Layers => "layers",
        }
    }
}

/// The parameters of a turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct ScanPlan {
    pub(super) rows: u64,
    pub(super) value_bytes: usize,
    /// Seeks of a turn, and rows read from each.
    pub(super) seeks: u64,
    pub(super) nexts: usize,
    /// Keys to get in a turn, and how many of them at once.
    pub(super) gets: u64,
    pub(super) at_once: usize,
    /// The threads that get them.
    pub(super) threads: u64,
    /// Whether the store's files are dropped from the page cache before a turn.
    pub(super) cold: bool,
    pub(super) seed: u64,
}

/// The results of a turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Took {
    /// Rows read.
    pub(super) rows: u64,
    pub(super) elapsed_s: f64,
    /// Processor time of the reading threads.
    pub(super) cpu_s: f64,
    /// Bytes that devices read during the turn.
    pub(super) device_bytes: u64,
    pub(super) checksum: u64,
}

/// Writes the rows in their layout.
pub(super) fn lay(
    store: &dyn Store,
    name: &str,
    layout: Layout,
    plan: &ScanPlan,
) -> Result<(), String> {
    load(store, name, plan.rows, &Values::new(plan.seed, plan.value_bytes))?;
    store.compact()?;
    if layout == Layout::Layers {
        let newer = Values::new(plan.seed + 1, plan.value_bytes);
        let mut rng = Rng::new(plan.seed);
        for layer in 0..3 {
            for _ in 0..plan.rows / 10 {
                let number = rng.below(plan.rows);
                store.commit(&[(&key(number), newer.of(number))], false)?;
            }
            // The last layer stays where it is.
            if layer < 2 {
                store.settle()?;
            }
        }
    }
    Ok(())
}

/// Drops a store's files from the page cache.
pub(super) fn drop_cache(folder: &Path) -> Result<(), String> {
    for path in files_below(folder)? {
        if let Ok(file) = File::open(&path) {
            // Dirty pages would stay.
            file.sync_all()
                .and_then(|()| Ok(fadvise(file, 0, None, Advice::DontNeed)?))
                .map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    Ok(())
}

/// Does a task once.
pub(super) fn run(
    store: &dyn Store,
    folder: &Path,
    task: ScanTask,
    plan: &ScanPlan,
) -> Result<Took, String> {
    if plan.cold {
        drop_cache(folder)?;
    }
    let threads = plan.threads;
    let share = |thread: u64| -> Result<(Seen, Duration), String> {
        let cpu = machine::thread_time();
        let own = ScanPlan { gets: plan.gets / threads, seed: plan.seed + (thread << 8), ..*plan };
        let seen = read(store, task, &own)?;
        Ok((seen, machine::thread_time() - cpu))
    };
    let (begin, io) = (clock::now(), Io::own());
    let all = std::thread::scope(|scope| {
        let share = &share;
        let others: Vec<_> =
            (1..threads).map(|thread| scope.spawn(move || share(thread))).collect();
        let own = share(0);
        let others = others.into_iter().map(|other| other.join().expect("a reader does not panic"));
        std::iter::once(own).chain(others).collect::<Result<Vec<_>, _>>()
    })?;
    let elapsed_s = (clock::now() - begin).as_secs_f64();
    let device_bytes = Io::own().since(io).device_read_bytes;
    let cpu_s = all.iter().map(|(_, cpu)| cpu.as_secs_f64()).sum();
    let rows = all.iter().map(|(seen, _)| seen.rows).sum();
    let checksum = all.iter().fold(0, |before, (seen, _)| {
        let so_far = crc32c_append(before, &seen.rows.to_le_bytes());
        crc32c_append(so_far, &seen.sum.to_le_bytes())
    });
    Ok(Took { rows, elapsed_s, cpu_s, device_bytes, checksum: u64::from(checksum) })
}

/// The data used of a row: little, so that the store is measured.
struct Seen {
    rows: u64,
    sum: u64,
}

impl Seen {
    fn row(&mut self, key: &[u8], value: &[u8]) {
        let number = key.last_chunk().map_or(0, |number| u64::from_be_bytes(*number));
        let first = value.first_chunk().map_or(0, |first| u64::from_le_bytes(*first));
        self.rows += 1;
        self.sum = self.sum.wrapping_mul(31).wrapping_add(number ^ first ^ value.len() as u64);
    }
}

/// Only the measured code: `valgrind --toggle-collect` uses its name
/// (`scripts/bench-scan-instructions`).
#[inline(never)]
fn read(store: &dyn Store, task: ScanTask, plan: &ScanPlan) -> Result<Seen, String> {
    let mut rng = Rng::new(plan.seed ^ 0x5CA7);
    let mut seen = Seen { rows: 0, sum: 0 };
    match task {
        ScanTask::Seek | ScanTask::SeekBack => {
            let direction = match task {
                ScanTask::Seek => Direction::Forward,
                _ => Direction::Backward,
            };
            for _ in 0..plan.seeks {
                let from = key(rng.below(plan.rows));
                let row = &mut |key: &[u8], value: &[u8]| seen.row(key, value);
                store.scan(Some(&from), direction, plan.nexts, row)?;
            }
        }
        ScanTask::All | ScanTask::AllBack => {
            let direction = match task {
                ScanTask::All => Direction::Forward,
                _ => Direction::Backward,
            };
            let row = &mut |key: &[u8], value: &[u8]| seen.row(key, value);
            store.scan(None, direction, usize::MAX, row)?;
        }
        ScanTask::MultiGet => {
            let (mut left, mut keys) = (plan.gets, Vec::new());
            while left > 0 {
                let count = left.min(plan.at_once as u64);
                keys.clear();
                keys.extend((0..count).map(|_| key(rng.below(plan.rows))));
                let wanted: Vec<&[u8]> = keys.iter().map(|key| &key[..]).collect();
                store.multi_get(&wanted, &mut |at, value| {
                    if let Some(value) = value {
                        seen.row(wanted[at], value);
                    }
                })?;
                left -= count;
            }
        }
        ScanTask::Gets => {
            let mut value = Vec::new();
            for _ in 0..plan.gets {
                let key = key(rng.below(plan.rows));
                if store.get(&key, &mut value)? {
                    seen.row(&key, &value);
                }
            }
        }
    }
    Ok(seen)
}
