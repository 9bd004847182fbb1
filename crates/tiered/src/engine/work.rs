//! The background work: records new tables, removes dropped ones, and runs flushes and compactions.
//!
//! Each piece of work ends in one manifest edit. Readers see its result only after this edit is
//! durable. A crash before the edit leaves written slots to which no record refers. The next
//! opening finds these slots free.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustc_hash::FxHashSet;
use spillway_base::clock;
use spillway_base::engine::Access;
use spillway_base::thread::blocking;
use spillway_base::{Csn, Error, ErrorKind, Result};

use super::change::Change;
use super::coding::Codes;
use super::debt::SliceSearch;
use super::jobs::NAP;
use super::pending_extents::PendingExtents;
use super::range_tombstones::{KnownTombstones, range_of};
use super::{Inner, create_edit};
use crate::coding::Coding;
use crate::compaction::{DropRule, MergeInput, SplitPoints};
use crate::extent_meta::SliceId;
use crate::inspect::Timer;
use crate::level::{InheritedReads, Levels, LevelsEdit, Slice};
use crate::manifest::{Edit, Place};
use crate::picker::{Conflicts, Kind, Pick, pick_recoding, rests_uncompressed};
use crate::subtable::SubTable;
use crate::table::Table;
use crate::view::View;

/// After a compaction that frees space found the disk full, the next one reads at most one byte for
/// this many.
const SMALLER: u64 = 4;

impl Inner {
    /// Records tables that are new, or were dropped, in the manifest. It records only what is
    /// stable, because a crash may undo other commits (decision 005).
    ///
    /// A dropped table leaves the manifest even if snapshots still read it: a crash would end these
    /// snapshots, too. Then the table no longer holds the log back. Its memory and extents stay
    /// until it is reaped.
    pub(super) fn record_tables(&self) -> Result<bool> {
        let stable = self.horizon.stable();
        let new = |table: &&Arc<Table>| {
            let recorded = table.recorded.load(Ordering::Acquire) || table.is_gone();
            !recorded && table.created <= stable && table.dropped() > stable
        };
        let gone = |table: &&Arc<Table>| !table.is_gone() && table.dropped() <= stable;
        if !self.tables.load().values().any(|table| new(&table) || gone(&table)) {
            return Ok(false);
        }
        let mut manifest = self.persistence.record(&self.health)?;
        // Tables are reaped under the same lock, so none of these tables has been reaped. Another
        // thread that has read a later stable CSN may have marked some of them as gone. If such a
        // table was not recorded, nothing was recorded about its end. Recording it now would leave
        // it in the manifest for good.
        let tables = self.tables.load_full();
        let fresh: Vec<_> = tables.values().filter(new).cloned().collect();
        let gone: Vec<_> = tables.values().filter(gone).cloned().collect();
        let mut edits: Vec<Edit> = fresh.iter().map(|table| create_edit(table)).collect();
        let known = gone.iter().filter(|table| manifest.state().tables.contains_key(&table.id));
        edits.extend(known.map(|table| Edit::DropTable { table: table.id }));
        let persisted = self.tables.persisted(&*self.horizon, &gone, None);
        edits.extend([Edit::Persisted { csn: persisted }, Edit::Known { csn: stable }]);
        manifest.commit(edits)?;
        fresh.iter().for_each(|table| table.recorded.store(true, Ordering::Release));
        gone.iter().for_each(|table| table.mark_gone());
        self.persistence.raise_known(stable);
        self.persistence.note_recorded(persisted);
        drop(manifest);
        self.refresh_debt();
        Ok(true)
    }

    /// Removes dropped tables that no snapshot can see any more.
    pub(super) fn reap_tables(&self) -> Result<bool> {
        if self.tables.load().values().all(|table| !table.is_gone()) {
            return Ok(false);
        }
        let mut live = Vec::new();
        self.horizon.live_snapshots(&mut live);
        let oldest = live.first().copied().unwrap_or_default();
        let manifest = self.persistence.record(&self.health)?;
        let unseen = |table: &&Arc<Table>| {
            table.is_gone()
                && table.dropped() <= oldest
                && !table.parts().all().iter().any(|part| part.is_compacting())
        };
        let gone: Vec<Arc<Table>> = self.tables.load().values().filter(unseen).cloned().collect();
        if gone.is_empty() {
            return Ok(false);
        }
        self.tables.remove(&gone);
        for table in &gone {
            for view in table.parts().all().iter().map(|part| part.view()) {
                view.memtables().for_each(|memtable| memtable.retire());
                view.levels.places().for_each(|(_, slice)| slice.extent.mark_obsolete());
            }
            self.context.dictionaries.forget(table.id);
        }
        drop((manifest, gone));
        self.refresh_debt();
        Ok(true)
    }

    /// Runs the compaction that is most due, or a recode compaction if none is.
    pub(super) fn compact_one(&self) -> Result<bool> {
        let mut live = Vec::new();
        self.horizon.live_snapshots(&mut live);
        let oldest = live.first().copied().unwrap_or_default();
        let mut parts = self.tables.all_parts();
        parts.retain(|(table, _)| table.dropped() == Csn::MAX);
        for (table, part) in &parts {
            if self.let_go_hidden(table, part)? || self.cut_beside_damage(table, part)? {
                return Ok(true);
            }
        }
        let mut due: Vec<(usize, f64, Kind, usize)> = Vec::new();
        for (at, (_, part)) in parts.iter().enumerate() {
            let view = part.view_now();
            // Damaged slices are not due, and make nothing due.
            let mut damaged = Conflicts::default();
            part.bar_damaged(&mut damaged);
            let chooser = self.compaction_shapes.chooser(part, &view.levels, &damaged, oldest);
            for (rank, kind) in self.settings.compaction_order.iter().enumerate() {
                if let Some(urgency) = chooser.urgency(*kind) {
                    let rank = if chooser.is_pressing(*kind) { 0 } else { rank + 1 };
                    due.push((rank, urgency, *kind, at));
                }
            }
        }
        due.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
        let mut full = None;
        for (.., kind, at) in due {
            match self.compact_kind(&parts[at], kind, oldest) {
                // A compaction that writes less may fit, and may free the space that this one
                // lacks.
                Err(error) if error.kind() == ErrorKind::DiskFull => full = full.or(Some(error)),
                Ok(false) => {}
                worked => return worked,
            }
        }
        if let Some(full) = full {
            return Err(full);
        }
        let (search, epochs) = (SliceSearch::Recode, self.context.thermometer.epochs());
        let recode = || self.recode_first(&parts);
        Ok(self.levels_debt.unless_idle(search, epochs, &self.tables, recode)?
            || self.settle_first(&parts, oldest)?)
    }

    /// Runs a compaction of a kind. If it is to free space and its outputs do not fit on the disk,
    /// runs a smaller one (PICKER-7).
    fn compact_kind(
        &self,
        (table, part): &(Arc<Table>, Arc<SubTable>),
        kind: Kind,
        oldest: Csn,
    ) -> Result<bool> {
        let shape = self.compaction_shapes.current();
        let least = shape.extent_bytes + shape.extent_bytes / 4;
        let mut most = u64::MAX;
        loop {
            let pick = |bars: &Conflicts| {
                let levels = part.view().levels.clone();
                let mut chooser = self.compaction_shapes.chooser(part, &levels, bars, oldest);
                if chooser.shape.short_of_space.is_some() {
                    chooser.shape = chooser.shape.short_of_space(most);
                }
                chooser.pick(kind)
            };
            let worked = self.compact_what(table, part, pick);
            let full = worked.as_ref().is_err_and(|error| error.kind() == ErrorKind::DiskFull);
            let frees = matches!(kind, Kind::Deletion | Kind::SelfMajor);
            if !full || !frees || shape.short_of_space.is_none() || most == least {
                return worked;
            }
            most = (most.min(shape.input_bytes) / SMALLER).max(least);
        }
    }

    /// Merges and compresses some data of the first sub-table that has come to rest, if that is
    /// worth it. It takes data above Level2 if there is much of it, and data in Level2 even if it
    /// is less than a recode compaction usually takes.
    fn settle_first(&self, parts: &[(Arc<Table>, Arc<SubTable>)], oldest: Csn) -> Result<bool> {
        let coding_at = |place| self.level_storage.compression_of(Kind::Recode, place).coding();
        let coding = coding_at(Place::Level1);
        let now = clock::now();
        let epoch = self.context.thermometer.epochs();
        for (table, part) in parts {
            let mark = part.settled_mark(epoch);
            if !part.has_rested(self.settings.settle_after, now) || part.is_settled(mark) {
                continue;
            }
            let (least, most) = self.compaction_shapes.recoding_bytes();
            // The sub-table may have little data in all, so half is enough.
            let least = least / 2;
            let pick = |bars: &Conflicts| {
                let levels = part.view().levels.clone();
                let above = rests_uncompressed(&levels, coding, least);
                if above && !levels.level0.is_empty() {
                    return self
                        .compaction_shapes
                        .chooser(part, &levels, bars, oldest)
                        .pick(Kind::Minor);
                }
                let above = above
                    .then(|| pick_recoding(&levels.level1, Place::Level1, coding, least, most));
                let below = || pick_cold(part, coding_at(Place::Level2), least, most);
                let pick = above.flatten().or_else(below)?;
                let (smallest, largest) = pick.hull();
                (!bars.overlap(smallest, largest)).then_some(pick)
            };
            let busy = part.is_compacting();
            if self.compact_what(table, part, pick)? {
                return Ok(true);
            }
            if !busy {
                part.note_settled(mark);
            }
        }
        Ok(false)
    }

    /// Recompresses some data of the first sub-table that has data to recompress.
    fn recode_first(&self, parts: &[(Arc<Table>, Arc<SubTable>)]) -> Result<bool> {
        let coding = self.level_storage.compression_of(Kind::Recode, Place::Level2).coding();
        for (table, part) in parts {
            let pick = |bars: &Conflicts| {
                let (least, most) = self.compaction_shapes.recoding_bytes();
                pick_cold(part, coding, least, most).filter(|pick| {
                    let (smallest, largest) = pick.hull();
                    !bars.overlap(smallest, largest)
                })
            };
            if self.compact_what(table, part, pick)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Runs a picked compaction of a sub-table; `false` if nothing is picked.
    fn compact_what(
        &self,
        table: &Arc<Table>,
        part: &Arc<SubTable>,
        pick: impl FnOnce(&Conflicts) -> Option<Pick>,
    ) -> Result<bool> {
        let Some((_compacting, pick)) = part.take(pick) else { return Ok(false) };
        match self.compact(table, part, &pick) {
            Ok(()) => Ok(true),
            // An input cannot be read. All other work continues (E8).
            Err(error) if matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Io) => {
                let inputs: Vec<_> = pick.inputs().cloned().collect();
                self.quarantine(part, &inputs, &error);
                Ok(true)
            }
            Err(error) => Err(error),
        }
    }

    /// Makes compactions avoid the inputs that cannot be read.
    pub(super) fn quarantine(&self, part: &SubTable, inputs: &[Arc<Slice>], error: &Error) {
        let mut found = false;
        for slice in inputs {
            if let Err(error) = slice.extent.check_blocks(slice.meta.block_range()) {
                part.quarantine(&slice.meta, error);
                found = true;
            }
        }
        // All inputs can be read now, although one could not be read a moment ago.
        if !found && let Some(slice) = inputs.first() {
            part.quarantine(&slice.meta, error.clone());
        }
        self.refresh_debt();
    }

    /// Merges a whole sub-table, unless it was closed.
    pub(super) fn compact_fully(&self, table: &Arc<Table>, part: &Arc<SubTable>) -> Result<()> {
        let _working = self.working()?;
        let _compacting = loop {
            if part.is_closed() {
                return Ok(());
            }
            if let Some(compacting) = part.take_whole() {
                break compacting;
            }
            self.health.check()?;
            blocking(|| self.wakeups.wait_for_room(NAP));
        };
        let pick = self.compaction_shapes.current().pick_full(&part.view().levels);
        pick.map_or(Ok(()), |pick| self.compact(table, part, &pick))
    }

    pub(super) fn compact(
        &self,
        table: &Arc<Table>,
        part: &Arc<SubTable>,
        pick: &Pick,
    ) -> Result<()> {
        let timer = Timer::begin();
        let mut live = Vec::new();
        self.horizon.live_snapshots(&mut live);
        let Parted { sources, kept } = Parted::of(pick)?;
        let others_from = others_from(&part.view(), pick.hull(), pick.inputs());
        let kept_from = kept.iter().map(|slice| slice.meta.counts.csn_min).min();
        let others_from = others_from.min(kept_from.unwrap_or(Csn::MAX));
        let known = KnownTombstones::of(part, None, &live);
        let rewrite = table.rewrite(self.horizon.stable());
        let rule =
            DropRule { live: &live, others_from, ranges: &known.all, rewrite: rewrite.get() };
        let mut written = PendingExtents::begin(self, self.level_storage.class_at(pick.target))?;
        written.set_pace(pick.kind);
        let supply = |slices| MergeInput::of_slices(slices, &written.bulk);
        let sources = sources.into_iter().map(supply).collect();
        let compression = self.level_storage.compression_of(pick.kind, pick.target);
        let (dictionaries, bytes) = (&self.context.dictionaries, self.settings.dictionary_bytes());
        let (coder, codes) = Codes::choose(dictionaries, (table, pick), compression, bytes)?;
        let mut policy = self.settings.reuse_policy(pick.target, others_from);
        match pick.kind {
            Kind::Recode => {
                policy.coding_min =
                    self.level_storage.compression_of(pick.kind, pick.target).coding();
            }
            Kind::SelfMajor => policy.used_bytes_min = self.settings.used_bytes_least(),
            _ => {}
        }
        let rules = (&rule, &known.ripe, SplitPoints::NONE);
        let (stays, tally) = written.merge(table, sources, rules, policy, coder, pick.target)?;
        written.sync()?;
        let mut manifest = self.persistence.record(&self.health)?;
        if table.is_gone() {
            return Ok(());
        }
        let extents = written.extents.len() as u64;
        let new = written.slices(table.id, pick.target, 0)?;
        let unwritten: Vec<_> = stays.iter().chain(&kept).cloned().collect();
        InheritedReads::of(pick.inputs(), &unwritten).pass_to(new.iter().map(|(_, slice)| slice));
        let levels = part.view().levels.clone();
        let mut edit = edit_of(&levels, pick.target, pick.inputs(), new, stays);
        self.statistics.note_kept(bytes_of(&kept));
        edit.added.extend(kept.into_iter().map(|slice| (Place::Level1, slice)));
        let mut past = Vec::new();
        let keys = range_of(pick.hull(), &mut past);
        edit.ranges = known.after(part, &edit, keys, others_from, None);
        let change = Change::of(&edit);
        let put_in_order = pick.kind == Kind::SelfMajor && !change.gains(&edit);
        let mut edits: Vec<Edit> = codes.edit(table, manifest.state()).into_iter().collect();
        edits.extend(change.edits(table, &edit, &levels.ranges));
        edits.extend(manifest.state().edit_of_rewrite(rewrite.since()));
        written.commit(&mut manifest, edits)?;
        codes.publish(table, dictionaries);
        change.apply();
        if put_in_order {
            // The next pick would choose this data again, without any gain.
            let new = edit.added.iter().map(|(_, slice)| slice);
            pick.inputs().chain(new).for_each(|slice| slice.extent.mark_in_order());
        }
        part.edit(&edit, None);
        change.retire();
        drop(manifest);
        self.refresh_debt();
        let written = (extents, written.bytes);
        self.statistics.note_compaction(&timer, table.id, pick, &tally, written);
        Ok(())
    }
}

/// Slices of a sub-table's Level2 to recompress with a coding, if nothing else is to be done.
fn pick_cold(part: &SubTable, coding: Coding, least: u64, most: u64) -> Option<Pick> {
    pick_recoding(&part.view().levels.level2, Place::Level2, coding, least, most)
}

fn bytes_of(slices: &[Arc<Slice>]) -> u64 {
    slices.iter().map(|slice| slice.meta.bytes).sum()
}

/// The inputs of a compaction, and the slices that are cut off from them and stay in Level1.
struct Parted {
    sources: Vec<Vec<Arc<Slice>>>,
    kept: Vec<Arc<Slice>>,
}

impl Parted {
    fn of(pick: &Pick) -> Result<Parted> {
        let mut parted = Parted { sources: Vec::new(), kept: Vec::new() };
        for slices in &pick.sources {
            let mut source = Vec::with_capacity(slices.len());
            for slice in slices {
                let keeps = pick.keeps.iter().find(|(id, _)| *id == slice.meta.id());
                match keeps {
                    Some((_, blocks)) => parted.cut(slice, blocks, &mut source)?,
                    None => source.push(slice.clone()),
                }
            }
            parted.sources.push(source);
        }
        Ok(parted)
    }

    /// Cuts a slice between keys, as near as possible to the wanted blocks. All versions of a key
    /// stay together.
    fn cut(
        &mut self,
        slice: &Arc<Slice>,
        keeps: &[Range<usize>],
        source: &mut Vec<Arc<Slice>>,
    ) -> Result<()> {
        let resident = slice.extent.resident(Access::Blocking)?;
        let all = slice.meta.block_range();
        let part = |blocks: Range<usize>| {
            let meta = Arc::new(resident.slice(slice.meta.extent, blocks));
            Slice::new(meta, slice.extent.clone())
        };
        let between_keys = |mut at: usize| {
            while at > all.start && at < all.end && resident.goes_on(at - 1) {
                at += 1;
            }
            at
        };
        let mut from = all.start;
        for blocks in keeps {
            let kept = between_keys(blocks.start).max(from)..between_keys(blocks.end);
            if kept.is_empty() {
                continue;
            }
            if from < kept.start {
                source.push(part(from..kept.start));
            }
            from = kept.end;
            self.kept.push(part(kept));
        }
        if from < all.end {
            source.push(part(from..all.end));
        }
        Ok(())
    }
}

/// The smallest CSN in sources that may share keys with a range, other than the inputs (see
/// [`DropRule`]).
///
/// Versions that are installed later need not be considered: they are above the stable CSN, and so
/// above every tombstone in an extent.
pub(super) fn others_from<'a>(
    view: &View,
    (smallest, largest): (&[u8], &[u8]),
    inputs: impl Iterator<Item = &'a Arc<Slice>>,
) -> Csn {
    let inputs: FxHashSet<SliceId> = inputs.map(|slice| slice.meta.id()).collect();
    let near = view.levels.runs().flat_map(|run| run.between(smallest, largest));
    let others = near.filter(|slice| !inputs.contains(&slice.meta.id()));
    let memtables = view.memtables().map(|memtable| memtable.csn_min());
    others.map(|slice| slice.meta.counts.csn_min).chain(memtables).min().unwrap_or(Csn::MAX)
}

/// The edit of levels that replaces inputs by new slices at a place, and by the slices that stay. A
/// slice that stays at the same place is not part of the edit.
pub(super) fn edit_of<'a>(
    levels: &Levels,
    place: Place,
    inputs: impl Iterator<Item = &'a Arc<Slice>>,
    new: Vec<(Place, Arc<Slice>)>,
    stays: Vec<Arc<Slice>>,
) -> LevelsEdit {
    let (same, moved): (Vec<_>, Vec<_>) =
        stays.into_iter().partition(|slice| levels.is_at(place, slice));
    let same: FxHashSet<SliceId> = same.iter().map(|slice| slice.meta.id()).collect();
    let removed = inputs.filter(|slice| !same.contains(&slice.meta.id())).cloned().collect();
    let mut added = new;
    added.extend(moved.into_iter().map(|slice| (place, slice)));
    LevelsEdit { removed, added, ..LevelsEdit::default() }
}
