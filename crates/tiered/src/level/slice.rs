//! Slices of extents.

use std::sync::Arc;

use crate::extent::ExtentHandle;
use crate::extent_meta::SliceMeta;
use crate::temperature::Temperature;

/// Consecutive blocks of an extent.
pub(crate) struct Slice {
    pub(crate) meta: Arc<SliceMeta>,
    pub(crate) extent: Arc<ExtentHandle>,
}

impl Slice {
    /// A slice of an extent. The extent records it.
    pub(crate) fn new(meta: Arc<SliceMeta>, extent: Arc<ExtentHandle>) -> Arc<Slice> {
        extent.note_slice(&meta);
        Arc::new(Slice { meta, extent })
    }

    /// Its temperature.
    pub(crate) fn temperature(&self) -> Temperature {
        self.extent.temperature(self.meta.block_range())
    }

    /// A slice without an extent's bytes, with blocks of one byte, for tests that need only the
    /// record.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn detached(
        extent: crate::extent_meta::ExtentId,
        smallest: &str,
        largest: &str,
        bytes: u64,
        tombstones: u64,
    ) -> Arc<Slice> {
        use crate::extent_meta::{Counts, ExtentMeta};
        use crate::space::SlotRun;

        let slots = SlotRun { file: 0, first: extent.0 as u32, count: 1 };
        let handle = ExtentMeta {
            id: extent,
            slots,
            len: bytes,
            blocks: bytes as u32,
            data_bytes: bytes,
            crc: 0,
            coding: crate::coding::Coding::Stored,
            names: crate::coding::Names::default(),
        };
        let csn = spillway_base::Csn(1);
        let counts = Counts {
            versions: 100,
            keys: 100,
            tombstones,
            payload_bytes: bytes,
            csn_min: csn,
            csn_max: csn,
        };
        let meta = SliceMeta {
            extent,
            first_block: 0,
            blocks: bytes as u32,
            bytes,
            smallest: smallest.as_bytes().into(),
            largest: largest.as_bytes().into(),
            counts,
        };
        let extent = ExtentHandle::detached(handle);
        extent.change_live_bytes(bytes, 0);
        Slice::new(Arc::new(meta), extent)
    }
}

impl std::fmt::Debug for Slice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.meta.fmt(f)
    }
}
