//! The background work itself: recording and reaping tables, flushing, compacting.
//!
//! Each piece ends in one manifest edit, and is published to readers after that is durable. A crash before the
//! edit leaves slots that nothing refers to, which are free again at the next opening.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use spillway_base::{Csn, Result};

use super::{Inner, create_edit};
use crate::block::Entry;
use crate::extent::{BuiltExtent, ExtentBuilder, ExtentHandle};
use crate::extent_meta::ExtentId;
use crate::level::LevelsEdit;
use crate::manifest::{Edit, Place};
use crate::merge::{DropRule, Versions, merge};
use crate::picker::{Pick, Segment, plan};
use crate::space::SlotRun;
use crate::table::{Immutable, Table};

/// Extents written and not yet recorded; their slots go back if they never are.
struct Written<'a> {
    inner: &'a Inner,
    extents: Vec<crate::extent_meta::ExtentMeta>,
    files: Vec<u32>,
    bytes: u64,
}

impl Drop for Written<'_> {
    fn drop(&mut self) {
        self.extents.iter().for_each(|meta| self.inner.space.release(meta.slots));
    }
}

impl Written<'_> {
    fn write(&mut self, mut built: BuiltExtent) -> Result<()> {
        let space = &self.inner.space;
        let slots: SlotRun = space.allocate(built.meta.slots.count)?;
        built.meta.slots = slots;
        let (file, offset) = space.locate(slots)?;
        self.bytes += built.bytes.len() as u64;
        // From here on the slots go back if this fails.
        self.extents.push(built.meta);
        file.write_at(offset, &built.bytes)?;
        if !self.files.contains(&slots.file) {
            self.files.push(slots.file);
        }
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.files.iter().try_for_each(|&file| {
            self.inner.space.locate(SlotRun { file, first: 0, count: 1 })?.0.sync()
        })
    }
}

impl Inner {
    /// Tells the manifest of new tables.
    pub(super) fn record_tables(&self) -> Result<bool> {
        let tables = self.tables.load_full();
        let new = |table: &&Arc<Table>| !table.recorded.load(Ordering::Acquire);
        if !tables.values().any(|table| new(&table)) {
            return Ok(false);
        }
        let mut manifest = self.manifest.lock();
        let fresh: Vec<_> = tables.values().filter(new).cloned().collect();
        let edits: Vec<Edit> = fresh.iter().map(|table| create_edit(table)).collect();
        if edits.is_empty() {
            return Ok(false);
        }
        manifest.commit(edits)?;
        fresh.iter().for_each(|table| table.recorded.store(true, Ordering::Release));
        Ok(true)
    }

    /// Removes dropped tables that nobody can see any more.
    pub(super) fn reap_tables(&self) -> Result<bool> {
        let tables = self.tables.load_full();
        if tables.values().all(|table| table.dropped() == Csn::MAX) {
            return Ok(false);
        }
        let mut live = Vec::new();
        self.horizon.live_snapshots(&mut live);
        let oldest = live.first().copied().unwrap_or_default();
        let mut manifest = self.manifest.lock();
        let gone: Vec<Arc<Table>> = self
            .tables
            .load()
            .values()
            .filter(|table| table.dropped() <= oldest && !table.compacting.load(Ordering::Acquire))
            .cloned()
            .collect();
        if gone.is_empty() {
            return Ok(false);
        }
        let known = gone.iter().filter(|table| manifest.state().tables.contains_key(&table.id));
        let edits: Vec<Edit> = known.map(|table| Edit::DropTable { table: table.id }).collect();
        if !edits.is_empty() {
            manifest.commit(edits)?;
        }
        self.change_tables(|tables| gone.iter().for_each(|table| drop(tables.remove(&table.id))));
        for table in &gone {
            table.view().levels.places().for_each(|(_, extent)| extent.mark_obsolete());
        }
        drop((tables, gone));
        self.space.shrink()?;
        Ok(true)
    }

    /// Flushes one table's oldest memtable, if one may be flushed (E7).
    pub(super) fn flush_one(&self) -> Result<bool> {
        let Some(_flushing) = self.flushing.try_lock() else { return Ok(false) };
        let stable = self.horizon.stable();
        let tables = self.tables.load_full();
        let ready = tables.values().filter_map(|table| {
            let oldest = table.view().immutables.last()?.clone();
            let may = oldest.memtable.is_quiet()
                && oldest.memtable.csn_max() <= stable
                && table.dropped() == Csn::MAX;
            may.then(|| (table.clone(), oldest))
        });
        let Some((table, oldest)) = ready.max_by_key(|(_, oldest)| oldest.memtable.bytes()) else {
            return Ok(false);
        };
        self.flush(&table, &oldest)?;
        Ok(true)
    }

    fn flush(&self, table: &Arc<Table>, oldest: &Immutable) -> Result<()> {
        let mut live = Vec::new();
        self.horizon.live_snapshots(&mut live);
        let rule = DropRule { live: &live, bottom: table.view().levels.is_empty() };
        let mut written = self.written();
        self.write_merged(
            table,
            vec![Versions::of_memtable(&oldest.memtable)],
            &rule,
            &mut written,
        )?;
        written.sync()?;
        let mut manifest = self.manifest.lock();
        let place = Place::Level0(table.view().levels.next_sublevel());
        let edit = LevelsEdit { removed: Vec::new(), added: self.handles(table, place, &written)? };
        let mut edits = edits_of(table, &edit);
        if !table.recorded.load(Ordering::Acquire) {
            edits.insert(0, create_edit(table));
        }
        edits.push(Edit::Flushed { table: table.id, csn: oldest.watermark });
        edits.push(Edit::Persisted { csn: self.compute_persisted() });
        manifest.commit(edits)?;
        written.extents.clear();
        table.recorded.store(true, Ordering::Release);
        table.edit(&edit, Some(oldest));
        self.counts.flushes.fetch_add(1, Ordering::Relaxed);
        self.counts.flushed_bytes.fetch_add(written.bytes, Ordering::Relaxed);
        Ok(())
    }

    fn written(&self) -> Written<'_> {
        Written { inner: self, extents: Vec::new(), files: Vec::new(), bytes: 0 }
    }

    /// A number for a new extent. One that is never recorded may be given again after a restart.
    fn new_extent_id(&self) -> ExtentId {
        ExtentId(self.next_extent.fetch_add(1, Ordering::Relaxed))
    }

    /// Merges versions into extents.
    fn write_merged(
        &self,
        table: &Table,
        sources: Vec<Versions<'_>>,
        rule: &DropRule<'_>,
        written: &mut Written<'_>,
    ) -> Result<()> {
        let mut builder = ExtentBuilder::new(table.id, self.space.slot_bytes());
        merge(sources, rule, &mut |entry: &Entry<'_>| {
            if builder.is_full_for(entry) {
                written.write(builder.finish(self.new_extent_id()))?;
            }
            builder.push(entry);
            Ok(())
        })?;
        if !builder.is_empty() {
            written.write(builder.finish(self.new_extent_id()))?;
        }
        Ok(())
    }

    fn handles(
        &self,
        table: &Table,
        place: Place,
        written: &Written<'_>,
    ) -> Result<Vec<(Place, Arc<ExtentHandle>)>> {
        let extents = written.extents.iter();
        extents
            .map(|meta| {
                let handle = ExtentHandle::new(table.id, meta.clone(), &self.space, &self.context)?;
                Ok((place, handle))
            })
            .collect()
    }

    /// Compacts the table that needs it most.
    pub(super) fn compact_one(&self) -> Result<bool> {
        let shape = self.settings.shape();
        let tables = self.tables.load_full();
        let mut candidates: Vec<(f64, &Arc<Table>)> = tables
            .values()
            .filter(|table| table.dropped() == Csn::MAX)
            .filter_map(|table| Some((shape.urgency(&table.view().levels)?, table)))
            .collect();
        candidates.sort_by(|a, b| b.0.total_cmp(&a.0));
        for (_, table) in candidates {
            if table.compacting.swap(true, Ordering::AcqRel) {
                continue;
            }
            let pick = shape.pick(&table.view().levels);
            let outcome = pick.map(|pick| self.compact(table, &pick)).transpose();
            table.compacting.store(false, Ordering::Release);
            if outcome?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(super) fn compact_fully(&self, table: &Arc<Table>) -> Result<()> {
        while table.compacting.swap(true, Ordering::AcqRel) {
            std::thread::yield_now();
        }
        let pick = self.settings.shape().pick_full(&table.view().levels);
        let outcome = pick.map_or(Ok(()), |pick| self.compact(table, &pick));
        table.compacting.store(false, Ordering::Release);
        outcome
    }

    fn compact(&self, table: &Arc<Table>, pick: &Pick) -> Result<()> {
        let mut live = Vec::new();
        self.horizon.live_snapshots(&mut live);
        let levels = table.view().levels.clone();
        let bottom = pick.target == Place::Level2 || levels.level2.extents().is_empty();
        let rule = DropRule { live: &live, bottom };
        let mut written = self.written();
        let mut relinked = Vec::new();
        let mut read = 0;
        let clean = |extent: &ExtentHandle| {
            extent.meta.versions == extent.meta.keys && (!bottom || extent.meta.tombstones == 0)
        };
        for segment in plan(pick, self.space.slot_bytes() as u64, clean) {
            match segment {
                Segment::Relink(extent) => relinked.push(extent),
                Segment::Merge(sources) => {
                    read += sources.iter().flatten().map(|extent| extent.meta.len).sum::<u64>();
                    let sources = sources
                        .into_iter()
                        .map(Versions::of_extents)
                        .collect::<Result<Vec<_>>>()?;
                    self.write_merged(table, sources, &rule, &mut written)?;
                }
            }
        }
        written.sync()?;
        let mut manifest = self.manifest.lock();
        let mut added = self.handles(table, pick.target, &written)?;
        added.extend(relinked.iter().map(|extent| (pick.target, extent.clone())));
        let edit = LevelsEdit { removed: pick.inputs().cloned().collect(), added };
        manifest.commit(edits_of(table, &edit))?;
        written.extents.clear();
        table.edit(&edit, None);
        drop(manifest);
        let stays = |extent: &Arc<ExtentHandle>| {
            relinked.iter().any(|other| other.meta.id == extent.meta.id)
        };
        pick.inputs().filter(|extent| !stays(extent)).for_each(|extent| extent.mark_obsolete());
        self.counts.compactions[pick.kind as usize].fetch_add(1, Ordering::Relaxed);
        self.counts.compaction_read_bytes.fetch_add(read, Ordering::Relaxed);
        self.counts.compaction_written_bytes.fetch_add(written.bytes, Ordering::Relaxed);
        self.counts.relinked_extents.fetch_add(relinked.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Begins a fresh manifest when the old one is long.
    pub(super) fn rewrite_manifest(&self) -> Result<bool> {
        let mut manifest = self.manifest.lock();
        if !manifest.is_long() {
            return Ok(false);
        }
        manifest.rewrite()?;
        Ok(true)
    }
}

/// The manifest's edits for a change of a table's levels.
fn edits_of(table: &Table, edit: &LevelsEdit) -> Vec<Edit> {
    let id = table.id;
    let removed = edit.removed.iter();
    let removed = removed.map(|extent| Edit::RemoveExtent { table: id, id: extent.meta.id });
    let added = edit.added.iter().map(|(place, extent)| Edit::AddExtent {
        table: id,
        place: *place,
        meta: extent.meta.clone(),
    });
    removed.chain(added).collect()
}
