//! Puts versions into the chains of rows, and adds rows.

use std::ptr::NonNull;
use std::sync::Arc;

use spillway_base::Csn;
use spillway_reclaim::epochs::Pin;

use super::collector::{Collector, Item};
use super::unplaced::Versions;
use crate::chain::{Chain, Garbage};
use crate::index_load::DeferredOp;
use crate::pins::Pins;
use crate::segments::Segments;
use crate::store::{Retired, Store, VersionRef};
use crate::table::Table;
use crate::version::{Content, Fields, InBatch, Place, Version, Word};

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

impl RowWriter<'_> {
    /// Puts a version into the chain of its row, whose key is loaded. If its place is known, it is
    /// already counted as live. Otherwise the version joins `unplaced`.
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
