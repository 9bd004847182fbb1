//! Partial reads: a get that misses the cache reads only the needed part of a data block.
//!
//! A get needs one row of a block. Reading only the part that has the row saves most of the cost of
//! a read: copying, checking and preparing sixteen kilobytes, and evicting another block. A partial
//! read pays if the block is not read again soon, and is possible only if the block is not
//! compressed. To read a part, a get must know the offset of each part, its key range, and a
//! checksum of its bytes. These are the block's *notes*. The table (block index and filters) stores
//! them when the block has been read and verified for the second time.
//!
//! Rejected: storing the notes of a block at its first read, in memory that is allocated for all
//! blocks of the extent at once. This wasted memory on blocks that are read only once. With 32
//! times as much data as memory, the notes took half of the memory for blocks, and 15 % more bytes
//! were read than with notes at the second read.
//!
//! # Guarantees
//!
//! - **PARTIAL-READ-1 (checked).** A part gives a result only if its bytes equal those that the
//!   block had when it was verified as a whole: notes come from verified blocks only, and a part
//!   that does not match its checksum gives no result.
//! - **PARTIAL-READ-2 (the same answer).** A part gives the same result as its block, or none. If
//!   it gives none, the whole block is read. A part can show that the block has no version of a key
//!   only if the part has keys on both sides of this key.
//! - **PARTIAL-READ-3 (room).** While the cache has free memory, blocks enter it whole, as without
//!   partial reads.
//! - **PARTIAL-READ-4 (hot blocks enter).** A block that is missed again soon is read whole and
//!   cached. Soon means: between the two misses of this block, the misses of all blocks are at most
//!   a quarter of the number of cached blocks. So the blocks of a small working set all enter the
//!   cache. A read that failed because it would have waited for a device does not count as a miss
//!   here.
//! - **PARTIAL-READ-5 (charged).** The notes on an extent's blocks belong to its table in the
//!   cache: they are charged with the table and evicted with it. A block that was read only once
//!   has no notes yet. For such a block, the table stores one number: the cache's count of misses
//!   at that read (PARTIAL-READ-4).
//!
//! The cache balancer weighs rows against blocks by the bytes that are read
//! (`cache::cache_balancer`). There, a partial read counts with the bytes of the whole block,
//! because a partial read and a whole read are one system call each. If it counted with the bytes
//! of the part, a single read of a whole block would weigh as much as many gets that read parts.
//! The balancer would then give blocks memory in which cached rows would save more reads.
//!
//! Rejected: storing the notes in extents. This would make partial reads possible at the first read
//! of a block. But a first read usually waits for the device, and this wait hardly depends on the
//! bytes that are read. Notes in extents would save no memory either: they would have to be in
//! memory to be used.
//!
//! Rejected: smaller blocks instead of parts. The keys, counts and filters of the additional blocks
//! would take several times the memory of the notes.
//!
//! Rejected: mapping files into memory. An access to mapped memory may wait for a device, and the
//! engine cannot know this in advance. A device error would kill the process.

use std::cell::Cell;
use std::sync::atomic::Ordering;

use spillway_base::Csn;
use spillway_base::engine::Access;

use super::direct_io::read_past;
use super::handle::{CachedTable, ExtentHandle, note_read_by_this_thread};
use crate::block::{Block, PartMatch};
use crate::cache::Kept;

// The buffer into which parts of blocks are read.
thread_local!(static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) });

impl ExtentHandle {
    /// Reads only the part of a missed data block that may have a key, if that part is known and
    /// the block should not be cached. Passes the result of a search in the part to `then`. Returns
    /// `None` if the caller must read the whole block.
    pub(crate) fn fetch_part<T>(
        &self,
        table: &CachedTable,
        index: usize,
        (key, snapshot): (&[u8], Csn),
        access: Access,
        then: impl FnOnce(PartMatch<'_>) -> T,
    ) -> Option<T> {
        let home = self.home();
        let context = &home.context;
        // A direct read always waits for the device.
        let can_read = access == Access::Blocking || access == Access::AtHand && !context.direct;
        if !context.part_reads || !can_read {
            return None;
        }
        let part = table.parts.part(table, index, key)?;
        let block_bytes = table.place(index).len as usize;
        if context.cache.has_room(block_bytes) {
            return None;
        }
        let held = context.cache.bytes().0 / block_bytes.max(1);
        let miss = context.cache.misses() as u32;
        if table.parts.comes_in(index, miss, held) {
            return None;
        }
        let len = (part.place.end - part.place.start) as usize;
        let find = |bytes: &[u8]| part.find(bytes, key, snapshot).map(then);
        let found = self.read_lent(part.place.start, len, access, find)?;
        table.parts.was_read(table, index, miss);
        // The caches count it as a miss of the whole block, because both reads are one system call.
        note_read_by_this_thread(block_bytes as u64);
        context.reads[home.file.class() as usize].fetch_add(1, Ordering::Relaxed);
        context.reads_of_parts.fetch_add(1, Ordering::Relaxed);
        context.cache.note_part(table, index, block_bytes);
        context.weigh();
        Some(found)
    }

    /// Records the parts of a block that a get has read whole, if the block is uncompressed and the
    /// cache is full.
    pub(super) fn note_parts(
        &self,
        table: &Kept<CachedTable>,
        index: usize,
        block: &Block,
        is_stored: bool,
    ) {
        let context = &self.home().context;
        if !is_stored || !context.part_reads || context.cache.has_room(block.bytes()) {
            return;
        }
        let miss = context.cache.misses() as u32;
        let (was_before, taken) = table.parts.was_read(table, index, miss);
        let noted = was_before.then(|| table.parts.note(table, index, block)).flatten();
        if taken + noted.unwrap_or(0) > 0 {
            context.cache.grow(table, taken + noted.unwrap_or(0));
        }
    }

    /// Reads some bytes of the extent into the thread's buffer, and passes them to `then`.
    fn read_lent<T>(
        &self,
        offset: u64,
        len: usize,
        access: Access,
        then: impl FnOnce(&[u8]) -> Option<T>,
    ) -> Option<T> {
        let home = self.home();
        let at = home.offset + offset;
        if home.context.direct {
            let read = access == Access::Blocking;
            return read
                .then(|| read_past(&home.file, at, len, |bytes| Ok(then(bytes))).ok()?)
                .flatten();
        }
        let mut spare = SPARE.take();
        if spare.len() < len {
            spare.resize(len, 0);
        }
        let bytes = &mut spare[..len];
        let is_read = match access {
            Access::MemoryOnly => false,
            Access::AtHand => home.file.read_now(at, bytes),
            Access::Blocking => home.file.read_at(at, bytes).is_ok(),
        };
        let found = if is_read { then(bytes) } else { None };
        SPARE.set(spare);
        found
    }
}
