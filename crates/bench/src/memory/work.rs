//! Functions that several sections need: metrics, disk space, and the two engines.

use std::path::PathBuf;

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
