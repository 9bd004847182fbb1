//! Data blocks: sorted versions, about 16 KB of them.
//!
//! # Format
//! Little-endian; varints are LEB128.
//!
//! ```text
//! frame   0  version    u8   1
//!         1  coding     u8   0: stored as is; others: see [`crate::coding`]
//!         2  dictionary u16  the table's dictionary that the body is coded with; 0: none
//!         4  length     u32  bytes of body, coded
//!         8  checksum   u32  CRC32C of table (u32), extent id (u64), the frame's offset in the extent (u64),
//!                            bytes 0..8 and the body
//!        12  body
//! body       entries, each: key length (varint), value length + 1 or 0 for a tombstone (varint),
//!                           CSN (u64), key, value
//!            offset of each entry in the body (u32 each)
//!            number of entries (u32)
//! ```
//!
//! The checksum covers which frame it is, so that one that was written or read in another's place is damage. A block that
//! is carried to another extent is checked first, and then sealed again.
//!
//! Entries are in order of key, and of one key the newest first. Offsets let a search and a step in
//! either direction touch only the entries they compare. A block is checked whole when it is read from a
//! device: afterwards every entry is known to lie inside and in order.

mod builder;
#[cfg(all(test, not(loom)))]
mod tests;

use std::cmp::Ordering;
use std::ops::Deref;

use spillway_base::budget::{Budget, Use};
use spillway_base::checksum::{crc32c, crc32c_append};
use spillway_base::codec::{Reader, varint_len};
use spillway_base::{Csn, Error, Result, TableId};

use crate::coding::{Coded, Coding, Dictionaries, DictionaryId, Encoder};
use crate::extent_meta::ExtentId;
use crate::pages::{Buffer, PAGE_ALIGN, PagePool};

pub use builder::BuiltBlock;
pub(crate) use builder::{BlockWriter, SMALL_BYTES};

/// Bytes of body at which a block is full.
pub(crate) const BLOCK_BYTES: usize = 16 << 10;
/// Bytes of a frame beside its body.
pub(crate) const FRAME_BYTES: usize = 12;
const CHECKSUM_AT: usize = 8;
const VERSION: u8 = 1;

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

/// Appends a frame of a body as it is, that has no checksum yet.
pub(crate) fn put_frame(out: &mut Vec<u8>, body: &[u8]) {
    out.extend_from_slice(&header(Coding::Stored, DictionaryId::NONE, body.len()));
    out.extend_from_slice(body);
}

/// Appends a frame of a data block's body, coded, that has no checksum yet.
pub(crate) fn put_coded_frame(out: &mut Vec<u8>, body: &[u8], encoder: &mut Encoder) {
    let start = out.len();
    out.extend_from_slice(&[0; FRAME_BYTES]);
    let (coding, dictionary) = encoder.encode(body, out);
    let coded = out.len() - start - FRAME_BYTES;
    out[start..start + FRAME_BYTES].copy_from_slice(&header(coding, dictionary, coded));
}

fn header(coding: Coding, dictionary: DictionaryId, len: usize) -> [u8; FRAME_BYTES] {
    let len = u32::try_from(len).expect("batches are far below 4 GiB, and so are frames");
    let mut bytes = [0; FRAME_BYTES];
    bytes[..2].copy_from_slice(&[VERSION, coding as u8]);
    bytes[2..4].copy_from_slice(&dictionary.0.to_le_bytes());
    bytes[4..CHECKSUM_AT].copy_from_slice(&len.to_le_bytes());
    bytes
}

/// Fills in the checksum of a frame.
pub(crate) fn seal_frame(frame: &mut [u8], id: FrameId) {
    let crc = id.checksum(frame, &frame[FRAME_BYTES..]);
    frame[CHECKSUM_AT..FRAME_BYTES].copy_from_slice(&crc.to_le_bytes());
}

/// A frame that is the one it should be, and whole.
struct Opened<'a> {
    coding: Coding,
    dictionary: DictionaryId,
    body: &'a [u8],
}

fn open(frame: &[u8], id: FrameId) -> Result<Opened<'_>> {
    let mut reader = Reader::new(frame);
    let (version, coding) = (reader.u8()?, reader.u8()?);
    let dictionary = DictionaryId(reader.u16()?);
    let len = reader.u32()? as usize;
    let crc = reader.u32()?;
    let body = reader.take(len)?;
    if crc != id.checksum(frame, body) {
        return Err(Error::corruption("its bytes do not match their checksum"));
    }
    if version != VERSION {
        return Err(Error::corruption(format!("unknown version {version}")));
    }
    let coding = Coding::of(coding)?;
    if (coding == Coding::ZstdDictionary) == (dictionary == DictionaryId::NONE) {
        return Err(Error::corruption("its coding and its dictionary make no sense"));
    }
    if !reader.is_empty() {
        return Err(Error::corruption("its length makes no sense"));
    }
    Ok(Opened { coding, dictionary, body })
}

/// Checks that a frame is this one, and whole. Answers its coding.
pub(crate) fn check_frame(frame: &[u8], id: FrameId) -> Result<Coding> {
    open(frame, id).map(|opened| opened.coding)
}

/// The body of a frame that is stored as it is.
pub(crate) fn open_frame(frame: &[u8], id: FrameId) -> Result<&[u8]> {
    let opened = open(frame, id)?;
    if opened.coding == Coding::Stored {
        Ok(opened.body)
    } else {
        Err(Error::corruption("it is coded, and no data block"))
    }
}

/// What a block is decoded with.
#[derive(Clone, Copy)]
pub(crate) struct Decoding<'a> {
    pub(crate) dictionaries: &'a Dictionaries,
    /// The memory of blocks.
    pub(crate) pages: &'a PagePool,
    /// Bytes that its body has at the most.
    pub(crate) body_bytes_max: usize,
}

/// A block in memory, checked.
pub(crate) struct Block {
    /// A stored frame, or a body behind as many bytes that mean nothing.
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

    /// Checks a frame, and takes it or what it decodes to.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Corruption`].
    pub(crate) fn open<F>(frame: F, id: FrameId, decoding: &Decoding<'_>) -> Result<Block>
    where
        F: Into<Buffer> + Deref<Target = [u8]>,
    {
        let Opened { coding, dictionary, body } = open(&frame, id)?;
        if coding == Coding::Stored {
            return Block::of_frame(frame.into());
        }
        let coded = Coded::open(coding, body, decoding.body_bytes_max)?;
        let dictionary = decoding.dictionaries.get(dictionary);
        let mut decoded = Buffer::new(FRAME_BYTES + coded.body_bytes(), decoding.pages);
        coded.decode(dictionary.as_deref(), &mut decoded[FRAME_BYTES..])?;
        Block::of_frame(decoded)
    }

    /// The block of a frame that was just built, and has no place and no checksum yet.
    ///
    /// # Errors
    /// As [`Block::open`], of a frame that is none.
    pub(crate) fn of_built(frame: &[u8]) -> Result<Block> {
        Block::of_frame(frame.into())
    }

    fn of_frame(frame: Buffer) -> Result<Block> {
        let body = frame.get(FRAME_BYTES..).unwrap_or_default();
        let bad = |what: &str| Error::corruption(format!("its {what} make no sense"));
        let count_at = body.len().checked_sub(4).ok_or_else(|| bad("lengths"))?;
        let entries = Reader::new(&body[count_at..]).u32()? as usize;
        let offsets_at = entries.checked_mul(4).and_then(|bytes| count_at.checked_sub(bytes));
        let offsets_at = offsets_at.ok_or_else(|| bad("entry counts"))?;
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

    pub(crate) fn body(&self) -> &[u8] {
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
