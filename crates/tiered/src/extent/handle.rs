//! An extent that is in use: its record, its file, and what of it is in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use spillway_base::engine::Access;
use spillway_base::{Error, ErrorKind, Result, TableId};

use super::{FOOTER_BYTES, Footer, Resident};
use crate::block::{Block, FrameId, open_frame};
use crate::cache::{BlockCache, BlockKey, HasSeat, Seat, TableCache};
use crate::extent_meta::ExtentMeta;
use crate::pages::{Buffer, PagePool};
use crate::space::{DataFile, SpaceManager};

/// The caches that reads of extents go through.
pub(crate) struct ReadContext {
    pub(crate) blocks: BlockCache<Block>,
    pub(crate) tables: TableCache<Resident, ExtentHandle>,
    /// The memory of blocks.
    pub(crate) pages: PagePool,
}

/// Where an extent's bytes are. Dropping the last handle of an extent that left its table gives its
/// slots back.
struct Home {
    table: TableId,
    file: Arc<DataFile>,
    offset: u64,
    space: Arc<SpaceManager>,
    context: Arc<ReadContext>,
    obsolete: AtomicBool,
}

/// An extent, shared by the versions of its table's structure and by the cursors that read it.
pub(crate) struct ExtentHandle {
    pub(crate) meta: ExtentMeta,
    seat: Seat<Resident>,
    home: Option<Home>,
}

impl std::fmt::Debug for ExtentHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.meta.fmt(f)
    }
}

impl HasSeat<Resident> for ExtentHandle {
    fn seat(&self) -> &Seat<Resident> {
        &self.seat
    }
}

impl ExtentHandle {
    /// The handle of an extent of `table`, whose slots are taken.
    pub(crate) fn new(
        table: TableId,
        meta: ExtentMeta,
        space: &Arc<SpaceManager>,
        context: &Arc<ReadContext>,
    ) -> Result<Arc<ExtentHandle>> {
        let (file, offset) = space.locate(meta.slots)?;
        let home = Home {
            table,
            file,
            offset,
            space: space.clone(),
            context: context.clone(),
            obsolete: AtomicBool::new(false),
        };
        Ok(Arc::new(ExtentHandle { meta, seat: Seat::default(), home: Some(home) }))
    }

    /// A handle with nothing behind it, for tests of what needs only the record.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn detached(
        id: crate::extent_meta::ExtentId,
        smallest: &str,
        largest: &str,
        len: u64,
        tombstones: u64,
    ) -> Arc<ExtentHandle> {
        let meta = ExtentMeta {
            id,
            slots: crate::space::SlotRun { file: 0, first: id.0 as u32, count: 1 },
            len,
            smallest: smallest.as_bytes().into(),
            largest: largest.as_bytes().into(),
            csn_min: spillway_base::Csn(1),
            csn_max: spillway_base::Csn(1),
            versions: 1 + tombstones,
            keys: 1,
            tombstones,
            payload_bytes: len,
        };
        Arc::new(ExtentHandle { meta, seat: Seat::default(), home: None })
    }

    /// The extent is no longer part of its table: its slots go back with its last handle.
    pub(crate) fn mark_obsolete(&self) {
        if let Some(home) = &self.home {
            home.obsolete.store(true, Ordering::Release);
        }
    }

    fn home(&self) -> &Home {
        self.home.as_ref().expect("only tests of the picker have detached extents")
    }

    fn damaged(&self, part: impl std::fmt::Display, error: &Error) -> Error {
        let home = self.home();
        error.context(format!("{:?}, {}, {}, {part}", home.table, self.meta.id, self.meta.slots))
    }

    fn read(&self, part: &str, offset: u64, len: usize) -> Result<Buffer> {
        let home = self.home();
        // Before there is memory for it: a length is not to be trusted.
        if offset.checked_add(len as u64).is_none_or(|end| end > self.meta.len) {
            let error = Error::corruption("it lies outside of its extent");
            return Err(self.damaged(part, &error));
        }
        let mut bytes = Buffer::new(len, &home.context.pages);
        home.file.read_at(home.offset + offset, &mut bytes)?;
        Ok(bytes)
    }

    fn frame(&self, offset: u64) -> FrameId {
        FrameId { table: self.home().table, extent: self.meta.id, offset }
    }

    fn footer(&self) -> Result<Footer> {
        let at = self.meta.len.saturating_sub(FOOTER_BYTES as u64);
        let bytes = self.read("footer", at, FOOTER_BYTES)?;
        let footer = Footer::decode(&bytes).map_err(|error| self.damaged("footer", &error))?;
        if (footer.id, footer.table) != (self.meta.id, self.home().table) {
            let error = Error::corruption(format!("it belongs to {}", footer.id));
            return Err(self.damaged("footer", &error));
        }
        Ok(footer)
    }

    /// The block index and the filter.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] when they are not in memory and `access` says so;
    /// [`ErrorKind::Corruption`], [`ErrorKind::Io`].
    pub(crate) fn resident(self: &Arc<Self>, access: Access) -> Result<Arc<Resident>> {
        if let Some(resident) = self.seat.get() {
            return Ok(resident);
        }
        if access == Access::MemoryOnly {
            return Err(would_block());
        }
        let footer = self.footer()?;
        let parts = [("index", footer.index), ("filter", footer.filter)];
        let [index, filter] =
            parts.map(|(part, (offset, len))| self.read(part, offset, len as usize));
        let (index, filter) = (index?, filter?);
        let resident = open_frame(&index, self.frame(footer.index.0))
            .and_then(|index| {
                let filter = open_frame(&filter, self.frame(footer.filter.0))?;
                Resident::decode(index, filter, self.meta.len)
            })
            .map_err(|error| self.damaged("index or filter", &error))?;
        let (resident, bytes) = (Arc::new(resident), 0);
        let bytes = bytes + resident.bytes();
        self.home().context.tables.seat(self, resident.clone(), bytes);
        Ok(resident)
    }

    /// A data block.
    ///
    /// # Errors
    /// As [`ExtentHandle::resident`].
    pub(crate) fn block(
        &self,
        resident: &Resident,
        index: usize,
        access: Access,
    ) -> Result<Arc<Block>> {
        let key = BlockKey { extent: self.meta.id, block: index as u32 };
        let cache = &self.home().context.blocks;
        if let Some(block) = cache.get(key) {
            return Ok(block);
        }
        if access == Access::MemoryOnly {
            return Err(would_block());
        }
        let block = Arc::new(self.read_block(resident, index)?);
        cache.insert(key, block.clone(), block.bytes());
        Ok(block)
    }

    /// A data block, past the cache: for compaction and verification.
    pub(crate) fn read_block(&self, resident: &Resident, index: usize) -> Result<Block> {
        let place = &resident.blocks[index];
        let bytes = self.read("data block", place.offset, place.len as usize)?;
        Block::open(bytes, self.frame(place.offset)).map_err(|error| {
            self.damaged(format!("block {index} at byte {}", place.offset), &error)
        })
    }

    /// The number of versions that the extent says it holds.
    pub(crate) fn stated_versions(&self) -> Result<u64> {
        self.footer().map(|footer| footer.versions)
    }
}

fn would_block() -> Error {
    Error::new(ErrorKind::WouldBlock, "the data is not in memory")
}

impl Drop for ExtentHandle {
    fn drop(&mut self) {
        let Some(home) = self.home.take() else { return };
        let blocks = self.seat.get().map_or(0, |resident| resident.blocks() as u32);
        home.context.tables.forget(self);
        if home.obsolete.load(Ordering::Acquire) {
            home.context.blocks.forget(self.meta.id, blocks);
            home.space.release(self.meta.slots);
        }
    }
}
