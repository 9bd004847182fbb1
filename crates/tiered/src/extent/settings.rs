//! Settings for reads of extents.

use crate::block::BlockSearch;
use crate::cache::CacheSettings;

/// The settings of reads of extents.
pub(crate) struct ReadSettings {
    pub(crate) cache: CacheSettings,
    /// How blocks are searched.
    pub(crate) search: BlockSearch,
    /// Whether reads of extents are counted, for their temperature.
    pub(crate) temperature: bool,
    /// Whether readers bypass the system's page cache.
    pub(crate) direct: bool,
    /// Whether blocks may be in large pages of the system.
    pub(crate) large_pages: bool,
    /// Whether gets make partial reads.
    pub(crate) part_reads: bool,
}

impl ReadSettings {
    /// For a reader that reads each block once. It reads through the page cache, and counts no
    /// reads.
    pub(crate) fn once(cache_bytes: usize) -> ReadSettings {
        let (cache, search) = (CacheSettings::fixed(cache_bytes), BlockSearch::best());
        ReadSettings {
            cache,
            search,
            temperature: false,
            direct: false,
            large_pages: false,
            part_reads: false,
        }
    }
}
