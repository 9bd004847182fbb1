//! Loads an index from a checkpoint after an opening, block by block, as the blocks are needed.
//!
//! An opening reads only the directory of the index file ([`crate::index_file`]), so that the time
//! to the first query does not grow with the number of keys. The first use of a key loads the key's
//! block, and the background thread loads all other blocks.
//!
//! - **LOADING-1 (before use).** A thread looks up, inserts or removes a key only after the key's
//!   block was loaded. A scan reads no further than the blocks that are loaded.
//! - **LOADING-2 (deferred).** The opening replays the tail of the log. If the block of a replayed
//!   operation's key is not loaded, the operation waits in the block. The thread that loads the
//!   block applies the waiting operations in the order of their CSNs. So no deletion is collected
//!   before the operations on its key with smaller CSNs were applied.
//! - **LOADING-3 (whole).** Checkpoints, log compaction, the release of segments and the background
//!   collection of garbage begin once all blocks are loaded. From then on, slots of the indirection
//!   array that were free in the checkpoint are also allocated again.

use spillway_base::budget::{Budget, Charge, Use};
use spillway_base::lock::{Mutex, MutexGuard};
use spillway_base::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use spillway_base::{Csn, Direction, KeyRange};

use crate::index_file::IndexReader;
use crate::rows::EmptySlots;
use crate::version::Place;

/// Memory of deferred operations is charged in such steps, in bytes.
const CHARGED_AT_ONCE: usize = 4 << 10;

/// An operation of the log's tail.
pub(crate) struct DeferredOp<'k> {
    pub(crate) key: &'k [u8],
    pub(crate) csn: Csn,
    pub(crate) place: Place,
    /// Whether it deletes the row.
    pub(crate) deletes: bool,
}

/// The operations that wait for a block.
#[derive(Default)]
pub(crate) struct Deferred {
    keys: Vec<u8>,
    /// Each with the end of its key in `keys`.
    ops: Vec<(Csn, Place, bool, usize)>,
    charge: Option<Charge>,
}

impl Deferred {
    fn push(&mut self, op: &DeferredOp<'_>, budget: &Budget) {
        self.keys.extend_from_slice(op.key);
        self.ops.push((op.csn, op.place, op.deletes, self.keys.len()));
        let bytes = self.keys.len() + self.ops.len() * size_of_val(&self.ops[0]);
        let charge = self.charge.get_or_insert_with(|| budget.charge(Use::Rows, 0));
        if bytes > charge.bytes() {
            charge.resize(bytes + CHARGED_AT_ONCE);
        }
    }

    /// The operations, in order of CSN (LOADING-2).
    pub(crate) fn in_order(&self) -> Vec<DeferredOp<'_>> {
        let mut begin = 0;
        let with_key = |&(csn, place, deletes, end): &(Csn, Place, bool, usize)| {
            let key = &self.keys[std::mem::replace(&mut begin, end)..end];
            DeferredOp { key, csn, place, deletes }
        };
        let mut ops: Vec<DeferredOp<'_>> = self.ops.iter().map(with_key).collect();
        ops.sort_by_key(|op| op.csn);
        ops
    }
}

struct LoadBlock {
    is_loaded: AtomicBool,
    /// Held by the thread that loads the block.
    deferred: Mutex<Deferred>,
}

/// The state of the load of one table's index.
pub(crate) struct IndexLoad {
    pub(crate) reader: IndexReader,
    blocks: Vec<LoadBlock>,
    blocks_left: AtomicUsize,
    keys_left: AtomicU64,
    /// The first block that the background may not have loaded.
    next: AtomicUsize,
    /// Rows whose keys were not loaded.
    rows_left: AtomicU64,
    /// Slots that were empty at the opening.
    empty: EmptySlots,
    /// The next generations of some of them.
    generations: Mutex<Vec<(u64, u32)>>,
    budget: Budget,
}

/// What a thread found while it loaded a block.
#[derive(Default)]
pub(crate) struct LoadedBlock {
    /// Keys with rows.
    pub(crate) rows: u64,
    /// The next generations of the slots of others.
    pub(crate) generations: Vec<(u64, u32)>,
}

impl IndexLoad {
    /// A load of a table whose array has this number of rows and these slots without any.
    pub(crate) fn new(
        reader: IndexReader,
        rows: u64,
        empty: EmptySlots,
        budget: &Budget,
    ) -> IndexLoad {
        let new = || LoadBlock { is_loaded: AtomicBool::new(false), deferred: Mutex::default() };
        IndexLoad {
            blocks: reader.blocks.iter().map(|_| new()).collect(),
            blocks_left: AtomicUsize::new(reader.blocks.len()),
            keys_left: AtomicU64::new(reader.blocks.iter().map(|block| block.keys).sum()),
            next: AtomicUsize::new(0),
            rows_left: AtomicU64::new(rows),
            empty,
            generations: Mutex::default(),
            budget: budget.clone(),
            reader,
        }
    }

    pub(crate) fn is_loaded(&self, block: usize) -> bool {
        self.blocks.get(block).is_none_or(|block| block.is_loaded.load(Ordering::Acquire))
    }

    /// A block for the background to load; `None` once all are loaded.
    pub(crate) fn next(&self) -> Option<usize> {
        let from = self.next.load(Ordering::Relaxed);
        let next = (from..self.blocks.len()).find(|block| !self.is_loaded(*block));
        self.next.fetch_max(next.unwrap_or(self.blocks.len()), Ordering::Relaxed);
        next
    }

    /// The first block from this one on that is not loaded, in a scan's direction.
    pub(crate) fn first_missing(&self, from: usize, direction: Direction) -> Option<usize> {
        match direction {
            Direction::Forward => (from..self.blocks.len()).find(|block| !self.is_loaded(*block)),
            Direction::Backward => (0..=from).rev().find(|block| !self.is_loaded(*block)),
        }
    }

    /// How many keys the blocks have that are not loaded.
    pub(crate) fn keys_left(&self) -> u64 {
        self.keys_left.load(Ordering::Relaxed)
    }

    /// As [`IndexLoad::keys_left`], of blocks with keys in a range.
    pub(crate) fn keys_left_in(&self, range: KeyRange<'_>) -> u64 {
        let blocks = &self.reader.blocks;
        let begin = self.reader.block_of(range.start);
        let end = range
            .end
            .map_or(blocks.len(), |end| blocks.partition_point(|block| *block.first < *end));
        let missing = (begin..end).filter(|block| !self.is_loaded(*block));
        missing.map(|block| blocks[block].keys).sum()
    }

    /// Keeps an operation until its key's block is loaded. Returns `false` if the block is loaded
    /// already.
    pub(crate) fn defer(&self, op: &DeferredOp<'_>) -> bool {
        let number = self.reader.block_of(op.key);
        if self.is_loaded(number) {
            return false;
        }
        let mut deferred = self.blocks[number].deferred.lock();
        if self.is_loaded(number) {
            return false;
        }
        deferred.push(op, &self.budget);
        true
    }

    /// Begins to load a block, with the operations that wait for it. `None` if it is loaded.
    pub(crate) fn begin(&self, number: usize) -> Option<MutexGuard<'_, Deferred>> {
        if self.is_loaded(number) {
            return None;
        }
        let deferred = self.blocks[number].deferred.lock();
        (!self.is_loaded(number)).then_some(deferred)
    }

    /// Ends the load of a block, all of whose keys and operations are in memory. Returns whether
    /// all blocks are loaded now.
    pub(crate) fn end(
        &self,
        number: usize,
        mut deferred: MutexGuard<'_, Deferred>,
        loaded: LoadedBlock,
    ) -> bool {
        *deferred = Deferred::default();
        self.generations.lock().extend(loaded.generations);
        self.rows_left.fetch_sub(loaded.rows, Ordering::Relaxed);
        self.keys_left.fetch_sub(self.reader.blocks[number].keys, Ordering::Relaxed);
        self.blocks[number].is_loaded.store(true, Ordering::Release);
        self.blocks_left.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Whether the row at a slot, which is not empty, may be one that the checkpoint has.
    pub(crate) fn may_have(&self, slot: u64) -> bool {
        self.empty.cover(slot)
    }

    /// The slots that are free, with their generations, the last one first; `None` if the number of
    /// keys with rows is not that of the rows. Call it once all blocks are loaded.
    pub(crate) fn free_slots(&self) -> Option<Vec<(u64, u32)>> {
        if self.rows_left.load(Ordering::Relaxed) != 0 {
            return None;
        }
        Some(self.empty.with_generations(&std::mem::take(&mut *self.generations.lock())))
    }
}
