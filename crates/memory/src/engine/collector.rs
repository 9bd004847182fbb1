//! The queue of rows with garbage.

use std::collections::VecDeque;
use std::sync::Arc;

use spillway_base::Csn;
#[cfg(not(loom))]
use spillway_base::lock::Mutex;
#[cfg(loom)]
use spillway_base::modelled::Mutex;
use spillway_reclaim::epochs::stripe;

use crate::rid::Rid;
use crate::table::Table;

pub(super) const SHARDS: usize = if cfg!(loom) { 1 } else { 16 };

/// A queued row.
pub(super) struct Item {
    pub(super) table: Arc<Table>,
    pub(super) rid: Rid,
    /// The row can be collected once the watermark has reached this commit.
    pub(super) until: Csn,
}

/// The queue, in shards.
pub(super) struct Collector(Box<[Mutex<VecDeque<Item>>]>);

impl Collector {
    pub(super) fn new() -> Collector {
        Collector((0..SHARDS).map(|_| Mutex::default()).collect())
    }

    pub(super) fn push(&self, item: Item) {
        self.0[stripe() % SHARDS].lock().push_back(item);
    }

    pub(super) fn len(&self) -> usize {
        self.0.iter().map(|shard| shard.lock().len()).sum()
    }

    /// Calls `see` for up to `most` rows, spread evenly over each shard.
    pub(super) fn sample(&self, most: usize, mut see: impl FnMut(&Item)) {
        for shard in &self.0 {
            let items = shard.lock();
            let step = (items.len() * SHARDS).div_ceil(most).max(1);
            items.iter().step_by(step).for_each(&mut see);
        }
    }

    /// Takes rows that can be collected from the front of a shard.
    pub(super) fn take(&self, shard: usize, watermark: Csn, most: usize, out: &mut Vec<Item>) {
        let mut items = self.0[shard].lock();
        while out.len() < most && items.front().is_some_and(|item| item.until <= watermark) {
            out.extend(items.pop_front());
        }
    }
}
