//! Partial reads: a get that misses reads the needed part of a data block.
//!
//! A get needs one row of a block. If the block is not cached, and would only evict another that is
//! as likely to be read, most of the read's cost is the rest of the block: copying, checking and
//! preparing sixteen kilobytes, and an eviction. So when a block is read and found whole for the
//! second time, the table notes what a partial read needs the next time: where each part begins,
//! which keys it has, and a checksum of its bytes. (Noting this at the first read, for all blocks
//! of an extent at once, wasted memory on blocks that are read once: with data of 32 times the
//! memory it took half of what blocks had, and 15 % more was read.)
//!
//! # Guarantees
//!
//! - **PARTIAL-READ-1 (checked).** A part's answer comes from bytes that equal the block's when the
//!   block was checked whole: parts are noted of nothing else, and a part that does not match its
//!   checksum gives no answer.
//! - **PARTIAL-READ-2 (the same answer).** A part gives the answer of its block, or none; then the
//!   block is read. It answers that a key has no version only if it has keys on both sides of it.
//! - **PARTIAL-READ-3 (room).** While memory is not used up, blocks enter the cache whole, as
//!   without partial reads.
//! - **PARTIAL-READ-4 (hot blocks enter).** A block that is read again soon, within as many misses
//!   as a fixed part of the number of cached blocks, is read whole and kept. So the blocks of a
//!   small working set all enter the cache. An attempt that read nothing, because it would have
//!   waited for a device, does not count.
//! - **PARTIAL-READ-5 (charged).** The notes on an extent's blocks are part of its table in the
//!   cache, are charged with it, and leave with it. For a block that gets have read once, only the
//!   time of that read is noted.
//!
//! When the cache balancer weighs rows against blocks (`cache::cache_balancer`), a part counts as
//! its whole block. If it counted as the fewer bytes that are read, blocks that enter again would
//! outweigh the rows of many more gets.
//!
//! Rejected: storing all this in extents. It would save the first read of each block, which waits
//! for its device if the data was not read before, and takes as much memory. Rejected: smaller
//! blocks, whose keys, counts and filters take several times the memory of this. Rejected: mapping
//! files into memory. A read would then wait for a device unnoticed, and a device error would kill
//! the process.

use std::cell::Cell;
use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use once_cell::race::OnceBox;
use spillway_base::Csn;
use spillway_base::checksum::crc32c;
use spillway_base::engine::Access;
use spillway_base::prefetch::{self, LINE_BYTES};

use super::Resident;
use super::direct_io::read_past;
use super::handle::{CachedTable, ExtentHandle, note_read_by_this_thread};
use crate::block::{Block, Told, search_part};
use crate::cache::Kept;

/// Parts that a block has at the most. Of a full one each has about two kilobytes: below that the
/// system's call takes most of the time.
const PARTS: usize = 8;
/// What the heap has for itself beside a piece of memory, about: bytes.
const HEAP_BYTES: usize = 16;
/// As far apart as two misses of a block may be for it to come in: this part of the blocks in
/// memory.
const NEAR_SHARE: usize = 4;

// What parts of blocks are read into.
thread_local!(static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) });

/// The parts of a block, as far as they are known.
struct KnownParts {
    /// What the first key of each but the first begins with, behind what all keys of the block
    /// begin with.
    heads: [u32; PARTS - 1],
    checksums: [u32; PARTS],
    /// Where in the frame each begins, and where the last one ends.
    begins: [u16; PARTS + 1],
    csn_bytes: u8,
}

#[derive(Default)]
struct OfBlock {
    known: OnceBox<KnownParts>,
    /// Misses of all blocks when a get missed it last; 0 where none has.
    missed_at: AtomicU32,
}

/// What a block takes for which its parts are noted: bytes.
const KNOWN_BYTES: usize = size_of::<KnownParts>() + HEAP_BYTES;

/// The parts of an extent's blocks, as far as they are known.
#[derive(Default)]
pub(super) struct Parts(OnceLock<Box<[OfBlock]>>);

/// A part that may hold a key.
pub(super) struct Part {
    /// Where it is in the extent.
    pub(super) place: Range<u64>,
    checksum: u32,
    csn_bytes: u8,
    is_first: bool,
}

impl Part {
    /// The version of a key that a snapshot sees, out of the bytes of the part; `None` where they
    /// do not tell (PARTIAL-READ-2), or are others (PARTIAL-READ-1).
    pub(super) fn find<'a>(&self, bytes: &'a [u8], key: &[u8], snapshot: Csn) -> Option<Told<'a>> {
        if crc32c(bytes) != self.checksum {
            return None;
        }
        search_part(bytes, self.csn_bytes, self.is_first, key, snapshot)
    }
}

/// What a key begins with behind so many bytes, in whose order keys are.
fn head(key: &[u8], prefix: usize) -> Option<u32> {
    let mut bytes = [0; size_of::<u32>()];
    let rest = key.get(prefix..)?;
    let len = rest.len().min(bytes.len());
    bytes[..len].copy_from_slice(&rest[..len]);
    Some(u32::from_be_bytes(bytes))
}

/// Bytes that all keys of a block begin with.
fn prefix(table: &Resident, index: usize) -> usize {
    let alike = table.first(index).iter().zip(table.last(index));
    alike.take_while(|(first, last)| first == last).count()
}

impl Parts {
    /// The part of a block that may hold a key, if that is known.
    pub(super) fn part(&self, table: &Resident, index: usize, key: &[u8]) -> Option<Part> {
        let known = self.0.get()?[index].known.get()?;
        if key < table.first(index) || table.last(index) < key {
            return None;
        }
        let head = head(key, prefix(table, index))?;
        let part = known.heads.iter().filter(|first| **first <= head).count();
        let [begin, end] = [part, part + 1].map(|part| u64::from(known.begins[part]));
        let (from, checksum) = (table.offset(index), known.checksums[part]);
        let place = from + begin..from + end;
        let (csn_bytes, is_first) = (known.csn_bytes, part == 0);
        (begin < end).then_some(Part { place, checksum, csn_bytes, is_first })
    }

    /// Asks the processor for what is known of a block.
    #[inline]
    pub(super) fn prefetch(&self, index: usize) {
        if let Some(all) = self.0.get() {
            prefetch::lines(&raw const all[index], size_of::<OfBlock>().div_ceil(LINE_BYTES));
        }
    }

    /// Whether a block that is missed, as the one of this number, is to come in (PARTIAL-READ-4),
    /// where so many are in memory.
    fn comes_in(&self, index: usize, miss: u32, blocks_held: usize) -> bool {
        let Some(all) = self.0.get() else { return true };
        let before = all[index].missed_at.load(Ordering::Relaxed);
        (miss.wrapping_sub(before) as usize) < blocks_held / NEAR_SHARE
    }

    /// Notes that a block was read, for the miss of this number. Answers whether one was before,
    /// and the bytes that it takes to note it.
    fn was_read(&self, table: &Resident, index: usize, miss: u32) -> (bool, usize) {
        let mut taken = 0;
        let all = self.0.get_or_init(|| {
            let all: Box<[OfBlock]> = (0..table.blocks()).map(|_| OfBlock::default()).collect();
            taken = size_of_val(&*all) + HEAP_BYTES;
            all
        });
        (all[index].missed_at.swap(miss.max(1), Ordering::Relaxed) != 0, taken)
    }

    /// Notes the parts of a block that was read as it is stored and checked, if it has any. Answers
    /// the bytes that they take, if they were not noted before.
    fn note(&self, table: &Resident, index: usize, block: &Block) -> Option<usize> {
        let of_block = &self.0.get()?[index];
        if of_block.known.get().is_some() {
            return None;
        }
        // Another may be faster, with the same.
        of_block.known.set(Box::new(known(table, index, block)?)).is_ok().then_some(KNOWN_BYTES)
    }
}

impl ExtentHandle {
    /// Reads only the part of a data block, which was missed, that has a key, where that is known,
    /// and the block is not to come in. Gives the part's bytes to `then`; `None` where nothing was
    /// read.
    pub(crate) fn fetch_part<T>(
        &self,
        table: &CachedTable,
        index: usize,
        (key, snapshot): (&[u8], Csn),
        access: Access,
        then: impl FnOnce(Told<'_>) -> T,
    ) -> Option<T> {
        let home = self.home();
        let context = &home.context;
        // Past the page cache nothing is at hand.
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
        // To what is in memory it is a miss as any other, and weighs as one: it would be a call
        // either way.
        note_read_by_this_thread(block_bytes as u64);
        context.reads[home.file.class() as usize].fetch_add(1, Ordering::Relaxed);
        context.reads_of_parts.fetch_add(1, Ordering::Relaxed);
        context.cache.note_part(table, index, block_bytes);
        context.weigh();
        Some(found)
    }

    /// Notes what it takes to read parts of a block that a get has read whole, if it is stored as
    /// it is and there is no room for all blocks.
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

    /// Reads some bytes of it into memory that the thread has for that, and gives them to `then`.
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

fn known(table: &Resident, index: usize, block: &Block) -> Option<KnownParts> {
    let (frame, entries) = block.stored_frame();
    let end = u16::try_from(entries.end).ok()?;
    if frame.len() as u64 != table.place(index).len.into() {
        return None;
    }
    let prefix = prefix(table, index);
    let mut known = KnownParts {
        heads: [u32::MAX; PARTS - 1],
        checksums: [0; PARTS],
        begins: [end; PARTS + 1],
        csn_bytes: block.csn_bytes(),
    };
    known.begins[0] = entries.start as u16;
    let mut parts = 1;
    for entry in 1..block.len() {
        let at = block.place(entry);
        let is_full = (at - entries.start) * PARTS >= parts * entries.len();
        // Versions of a key stay together.
        if parts < PARTS && is_full && block.entry(entry - 1).key != block.entry(entry).key {
            known.heads[parts - 1] = head(block.entry(entry).key, prefix)?;
            known.begins[parts] = at as u16;
            parts += 1;
        }
    }
    for part in 0..parts {
        let place = usize::from(known.begins[part])..usize::from(known.begins[part + 1]);
        known.checksums[part] = crc32c(&frame[place]);
    }
    Some(known)
}
