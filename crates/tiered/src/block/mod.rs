//! Data blocks: about 16 KB of sorted versions, or half of that in Level0 and Level1.
//!
//! # Format
//! A block is stored as a *frame*: a header of twelve bytes, and the body. Integers are
//! little-endian; varints are LEB128.
//!
//! ```text
//! frame   0  version    u8   of the frame and its body: 1
//!         1  coding     u8   how the body is encoded (see [`crate::coding`]); 0: not encoded
//!         2  dictionary u16  the table's dictionary with which the body is encoded; 0: none
//!         4  length     u32  bytes of the encoded body
//!         8  checksum   u32  CRC32C of table (u32), extent id (u64), the frame's offset in the
//!                            extent (u64), bytes 0..8 of the frame, and the encoded body
//!        12  body            encoded; the body itself is:
//! body       entries, each: key length (varint), value length + 1 or 0 for a tombstone (varint),
//!                           CSN (as many bytes as the block's largest CSN needs), key, value
//!            number of entries (u32)
//!            bytes of a CSN (u8)
//! ```
//!
//! The checksum covers the identity of the frame: table, extent and offset. So if a frame is
//! written to, or read from, the place of another frame, its checksum does not match, and the
//! reader reports damage. A compaction that carries a block to another extent first verifies the
//! old checksum, and then computes a new one.
//!
//! Entries are ordered by key, and the versions of one key from newest to oldest. A reader checks a
//! block once, when it reads the block from a device. After this check, all entries are known to
//! lie inside the block and in order. The check also builds the search nodes of the block
//! ([`crate::block_search`]), which contain the offsets of the entries, and stores the nodes in
//! memory behind the body. With the offsets, a search reads only the entries that it compares, and
//! a step in either direction reads only the next entry.

mod body;
mod builder;
mod measured;
#[cfg(all(test, not(loom)))]
mod tests;

use std::ops::{Deref, Range};

use spillway_base::budget::{Budget, Use};
use spillway_base::checksum::{crc32c, crc32c_append};
use spillway_base::codec::Reader;
use spillway_base::{Csn, Direction, Error, Result, TableId, prefetch};
use spillway_reclaim::pages::{Buffer, PAGE_ALIGN, PagePools, SYSTEM_PAGE_BYTES};

use crate::block_search::{self, Nodes, Way};
use crate::coding::{Coded, Coding, Dictionaries, DictionaryId, Encoder};
use crate::extent_meta::ExtentId;

use self::body::BodyTrailer;
pub(crate) use self::body::{PartMatch, search_part};
pub use self::builder::BuiltBlock;
pub(crate) use self::builder::{BlockWriter, SMALL_BYTES};
pub use self::measured::{OpenBlock, Opener, RowOf, Search, Walk, bodies, frames};

/// Bytes in memory of a full block: its frame with the body, and the search nodes over its keys. It
/// is a whole number of system pages, so the system can take back the memory of each block.
pub(crate) const BLOCK_BYTES: usize = 16 << 10;
/// As [`BLOCK_BYTES`], for blocks of Level0 and Level1. A read needs few rows of these levels, so
/// the other rows of a larger block would only take memory.
pub(crate) const HOT_BLOCK_BYTES: usize = BLOCK_BYTES / 2;
/// The bytes of a frame in addition to its body.
pub(crate) const FRAME_BYTES: usize = 12;
/// The version of frames and bodies.
const FRAME_VERSION: u8 = 1;
const CHECKSUM_AT: usize = 8;
/// The bytes that the checksum covers before a frame's body: the frame's identity, and the bytes
/// before the checksum.
const ID_BYTES: usize = 20 + CHECKSUM_AT;
/// How many bytes ahead of a walk memory is prefetched: about as many as memory delivers during one
/// cache miss.
const AHEAD_BYTES: usize = 2048;
/// How many rows ahead memory is prefetched if rows are so long that a walk skips most of their
/// bytes.
const AHEAD_ROWS: usize = 4;
/// The approximate bytes of a row's lengths, its CSN and a short key.
const ROW_HEAD_BYTES: usize = 24;
/// Bytes of a key's head.
const WORD: usize = size_of::<u32>();

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
}

/// The identity of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FrameId {
    pub(crate) table: TableId,
    pub(crate) extent: ExtentId,
    /// Its offset in the extent.
    pub(crate) offset: u64,
}

impl FrameId {
    fn checksum(&self, frame: &[u8], body: &[u8]) -> u32 {
        // Join short pieces first, because each checksum call has a fixed cost.
        let mut id = [0; ID_BYTES];
        id[..4].copy_from_slice(&self.table.0.to_le_bytes());
        id[4..12].copy_from_slice(&self.extent.0.to_le_bytes());
        id[12..20].copy_from_slice(&self.offset.to_le_bytes());
        id[20..].copy_from_slice(&frame[..CHECKSUM_AT]);
        crc32c_append(crc32c(&id), body)
    }
}

/// Appends a frame with an uncompressed body. It has no checksum yet.
pub(crate) fn put_frame(out: &mut Vec<u8>, body: &[u8]) {
    out.extend_from_slice(&header(Coding::Stored, DictionaryId::NONE, body.len()));
    out.extend_from_slice(body);
}

/// Appends a frame with the coded body of a data block. It has no checksum yet.
pub(crate) fn put_coded_frame(out: &mut Vec<u8>, body: &[u8], encoder: &mut Encoder) {
    let start = out.len();
    out.extend_from_slice(&[0; FRAME_BYTES]);
    let (coding, dictionary) = encoder.encode(body, out);
    let coded = out.len() - start - FRAME_BYTES;
    let header = header(coding, dictionary, coded);
    out[start..start + FRAME_BYTES].copy_from_slice(&header);
}

fn header(coding: Coding, dictionary: DictionaryId, len: usize) -> [u8; FRAME_BYTES] {
    let len = u32::try_from(len).expect("batches are far below 4 GiB, and so are frames");
    let mut bytes = [0; FRAME_BYTES];
    bytes[..2].copy_from_slice(&[FRAME_VERSION, coding as u8]);
    bytes[2..4].copy_from_slice(&dictionary.0.to_le_bytes());
    bytes[4..CHECKSUM_AT].copy_from_slice(&len.to_le_bytes());
    bytes
}

/// Fills in the checksum of a frame.
pub(crate) fn seal_frame(frame: &mut [u8], id: FrameId) {
    let crc = id.checksum(frame, &frame[FRAME_BYTES..]);
    frame[CHECKSUM_AT..FRAME_BYTES].copy_from_slice(&crc.to_le_bytes());
}

/// A frame whose identity and checksum are right.
struct OpenedFrame<'a> {
    coding: Coding,
    dictionary: DictionaryId,
    body: &'a [u8],
}

fn open(frame: &[u8], id: FrameId) -> Result<OpenedFrame<'_>> {
    let mut reader = Reader::new(frame);
    let (version, coding) = (reader.u8()?, reader.u8()?);
    let dictionary = DictionaryId(reader.u16()?);
    let len = reader.u32()? as usize;
    let crc = reader.u32()?;
    let body = reader.take(len)?;
    if crc != id.checksum(frame, body) {
        return Err(Error::corruption("its bytes do not match their checksum"));
    }
    if version != FRAME_VERSION {
        return Err(Error::corruption(format!(
            "its frame is of version {version}; this build reads version {FRAME_VERSION}"
        )));
    }
    let coding = Coding::of(coding)?;
    if (coding == Coding::ZstdDictionary) == (dictionary == DictionaryId::NONE) {
        return Err(Error::corruption("its coding and its dictionary make no sense"));
    }
    if !reader.is_empty() {
        return Err(Error::corruption("its length makes no sense"));
    }
    Ok(OpenedFrame { coding, dictionary, body })
}

/// Whether a frame's body is marked as uncompressed.
pub(crate) fn is_stored(frame: &[u8]) -> bool {
    frame.starts_with(&[FRAME_VERSION, Coding::Stored as u8])
}

/// Checks a frame's identity and checksum. Returns its coding.
pub(crate) fn check_frame(frame: &[u8], id: FrameId) -> Result<Coding> {
    open(frame, id).map(|opened| opened.coding)
}

/// The dictionary that a frame names. The frame need not be intact.
pub(crate) fn dictionary_of(frame: &[u8]) -> DictionaryId {
    frame
        .get(2..4)
        .map_or(DictionaryId::NONE, |id| DictionaryId(u16::from_le_bytes([id[0], id[1]])))
}

/// Checks a frame, and returns its uncompressed body.
pub(crate) fn open_frame(frame: &[u8], id: FrameId) -> Result<&[u8]> {
    let opened = open(frame, id)?;
    if opened.coding == Coding::Stored {
        Ok(opened.body)
    } else {
        Err(Error::corruption("it is coded, and only data blocks are"))
    }
}

/// How a block is searched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BlockSearch {
    /// By nodes over its keys, whose heads are compared this way.
    Nodes(Way),
    /// By binary search over the keys. Benchmarks compare the nodes with it.
    Halving,
}

impl BlockSearch {
    /// The fastest way on this processor.
    pub(crate) fn best() -> BlockSearch {
        BlockSearch::Nodes(Way::best())
    }
}

/// The parameters of decoding a block.
#[derive(Clone, Copy)]
pub(crate) struct Decoding<'a> {
    pub(crate) dictionaries: &'a Dictionaries,
    /// The memory of blocks.
    pub(crate) pages: &'a PagePools,
    /// Returns the largest allowed length of the body; called only if the body is coded.
    pub(crate) body_bytes_max: &'a dyn Fn() -> usize,
    pub(crate) search: BlockSearch,
}

/// A block in memory, checked.
pub(crate) struct Block {
    /// An uncompressed frame, or as many unused bytes as a frame's header has and a decoded body;
    /// then the nodes.
    memory: Buffer,
    /// The offsets at which the entries, the body, and the gap before the nodes end.
    entries_end: u32,
    body_end: u32,
    nodes_at: u32,
    /// How far ahead of a row, in either direction, a walk prefetches memory.
    ahead: u32,
    csn_bytes: u8,
    halving: bool,
    /// Whether each key has only one version.
    distinct: bool,
    /// Whether none of its versions is a tombstone.
    all_values: bool,
    /// The largest CSN of its versions.
    csn_max: Csn,
    nodes: Nodes,
}

/// The position of an entry in a block, from which a walk continues.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EntryPosition {
    key: u32,
    key_len: u32,
    csn: Csn,
    /// The bytes of the value plus one; 0 for a tombstone.
    value: u32,
}

impl EntryPosition {
    /// The commit of the version.
    #[inline]
    pub(crate) fn csn(&self) -> Csn {
        self.csn
    }

    /// Whether it is not a tombstone.
    #[inline]
    pub(crate) fn is_value(&self) -> bool {
        self.value > 0
    }

    fn value_at(&self) -> usize {
        (self.key + self.key_len) as usize
    }

    fn end(&self) -> usize {
        self.value_at() + self.value.saturating_sub(1) as usize
    }
}

impl Block {
    /// Pools for the memory of blocks, in large pages if they `may_be_large`.
    pub(crate) fn pools(may_be_large: bool, budget: &Budget) -> PagePools {
        // Full blocks, and blocks that include a small rest.
        let pages = [HOT_BLOCK_BYTES, BLOCK_BYTES].map(|full| [full, full + full / 4]);
        let whole = |bytes: usize| bytes.next_multiple_of(SYSTEM_PAGE_BYTES);
        let bytes: Vec<usize> = pages.into_iter().flatten().map(whole).collect();
        PagePools::new(&bytes, may_be_large, budget, Use::FreePages)
    }

    /// Checks a frame, and opens it, or its decoded body, as a block.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Corruption`].
    pub(crate) fn open<F>(frame: F, id: FrameId, decoding: &Decoding<'_>) -> Result<Block>
    where
        F: Into<Buffer> + Deref<Target = [u8]>,
    {
        let OpenedFrame { coding, dictionary, body } = open(&frame, id)?;
        let pages = Some(decoding.pages);
        let memory = if coding == Coding::Stored {
            frame.into()
        } else {
            let coded = Coded::open(coding, body, (decoding.body_bytes_max)())?;
            let dictionary = decoding.dictionaries.get(dictionary);
            let mut decoded = Buffer::new(FRAME_BYTES + coded.body_bytes(), decoding.pages);
            coded.decode(dictionary.as_deref(), &mut decoded[FRAME_BYTES..])?;
            decoded
        };
        Block::of_memory(memory, pages, decoding.search)
    }

    /// Opens a frame that was just built, and has no offset in an extent and no checksum yet.
    ///
    /// # Errors
    /// As [`Block::open`], if the bytes are not a frame.
    pub(crate) fn of_built(frame: &[u8]) -> Result<Block> {
        Block::of_memory(frame.into(), None, BlockSearch::Nodes(Way::Scalar))
    }

    fn of_memory(memory: Buffer, pages: Option<&PagePools>, search: BlockSearch) -> Result<Block> {
        let body_end = memory.len();
        let trailer = BodyTrailer::of(memory.get(FRAME_BYTES..).unwrap_or_default())?;
        let nodes_at = body_end.next_multiple_of(PAGE_ALIGN);
        let mut memory =
            memory.lengthened(nodes_at + block_search::bytes_of(trailer.entries), pages);
        let (front, behind) = memory.split_at_mut(nodes_at);
        let entries_end = FRAME_BYTES + trailer.entries_bytes;
        let entries = &front[FRAME_BYTES..entries_end];
        let way = match search {
            BlockSearch::Nodes(way) => way,
            BlockSearch::Halving => Way::Scalar,
        };
        // First record where entries and their keys begin. The common prefix of the keys is known
        // only when the last key has been read.
        let places = Nodes::new(trailer.entries, &[], &[], way);
        let checked = trailer.check(entries, |index, at, key_at| {
            places.set(behind, index, at as u32, key_at as u32);
            Ok(())
        })?;
        let body::CheckedBody { first, last, distinct, all_values, csn_max, key_bytes } = checked;
        let nodes = Nodes::new(trailer.entries, first, last, way);
        let prefix = nodes.prefix_bytes();
        match key_bytes.0 - prefix {
            // The bytes after a shorter key are not part of its head. The read of four bytes stays
            // inside the body, because the trailer is longer than a head.
            rest if rest >= WORD || key_bytes.0 == key_bytes.1 => {
                let known = u32::MAX.checked_shl(8 * WORD.saturating_sub(rest) as u32);
                nodes.fill(behind, |_, key_at| {
                    let head = front[FRAME_BYTES + key_at as usize + prefix..].first_chunk();
                    let head = u32::from_be_bytes(*head.expect("a body ends behind its keys"));
                    head & known.unwrap_or(0)
                });
            }
            _ => {
                let key = |at| body::entry(&entries[at as usize..], trailer.csn_bytes).key;
                nodes.fill(behind, |at, _| nodes.head(key(at)));
            }
        }
        // Most rows of a block have similar lengths, so a row begins near each multiple of the
        // average.
        let row = trailer.entries_bytes / trailer.entries.max(1);
        let ahead = if row > 2 * prefetch::LINE_BYTES { AHEAD_ROWS * row } else { AHEAD_BYTES };
        let [entries_end, body_end, nodes_at, ahead] =
            [entries_end, body_end, nodes_at, ahead].map(|number| number as u32);
        let halving = search == BlockSearch::Halving;
        let csn_bytes = trailer.csn_bytes;
        Ok(Block {
            memory,
            entries_end,
            body_end,
            nodes_at,
            ahead,
            csn_bytes,
            halving,
            distinct,
            all_values,
            csn_max,
            nodes,
        })
    }

    /// Its body.
    pub(crate) fn body(&self) -> &[u8] {
        &self.memory[FRAME_BYTES..self.body_end as usize]
    }

    /// The number of entries, at least one.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The frame of an uncompressed block, and the range of its entries in it. In other blocks, the
    /// bytes before the entries have no meaning.
    pub(crate) fn stored_frame(&self) -> (&[u8], Range<usize>) {
        (&self.memory[..self.body_end as usize], FRAME_BYTES..self.entries_end as usize)
    }

    /// The offset in its frame at which the entry of this index begins.
    #[inline]
    pub(crate) fn place(&self, index: usize) -> usize {
        FRAME_BYTES + self.nodes.word(self.nodes_memory(), index) as usize
    }

    /// The bytes of each CSN.
    pub(crate) fn csn_bytes(&self) -> u8 {
        self.csn_bytes
    }

    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.memory.memory_bytes() + size_of::<Block>()
    }

    fn nodes_memory(&self) -> &[u8] {
        &self.memory[self.nodes_at as usize..]
    }

    /// The entry of this index.
    #[inline]
    pub(crate) fn entry(&self, index: usize) -> Entry<'_> {
        let at = self.place(index);
        body::entry(&self.memory[at..self.entries_end as usize], self.csn_bytes)
    }

    /// Whether each key here has only one version, and a snapshot sees it.
    #[inline]
    pub(crate) fn is_plain_at(&self, snapshot: Csn) -> bool {
        self.distinct && self.csn_max <= snapshot
    }

    /// Whether none of its entries is a tombstone.
    #[inline]
    pub(crate) fn all_values(&self) -> bool {
        self.all_values
    }

    /// The position of the entry of this index.
    #[inline]
    pub(crate) fn row(&self, index: usize) -> EntryPosition {
        self.row_at(self.place(index))
    }

    /// The position of the entry after this one, which must exist. A walk finds each entry through
    /// the one before, so the processor would wait for one cache line after the other. This
    /// prefetches memory ahead, because the caller will continue.
    #[inline(always)]
    pub(crate) fn row_after(&self, row: &EntryPosition) -> EntryPosition {
        Block::ask_for_row(self.memory.as_ptr().wrapping_add(row.end() + self.ahead as usize));
        self.row_at(row.end())
    }

    /// The position of the entry before the one of this index, which must exist. The caller will
    /// continue, so this prefetches memory ahead.
    #[inline(always)]
    pub(crate) fn row_before(&self, index: usize) -> EntryPosition {
        let at = self.place(index - 1);
        Block::ask_for_row(self.memory.as_ptr().wrapping_add(at).wrapping_sub(self.ahead as usize));
        self.row_at(at)
    }

    /// Prefetches the first rows of a walk from an entry. The steps of the walk prefetch only later
    /// rows.
    #[inline]
    pub(crate) fn expect_rows(&self, entry: usize, direction: Direction) {
        let rows = match direction {
            Direction::Forward => entry + 1..self.len().min(entry + 1 + AHEAD_ROWS),
            Direction::Backward => entry.saturating_sub(AHEAD_ROWS)..entry,
        };
        rows.for_each(|row| Block::ask_for_row(self.memory.as_ptr().wrapping_add(self.place(row))));
    }

    /// Prefetches what a step reads of a row that begins about here: its lengths, and the key after
    /// them.
    #[inline(always)]
    fn ask_for_row(at: *const u8) {
        prefetch::line(at);
        prefetch::line(at.wrapping_add(ROW_HEAD_BYTES));
    }

    #[inline(always)]
    fn row_at(&self, at: usize) -> EntryPosition {
        let bytes = &self.memory[at..self.entries_end as usize];
        let (key, key_len, csn, value) = body::row(bytes, self.csn_bytes);
        EntryPosition { key: at as u32 + key, key_len, csn, value }
    }

    /// The key of a row of this block.
    #[inline]
    pub(crate) fn key_of(&self, row: &EntryPosition) -> &[u8] {
        &self.memory[row.key as usize..row.value_at()]
    }

    /// The value of a row of this block; `None` for a tombstone.
    #[inline]
    pub(crate) fn value_of(&self, row: &EntryPosition) -> Option<&[u8]> {
        (row.value > 0).then(|| &self.memory[row.value_at()..row.end()])
    }

    /// The entry of a row of this block.
    #[inline]
    pub(crate) fn entry_of(&self, row: &EntryPosition) -> Entry<'_> {
        Entry { key: self.key_of(row), csn: row.csn, value: self.value_of(row) }
    }

    /// Passes the keys and values of this many entries, from one on, to `take` until it returns
    /// `false`. The value of a tombstone is empty.
    pub(crate) fn each_from(
        &self,
        first: usize,
        count: usize,
        take: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) {
        let at = self.place(first);
        let mut rest = &self.memory[at..self.entries_end as usize];
        for _ in 0..count {
            let (Entry { key, value, .. }, behind) = body::entry_and_rest(rest, self.csn_bytes);
            // As a step does ([`Block::row_after`]).
            Block::ask_for_row(behind.as_ptr().wrapping_add(self.ahead as usize));
            if !take(key, value.unwrap_or_default()) {
                break;
            }
            rest = behind;
        }
    }

    /// Prefetches what [`Block::seek`] reads first.
    #[inline]
    pub(crate) fn prefetch(&self) {
        self.nodes.prefetch(self.nodes_memory());
    }

    /// The index of the first entry at or past `key`. It is the newest version of its key.
    pub(crate) fn seek(&self, key: &[u8]) -> usize {
        if !self.halving {
            return self.nodes.seek(self.nodes_memory(), key, |index| self.entry(index).key);
        }
        let (mut low, mut high) = (0, self.len());
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
