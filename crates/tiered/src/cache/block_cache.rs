//! The block cache keeps tables and blocks in memory. Readers reach them by tagged pointers,
//! without a lock. One lock protects all changes of the cache.
//!
//! A thread may hold any other lock when it takes the cache's lock, except the lock of a page pool.
//! While it holds the cache's lock, it takes no other lock. It drops references to tables, blocks
//! and extent handles only after it has released the cache's lock, because their destructors take
//! locks.
#![allow(unsafe_code)] // The only place that pairs pointers with readers to wait for.

use std::ops::Deref;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use spillway_base::budget::{Budget, Charge, Use};
#[cfg(not(loom))]
use spillway_base::lock::{Mutex, MutexGuard};
use spillway_base::sync::thread;
#[cfg(loom)]
use spillway_base::sync::{Mutex, MutexGuard};
use spillway_reclaim::epochs::{Epochs, Limbo, Pin};

use super::cache_balancer::GHOST_SHARE;
use super::eviction_queue::{EvictionQueue, NONE, Queue, Verdict};
use super::ghost_list::GhostList;
use super::tagged_ptr::{TaggedPtr, Unlinked};

/// A counted reference to a cached or evicted entry. Loom models track the count.
pub(crate) type Kept<T> = spillway_base::sync::Arc<T>;

/// The memory of an entry beside its value: its place in the queue, its ghost, and two counts.
const ENTRY_BYTES: usize = 128;
/// The quarters of the capacity that tables may take. If they take more, tables are evicted before
/// blocks.
const TABLE_QUARTERS: usize = 3;
/// The share of the budget that stays free, so that small growth of other uses does not make the
/// cache evict each time.
const HEADROOM_SHARE: usize = 32;
/// A block in the small queue moves to the main queue if it was used at least this often.
const USES_TO_STAY: usize = 2;
/// Evicted entries are released in groups of this many.
const RELEASED_TOGETHER: usize = if cfg!(loom) { 1 } else { 16 };
/// How often an eviction for other uses checks whether readers have left the evicted entries,
/// before it returns.
const PATIENCE: usize = if cfg!(loom) { 2 } else { 32 };
/// One in this many partial reads checks whether its block is a ghost.
const PARTS_PER_LOOK: u64 = 8;
/// The part of the budget that evicted entries may take without being charged (BLOCK-CACHE-4).
const FORGIVEN_SHARE: usize = 8;

/// The handle of an extent, as the cache sees it.
pub(crate) trait Holder: Send + Sync + Sized + 'static {
    /// The block index and the filters.
    type Table: Send + Sync + 'static;
    /// A data block.
    type Block: Send + Sync + 'static;

    /// The seat of its table.
    fn seat(&self) -> &Seat<Self>;
}

/// The pointer from an extent's handle to its cached table.
pub(crate) struct Seat<H: Holder> {
    table: TaggedPtr<QueuedTable<H>>,
    /// The epochs whose pins protect the table; `None` for a handle without a cache.
    epochs: Option<Arc<Epochs>>,
}

impl<H: Holder> Seat<H> {
    /// A seat for tables of a cache.
    pub(crate) fn of(cache: Option<&Cache<H>>) -> Seat<H> {
        Seat { table: TaggedPtr::default(), epochs: cache.map(|cache| cache.epochs.clone()) }
    }

    fn check(&self, pin: &Pin<'_>) {
        let own = self.epochs.as_ref().is_some_and(|epochs| pin.is_of(epochs));
        assert!(own, "a pin is of the cache whose it keeps");
    }

    /// The table, if it is in memory.
    #[inline]
    pub(crate) fn table<'p>(&self, pin: &'p Pin<'_>) -> Option<&'p QueuedTable<H>> {
        self.check(pin);
        // SAFETY: the check has shown that the pin belongs to the cache that releases what it takes
        // out here.
        unsafe { self.table.get(pin) }
    }

    /// The table, as a counted reference.
    pub(crate) fn table_to_keep(&self, pin: &Pin<'_>) -> Option<Kept<QueuedTable<H>>> {
        self.check(pin);
        // SAFETY: as above.
        unsafe { self.table.get_arc(pin) }
    }
}

/// An extent's table, and the pointers to its blocks in memory.
pub(crate) struct QueuedTable<H: Holder> {
    content: H::Table,
    /// The extent's number, which is never used again.
    key: u64,
    blocks: Box<[TaggedPtr<QueuedBlock<H::Block>>]>,
    epochs: Arc<Epochs>,
    /// Its entry in the queue while it is cached. Used under the cache's lock.
    entry: AtomicU32,
}

impl<H: Holder> Deref for QueuedTable<H> {
    type Target = H::Table;

    #[inline]
    fn deref(&self) -> &H::Table {
        &self.content
    }
}

impl<H: Holder> QueuedTable<H> {
    /// A block, if it is in memory.
    #[inline]
    pub(crate) fn block<'p>(
        &self,
        index: usize,
        pin: &'p Pin<'_>,
    ) -> Option<&'p QueuedBlock<H::Block>> {
        assert!(pin.is_of(&self.epochs), "a pin is of the cache whose it keeps");
        // SAFETY: the check has shown that the pin belongs to the cache that releases what it takes
        // out here.
        let found = unsafe { self.blocks[index].get(pin) };
        if found.is_some() {
            pin.hit();
        }
        found
    }

    /// A block, if it is in memory, without marking it as used.
    #[inline]
    pub(crate) fn peek<'p>(
        &self,
        index: usize,
        pin: &'p Pin<'_>,
    ) -> Option<&'p QueuedBlock<H::Block>> {
        assert!(pin.is_of(&self.epochs), "a pin is of the cache whose it keeps");
        // SAFETY: as above.
        unsafe { self.blocks[index].peek(pin) }
    }

    /// A block, as a counted reference.
    pub(crate) fn block_to_keep(
        &self,
        index: usize,
        pin: &Pin<'_>,
    ) -> Option<Kept<QueuedBlock<H::Block>>> {
        assert!(pin.is_of(&self.epochs), "a pin is of the cache whose it keeps");
        // SAFETY: as above.
        let found = unsafe { self.blocks[index].get_arc(pin) };
        if found.is_some() {
            pin.hit();
        }
        found
    }

    /// The ghost key of a block.
    fn ghost(&self, index: u32) -> u64 {
        (self.key << 24 ^ u64::from(index)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

/// The ghost key of a table: that of a block number that no extent has.
fn ghost_of_table(key: u64) -> u64 {
    (key << 24 ^ 0xFF_FFFF).wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

/// A block, and its entry in the queue.
#[repr(align(8))]
pub(crate) struct QueuedBlock<B> {
    content: B,
    entry: AtomicU32,
}

impl<B> Deref for QueuedBlock<B> {
    type Target = B;

    #[inline]
    fn deref(&self) -> &B {
        &self.content
    }
}

impl<B> QueuedBlock<B> {
    /// A block that is not cached.
    pub(crate) fn new(content: B) -> QueuedBlock<B> {
        QueuedBlock { content, entry: AtomicU32::new(NONE) }
    }
}

/// The bytes of memory that an entry takes, and the bytes of reading that each hit saves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    pub(crate) held: usize,
    pub(crate) saved: usize,
}

enum Item<H: Holder> {
    Table { holder: Weak<H>, key: u64, blocks: u32 },
    Block { table: Kept<QueuedTable<H>>, index: u32 },
}

enum EvictedEntry<H: Holder> {
    Table(Unlinked<QueuedTable<H>>, usize),
    Block(Unlinked<QueuedBlock<H::Block>>, usize),
}

struct CacheState<H: Holder> {
    order: EvictionQueue<Item<H>>,
    /// The ghosts, if ghost misses are counted.
    departed: Option<GhostList>,
    /// Bytes of the entries in the queue.
    held: usize,
    limbo: Limbo<EvictedEntry<H>>,
    /// Bytes of the entries in limbo.
    in_limbo: usize,
    /// Of those, the bytes that are no longer charged (BLOCK-CACHE-4).
    forgiven: usize,
    /// The charge for the queue and the limbo.
    charge: Charge,
}

/// References that must not be dropped under the lock.
struct DroppedReferences<H: Holder> {
    holders: Vec<Arc<H>>,
    tables: Vec<Kept<QueuedTable<H>>>,
    blocks: Vec<Kept<QueuedBlock<H::Block>>>,
}

impl<H: Holder> Default for DroppedReferences<H> {
    fn default() -> DroppedReferences<H> {
        DroppedReferences { holders: Vec::new(), tables: Vec::new(), blocks: Vec::new() }
    }
}

/// The size limits of a cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheSettings {
    /// Bytes that it keeps even if other uses need memory.
    pub(crate) bytes_min: usize,
    /// The most bytes, even if other uses need little.
    pub(crate) bytes_max: usize,
    /// Whether ghost misses are counted ([`Cache::read_and_ghost_missed`]).
    pub(crate) finds_ghosts: bool,
}

impl CacheSettings {
    /// At most this many bytes, and fewer only if other uses need memory.
    pub(crate) fn fixed(bytes: usize) -> CacheSettings {
        CacheSettings { bytes_min: 0, bytes_max: bytes, finds_ghosts: false }
    }
}

/// Tables and blocks in memory.
pub(crate) struct Cache<H: Holder> {
    epochs: Arc<Epochs>,
    settings: CacheSettings,
    budget: Budget,
    state: Mutex<CacheState<H>>,
    misses: AtomicU64,
    /// The bytes that misses read, and the bytes of ghost misses among them.
    read: AtomicU64,
    ghost_missed: AtomicU64,
    /// Copies of figures of the state, readable without the lock.
    held: AtomicUsize,
    table_bytes: AtomicUsize,
    limbo_bytes: AtomicUsize,
}

impl<H: Holder> Cache<H> {
    /// A cache that uses what the budget leaves.
    pub(crate) fn new(settings: CacheSettings, budget: &Budget) -> Cache<H> {
        let state = CacheState {
            order: EvictionQueue::default(),
            departed: settings.finds_ghosts.then(GhostList::default),
            held: 0,
            limbo: Limbo::default(),
            in_limbo: 0,
            forgiven: 0,
            charge: budget.charge(Use::Caches, 0),
        };
        Cache {
            epochs: Arc::default(),
            settings,
            budget: budget.clone(),
            state: Mutex::new(state),
            misses: AtomicU64::new(0),
            read: AtomicU64::new(0),
            ghost_missed: AtomicU64::new(0),
            held: AtomicUsize::new(0),
            table_bytes: AtomicUsize::new(0),
            limbo_bytes: AtomicUsize::new(0),
        }
    }

    /// Registers a reader: entries that it reaches stay until the pin is dropped (BLOCK-CACHE-1).
    #[inline]
    pub(crate) fn pin(&self) -> Pin<'_> {
        self.epochs.pin()
    }

    fn lock(&self) -> MutexGuard<'_, CacheState<H>> {
        let guard = self.state.lock();
        #[cfg(loom)]
        let guard = guard.expect("no thread panics with the lock");
        guard
    }

    /// The capacity now (BLOCK-CACHE-3), if the cache itself is charged for `charged` bytes.
    fn capacity(&self, charged: usize) -> usize {
        let budget = &self.budget;
        // Other caches count as other uses. The free pages of evicted blocks do not: if they did,
        // each eviction would lower the capacity and cause the next eviction.
        let others = budget.used_beside(charged);
        let limit = budget.limit() - budget.limit() / HEADROOM_SHARE;
        let CacheSettings { bytes_min, bytes_max, .. } = self.settings;
        limit.saturating_sub(others).max(bytes_min).min(bytes_max)
    }

    /// Inserts the table that a reader missed, of an extent with this number of blocks. Returns the
    /// table that is seated: another thread may have inserted one first. If the table is too large
    /// to be cached, returns it without seating it.
    pub(crate) fn seat(
        &self,
        holder: &Arc<H>,
        key: u64,
        content: H::Table,
        blocks: usize,
        sizes: Sizes,
    ) -> Kept<QueuedTable<H>> {
        let table: Kept<QueuedTable<H>> = Kept::new(QueuedTable {
            content,
            key,
            blocks: (0..blocks).map(|_| TaggedPtr::default()).collect(),
            epochs: self.epochs.clone(),
            entry: AtomicU32::new(NONE),
        });
        let bytes = sizes.held
            + ENTRY_BYTES
            + size_of::<QueuedTable<H>>()
            + blocks * size_of::<TaggedPtr<QueuedBlock<H::Block>>>();
        let mut ends = DroppedReferences::default();
        let mut state = self.lock();
        if let Some(there) = holder.seat().table_to_keep(&self.pin()) {
            return there;
        }
        self.note_read(&mut state, ghost_of_table(key), sizes.saved);
        if self.make_room(&mut state, bytes, &mut ends) {
            let item = Item::Table { holder: Arc::downgrade(holder), key, blocks: 0 };
            let entry = state.order.insert(Queue::Tables, item, bytes, sizes.saved);
            table.entry.store(entry, Ordering::Relaxed);
            state.held += bytes;
            holder.seat().table.put(table.clone());
        }
        self.settle(state, ends);
        table
    }

    /// Inserts a block that a reader missed. Returns the cached block: another thread may have
    /// inserted one first. Returns this block without caching it if it is too large, or if the
    /// table was evicted (BLOCK-CACHE-5).
    pub(crate) fn insert(
        &self,
        table: &Kept<QueuedTable<H>>,
        index: usize,
        content: H::Block,
        sizes: Sizes,
    ) -> Kept<QueuedBlock<H::Block>> {
        self.misses.fetch_add(1, Ordering::Relaxed);
        let block = Kept::new(QueuedBlock::new(content));
        let bytes = sizes.held + ENTRY_BYTES;
        let mut ends = DroppedReferences::default();
        let mut state = self.lock();
        let pointer = &table.blocks[index];
        // SAFETY: the pin is of this cache, which releases what it takes out of the tagged pointers
        // of its tables.
        if let Some(there) = unsafe { pointer.get_arc(&self.pin()) } {
            return there;
        }
        self.note_read(&mut state, table.ghost(index as u32), sizes.saved);
        let seated = |table: &QueuedTable<H>| table.entry.load(Ordering::Relaxed) != NONE;
        // Making room may evict the table itself.
        if seated(table) && self.make_room(&mut state, bytes, &mut ends) && seated(table) {
            let index = index as u32;
            let queue = state.order.entrance(table.ghost(index));
            let item = Item::Block { table: table.clone(), index };
            let entry = state.order.insert(queue, item, bytes, sizes.saved);
            block.entry.store(entry, Ordering::Relaxed);
            state.count_block(table, 1);
            state.held += bytes;
            pointer.put(block.clone());
        }
        self.settle(state, ends);
        block
    }

    /// Whether this many bytes fit without an eviction, as far as is known without the lock.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        let held = self.held.load(Ordering::Relaxed);
        held + bytes <= self.capacity(held + self.limbo_bytes.load(Ordering::Relaxed))
    }

    /// Charges more bytes to a table.
    pub(crate) fn grow(&self, table: &QueuedTable<H>, bytes: usize) {
        let mut state = self.lock();
        let entry = table.entry.load(Ordering::Relaxed);
        // A table that was evicted is not charged.
        if entry != NONE {
            state.order.grow(entry, bytes);
            state.held += bytes;
            self.settle(state, DroppedReferences::default());
        }
    }

    /// Counts a miss of a block of which only a part was read. One in [`PARTS_PER_LOOK`] is looked
    /// up among the ghosts, and counts for all of these.
    pub(crate) fn note_part(&self, table: &QueuedTable<H>, index: usize, bytes: usize) {
        let miss = self.misses.fetch_add(1, Ordering::Relaxed);
        self.read.fetch_add(bytes as u64, Ordering::Relaxed);
        if self.settings.finds_ghosts && miss.is_multiple_of(PARTS_PER_LOOK) {
            let mut state = self.lock();
            let ghost = table.ghost(index as u32);
            if state.departed.as_mut().is_some_and(|departed| departed.comes(ghost)) {
                self.ghost_missed.fetch_add(PARTS_PER_LOOK * bytes as u64, Ordering::Relaxed);
            }
        }
    }

    /// Removes the entries of an extent that is gone.
    pub(crate) fn forget(&self, holder: &H) {
        // No thread seats a table when no reference to the holder is left.
        if holder.seat().table.is_empty() {
            return;
        }
        let mut state = self.lock();
        self.unseat(&mut state, holder);
        self.settle(state, DroppedReferences::default());
    }

    /// Moves the entries of an extent to its new handle.
    pub(crate) fn hand_over(&self, old: &H, new: &Arc<H>) {
        let mut state = self.lock();
        if new.seat().table.is_empty()
            && let Some(table) = old.seat().table.take()
        {
            let entry = table.get().entry.load(Ordering::Relaxed);
            if let Item::Table { holder, .. } = state.order.get_mut(entry) {
                *holder = Arc::downgrade(new);
            }
            table.relink(&new.seat().table);
        }
    }

    /// Evicts this many bytes, but none below the floor, and waits a moment for readers of evicted
    /// entries (BLOCK-CACHE-4).
    pub(crate) fn give_way(&self, bytes: usize) {
        let floor = self.settings.bytes_min;
        let in_limbo = self.limbo_bytes.load(Ordering::Relaxed);
        if self.held.load(Ordering::Relaxed) <= floor && in_limbo == 0 {
            return;
        }
        let mut ends = DroppedReferences::default();
        let mut state = self.lock();
        // Entries that were evicted earlier and are still charged count first.
        let bytes = bytes.saturating_sub(state.in_limbo - state.forgiven);
        let left = state.held.saturating_sub(bytes).max(floor.min(state.held));
        self.evict_to(&mut state, left, &mut ends);
        self.settle(state, ends);
        for round in 0..=PATIENCE {
            let mut state = self.lock();
            if state.limbo.is_empty() {
                return;
            }
            if round == PATIENCE {
                state.forgiven = self.budget.limit() / FORGIVEN_SHARE;
            }
            self.release(state, DroppedReferences::default());
            thread::yield_now();
        }
    }

    /// Bytes of blocks, and of tables.
    pub(crate) fn bytes(&self) -> (usize, usize) {
        let tables = self.table_bytes.load(Ordering::Relaxed);
        (self.held.load(Ordering::Relaxed).saturating_sub(tables), tables)
    }

    /// Hits and misses of blocks.
    pub(crate) fn hits_and_misses(&self) -> (u64, u64) {
        (self.epochs.hits(), self.misses())
    }

    /// Misses of blocks. This reads one word, while hits are counted in a word for each stripe of
    /// readers.
    #[inline]
    pub(crate) fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }

    /// Counts bytes that were read for an entry, and whether the entry is a ghost.
    fn note_read(&self, state: &mut CacheState<H>, ghost: u64, bytes: usize) {
        self.read.fetch_add(bytes as u64, Ordering::Relaxed);
        if state.departed.as_mut().is_some_and(|departed| departed.comes(ghost)) {
            self.ghost_missed.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    }

    /// The bytes that misses read, and the bytes among them that a little more memory would have
    /// saved.
    pub(crate) fn read_and_ghost_missed(&self) -> (u64, u64) {
        (self.read.load(Ordering::Relaxed), self.ghost_missed.load(Ordering::Relaxed))
    }

    /// Evicts entries until this many bytes fit. Returns whether they fit.
    fn make_room(
        &self,
        state: &mut CacheState<H>,
        bytes: usize,
        ends: &mut DroppedReferences<H>,
    ) -> bool {
        let capacity = self.capacity(state.charge.bytes());
        bytes <= capacity && self.evict_to(state, capacity - bytes, ends)
    }

    fn evict_to(
        &self,
        state: &mut CacheState<H>,
        bytes: usize,
        ends: &mut DroppedReferences<H>,
    ) -> bool {
        let tables_most = bytes / 4 * TABLE_QUARTERS;
        // The ghosts stand for as many bytes as those of rows do. The three queues share them.
        let budget = &self.budget;
        let caches =
            budget.limit().saturating_sub(budget.used_beside(budget.used_for(Use::Caches)));
        let remembered = caches / GHOST_SHARE;
        while state.held > bytes {
            let over = state.order.bytes(Queue::Tables) > tables_most;
            let judge = |queue, item: &Item<H>| judge(queue, item, over, &mut ends.holders);
            let Some(id) = state.order.victim(bytes, tables_most, judge) else { return false };
            state.note_departure(id, remembered);
            if let Item::Table { holder, .. } = state.order.get_mut(id) {
                // It was just judged, and `ends` keeps it.
                let holder = holder.upgrade().expect("a judged holder is there");
                self.unseat(state, &holder);
                ends.holders.push(holder);
            } else {
                self.unlink_block(state, id);
            }
        }
        true
    }

    /// Evicts a block.
    fn unlink_block(&self, state: &mut CacheState<H>, id: u32) {
        let is_new = state.order.queue(id) == Queue::Small;
        let (Item::Block { table, index }, bytes) = state.order.remove(id) else {
            unreachable!("the number of a block")
        };
        if is_new {
            state.order.remember(table.ghost(index));
        }
        state.count_block(&table, -1);
        self.take_block(state, &table, index, bytes);
    }

    fn take_block(
        &self,
        state: &mut CacheState<H>,
        table: &QueuedTable<H>,
        index: u32,
        bytes: usize,
    ) {
        let block = table.blocks[index as usize].take().expect("a block in the order is linked");
        state.held -= bytes;
        state.in_limbo += bytes;
        state.limbo.put(EvictedEntry::Block(block, bytes));
    }

    /// Removes a holder's table with its blocks (BLOCK-CACHE-5).
    fn unseat(&self, state: &mut CacheState<H>, holder: &H) {
        let Some(unlinked) = holder.seat().table.take() else { return };
        let table = unlinked.get();
        let (item, bytes) = state.order.remove(table.entry.swap(NONE, Ordering::Relaxed));
        let pin = self.pin();
        for index in 0..table.blocks.len() {
            // SAFETY: the pin is of this cache, which releases what it takes out of the tagged
            // pointers of its tables.
            if let Some(block) = unsafe { table.blocks[index].get(&pin) } {
                let (_, bytes) = state.order.remove(block.entry.load(Ordering::Relaxed));
                self.take_block(state, table, index as u32, bytes);
            }
        }
        drop(pin);
        state.held -= bytes;
        state.in_limbo += bytes;
        state.limbo.put(EvictedEntry::Table(unlinked, bytes));
        // The reference of the seat has moved to limbo.
        drop(item);
    }

    /// Ends a change: updates the figures and the charge. If enough evicted entries have gathered,
    /// releases them.
    fn settle(&self, mut state: MutexGuard<'_, CacheState<H>>, ends: DroppedReferences<H>) {
        self.held.store(state.held, Ordering::Relaxed);
        self.table_bytes.store(state.order.bytes(Queue::Tables), Ordering::Relaxed);
        self.limbo_bytes.store(state.in_limbo, Ordering::Relaxed);
        if state.limbo.len() >= RELEASED_TOGETHER {
            return self.release(state, ends);
        }
        state.account();
        drop(state);
        drop(ends);
    }

    /// Releases evicted entries that no reader can see any more.
    fn release(&self, mut state: MutexGuard<'_, CacheState<H>>, mut ends: DroppedReferences<H>) {
        let mut gone = Vec::new();
        state.limbo.release(&self.epochs, &mut gone);
        for gone in gone {
            let bytes = match gone {
                EvictedEntry::Table(table, bytes) => {
                    // SAFETY: it was in limbo until all readers that could have reached it have
                    // unpinned: readers pin by these epochs, which `Seat` and `QueuedTable` check.
                    let table = unsafe { table.release() };
                    ends.tables.push(table);
                    bytes
                }
                EvictedEntry::Block(block, bytes) => {
                    // SAFETY: as above.
                    let block = unsafe { block.release() };
                    ends.blocks.push(block);
                    bytes
                }
            };
            state.in_limbo -= bytes;
        }
        self.limbo_bytes.store(state.in_limbo, Ordering::Relaxed);
        state.account();
        drop(state);
        drop(ends);
    }
}

impl<H: Holder> Drop for Cache<H> {
    fn drop(&mut self) {
        // No pin of the dropped cache exists.
        self.release(self.lock(), DroppedReferences::default());
    }
}

impl<H: Holder> CacheState<H> {
    /// Adjusts the charge.
    fn account(&mut self) {
        self.forgiven = self.forgiven.min(self.in_limbo);
        self.charge.resize(self.held + self.in_limbo - self.forgiven);
    }

    /// Records an eviction among the ghosts. The ghosts of all queues together stand for
    /// `remembered` bytes.
    fn note_departure(&mut self, id: u32, remembered: usize) {
        let Some(departed) = &mut self.departed else { return };
        let queue = self.order.queue(id);
        let part = self.order.bytes(queue) as u128 * remembered as u128;
        let within = (part / self.held.max(1) as u128) as usize;
        let bytes = self.order.bytes_of(id);
        let key = match self.order.get_mut(id) {
            Item::Table { key, .. } => ghost_of_table(*key),
            Item::Block { table, index } => table.ghost(*index),
        };
        departed.leaves(queue, key, bytes, within);
    }

    /// Changes the number of a table's cached blocks.
    fn count_block(&mut self, table: &QueuedTable<H>, change: i32) {
        let entry = table.entry.load(Ordering::Relaxed);
        if entry != NONE
            && let Item::Table { blocks, .. } = self.order.get_mut(entry)
        {
            *blocks = blocks.wrapping_add_signed(change);
        }
    }
}

/// The verdict on an entry that the hand has reached. Adds upgraded holders to `met`, because the
/// last reference to a holder must not be dropped under the lock.
fn judge<H: Holder>(
    queue: Queue,
    item: &Item<H>,
    tables_over: bool,
    met: &mut Vec<Arc<H>>,
) -> Verdict {
    let stays = match item {
        Item::Block { table, index } => {
            let pointer = &table.blocks[*index as usize];
            match queue {
                Queue::Small => pointer.marks() >= USES_TO_STAY && pointer.unmark(),
                Queue::Main | Queue::Tables => pointer.unmark(),
            }
        }
        // BLOCK-CACHE-6.
        Item::Table { blocks: 1.., .. } if !tables_over => true,
        Item::Table { holder, .. } => match holder.upgrade() {
            // The extent's last handle is being dropped, which removes the table.
            None => true,
            Some(holder) => {
                let used = holder.seat().table.unmark();
                met.push(holder);
                used
            }
        },
    };
    if stays { Verdict::Stay } else { Verdict::Evict }
}

#[cfg(test)]
impl<H: Holder> Cache<H> {
    /// Bytes of entries, and bytes that are charged.
    pub(super) fn held_and_charged(&self) -> (usize, usize) {
        let state = self.lock();
        (state.held, state.charge.bytes())
    }

    /// Releases evicted entries without readers.
    pub(super) fn release_now(&self) {
        self.release(self.lock(), DroppedReferences::default());
    }
}

#[cfg(all(test, loom))]
impl<H: Holder> Cache<H> {
    pub(super) fn pin_by(&self, stripe: usize) -> Pin<'_> {
        self.epochs.pin_by(stripe)
    }

    pub(super) fn in_limbo(&self) -> usize {
        self.lock().limbo.len()
    }

    /// Releases all evicted entries, with or without readers.
    pub(super) fn release_unwaited(&self) {
        for gone in self.lock().limbo.drain() {
            match gone {
                // SAFETY: none. The model must detect this fault.
                EvictedEntry::Table(table, _) => drop(unsafe { table.release() }),
                // SAFETY: none, as above.
                EvictedEntry::Block(block, _) => drop(unsafe { block.release() }),
            }
        }
    }
}
