//! What is kept of an extent outside of it: enough to find it, to rule it out, and to plan with it.

use spillway_base::codec::{Reader, put_bytes, put_varint};
use spillway_base::{Csn, Error, Result};

use crate::space::SlotRun;

/// The number of an extent. No number is ever used twice, so a cached block or a stale slot cannot
/// be taken for another extent's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct ExtentId(pub(crate) u64);

impl std::fmt::Display for ExtentId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "extent {}", self.0)
    }
}

/// The manifest's record of one extent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ExtentMeta {
    pub(crate) id: ExtentId,
    /// Where it lies.
    pub(crate) slots: SlotRun,
    /// Its length in bytes, from the start of its first slot.
    pub(crate) len: u64,
    /// Its first key.
    pub(crate) smallest: Box<[u8]>,
    /// Its last key.
    pub(crate) largest: Box<[u8]>,
    /// The smallest CSN of a version in it.
    pub(crate) csn_min: Csn,
    /// The largest CSN of a version in it.
    pub(crate) csn_max: Csn,
    /// Versions, tombstones included.
    pub(crate) versions: u64,
    /// Distinct keys.
    pub(crate) keys: u64,
    /// Versions that say the key is gone.
    pub(crate) tombstones: u64,
    /// Bytes of keys and values, before encoding.
    pub(crate) payload_bytes: u64,
}

impl ExtentMeta {
    /// Whether some key could be in both.
    pub(crate) fn overlaps(&self, other: &ExtentMeta) -> bool {
        self.smallest <= other.largest && other.smallest <= self.largest
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.id.0);
        put_varint(out, u64::from(self.slots.file));
        put_varint(out, u64::from(self.slots.first));
        put_varint(out, u64::from(self.slots.count));
        put_varint(out, self.len);
        put_bytes(out, &self.smallest);
        put_bytes(out, &self.largest);
        put_varint(out, self.csn_min.0);
        put_varint(out, self.csn_max.0);
        put_varint(out, self.versions);
        put_varint(out, self.keys);
        put_varint(out, self.tombstones);
        put_varint(out, self.payload_bytes);
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<ExtentMeta> {
        let meta = ExtentMeta {
            id: ExtentId(reader.varint()?),
            slots: SlotRun {
                file: reader.varint_u32()?,
                first: reader.varint_u32()?,
                count: reader.varint_u32()?,
            },
            len: reader.varint()?,
            smallest: reader.bytes()?.into(),
            largest: reader.bytes()?.into(),
            csn_min: Csn(reader.varint()?),
            csn_max: Csn(reader.varint()?),
            versions: reader.varint()?,
            keys: reader.varint()?,
            tombstones: reader.varint()?,
            payload_bytes: reader.varint()?,
        };
        let sound = meta.slots.count > 0
            && meta.slots.first.checked_add(meta.slots.count).is_some()
            && meta.smallest <= meta.largest
            && meta.csn_min <= meta.csn_max
            && meta.keys <= meta.versions
            && meta.tombstones <= meta.versions;
        if sound { Ok(meta) } else { Err(Error::corruption(format!("{} makes no sense", meta.id))) }
    }
}
