//! Functions that all runs need: histograms, medians, values to write, and progress bars.

use std::io::Read;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use hdrhistogram::Histogram;
use indicatif::{ProgressBar, ProgressStyle};
use spillway_base::rng::Rng;

/// Bytes of a key.
pub(crate) const KEY_BYTES: usize = 16;

/// The key of a number: keys have the order of their numbers.
pub(crate) fn key(number: u64) -> [u8; KEY_BYTES] {
    let mut key = [b'0'; KEY_BYTES];
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Latencies in nanoseconds, up to a minute.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 60_000_000_000, 3).expect("the bounds are in order")
}

/// A percentile, in microseconds.
pub(crate) fn quantile_us(latency_ns: &Histogram<u64>, quantile: f64) -> f64 {
    latency_ns.value_at_quantile(quantile) as f64 / 1e3
}

/// The upper median; NaN if there is no value.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The number of rows with a key of 16 bytes and a value that take this many times the memory.
pub(crate) fn rows_of(memory_mib: usize, data_times: f64, value_bytes: usize) -> u64 {
    let row_bytes = value_bytes as f64 + 16.0;
    ((memory_mib << 20) as f64 * data_times / row_bytes) as u64
}

/// Calls a function for each element, this many times; the order rotates each round, so that none
/// is always first.
pub(crate) fn in_turns<T>(
    rounds: usize,
    all: &[T],
    mut act: impl FnMut(&T) -> Result<(), String>,
) -> Result<(), String> {
    for round in 0..rounds {
        for place in 0..all.len() {
            act(&all[(place + round) % all.len()])?;
        }
    }
    Ok(())
}

/// A progress bar of this many steps, shown on a terminal.
pub(crate) fn progress(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {msg}");
    ProgressBar::new(steps).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// Creates an empty folder, and removes an existing one.
pub(crate) fn fresh_folder(folder: &Path) -> Result<(), String> {
    remove_folder(folder)?;
    // A database refuses a folder that other users can read.
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| format!("{}: {error}", folder.display()))
}

/// Removes a folder with its contents, if it exists.
pub(crate) fn remove_folder(folder: &Path) -> Result<(), String> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("{}: {error}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// The size of a read, when a file is read as a whole.
const PIECE_BYTES: usize = 256 << 10;

/// Reads all files of a folder from start to end, so that the page cache holds them in large pages,
/// as after sequential reads or writes. Random reads leave single pages, and a later read of 16 KiB
/// then takes half as long again. The measurement would otherwise depend on how a store wrote its
/// files, through the page cache or past it.
pub(crate) fn read_through(folder: &Path) -> Result<(), String> {
    let mut piece = vec![0; PIECE_BYTES];
    for path in files_below(folder)? {
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        let mut file = match std::fs::File::open(&path) {
            Ok(file) => file,
            // Files that are no longer needed are removed concurrently.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(failed(error)),
        };
        while file.read(&mut piece).map_err(failed)? > 0 {}
    }
    Ok(())
}

/// All files in a folder and those below, in order. Files may vanish meanwhile.
pub(crate) fn files_below(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let (mut files, mut folders) = (Vec::new(), vec![dir.to_owned()]);
    while let Some(folder) = folders.pop() {
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        for entry in std::fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(kind) if kind.is_file() => files.push(entry.path()),
                _ => {}
            }
        }
    }
    files.sort();
    Ok(files)
}

/// A permutation of `0..count` that looks random.
pub(crate) struct Permutation {
    count: u64,
    /// Coprime to the count.
    step: u64,
    seed: u64,
}

impl Permutation {
    /// A permutation for each seed.
    pub(crate) fn new(count: u64, seed: u64) -> Permutation {
        let mut step = (0x9E37_79B9_7F4A_7C15 % count.max(2)) | 1;
        while gcd(step, count) != 1 {
            step += 2;
        }
        Permutation { count, step, seed }
    }

    /// The position to which it maps a position below the count.
    pub(crate) fn of(&self, place: u64) -> u64 {
        let moved = u128::from(place) * u128::from(self.step) + u128::from(self.seed);
        (moved % u128::from(self.count)) as u64
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Values are slices of this many bytes.
const POOL_BYTES: usize = 1 << 20;

/// The bytes from which values are cut, so that creating a value costs no time.
pub(crate) struct Values {
    bytes: Vec<u8>,
    value_bytes: usize,
}

impl Values {
    /// Values of this size, in which every second hundred bytes repeat, as in db_bench's default
    /// compression ratio.
    pub(crate) fn new(seed: u64, value_bytes: usize) -> Values {
        let mut bytes = vec![0; POOL_BYTES + value_bytes];
        let mut rng = Rng::new(seed);
        bytes.chunks_mut(200).for_each(|chunk| {
            let half = chunk.len() / 2;
            rng.fill(&mut chunk[half..]);
        });
        Values { bytes, value_bytes }
    }

    /// The value of a number.
    pub(crate) fn of(&self, number: u64) -> &[u8] {
        let at = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) as usize % POOL_BYTES;
        &self.bytes[at..at + self.value_bytes]
    }
}
