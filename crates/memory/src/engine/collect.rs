//! Garbage collection of versions that no snapshot can read any more (HiEngine, section 4.4).
//!
//! A thread that leaves an older version or a deletion in a chain queues the row. Commits check a
//! few queued rows from time to time, and the background work checks all of them.

use std::ops::Range;
use std::sync::Arc;

use spillway_reclaim::epochs::stripe;

use super::collector::{Item, SHARDS};
use super::put::RowWriter;
use crate::chain::{Chain, Garbage};
use crate::rid::Rid;
use crate::store::Retired;
use crate::table::Table;
use crate::version::Content;
use crate::version::{Target, Word};

/// Slots of a dropped table that are emptied under one pin.
const EMPTIED: u64 = 4096;

impl RowWriter<'_> {
    /// Collects up to `most` rows that this thread queued.
    pub(super) fn collect_some(&self, most: usize) {
        let mut items = Vec::new();
        self.collector.take(stripe() % SHARDS, self.pins.watermark(), most, &mut items);
        self.collect_items(items);
    }

    /// Collects all garbage that can be collected. Returns whether there was any.
    pub(super) fn collect_all(&self) -> bool {
        let mut live = Vec::new();
        self.pins.live(&mut live);
        let watermark = self.pins.watermark();
        let mut any = false;
        for shard in 0..SHARDS {
            loop {
                let mut items = Vec::new();
                self.collector.take(shard, watermark, 256, &mut items);
                if items.is_empty() {
                    break;
                }
                if !self.collect_items(items) {
                    break;
                }
                any = true;
            }
        }
        self.store.release();
        any
    }

    /// Collects rows. Returns whether the collection of any row is complete.
    fn collect_items(&self, items: Vec<Item>) -> bool {
        let mut done = false;
        for item in items {
            match self.collect_row(&item.table, item.rid) {
                Garbage::Until(until) => self.collector.push(Item { until, ..item }),
                Garbage::Nothing | Garbage::Row => done = true,
            }
        }
        done
    }

    /// Collects the garbage of one row, and removes the row if it is deleted.
    pub(super) fn collect_row(&self, table: &Arc<Table>, rid: Rid) -> Garbage {
        let pin = self.store.pin();
        let mut retired = Vec::new();
        let mut entry = table.rows.lock(rid.slot());
        let mut chain =
            Chain { store: self.store, segments: self.segments, entry: &mut entry, pin: &pin };
        let garbage = chain.trim(self.pins.watermark(), &mut retired);
        if garbage == Garbage::Row
            && let Target::Version(at) = chain.entry.word().target()
        {
            let version = self.store.version(at, &pin);
            let Content::Deleted(key) = version.content() else {
                unreachable!("a row that is removed ends with a deletion")
            };
            // If the row was removed before, the slot may have another row by now.
            let rid = table.index.get(key, &pin).filter(|now| now.slot() == rid.slot());
            if let Some(rid) = rid {
                chain.entry.set(Word::EMPTY);
                // Before the entry is unlocked (CHAIN-3).
                let removed = table.index.remove(key, rid, &pin);
                debug_assert!(removed, "only who has the entry's lock removes its key");
                chain.retire(at, &mut retired);
                retired.push(Retired::Slot(table.clone(), rid));
            }
        }
        drop(entry);
        if !retired.is_empty() {
            self.collector.count(retired.len());
            self.store.retire(retired);
        }
        garbage
    }

    /// Removes all rows of a table that no snapshot sees any more. `false` if some cannot be
    /// removed yet.
    pub(super) fn empty_table(&self, table: &Arc<Table>) -> bool {
        let (mut whole, end) = (true, table.rows.end());
        // A pin for each part, so that the memory of the earlier parts is freed meanwhile.
        for begin in (0..end).step_by(EMPTIED as usize) {
            whole &= self.empty_slots(table, begin..end.min(begin + EMPTIED));
        }
        whole
    }

    fn empty_slots(&self, table: &Arc<Table>, slots: Range<u64>) -> bool {
        let pin = self.store.pin();
        let (mut whole, mut retired) = (true, Vec::new());
        for slot in slots {
            let mut entry = table.rows.lock(slot);
            let mut word = entry.word();
            let mut placed = true;
            while let Target::Version(at) = word.target() {
                placed &= self.store.version(at, &pin).place().is_ok();
                word = self.store.version(at, &pin).next();
            }
            if !placed {
                whole = false;
                continue;
            }
            let first = entry.word();
            if first == Word::EMPTY {
                continue;
            }
            entry.set(Word::EMPTY);
            let (store, segments) = (self.store, self.segments);
            let chain = Chain { store, segments, entry: &mut entry, pin: &pin };
            chain.retire_from(first, &mut retired);
        }
        self.store.retire(retired);
        whole
    }
}
