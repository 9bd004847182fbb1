//! Asynchronous reads of extents' blocks and tables ([`spillway_storage::async_reads`]).

use std::sync::Arc;

use spillway_base::Result;
use spillway_base::budget::Charge;
use spillway_storage::File;
use spillway_storage::async_reads::AsyncRead;

use super::handle::ExtentHandle;
use super::resident::Missing;
use crate::extent_meta::ExtentId;

/// A part of an extent that a lookup misses. It holds the extent's handle, and so everything that
/// the read needs.
pub(crate) struct ExtentRead {
    pub(crate) extent: Arc<ExtentHandle>,
    pub(crate) missing: Missing,
}

impl AsyncRead for ExtentRead {
    type Name = (ExtentId, Missing);

    fn name(&self) -> (ExtentId, Missing) {
        (self.extent.meta.id, self.missing)
    }

    /// After a move, an extent has the same name, but lies in another slot.
    fn is(&self, other: &ExtentRead) -> bool {
        self.missing == other.missing && Arc::ptr_eq(&self.extent, &other.extent)
    }

    fn place(&self) -> Option<(Arc<dyn File>, u64, usize)> {
        let (file, offset, len) = self.extent.place_of(self.missing)?;
        Some((file.clone(), offset, len))
    }

    fn charge(&self, bytes: usize) -> Charge {
        self.extent.queues_and_disk().0.charge(bytes)
    }

    fn take(&self, bytes: &[u8]) -> Result<()> {
        self.extent.keep_read(self.missing, bytes)
    }
}
