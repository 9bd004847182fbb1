//! The live snapshots, and the horizon that engines read.
//!
//! # Registering without a lock
//!
//! A snapshot is a CSN at which a transaction reads. Memtable flushes and compactions drop versions
//! that no snapshot sees, so a snapshot must be registered before it is used (guarantee HORIZON-2
//! of [`spillway_base::engine::Horizon`]). A reader writes its CSN into a slot of its own and then
//! loads the stable CSN again. If the stable CSN has passed the CSN that the reader wrote, the
//! reader writes a newer CSN and repeats.
//!
//! A *collector* is a thread that reads the live snapshots in order to drop versions. It loads the
//! stable CSN first, and the slots afterwards. It keeps every version that a snapshot at that
//! stable CSN, or at a CSN in a slot, sees.
//!
//! This suffices because the reader and the collector each have a sequentially consistent fence
//! between their two steps. Let S be the stable CSN that the collector loaded. If the collector's
//! fence comes first, the reader's second load of the stable CSN returns S or more, so the reader
//! uses no CSN below S. If the reader's fence comes first, the collector finds the reader's CSN in
//! its slot.
//!
//! # The low watermark
//!
//! An engine may need a lower bound of the live snapshots at each update, and reading all slots
//! would cost too much there. So a collector stores the least CSN that it has found, the *low
//! watermark* (HORIZON-3). The stored CSN stays a lower bound, because no snapshot is registered
//! below it afterwards (HORIZON-2). Once in [`WATERMARK_COMMITS`] CSNs, the thread that advances
//! the stable CSN also reads all slots and stores the least CSN.
//!
//! Rejected: a mutex around an ordered map of snapshots. It is simpler, but every read would take
//! that mutex. Reads take no other lock that all of them share.
//!
//! # Readers
//!
//! A transaction also writes its number and the time into its slot, so that an operator can find
//! the transaction that prevents the collection of old versions ([`Snapshots::readers`]).
//! Collectors do not read the number and the time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use spillway_base::Csn;
use spillway_base::engine::Horizon;
use spillway_base::sync::atomic::{AtomicU64, Ordering, fence};

use crate::sync::Mutex;
use crate::watermark::Watermark;

#[cfg(not(loom))]
const SLOTS: usize = 512;
#[cfg(loom)]
const SLOTS: usize = 2;

/// The CSNs between two looks for the low watermark. A look at all slots takes some microseconds.
#[cfg(not(loom))]
const WATERMARK_COMMITS: u64 = 64;
#[cfg(loom)]
const WATERMARK_COMMITS: u64 = 1;

const FREE: u64 = 0;
const TAKEN: u64 = u64::MAX;

/// A slot on a cache line of its own.
#[repr(align(128))]
struct Slot {
    csn: AtomicU64,
    reader: ReaderLabel,
}

/// The [`Reader`] of the snapshot in a slot. Nothing relies on its order with the snapshot, so loom
/// does not model it.
struct ReaderLabel {
    transaction: std::sync::atomic::AtomicU64,
    since_ns: std::sync::atomic::AtomicU64,
}

/// The transaction that reads at a snapshot, zero if no transaction does, and the time of
/// [`spillway_base::clock::now`] when it took the snapshot.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(crate) struct Reader {
    transaction: u64,
    since_ns: u64,
}

impl Reader {
    /// A transaction that takes a snapshot now.
    pub(crate) fn now(transaction: u64) -> Reader {
        Reader { transaction, since_ns: spillway_base::clock::now().as_nanos() as u64 }
    }
}

/// A snapshot at which a transaction reads, and which keeps versions of rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LiveSnapshot {
    /// The commit up to which it sees.
    pub csn: Csn,
    /// The number of the transaction ([`crate::Transaction::id`]).
    pub transaction: u64,
    /// How long ago the transaction took it.
    pub age: Duration,
}

/// Watermarks and live snapshots.
pub(crate) struct Snapshots {
    /// Every commit up to its prefix is installed.
    pub(crate) installed: Watermark,
    stable: AtomicU64,
    /// The low watermark: no snapshot is live below it (HORIZON-3).
    low: AtomicU64,
    slots: Box<[Slot]>,
    /// Snapshots that found no free slot, with their counts.
    overflow: Mutex<BTreeMap<(Csn, Reader), usize>>,
    /// Pinned snapshots, with their counts. No transaction reads at them, but their versions must
    /// be kept.
    pins: Mutex<BTreeMap<Csn, usize>>,
}

impl Snapshots {
    pub(crate) fn new() -> Arc<Snapshots> {
        Arc::new(Snapshots {
            installed: Watermark::new(Csn::ZERO),
            stable: AtomicU64::new(0),
            low: AtomicU64::new(0),
            slots: (0..SLOTS).map(|_| Slot::new()).collect(),
            overflow: Mutex::default(),
            pins: Mutex::default(),
        })
    }

    /// Keeps the versions that a snapshot at `csn` sees, and all deletions above `csn`, until
    /// [`Snapshots::unpin`]. The caller knows that none of them has been dropped (HORIZON-2): `csn`
    /// is above the stable CSN, or it is pinned already, or nothing at or above it was dropped.
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

    /// The least CSN at which a transaction reads or may begin to read. Pins do not count.
    pub(crate) fn oldest_read(&self) -> Csn {
        let mut oldest = Csn::MAX;
        self.reads(|csn| oldest = oldest.min(csn));
        oldest
    }

    fn reads(&self, mut visit: impl FnMut(Csn)) {
        visit(self.stable_csn());
        fence(Ordering::SeqCst);
        for slot in &self.slots {
            match slot.csn.load(Ordering::Acquire) {
                FREE | TAKEN => {}
                csn => visit(Csn(csn - 1)),
            }
        }
        self.overflow.lock().keys().for_each(|(csn, _)| visit(*csn));
    }

    /// The snapshots of transactions, the oldest first. A snapshot that begins or ends during the
    /// call may be missing.
    pub(crate) fn readers(&self) -> Vec<LiveSnapshot> {
        let mut found: Vec<(Csn, Reader)> = self.slots.iter().filter_map(Slot::get).collect();
        found.extend(self.overflow.lock().keys());
        found.retain(|(_, reader)| reader.transaction != 0);
        found.sort_unstable();
        let now = spillway_base::clock::now();
        let shown = |(csn, reader): (Csn, Reader)| LiveSnapshot {
            csn,
            transaction: reader.transaction,
            age: now.saturating_sub(Duration::from_nanos(reader.since_ns)),
        };
        found.into_iter().map(shown).collect()
    }

    /// Declares every commit up to `done` installed and durable. Recovery calls it, before any new
    /// commit.
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
        Snapshot { snapshots: self, live: self.register(Reader::default(), read) }
    }

    /// As [`Snapshots::take`], but the caller releases the snapshot with [`Snapshots::release`]. So
    /// the snapshot holds no counted reference to this object, which would cost a single-row read
    /// noticeably.
    pub(crate) fn register(&self, reader: Reader, read: impl Fn() -> Csn) -> Live {
        let start = slot_hint();
        for index in (0..SLOTS).map(|step| (start + step) % SLOTS) {
            let slot = &self.slots[index];
            if slot.take() {
                slot.reader.set(reader);
                let csn = self.publish(&slot.csn, &read);
                return Live { slot: Some(index), csn, reader };
            }
        }
        let mut overflow = self.overflow.lock();
        // A collector takes the same lock after it has loaded the stable CSN. So it finds this
        // entry, or this thread reads that stable CSN or a later one.
        let csn = read();
        *overflow.entry((csn, reader)).or_default() += 1;
        drop(overflow);
        Live { slot: None, csn, reader }
    }

    /// Moves a registered snapshot to a newer CSN in place.
    pub(crate) fn renew(&self, live: &mut Live, reader: Reader, read: impl Fn() -> Csn) {
        match live.slot {
            Some(slot) => {
                self.slots[slot].reader.set(reader);
                live.csn = self.publish(&self.slots[slot].csn, &read);
            }
            None => {
                let newer = self.register(reader, read);
                self.release(std::mem::replace(live, newer));
            }
        }
    }

    /// Registers a snapshot, or moves the existing one to a newer CSN. Returns its CSN.
    pub(crate) fn follow(
        &self,
        held: &mut Option<Live>,
        reader: Reader,
        read: impl Fn() -> Csn,
    ) -> Csn {
        match held {
            Some(live) => {
                self.renew(live, reader, read);
                live.csn
            }
            None => held.insert(self.register(reader, read)).csn,
        }
    }

    /// Releases a snapshot of [`Snapshots::register`]. Versions that only this snapshot sees may
    /// then be dropped.
    pub(crate) fn release(&self, live: Live) {
        if let Some(slot) = live.slot {
            self.slots[slot].csn.store(FREE, Ordering::Release);
            return;
        }
        let mut overflow = self.overflow.lock();
        let key = (live.csn, live.reader);
        if let Some(count) = overflow.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                overflow.remove(&key);
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

impl Slot {
    fn new() -> Slot {
        Slot {
            csn: AtomicU64::new(FREE),
            reader: ReaderLabel {
                transaction: std::sync::atomic::AtomicU64::new(0),
                since_ns: std::sync::atomic::AtomicU64::new(0),
            },
        }
    }

    /// Takes the slot if it is free.
    fn take(&self) -> bool {
        self.csn.load(Ordering::Relaxed) == FREE
            && self.csn.compare_exchange(FREE, TAKEN, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// The snapshot in the slot and its reader. `None` if the slot is free, or changes during the
    /// call.
    fn get(&self) -> Option<(Csn, Reader)> {
        let csn = self.csn.load(Ordering::Acquire);
        let reader = self.reader.get();
        let same = csn == self.csn.load(Ordering::Acquire) && reader == self.reader.get();
        (csn != FREE && csn != TAKEN && same).then(|| (Csn(csn - 1), reader))
    }
}

impl ReaderLabel {
    /// Only the owner of the slot calls this.
    fn set(&self, reader: Reader) {
        self.since_ns.store(reader.since_ns, Ordering::Release);
        self.transaction.store(reader.transaction, Ordering::Release);
    }

    fn get(&self) -> Reader {
        let transaction = self.transaction.load(Ordering::Acquire);
        Reader { transaction, since_ns: self.since_ns.load(Ordering::Acquire) }
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
    reader: Reader,
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
        self.snapshots.renew(&mut self.live, Reader::default(), read);
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        let Live { slot, csn, reader } = self.live;
        self.snapshots.release(Live { slot, csn, reader });
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
        let mut last = snapshots.register(Reader::default(), read);
        assert!(last.slot.is_none());
        snapshots.advance_stable(Csn(8));
        drop(all);
        assert_eq!(live(&snapshots), [5, 8]);
        snapshots.renew(&mut last, Reader::default(), read);
        assert_eq!((last.csn(), live(&snapshots)), (Csn(8), vec![8]));
        snapshots.advance_stable(Csn(9));
        assert_eq!(live(&snapshots), [8, 9]);
        snapshots.release(last);
        assert_eq!(live(&snapshots), [9]);
    }

    /// HORIZON-3: it follows the commits by itself, and stops at the oldest snapshot and at pins.
    #[test]
    fn horizon_3_the_low_watermark_follows_the_oldest_snapshot() {
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

    /// The oldest comes first, in a slot or without one; snapshots of no transaction are left out.
    #[test]
    fn readers_are_named_with_their_snapshots() {
        let snapshots = Snapshots::new();
        let read = || snapshots.stable_csn();
        let readers = || {
            let readers = snapshots.readers();
            readers.iter().map(|reader| (reader.transaction, reader.csn.0)).collect::<Vec<_>>()
        };
        snapshots.recovered(Csn(5));
        let mut first = snapshots.register(Reader::now(71), read);
        let nobody: Vec<_> = (1..SLOTS).map(|_| snapshots.take(read)).collect();
        snapshots.advance_stable(Csn(8));
        let second = snapshots.register(Reader::now(70), read);
        assert!(second.slot.is_none());
        let third = snapshots.register(Reader::now(72), read);
        assert_eq!(readers(), [(71, 5), (70, 8), (72, 8)]);
        snapshots.advance_stable(Csn(9));
        snapshots.renew(&mut first, Reader::now(73), read);
        snapshots.release(second);
        assert_eq!(readers(), [(72, 8), (73, 9)]);
        snapshots.release(third);
        snapshots.release(first);
        // The slot's next snapshot is not the last reader's.
        let unnamed = snapshots.take(read);
        assert_eq!(readers(), []);
        drop((nobody, unnamed));
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

    /// HORIZON-2: a CSN that a collector does not count as live does not become a snapshot below
    /// its smallest.
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
                    snapshots.register(Reader::default(), read).csn()
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
            // HORIZON-3, also once the mover has looked.
            assert!(csn >= snapshots.low_watermark());
        });
    }
}
