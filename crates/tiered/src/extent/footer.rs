//! The footer of an extent, which says where its other parts are.

use spillway_base::checksum::crc32c;
use spillway_base::codec::Reader;
use spillway_base::{Error, Result, TableId};

use crate::extent_meta::ExtentId;

pub(super) const MAGIC: &[u8; 8] = b"SPWYEXTN";
pub(super) const VERSION: u32 = 1;
pub(crate) const FOOTER_BYTES: usize = 64;

/// The places of the parts of an extent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Footer {
    pub(super) table: TableId,
    pub(super) id: ExtentId,
    pub(super) index: (u64, u32),
    pub(super) filter: (u64, u32),
    pub(super) versions: u64,
}

impl Footer {
    pub(super) fn encode(&self) -> [u8; FOOTER_BYTES] {
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

    pub(super) fn decode(bytes: &[u8]) -> Result<Footer> {
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
            return Err(Error::corruption(format!(
                "its format is version {version}; this build reads version {VERSION}"
            )));
        }
        Ok(footer)
    }
}
