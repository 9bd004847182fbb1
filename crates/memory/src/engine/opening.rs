//! What an opening of the engine needs.

use std::path::{Path, PathBuf};

use spillway_base::Error;
use spillway_base::budget::Budget;
use spillway_storage::Disk;

use super::checkpoints::Checkpoints;
use super::inner::MemorySettings;
use super::load::KeyLoader;
use super::table_set::TableSet;
use crate::manifest::{TableFiles, file_name};

/// The parts of the engine that an opening needs.
pub(super) struct Opening<'e> {
    pub(super) settings: &'e MemorySettings,
    pub(super) disk: &'e dyn Disk,
    pub(super) dir: &'e Path,
    pub(super) budget: &'e Budget,
    pub(super) keys: KeyLoader<'e>,
    pub(super) tables: &'e TableSet,
    pub(super) checkpoints: &'e Checkpoints,
}

impl Opening<'_> {
    pub(super) fn path_of(&self, number: u64, kind: &str) -> PathBuf {
        self.dir.join(file_name(number, kind))
    }

    pub(super) fn damaged(&self, files: &TableFiles, what: &str) -> Error {
        Error::corruption(format!("{}, {:?}: {what}", self.dir.display(), files.id))
    }
}
