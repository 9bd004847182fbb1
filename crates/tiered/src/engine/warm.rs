//! What compactions write comes into memory in the place of what was of use there (X-Engine,
//! section 3.1.4, "incremental cache replacement"): or else each compaction would leave readers of
//! hot rows without the blocks that they had.
//!
//! - **U1 (what replaces the warm is warm).** A block of a new extent comes into the cache where
//!   blocks that were of use there held at least a quarter of as much as it does, among the same
//!   keys. A block that was carried is where it was; a slice that was re-linked has what it had,
//!   since its extent is the same.
//! - **U2 (a place for a place).** Blocks that were of use leave as those come in that replace
//!   them, extent by extent: the cache never has to hold both, and nothing else is evicted for it
//!   but by what the halves of blocks are more than the whole.
//! - **U3 (no more than that).** Nothing is read that takes the place of nothing. Neighbours are
//!   read at once.
//! - **U4 (bounded).** It is all within the capacity of the cache (N3, N8).
//! - **U5 (it changes nothing but residence).** It begins when readers find what is new, but for
//!   U6, and whatever it cannot read is left to them.
//! - **U6 (tables come as they are written).** The table of what a flush writes is in memory when
//!   readers find it, as is that of what a compaction writes where a table was whose keys are among
//!   its own; as far as the cache has room (N3, N8). Nothing is read for it.
//!
//! Which keys of a block are asked for is not known, so what was of use is taken to be spread
//! evenly over the blocks that hold its keys now. A hot block between two halves of cold ones comes
//! out as halves of two, which both have to stay: hence a quarter, and no more.
//!
//! Rejected: to put blocks into the cache as they are written, which spares reading them. Readers
//! need the old ones until the last extent is recorded, so that the cache has to hold twice what is
//! replaced: a compaction of half of what is hot drove out the other half, and 83 % of hits fell to
//! 67 %, as without any of this (`spillway-bench replacement`). What is read in their place are
//! long reads, once, in the background. And to let what a flush writes come into the small queue:
//! it changed hits by half a point or less, to either side.

use std::ops::Range;
use std::sync::Arc;

use rustc_hash::FxHashSet;
use spillway_base::engine::Access;
use spillway_base::{Result, TableId};

use super::Inner;
use crate::cache::Kept;
use crate::extent::{CachedTable, ExtentHandle, Resident};
use crate::extent_meta::SliceMeta;
use crate::level::{LevelsEdit, Slice};

/// Of what a block holds, what must have been in memory and of use for it to come in: one in so
/// many.
const SHARE: u64 = 4;

/// Whose tables come into memory as they are written (U6).
pub(super) struct WarmTables {
    pub(super) table: TableId,
    /// Those that have keys of one of these, of which the table was in memory; or all.
    among: Option<Vec<Arc<Slice>>>,
}

impl WarmTables {
    /// Whether that of an extent with these slices does.
    pub(super) fn takes(&self, slices: &[SliceMeta]) -> bool {
        let Some(among) = &self.among else { return true };
        let (Some(first), Some(last)) = (slices.first(), slices.last()) else { return false };
        let shares_keys = |slice: &Arc<Slice>| {
            slice.meta.smallest <= last.largest && slice.meta.largest >= first.smallest
        };
        among.iter().any(shares_keys)
    }
}

/// What a flush or compaction takes the place of.
pub(super) struct Replaced(Vec<Arc<Slice>>);

impl Inner {
    /// Which tables of what a flush writes come into memory: all.
    pub(super) fn tables_of_flush(&self, table: TableId) -> Option<WarmTables> {
        self.settings.warm_tables.then_some(WarmTables { table, among: None })
    }

    /// Which tables of what a compaction writes do, that is about to read these.
    pub(super) fn tables_in_place_of<'a>(
        &self,
        table: TableId,
        inputs: impl Iterator<Item = &'a Arc<Slice>>,
    ) -> Option<WarmTables> {
        self.settings.warm_tables.then(|| {
            let warm = inputs.filter(|slice| slice.extent.has_table());
            WarmTables { table, among: Some(warm.cloned().collect()) }
        })
    }

    /// What is in memory of inputs may be replaced there.
    pub(super) fn replaced(&self, inputs: Vec<Arc<Slice>>) -> Option<Replaced> {
        (self.settings.replacement && !inputs.is_empty()).then_some(Replaced(inputs))
    }

    /// Puts what is new, and recorded, into the place of what was of use.
    pub(super) fn replace(&self, replaced: Option<Replaced>, edit: &LevelsEdit) {
        let Some(Replaced(inputs)) = replaced else { return };
        let stays: FxHashSet<_> = inputs.iter().map(|slice| slice.meta.extent).collect();
        let new = edit.added.iter().map(|(_, slice)| slice);
        let new: Vec<_> = new.filter(|slice| !stays.contains(&slice.meta.extent)).collect();
        for slices in new.chunk_by(|one, next| one.meta.extent == next.meta.extent) {
            let (first, last) = (slices[0], slices[slices.len() - 1]);
            let (smallest, largest) = (&first.meta.smallest, &last.meta.largest);
            let used: Vec<_> =
                inputs.iter().flat_map(|slice| Used::of(slice, smallest, largest)).collect();
            // What cannot be read is for its readers to tell of (U5).
            let _ = bring(&first.extent, used);
        }
    }
}

/// Blocks in the places of these.
fn bring(extent: &Arc<ExtentHandle>, mut used: Vec<Used>) -> Result<()> {
    if used.iter().all(|used| used.blocks.is_empty()) {
        return Ok(());
    }
    let table = extent.resident(Access::Blocking)?;
    used.iter_mut().for_each(|used| used.keep_replaced(&table));
    let chosen = choose(&used, &table);
    let end = table.last(table.blocks() - 1);
    used.iter().for_each(|used| used.leave(end));
    extent.bring(&table, &chosen)
}

/// The blocks that at least a quarter of was of use.
fn choose(used: &[Used], new: &Resident) -> Vec<usize> {
    let blocks = new.blocks();
    let mut shares = vec![0; blocks];
    for (table, block) in used.iter().flat_map(Used::each) {
        let places = places_of(table, block, new);
        let each = table.place(block).counts.payload_bytes / places.len() as u64;
        shares[places].iter_mut().for_each(|share| *share += each);
    }
    let enough = |block: &usize| {
        let least = new.place(*block).counts.payload_bytes / SHARE;
        shares[*block] > 0 && shares[*block] >= least
    };
    (0..blocks).filter(enough).collect()
}

/// The blocks with keys among those of this one.
fn places_of(table: &Resident, block: usize, new: &Resident) -> Range<usize> {
    let blocks = new.blocks();
    let from = new.seek(0..blocks, table.first(block));
    let within = |at: &usize| new.first(*at) <= table.last(block);
    from..from + (from..blocks).take_while(within).count()
}

/// Blocks of an input that are in memory and of use.
struct Used {
    extent: Arc<ExtentHandle>,
    table: Kept<CachedTable>,
    blocks: Vec<usize>,
}

impl Used {
    /// Those of a slice that have keys among these.
    fn of(slice: &Arc<Slice>, smallest: &[u8], largest: &[u8]) -> Option<Used> {
        if &*slice.meta.smallest > largest || &*slice.meta.largest < smallest {
            return None;
        }
        let table = slice.extent.resident_now()?;
        let blocks = slice.meta.block_range();
        let from = table.seek(blocks.clone(), smallest);
        let within = |block: &usize| table.first(*block) <= largest;
        let to = from + (from..blocks.end).take_while(within).count();
        let blocks = slice.extent.of_use(&table, from..to);
        Some(Used { extent: slice.extent.clone(), table, blocks })
    }

    /// Those that something new has keys of. Others stay where they are, or are replaced by another
    /// extent's.
    fn keep_replaced(&mut self, new: &Resident) {
        let table = &self.table;
        self.blocks.retain(|block| !places_of(table, *block, new).is_empty());
    }

    fn each(&self) -> impl Iterator<Item = (&CachedTable, usize)> {
        self.blocks.iter().map(|block| (&*self.table, *block))
    }

    /// Those that end before a key are of no use any more. One that reaches past it is for the next
    /// extent as well.
    fn leave(&self, end: &[u8]) {
        let gone = self.blocks.iter().copied();
        let gone: Vec<_> = gone.filter(|block| self.table.last(*block) <= end).collect();
        self.extent.take_out(&self.table, &gone);
    }
}
