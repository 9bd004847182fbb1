//! Spillway as a store that has all its rows only in its log.

use std::path::{Path, PathBuf};

use spillway::Settings;

use super::{Recoverable, logs};
use crate::store::{SpillwayStores, Store};

/// Opens Spillway without background work, so that it flushes nothing.
#[derive(Clone, Debug)]
pub struct SpillwayRecovery {
    /// Lanes of its log.
    pub lanes: usize,
    /// Numbers of threads to open it with.
    pub threads: Vec<usize>,
}

impl Recoverable for SpillwayRecovery {
    fn name(&self) -> String {
        "spillway".to_owned()
    }

    fn settings(&self) -> String {
        format!("{} lanes, no background work, memory for all of the log", self.lanes)
    }

    fn threads(&self) -> Vec<usize> {
        self.threads.clone()
    }

    fn open(&self, dir: &Path, log_bytes: u64, threads: usize) -> Result<Box<dyn Store>, String> {
        let mut settings = Settings::default();
        // Memtables may use a quarter of the budget, and take more than the log of the same rows.
        settings.memory_bytes = (log_bytes as usize).saturating_mul(8).max(64 << 20);
        settings.log_bytes_max = u64::MAX;
        // Several segments even for a small log.
        settings.log_segment_bytes = settings.log_segment_bytes.min(log_bytes / 4).max(64 << 10);
        settings.log_lanes = Some(self.lanes);
        settings.recovery_threads = threads;
        settings.background_threads = false;
        let store = SpillwayStores::default().open_with(dir, settings)?;
        Ok(Box::new(store))
    }

    fn log_files(&self, dir: &Path) -> Result<Vec<PathBuf>, String> {
        logs::files_in(&dir.join("log"), |_| true)
    }
}
