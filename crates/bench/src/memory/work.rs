//! What several sections need of a database.

use std::path::{Path, PathBuf};

use spillway::Database;

use crate::store::{SpillwayStores, metrics_sum};

/// Memory that the memory engine charges, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parts {
    pub(super) index: f64,
    pub(super) array: f64,
    pub(super) versions: f64,
}

impl Parts {
    pub(super) fn of(db: &Database) -> Parts {
        let metrics = db.metrics();
        let of = |name| metrics_sum(&metrics, &[name]);
        Parts {
            index: of("memory_engine_index_bytes"),
            array: of("memory_engine_array_bytes"),
            versions: of("memory_engine_version_bytes"),
        }
    }

    pub(super) fn total(self) -> f64 {
        self.index + self.array + self.versions
    }
}

/// A metric of the database.
pub(super) fn metric(db: &Database, name: &str) -> f64 {
    metrics_sum(&db.metrics(), &[name])
}

/// A place in a permutation of `0..count` that looks random.
pub(super) fn permuted(place: u64, count: u64, seed: u64) -> u64 {
    let mut step = (0x9E37_79B9_7F4A_7C15 % count.max(2)) | 1;
    while gcd(step, count) != 1 {
        step += 2;
    }
    ((u128::from(place) * u128::from(step) + u128::from(seed)) % u128::from(count)) as u64
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// All files in a folder and those below. Files may vanish meanwhile.
pub(super) fn files_below(dir: &Path) -> Result<Vec<PathBuf>, String> {
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

/// The bytes that files take on disk. Files may vanish meanwhile.
pub(super) fn disk_bytes(files: &[PathBuf]) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let blocks = files.iter().filter_map(|path| Some(path.metadata().ok()?.blocks()));
    blocks.sum::<u64>() * 512
}

/// Both engines, the memory engine first.
#[must_use]
pub fn engines() -> [SpillwayStores; 2] {
    let tiered = SpillwayStores { name: "spillway tiered".to_owned(), ..SpillwayStores::default() };
    [SpillwayStores::in_memory_engine(), tiered]
}
