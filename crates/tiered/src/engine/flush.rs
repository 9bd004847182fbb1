//! Flushes: a flush writes a memtable into extents (X-Engine, section 3.3.1).
//!
//! A flush is quick: it writes the memtable's versions in key order as a new sub-level of Level0,
//! without a merge. It merges the memtable with Level1 instead if this is cheap. The merge is cheap
//! if flushes are not behind, Level0 has no keys in the memtable's range, and the slices of Level1
//! in this range have at most half of the memtable's bytes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use spillway_base::engine::FlushSpace;
use spillway_base::{Csn, ErrorKind, Result};

use super::cache_warming::WarmTables;
use super::change::Change;
use super::flush_schedule::AHEAD;
use super::pending_extents::PendingExtents;
use super::range_tombstones::{KnownTombstones, deleted_later, hidden_later, range_of};
use super::work::{edit_of, others_from};
use super::{Inner, create_edit};
use crate::compaction::{Coder, DropRule, MergeInput, SplitPoints};
use crate::level::{InheritedReads, LevelsEdit, Slice};
use crate::manifest::{Edit, Place};
use crate::memtable::Memtable;
use crate::picker::Conflicts;
use crate::ranges::RangeTombstones;
use crate::settings::TieredSettings;
use crate::subtable::{Compacting, SubTable};
use crate::table::Table;
use crate::view::Immutable;
use crate::write_load::MARKS;

/// The target of a flush.
enum FlushTarget {
    /// A new sub-level of Level0.
    Level0,
    /// Level1, merged with these slices of it.
    Level1 { held: Compacting, inputs: Vec<Arc<Slice>>, hull: (Box<[u8]>, Box<[u8]>) },
}

/// The first and the last of a sub-table's keys in a memtable.
fn keys_of(memtable: &Memtable, part: &SubTable) -> Option<(Box<[u8]>, Box<[u8]>)> {
    let range = part.range();
    let first = memtable.key(memtable.seek(range.start)).filter(|key| range.contains(key))?;
    let last = memtable.key(memtable.seek_before(range.end)).filter(|key| range.contains(key))?;
    Some((first.into(), last.into()))
}

/// Level1 as the target of a memtable's flush, if a merge with it is cheap. Otherwise Level0.
fn cheap_target(part: &Arc<SubTable>, memtable: &Memtable) -> FlushTarget {
    let Some((first, last)) = keys_of(memtable, part) else { return FlushTarget::Level0 };
    let held = part.take_keys(|bars| {
        let levels = part.view().levels.clone();
        let mut level0 = levels.level0.iter();
        let inputs = levels.level1.between(&first, &last).to_vec();
        let bytes: u64 = inputs.iter().map(|slice| slice.meta.bytes).sum();
        let is_cheap = level0.all(|sublevel| sublevel.run.between(&first, &last).is_empty())
            && bytes * 2 <= memtable.bytes() as u64;
        let smallest =
            inputs.first().map_or(&*first, |slice| first.as_ref().min(&slice.meta.smallest));
        let largest = inputs.last().map_or(&*last, |slice| last.as_ref().max(&slice.meta.largest));
        let hull = (smallest.into(), largest.into());
        (is_cheap && !bars.overlap(smallest, largest)).then_some((hull, inputs))
    });
    match held {
        Some((held, hull, inputs)) => FlushTarget::Level1 { held, inputs, hull },
        None => FlushTarget::Level0,
    }
}

impl Inner {
    /// Flushes the largest memtable that is the oldest of its sub-table and may be flushed (E7).
    /// Several threads flush different sub-tables in parallel.
    pub(super) fn flush_one(&self) -> Result<bool> {
        let stable = self.horizon.stable();
        let parts = self.tables.all_parts();
        let ready = |part: &SubTable| self.flushes.ready(part, stable);
        let waiting = parts.iter().filter_map(|(table, part)| Some((table, part, ready(part)?)));
        let mut waiting: Vec<_> =
            waiting.map(|(table, part, oldest)| (oldest.memtable.bytes(), table, part)).collect();
        waiting.sort_unstable_by_key(|(bytes, ..)| std::cmp::Reverse(*bytes));
        let (mut outcome, mut met_full_disk, mut is_tried) = (Ok(false), false, waiting.is_empty());
        for (_, table, part) in waiting {
            let Some(_flushing) = self.flushes.begin(part) else { continue };
            // Another thread may have flushed it since, or split its sub-table.
            let Some(oldest) = ready(part) else { continue };
            let flushed = self.flush(table, part, &oldest);
            let full = flushed.as_ref().is_err_and(|error| error.kind() == ErrorKind::DiskFull);
            (met_full_disk, is_tried) = (met_full_disk || full, true);
            outcome = flushed.map(|()| true);
            // A smaller memtable may fit, or need no space.
            if !full {
                break;
            }
        }
        if is_tried {
            self.flushes.note_end(met_full_disk);
        }
        outcome
    }

    pub(super) fn flush(
        &self,
        table: &Arc<Table>,
        part: &Arc<SubTable>,
        oldest: &Immutable,
    ) -> Result<()> {
        // If flushes are behind, they do not merge.
        let is_behind = self.write_buffer.flush_debt() > 0.0;
        let way = match self.settings.straight_flush && !table.is_gone() && !is_behind {
            true => cheap_target(part, &oldest.memtable),
            false => FlushTarget::Level0,
        };
        let inputs = match &way {
            FlushTarget::Level0 => Vec::new(),
            FlushTarget::Level1 { inputs, .. } => inputs.clone(),
        };
        match self.flush_by(table, part, oldest, way) {
            // A slice of Level1 cannot be read. The memtable goes to Level0, where it is as safe
            // (E8).
            Err(error)
                if matches!(error.kind(), ErrorKind::Corruption | ErrorKind::Io)
                    && !inputs.is_empty() =>
            {
                self.quarantine(part, &inputs, &error);
                self.flush_by(table, part, oldest, FlushTarget::Level0)
            }
            flushed => flushed,
        }
    }

    fn flush_by(
        &self,
        table: &Arc<Table>,
        part: &Arc<SubTable>,
        oldest: &Immutable,
        way: FlushTarget,
    ) -> Result<()> {
        let mut live = Vec::new();
        self.horizon.live_snapshots(&mut live);
        let (inputs, others_from) = match &way {
            FlushTarget::Level1 { inputs, hull, .. } => {
                let (hull, without) = ((&*hull.0, &*hull.1), Some(&oldest.memtable));
                (inputs.clone(), others_from(&part.view(), hull, inputs.iter(), without))
            }
            FlushTarget::Level0 => {
                let view = part.view();
                let newer = view.memtables().filter(|other| !Arc::ptr_eq(other, &oldest.memtable));
                let newer_from = newer.map(|memtable| memtable.csn_min()).min();
                let alone = view.levels.is_empty();
                let others_from = if alone { newer_from.unwrap_or(Csn::MAX) } else { Csn::ZERO };
                (Vec::new(), others_from)
            }
        };
        let known = KnownTombstones::of(part, Some(&oldest.memtable), &live);
        let rewrite = table.rewrite(self.horizon.stable());
        let rewrite = rewrite.as_deref();
        let later = self.hidden_later(part, &oldest.memtable, &live);
        let with_later = (!later.is_empty()).then(|| known.all.union(&later));
        let ranges = with_later.as_ref().unwrap_or(&known.all);
        let rule = DropRule { live: &live, others_from, ranges, rewrite };
        let mut written =
            PendingExtents::begin(self, self.level_storage.class_at(Place::Level0(0)))?;
        written.warm = self.settings.warm_tables.then(|| WarmTables::of_flush(table.id));
        // A tombstone is not dropped before the merge: it may hide versions in the other inputs.
        let alone = if inputs.is_empty() { others_from } else { Csn::ZERO };
        let alone = DropRule { others_from: alone, ..rule };
        // Blocks that go directly to Level1 get the form of Level2's blocks: little overlaps them
        // there, so they will likely go to Level2 unchanged.
        let place =
            if matches!(way, FlushTarget::Level0) { Place::Level0(0) } else { Place::Level2 };
        let policy = self.settings.reuse_policy(place, others_from);
        let memtable = &*oldest.memtable;
        // A memtable that goes to Level1 has no keys of damaged ranges.
        let cuts = match &way {
            FlushTarget::Level0 => self.cuts_of(part),
            FlushTarget::Level1 { .. } => SplitPoints::default(),
        };
        let blocks = policy.block_bytes;
        let mut sources =
            vec![MergeInput::of_memtable(memtable, part.range(), &alone, &cuts, blocks)];
        if !inputs.is_empty() {
            sources.push(MergeInput::of_slices(inputs.clone(), &written.bulk));
        }
        let coder = Coder::new(self.level_storage.compression_at(Place::Level0(0)), None);
        let rules = (&rule, &known.ripe, &cuts);
        let (stays, tally) = written.merge(table, sources, rules, policy, coder, place)?;
        // Recovery needs nothing of a table that the manifest has dropped.
        match table.is_gone() {
            true => written.finish()?,
            false => written.sync()?,
        }
        let mut manifest = self.persistence.record(&self.health)?;
        if !self.tables.contains(table) {
            return Ok(());
        }
        let levels = part.view().levels.clone();
        let mut past = Vec::new();
        let (place, keys) = match &way {
            FlushTarget::Level0 => (Place::Level0(levels.next_sublevel()), part.range()),
            FlushTarget::Level1 { hull, .. } => {
                (Place::Level1, range_of((&*hull.0, &*hull.1), &mut past))
            }
        };
        let new = written.slices(table.id, place, 0)?;
        let fresh: Vec<_> = new.iter().map(|(_, slice)| slice.clone()).collect();
        InheritedReads::of(inputs.iter(), &stays).pass_to(new.iter().map(|(_, slice)| slice));
        let mut edit: LevelsEdit = edit_of(&levels, place, inputs.iter(), new, stays);
        edit.ranges = known.after(part, &edit, keys, others_from, Some(&oldest.memtable));
        edit.newest_from = memtable.csn_max();
        let change = Change::of(&edit);
        // A crash may discard a commit above the stable CSN, and another commit then gets its CSN.
        // So no file may record a CSN above the stable CSN.
        let flushed = oldest.watermark.min(self.horizon.stable());
        if table.is_gone() {
            written.extents.clear();
        } else {
            let mut edits = change.edits(table, &edit, &levels.ranges);
            if !table.recorded.load(Ordering::Acquire) {
                edits.insert(0, create_edit(table));
            }
            let persisted =
                self.tables.persisted(&*self.horizon, &[], Some((part, &oldest.memtable)));
            let start = part.start.clone();
            edits.push(Edit::Flushed { table: table.id, start, csn: flushed });
            edits.push(Edit::Persisted { csn: persisted });
            written.commit(&mut manifest, edits)?;
            table.recorded.store(true, Ordering::Release);
            self.persistence.note_recorded(persisted);
        }
        change.apply();
        part.edit(&edit, Some((&oldest.memtable, flushed)));
        change.retire();
        drop(manifest);
        let is_straight = matches!(way, FlushTarget::Level1 { .. });
        if let FlushTarget::Level1 { held, .. } = way {
            drop(held);
        }
        self.refresh_debt();
        let flushed = self.statistics.note_flush(written.bytes, &tally, is_straight);
        note_write_load(&self.settings, part, &fresh, written.bytes, flushed);
        self.context.thermometer.note_written(written.bytes, self.settings.half_life());
        Ok(())
    }

    /// Notes whether the devices may soon lack the space for the memtables (FLUSH-SCHEDULE-4).
    pub(super) fn note_flush_space(&self) {
        let ahead = AHEAD * self.write_buffer.limit() as u64;
        self.flushes.note_space(self.flushes.met_full_disk() || self.space.room() < ahead);
    }

    /// See [`spillway_base::engine::Engine::flush_space`].
    pub(super) fn flush_space(&self, bytes: u64) -> FlushSpace {
        let (room, unflushed) = (self.space.room(), self.write_buffer.unflushed() as u64);
        // With less than a slot, more flushes would only make small extents.
        let least = bytes + self.space.slot_bytes() as u64;
        if room >= (unflushed + bytes).max(least) {
            FlushSpace::Enough
        } else if room < least || self.flushes.met_full_disk() {
            FlushSpace::Lacking
        } else {
            FlushSpace::AfterFlush
        }
    }

    /// The tombstones of later memtables, if they are durable and every live snapshot sees them. A
    /// flush drops the versions that they hide (RANGE-TOMBSTONE-9). Tombstones of single keys are
    /// among them only while space is short.
    fn hidden_later(
        &self,
        part: &SubTable,
        flushed: &Arc<Memtable>,
        live: &[Csn],
    ) -> RangeTombstones {
        let ranges = hidden_later(part, Some(flushed), live);
        match self.compaction_shapes.seeks_space() {
            true => ranges.union(&deleted_later(part, flushed, live)),
            false => ranges,
        }
    }

    /// The keys before which a flush of a sub-table cuts its output: the ends of the damaged key
    /// ranges (COMPACTION-6), and while space is short, keys between the slices below
    /// (COMPACTION-7).
    fn cuts_of(&self, part: &SubTable) -> SplitPoints {
        let mut damaged = Conflicts::default();
        part.bar_damaged(&mut damaged);
        let mut cuts = damaged.edges();
        if self.compaction_shapes.seeks_space() {
            let view = part.view();
            let slices = view.levels.places().map(|(_, slice)| &slice.meta);
            let mut slices: Vec<_> = slices.map(|meta| (&meta.smallest, meta.bytes)).collect();
            slices.sort_unstable();
            let mut bytes = 0;
            for (smallest, more) in slices {
                if bytes >= self.space.slot_bytes() as u64 / 2 {
                    cuts.push(smallest.clone());
                    bytes = 0;
                }
                bytes += more;
            }
            cuts.sort_unstable();
            cuts.dedup();
        }
        SplitPoints::before(cuts)
    }
}

/// Adds a flush of these slices to the write load of its sub-table. `flushed` is the number of
/// bytes flushed in all, with this flush.
fn note_write_load(
    settings: &TieredSettings,
    part: &SubTable,
    fresh: &[Arc<Slice>],
    bytes: u64,
    flushed: u64,
) {
    // With one core, it does not matter where writes go.
    let marks = if settings.write_cores > 1 { marks_of(fresh) } else { Vec::new() };
    part.write_load.add(bytes, flushed, settings.half_life(), marks.iter().map(|key| &**key));
}

/// Keys from the middles of about equal parts of some slices. Slices whose block index is not
/// cached give none; cache warming inserts the indexes of flushed slices (CACHE-WARMING-1). This
/// reads no device.
fn marks_of(slices: &[Arc<Slice>]) -> Vec<Box<[u8]>> {
    let all: usize = slices.iter().map(|slice| slice.meta.blocks as usize).sum();
    let mut marks = Vec::new();
    let mut before = 0;
    for slice in slices {
        let blocks = slice.meta.block_range();
        // The middle of each part, as a number of blocks from the first.
        let wanted = (0..MARKS).map(|part| (2 * part + 1) * all / (2 * MARKS));
        let mut within =
            wanted.filter(|at| (before..before + blocks.len()).contains(at)).peekable();
        if within.peek().is_some()
            && let Some(resident) = slice.extent.resident_now()
        {
            marks.extend(within.map(|at| resident.first(blocks.start + at - before).into()));
        }
        before += blocks.len();
    }
    marks
}
