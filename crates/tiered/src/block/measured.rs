//! Blocks without extents, for benchmarks: builds blocks from rows, and encodes, opens, searches
//! and iterates over these blocks, with the same code as extents and scans.

use std::sync::Arc;

use spillway_base::budget::Budget;
use spillway_base::{Csn, Result, TableId};
use spillway_reclaim::pages::{Buffer, PagePools};

use super::{
    Block, BlockSearch, BlockWriter, Decoding, Entry, EntryPosition, FRAME_BYTES, FrameId,
    put_coded_frame, put_frame, seal_frame,
};
use crate::block_search::Way;
use crate::coding::{Compression, Dictionaries, DictionaryStore, Encoder};
use crate::extent_meta::ExtentId;

const ID: FrameId = FrameId { table: TableId(1), extent: ExtentId(2), offset: 3 };
/// Bytes of the largest body that is opened.
const BODY_BYTES_MAX: usize = 16 << 20;

/// A row: its key, the commit that wrote it, its value.
pub type RowOf<'a> = (&'a [u8], u64, &'a [u8]);

/// How a block is searched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Search {
    /// By nodes over its keys, with the best vectors that the processor has.
    Simd,
    /// By nodes, head by head.
    Nodes,
    /// By halving, key by key.
    Halving,
}

/// The bodies of full blocks of rows, which come in key order, and the number of rows in each.
pub fn bodies<'a>(rows: impl IntoIterator<Item = RowOf<'a>>) -> Vec<(Vec<u8>, usize)> {
    let mut writer = BlockWriter::default();
    for (key, csn, value) in rows {
        writer.push(&Entry { key, csn: Csn(csn), value: Some(value) });
    }
    let built = writer.finish().into_iter();
    built
        .map(|mut block| (block.frame.split_off(FRAME_BYTES), block.counts.versions as usize))
        .collect()
}

/// The frames of these bodies as extents of one table store them, one after another.
pub fn frames(bodies: &[&[u8]], compression: Compression) -> Vec<Vec<u8>> {
    let mut encoder = Encoder::new(compression, None);
    let frame = |body: &&[u8]| {
        let mut frame = Vec::new();
        match compression {
            Compression::None => put_frame(&mut frame, body),
            _ => put_coded_frame(&mut frame, body, &mut encoder),
        }
        seal_frame(&mut frame, ID);
        frame
    };
    bodies.iter().map(frame).collect()
}

/// Opens blocks.
pub struct Opener {
    dictionaries: Arc<Dictionaries>,
    pages: PagePools,
    search: BlockSearch,
}

impl Opener {
    /// Opens blocks that are searched this way, in memory like that of caches.
    #[must_use]
    pub fn new(search: Search) -> Opener {
        let budget = Budget::new(usize::MAX);
        Opener {
            dictionaries: DictionaryStore::new(&budget).of(ID.table),
            pages: Block::pools(true, &budget),
            search: match search {
                Search::Simd => BlockSearch::best(),
                Search::Nodes => BlockSearch::Nodes(Way::Scalar),
                Search::Halving => BlockSearch::Halving,
            },
        }
    }

    /// Checks a frame of [`frames`], and opens it as a block.
    ///
    /// # Errors
    /// [`spillway_base::ErrorKind::Corruption`].
    pub fn open(&self, frame: &[u8]) -> Result<OpenBlock> {
        let decoding = Decoding {
            dictionaries: &self.dictionaries,
            pages: &self.pages,
            body_bytes_max: &|| BODY_BYTES_MAX,
            search: self.search,
        };
        // A read fills such memory.
        let mut memory = Buffer::new(frame.len(), &self.pages);
        memory.copy_from_slice(frame);
        Block::open(memory, ID, &decoding).map(OpenBlock)
    }
}

/// A block in memory.
pub struct OpenBlock(Block);

impl OpenBlock {
    /// The number of rows, at least one.
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // It is never empty.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Bytes in memory.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.0.bytes()
    }

    /// The index of the first row at or past a key; the number of rows if there is none.
    #[inline]
    #[must_use]
    pub fn seek(&self, key: &[u8]) -> usize {
        self.0.seek(key)
    }

    /// A walk from the row of this index, which must exist.
    #[inline]
    #[must_use]
    pub fn walk(&self, index: usize) -> Walk<'_> {
        Walk { block: &self.0, index, row: self.0.row(index) }
    }
}

/// A walk over rows, as in a scan within a block that has one version of each key.
pub struct Walk<'a> {
    block: &'a Block,
    index: usize,
    row: EntryPosition,
}

impl Walk<'_> {
    /// Moves to the next row; `false` if there is none.
    #[inline]
    pub fn forward(&mut self) -> bool {
        let next = self.index + 1;
        if next < self.block.len() {
            (self.index, self.row) = (next, self.block.row_after(&self.row));
            return true;
        }
        false
    }

    /// Moves to the previous row; `false` if there is none.
    #[inline]
    pub fn backward(&mut self) -> bool {
        let Some(before) = self.index.checked_sub(1) else { return false };
        (self.index, self.row) = (before, self.block.row_before(self.index));
        true
    }

    /// The row's key and value.
    #[inline]
    #[must_use]
    pub fn row(&self) -> (&[u8], &[u8]) {
        let Entry { key, value, .. } = self.block.entry_of(&self.row);
        (key, value.unwrap_or_default())
    }
}
