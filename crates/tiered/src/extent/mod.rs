//! Extents: 2 MB of sorted versions of one table, the unit of space, of compaction and of reuse (X-Engine,
//! section 3.1.1).
//!
//! # Format
//! An extent begins at a slot of a data file and takes as many slots as it needs: one, but for a version that
//! is larger by itself. Frames are those of [`crate::block`].
//!
//! ```text
//! data blocks   frames, in key order
//! index         a frame, whose body has for each block: its last key (varint length, bytes),
//!               its offset from the start of the extent and its length, frame included (varints)
//! filter        a frame, whose body is the filter of the extent's keys
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

mod builder;
mod handle;
#[cfg(all(test, not(loom)))]
mod tests;

use spillway_base::checksum::crc32c;
use spillway_base::codec::Reader;
use spillway_base::{Error, Result, TableId};

use crate::extent_meta::ExtentId;

pub(crate) use builder::{BuiltExtent, ExtentBuilder};
pub(crate) use handle::{ExtentHandle, ReadContext};

const MAGIC: &[u8; 8] = b"SPWYEXTN";
const VERSION: u32 = 1;
pub(crate) const FOOTER_BYTES: usize = 64;

/// Where the parts of an extent are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Footer {
    table: TableId,
    id: ExtentId,
    index: (u64, u32),
    filter: (u64, u32),
    versions: u64,
}

impl Footer {
    fn encode(&self) -> [u8; FOOTER_BYTES] {
        let mut bytes = [0; FOOTER_BYTES];
        let mut at = 0;
        let mut put = |part: &[u8]| {
            bytes[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        };
        put(MAGIC);
        put(&VERSION.to_le_bytes());
        put(&self.table.0.to_le_bytes());
        put(&self.id.0.to_le_bytes());
        for (offset, len) in [self.index, self.filter] {
            put(&offset.to_le_bytes());
            put(&len.to_le_bytes());
        }
        put(&self.versions.to_le_bytes());
        let crc = crc32c(&bytes[..FOOTER_BYTES - 4]);
        bytes[FOOTER_BYTES - 4..].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Footer> {
        let mut reader = Reader::new(bytes);
        let magic = reader.take(MAGIC.len())?;
        let version = reader.u32()?;
        let footer = Footer {
            table: TableId(reader.u32()?),
            id: ExtentId(reader.u64()?),
            index: (reader.u64()?, reader.u32()?),
            filter: (reader.u64()?, reader.u32()?),
            versions: reader.u64()?,
        };
        reader.take(4)?;
        if magic != MAGIC || reader.u32()? != crc32c(&bytes[..FOOTER_BYTES - 4]) {
            return Err(Error::corruption("the footer does not match its checksum"));
        }
        if version != VERSION {
            return Err(Error::corruption(format!("unknown extent version {version}")));
        }
        Ok(footer)
    }
}

/// A block's place in its extent.
#[derive(Clone, Debug)]
struct BlockPlace {
    last: Box<[u8]>,
    offset: u64,
    len: u32,
}

/// What is kept in memory of an extent that is read: its block index and its filter.
pub(crate) struct Resident {
    blocks: Vec<BlockPlace>,
    filter: Box<[u8]>,
}

impl Resident {
    fn decode(index: &[u8], filter: &[u8], extent_len: u64) -> Result<Resident> {
        let mut reader = Reader::new(index);
        let mut blocks: Vec<BlockPlace> = Vec::new();
        while !reader.is_empty() {
            let place = BlockPlace {
                last: reader.bytes()?.into(),
                offset: reader.varint()?,
                len: reader.varint_u32()?,
            };
            let end = place.offset.checked_add(u64::from(place.len));
            let inside = end.is_some_and(|end| end <= extent_len);
            if !inside || blocks.last().is_some_and(|before| before.last > place.last) {
                return Err(Error::corruption("the block index makes no sense"));
            }
            blocks.push(place);
        }
        if blocks.is_empty() {
            return Err(Error::corruption("the block index is empty"));
        }
        Ok(Resident { blocks, filter: filter.into() })
    }

    fn bytes(&self) -> usize {
        let keys: usize = self.blocks.iter().map(|block| block.last.len()).sum();
        self.blocks.len() * size_of::<BlockPlace>() + keys + self.filter.len()
    }

    /// The number of blocks.
    pub(crate) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// The first block that could hold `key` or a larger one; past the last when none could.
    pub(crate) fn seek(&self, key: &[u8]) -> usize {
        self.blocks.partition_point(|block| *block.last < *key)
    }

    /// Whether a key of this hash may be in the extent.
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        crate::filter::may_contain(&self.filter, hash)
    }
}

#[cfg(fuzzing)]
pub(crate) mod fuzz {
    use super::*;

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
        let Ok(resident) = Resident::decode(index, filter, len.into()) else { return };
        for (at, block) in resident.blocks.iter().enumerate() {
            let found = resident.seek(&block.last);
            assert!(found <= at && resident.blocks[found].last == block.last);
            assert!(block.offset + u64::from(block.len) <= len.into());
            resident.may_contain(crate::filter::hash(&block.last));
        }
        assert!(resident.bytes() > 0);
    }
}
