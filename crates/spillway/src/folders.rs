//! The folders of a database.

use std::path::{Path, PathBuf};

pub(crate) fn data_dir(path: &Path) -> PathBuf {
    path.join("tiered")
}

/// The folder of the memory engine's checkpoints and compacted segments.
pub(crate) fn memory_dir(path: &Path) -> PathBuf {
    path.join("memory")
}

/// The folder of the log, unless the settings name another.
pub(crate) fn log_dir(path: &Path) -> PathBuf {
    path.join("log")
}
