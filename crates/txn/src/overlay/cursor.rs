//! Cursors over spilled rows, and over a table with its overlays.

use std::cmp::Ordering;
use std::sync::Arc;

use spillway_base::engine::{Access, Cursor, Engine, Found};
use spillway_base::range::prefix_end;
use spillway_base::{Csn, Direction, KeyRange, Result, TableId};

use super::{Layer, Overlay, PREFIX_BYTES, SPILL, row_key, row_prefix, row_value};

/// A cursor over one layer's rows of one table.
struct LayerSource {
    cursor: Box<dyn Cursor>,
    /// Whether the cursor stands on a row.
    there: bool,
}

impl LayerSource {
    fn key(&self) -> &[u8] {
        &self.cursor.key()[PREFIX_BYTES..]
    }
}

/// A cursor over a table's rows in several layers. It returns each key once, with the row of the
/// newest layer that has the key. It stands on a row, or past the last row.
pub(crate) struct LayerCursor {
    /// The newest first.
    sources: Vec<LayerSource>,
    direction: Direction,
    /// The source with the current row.
    at: Option<usize>,
}

impl LayerCursor {
    /// Opens a cursor over a range of a table, on its first row.
    pub(crate) fn open(
        engine: &dyn Engine,
        (id, layers): (u64, &[Layer]),
        (table, range, direction): (TableId, KeyRange<'_>, Direction),
        snapshot: Csn,
    ) -> Result<LayerCursor> {
        let mut sources = Vec::new();
        for layer in layers.iter().rev().filter(|layer| layer.tables.contains(&table)) {
            let start = row_key(id, layer.number, table, range.start);
            let end = match range.end {
                Some(end) => Some(row_key(id, layer.number, table, end)),
                None => prefix_end(&row_prefix(id, layer.number, table)),
            };
            let range = KeyRange::new(&start, end.as_deref());
            let mut cursor = engine.scan(SPILL, range, direction, snapshot, Access::Blocking)?;
            let there = cursor.next(Access::Blocking)?;
            sources.push(LayerSource { cursor, there });
        }
        let mut cursor = LayerCursor { sources, direction, at: None };
        cursor.choose();
        Ok(cursor)
    }

    /// A cursor over no rows.
    pub(crate) fn none() -> LayerCursor {
        LayerCursor { sources: Vec::new(), direction: Direction::Forward, at: None }
    }

    /// Finds the source with the next row. If several sources have that key, it is the source of
    /// the newest layer.
    fn choose(&mut self) {
        self.at = None;
        for (index, source) in self.sources.iter().enumerate().filter(|(_, one)| one.there) {
            let first = self.at.is_none_or(|at| {
                let order = source.key().cmp(self.sources[at].key());
                order.is_lt() == (self.direction == Direction::Forward) && order.is_ne()
            });
            if first {
                self.at = Some(index);
            }
        }
    }

    /// The key of the current row; `None` past the last.
    pub(crate) fn key(&self) -> Option<&[u8]> {
        self.at.map(|at| self.sources[at].key())
    }

    /// The value of the current row: `None` if it is deleted.
    pub(crate) fn value(&self) -> Result<Option<&[u8]>> {
        match self.at {
            Some(at) => row_value(self.sources[at].cursor.value()),
            None => Ok(None),
        }
    }

    /// Moves past the current row.
    pub(crate) fn step(&mut self) -> Result<()> {
        let Some(at) = self.at else { return Ok(()) };
        for index in 0..self.sources.len() {
            let same = index != at
                && self.sources[index].there
                && self.sources[index].key() == self.sources[at].key();
            if same {
                let source = &mut self.sources[index];
                source.there = source.cursor.next(Access::Blocking)?;
            }
        }
        let source = &mut self.sources[at];
        source.there = source.cursor.next(Access::Blocking)?;
        self.choose();
        Ok(())
    }
}

/// The source of the current row of a table with overlays.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OverlayRowSource {
    Start,
    Table,
    Overlay(usize),
    End,
}

/// A cursor over a table at a snapshot, merged with the overlays that the snapshot sees. It returns
/// one row at a time ([`Cursor`], CURSOR-1 to CURSOR-4).
pub(crate) struct OverlayCursor {
    engine: Arc<dyn Engine>,
    table: TableId,
    snapshot: Csn,
    direction: Direction,
    base: Box<dyn Cursor>,
    /// Whether `base`, the table's cursor, stands on a row that this cursor has not passed yet.
    base_ahead: bool,
    base_ended: bool,
    /// The newest first.
    overlays: Vec<(Arc<Overlay>, LayerCursor)>,
    at: OverlayRowSource,
    last: Vec<u8>,
    started: bool,
    probe: Vec<u8>,
}

impl OverlayCursor {
    /// Opens a cursor over a table in `engine`, and over the table's spilled rows in `spilled`.
    pub(crate) fn open(
        (engine, spilled): (&Arc<dyn Engine>, &dyn Engine),
        base: Box<dyn Cursor>,
        (table, range, direction): (TableId, KeyRange<'_>, Direction),
        snapshot: Csn,
        overlays: Vec<Arc<Overlay>>,
    ) -> Result<OverlayCursor> {
        let overlays = overlays
            .into_iter()
            .map(|overlay| {
                let layers = (overlay.id, overlay.layers.as_slice());
                let keys = (table, range, direction);
                let rows = LayerCursor::open(spilled, layers, keys, snapshot)?;
                Ok((overlay, rows))
            })
            .collect::<Result<Vec<_>>>()?;
        Ok(OverlayCursor {
            engine: engine.clone(),
            table,
            snapshot,
            direction,
            base,
            base_ahead: false,
            base_ended: false,
            overlays,
            at: OverlayRowSource::Start,
            last: Vec::new(),
            started: false,
            probe: Vec::new(),
        })
    }

    fn order(&self, one: &[u8], two: &[u8]) -> Ordering {
        match self.direction {
            Direction::Forward => one.cmp(two),
            Direction::Backward => two.cmp(one),
        }
    }

    /// The overlay with the next row. If several overlays have that key, it is the newest overlay.
    fn first_overlay(&self) -> Option<usize> {
        let mut first: Option<(usize, &[u8])> = None;
        for (index, (_, rows)) in self.overlays.iter().enumerate() {
            let Some(key) = rows.key() else { continue };
            if first.is_none_or(|(_, least)| self.order(key, least).is_lt()) {
                first = Some((index, key));
            }
        }
        first.map(|(index, _)| index)
    }

    /// Passes the rows of one key in all overlays.
    fn pass_overlays(&mut self, key: &[u8]) -> Result<()> {
        for (_, rows) in &mut self.overlays {
            if rows.key() == Some(key) {
                rows.step()?;
            }
        }
        Ok(())
    }

    /// Passes the current row.
    fn leave(&mut self) -> Result<()> {
        match self.at {
            OverlayRowSource::Start | OverlayRowSource::End => {}
            OverlayRowSource::Table => {
                self.last.clear();
                self.last.extend_from_slice(self.base.key());
                self.base_ahead = false;
                self.started = true;
            }
            OverlayRowSource::Overlay(_) => {
                let last = std::mem::take(&mut self.last);
                let passed = self.pass_overlays(&last);
                self.last = last;
                passed?;
            }
        }
        self.at = OverlayRowSource::Start;
        Ok(())
    }

    /// Whether the table has a deletion of the key that is newer than `csn`, the CSN of an overlay
    /// that has the key. The table's cursor does not show deletions.
    fn deleted_since(&mut self, key: &[u8], csn: Csn, access: Access) -> Result<bool> {
        let engine = &self.engine;
        let found = engine.get(self.table, key, self.snapshot, access, &mut self.probe)?;
        Ok(matches!(found, Found::Deleted(deleted) if deleted > csn))
    }
}

impl Cursor for OverlayCursor {
    fn next(&mut self, access: Access) -> Result<bool> {
        self.leave()?;
        loop {
            if !self.base_ahead && !self.base_ended {
                self.base_ahead = self.base.next(access)?;
                self.base_ended = !self.base_ahead;
            }
            let over = self.first_overlay();
            let Some(index) = over else {
                self.at =
                    if self.base_ahead { OverlayRowSource::Table } else { OverlayRowSource::End };
                return Ok(self.base_ahead);
            };
            let (overlay, rows) = &self.overlays[index];
            let (csn, key) = (overlay.csn, rows.key().unwrap_or_default().to_vec());
            let order = match self.base_ahead {
                true => self.order(self.base.key(), &key),
                false => Ordering::Greater,
            };
            match order {
                Ordering::Less => {
                    self.at = OverlayRowSource::Table;
                    return Ok(true);
                }
                Ordering::Equal if self.base.csn() > csn => {
                    self.pass_overlays(&key)?;
                    self.at = OverlayRowSource::Table;
                    return Ok(true);
                }
                Ordering::Equal => self.base_ahead = false,
                Ordering::Greater => {
                    if self.deleted_since(&key, csn, access)? {
                        self.pass_overlays(&key)?;
                        continue;
                    }
                }
            }
            if self.overlays[index].1.value()?.is_none() {
                self.pass_overlays(&key)?;
                continue;
            }
            self.last = key;
            self.started = true;
            self.at = OverlayRowSource::Overlay(index);
            return Ok(true);
        }
    }

    fn next_rows(&mut self, access: Access, _most: usize) -> Result<usize> {
        self.next(access).map(usize::from)
    }

    fn rows(&self, take: &mut dyn FnMut(&[u8], &[u8]) -> bool) {
        if matches!(self.at, OverlayRowSource::Table | OverlayRowSource::Overlay(_)) {
            take(self.key(), self.value());
        }
    }

    fn key(&self) -> &[u8] {
        if self.at == OverlayRowSource::Table { self.base.key() } else { &self.last }
    }

    fn value(&self) -> &[u8] {
        match self.at {
            OverlayRowSource::Overlay(index) => {
                // It was decoded when the cursor moved to it.
                self.overlays[index].1.value().ok().flatten().unwrap_or_default()
            }
            _ => self.base.value(),
        }
    }

    fn csn(&self) -> Csn {
        match self.at {
            OverlayRowSource::Overlay(index) => self.overlays[index].0.csn,
            _ => {
                let csn = self.base.csn();
                let mut overlays = self.overlays.iter().map(|(overlay, _)| overlay);
                overlays.find(|one| one.has_folded(csn)).map_or(csn, |overlay| overlay.csn)
            }
        }
    }

    fn last_key(&self) -> Option<&[u8]> {
        match self.at {
            OverlayRowSource::Table => Some(self.base.key()),
            _ => self.started.then_some(&self.last),
        }
    }
}
