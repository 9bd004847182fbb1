//! Data blocks: sorted versions, about 16 KB of them.
//!
//! # Format
//! Little-endian; varints are LEB128.
//!
//! ```text
//! frame   0  version    u8   1
//!         1  coding     u8   0: stored as is
//!         2  zero       u16
//!         4  length     u32  bytes of body
//!         8  checksum   u32  CRC32C of table (u32), extent id (u64), the frame's offset in the extent (u64),
//!                            bytes 0..8 and the body
//!        12  body
//! body       entries, each: key length (varint), value length + 1 or 0 for a tombstone (varint),
//!                           CSN (u64), key, value
//!            offset of each entry in the body (u32 each)
//!            number of entries (u32)
//! ```
//!
//! The checksum covers which frame it is, so that one that was written or read in another's place is damage.
//!
//! Entries are in order of key, and of one key the newest first. Offsets let a search and a step in
//! either direction touch only the entries they compare. A block is checked whole when it is read from a
//! device: afterwards every entry is known to lie inside and in order.

use std::cmp::Ordering;

use spillway_base::budget::{Budget, Use};
use spillway_base::checksum::{crc32c, crc32c_append};
use spillway_base::codec::{Reader, put_varint, varint_len};
use spillway_base::{Csn, Error, Result, TableId};

use crate::extent_meta::ExtentId;
use crate::pages::{Buffer, PAGE_ALIGN, PagePool};

/// Bytes of body at which a block is full.
pub(crate) const BLOCK_BYTES: usize = 16 << 10;
/// Bytes of a frame beside its body.
pub(crate) const FRAME_BYTES: usize = 12;
const CHECKSUM_AT: usize = 8;
const VERSION: u8 = 1;
const STORED: u8 = 0;

/// One version, borrowed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) csn: Csn,
    /// `None` is a tombstone.
    pub(crate) value: Option<&'a [u8]>,
}

impl Entry<'_> {
    /// Bytes of key and value.
    pub(crate) fn payload(&self) -> usize {
        self.key.len() + self.value.map_or(0, <[u8]>::len)
    }

    fn encoded(&self) -> usize {
        let value = self.value.map_or(0, |value| value.len() as u64 + 1);
        varint_len(self.key.len() as u64) + varint_len(value) + 8 + self.payload()
    }
}

/// Collects sorted entries into a block.
#[derive(Default)]
pub(crate) struct BlockBuilder {
    body: Vec<u8>,
    offsets: Vec<u32>,
}

impl BlockBuilder {
    /// Bytes the body would have now.
    pub(crate) fn bytes(&self) -> usize {
        self.body.len() + 4 * self.offsets.len() + 4
    }

    /// Bytes that an entry would add.
    pub(crate) fn cost(entry: &Entry<'_>) -> usize {
        entry.encoded() + 4
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// Adds the next entry in order.
    pub(crate) fn push(&mut self, entry: &Entry<'_>) {
        self.offsets.push(self.body.len() as u32);
        put_varint(&mut self.body, entry.key.len() as u64);
        put_varint(&mut self.body, entry.value.map_or(0, |value| value.len() as u64 + 1));
        self.body.extend_from_slice(&entry.csn.0.to_le_bytes());
        self.body.extend_from_slice(entry.key);
        self.body.extend_from_slice(entry.value.unwrap_or_default());
    }

    /// Appends the block's frame to `out`, to be sealed later, and starts over.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        for offset in &self.offsets {
            self.body.extend_from_slice(&offset.to_le_bytes());
        }
        self.body.extend_from_slice(&(self.offsets.len() as u32).to_le_bytes());
        put_frame(out, &self.body);
        self.body.clear();
        self.offsets.clear();
    }
}

/// Which frame it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FrameId {
    pub(crate) table: TableId,
    pub(crate) extent: ExtentId,
    /// Where it begins in the extent.
    pub(crate) offset: u64,
}

impl FrameId {
    fn checksum(&self, frame: &[u8], body: &[u8]) -> u32 {
        let crc = crc32c_append(crc32c(&self.table.0.to_le_bytes()), &self.extent.0.to_le_bytes());
        let crc = crc32c_append(crc, &self.offset.to_le_bytes());
        crc32c_append(crc32c_append(crc, &frame[..CHECKSUM_AT]), body)
    }
}

/// Appends a frame that has no checksum yet.
pub(crate) fn put_frame(out: &mut Vec<u8>, body: &[u8]) {
    let len = u32::try_from(body.len()).expect("batches are far below 4 GiB, and so are frames");
    out.extend_from_slice(&[VERSION, STORED, 0, 0]);
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(body);
}

/// Fills in the checksum of a frame.
pub(crate) fn seal_frame(frame: &mut [u8], id: FrameId) {
    let crc = id.checksum(frame, &frame[FRAME_BYTES..]);
    frame[CHECKSUM_AT..FRAME_BYTES].copy_from_slice(&crc.to_le_bytes());
}

/// The body of a frame.
pub(crate) fn open_frame(frame: &[u8], id: FrameId) -> Result<&[u8]> {
    let mut reader = Reader::new(frame);
    let (version, coding) = (reader.u8()?, reader.u8()?);
    reader.u16()?;
    let len = reader.u32()? as usize;
    let crc = reader.u32()?;
    let body = reader.take(len)?;
    if crc != id.checksum(frame, body) {
        return Err(Error::corruption("its bytes do not match their checksum"));
    }
    if (version, coding) != (VERSION, STORED) {
        return Err(Error::corruption(format!("unknown version {version} or coding {coding}")));
    }
    Ok(body)
}

/// A block in memory, checked.
pub(crate) struct Block {
    frame: Buffer,
    entries: usize,
    offsets_at: usize,
}

impl Block {
    /// A pool for the memory of blocks.
    pub(crate) fn pool(budget: &Budget) -> PagePool {
        let page_bytes = (FRAME_BYTES + BLOCK_BYTES).next_multiple_of(PAGE_ALIGN);
        PagePool::new(page_bytes, 0, budget, Use::Caches)
    }

    /// Checks a frame and takes it.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Corruption`].
    pub(crate) fn open(frame: impl Into<Buffer>, id: FrameId) -> Result<Block> {
        let frame = frame.into();
        let body = open_frame(&frame, id)?;
        let bad = |what: &str| Error::corruption(format!("its {what} make no sense"));
        let count_at = body.len().checked_sub(4).ok_or_else(|| bad("lengths"))?;
        let entries = Reader::new(&body[count_at..]).u32()? as usize;
        let offsets_at = entries.checked_mul(4).and_then(|bytes| count_at.checked_sub(bytes));
        let offsets_at = offsets_at.ok_or_else(|| bad("entry counts"))?;
        if FRAME_BYTES + body.len() != frame.len() {
            return Err(bad("lengths"));
        }
        let block = Block { frame, entries, offsets_at };
        let mut end = 0;
        let mut last: Option<Entry<'_>> = None;
        for index in 0..entries {
            if block.offset(index) != end {
                return Err(bad("offsets"));
            }
            let mut reader = Reader::new(&block.body()[end..offsets_at]);
            let entry = read_entry(&mut reader)?;
            let ordered = last.is_none_or(|last| {
                last.key.cmp(entry.key).then(entry.csn.cmp(&last.csn)) == Ordering::Less
            });
            if !ordered {
                return Err(bad("keys' order"));
            }
            last = Some(entry);
            end += reader.offset();
        }
        if end != offsets_at || entries == 0 {
            return Err(bad("lengths"));
        }
        Ok(block)
    }

    fn body(&self) -> &[u8] {
        &self.frame[FRAME_BYTES..]
    }

    fn offset(&self, index: usize) -> usize {
        let at = self.offsets_at + 4 * index;
        let bytes = self.body()[at..at + 4].first_chunk().copied().unwrap_or_default();
        u32::from_le_bytes(bytes) as usize
    }

    /// The number of entries, at least one.
    pub(crate) fn len(&self) -> usize {
        self.entries
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.frame.memory_bytes() + size_of::<Block>()
    }

    /// The entry of this index.
    #[inline]
    pub(crate) fn entry(&self, index: usize) -> Entry<'_> {
        let bytes = &self.body()[self.offset(index)..self.offsets_at];
        // Reads and scans spend most of their time here, and most lengths have one or two bytes.
        if let Some((key_len, rest)) = short_varint(bytes)
            && let Some((value_len, rest)) = short_varint(rest)
            && let Some((csn, rest)) = rest.split_first_chunk()
            && let Some((key, rest)) = rest.split_at_checked(key_len)
        {
            let value = value_len.checked_sub(1).map(|len| &rest[..len]);
            return Entry { key, csn: Csn(u64::from_le_bytes(*csn)), value };
        }
        read_entry(&mut Reader::new(bytes))
            .expect("a block's entries are checked when it is opened")
    }

    /// The index of the first entry at or past `key`; of one key, of its newest version.
    pub(crate) fn seek(&self, key: &[u8]) -> usize {
        let (mut low, mut high) = (0, self.entries);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.entry(middle).key < key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}

/// A varint of one or two bytes, and what follows it.
#[inline]
fn short_varint(bytes: &[u8]) -> Option<(usize, &[u8])> {
    match bytes {
        [low @ ..0x80, rest @ ..] => Some((usize::from(*low), rest)),
        [low, high @ ..0x80, rest @ ..] => {
            Some((usize::from(*low & 0x7F) | usize::from(*high) << 7, rest))
        }
        _ => None,
    }
}

fn read_entry<'a>(reader: &mut Reader<'a>) -> Result<Entry<'a>> {
    let key_len = reader.varint()?;
    let value_len = reader.varint()?;
    let csn = Csn(reader.u64()?);
    let len = |len: u64| {
        usize::try_from(len).map_err(|_| Error::corruption("an entry's length makes no sense"))
    };
    let key = reader.take(len(key_len)?)?;
    let value = match value_len.checked_sub(1) {
        Some(bytes) => Some(reader.take(len(bytes)?)?),
        None => None,
    };
    Ok(Entry { key, csn, value })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use spillway_base::rng::Rng;

    const ID: FrameId = FrameId { table: TableId(3), extent: ExtentId(7), offset: 4096 };

    fn sample() -> (Vec<(Vec<u8>, u64, Option<Vec<u8>>)>, Vec<u8>) {
        let mut rows = Vec::new();
        for key in 0..200_u32 {
            for csn in (0..=key % 3).rev() {
                let value = (csn != 1).then(|| vec![key as u8; key as usize % 40]);
                rows.push((format!("key{key:05}").into_bytes(), u64::from(csn) + 1, value));
            }
        }
        let mut builder = BlockBuilder::default();
        for (key, csn, value) in &rows {
            builder.push(&Entry { key, csn: Csn(*csn), value: value.as_deref() });
        }
        let mut frame = Vec::new();
        builder.finish(&mut frame);
        seal_frame(&mut frame, ID);
        (rows, frame)
    }

    #[test]
    fn entries_come_back_and_are_found() {
        let (rows, frame) = sample();
        let block = Block::open(&frame[..], ID).unwrap();
        assert_eq!(block.len(), rows.len());
        for (index, (key, csn, value)) in rows.iter().enumerate() {
            let entry = Entry { key, csn: Csn(*csn), value: value.as_deref() };
            assert_eq!(block.entry(index), entry);
            let first = rows.iter().position(|(other, ..)| other == key).unwrap();
            assert_eq!(block.seek(key), first);
        }
        assert_eq!((block.seek(b""), block.seek(b"z")), (0, rows.len()));
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let (_, frame) = sample();
        for at in 0..frame.len() {
            let mut bad = frame.clone();
            bad[at] ^= 1 << (at % 8);
            // Two bytes of the frame mean nothing yet, and are under the checksum all the same.
            assert!(Block::open(&bad[..], ID).is_err(), "byte {at}");
        }
        for len in 0..frame.len() {
            assert!(Block::open(&frame[..len], ID).is_err());
        }
    }

    #[test]
    fn a_frame_in_the_place_of_another_is_noticed() {
        let (_, frame) = sample();
        let table = TableId(4);
        for id in [
            FrameId { table, ..ID },
            FrameId { extent: ExtentId(8), ..ID },
            FrameId { offset: 0, ..ID },
        ] {
            assert!(Block::open(&frame[..], id).is_err(), "{id:?}");
        }
    }

    #[test]
    fn any_body_is_a_block_or_an_error() {
        let mut rng = Rng::new(2);
        let (_, frame) = sample();
        let body = open_frame(&frame, ID).unwrap();
        for _ in 0..3000 {
            let mut body = body.to_vec();
            for _ in 0..1 + rng.below(4) {
                let at = rng.below(body.len() as u64) as usize;
                body[at] = rng.next_u64() as u8;
            }
            body.truncate(body.len() - rng.below(20) as usize);
            let mut frame = Vec::new();
            put_frame(&mut frame, &body);
            seal_frame(&mut frame, ID);
            if let Ok(block) = Block::open(&frame[..], ID) {
                (0..block.len()).for_each(|index| drop(block.entry(index).key.to_vec()));
            }
        }
    }
}
