//! SIMULATION-12: the space that a database takes once everything is flushed and compacted.
//!
//! Each kind of file has a bound of its own. A bound follows from the settings and the live rows,
//! and states its slack.

use std::fmt;
use std::path::Path;

use spillway::Settings;
use spillway_storage::sim::SimDisk;

use super::shape::{self, Shape};

/// The most bytes of a record besides the key and the value.
const RECORD_BYTES: u64 = 64;
/// Segments of a lane besides those of the log's limit: the one that is written, the one that is
/// prepared, and two that are kept for use again.
const LANE_SEGMENTS: u64 = 4;
/// Slots of each folder that are not full, or free and kept at rest: two are free, and each run of
/// a table may end with a slot that is not full.
const SLOTS: u64 = 12;
/// Manifests, checkpoints, directories of indexes and the records of folders: a sixth more than the
/// most of about 400 histories.
const METADATA_BYTES: u64 = 192 << 10;

/// Bytes of files, by their kinds.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Space {
    /// Segments of the log, and the reserve.
    pub(super) log: u64,
    /// Segments with rows of the memory engine.
    pub(super) kept: u64,
    /// Extents.
    pub(super) data: u64,
    /// All other files.
    pub(super) metadata: u64,
}

impl Space {
    /// The space of the files in some folders.
    pub(super) fn of<'d>(disk: &SimDisk, dirs: impl Iterator<Item = &'d str> + Clone) -> Space {
        let mut space = Space::default();
        for (path, len) in disk.files() {
            if !dirs.clone().any(|dir| path.starts_with(dir)) {
                continue;
            }
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let extension = Path::new(name).extension().and_then(|name| name.to_str());
            let bytes = match (name, extension) {
                ("reserve", _) | (_, Some("plog" | "tmp")) => &mut space.log,
                (_, Some("kept" | "rows")) => {
                    // There may be many small files, so the rest of a page does not count.
                    space.kept += disk.used_in(&path).min(len);
                    continue;
                }
                (_, Some("data")) => &mut space.data,
                _ => &mut space.metadata,
            };
            *bytes += disk.used_in(&path);
        }
        space
    }

    /// The most space of a database with these live bytes, in tables of the memory engine and of
    /// the tiered one.
    pub(super) fn allowed(settings: &Settings, shape: &Shape, live: Live) -> Space {
        let segment = settings.log_segment_bytes;
        // A frame that is larger than a segment makes a larger one.
        let frame = shape.frame_bytes().saturating_sub(segment);
        let folders = 1 + u64::from((shape.tiers & (shape::FAST | shape::SLOW)).count_ones());
        let rows = live.memory + live.memory_rows * RECORD_BYTES;
        Space {
            // The reserve takes a segment.
            log: settings.log_bytes_max
                + (LANE_SEGMENTS * shape.lanes + 1) * segment
                + shape.lanes * frame,
            // Segments without rows that wait for a checkpoint are a quarter of that. Files take
            // whole pages.
            kept: ((settings.space_max * rows as f64) as u64 + settings.log_bytes_max) * 5 / 4
                + shape.lanes * segment,
            data: (settings.space_max * live.tiered as f64) as u64
                + folders * SLOTS * settings.slot_bytes as u64,
            metadata: METADATA_BYTES,
        }
    }

    /// Whether no kind takes more than is allowed.
    pub(super) fn fits(&self, allowed: &Space) -> bool {
        self.log <= allowed.log
            && self.kept <= allowed.kept
            && self.data <= allowed.data
            && self.metadata <= allowed.metadata
    }
}

impl fmt::Display for Space {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Space { log, kept, data, metadata } = self;
        write!(f, "log {log}, kept {kept}, data {data}, metadata {metadata}")
    }
}

/// Bytes of the keys and values of the tables, and numbers of rows.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Live {
    pub(super) memory: u64,
    pub(super) memory_rows: u64,
    pub(super) tiered: u64,
}
