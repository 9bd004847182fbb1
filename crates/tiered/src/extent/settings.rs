//! Settings for reads of extents.

use crate::block::BlockSearch;
use crate::cache::CacheSettings;

/// How extents are read.
pub(crate) struct ReadSettings {
    pub(crate) cache: CacheSettings,
    /// How blocks are searched.
    pub(crate) search: BlockSearch,
    /// Whether it is counted how often extents are read.
    pub(crate) temperature: bool,
    /// Whether readers' reads go past the system's page cache.
    pub(crate) direct: bool,
    /// Whether blocks may be in large pages of the system.
    pub(crate) large_pages: bool,
    /// Whether gets read parts of blocks.
    pub(crate) part_reads: bool,
}

impl ReadSettings {
    /// Through the page cache, with nothing counted, for who reads each block once.
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
