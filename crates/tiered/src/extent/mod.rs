//! Extents: 2 MB of sorted versions of one table, the unit of space, of compaction and of reuse
//! (X-Engine, section 3.1.1).
//!
//! # Format
//! An extent begins at a slot of a data file and takes as many slots as it needs: one, unless a
//! single version is larger than a slot. Its parts are frames, which have the format of
//! [`crate::block`], and a footer:
//!
//! ```text
//! data blocks   frames, in key order
//! index         a frame, whose body has for each block:
//!                  its first key and its last (each after its length, a varint)
//!                  its offset from the start of the extent (varint)
//!                  its length, frame included (varint)
//!                  versions, keys whose newest version is in it, tombstones, payload bytes,
//!                  smallest CSN, largest CSN (varints)
//!                  the bytes of its filter (varint)
//! filter        a frame, whose body is the filters of the blocks in order (see [`crate::filter`])
//! footer        64 bytes:
//!    0  magic      8  "SPWYEXTN"
//!    8  version    u32  1
//!   12  table      u32
//!   16  extent id  u64
//!   24  index      offset u64, length u32
//!   36  filter     offset u64, length u32
//!   48  versions   u64
//!   56  zero       4 bytes
//!   60  checksum   u32  CRC32C of bytes 0..60
//! ```
//!
//! Each block has its own properties and its own filter, so that a compaction can carry the block
//! into another extent without decoding it. An extent holds the blocks that one flush or compaction
//! wrote. Other extents may have keys between two neighbouring blocks of an extent, because the
//! compaction may have left slices of older extents in place there.

mod async_reads;
mod builder;
mod check;
mod corruption_report;
mod direct_io;
mod expect;
mod footer;
mod handle;
mod index_lookup;
mod part_index;
mod partial_read;
mod read_queues;
mod readahead;
mod resident;
mod settings;
mod slice_users;
#[cfg(all(test, not(loom)))]
mod tests;

pub(crate) use async_reads::ExtentRead;
pub(crate) use builder::{BlockParts, BuiltExtent, ExtentBuilder};
pub(crate) use check::check_extent;
pub(crate) use handle::{CachedBlock, CachedTable, ExtentHandle, ReadContext, read_by_this_thread};
pub(crate) use readahead::{Begun, Fetcher, ReadAhead};
pub(crate) use resident::{Missing, Resident};
pub(crate) use settings::ReadSettings;
#[cfg(all(test, not(loom)))]
pub(crate) use tests::bytes_of_parts;

#[cfg(fuzzing)]
pub(crate) mod fuzz {
    use spillway_base::codec::Reader;

    use super::footer::{FOOTER_BYTES, Footer, MAGIC, VERSION};
    use super::resident::Resident;
    use crate::block::BlockSearch;

    pub(crate) fn footer(bytes: &[u8]) {
        let Some(bytes) = bytes.first_chunk::<FOOTER_BYTES>() else { return };
        let mut bytes = *bytes;
        if bytes[0] & 1 == 1 {
            bytes[..8].copy_from_slice(MAGIC);
            bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        }
        crate::fuzz::seal(&mut bytes);
        if let Ok(footer) = Footer::decode(&bytes) {
            assert_eq!(Footer::decode(&footer.encode()).ok(), Some(footer));
        }
    }

    pub(crate) fn resident(bytes: &[u8]) {
        let mut reader = Reader::new(bytes);
        let (Ok(len), Ok(index)) = (reader.u32(), reader.bytes()) else { return };
        let filter = reader.rest();
        let search = BlockSearch::best();
        let resident = Resident::decode(index, filter, len.into(), search);
        let Ok(resident) = resident else { return };
        let all = 0..resident.blocks();
        for block in all.clone() {
            let found = resident.seek(all.clone(), resident.last(block));
            assert!(found <= block && resident.last(found) == resident.last(block));
            let place = resident.place(block);
            assert!(place.offset + u64::from(place.len) <= len.into());
            resident.may_contain(block, crate::filter::hash(resident.last(block)));
            if let Some(range) = resident.range_filter(block) {
                let mut bound = Vec::new();
                range.least_from(resident.first(block), &mut bound);
                assert!(bound.as_slice() >= resident.first(block));
                range.past_before(resident.last(block), &mut bound);
                assert!(bound.as_slice() <= resident.last(block));
            }
        }
        assert!(resident.bytes() > 0);
    }
}
