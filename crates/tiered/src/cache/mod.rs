//! What of the extents is in memory: data blocks, and block indexes with filters.

mod blocks;
mod resident;

pub(crate) use blocks::{BlockCache, BlockKey};
pub(crate) use resident::{HasSeat, Seat, TableCache};
