//! Folding: the background job that writes an overlay's rows into their tables, and deletes spilled
//! rows that nothing needs any more.

use std::sync::Arc;

use spillway_base::batch::{Op, WriteBatch};
use spillway_base::engine::{Access, Found};
use spillway_base::{Csn, Direction, ErrorKind, KeyRange, Result, TableId};

use super::CHUNK_BYTES;
use super::write_set::write;
use crate::options::Durability;
use crate::overlay::{FoldProgress, LayerCursor, Overlay, SPILL, record_key, rows_of};
use crate::pipeline::{RELAXED, Terms};
use crate::shared::{Admission, Shared};

/// The most rows in one commit of a fold. The commit holds the gate while it checks them, so no
/// other commit takes a CSN meanwhile.
const CHUNK_ROWS: usize = 1000;

type Row = (Vec<u8>, Option<Vec<u8>>);

impl Shared {
    /// Attaches the overlays found at an opening, before any reader or writer.
    pub(crate) fn open_overlays(&self, stable: Csn) -> Result<()> {
        let Ok(engine) = self.engines.of(SPILL) else { return Ok(()) };
        self.overlays.open(&**engine, stable, &self.snapshots)
    }

    /// Does one step of folding, or deletes one discarded spill. Returns `false` if there is
    /// nothing to do now.
    ///
    /// # Errors
    /// As a commit. The next call retries a failed step.
    pub(crate) fn fold_step(&self) -> Result<bool> {
        let Some(mut progress) = self.folder.0.try_lock() else { return Ok(false) };
        let discarded = self.overlays.discarded.lock().last().copied();
        if let Some(id) = discarded {
            self.delete_spill(id)?;
            self.overlays.discarded.lock().retain(|other| *other != id);
            return Ok(true);
        }
        // The list is loaded anew at each step, and not kept: a list keeps its overlays, and these
        // keep their pinned snapshots.
        let Some(overlay) = self.overlays.all().first().cloned() else { return Ok(false) };
        if progress.as_ref().is_none_or(|progress| progress.id != overlay.id) {
            if overlay.csn > self.snapshots.stable_csn() {
                return Ok(false);
            }
            *progress = Some(FoldProgress::of(&overlay));
        }
        let Some(of) = &mut *progress else { return Ok(false) };
        if let Some(table) = of.tables.last().copied() {
            self.fold_chunk(&overlay, of, table)?;
            return Ok(true);
        }
        if self.snapshots.oldest_read() < of.folded {
            self.flush_within(RELAXED);
            return Ok(false);
        }
        let Some(ended) = of.ended else {
            of.ended = Some(self.delete_spill(of.id)?);
            return Ok(true);
        };
        if self.snapshots.stable_csn() < ended {
            self.flush_within(RELAXED);
            return Ok(false);
        }
        self.overlays.detach(of.id);
        *progress = None;
        Ok(true)
    }

    /// Deletes a spill's rows and its record.
    fn delete_spill(&self, id: u64) -> Result<Csn> {
        let (start, end) = rows_of(id);
        let range = KeyRange::new(&start, end.as_deref());
        let mut batch = WriteBatch::new();
        // Once this call of `newest` returns, all rows of the spill are installed, so the range
        // covers them.
        batch.push(Op::DeleteRange { table: SPILL, range, upto: self.newest() });
        batch.push(Op::Delete { table: SPILL, key: &record_key(id) });
        write(self, &batch)
    }

    /// Folds the next rows of a table.
    fn fold_chunk(
        &self,
        overlay: &Arc<Overlay>,
        of: &mut FoldProgress,
        table: TableId,
    ) -> Result<()> {
        let rows = self.next_rows(overlay, table, of.last.as_deref())?;
        let Some((last, _)) = rows.last() else {
            of.next_table();
            return Ok(());
        };
        let last = last.clone();
        // Reads the blocks of these rows into memory now. `commit_fold` looks the same rows up
        // again while it holds the gate, and other commits wait for that.
        let engine = self.engines.of(table)?;
        let mut value = Vec::new();
        for (key, _) in &rows {
            match engine.newest(table, key, Access::Blocking, &mut value) {
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    // The table was dropped.
                    of.next_table();
                    return Ok(());
                }
                found => drop(found?),
            }
        }
        match self.commit_fold(overlay, table, &rows) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                of.next_table();
                return Ok(());
            }
            Err(error) => return Err(error),
            Ok(folded) => of.folded = of.folded.max(folded),
        }
        of.last = Some(last);
        Ok(())
    }

    fn next_rows(
        &self,
        overlay: &Overlay,
        table: TableId,
        last: Option<&[u8]>,
    ) -> Result<Vec<Row>> {
        let engine = self.engines.of(SPILL)?;
        let start = last.map(spillway_base::range::successor).unwrap_or_default();
        let keys = (table, KeyRange::new(&start, None), Direction::Forward);
        let newest = self.snapshots.take(|| self.newest());
        let layers = (overlay.id, overlay.layers.as_slice());
        let mut cursor = LayerCursor::open(&**engine, layers, keys, newest.csn())?;
        let (mut rows, mut bytes) = (Vec::new(), 0);
        while let Some(key) =
            cursor.key().filter(|_| rows.len() < CHUNK_ROWS && bytes < CHUNK_BYTES)
        {
            let row: Row = (key.to_vec(), cursor.value()?.map(<[u8]>::to_vec));
            bytes += row.0.len() + row.1.as_ref().map_or(0, Vec::len);
            rows.push(row);
            cursor.step()?;
        }
        Ok(rows)
    }

    /// Writes to a table those of the overlay's rows that no later commit has changed (SPILL-7).
    /// Returns the least CSN at which a snapshot finds all of these rows, or newer versions of
    /// them, without the overlay.
    fn commit_fold(&self, overlay: &Overlay, table: TableId, rows: &[Row]) -> Result<Csn> {
        self.await_room(table)?;
        let mut all = WriteBatch::new();
        rows.iter().for_each(|(key, value)| push(&mut all, table, key, value.as_deref()));
        // Room is reserved before the gate is held, so it is reserved for all rows, although some
        // may not be written.
        let Admission { room, memory } = self.admit(&all, &super::unwaited())?;
        let held = self.pipeline.hold_gate()?;
        let newest = self.newest();
        let batch = self.not_changed_since(overlay, table, rows)?;
        if batch.is_empty() {
            return Ok(newest);
        }
        let terms = Terms { alone: true, ..Terms::of(table) };
        let folded = |csn| overlay.folds.lock().push(csn);
        let csn = self.pipeline.enqueue_held(room, &batch, terms, folded)?;
        drop(held);
        self.install(csn, &batch);
        drop(memory);
        self.slow_down(batch.engine_bytes(), Durability::Relaxed);
        Ok(csn)
    }

    fn not_changed_since(
        &self,
        overlay: &Overlay,
        table: TableId,
        rows: &[Row],
    ) -> Result<WriteBatch> {
        let (engine, spilled) = (self.engines.of(table)?, self.engines.of(SPILL)?);
        let newer = self.overlays.of(table, Csn::MAX);
        let newer: Vec<_> = newer.iter().filter(|other| other.csn > overlay.csn).collect();
        let (mut batch, mut old) = (WriteBatch::new(), Vec::new());
        for (key, value) in rows {
            let found = engine.newest(table, key, Access::Blocking, &mut old)?;
            let changed = found.csn() > Some(overlay.csn)
                || (value.is_none() && !matches!(found, Found::Value(_)));
            if changed {
                continue;
            }
            let over = |other: &&Arc<Overlay>| {
                other.find(&**spilled, (table, key), Access::Blocking, &mut Vec::new())
            };
            // A newer overlay folds its own rows.
            let mut hidden = false;
            for other in &newer {
                hidden = hidden || over(other)?.is_some();
            }
            if !hidden {
                push(&mut batch, table, key, value.as_deref());
            }
        }
        Ok(batch)
    }
}

fn push(batch: &mut WriteBatch, table: TableId, key: &[u8], value: Option<&[u8]>) {
    batch.push(match value {
        Some(value) => Op::Put { table, key, value },
        None => Op::Delete { table, key },
    });
}
