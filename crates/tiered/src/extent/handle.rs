//! The handle of an extent in use: its record, its file, and its cached table.

use std::cell::Cell;
use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use spillway_base::budget::{Budget, Charge, GiveWay, Use, Worth};
use spillway_base::engine::Access;
use spillway_base::managed::ClosedFlag;
use spillway_base::{Error, ErrorKind, Result, TableId};
use spillway_reclaim::pages::{Buffer, PagePools};
use spillway_storage::async_reads::AsyncReads;
use spillway_storage::{Disk, File};

use super::async_reads::ExtentRead;
use super::direct_io::{Bytes, read_past};
use super::footer::{FOOTER_BYTES, Footer};
use super::read_queues::ReadQueues;
use super::resident::{Missing, Resident};
use super::settings::ReadSettings;
use super::slice_users::SliceUsers;
use crate::block::{Block, BlockSearch, Decoding, FrameId, check_frame, is_stored, open_frame};
use crate::bulk_io::{Bulk, ReadTicket};
use crate::cache::{Cache, Holder, Kept, Pin, QueuedBlock, QueuedTable, RowCache, Seat, Sizes};
use crate::coding::{Coding, Dictionaries, DictionaryStore};
use crate::deferred_free::DeferredFree;
use crate::extent_meta::ExtentMeta;
use crate::space::{DataFile, DeviceClass, SpaceManager};
use crate::temperature::{REGIONS, Readings, Temperature, Thermometer};

/// A data block in memory.
pub(crate) type CachedBlock = QueuedBlock<Block>;
/// An extent's block index and filters in memory, and the pointers to its blocks in memory.
pub(crate) type CachedTable = QueuedTable<ExtentHandle>;

/// An eviction for other uses frees this fraction of the budget in addition, so that not each small
/// need of memory calls the cache.
const GIVEN_SHARE: usize = 64;

thread_local!(static READ_BYTES: Cell<u64> = const { Cell::new(0) });

/// Counts bytes that the calling thread read from extents after misses.
pub(super) fn note_read_by_this_thread(bytes: u64) {
    READ_BYTES.set(READ_BYTES.get() + bytes);
}

/// The bytes that the calling thread has read from extents after misses, in all.
pub(crate) fn read_by_this_thread() -> u64 {
    READ_BYTES.get()
}

/// The shared context of reads of extents: caches, page pools and queues.
pub(crate) struct ReadContext {
    pub(crate) cache: Cache<ExtentHandle>,
    pub(crate) rows: Option<RowCache>,
    /// The page pools of blocks.
    pub(crate) pages: PagePools,
    /// The dictionaries.
    pub(crate) dictionaries: DictionaryStore,
    /// How blocks are searched.
    pub(crate) search: BlockSearch,
    pub(crate) thermometer: Arc<Thermometer>,
    /// Block misses, by class of device.
    pub(crate) reads: [AtomicU64; DeviceClass::ALL.len()],
    /// The queues of readahead.
    pub(crate) queues: ReadQueues,
    /// The asynchronous reads.
    pub(crate) async_reads: AsyncReads<ExtentRead>,
    /// Whether gets make partial reads.
    pub(super) part_reads: bool,
    /// The number of partial reads.
    pub(crate) reads_of_parts: AtomicU64,
    /// Whether readers bypass the system's page cache.
    pub(super) direct: bool,
    /// Memory that readers left to background threads to free.
    pub(crate) garbage: DeferredFree,
    pub(crate) closed: ClosedFlag,
    pub(super) budget: Budget,
}

impl ReadContext {
    /// A context with caches of blocks and rows. For other uses of the budget, both evict together.
    pub(crate) fn new(
        settings: ReadSettings,
        rows: Option<RowCache>,
        budget: &Budget,
    ) -> Arc<ReadContext> {
        let ReadSettings { cache, search, temperature, direct, large_pages, part_reads } = settings;
        let context = Arc::new(ReadContext {
            cache: Cache::new(cache, budget),
            rows,
            pages: Block::pools(large_pages, budget),
            dictionaries: DictionaryStore::new(budget),
            search,
            thermometer: Arc::new(Thermometer::new(temperature)),
            reads: Default::default(),
            queues: ReadQueues::default(),
            async_reads: AsyncReads::default(),
            part_reads,
            reads_of_parts: AtomicU64::new(0),
            direct,
            garbage: DeferredFree::default(),
            closed: ClosedFlag::default(),
            budget: budget.clone(),
        });
        let weak: Weak<ReadContext> = Arc::downgrade(&context);
        budget.gives_way(weak);
        context
    }

    /// The charge for bytes that are being read.
    pub(super) fn charge(&self, bytes: usize) -> Charge {
        self.budget.charge(Use::Caches, bytes)
    }

    /// Makes room for a row that was inserted. Evicts blocks if free pages are not enough.
    pub(crate) fn make_room_for_rows(&self) {
        let past = self.budget.used().saturating_sub(self.budget.limit());
        // Returning free pages costs the blocks nothing.
        if past > 0 && self.pages.give_back(past) < past {
            let bytes = past + self.budget.limit() / GIVEN_SHARE;
            self.cache.give_way(bytes);
            self.pages.give_back(bytes);
        }
    }

    /// Called after a miss. Occasionally weighs rows and blocks against each other, and evicts rows
    /// beyond their share.
    pub(super) fn weigh(&self) {
        if let Some(rows) = &self.rows {
            rows.weigh(self.cache.read_and_ghost_missed());
        }
    }

    /// Whether gets bypass the system's page cache.
    pub(crate) fn reads_directly(&self) -> bool {
        self.direct
    }

    /// Called when a block is read asynchronously for the row of a hash. If the row was evicted
    /// lately, this is a ghost miss.
    pub(crate) fn note_ghost_miss_of_row(&self, hash: u64, extent: &ExtentHandle) {
        if let Some(rows) = &self.rows
            && rows.left_lately(hash)
        {
            rows.note_ghost_miss(extent.meta.len / u64::from(extent.meta.blocks.max(1)));
        }
    }

    /// Returns the free pages of evicted blocks to the system for uses outside the page pools.
    fn trim(&self) {
        if self.budget.used() > self.budget.limit() {
            self.pages.trim();
        }
    }
}

impl GiveWay for ReadContext {
    fn worth(&self) -> Worth {
        Worth::Cached
    }

    fn give_way(&self, bytes: usize) -> usize {
        // Returning free pages costs the blocks nothing.
        let given = self.pages.give_back(bytes);
        if given >= bytes {
            return 0;
        }
        let bytes = bytes - given + self.budget.limit() / GIVEN_SHARE;
        let mut left = bytes;
        if let Some(rows) = &self.rows {
            // Each cache evicts in proportion to its size.
            let (blocks, tables) = self.cache.bytes();
            let held = rows.held_bytes();
            let (own, all) = (held as u128, (held + blocks + tables).max(1) as u128);
            left = left.saturating_sub(rows.give_way((bytes as u128 * own / all) as usize));
        }
        self.cache.give_way(left);
        // Evicted blocks leave free pages. The caller may need memory outside of the page pools, so
        // these are returned.
        self.pages.give_back(left);
        if let Some(rows) = &self.rows {
            let past = self.budget.used().saturating_sub(self.budget.limit());
            if past > 0 {
                rows.give_way(past);
            }
        }
        self.trim();
        0
    }
}

/// The location of an extent's bytes. When the last handle of an obsolete extent is dropped, its
/// slots are freed.
pub(super) struct Home {
    pub(super) table: TableId,
    pub(super) file: Arc<DataFile>,
    pub(super) offset: u64,
    space: Arc<SpaceManager>,
    pub(super) context: Arc<ReadContext>,
    dictionaries: Arc<Dictionaries>,
    obsolete: AtomicBool,
}

/// An extent, shared by the views that have its slices and by the cursors that read it.
pub(crate) struct ExtentHandle {
    pub(crate) meta: ExtentMeta,
    seat: Seat<ExtentHandle>,
    live_bytes: AtomicU64,
    /// The live bytes when a self-major compaction gained nothing.
    ordered_at: AtomicU64,
    readings: Readings,
    pub(super) users: SliceUsers,
    thermometer: Arc<Thermometer>,
    home: Option<Home>,
}

impl std::fmt::Debug for ExtentHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.meta.fmt(f)
    }
}

impl Holder for ExtentHandle {
    type Table = Resident;
    type Block = Block;

    fn seat(&self) -> &Seat<ExtentHandle> {
        &self.seat
    }
}

impl ExtentHandle {
    /// The handle of an extent of `table`, whose slots are allocated.
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
        };
        Ok(Arc::new(ExtentHandle::at(Some(home), meta, context.thermometer.clone())))
    }

    /// A handle without stored data, for tests that need only the record.
    #[cfg(all(test, not(loom)))]
    pub(crate) fn detached(meta: ExtentMeta) -> Arc<ExtentHandle> {
        Arc::new(ExtentHandle::at(None, meta, Arc::new(Thermometer::new(true))))
    }

    fn at(home: Option<Home>, meta: ExtentMeta, thermometer: Arc<Thermometer>) -> ExtentHandle {
        thermometer.add_extent();
        let seat = Seat::of(home.as_ref().map(|home| &home.context.cache));
        ExtentHandle {
            meta,
            seat,
            live_bytes: AtomicU64::new(0),
            ordered_at: AtomicU64::new(u64::MAX),
            readings: Readings::default(),
            users: SliceUsers::default(),
            thermometer,
            home,
        }
    }

    /// The shared context; `None` for a handle of tests that need only the record.
    pub(crate) fn context(&self) -> Option<&Arc<ReadContext>> {
        self.home.as_ref().map(|home| &home.context)
    }

    /// Counts a sample of the reads of blocks.
    pub(crate) fn note_read(&self, block: usize) {
        self.readings.note_read(block, self.meta.blocks as usize, &self.thermometer);
    }

    /// The recent reads of each of its regions.
    pub(crate) fn readings(&self) -> [u64; REGIONS] {
        self.readings.regions(&self.thermometer)
    }

    /// Adds the reads of blocks that this block replaces.
    pub(crate) fn inherit(&self, block: usize, reads: u64) {
        self.readings.add(block, self.meta.blocks as usize, reads, &self.thermometer);
    }

    /// The temperature of some of its blocks.
    pub(crate) fn temperature(&self, blocks: Range<usize>) -> Temperature {
        self.readings.temperature(blocks, self.meta.blocks as usize, &self.thermometer)
    }

    /// Bytes of its blocks that belong to slices of the table's levels.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_bytes.load(Ordering::Relaxed)
    }

    /// Records that a self-major compaction of it gained nothing, or that it is the output of one.
    pub(crate) fn mark_in_order(&self) {
        self.ordered_at.store(self.live_bytes(), Ordering::Relaxed);
    }

    /// Whether a self-major compaction would gain nothing: an earlier one gained nothing, and
    /// nothing has changed since.
    pub(crate) fn is_in_order(&self) -> bool {
        self.ordered_at.load(Ordering::Relaxed) == self.live_bytes()
    }

    /// Its live bytes, and the same share of its index and filters.
    pub(crate) fn used_bytes(&self) -> u64 {
        let share = self.live_bytes() as f64 / self.meta.data_bytes.max(1) as f64;
        (share * self.meta.len as f64) as u64
    }

    /// Counts the bytes of slices that were added and removed.
    pub(crate) fn change_live_bytes(&self, came: u64, went: u64) {
        self.live_bytes.fetch_add(came.wrapping_sub(went), Ordering::Relaxed);
    }

    /// Marks the extent as obsolete, because it left its table or was moved: its last handle will
    /// free its slots.
    pub(crate) fn mark_obsolete(&self) {
        if let Some(home) = &self.home {
            home.obsolete.store(true, Ordering::Release);
        }
    }

    /// Takes over the statistics and the cached entries of the handle `old`, whose extent was
    /// copied here.
    pub(crate) fn take_over(self: &Arc<Self>, old: &ExtentHandle) {
        self.change_live_bytes(old.live_bytes(), 0);
        self.ordered_at.store(old.ordered_at.load(Ordering::Relaxed), Ordering::Relaxed);
        self.readings.take_over(&old.readings);
        self.home().context.cache.hand_over(old, self);
    }

    pub(super) fn home(&self) -> &Home {
        self.home.as_ref().expect("only tests of the picker have detached extents")
    }

    /// Reads a part of it and passes it to `then`. All readers come here in the end: a reader whose
    /// asynchronous or partial read fails reads the part again.
    fn read<T>(
        &self,
        part: &str,
        offset: u64,
        len: usize,
        access: Access,
        then: impl FnOnce(Bytes<'_>) -> Result<T>,
    ) -> Result<T> {
        let home = self.home();
        let failed = |error| home.context.closed.of_read(error);
        // Checked before memory is allocated, because the length may be damaged.
        if offset.checked_add(len as u64).is_none_or(|end| end > self.meta.len) {
            let error = Error::corruption("it lies outside of its extent");
            return Err(failed(self.damaged(part, &error)));
        }
        let (at, pages) = (home.offset + offset, &home.context.pages);
        let outcome = match (access, home.context.direct) {
            // A direct read always waits for the device.
            (Access::MemoryOnly, _) | (Access::AtHand, true) => Err(would_block()),
            (Access::AtHand, false) => {
                let mut bytes = Buffer::new(len, pages);
                match home.file.read_now(at, &mut bytes) {
                    true => then(Bytes::Own(bytes)),
                    false => Err(would_block()),
                }
            }
            (Access::Blocking, true) => {
                read_past(&home.file, at, len, |bytes| then(Bytes::Lent(bytes, pages)))
            }
            (Access::Blocking, false) => {
                let mut bytes = Buffer::new(len, pages);
                home.file.read_at(at, &mut bytes).and_then(|()| then(Bytes::Own(bytes)))
            }
        };
        outcome.map_err(failed)
    }

    fn frame(&self, offset: u64) -> FrameId {
        FrameId { table: self.home().table, extent: self.meta.id, offset }
    }

    fn decode_footer(&self, bytes: &[u8]) -> Result<Footer> {
        let footer = Footer::decode(bytes).map_err(|error| self.damaged("footer", &error))?;
        if (footer.id, footer.table) != (self.meta.id, self.home().table) {
            let error = Error::corruption(format!("it belongs to {}", footer.id));
            return Err(self.damaged("footer", &error));
        }
        Ok(footer)
    }

    fn footer(&self) -> Result<Footer> {
        let at = self.meta.len.saturating_sub(FOOTER_BYTES as u64);
        let decode = |bytes: Bytes<'_>| self.decode_footer(&bytes);
        self.read("footer", at, FOOTER_BYTES, Access::Blocking, decode)
    }

    /// The block cache.
    pub(crate) fn cache(&self) -> &Cache<ExtentHandle> {
        &self.home().context.cache
    }

    /// The block index and the filters, if they are in memory.
    #[inline]
    pub(crate) fn table<'p>(&self, pin: &'p Pin<'_>) -> Option<&'p CachedTable> {
        self.seat.table(pin)
    }

    /// A data block, if it is in memory.
    #[inline]
    pub(crate) fn block_of<'p>(
        &self,
        table: &CachedTable,
        index: usize,
        pin: &'p Pin<'_>,
    ) -> Option<&'p CachedBlock> {
        table.block(index, pin)
    }

    /// The block index and the filters, as a counted reference, read if they are not cached.
    ///
    /// # Errors
    /// [`ErrorKind::WouldBlock`] when they are not in memory and `access` says so;
    /// [`ErrorKind::Corruption`], [`ErrorKind::Io`].
    pub(crate) fn resident(self: &Arc<Self>, access: Access) -> Result<Kept<CachedTable>> {
        let found = self.seat.table_to_keep(&self.cache().pin());
        found.map_or_else(|| self.fetch_table(access), Ok)
    }

    /// Reads the block index and the filters, after a miss.
    ///
    /// # Errors
    /// As [`ExtentHandle::resident`].
    pub(crate) fn fetch_table(self: &Arc<Self>, access: Access) -> Result<Kept<CachedTable>> {
        if access == Access::MemoryOnly {
            return Err(would_block());
        }
        // Index, filters and footer follow the blocks, so one read gets all three.
        let Range { start, end } = self.tail();
        let part = "index, filters and footer";
        let seat = |tail: Bytes<'_>| self.seat_table(&tail);
        let table = self.read(part, start, (end - start) as usize, access, seat)?;
        note_read_by_this_thread(end - start);
        Ok(table)
    }

    /// The range of its index, filters and footer, in the extent.
    fn tail(&self) -> Range<u64> {
        self.meta.data_bytes.min(self.meta.len.saturating_sub(FOOTER_BYTES as u64))..self.meta.len
    }

    /// The offset in its file, and the length, of a part that a reader misses. `None` for a block
    /// whose table is not cached.
    pub(super) fn place_of(&self, missing: Missing) -> Option<(&Arc<dyn File>, u64, usize)> {
        let (offset, len) = match missing {
            Missing::Table => (self.tail().start, (self.meta.len - self.tail().start) as usize),
            Missing::Block(index) => {
                let table = self.resident_now()?;
                (table.place(index).offset, table.place(index).len as usize)
            }
        };
        let (file, at) = self.file_and_offset(offset);
        Some((file, at, len))
    }

    /// Inserts into the cache a part that was read for a reader, if the part is undamaged.
    ///
    /// # Errors
    /// [`ErrorKind::Corruption`].
    pub(super) fn keep_read(self: &Arc<Self>, missing: Missing, bytes: &[u8]) -> Result<()> {
        match missing {
            Missing::Table => self.seat_table(bytes).map(drop),
            Missing::Block(index) => match self.resident_now() {
                Some(table) => {
                    let block = self.keep_frame(&table, index, bytes)?;
                    self.note_parts(&table, index, &block, is_stored(bytes));
                    Ok(())
                }
                None => Ok(()),
            },
        }
    }

    /// Inserts the index and filters into the cache, from the bytes at the extent's end.
    fn seat_table(self: &Arc<Self>, tail: &[u8]) -> Result<Kept<CachedTable>> {
        let from = self.tail().start;
        let footer = self.decode_footer(tail.last_chunk::<FOOTER_BYTES>().map_or(tail, |f| f))?;
        let part = |part: &str, (offset, len): (u64, u32)| {
            let start = offset.checked_sub(from).and_then(|start| usize::try_from(start).ok());
            let found = start.and_then(|start| tail.get(start..start.checked_add(len as usize)?));
            found.ok_or_else(|| {
                self.damaged(part, &Error::corruption("it lies outside of its extent"))
            })
        };
        let (index, filter) = (part("index", footer.index)?, part("filters", footer.filter)?);
        let saved = tail.len();
        let open = |part, frame, offset| {
            open_frame(frame, self.frame(offset)).map_err(|error| self.damaged(part, &error))
        };
        let index = open("index", index, footer.index.0)?;
        let filter = open("filters", filter, footer.filter.0)?;
        let search = self.home().context.search;
        let resident = Resident::decode(index, filter, self.meta.len, search)
            .map_err(|error| self.damaged("index or filters", &error))?;
        if resident.blocks() != self.meta.blocks as usize {
            let error = Error::corruption("it has another number of blocks than was recorded");
            return Err(self.damaged("index", &error));
        }
        let sizes = Sizes { held: resident.bytes(), saved };
        let blocks = resident.blocks();
        let table = self.cache().seat(self, self.meta.id.0, resident, blocks, sizes);
        self.home().context.weigh();
        self.home().context.trim();
        Ok(table)
    }

    /// The block index and the filters, as a counted reference, if they are in memory.
    pub(crate) fn resident_now(&self) -> Option<Kept<CachedTable>> {
        let home = self.home.as_ref()?;
        self.seat.table_to_keep(&home.context.cache.pin())
    }

    /// Reads a data block, after a miss.
    ///
    /// # Errors
    /// As [`ExtentHandle::resident`].
    pub(crate) fn fetch_block(
        &self,
        table: &Kept<CachedTable>,
        index: usize,
        access: Access,
    ) -> Result<Kept<CachedBlock>> {
        let (block, _) = self.read_whole(table, index, access)?;
        Ok(self.keep(table, index, block))
    }

    /// As [`ExtentHandle::fetch_block`], for a get. Records the block's parts, because the next get
    /// may need only one of them.
    pub(crate) fn fetch_block_of_row(
        &self,
        table: &Kept<CachedTable>,
        index: usize,
        access: Access,
    ) -> Result<Kept<CachedBlock>> {
        let (block, is_stored) = self.read_whole(table, index, access)?;
        self.note_parts(table, index, &block, is_stored);
        Ok(self.keep(table, index, block))
    }

    /// Reads a data block; also returns whether it is stored uncompressed.
    fn read_whole(
        &self,
        table: &CachedTable,
        index: usize,
        access: Access,
    ) -> Result<(Block, bool)> {
        if access == Access::MemoryOnly {
            return Err(would_block());
        }
        let (from, to) = (table.offset(index), table.offset(index + 1));
        let open = |bytes: Bytes<'_>| {
            let is_stored = is_stored(&bytes);
            self.open_block(table, index, bytes).map(|block| (block, is_stored))
        };
        let read = self.read("data block", from, (to - from) as usize, access, open)?;
        note_read_by_this_thread(to - from);
        Ok(read)
    }

    /// Inserts into the cache a block that was missed and read.
    fn keep(&self, table: &Kept<CachedTable>, index: usize, block: Block) -> Kept<CachedBlock> {
        let context = &self.home().context;
        let class = self.home().file.class();
        context.reads[class as usize].fetch_add(1, Ordering::Relaxed);
        let saved = (table.offset(index + 1) - table.offset(index)) as usize;
        let sizes = Sizes { held: block.bytes(), saved };
        let block = context.cache.insert(table, index, block, sizes);
        context.weigh();
        context.trim();
        block
    }

    /// Inserts into the cache a block that was read ahead, when a reader misses it.
    ///
    /// # Errors
    /// [`ErrorKind::Corruption`].
    pub(super) fn keep_frame(
        &self,
        table: &Kept<CachedTable>,
        index: usize,
        frame: &[u8],
    ) -> Result<Kept<CachedBlock>> {
        let frame = Bytes::Lent(frame, &self.home().context.pages);
        let block = self.open_block(table, index, frame)?;
        Ok(self.keep(table, index, block))
    }

    /// A data block as a counted reference, if it is in memory.
    pub(crate) fn block_now(
        &self,
        table: &Kept<CachedTable>,
        index: usize,
    ) -> Option<Kept<CachedBlock>> {
        self.block_to_keep(table, index, &self.cache().pin())
    }

    /// A data block as a counted reference, if it is in memory.
    pub(crate) fn block_to_keep(
        &self,
        table: &CachedTable,
        index: usize,
        pin: &Pin<'_>,
    ) -> Option<Kept<CachedBlock>> {
        table.block_to_keep(index, pin)
    }

    /// The context and disk of its readahead.
    pub(super) fn queues_and_disk(&self) -> (&ReadContext, &dyn Disk) {
        let home = self.home();
        (&home.context, home.space.disk())
    }

    /// The file, and the place of an offset in it.
    pub(super) fn file_and_offset(&self, offset: u64) -> (&Arc<dyn File>, u64) {
        let home = self.home();
        (home.file.file(), home.offset + offset)
    }

    /// Reads a data block without the cache, for compaction and verification.
    pub(crate) fn read_block(&self, resident: &Resident, index: usize) -> Result<Block> {
        let bytes = self.read_blocks(resident, index..index + 1)?;
        self.open_block(resident, index, bytes)
    }

    /// Begins to read the frames of consecutive blocks, bypassing all caches.
    pub(crate) fn begin_read(
        &self,
        resident: &Resident,
        blocks: Range<usize>,
        bulk: &Bulk,
    ) -> Result<ReadTicket> {
        let (first, last) = (resident.place(blocks.start), resident.place(blocks.end - 1));
        let len = (last.offset - first.offset) as usize + last.len as usize;
        let home = self.home();
        Ok(bulk.begin_read(home.file.file(), home.offset + first.offset, len))
    }

    /// Reads and checks blocks, bypassing all caches.
    pub(crate) fn check_blocks(self: &Arc<Self>, blocks: Range<usize>) -> Result<()> {
        let resident = self.resident(Access::Blocking)?;
        blocks.into_iter().try_for_each(|block| self.read_block(&resident, block).map(drop))
    }

    /// Reads the frames of consecutive blocks without the cache, unchecked.
    pub(crate) fn read_blocks(&self, resident: &Resident, blocks: Range<usize>) -> Result<Buffer> {
        let (from, to) = (resident.offset(blocks.start), resident.offset(blocks.end));
        let own = |bytes: Bytes<'_>| Ok(bytes.into());
        self.read("data block", from, (to - from) as usize, Access::Blocking, own)
    }

    /// The block of a frame that was read.
    pub(crate) fn open_block(
        &self,
        resident: &Resident,
        index: usize,
        frame: impl Into<Buffer> + Deref<Target = [u8]>,
    ) -> Result<Block> {
        let home = self.home();
        let decoding = Decoding {
            dictionaries: &home.dictionaries,
            pages: &home.context.pages,
            body_bytes_max: &|| resident.counts(index).body_bytes_most(),
            search: home.context.search,
        };
        Block::open(frame, self.frame(resident.offset(index)), &decoding)
            .map_err(|error| self.damaged_block(resident, index, &error))
    }

    /// Checks the frame of a block that was read, and returns its coding.
    pub(crate) fn check_block(
        &self,
        resident: &Resident,
        index: usize,
        frame: &[u8],
    ) -> Result<Coding> {
        let id = self.frame(resident.offset(index));
        check_frame(frame, id).map_err(|error| self.damaged_block(resident, index, &error))
    }

    fn damaged_block(&self, resident: &Resident, index: usize, error: &Error) -> Error {
        self.damaged_at(resident.name(index), error)
    }

    /// The number of versions that the extent's footer states.
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
        home.context.cache.forget(self);
        if home.obsolete.load(Ordering::Acquire) {
            home.space.release(self.meta.slots);
        }
    }
}
