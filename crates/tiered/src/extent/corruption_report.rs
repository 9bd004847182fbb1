//! Reports of damaged extents. A report names the keys of all slices that use the extent, because a
//! damaged index, filter or footer does not tell which keys it covered.

use std::fmt;
use std::sync::Arc;

use spillway_base::Error;

use super::handle::ExtentHandle;
use crate::extent_meta::SliceMeta;

impl ExtentHandle {
    /// Records a slice that uses the extent from now on.
    pub(crate) fn note_slice(&self, slice: &Arc<SliceMeta>) {
        self.users.note(slice);
    }

    /// The error for a damaged part of the extent. It names the part, the table, the location, and
    /// the keys of the slices that use the extent.
    pub(super) fn damaged(&self, part: &str, error: &Error) -> Error {
        self.damaged_at(self.with_keys(part), error)
    }

    /// The error for a damaged part whose name includes its keys.
    pub(super) fn damaged_at(&self, part: impl fmt::Display, error: &Error) -> Error {
        let table = self.home().table;
        let place = format!("{table:?}, {}, {}, {part}", self.meta.id, self.meta.slots);
        error.context(place).of_table(table)
    }

    /// The description of the damage, with the keys of the slices that use the extent.
    pub(super) fn with_keys(&self, what: &str) -> String {
        self.users.keys().map_or_else(|| what.to_owned(), |keys| format!("{what} {keys}"))
    }
}
