//! Flushes: a flush writes a memtable into extents (X-Engine, section 3.3.1).
//!
//! A flush is quick: it writes the memtable's versions in key order as a new sub-level of Level0,
//! without a merge.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use spillway_base::engine::FlushSpace;
use spillway_base::{Csn, ErrorKind, Result};

use super::change::Change;
use super::flush_schedule::AHEAD;
use super::pending_extents::PendingExtents;
use super::range_tombstones::{KnownTombstones, deleted_later, hidden_later};
use super::{Inner, create_edit};
use crate::compaction::{Coder, DropRule, MergeInput, SplitPoints};
use crate::level::LevelsEdit;
use crate::manifest::{Edit, Place};
use crate::memtable::Memtable;
use crate::picker::Conflicts;
use crate::ranges::RangeTombstones;
use crate::subtable::SubTable;
use crate::table::Table;
use crate::view::Immutable;

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
        let mut live = Vec::new();
        self.horizon.live_snapshots(&mut live);
        let others_from = {
            let view = part.view();
            let newer = view.memtables().filter(|other| !Arc::ptr_eq(other, &oldest.memtable));
            let newer_from = newer.map(|memtable| memtable.csn_min()).min();
            let alone = view.levels.is_empty();
            if alone { newer_from.unwrap_or(Csn::MAX) } else { Csn::ZERO }
        };
        let known = KnownTombstones::of(part, Some(&oldest.memtable), &live);
        let rewrite = table.rewrite(self.horizon.stable());
        let later = self.hidden_later(part, &oldest.memtable, &live);
        let with_later = (!later.is_empty()).then(|| known.all.union(&later));
        let ranges = with_later.as_ref().unwrap_or(&known.all);
        let rule = DropRule { live: &live, others_from, ranges, rewrite: rewrite.get() };
        let mut written =
            PendingExtents::begin(self, self.level_storage.class_at(Place::Level0(0)))?;
        let memtable = &*oldest.memtable;
        let cuts = self.cuts_of(part);
        let policy = self.settings.reuse_policy(Place::Level0(0), others_from);
        let blocks = policy.block_bytes;
        let source = MergeInput::of_memtable(memtable, part.range(), &rule, &cuts, blocks);
        let coder = Coder::new(self.level_storage.compression_at(Place::Level0(0)), None);
        let rules = (&rule, &known.ripe, &cuts);
        let place = Place::Level0(0);
        let (_, tally) = written.merge(table, vec![source], rules, policy, coder, place)?;
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
        let new = written.slices(table.id, Place::Level0(levels.next_sublevel()), 0)?;
        let mut edit = LevelsEdit { added: new, ..LevelsEdit::default() };
        edit.ranges = known.after(part, &edit, part.range(), others_from, Some(&oldest.memtable));
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
            edits.extend(manifest.state().edit_of_rewrite(rewrite.since()));
            written.commit(&mut manifest, edits)?;
            table.recorded.store(true, Ordering::Release);
            self.persistence.note_recorded(persisted);
        }
        change.apply();
        part.edit(&edit, Some((&oldest.memtable, flushed)));
        change.retire();
        drop(manifest);
        self.refresh_debt();
        self.statistics.note_flush(written.bytes, &tally);
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
