//! Looks a key up in a slice: checks the extent's index and the block's filter, then searches the
//! block. Fetches the index, the filter and blocks that are not in the cache.

use std::sync::Arc;

use spillway_base::engine::{Access, Found};
use spillway_base::{Csn, Result};

use crate::block::PartMatch;
use crate::cache::{Kept, Pin};
use crate::extent::{CachedBlock, CachedTable, ExtentHandle, Missing};
use crate::level::Slice;

#[inline]
pub(super) fn found(csn: Csn, version: Option<&[u8]>, value: &mut Vec<u8>) -> Found {
    value.clear();
    match version {
        None => Found::Deleted(csn),
        Some(bytes) => {
            value.extend_from_slice(bytes);
            Found::Value(csn)
        }
    }
}

/// The key, its hash and the snapshot of a point lookup.
pub(super) struct LookupKey<'a> {
    pub(super) key: &'a [u8],
    pub(super) hash: u64,
    pub(super) snapshot: Csn,
}

/// Looks a key up in a slice, and fetches the parts of its extent that are not in memory.
pub(super) fn get_in_slice(
    slice: &Slice,
    wanted: &LookupKey<'_>,
    value: &mut Vec<u8>,
    best: &mut Found,
    fetch: &mut impl Fetch,
) -> Result<()> {
    let extent = &slice.extent;
    let mut pin = extent.cache().pin();
    let mut fetched = Fetched::default();
    loop {
        let missing = match search_slice(slice, wanted, &pin, &fetched, value, best) {
            None => return Ok(()),
            Some(missing) => missing,
        };
        let mut part = PartRead { wanted, value, best, tells: false };
        pin.outside(|| fetch(extent, missing, &mut fetched, &mut part))?;
        if part.tells {
            return Ok(());
        }
    }
}

/// Fetches a missing part of an extent, or a part of its block that answers the lookup.
pub(super) trait Fetch:
    FnMut(&Arc<ExtentHandle>, Missing, &mut Fetched, &mut PartRead<'_>) -> Result<()>
{
}

impl<F> Fetch for F where
    F: FnMut(&Arc<ExtentHandle>, Missing, &mut Fetched, &mut PartRead<'_>) -> Result<()>
{
}

/// A point lookup that a part of a block may answer.
pub(super) struct PartRead<'a> {
    wanted: &'a LookupKey<'a>,
    value: &'a mut Vec<u8>,
    best: &'a mut Found,
    /// Whether a part has answered it.
    tells: bool,
}

impl PartRead<'_> {
    /// Reads a part of a block. Returns whether it answers the lookup.
    fn read(
        &mut self,
        extent: &ExtentHandle,
        table: &CachedTable,
        index: usize,
        access: Access,
    ) -> bool {
        let LookupKey { key, snapshot, .. } = *self.wanted;
        let (value, best) = (&mut *self.value, &mut *self.best);
        let read = extent.fetch_part(table, index, (key, snapshot), access, |told| match told {
            PartMatch::Version(csn, version) if best.is_older_than(csn) => {
                *best = found(csn, version, value);
            }
            PartMatch::Version(..) | PartMatch::Nothing => {}
        });
        self.tells = read.is_some();
        if self.tells {
            extent.note_read(index);
        }
        self.tells
    }
}

/// The index and the blocks that a lookup has fetched. It holds references, because the cache may
/// evict them before the lookup has used them.
#[derive(Default)]
pub(super) struct Fetched {
    table: Option<Kept<CachedTable>>,
    /// All fetched blocks: versions of a key may take several blocks, of which a small cache would
    /// keep only some.
    blocks: Vec<(usize, Kept<CachedBlock>)>,
}

impl Fetched {
    pub(super) fn fetch(
        &mut self,
        extent: &Arc<ExtentHandle>,
        missing: Missing,
        access: Access,
        part: &mut PartRead<'_>,
    ) -> Result<()> {
        match missing {
            Missing::Table => self.table = Some(extent.fetch_table(access)?),
            Missing::Block(index) => {
                let table = match &self.table {
                    Some(table) => table,
                    None => self.table.insert(extent.resident(access)?),
                };
                if !part.read(extent, table, index, access) {
                    self.blocks.push((index, extent.fetch_block_of_row(table, index, access)?));
                }
            }
        }
        Ok(())
    }
}

/// Searches the index and the blocks of a slice that are in memory. Returns the first one that is
/// missing; the caller fetches it and repeats the call.
fn search_slice(
    slice: &Slice,
    wanted: &LookupKey<'_>,
    pin: &Pin<'_>,
    fetched: &Fetched,
    value: &mut Vec<u8>,
    best: &mut Found,
) -> Option<Missing> {
    let LookupKey { key, hash, snapshot } = *wanted;
    let table = match &fetched.table {
        Some(table) => &**table,
        None => match slice.extent.table(pin) {
            None => return Some(Missing::Table),
            Some(table) => table,
        },
    };
    let blocks = slice.meta.block_range();
    let first = table.seek_filter(blocks.clone(), key);
    // Versions of a key may continue in the next block.
    for index in first..blocks.end {
        if !table.may_contain(index, hash) {
            return None;
        }
        let own = fetched.blocks.iter().find(|(fetched, _)| *fetched == index);
        let block = match own {
            Some((_, block)) => &**block,
            None => match slice.extent.block_of(table, index, pin) {
                None => return Some(Missing::Block(index)),
                Some(block) => block,
            },
        };
        slice.extent.note_read(index);
        for at in block.seek(key)..block.len() {
            let entry = block.entry(at);
            if entry.key != key {
                return None;
            }
            if entry.csn <= snapshot {
                if best.is_older_than(entry.csn) {
                    *best = found(entry.csn, entry.value, value);
                }
                return None;
            }
        }
    }
    None
}
