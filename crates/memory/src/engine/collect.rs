//! Garbage collection of versions that no snapshot can read any more (HiEngine, section 4.4).
//!
//! A thread that leaves an older version or a deletion in a chain queues the row. Commits check a
//! few queued rows from time to time, and the background work checks all of them.

use std::sync::Arc;

use spillway_base::sync::atomic::Ordering;
use spillway_reclaim::epochs::stripe;

use super::collector::{Item, SHARDS};
use super::inner::Inner;
use crate::chain::{Chain, Garbage};
use crate::rid::Rid;
use crate::store::Retired;
use crate::table::Table;
use crate::version::Content;
use crate::version::{Target, Word};

/// The most rows and versions from which the bytes of garbage are estimated.
const SAMPLED: usize = 1024;
const WALKED_MAX: usize = 1 << 16;

impl Inner {
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
            Chain { store: &self.store, segments: &self.segments, entry: &mut entry, pin: &pin };
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
            self.counts.collected.fetch_add(retired.len() as u64, Ordering::Relaxed);
            self.store.retire(retired);
        }
        garbage
    }

    /// Bytes of memory of the versions that wait to be collected: older versions and deletions.
    /// Estimated from a sample if more than [`SAMPLED`] rows wait.
    pub(super) fn uncollected_bytes(&self) -> u64 {
        let mut sample = Vec::new();
        self.collector.sample(SAMPLED, |item| sample.push((item.table.clone(), item.rid)));
        let (mut rows, mut bytes, mut walked) = (0, 0, 0);
        let pin = self.store.pin();
        for (table, rid) in &sample {
            let Some(entry) = table.rows.entry(rid.slot()) else { continue };
            let mut word = entry.load();
            let mut newest = true;
            while let Target::Version(at) = word.target() {
                let version = self.store.version(at, &pin);
                if !newest || version.is_deletion() {
                    bytes += version.bytes() as u64;
                }
                (word, newest) = (version.next(), false);
                walked += 1;
            }
            rows += 1;
            if walked > WALKED_MAX {
                break;
            }
        }
        let waiting = self.collector.len().max(rows) as u64;
        bytes * waiting / (rows as u64).max(1)
    }

    /// Removes the rows and versions that deleted ranges hide from all snapshots, and then the
    /// ranges (E10). Returns whether there were any.
    pub(super) fn fold_ranges(&self) -> bool {
        let mut any = false;
        let tables: Vec<Arc<Table>> = self.tables.load().values().cloned().collect();
        for table in tables.iter().filter(|table| table.has_ranges()) {
            for range in table.ranges().iter() {
                if range.csn <= self.pins.watermark() && self.fold_range(table, range) {
                    table.forget_range(range);
                    any = true;
                }
            }
        }
        any
    }

    /// Removes tables that no snapshot sees. Returns whether there were any.
    pub(super) fn drop_tables(&self) -> bool {
        let watermark = self.pins.watermark();
        let gone = |table: &&Arc<Table>| table.dropped() <= watermark;
        let gone: Vec<Arc<Table>> = self.tables.load().values().filter(gone).cloned().collect();
        let mut any = false;
        for table in gone.iter().filter(|table| self.empty_table(table)) {
            self.change_tables(|tables| _ = tables.remove(&table.id));
            any = true;
        }
        any
    }
}
