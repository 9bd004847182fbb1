//! The notes on the parts of an extent's blocks, for partial reads. `partial_read.rs` has the
//! guarantees.

use std::ops::Range;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use once_cell::race::OnceBox;
use spillway_base::Csn;
use spillway_base::checksum::crc32c;
use spillway_base::prefetch::{self, LINE_BYTES};

use super::resident::Resident;
use crate::block::{Block, PartMatch, search_part};

/// The most parts of a block. Each part of a full block has about two kilobytes. For smaller reads,
/// most of the time is the system call, so smaller parts would save little.
const PARTS: usize = 8;
/// The approximate overhead of the allocator, in bytes.
const HEAP_BYTES: usize = 16;
/// A missed block is cached if it was missed before, not longer ago than this fraction of the
/// number of cached blocks. Time is counted in misses of all blocks.
const NEAR_SHARE: usize = 4;

/// The parts of a block, as far as they are known.
struct KnownParts {
    /// For each part but the first: the head of its first key, which is four bytes behind the
    /// common prefix of the block's keys, as a number.
    heads: [u32; PARTS - 1],
    checksums: [u32; PARTS],
    /// The offsets in the frame at which the parts begin, and the offset at which the last part
    /// ends.
    begins: [u16; PARTS + 1],
    csn_bytes: u8,
}

#[derive(Default)]
struct PartsOfBlock {
    known: OnceBox<KnownParts>,
    /// The number of misses of all blocks when a get last missed this block; 0 if none has.
    missed_at: AtomicU32,
}

/// The bytes for the known parts of a block.
const KNOWN_BYTES: usize = size_of::<KnownParts>() + HEAP_BYTES;

/// The parts of an extent's blocks, as far as they are known.
#[derive(Default)]
pub(super) struct PartIndex(OnceLock<Box<[PartsOfBlock]>>);

/// A part that may hold a key.
pub(super) struct Part {
    /// Its range in the extent.
    pub(super) place: Range<u64>,
    checksum: u32,
    csn_bytes: u8,
    is_first: bool,
}

impl Part {
    /// The version of a key that a snapshot sees, from the bytes of the part. `None` if the answer
    /// needs more than this part (PARTIAL-READ-2), or if the bytes do not match the part's checksum
    /// (PARTIAL-READ-1).
    pub(super) fn find<'a>(
        &self,
        bytes: &'a [u8],
        key: &[u8],
        snapshot: Csn,
    ) -> Option<PartMatch<'a>> {
        if crc32c(bytes) != self.checksum {
            return None;
        }
        search_part(bytes, self.csn_bytes, self.is_first, key, snapshot)
    }
}

/// The first bytes of a key after `prefix` bytes, as a number that has the order of keys.
fn head(key: &[u8], prefix: usize) -> Option<u32> {
    let mut bytes = [0; size_of::<u32>()];
    let rest = key.get(prefix..)?;
    let len = rest.len().min(bytes.len());
    bytes[..len].copy_from_slice(&rest[..len]);
    Some(u32::from_be_bytes(bytes))
}

/// The length of the common prefix of a block's keys.
fn prefix(table: &Resident, index: usize) -> usize {
    let alike = table.first(index).iter().zip(table.last(index));
    alike.take_while(|(first, last)| first == last).count()
}

impl PartIndex {
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

    /// Prefetches what is known of a block.
    #[inline]
    pub(super) fn prefetch(&self, index: usize) {
        if let Some(all) = self.0.get() {
            prefetch::lines(&raw const all[index], size_of::<PartsOfBlock>().div_ceil(LINE_BYTES));
        }
    }

    /// Whether a missed block should be cached (PARTIAL-READ-4). `miss` is the number of this miss,
    /// and `blocks_held` the number of blocks in memory.
    pub(super) fn comes_in(&self, index: usize, miss: u32, blocks_held: usize) -> bool {
        let Some(all) = self.0.get() else { return true };
        let before = all[index].missed_at.load(Ordering::Relaxed);
        (miss.wrapping_sub(before) as usize) < blocks_held / NEAR_SHARE
    }

    /// Records that a block was missed. `miss` is the number of this miss. Returns whether the
    /// block was missed before, and the bytes of memory that the record takes.
    pub(super) fn was_read(&self, table: &Resident, index: usize, miss: u32) -> (bool, usize) {
        let mut taken = 0;
        let all = self.0.get_or_init(|| {
            let all: Box<[PartsOfBlock]> =
                (0..table.blocks()).map(|_| PartsOfBlock::default()).collect();
            taken = size_of_val(&*all) + HEAP_BYTES;
            all
        });
        (all[index].missed_at.swap(miss.max(1), Ordering::Relaxed) != 0, taken)
    }

    /// Records the parts of an uncompressed block that was read and checked, if it can be divided
    /// into parts. Returns the bytes of the record, unless the parts were recorded before.
    pub(super) fn note(&self, table: &Resident, index: usize, block: &Block) -> Option<usize> {
        let of_block = &self.0.get()?[index];
        if of_block.known.get().is_some() {
            return None;
        }
        // Another thread may have recorded the same parts first.
        of_block.known.set(Box::new(known(table, index, block)?)).is_ok().then_some(KNOWN_BYTES)
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
        // All versions of a key stay in one part.
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
