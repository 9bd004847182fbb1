//! Cuts slices between keys: at the key where a sub-table is split, and at the ends of damaged key
//! ranges.
//!
//! Compactions avoid damaged keys, and every slice whose key range includes damaged keys. Such a
//! slice may also have undamaged keys, and these would never be compacted. So the engine cuts
//! slices at the ends of a damaged range. A flush cuts the slices that it writes (COMPACTION-6 of
//! [`crate::compaction`]). This module cuts the slices that existed when the damage was found.
//!
//! - **SLICE-SPLIT-1.** The parts of a slice are at the level of the slice and hold its versions,
//!   and no part has keys on both sides of the cut. Only the block that has keys on both sides is
//!   rewritten, with blocks that hold more versions of its first or last key.
//! - **SLICE-SPLIT-2.** A cut waits until no other work holds the sub-table. After the cuts, no
//!   readable slice of the sub-table has both damaged keys and other keys in its range.

use std::ops::Range;
use std::sync::Arc;

use spillway_base::engine::Access;
use spillway_base::{ErrorKind, Result};

use super::Inner;
use super::change::Change;
use super::pending_extents::PendingExtents;
use crate::block::{BlockWriter, BuiltBlock};
use crate::coding::Coding;
use crate::compaction::Output;
use crate::extent::ExtentBuilder;
use crate::level::{Levels, LevelsEdit, Slice};
use crate::picker::Conflicts;
use crate::settings::TieredSettings;
use crate::space::DeviceClass;
use crate::subtable::SubTable;
use crate::table::Table;

/// Whether a slice has keys below a key, and keys at or above it.
fn spans(slice: &Slice, key: &[u8]) -> bool {
    *slice.meta.smallest < *key && *key <= *slice.meta.largest
}

/// The blocks of a slice that must be rewritten to cut it at a key, which is inside the slice.
/// There may be none.
fn straddling(slice: &Slice, key: &[u8]) -> Result<Range<usize>> {
    let resident = slice.extent.resident(Access::Blocking)?;
    let blocks = slice.meta.block_range();
    let at = resident.seek(blocks.clone(), key);
    if resident.first(at) >= key {
        return Ok(at..at);
    }
    // If the versions of a key are in several blocks, they stay together.
    let (mut first, mut last) = (at, at);
    while first > blocks.start && resident.goes_on(first - 1) {
        first -= 1;
    }
    while last + 1 < blocks.end && resident.goes_on(last) {
        last += 1;
    }
    Ok(first..last + 1)
}

/// The slices that have keys below a key, and keys at or above it.
pub(super) fn spanning(levels: &Levels, key: &[u8]) -> Vec<Arc<Slice>> {
    // At most one slice of each run.
    let of = levels.runs().filter_map(|run| run.slice_of(key));
    of.filter(|slice| spans(slice, key)).cloned().collect()
}

/// The entries of a slice's blocks below a key, and those at or above it.
fn cut(slice: &Slice, blocks: std::ops::Range<usize>, key: &[u8]) -> Result<[Vec<BuiltBlock>; 2]> {
    let resident = slice.extent.resident(Access::Blocking)?;
    let mut halves = [BlockWriter::default(), BlockWriter::default()];
    for index in blocks {
        let block = slice.extent.read_block(&resident, index)?;
        for entry in (0..block.len()).map(|at| block.entry(at)) {
            halves[usize::from(entry.key >= key)].push(&entry);
        }
    }
    Ok(halves.map(|mut half| half.finish()))
}

/// The change that cuts all slices that span a key, with the extents that it wrote
/// (SLICE-SPLIT-1).
pub(super) fn cut_slices(
    table: &Table,
    levels: &Levels,
    key: &[u8],
    written: &mut PendingExtents<'_>,
) -> Result<LevelsEdit> {
    let mut edit = LevelsEdit::default();
    let spanning = levels.places().filter(|(_, slice)| spans(slice, key));
    for (place, slice) in spanning {
        edit.removed.push(slice.clone());
        let blocks = slice.meta.block_range();
        let apart = straddling(slice, key)?;
        let resident = slice.extent.resident(Access::Blocking)?;
        for rest in [blocks.start..apart.start, apart.end..blocks.end] {
            if !rest.is_empty() {
                let meta = Arc::new(resident.slice(slice.meta.extent, rest));
                let extent = slice.extent.clone();
                edit.added.push((place, Slice::new(meta, extent)));
            }
        }
        let new = written.extents.len();
        if !apart.is_empty() {
            let slot_bytes = written.slot_bytes();
            let mut builder = ExtentBuilder::new(table.id, slot_bytes, Coding::Stored);
            if !TieredSettings::has_range_filters(place) {
                builder = builder.without_range_filters();
            }
            let halves = cut(slice, apart, key)?;
            halves[0].iter().for_each(|block| builder.push(&block.into()));
            builder.cut();
            halves[1].iter().for_each(|block| builder.push(&block.into()));
            written.begin_place(place);
            written.write(&mut builder)?;
        }
        edit.added.extend(written.slices(table.id, place, new)?);
    }
    Ok(edit)
}

impl Inner {
    /// Cuts slices that have both damaged and other keys of a sub-table, at one end of a damaged
    /// range (SLICE-SPLIT-2). Returns `false` if there is no such slice, or if other work holds the
    /// sub-table.
    pub(super) fn cut_beside_damage(
        &self,
        table: &Arc<Table>,
        part: &Arc<SubTable>,
    ) -> Result<bool> {
        let mut damaged = Conflicts::default();
        part.bar_damaged(&mut damaged);
        let reached = |key: &[u8]| !spanning(&part.view_now().levels, key).is_empty();
        let Some(key) = damaged.edges().into_iter().find(|key| reached(key)) else {
            return Ok(false);
        };
        let Some(_compacting) = part.take_whole() else { return Ok(false) };
        match self.cut_part(table, part, &key) {
            // The slice is damaged too. It stays whole from now on: a damaged slice is not cut.
            Err(error) if matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Io) => {
                self.quarantine(part, &spanning(&part.view().levels, &key), &error);
                Ok(true)
            }
            // Other compactions may make room.
            Err(error) if error.kind() == ErrorKind::DiskFull => Ok(false),
            cut => cut,
        }
    }

    fn cut_part(&self, table: &Arc<Table>, part: &Arc<SubTable>, key: &[u8]) -> Result<bool> {
        let levels = part.view().levels.clone();
        let mut written = PendingExtents::begin(self, DeviceClass::Ssd)?;
        let edit = cut_slices(table, &levels, key, &mut written)?;
        if edit.removed.is_empty() {
            return Ok(false);
        }
        written.sync()?;
        let mut manifest = self.persistence.record(&self.health)?;
        if table.is_gone() {
            return Ok(false);
        }
        let change = Change::of(&edit);
        written.commit(&mut manifest, change.edits(table, &edit, &levels.ranges))?;
        change.apply();
        part.edit(&edit, None);
        change.retire();
        drop(manifest);
        self.refresh_debt();
        Ok(true)
    }
}
