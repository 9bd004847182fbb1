//! Extents that were written and that the manifest does not record yet.

use std::sync::Arc;

use spillway_base::clock::Clock;
use spillway_base::{Error, ErrorKind, Result, TableId};

use super::Inner;
use super::pace::{Pace, SYNC_BYTES};
use crate::bulk_io::Bulk;
use crate::compaction::{
    Coder, DropRule, MergeInput, MergeResult, MergeWriter, Output, Planner, Policy, SplitPoints,
    Tally,
};
use crate::extent::{BuiltExtent, ExtentBuilder, ExtentHandle};
use crate::extent_meta::{ExtentMeta, SliceMeta};
use crate::level::Slice;
use crate::manifest::{Edit, Manifest, Place};
use crate::picker::Kind;
use crate::ranges::RangeTombstones;
use crate::settings::TieredSettings;
use crate::space::{DeviceClass, SlotRun};
use crate::table::Table;

/// Written extents that are not recorded yet. If they are never recorded, their slots are freed.
pub(super) struct PendingExtents<'a> {
    inner: &'a Inner,
    /// The class of device that they should be on.
    class: DeviceClass,
    pub(super) extents: Vec<(ExtentMeta, Vec<SliceMeta>)>,
    pub(super) bulk: Bulk,
    files: Vec<u32>,
    pub(super) bytes: u64,
    /// How many of these bytes were synced.
    synced_bytes: u64,
    /// The pauses between extents, for work that should not slow other work.
    pace: Option<Pace>,
}

impl Drop for PendingExtents<'_> {
    fn drop(&mut self) {
        // No write may be in flight to slots that are freed.
        let _ = self.bulk.finish_writes();
        self.extents.iter().for_each(|(meta, _)| self.inner.space.release(meta.slots));
    }
}

impl<'a> PendingExtents<'a> {
    /// Begins without extents, for devices of a class.
    ///
    /// # Errors
    /// As [`Bulk::new`].
    pub(super) fn begin(inner: &'a Inner, class: DeviceClass) -> Result<PendingExtents<'a>> {
        Ok(PendingExtents {
            inner,
            class,
            bulk: inner.space.bulk(
                &inner.write_buffer.accounts().budget,
                inner.settings.overlapped_compactions,
                inner.settings.direct_reads,
            )?,
            extents: Vec::new(),
            files: Vec::new(),
            bytes: 0,
            synced_bytes: 0,
            pace: None,
        })
    }

    /// The bytes of a slot.
    pub(super) fn slot_bytes(&self) -> usize {
        self.inner.space.slot_bytes()
    }

    /// Writes the next extents to the class of device for data at a place.
    pub(super) fn begin_place(&mut self, place: Place) {
        self.class = self.inner.level_storage.class_at(place);
    }

    /// Pauses between extents as a compaction of this kind does. A compaction runs at full speed if
    /// a caller has requested it and waits for it, or if there are no background threads.
    pub(super) fn set_pace(&mut self, kind: Kind) {
        let is_paced = self.inner.settings.paced_compaction && kind != Kind::Full;
        let paced = is_paced && !self.inner.wakeups.is_alone();
        self.pace = paced.then(|| Pace::begin(&Clock::system()));
    }

    /// Merges sources into extents. Returns the slices of the sources that stay where they are.
    pub(super) fn merge(
        &mut self,
        table: &Table,
        sources: Vec<MergeInput<'_>>,
        (rule, ripe, cuts): (&DropRule<'_>, &RangeTombstones, &SplitPoints),
        policy: Policy,
        coder: Coder,
        place: Place,
    ) -> Result<(Vec<Arc<Slice>>, Tally)> {
        let inner = self.inner;
        let mut builder = ExtentBuilder::new(table.id, self.slot_bytes(), coder.coding());
        if !TieredSettings::has_range_filters(place) {
            builder = builder.without_range_filters();
        }
        let accelerator = inner.accelerator.load_full();
        let weaver = MergeWriter::new(builder, rule, policy, &**accelerator, coder, self);
        let mut weaver = weaver.cut_at(cuts);
        let mut planner = Planner::new(sources, policy, ripe).cut_at(cuts);
        while let Some(step) = planner.next()? {
            weaver.take(step)?;
        }
        let gone = planner.gone();
        inner.statistics.note_hidden(gone.slices, gone.bytes);
        let MergeResult { stays, tally, refusal } = weaver.finish()?;
        if let Some(refusal) = refusal {
            table.note_refusal(refusal);
        }
        Ok((stays, tally))
    }

    /// The slices at a place of the written extents, from the extent with index `from` on.
    pub(super) fn slices(
        &self,
        table: TableId,
        place: Place,
        from: usize,
    ) -> Result<Vec<(Place, Arc<Slice>)>> {
        let mut all = Vec::new();
        for (meta, slices) in &self.extents[from..] {
            let (space, context) = (&self.inner.space, &self.inner.context);
            let extent = ExtentHandle::new(table, meta.clone(), space, context)?;
            all.extend(
                slices
                    .iter()
                    .map(|meta| (place, Slice::new(Arc::new(meta.clone()), extent.clone()))),
            );
        }
        Ok(all)
    }

    /// Records edits, including those of the written extents. On a full disk the extents' slots are
    /// freed. After any other failure it is unknown whether the edits are recorded, so the slots
    /// are not used again before the next opening.
    pub(super) fn commit(&mut self, manifest: &mut Manifest, edits: Vec<Edit>) -> Result<()> {
        let outcome = manifest.commit(edits);
        if outcome.as_ref().is_err_and(|error| error.kind() != ErrorKind::DiskFull) {
            self.extents.clear();
        }
        outcome?;
        self.extents.clear();
        Ok(())
    }

    fn put(&mut self, mut built: BuiltExtent) -> Result<()> {
        // A long merge ends early if the engine has failed.
        self.inner.health.check()?;
        let space = &self.inner.space;
        let (count, bytes) = (built.meta.slots.count, built.bytes.len() as u64);
        let slots = space.allocate_for(count, bytes, self.class).map_err(stopped)?;
        built.meta.slots = slots;
        if self.inner.compaction_shapes.seeks_space() {
            // A failure leaves the space where it is.
            let _ = space.trim(slots, bytes);
        }
        self.put_at(built.meta, built.slices, &built.bytes)
    }

    /// Writes an extent into its slots, which are reserved. If the extent is never recorded, its
    /// slots are freed from now on.
    pub(super) fn put_at(
        &mut self,
        meta: ExtentMeta,
        slices: Vec<SliceMeta>,
        bytes: &[u8],
    ) -> Result<()> {
        let slots = meta.slots;
        self.extents.push((meta, slices));
        let (file, offset) = self.inner.space.locate(slots)?;
        self.bulk.write(file.file(), offset, bytes).map_err(stopped)?;
        self.bytes += bytes.len() as u64;
        if !self.files.contains(&slots.file) {
            self.files.push(slots.file);
        }
        self.rest()
    }

    /// Leaves the device and the processor to other work for a while, if this work can wait.
    fn rest(&mut self) -> Result<()> {
        if self.pace.is_some() && self.bytes - self.synced_bytes >= SYNC_BYTES {
            self.sync()?;
        }
        if let Some(pace) = &mut self.pace {
            let inner = self.inner;
            let has_failed = || inner.health.check().is_err();
            let doze = |time| inner.wakeups.doze(time, has_failed);
            pace.rest(&Clock::system(), || inner.debt().total(), doze);
        }
        Ok(())
    }

    /// Waits until all is written.
    pub(super) fn finish(&mut self) -> Result<()> {
        self.bulk.finish_writes().map_err(stopped)
    }

    /// Waits until all is written and durable.
    pub(super) fn sync(&mut self) -> Result<()> {
        self.finish()?;
        self.synced_bytes = self.bytes;
        self.files.iter().try_for_each(|&number| {
            let (file, _) =
                self.inner.space.locate(SlotRun { file: number, first: 0, count: 1 })?;
            file.sync()
        })
    }
}

impl Output for PendingExtents<'_> {
    fn write(&mut self, extent: &mut ExtentBuilder) -> Result<()> {
        let id = self.inner.persistence.new_extent_id();
        self.put(extent.finish(id))
    }
}

/// Marks a failure to write as one that ends the background work (E8). A failure to read does not
/// end it.
pub(super) fn stopped(error: Error) -> Error {
    if matches!(error.kind(), ErrorKind::DiskFull | ErrorKind::WritesStopped) {
        return error;
    }
    Error::new(ErrorKind::WritesStopped, format!("a data file cannot be written: {error}"))
}
