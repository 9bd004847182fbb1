//! The spilled part of a transaction's writes.

use std::collections::BTreeSet;

use spillway_base::batch::{Op, WriteBatch};
use spillway_base::engine::Access;
use spillway_base::{Csn, Result, TableId};

use super::CHUNK_BYTES;
use super::savepoint::Savepoint;
use crate::options::Durability;
use crate::overlay::{Layer, SPILL, SpillRecord, find, record_key, row_key};
use crate::pipeline::{RELAXED, Terms};
use crate::shared::Shared;

/// What remains after a rollback to a savepoint of an earlier round ([`Spill::round`]).
#[derive(Clone, Copy)]
pub(crate) struct KeptWrites {
    pub(crate) layers: usize,
    /// The writes that are never spilled. The buffer keeps them from round to round.
    pub(crate) other: OtherWrites,
}

/// The writes that are never spilled: the number of tables created, of tables dropped, and of
/// ranges deleted as one operation.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct OtherWrites {
    pub(crate) created: usize,
    pub(crate) dropped: usize,
    pub(crate) ranges: usize,
}

/// A savepoint that lies between two writes that were spilled together. Layers end there.
struct Cut {
    savepoint: Savepoint,
    kept: KeptWrites,
}

/// A transaction's spilled writes.
pub(crate) struct Spill {
    id: u64,
    /// The oldest first.
    layers: Vec<Layer>,
    next_layer: u32,
    /// The state at the beginning of each round. A round is the time between two spills: it ends
    /// when the buffer is spilled, or when the transaction rolls back to a savepoint of an earlier
    /// round.
    rounds: Vec<KeptWrites>,
    cuts: Vec<Cut>,
    /// Changes when the contents change.
    version: u64,
}

impl Spill {
    /// Begins a spill, and writes its record, in the state "not committed".
    pub(crate) fn begin(shared: &Shared) -> Result<Spill> {
        let id = begin_record(shared)?;
        let rounds = vec![KeptWrites { layers: 0, other: OtherWrites::default() }];
        let (layers, cuts) = (Vec::new(), Vec::new());
        Ok(Spill { id, layers, next_layer: 0, rounds, cuts, version: 0 })
    }

    /// Changes when the contents change.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// The round, counted from 0, to which the buffer's writes belong.
    pub(crate) fn round(&self) -> u32 {
        self.rounds.len() as u32 - 1
    }

    /// The other writes that existed when the round began.
    pub(crate) fn round_start(&self) -> OtherWrites {
        self.rounds[self.rounds.len() - 1].other
    }

    pub(crate) fn id_and_layers(&self) -> (u64, &[Layer]) {
        (self.id, &self.layers)
    }

    pub(crate) fn covers(&self, table: TableId) -> bool {
        self.layers.iter().any(|layer| layer.tables.contains(&table))
    }

    /// The tables with spilled rows; some may be repeated.
    pub(crate) fn tables(&self) -> impl Iterator<Item = TableId> {
        self.layers.iter().flat_map(|layer| layer.tables.iter().copied())
    }

    /// Looks a key's spilled row up: `None` if there is none, otherwise whether the row has a value
    /// (`false` if it is deleted).
    pub(crate) fn find(
        &self,
        shared: &Shared,
        table: TableId,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<Option<bool>> {
        if !self.covers(table) {
            return Ok(None);
        }
        let engine = shared.engines.of(SPILL)?;
        find(&**engine, self.id_and_layers(), (table, key), Access::Blocking, value)
    }

    /// Begins the layer to which [`Spill::writer`] writes.
    fn new_layer(&mut self) {
        self.layers.push(Layer { number: self.next_layer, tables: BTreeSet::new() });
        self.next_layer += 1;
    }

    /// A writer to the newest layer, or to a new one if a savepoint requires that.
    pub(crate) fn writer<'s>(
        &'s mut self,
        shared: &'s Shared,
        savepoints: impl Iterator<Item = Savepoint>,
    ) -> LayerWriter<'s> {
        if self.needs_layer(savepoints) {
            self.new_layer();
        }
        LayerWriter { shared, spill: self, batch: WriteBatch::new() }
    }

    /// The number of layers and of cuts.
    pub(crate) fn mark(&self) -> (usize, usize) {
        (self.layers.len(), self.cuts.len())
    }

    /// Drops the layers and cuts that were added since a mark of this round, because their rows
    /// could not be written completely. Rows that were added to an older layer stay, which is
    /// harmless: the buffer still has the same writes, and a rollback that undoes these drops that
    /// layer.
    pub(crate) fn forget_since(&mut self, (layers, cuts): (usize, usize)) {
        self.layers.truncate(layers);
        self.cuts.truncate(cuts);
        self.version += 1;
    }

    /// Ends the layer at a savepoint of this round.
    pub(crate) fn cut(&mut self, savepoint: Savepoint, other: OtherWrites) {
        let kept = KeptWrites { layers: self.layers.len(), other };
        self.cuts.push(Cut { savepoint, kept });
    }

    /// Ends the round: the buffer holds no writes but `other`.
    pub(crate) fn end_round(&mut self, other: OtherWrites) {
        self.rounds.push(KeptWrites { layers: self.layers.len(), other });
        self.version += 1;
    }

    /// The writes that remain after a rollback to a savepoint of an earlier round, or to the
    /// beginning of this one.
    fn kept(&self, savepoint: Savepoint) -> KeptWrites {
        let cut = self.cuts.iter().find(|cut| cut.savepoint == savepoint);
        cut.map_or_else(
            || {
                assert_eq!(savepoint.writes, 0, "a layer was cut at each savepoint within it");
                self.rounds[savepoint.round as usize]
            },
            |cut| cut.kept,
        )
    }

    /// Whether the next writes need a new layer. They do if there is no layer, or if a rollback to
    /// one of these savepoints would keep all existing layers: it must not keep the next writes
    /// too.
    fn needs_layer(&self, savepoints: impl Iterator<Item = Savepoint>) -> bool {
        let round = self.round();
        let known = |one: &Savepoint| {
            one.round < round
                || one.writes == 0
                || self.cuts.iter().any(|cut| cut.savepoint == *one)
        };
        let mut kept = savepoints.filter(known).map(|savepoint| self.kept(savepoint).layers);
        self.layers.is_empty() || kept.any(|layers| layers == self.layers.len())
    }

    /// Undoes the writes that were spilled after a savepoint of an earlier round (SPILL-3). Returns
    /// the writes of the other kinds that the buffer has to keep.
    pub(crate) fn undo_to(&mut self, savepoint: Savepoint) -> OtherWrites {
        let kept = self.kept(savepoint);
        self.layers.truncate(kept.layers);
        self.cuts.retain(|cut| cut.savepoint <= savepoint);
        self.end_round(kept.other);
        kept.other
    }

    /// Adds the record that marks the spill as committed to the commit's batch. Returns the layers
    /// to attach once the commit has a CSN.
    pub(crate) fn commit_into(&self, dropped: &[TableId], batch: &mut WriteBatch) -> Vec<Layer> {
        let mut layers = self.layers.clone();
        for layer in &mut layers {
            layer.tables.retain(|table| !dropped.contains(table));
        }
        layers.retain(|layer| !layer.tables.is_empty());
        let value = SpillRecord { committed: true, layers: layers.clone() }.encode();
        batch.push(Op::Put { table: SPILL, key: &record_key(self.id), value: &value });
        layers
    }

    /// Attaches the layers as an overlay. Called after the commit has its CSN, and before that CSN
    /// is visible.
    pub(crate) fn attach(&self, shared: &Shared, csn: Csn, layers: Vec<Layer>) {
        shared.overlays.attach(self.id, csn, layers, &shared.snapshots);
    }

    /// Discards the spill of a transaction that ends without committing it.
    pub(crate) fn discard(&self, shared: &Shared) {
        shared.overlays.discard(self.id);
    }
}

/// Writes rows to a layer, one chunk at a time.
pub(crate) struct LayerWriter<'s> {
    shared: &'s Shared,
    spill: &'s mut Spill,
    batch: WriteBatch,
}

impl LayerWriter<'_> {
    /// Adds a row. It is most efficient to add rows in key order.
    pub(crate) fn add(&mut self, table: TableId, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        let layer = self.spill.layers.last_mut().expect("a writer has a layer");
        layer.tables.insert(table);
        let key = row_key(self.spill.id, layer.number, table, key);
        let mut stored = Vec::with_capacity(value.map_or(0, <[u8]>::len) + 1);
        stored.extend_from_slice(value.unwrap_or_default());
        stored.push(u8::from(value.is_some()));
        self.batch.push(Op::Put { table: SPILL, key: &key, value: &stored });
        if self.batch.as_bytes().len() < CHUNK_BYTES { Ok(()) } else { self.write() }
    }

    fn write(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        write(self.shared, &batch)?;
        self.batch = batch.cleared();
        Ok(())
    }

    /// Writes the remaining rows.
    pub(crate) fn finish(mut self) -> Result<()> {
        if !self.batch.is_empty() {
            self.write()?;
        }
        Ok(())
    }
}

/// Commits a chunk of rows, or a record, to [`SPILL`]. It does not wait for durability, and need
/// not: the commit that marks the spill as committed has a larger CSN, so it is acknowledged only
/// once the chunk is durable too.
pub(super) fn write(shared: &Shared, batch: &WriteBatch) -> Result<Csn> {
    shared.await_room(SPILL)?;
    let admission = shared.admit(batch, &super::unwaited())?;
    let csn = shared.commit(admission, batch, Terms::of(SPILL), |_| ())?;
    shared.slow_down(batch.engine_bytes(), Durability::Relaxed);
    shared.flush_within(RELAXED);
    Ok(csn)
}

/// Writes the record of a new spill, in the state "not committed", and returns the spill's number.
/// The next opening deletes the rows of spills in that state.
pub(super) fn begin_record(shared: &Shared) -> Result<u64> {
    create_table(shared)?;
    let id = shared.overlays.new_id();
    let mut batch = WriteBatch::new();
    let value = SpillRecord { committed: false, layers: Vec::new() }.encode();
    batch.push(Op::Put { table: SPILL, key: &record_key(id), value: &value });
    write(shared, &batch)?;
    Ok(id)
}

/// Creates the table [`SPILL`] if it does not exist.
fn create_table(shared: &Shared) -> Result<()> {
    let mut created = shared.overlays.created.lock();
    if *created {
        return Ok(());
    }
    if shared.engines.of(SPILL)?.tables().contains(&SPILL) {
        *created = true;
        return Ok(());
    }
    let mut batch = WriteBatch::new();
    batch.push(Op::CreateTable(SPILL));
    write(shared, &batch)?;
    *created = true;
    Ok(())
}
