//! The folders of a database.

use std::path::{Path, PathBuf};

pub(crate) fn data_dir(path: &Path) -> PathBuf {
    path.join("tiered")
}

/// Where the memory engine's checkpoints and compacted segments are.
pub(crate) fn memory_dir(path: &Path) -> PathBuf {
    path.join("memory")
}

/// Where the log is, unless the settings say otherwise.
pub(crate) fn log_dir(path: &Path) -> PathBuf {
    path.join("log")
}
