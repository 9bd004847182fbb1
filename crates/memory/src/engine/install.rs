//! Installs commits, and records their places in the log.

use std::ptr::NonNull;
use std::sync::Arc;

use spillway_base::batch::{Op, PlacedOp, WriteBatch};
use spillway_base::engine::{Access, Replayed};
use spillway_base::log_place::LogPlace;
use spillway_base::{Csn, EngineKind, Error, ErrorKind};
use spillway_reclaim::epochs::Pin;

use super::checkpoints::Checkpoints;
use super::collector::{Collector, Item};
use super::load::{KeyLoader, defer};
use super::table_set::TableSet;
use super::unplaced::{UnplacedCommits, Versions};
use crate::chain::{Chain, Garbage};
use crate::index_load::DeferredOp;
use crate::pins::Pins;
use crate::segments::{Origin, Segments};
use crate::store::{Retired, Store, VersionRef};
use crate::table::{DeletedRange, Table};
use crate::version::{Content, Fields, InBatch, Version};
use crate::version::{Place, Word, class_of};

/// One commit in this many collects garbage of earlier rows.
const COLLECTS_EVERY: u64 = 4;
/// Rows from which such a commit collects garbage.
const COLLECTED_AT_ONCE: usize = 8;
/// One commit in this many updates the watermark.
const REFRESHES_EVERY: u64 = 32;
/// The bits of a hash that are zero if a commit thins the chains that it finds long.
const THINS_BITS: u32 = 4;

/// Whether a commit thins the chains that it finds long. One in 16 does, but not each sixteenth:
/// then a row that is changed in step with the others would never be thinned.
fn thins(csn: Csn) -> bool {
    csn.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (u64::BITS - THINS_BITS) == 0
}

/// The parts of the engine that change rows in memory.
#[derive(Clone, Copy)]
pub(super) struct RowWriter<'e> {
    pub(super) store: &'e Store,
    pub(super) segments: &'e Segments,
    pub(super) pins: &'e Pins,
    pub(super) collector: &'e Collector,
}

/// The parts of the engine that a commit needs.
pub(super) struct Installer<'e> {
    pub(super) keys: KeyLoader<'e>,
    pub(super) tables: &'e TableSet,
    pub(super) checkpoints: &'e Checkpoints,
    pub(super) unplaced: &'e UnplacedCommits,
}

impl Installer<'_> {
    pub(super) fn install(&self, csn: Csn, batch: &WriteBatch) {
        // The checkpoint has the commit (E3).
        if csn <= self.checkpoints.opened_at() {
            return;
        }
        self.checkpoints.note_commit(csn);
        if csn.0.is_multiple_of(REFRESHES_EVERY) {
            self.keys.rows.pins.refresh();
        }
        let mut versions = Versions::new();
        let of_engine =
            |placed: &PlacedOp<'_>| placed.op.table().engine() == Some(EngineKind::Memory);
        for placed in batch.iter_placed().filter(of_engine) {
            let in_batch = InBatch { offset: placed.offset as u32, class: class_of(placed.bytes) };
            match placed.op {
                Op::Put { table, key, value } => {
                    if let Some(table) = self.tables.load().get(&table) {
                        let content = Content::Value(value);
                        self.put(table, key, csn, in_batch, content, &mut versions);
                    }
                }
                Op::Delete { table, key } => {
                    if let Some(table) = self.tables.load().get(&table) {
                        let content = Content::Deleted(key);
                        self.put(table, key, csn, in_batch, content, &mut versions);
                    }
                }
                Op::DeleteRange { table, range, upto } => {
                    if let Some(table) = self.tables.load().get(&table) {
                        table.add_range(DeletedRange {
                            start: range.start.to_vec(),
                            end: range.end.map(<[u8]>::to_vec),
                            csn,
                            upto,
                        });
                    }
                }
                Op::CreateTable(id) => self.tables.create(id, csn),
                Op::DropTable(id) => {
                    if let Some(table) = self.tables.load().get(&id) {
                        table.drop_at(csn);
                    }
                }
            }
        }
        self.unplaced.put(csn, versions);
        if csn.0.is_multiple_of(COLLECTS_EVERY) {
            self.keys.rows.collect_some(COLLECTED_AT_ONCE);
        }
    }

    pub(super) fn replay<'w>(&self, writes: &mut dyn Iterator<Item = Replayed<'w>>) {
        let mut last: Option<(u32, u64, u32)> = None;
        for write in writes {
            let opened_at = self.checkpoints.opened_at();
            if write.csn <= opened_at || write.op.table().engine() != Some(EngineKind::Memory) {
                continue;
            }
            self.checkpoints.note_commit(write.csn);
            let LogPlace { lane, segment, offset } = write.place;
            let handle = match last {
                Some((of, number, handle)) if (of, number) == (lane, segment) => handle,
                _ => self.keys.rows.segments.handle(Origin::Log { lane, segment }),
            };
            last = Some((lane, segment, handle));
            let class = class_of(write.bytes as usize);
            let Ok(offset) = u32::try_from(offset) else {
                self.keys.health.fail(&too_large());
                continue;
            };
            let place = Place { handle, offset, class };
            let (id, key, deletes) = match write.op {
                Op::Put { table, key, .. } => (table, key, false),
                Op::Delete { table, key } => (table, key, true),
                Op::DeleteRange { .. } | Op::CreateTable(_) | Op::DropTable(_) => continue,
            };
            if let Some(table) = self.tables.load().get(&id) {
                self.keys.rows.segments.add_live(place);
                let op = DeferredOp { key, csn: write.csn, place, deletes };
                if !defer(table, &op) {
                    self.keys.rows.replay_row(table, &op);
                }
            }
        }
    }

    /// Inserts a version into its row's chain. Adds it to `unplaced`, which receives its place
    /// later.
    fn put(
        &self,
        table: &Arc<Table>,
        key: &[u8],
        csn: Csn,
        in_batch: InBatch,
        content: Content<'_>,
        unplaced: &mut Versions,
    ) {
        let rows = &self.keys.rows;
        match self.keys.load_key(table, key, Access::Blocking) {
            Ok(()) => rows.put_loaded(table, key, csn, Err(in_batch), content, Some(unplaced)),
            // The failed engine writes no more checkpoints, so none lacks the key. Reads of the key
            // return the error too.
            Err(error) => self.keys.health.fail(&error),
        }
    }

    /// Writes the places of commits into their versions.
    pub(super) fn place_commits(&self, commits: &[(Csn, LogPlace)]) {
        let _placing = self.unplaced.lock_placing();
        let RowWriter { store, segments, .. } = self.keys.rows;
        let mut last: Option<(u32, u64, u32)> = None;
        let pin = store.pin();
        for &(csn, LogPlace { lane, segment, offset }) in commits {
            let versions = self.unplaced.take(csn, &pin, store);
            if versions.is_empty() {
                continue;
            }
            let handle = match last {
                Some((of, number, handle)) if (of, number) == (lane, segment) => handle,
                _ => segments.handle(Origin::Log { lane, segment }),
            };
            last = Some((lane, segment, handle));
            let Ok(begin) = u32::try_from(offset) else {
                self.keys.health.fail(&too_large());
                continue;
            };
            for VersionRef(at) in versions {
                // It is still in its chain: it is not retired before its place is known (STORE-2).
                let version = store.version(at, &pin);
                if let Err(in_batch) = version.place() {
                    let place = in_batch.at(handle, begin);
                    segments.add_live(place);
                    version.set_place(place);
                }
            }
        }
    }
}

impl RowWriter<'_> {
    /// As [`Installer::put`], for a key whose block is loaded. If `place` is known, it is already
    /// counted as live.
    pub(super) fn put_loaded(
        &self,
        table: &Arc<Table>,
        key: &[u8],
        csn: Csn,
        place: Result<Place, InBatch>,
        content: Content<'_>,
        unplaced: Option<&mut Versions>,
    ) {
        let pin = self.store.pin();
        let make = |slot: u64| {
            let table = table.id.ordinal();
            self.store.make(&Fields { csn, table, slot, place, content, next: Word::EMPTY })
        };
        let new = loop {
            let Some(rid) = table.index.get(key, &pin) else {
                match self.insert_row(table, key, csn, &pin, make) {
                    Some(new) => break new,
                    None => continue,
                }
            };
            let mut entry = table.rows.lock(rid.slot());
            if entry.word() == Word::EMPTY {
                // The row is being removed (MEMORY-1).
                continue;
            }
            let new = make(rid.slot());
            let mut retired = Vec::new();
            let mut chain =
                Chain { store: self.store, segments: self.segments, entry: &mut entry, pin: &pin };
            let had_garbage = chain.has_garbage();
            if let Some(same) = chain.put(new) {
                let became_garbage = !had_garbage && chain.has_garbage();
                self.take_over(same, &pin, unplaced.as_deref(), &mut retired);
                if let Some(unplaced) = unplaced {
                    unplaced.retain(|one| one.0 != same);
                    unplaced.push(VersionRef(new));
                }
                drop(entry);
                self.store.retire(retired);
                if became_garbage {
                    self.collector.push(Item { table: table.clone(), rid, until: csn });
                }
                return;
            }
            // The collector, which has the row queued, trims a long chain. If each commit walked
            // the chain, the updates of a hot row would take quadratic time.
            let garbage = match chain.is_long() {
                false => chain.trim(self.pins.watermark(), &mut retired),
                true => Garbage::Until(csn),
            };
            if thins(csn) && chain.is_long() {
                let mut live = Vec::new();
                self.pins.live(&mut live);
                chain.thin(&live, &mut retired);
            }
            drop(entry);
            if !retired.is_empty() {
                self.store.retire(retired);
            }
            if garbage != Garbage::Nothing && !had_garbage {
                self.collector.push(Item { table: table.clone(), rid, until: csn });
            }
            break new;
        };
        if let Some(unplaced) = unplaced {
            unplaced.push(VersionRef(new));
        }
    }

    /// Applies an operation of the log's tail to a row whose block is loaded.
    pub(super) fn replay_row(&self, table: &Arc<Table>, op: &DeferredOp<'_>) {
        let content = if op.deletes { Content::Deleted(op.key) } else { Content::Absent };
        self.put_loaded(table, op.key, op.csn, Ok(op.place), content, None);
    }

    /// Retires a version that another version of the same commit has replaced.
    fn take_over(
        &self,
        same: NonNull<Version>,
        pin: &Pin<'_>,
        unplaced: Option<&Versions>,
        retired: &mut Vec<Retired>,
    ) {
        let version = self.store.version(same, pin);
        match version.place() {
            Ok(place) => self.segments.sub_live(place),
            // It is of the same batch: an install is not repeated before its places are known.
            Err(_) => assert!(unplaced.is_some_and(|known| known.iter().any(|one| one.0 == same))),
        }
        retired.push(Retired::Version(same));
    }

    /// Adds a row with its first version. `None` if another thread has added the key.
    fn insert_row(
        &self,
        table: &Arc<Table>,
        key: &[u8],
        csn: Csn,
        pin: &Pin<'_>,
        make: impl Fn(u64) -> NonNull<Version>,
    ) -> Option<NonNull<Version>> {
        table.note_insert(csn);
        let rid = table.rows.take();
        let new = make(rid.slot());
        table.rows.lock(rid.slot()).set(Word::version(new));
        if table.index.insert(key, rid, pin).is_err() {
            table.rows.lock(rid.slot()).set(Word::EMPTY);
            // Eviction and checkpoints may have found the version in the array, under a pin.
            self.store.retire([Retired::Slot(table.clone(), rid), Retired::Version(new)]);
            return None;
        }
        let version = self.store.version(new, pin);
        if !matches!(version.content(), Content::Value(_)) {
            let until = version.csn();
            self.collector.push(Item { table: table.clone(), rid, until });
        }
        Some(new)
    }
}

fn too_large() -> Error {
    Error::new(
        ErrorKind::TransactionTooLarge,
        "a segment of the log is larger than the 4 GiB that the memory engine can read",
    )
}
