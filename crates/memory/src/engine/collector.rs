//! The queue of rows with garbage.
//!
//! - **COLLECTOR-1 (queued).** A row with a version or a deletion that no snapshot will need is in
//!   the queue, until a thread has collected that garbage.

use std::collections::VecDeque;
use std::sync::Arc;

use spillway_base::Csn;
#[cfg(not(loom))]
use spillway_base::lock::Mutex;
#[cfg(loom)]
use spillway_base::modelled::Mutex;
use spillway_base::sync::atomic::{AtomicU64, Ordering};
use spillway_reclaim::epochs::stripe;

use crate::rid::Rid;
use crate::store::Store;
use crate::table::Table;
use crate::version::Target;

pub(super) const SHARDS: usize = if cfg!(loom) { 1 } else { 16 };

/// A queued row.
pub(super) struct Item {
    pub(super) table: Arc<Table>,
    pub(super) rid: Rid,
    /// The row can be collected once the watermark has reached this commit.
    pub(super) until: Csn,
}

/// The most rows and versions from which the bytes of garbage are estimated.
const SAMPLED: usize = 1024;
const WALKED_MAX: usize = 1 << 16;

/// The queue, in shards.
pub(super) struct Collector {
    shards: Box<[Mutex<VecDeque<Item>>]>,
    /// Versions and rows that were collected in the background.
    collected: AtomicU64,
}

impl Collector {
    pub(super) fn new() -> Collector {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Collector { shards, collected: AtomicU64::new(0) }
    }

    /// Counts versions and rows that were collected.
    pub(super) fn count(&self, collected: usize) {
        self.collected.fetch_add(collected as u64, Ordering::Relaxed);
    }

    pub(super) fn collected(&self) -> u64 {
        self.collected.load(Ordering::Relaxed)
    }

    pub(super) fn push(&self, item: Item) {
        self.shards[stripe() % SHARDS].lock().push_back(item);
    }

    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }

    /// Calls `see` for up to `most` rows, spread evenly over each shard.
    fn sample(&self, most: usize, mut see: impl FnMut(&Item)) {
        for shard in &self.shards {
            let items = shard.lock();
            let step = (items.len() * SHARDS).div_ceil(most).max(1);
            items.iter().step_by(step).for_each(&mut see);
        }
    }

    /// Takes rows that can be collected from the front of a shard.
    pub(super) fn take(&self, shard: usize, watermark: Csn, most: usize, out: &mut Vec<Item>) {
        let mut items = self.shards[shard].lock();
        while out.len() < most && items.front().is_some_and(|item| item.until <= watermark) {
            out.extend(items.pop_front());
        }
    }

    /// Bytes of memory of the versions that wait to be collected: older versions and deletions.
    /// Estimated from a sample if more than [`SAMPLED`] rows wait.
    pub(super) fn uncollected_bytes(&self, store: &Store) -> u64 {
        let mut sample = Vec::new();
        self.sample(SAMPLED, |item| sample.push((item.table.clone(), item.rid)));
        let (mut rows, mut bytes, mut walked) = (0, 0, 0);
        let pin = store.pin();
        for (table, rid) in &sample {
            let Some(entry) = table.rows.entry(rid.slot()) else { continue };
            let mut word = entry.load();
            let mut newest = true;
            while let Target::Version(at) = word.target() {
                let version = store.version(at, &pin);
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
        let waiting = self.len().max(rows) as u64;
        bytes * waiting / (rows as u64).max(1)
    }
}
