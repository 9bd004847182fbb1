//! Installs commits, and records their places in the log.

use std::sync::Arc;

use spillway_base::batch::{Op, PlacedOp, WriteBatch};
use spillway_base::engine::{Access, Replayed};
use spillway_base::log_place::LogPlace;
use spillway_base::{Csn, EngineKind, Error, ErrorKind};

use super::checkpoints::Checkpoints;
use super::load::{KeyLoader, defer};
use super::put::RowWriter;
use super::table_set::TableSet;
use super::unplaced::{UnplacedCommits, Versions};
use crate::index_load::DeferredOp;
use crate::segments::Origin;
use crate::store::VersionRef;
use crate::table::{DeletedRange, Table};
use crate::version::{Content, InBatch, Place, class_of};

/// One commit in this many collects garbage of earlier rows.
const COLLECTS_EVERY: u64 = 4;
/// Rows from which such a commit collects garbage.
const COLLECTED_AT_ONCE: usize = 8;
/// One commit in this many updates the watermark.
const REFRESHES_EVERY: u64 = 32;
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
                self.keys.health.record(&too_large());
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
            Err(error) => self.keys.health.record(&error),
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
                self.keys.health.record(&too_large());
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

fn too_large() -> Error {
    Error::new(
        ErrorKind::TransactionTooLarge,
        "a segment of the log is larger than the 4 GiB that the memory engine can read",
    )
}
