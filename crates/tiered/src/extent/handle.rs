//! An extent that is in use: its record, its file, and what of it is in memory.

use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use spillway_base::budget::Budget;
use spillway_base::engine::Access;
use spillway_base::{Error, ErrorKind, Result, TableId};

use super::{FOOTER_BYTES, Footer, Resident};
use crate::block::{Block, Decoding, FrameId, check_frame, open_frame};
use crate::cache::{BlockCache, BlockKey, HasSeat, Seat, TableCache};
use crate::coding::{Coding, Dictionaries, DictionaryStore};
use crate::compaction::{Bulk, Ticket};
use crate::extent_meta::ExtentMeta;
use crate::pages::{Buffer, PagePool};
use crate::space::{DataFile, DeviceClass, SpaceManager};
use crate::temperature::{REGIONS, Readings, Temperature, Thermometer};

/// The caches that reads of extents go through.
pub(crate) struct ReadContext {
    pub(crate) blocks: BlockCache<Block>,
    pub(crate) tables: TableCache<Resident, ExtentHandle>,
    /// The memory of blocks.
    pub(crate) pages: PagePool,
    /// What blocks are decoded with.
    pub(crate) dictionaries: DictionaryStore,
    pub(crate) thermometer: Arc<Thermometer>,
    /// Blocks that readers found in no cache, by class of device.
    pub(crate) reads: [AtomicU64; DeviceClass::ALL.len()],
}

impl ReadContext {
    /// Caches of so many bytes. `temperature` is whether reads of extents are counted.
    pub(crate) fn new(
        block_bytes: usize,
        table_bytes: usize,
        temperature: bool,
        budget: &Budget,
    ) -> ReadContext {
        ReadContext {
            blocks: BlockCache::new(block_bytes, budget),
            tables: TableCache::new(table_bytes, budget),
            pages: Block::pool(budget),
            dictionaries: DictionaryStore::new(budget),
            thermometer: Arc::new(Thermometer::new(temperature)),
            reads: Default::default(),
        }
    }
}

/// Where an extent's bytes are. Dropping the last handle of an extent that left its table gives its
/// slots back.
struct Home {
    table: TableId,
    file: Arc<DataFile>,
    offset: u64,
    space: Arc<SpaceManager>,
    context: Arc<ReadContext>,
    dictionaries: Arc<Dictionaries>,
    obsolete: AtomicBool,
    /// Whether it goes on under its number elsewhere.
    moved: AtomicBool,
}

/// An extent, shared by the versions of its table's structure and by the cursors that read it.
pub(crate) struct ExtentHandle {
    pub(crate) meta: ExtentMeta,
    seat: Seat<Resident>,
    live_bytes: AtomicU64,
    /// Bytes that were live when it was found to be in order.
    ordered_at: AtomicU64,
    readings: Readings,
    thermometer: Arc<Thermometer>,
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
            dictionaries: context.dictionaries.of(table),
            obsolete: AtomicBool::new(false),
            moved: AtomicBool::new(false),
        };
        Ok(Arc::new(ExtentHandle::at(Some(home), meta, context.thermometer.clone())))
    }

    /// A handle with nothing behind it, for tests of what needs only the record.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn detached(meta: ExtentMeta) -> Arc<ExtentHandle> {
        Arc::new(ExtentHandle::at(None, meta, Arc::new(Thermometer::new(true))))
    }

    fn at(home: Option<Home>, meta: ExtentMeta, thermometer: Arc<Thermometer>) -> ExtentHandle {
        thermometer.add_extent();
        ExtentHandle {
            meta,
            seat: Seat::default(),
            live_bytes: AtomicU64::new(0),
            ordered_at: AtomicU64::new(u64::MAX),
            readings: Readings::default(),
            thermometer,
            home,
        }
    }

    /// Counts a read of a block, now and then.
    pub(crate) fn note_read(&self, block: usize) {
        self.readings.note_read(block, self.meta.blocks as usize, &self.thermometer);
    }

    /// How often each of its regions was read lately.
    pub(crate) fn readings(&self) -> [u64; REGIONS] {
        self.readings.regions(&self.thermometer)
    }

    /// Counts reads of what a block takes the place of.
    pub(crate) fn inherit(&self, block: usize, reads: u64) {
        self.readings.add(block, self.meta.blocks as usize, reads, &self.thermometer);
    }

    /// How often some of its blocks were read lately.
    pub(crate) fn temperature(&self, blocks: Range<usize>) -> Temperature {
        self.readings.temperature(blocks, self.meta.blocks as usize, &self.thermometer)
    }

    /// Bytes of its blocks that belong to slices of the table's levels.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_bytes.load(Ordering::Relaxed)
    }

    /// Notes that putting what is in use of it in order gained nothing, or that it was the outcome of that.
    pub(crate) fn mark_in_order(&self) {
        self.ordered_at.store(self.live_bytes(), Ordering::Relaxed);
    }

    /// Whether nothing is gained by putting what is in use of it in order, and nothing has changed since that was found.
    pub(crate) fn is_in_order(&self) -> bool {
        self.ordered_at.load(Ordering::Relaxed) == self.live_bytes()
    }

    /// Bytes of it that are of use: those blocks, and as much of its index and filters.
    pub(crate) fn used_bytes(&self) -> u64 {
        let share = self.live_bytes() as f64 / self.meta.data_bytes.max(1) as f64;
        (share * self.meta.len as f64) as u64
    }

    /// Notes that slices of so many bytes came and went.
    pub(crate) fn change_live_bytes(&self, came: u64, went: u64) {
        self.live_bytes.fetch_add(came.wrapping_sub(went), Ordering::Relaxed);
    }

    /// The extent is no longer part of its table: its slots go back with its last handle.
    pub(crate) fn mark_obsolete(&self) {
        if let Some(home) = &self.home {
            home.obsolete.store(true, Ordering::Release);
        }
    }

    /// The extent is elsewhere from now on: its slots here go back with its last handle.
    pub(crate) fn mark_moved(&self) {
        if let Some(home) = &self.home {
            home.moved.store(true, Ordering::Release);
            home.obsolete.store(true, Ordering::Release);
        }
    }

    /// Takes over what is known of an extent that was copied here.
    pub(crate) fn take_over(self: &Arc<Self>, old: &ExtentHandle) {
        self.change_live_bytes(old.live_bytes(), 0);
        self.ordered_at.store(old.ordered_at.load(Ordering::Relaxed), Ordering::Relaxed);
        self.readings.take_over(&old.readings);
        if let Some(resident) = old.seat.get() {
            let bytes = resident.bytes();
            self.home().context.tables.seat(self, resident, bytes);
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

    /// All its bytes, unchecked.
    pub(crate) fn read_into(&self, bytes: &mut Vec<u8>) -> Result<()> {
        let home = self.home();
        bytes.resize(self.meta.len as usize, 0);
        home.file.read_at(home.offset, bytes)
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

    /// The block index and the filters.
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
            .map_err(|error| self.damaged("index or filters", &error))?;
        if resident.blocks() != self.meta.blocks as usize {
            let error = Error::corruption("it has another number of blocks than was recorded");
            return Err(self.damaged("index", &error));
        }
        let resident = Arc::new(resident);
        self.home().context.tables.seat(self, resident.clone(), resident.bytes());
        Ok(resident)
    }

    /// The block index and the filters, if they are in memory.
    pub(crate) fn resident_now(&self) -> Option<Arc<Resident>> {
        self.seat.get()
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
        let home = self.home();
        home.context.reads[home.file.class() as usize].fetch_add(1, Ordering::Relaxed);
        let block = Arc::new(self.read_block(resident, index)?);
        cache.insert(key, block.clone(), block.bytes());
        Ok(block)
    }

    /// A data block, past the cache: for compaction and verification.
    pub(crate) fn read_block(&self, resident: &Resident, index: usize) -> Result<Block> {
        let bytes = self.read_blocks(resident, index..index + 1)?;
        self.open_block(resident, index, bytes)
    }

    /// Begins to read the frames of consecutive blocks, past all caches.
    pub(crate) fn begin_read(
        &self,
        resident: &Resident,
        blocks: Range<usize>,
        bulk: &Bulk,
    ) -> Result<Ticket> {
        let (first, last) = (resident.place(blocks.start), resident.place(blocks.end - 1));
        let len = (last.offset - first.offset) as usize + last.len as usize;
        let home = self.home();
        Ok(bulk.begin_read(home.file.file(), home.offset + first.offset, len))
    }

    /// Reads and checks blocks, past all caches.
    pub(crate) fn check_blocks(self: &Arc<Self>, blocks: Range<usize>) -> Result<()> {
        let resident = self.resident(Access::Blocking)?;
        blocks.into_iter().try_for_each(|block| self.read_block(&resident, block).map(drop))
    }

    /// The frames of consecutive blocks, unchecked, past the cache.
    pub(crate) fn read_blocks(&self, resident: &Resident, blocks: Range<usize>) -> Result<Buffer> {
        let (first, last) = (resident.place(blocks.start), resident.place(blocks.end - 1));
        let len = (last.offset - first.offset) as usize + last.len as usize;
        self.read("data block", first.offset, len)
    }

    /// The block of a frame that was read.
    pub(crate) fn open_block(
        &self,
        resident: &Resident,
        index: usize,
        frame: impl Into<Buffer> + Deref<Target = [u8]>,
    ) -> Result<Block> {
        let place = resident.place(index);
        let home = self.home();
        let decoding = Decoding {
            dictionaries: &home.dictionaries,
            pages: &home.context.pages,
            body_bytes_max: place.counts.body_bytes_most(),
        };
        Block::open(frame, self.frame(place.offset), &decoding)
            .map_err(|error| self.damaged_block(resident, index, &error))
    }

    /// Checks the frame of a block that was read, and answers its coding.
    pub(crate) fn check_block(
        &self,
        resident: &Resident,
        index: usize,
        frame: &[u8],
    ) -> Result<Coding> {
        let id = self.frame(resident.place(index).offset);
        check_frame(frame, id).map_err(|error| self.damaged_block(resident, index, &error))
    }

    fn damaged_block(&self, resident: &Resident, index: usize, error: &Error) -> Error {
        self.damaged(resident.name(index), error)
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
        self.thermometer.remove_extent();
        let Some(home) = self.home.take() else { return };
        home.context.tables.forget(self);
        if home.obsolete.load(Ordering::Acquire) {
            if !home.moved.load(Ordering::Acquire) {
                home.context.blocks.forget(self.meta.id, self.meta.blocks);
            }
            home.space.release(self.meta.slots);
        }
    }
}
