//! A transaction's own writes, buffered and spilled ([`crate::spill`]), and its savepoints.

use std::sync::Arc;

use spillway_base::engine::{Access, Cursor};
use spillway_base::{Csn, Direction, Error, ErrorKind, KeyRange, Result, TableId};

use super::Transaction;
use crate::overlay::{LayerCursor, OverlayCursor, SPILL};
use crate::shared::Shared;
use crate::spill::{Savepoint, Scratch, ScratchSet, Spill};

impl Transaction {
    /// Creates a list on disk, for intermediate results of a statement that exceed memory.
    ///
    /// # Errors
    /// As a commit.
    pub fn scratch(&self) -> Result<Scratch> {
        Scratch::new(self.open_shared()?)
    }

    /// Creates a set on disk, for intermediate results of a statement that exceed memory.
    ///
    /// # Errors
    /// As a commit.
    pub fn scratch_set(&self) -> Result<ScratchSet> {
        ScratchSet::new(self.open_shared()?)
    }

    fn open_shared(&self) -> Result<Arc<Shared>> {
        self.shared.clone().ok_or_else(|| Error::invalid("the transaction has ended"))
    }

    /// The bytes of writes that a transaction keeps in memory before it spills them.
    ///
    /// # Panics
    /// If the transaction has ended.
    #[must_use]
    pub fn buffer_bytes_max(&self) -> usize {
        self.shared().settings.transaction_bytes_max
    }

    /// Whether some of the writes are no longer in memory.
    pub(super) fn has_spilled(&self) -> bool {
        self.spill.borrow().is_some()
    }

    /// The transaction's own write to a key: `None` if there is none, otherwise whether it has a
    /// value, which is copied to `value`.
    pub(super) fn own(
        &self,
        table: TableId,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<Option<bool>> {
        if let Some(own) = self.writes.borrow().get(table, key) {
            value.clear();
            value.extend_from_slice(own.unwrap_or_default());
            return Ok(Some(own.is_some()));
        }
        match &*self.spill.borrow() {
            None => Ok(None),
            Some(spill) => spill.find(self.shared(), table, key, value),
        }
    }

    /// Whether the transaction has written none of a table's keys.
    pub(super) fn untouched(&self, table: TableId) -> bool {
        self.writes.borrow().untouched(table)
            && self.spill.borrow().as_ref().is_none_or(|spill| !spill.covers(table))
    }

    /// Moves the buffer's writes to the spill, split at the savepoints that still exist (SPILL-3).
    pub(super) fn spill_writes(&self) -> Result<()> {
        if self.spill.borrow().is_none() {
            let spill = Spill::begin(self.shared())?;
            *self.spill.borrow_mut() = Some(Box::new(spill));
        }
        let mut place = self.spill.borrow_mut();
        let Some(spill) = place.as_mut() else { return Ok(()) };
        let before = spill.mark();
        if let Err(error) = self.spill_round(spill) {
            // The spill has failed, and the buffer still has the writes.
            spill.forget_since(before);
            return Err(error);
        }
        self.writes.borrow_mut().forget_writes();
        if let Some(charge) = &mut *self.charge.borrow_mut() {
            charge.resize(0);
        }
        Ok(())
    }

    /// Writes all of the buffer's writes to layers, and ends the round.
    fn spill_round(&self, spill: &mut Spill) -> Result<()> {
        let (round, start) = (spill.round(), spill.round_start());
        let writes = self.writes.borrow();
        let savepoints = self.savepoints.borrow();
        let cuts = savepoints.iter().map(|(savepoint, _)| *savepoint);
        let cuts = cuts.filter(|one| one.round == round && one.writes > 0);
        let mut from = 0;
        for savepoint in cuts {
            self.spill_part(spill, from..savepoint.writes)?;
            spill.cut(savepoint, writes.other_writes(savepoint.writes, start));
            from = savepoint.writes;
        }
        self.spill_part(spill, from..writes.mark())?;
        spill.end_round(writes.other_writes(writes.mark(), start));
        Ok(())
    }

    fn spill_part(&self, spill: &mut Spill, part: std::ops::Range<usize>) -> Result<()> {
        let writes = self.writes.borrow();
        let newest = writes.newest_of(part);
        if newest.is_empty() {
            return Ok(());
        }
        let savepoints = self.savepoints.borrow();
        let savepoints = savepoints.iter().map(|(savepoint, _)| *savepoint);
        let mut writer = spill.writer(self.shared(), savepoints);
        for at in newest {
            let (table, key, value) = writes.write_at(at);
            writer.add(table, key, value)?;
        }
        writer.finish()
    }

    /// Creates a savepoint.
    #[must_use]
    pub fn savepoint(&self) -> Savepoint {
        let round = self.spill.borrow().as_ref().map_or(0, |spill| spill.round());
        let savepoint = Savepoint { round, writes: self.writes.borrow().mark() };
        let mut savepoints = self.savepoints.borrow_mut();
        match savepoints.last_mut() {
            Some((last, count)) if *last == savepoint => *count += 1,
            _ => savepoints.push((savepoint, 1)),
        }
        savepoint
    }

    /// Declares that the caller will not roll back to a savepoint any more. The call is optional
    /// and cheap. It saves layers: a transaction that spills its writes splits them at each
    /// existing savepoint.
    pub fn release(&self, savepoint: Savepoint) {
        let mut savepoints = self.savepoints.borrow_mut();
        if let Ok(at) = savepoints.binary_search_by_key(&savepoint, |(one, _)| *one) {
            savepoints[at].1 -= 1;
            if savepoints[at].1 == 0 {
                savepoints.remove(at);
            }
        }
    }

    /// Undoes every write since the savepoint, which stays. Locks stay too, as in MySQL.
    pub fn rollback_to(&self, savepoint: Savepoint) {
        self.savepoints.borrow_mut().retain(|(one, _)| *one <= savepoint);
        let mut spill = self.spill.borrow_mut();
        match spill.as_mut().filter(|spill| spill.round() != savepoint.round) {
            None => self.writes.borrow_mut().undo_to(savepoint.writes),
            Some(spill) => {
                let kept = spill.undo_to(savepoint);
                self.writes.borrow_mut().keep_only(kept);
            }
        }
    }

    /// The keys of a table that this transaction has written, ascending, each with its value, or
    /// `None` if it was deleted by itself and not as part of a range.
    ///
    /// # Errors
    /// As [`Transaction::get`], if writes were spilled.
    pub fn written(&self, table: TableId) -> Result<Vec<(Vec<u8>, Option<Vec<u8>>)>> {
        let mut layers = self.own_layers(table, KeyRange::ALL, Direction::Forward)?;
        let writes = self.writes.borrow();
        let mut written: Vec<(Vec<u8>, Option<Vec<u8>>)> = Vec::new();
        loop {
            let last = written.last().map(|(key, _)| key.as_slice());
            let buffered = writes.after(table, KeyRange::ALL, last, Direction::Forward);
            let spilled = layers.as_ref().and_then(LayerCursor::key);
            let key = match (buffered, spilled) {
                (None, None) => return Ok(written),
                (Some((key, _)), Some(spilled)) if key > spilled => spilled.to_vec(),
                (Some((key, _)), _) => key.to_vec(),
                (None, Some(spilled)) => spilled.to_vec(),
            };
            let buffered = buffered.filter(|(own, _)| *own == key);
            let mut value = buffered.map(|(_, value)| value.map(<[u8]>::to_vec));
            if let Some(layers) = layers.as_mut().filter(|it| it.key() == Some(key.as_slice())) {
                if value.is_none() {
                    value = Some(layers.value()?.map(<[u8]>::to_vec));
                }
                layers.step()?;
            }
            written.push((key, value.flatten()));
        }
    }

    /// A cursor over the transaction's own spilled writes to a table, if it has any.
    pub(super) fn own_layers(
        &self,
        table: TableId,
        range: KeyRange<'_>,
        direction: Direction,
    ) -> Result<Option<LayerCursor>> {
        let spill = self.spill.borrow();
        let Some(spill) = spill.as_ref().filter(|spill| spill.covers(table)) else {
            return Ok(None);
        };
        let shared = self.shared();
        let newest = shared.snapshots.take(|| shared.newest());
        let engine = shared.engines.of(SPILL)?;
        let (layers, keys) = (spill.id_and_layers(), (table, range, direction));
        LayerCursor::open(&**engine, layers, keys, newest.csn()).map(Some)
    }

    /// A version of the spilled writes, which changes when they do.
    pub(super) fn spill_version(&self) -> u64 {
        self.spill.borrow().as_ref().map_or(0, |spill| spill.version() + 1)
    }

    /// A cursor over a table and its overlays, at a registered snapshot.
    pub(super) fn cursor(
        &self,
        table: TableId,
        range: KeyRange<'_>,
        direction: Direction,
        snapshot: Csn,
    ) -> Result<Box<dyn Cursor>> {
        let engine = self.engine(table)?;
        let overlays = &self.shared().overlays;
        let seen = if overlays.any() { overlays.of(table, snapshot) } else { Vec::new() };
        let cursor = engine.scan(table, range, direction, snapshot, Access::Blocking)?;
        if seen.is_empty() {
            return Ok(cursor);
        }
        let (keys, spilled) = ((table, range, direction), self.shared().engines.of(SPILL)?);
        Ok(Box::new(OverlayCursor::open((engine, &**spilled), cursor, keys, snapshot, seen)?))
    }

    /// Called before a commit. In tables with an overlay, replaces deleted ranges by deletions of
    /// their rows (SPILL-6). Returns the number of changes of the list of overlays for which this
    /// holds.
    pub(super) fn expand_ranges(&self) -> Result<u64> {
        let overlays = &self.shared().overlays;
        let changes = overlays.changes();
        if self.writes.borrow().ranges() == 0 || !overlays.any() {
            return Ok(changes);
        }
        let ranges = self.writes.borrow_mut().take_ranges(|table| overlays.covers(table));
        for range in ranges {
            let newest = self.shared().snapshots.take(|| self.shared().newest());
            let keys = KeyRange::new(&range.start, range.end.as_deref());
            // The rows are locked, so their newest versions are those that were deleted.
            let mut cursor = self.cursor(range.table, keys, Direction::Forward, newest.csn())?;
            let mut own = Vec::new();
            while cursor.next(Access::Blocking)? {
                let (key, csn) = (cursor.key(), cursor.csn());
                if csn <= range.upto && self.own(range.table, key, &mut own)?.is_none() {
                    self.buffer(range.table, key, None)?;
                }
            }
        }
        if self.has_spilled() {
            self.spill_writes()?;
        }
        Ok(changes)
    }

    /// Checks that no overlay was attached since `changes` to a table with a deleted range of this
    /// commit (SPILL-6).
    pub(super) fn check_ranges(&self, changes: u64) -> Result<()> {
        let overlays = &self.shared().overlays;
        if self.writes.borrow().ranges() == 0 || overlays.changes() == changes {
            return Ok(());
        }
        Err(Error::new(ErrorKind::WouldBlock, "an overlay came; the ranges are looked at again"))
    }
}
