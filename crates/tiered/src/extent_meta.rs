//! The manifest's records of extents and slices: enough to find or rule out a key, and to plan
//! compactions, without reading the extents.
//!
//! An extent is a sequence of bytes that never changes. A level consists of *slices*: consecutive
//! blocks of an extent. A compaction that has to change the middle of an extent leaves its two ends
//! in place, as two slices. An extent is freed when no slice uses it. Slices are cut only between
//! keys, so that the bounds and counts of each slice are exact.

use std::ops::Range;

use spillway_base::codec::{Reader, put_bytes, put_varint};
use spillway_base::{Csn, Error, Result};

use crate::coding::{Coding, Names};
use crate::space::SlotRun;

/// The number of an extent. No number is ever used twice, so a cached block, or old bytes in a
/// slot, cannot be taken for another extent's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct ExtentId(pub(crate) u64);

impl std::fmt::Display for ExtentId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "extent {}", self.0)
    }
}

/// Counts of versions, in a block or a larger unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counts {
    /// Versions, tombstones included.
    pub versions: u64,
    /// Distinct keys. A block counts only keys whose newest version is in it.
    pub keys: u64,
    /// Tombstones.
    pub tombstones: u64,
    /// Bytes of keys and values, before encoding.
    pub payload_bytes: u64,
    /// The smallest CSN of a version.
    pub csn_min: Csn,
    /// The largest CSN of a version.
    pub csn_max: Csn,
}

impl Counts {
    /// The counts of no versions.
    pub(crate) const NONE: Counts = Counts {
        versions: 0,
        keys: 0,
        tombstones: 0,
        payload_bytes: 0,
        csn_min: Csn::MAX,
        csn_max: Csn::ZERO,
    };

    /// Adds other counts.
    pub(crate) fn add(&mut self, other: &Counts) {
        self.versions += other.versions;
        self.keys += other.keys;
        self.tombstones += other.tombstones;
        self.payload_bytes += other.payload_bytes;
        self.csn_min = self.csn_min.min(other.csn_min);
        self.csn_max = self.csn_max.max(other.csn_max);
    }

    /// Whether merging these versions alone would drop none. This is so if each key has one
    /// version, and each tombstone may hide a version elsewhere: other slices may have versions
    /// from `others_from` on.
    pub(crate) fn are_clean(&self, others_from: Csn) -> bool {
        self.versions == self.keys && (self.tombstones == 0 || self.csn_min >= others_from)
    }

    /// The most bytes of the body of a block with these versions.
    pub(crate) fn body_bytes_most(&self) -> usize {
        // Two lengths of five bytes, a CSN and, in old blocks, an offset for each version.
        let most = self.versions.saturating_mul(22).saturating_add(self.payload_bytes);
        usize::try_from(most.saturating_add(5)).unwrap_or(usize::MAX)
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.versions);
        put_varint(out, self.keys);
        put_varint(out, self.tombstones);
        put_varint(out, self.payload_bytes);
        put_varint(out, self.csn_min.0);
        put_varint(out, self.csn_max.0);
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Counts> {
        let counts = Counts {
            versions: reader.varint()?,
            keys: reader.varint()?,
            tombstones: reader.varint()?,
            payload_bytes: reader.varint()?,
            csn_min: Csn(reader.varint()?),
            csn_max: Csn(reader.varint()?),
        };
        let sound = counts.versions > 0
            && counts.keys <= counts.versions
            && counts.tombstones <= counts.versions
            && counts.csn_min <= counts.csn_max;
        if sound { Ok(counts) } else { Err(Error::corruption("counts of versions make no sense")) }
    }
}

/// The manifest's record of an extent: its location and properties.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ExtentMeta {
    pub(crate) id: ExtentId,
    /// Its location.
    pub(crate) slots: SlotRun,
    /// Its length in bytes, from the start of its first slot.
    pub(crate) len: u64,
    /// Its data blocks.
    pub(crate) blocks: u32,
    /// Bytes of its data blocks, frames included.
    pub(crate) data_bytes: u64,
    /// CRC32C of all its bytes.
    pub(crate) crc: u32,
    /// The weakest coding that its blocks were meant to have when it was written. A block that this
    /// coding would not have made smaller is stored uncompressed.
    pub(crate) coding: Coding,
    /// The dictionaries that its blocks may name.
    pub(crate) names: Names,
}

impl ExtentMeta {
    /// Writes it.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.id.0);
        self.slots.encode(out);
        put_varint(out, self.len);
        put_varint(out, u64::from(self.blocks));
        put_varint(out, self.data_bytes);
        out.extend_from_slice(&self.crc.to_le_bytes());
        out.push(self.coding as u8);
        self.names.encode(out);
    }

    /// Reads what [`ExtentMeta::encode`] wrote.
    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<ExtentMeta> {
        let meta = ExtentMeta {
            id: ExtentId(reader.varint()?),
            slots: SlotRun::decode(reader)?,
            len: reader.varint()?,
            blocks: reader.varint_u32()?,
            data_bytes: reader.varint()?,
            crc: reader.u32()?,
            coding: Coding::of(reader.u8()?)?,
            names: Names::decode(reader)?,
        };
        let sound = meta.blocks > 0 && meta.data_bytes <= meta.len;
        if sound { Ok(meta) } else { Err(Error::corruption(format!("{} makes no sense", meta.id))) }
    }
}

/// Identifies a slice. Slices of an extent share no block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct SliceId {
    pub(crate) extent: ExtentId,
    pub(crate) first_block: u32,
}

/// The manifest's record of a slice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct SliceMeta {
    pub(crate) extent: ExtentId,
    pub(crate) first_block: u32,
    pub(crate) blocks: u32,
    /// Bytes of its blocks, frames included.
    pub(crate) bytes: u64,
    /// Its first key.
    pub(crate) smallest: Box<[u8]>,
    /// Its last key.
    pub(crate) largest: Box<[u8]>,
    pub(crate) counts: Counts,
}

impl SliceMeta {
    pub(crate) fn id(&self) -> SliceId {
        SliceId { extent: self.extent, first_block: self.first_block }
    }

    /// The numbers of its blocks in the extent.
    pub(crate) fn block_range(&self) -> Range<usize> {
        self.first_block as usize..(self.first_block + self.blocks) as usize
    }

    /// Whether a key could be in both slices.
    pub(crate) fn overlaps(&self, other: &SliceMeta) -> bool {
        self.smallest <= other.largest && other.smallest <= self.largest
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.extent.0);
        put_varint(out, u64::from(self.first_block));
        put_varint(out, u64::from(self.blocks));
        put_varint(out, self.bytes);
        put_bytes(out, &self.smallest);
        put_bytes(out, &self.largest);
        self.counts.encode(out);
    }

    pub(super) fn decode(reader: &mut Reader<'_>) -> Result<SliceMeta> {
        let meta = SliceMeta {
            extent: ExtentId(reader.varint()?),
            first_block: reader.varint_u32()?,
            blocks: reader.varint_u32()?,
            bytes: reader.varint()?,
            smallest: reader.bytes()?.into(),
            largest: reader.bytes()?.into(),
            counts: Counts::decode(reader)?,
        };
        let sound = meta.blocks > 0
            && meta.first_block.checked_add(meta.blocks).is_some()
            && meta.smallest <= meta.largest;
        let wrong = || Error::corruption(format!("a slice of {} makes no sense", meta.extent));
        if sound { Ok(meta) } else { Err(wrong()) }
    }
}
