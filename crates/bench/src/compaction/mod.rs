//! One compaction of two runs of keys, after figure 16 of the X-Engine paper.
//!
//! The run first puts the lower run of keys into the bottom level. Then it flushes the upper run
//! above the lower one. One compaction merges both, and only this compaction is measured.
//!
//! Both runs consist of groups of consecutive keys; the positions of the groups are uniformly
//! random. Some of the upper run's groups are new, and lie between groups of the lower run. The
//! others are groups of the lower run that the upper run writes again. The size of groups and the
//! share of new groups determine how many slices the compaction can re-link, and how many blocks it
//! can copy without decoding them. With groups of one key, the compaction can re-link no slice and
//! copy no block, because the keys of all blocks interleave.
//!
//! Afterwards a scan compares every row with the row that was written, and some rows are read by
//! their keys.

mod command;
mod groups;
mod spillway;

#[cfg(test)]
mod tests;

use std::path::Path;

pub use self::command::CompactionArgs;
pub use self::spillway::SpillwayRuns;

/// Receives rows.
pub type Put<'a> = dyn FnMut(&[u8], &[u8]) -> Result<(), String> + 'a;
/// Passes rows in key order.
pub type Rows<'a> = dyn Fn(&mut Put<'_>) -> Result<(), String> + 'a;

/// Opens stores of one kind, which hold two runs.
pub trait RunsStores {
    /// The name in the report.
    fn name(&self) -> String;

    /// Its settings, as text.
    fn settings(&self) -> String;

    /// Opens an empty store in an empty folder, for this many rows in its upper run.
    ///
    /// # Errors
    /// The error, as text.
    fn open(&self, dir: &Path, upper_rows: u64) -> Result<Box<dyn RunsStore>, String>;
}

/// A store of two runs without background work.
pub trait RunsStore {
    /// Puts rows into the bottom level of an empty store.
    ///
    /// # Errors
    /// The error, as text.
    fn lower(&mut self, rows: &Rows<'_>) -> Result<(), String>;

    /// Puts rows into one run above the bottom level.
    ///
    /// # Errors
    /// The error, as text.
    fn upper(&mut self, rows: &Rows<'_>) -> Result<(), String>;

    /// Merges the runs in the bottom level, durably.
    ///
    /// # Errors
    /// The error, as text.
    fn compact(&mut self) -> Result<(), String>;

    /// The work of compactions since the store was opened.
    fn work(&self) -> CompactionWork;

    /// Reads `key` into `value`; returns whether it exists.
    ///
    /// # Errors
    /// The error, as text.
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool, String>;

    /// Visits every row, in key order.
    ///
    /// # Errors
    /// The error, as text.
    fn scan(&self, visit: &mut Put<'_>) -> Result<(), String>;
}

/// The work of compactions.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CompactionWork {
    /// Bytes that they read.
    pub read_bytes: f64,
    /// Bytes that they wrote.
    pub written_bytes: f64,
    /// The data reuse, if the store does it.
    pub reuse: Option<Reuse>,
}

/// How much data compactions reused, and how much they rewrote.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Reuse {
    /// Slices that stayed where they are.
    pub relinked_slices: f64,
    /// Their bytes.
    pub relinked_bytes: f64,
    /// Blocks that were copied without being decoded.
    pub carried_blocks: f64,
    /// Their bytes.
    pub carried_bytes: f64,
    /// Blocks written from merged rows.
    pub merged_blocks: f64,
    /// Their bytes.
    pub merged_bytes: f64,
}

impl CompactionWork {
    fn since(self, earlier: CompactionWork) -> CompactionWork {
        let reuse = self.reuse.map(|reuse| reuse.since(earlier.reuse.unwrap_or_default()));
        CompactionWork {
            read_bytes: self.read_bytes - earlier.read_bytes,
            written_bytes: self.written_bytes - earlier.written_bytes,
            reuse,
        }
    }
}

impl Reuse {
    fn since(self, earlier: Reuse) -> Reuse {
        Reuse {
            relinked_slices: self.relinked_slices - earlier.relinked_slices,
            relinked_bytes: self.relinked_bytes - earlier.relinked_bytes,
            carried_blocks: self.carried_blocks - earlier.carried_blocks,
            carried_bytes: self.carried_bytes - earlier.carried_bytes,
            merged_blocks: self.merged_blocks - earlier.merged_blocks,
            merged_bytes: self.merged_bytes - earlier.merged_bytes,
        }
    }

    /// The bytes of the whole output.
    fn bytes(&self) -> f64 {
        self.relinked_bytes + self.carried_bytes + self.merged_bytes
    }
}
