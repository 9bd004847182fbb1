//! Which versions may still be read: the low watermark, and the snapshots that the engine itself
//! keeps readable.
//!
//! The *watermark* is a CSN. Of the versions of a row at or below it, only the newest may still be
//! read.
//!
//! - **PINS-1.** [`Pins::watermark`] never falls, and no present or future snapshot is below it.
//! - **PINS-2.** If a snapshot was live when [`Pins::pin`] was called for it, the watermark stays
//!   at or below this snapshot until the pin is dropped, even if the [`Horizon`] no longer reports
//!   the snapshot as live.
//! - **PINS-3.** The watermark that [`Pins::hold`] returns does not move until the returned pin is
//!   dropped.
//!
//! The watermark is the minimum of the horizon's low watermark and the pinned snapshots. A pin is
//! made while the horizon still reports its snapshot. An update of the watermark reads the horizon
//! first and the pins second. So if the horizon no longer reports a pinned snapshot, the pin was
//! made before the update reads the pins, and the update finds it.

use std::collections::BTreeMap;
use std::sync::Arc;

use spillway_base::Csn;
use spillway_base::engine::Horizon;
#[cfg(not(loom))]
use spillway_base::lock::Mutex;
#[cfg(loom)]
use spillway_base::modelled::Mutex;
use spillway_base::sync::atomic::{AtomicU64, Ordering};
use spillway_reclaim::epochs::stripe;

const SHARDS: usize = if cfg!(loom) { 1 } else { 16 };
const NONE: u64 = u64::MAX;

/// The horizon of an engine without readers and new commits: all commits are stable, and snapshots
/// are at this CSN.
pub(crate) struct FixedHorizon(pub(crate) Csn);

impl Horizon for FixedHorizon {
    fn stable(&self) -> Csn {
        self.0
    }
    fn installed(&self) -> Csn {
        self.0
    }
    fn live_snapshots(&self, out: &mut Vec<Csn>) {
        out.clear();
        out.push(self.0);
    }
}

#[repr(align(128))]
struct PinShard {
    pinned: Mutex<BTreeMap<Csn, usize>>,
    /// The smallest of `pinned`.
    least: AtomicU64,
}

/// The pinned snapshots. The module's page states the guarantees.
pub(crate) struct Pins {
    horizon: Arc<dyn Horizon>,
    shards: Box<[PinShard]>,
    watermark: AtomicU64,
    /// Held while a thread updates the watermark.
    advancing: Mutex<()>,
}

/// A pinned snapshot. Dropping it unpins.
pub(crate) struct Pinned {
    pins: Arc<Pins>,
    shard: usize,
    csn: Csn,
}

impl Pins {
    pub(crate) fn new(horizon: Arc<dyn Horizon>) -> Arc<Pins> {
        let shard = || PinShard { pinned: Mutex::default(), least: AtomicU64::new(NONE) };
        Arc::new(Pins {
            horizon,
            shards: (0..SHARDS).map(|_| shard()).collect(),
            watermark: AtomicU64::new(0),
            advancing: Mutex::default(),
        })
    }

    /// Stops the watermark until the returned pin is dropped, and returns the watermark (PINS-3).
    pub(crate) fn hold(self: &Arc<Pins>) -> (Pinned, Csn) {
        let held = self.pin(Csn::ZERO);
        // A later update sees the pin, and an update that did not see it is complete.
        drop(self.advancing.lock());
        (held, self.watermark())
    }

    /// Keeps a live snapshot readable (PINS-2).
    pub(crate) fn pin(self: &Arc<Pins>, csn: Csn) -> Pinned {
        let shard = stripe() % SHARDS;
        let mut pinned = self.shards[shard].pinned.lock();
        *pinned.entry(csn).or_default() += 1;
        self.shards[shard].note(&pinned);
        Pinned { pins: self.clone(), shard, csn }
    }

    /// Of the versions at or below this CSN, only the newest of each row is needed (PINS-1). May
    /// lag.
    pub(crate) fn watermark(&self) -> Csn {
        Csn(self.watermark.load(Ordering::Acquire))
    }

    /// Updates the watermark from figures that are cheap to read. Skips the update if another
    /// thread is in it, so that commits do not wait for each other here.
    pub(crate) fn refresh(&self) -> Csn {
        let horizon = self.horizon.low_watermark();
        match self.advancing.try_lock() {
            Some(_advancing) => self.advance(horizon),
            None => self.watermark(),
        }
    }

    /// The caller holds `advancing`.
    fn advance(&self, horizon: Csn) -> Csn {
        let least = self.shards.iter().map(|shard| shard.least.load(Ordering::SeqCst)).min();
        let watermark = horizon.0.min(least.unwrap_or(NONE));
        Csn(self.watermark.fetch_max(watermark, Ordering::AcqRel).max(watermark))
    }

    /// The live and the pinned snapshots, ascending, without duplicates. Also updates the
    /// watermark.
    pub(crate) fn live(&self, out: &mut Vec<Csn>) {
        self.horizon.live_snapshots(out);
        {
            let _advancing = self.advancing.lock();
            self.advance(out.first().copied().unwrap_or_default());
        }
        for shard in &self.shards {
            out.extend(shard.pinned.lock().keys());
        }
        out.sort_unstable();
        out.dedup();
    }

    pub(crate) fn stable(&self) -> Csn {
        self.horizon.stable()
    }
}

impl PinShard {
    fn note(&self, pinned: &BTreeMap<Csn, usize>) {
        let least = pinned.keys().next().map_or(NONE, |csn| csn.0);
        self.least.store(least, Ordering::SeqCst);
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let shard = &self.pins.shards[self.shard];
        let mut pinned = shard.pinned.lock();
        if let Some(count) = pinned.get_mut(&self.csn) {
            *count -= 1;
            if *count == 0 {
                pinned.remove(&self.csn);
            }
        }
        shard.note(&pinned);
    }
}
