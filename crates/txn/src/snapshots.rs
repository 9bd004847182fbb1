//! The live snapshots, and the horizon that engines read.
//!
//! # Registering without a lock
//!
//! A snapshot is a CSN at which a transaction reads. Flushes and compactions drop versions that no
//! snapshot sees, so a snapshot must be registered before it is used (guarantee H2 of
//! [`spillway_base::engine::Horizon`]). A reader writes its CSN into its own slot and then loads
//! the stable CSN again. If that has passed the CSN it wrote, the reader takes a newer one and
//! repeats. A collector reads the stable CSN first, and the slots afterwards.
//!
//! This suffices because both have a sequentially consistent fence between their two steps, and one
//! of any two such fences comes first. If the collector's comes first, the reader's second load
//! returns S, the stable CSN that the collector loaded, or more; so the reader uses no CSN below S.
//! If the reader's comes first, the collector's pass over the slots finds the reader's CSN.
//!
//! # The low watermark
//!
//! An engine that asks at each update for the oldest live snapshot cannot look at every slot. The
//! stable CSN is moved by one thread for many commits; each [`WATERMARK_COMMITS`] of its steps that
//! thread looks at the slots and keeps the least number that it found (H3). By H2 that number
//! stays a bound for ever, so readers need not look at the slots.
//!
//! The simpler design, a mutex around an ordered map of snapshots, was rejected: it would be the
//! only lock on the path of every read.

use std::collections::BTreeMap;
use std::sync::Arc;

use spillway_base::Csn;
use spillway_base::engine::Horizon;
use spillway_base::sync::atomic::{AtomicU64, Ordering, fence};

use crate::sync::Mutex;
use crate::watermark::Watermark;

#[cfg(not(loom))]
const SLOTS: usize = 512;
#[cfg(loom)]
const SLOTS: usize = 2;

/// Commits after which the low watermark is brought up to date. A look at all slots takes some
/// microseconds.
#[cfg(not(loom))]
const WATERMARK_COMMITS: u64 = 64;
#[cfg(loom)]
const WATERMARK_COMMITS: u64 = 1;

const FREE: u64 = 0;
const TAKEN: u64 = u64::MAX;

/// A slot on a cache line of its own.
#[repr(align(128))]
struct Slot(AtomicU64);

/// Watermarks and live snapshots.
pub(crate) struct Snapshots {
    /// Every commit up to its prefix is installed.
    pub(crate) installed: Watermark,
    stable: AtomicU64,
    /// No snapshot is live below (H3).
    low: AtomicU64,
    slots: Box<[Slot]>,
    /// Snapshots that found no free slot, with their counts.
    overflow: Mutex<BTreeMap<Csn, usize>>,
    /// Snapshots at which nothing reads but whose versions must be kept, with their counts.
    pins: Mutex<BTreeMap<Csn, usize>>,
}

impl Snapshots {
    pub(crate) fn new() -> Arc<Snapshots> {
        Arc::new(Snapshots {
            installed: Watermark::new(Csn::ZERO),
            stable: AtomicU64::new(0),
            low: AtomicU64::new(0),
            slots: (0..SLOTS).map(|_| Slot(AtomicU64::new(FREE))).collect(),
            overflow: Mutex::default(),
            pins: Mutex::default(),
        })
    }

    /// Keeps the versions that a snapshot at `csn` sees, and all deletions above, until
    /// [`Snapshots::unpin`]. The caller knows that none of them was dropped yet: `csn` is above the
    /// stable CSN, or pinned already, or nothing at or above it was dropped (H2).
    pub(crate) fn pin(&self, csn: Csn) -> Pin {
        *self.pins.lock().entry(csn).or_default() += 1;
        Pin(csn)
    }

    pub(crate) fn unpin(&self, Pin(csn): Pin) {
        let mut pins = self.pins.lock();
        if let Some(count) = pins.get_mut(&csn) {
            *count -= 1;
            if *count == 0 {
                pins.remove(&csn);
            }
        }
    }

    /// The oldest snapshot at which a transaction reads or may still begin to read; pins do not
    /// count.
    pub(crate) fn oldest_read(&self) -> Csn {
        let mut oldest = Csn::MAX;
        self.reads(|csn| oldest = oldest.min(csn));
        oldest
    }

    fn reads(&self, mut visit: impl FnMut(Csn)) {
        visit(self.stable_csn());
        fence(Ordering::SeqCst);
        for slot in &self.slots {
            match slot.0.load(Ordering::Acquire) {
                FREE | TAKEN => {}
                csn => visit(Csn(csn - 1)),
            }
        }
        self.overflow.lock().keys().copied().for_each(visit);
    }

    /// Sets everything up to `done` as installed and durable. For recovery, before any commit.
    pub(crate) fn recovered(&self, done: Csn) {
        self.installed.reset(done);
        self.stable.store(done.0, Ordering::Release);
    }

    /// Advances the stable CSN to `csn`, unless it is already there.
    pub(crate) fn advance_stable(&self, csn: Csn) {
        let before = self.stable.fetch_max(csn.0, Ordering::AcqRel);
        if csn.0 / WATERMARK_COMMITS > before / WATERMARK_COMMITS {
            let mut oldest = self.oldest_read();
            if let Some((pinned, _)) = self.pins.lock().first_key_value() {
                oldest = oldest.min(*pinned);
            }
            self.low.fetch_max(oldest.0, Ordering::AcqRel);
        }
    }

    pub(crate) fn stable_csn(&self) -> Csn {
        Csn(self.stable.load(Ordering::Acquire))
    }

    /// Takes a snapshot at `read()`, which must never return less than the stable CSN was before
    /// the call.
    pub(crate) fn take(&self, read: impl Fn() -> Csn) -> Snapshot<'_> {
        Snapshot { snapshots: self, live: self.register(read) }
    }

    /// As [`Snapshots::take`], for a caller that outlives the snapshot and releases it with
    /// [`Snapshots::release`]. It counts no reference, which would cost a single-row read
    /// noticeably.
    pub(crate) fn register(&self, read: impl Fn() -> Csn) -> Live {
        let start = slot_hint();
        for index in (0..SLOTS).map(|step| (start + step) % SLOTS) {
            let slot = &self.slots[index].0;
            let free = slot.load(Ordering::Relaxed) == FREE
                && slot.compare_exchange(FREE, TAKEN, Ordering::AcqRel, Ordering::Relaxed).is_ok();
            if free {
                let csn = self.publish(slot, &read);
                return Live { slot: Some(index), csn };
            }
        }
        let mut overflow = self.overflow.lock();
        // The collector takes the same lock after it has read the stable CSN.
        let csn = read();
        *overflow.entry(csn).or_default() += 1;
        drop(overflow);
        Live { slot: None, csn }
    }

    /// Moves a registered snapshot to a newer CSN in place.
    pub(crate) fn renew(&self, live: &mut Live, read: impl Fn() -> Csn) {
        match live.slot {
            Some(slot) => live.csn = self.publish(&self.slots[slot].0, &read),
            None => {
                let newer = self.register(read);
                self.release(std::mem::replace(live, newer));
            }
        }
    }

    /// Registers a snapshot, or moves the existing one to a newer CSN. Returns its CSN.
    pub(crate) fn follow(&self, held: &mut Option<Live>, read: impl Fn() -> Csn) -> Csn {
        match held {
            Some(live) => {
                self.renew(live, read);
                live.csn
            }
            None => held.insert(self.register(read)).csn,
        }
    }

    /// Releases a snapshot that was registered here; versions that only it could see may be
    /// dropped.
    pub(crate) fn release(&self, live: Live) {
        if let Some(slot) = live.slot {
            self.slots[slot].0.store(FREE, Ordering::Release);
            return;
        }
        let mut overflow = self.overflow.lock();
        if let Some(count) = overflow.get_mut(&live.csn) {
            *count -= 1;
            if *count == 0 {
                overflow.remove(&live.csn);
            }
        }
    }

    fn publish(&self, slot: &AtomicU64, read: &impl Fn() -> Csn) -> Csn {
        loop {
            let csn = read();
            slot.store(csn.0 + 1, Ordering::Release);
            fence(Ordering::SeqCst);
            if self.stable_csn() <= csn {
                return csn;
            }
        }
    }
}

impl Horizon for Snapshots {
    fn stable(&self) -> Csn {
        self.stable_csn()
    }

    fn installed(&self) -> Csn {
        self.installed.prefix()
    }

    fn live_snapshots(&self, out: &mut Vec<Csn>) {
        out.clear();
        self.reads(|csn| out.push(csn));
        out.extend(self.pins.lock().keys());
        out.sort_unstable();
        out.dedup();
        self.low.fetch_max(out[0].0, Ordering::AcqRel);
    }

    fn low_watermark(&self) -> Csn {
        Csn(self.low.load(Ordering::Acquire))
    }
}

/// A pinned snapshot ([`Snapshots::pin`]).
#[must_use]
pub(crate) struct Pin(Csn);

/// A registered snapshot, until it is released.
#[must_use]
pub(crate) struct Live {
    slot: Option<usize>,
    csn: Csn,
}

impl Live {
    pub(crate) fn csn(&self) -> Csn {
        self.csn
    }
}

/// A registered snapshot; dropping it releases it.
pub(crate) struct Snapshot<'s> {
    snapshots: &'s Snapshots,
    live: Live,
}

impl Snapshot<'_> {
    pub(crate) fn csn(&self) -> Csn {
        self.live.csn
    }

    /// Moves to a newer CSN in place.
    #[cfg(all(test, not(loom)))]
    fn renew(&mut self, read: impl Fn() -> Csn) {
        self.snapshots.renew(&mut self.live, read);
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        let Live { slot, csn } = self.live;
        self.snapshots.release(Live { slot, csn });
    }
}

/// The slot at which this thread begins its search, so that threads rarely collide.
fn slot_hint() -> usize {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static HINT: usize = NEXT.fetch_add(7, Ordering::Relaxed));
    HINT.try_with(|hint| *hint).unwrap_or(0)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn live(snapshots: &Snapshots) -> Vec<u64> {
        let mut out = Vec::new();
        snapshots.live_snapshots(&mut out);
        out.into_iter().map(|csn| csn.0).collect()
    }

    #[test]
    fn snapshots_live_until_dropped() {
        let snapshots = Snapshots::new();
        snapshots.recovered(Csn(5));
        let mut first = snapshots.take(|| snapshots.stable_csn());
        snapshots.advance_stable(Csn(8));
        let second = snapshots.take(|| snapshots.stable_csn());
        assert_eq!(live(&snapshots), [5, 8]);
        first.renew(|| snapshots.stable_csn());
        assert_eq!(live(&snapshots), [8]);
        snapshots.advance_stable(Csn(9));
        drop((first, second));
        assert_eq!(live(&snapshots), [9]);
    }

    #[test]
    fn one_without_a_slot_moves_on_and_goes_as_others_do() {
        let snapshots = Snapshots::new();
        let read = || snapshots.stable_csn();
        snapshots.recovered(Csn(5));
        let all: Vec<_> = (0..SLOTS).map(|_| snapshots.take(read)).collect();
        let mut last = snapshots.register(read);
        assert!(last.slot.is_none());
        snapshots.advance_stable(Csn(8));
        drop(all);
        assert_eq!(live(&snapshots), [5, 8]);
        snapshots.renew(&mut last, read);
        assert_eq!((last.csn(), live(&snapshots)), (Csn(8), vec![8]));
        snapshots.advance_stable(Csn(9));
        assert_eq!(live(&snapshots), [8, 9]);
        snapshots.release(last);
        assert_eq!(live(&snapshots), [9]);
    }

    /// H3: it follows the commits by itself, and stops at the oldest snapshot and at pins.
    #[test]
    fn h3_the_low_watermark_follows_the_oldest_snapshot() {
        let snapshots = Snapshots::new();
        snapshots.recovered(Csn(5));
        let advance = |csn| {
            snapshots.advance_stable(Csn(csn));
            snapshots.low_watermark().0
        };
        assert_eq!(advance(2 * WATERMARK_COMMITS), 2 * WATERMARK_COMMITS);
        let held = snapshots.take(|| snapshots.stable_csn());
        assert_eq!(advance(5 * WATERMARK_COMMITS), 2 * WATERMARK_COMMITS);
        drop(held);
        let pin = snapshots.pin(Csn(5 * WATERMARK_COMMITS + 3));
        assert_eq!(advance(5 * WATERMARK_COMMITS + 2), 2 * WATERMARK_COMMITS, "it lags");
        assert_eq!(live(&snapshots), [5 * WATERMARK_COMMITS + 2, 5 * WATERMARK_COMMITS + 3]);
        assert_eq!(snapshots.low_watermark().0, 5 * WATERMARK_COMMITS + 2);
        assert_eq!(advance(9 * WATERMARK_COMMITS), 5 * WATERMARK_COMMITS + 3);
        snapshots.unpin(pin);
        assert_eq!(advance(10 * WATERMARK_COMMITS), 10 * WATERMARK_COMMITS);
    }

    #[test]
    fn more_snapshots_than_slots_are_all_live() {
        let snapshots = Snapshots::new();
        let mut all = Vec::new();
        for csn in 0..SLOTS as u64 + 20 {
            snapshots.advance_stable(Csn(csn));
            all.push(snapshots.take(|| snapshots.stable_csn()));
        }
        assert_eq!(live(&snapshots).len(), SLOTS + 20);
        drop(all);
        assert_eq!(live(&snapshots).len(), 1);
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;

    /// H2: a CSN that a collector does not count as live does not become a snapshot below its
    /// smallest.
    #[test]
    fn loom_no_snapshot_escapes_the_collector() {
        loom::model(|| {
            let snapshots = Snapshots::new();
            snapshots.recovered(Csn(1));
            let reader = {
                let snapshots = snapshots.clone();
                loom::thread::spawn(move || {
                    let read = || snapshots.stable_csn();
                    // It stays registered.
                    snapshots.register(read).csn()
                })
            };
            let mover = {
                let snapshots = snapshots.clone();
                loom::thread::spawn(move || snapshots.advance_stable(Csn(2)))
            };
            let mut live = Vec::new();
            snapshots.live_snapshots(&mut live);
            let csn = reader.join().unwrap();
            mover.join().unwrap();
            assert!(csn >= live[0], "{csn:?} came to life below {live:?}");
            // H3, also once the mover has looked.
            assert!(csn >= snapshots.low_watermark());
        });
    }
}
