//! Gaps: key ranges without rows, which scans skip.
//!
//! A table that is used as a queue collects tombstones at its head. A compaction drops them only
//! once no snapshot needs them, and tombstones in memtables stay until a flush. Each time a
//! consumer polls the queue for its first row, a scan would walk over all of these tombstones.
//!
//! So a scan that has walked over them once records a gap, and later scans skip the gap. A gap is a
//! key range, and the CSN of a snapshot at which the range had no row. A new gap is first *on
//! trial*; scans do not skip it yet. Later it becomes *active*. A sub-table has a few gaps.
//!
//! # Guarantees
//!
//! - **TOMBSTONE-SKIP-1 (truth).** No key in an active gap has a value at a snapshot that is at or
//!   above the gap's CSN and that E2 allows to be read. A scan at such a snapshot that reaches the
//!   gap, or begins in it, continues past the gap's end and returns the same rows as without the
//!   gap. A scan at an older snapshot never skips the gap.
//! - **TOMBSTONE-SKIP-2 (insertions).** When the installation of a value returns, no active gap
//!   covers the key of the value. A gap that is on trial at this moment will not cover the key when
//!   it becomes active.
//! - **TOMBSTONE-SKIP-3 (cost).** Scans take no lock to find gaps. An insertion takes a lock only
//!   for a value inside a gap; if the sub-table has no gap, it loads one word. Deletions do
//!   nothing.
//! - **TOMBSTONE-SKIP-4 (bounds).** A sub-table has at most [`GAPS_MAX`] gaps with
//!   [`GAPS_BYTES_MAX`] of keys, and for each gap up to [`EARLIER_MAX`] earlier states. The gaps
//!   that save the least are evicted.
//! - **TOMBSTONE-SKIP-5 (older snapshots).** A gap may have grown, and then has a newer CSN. A scan
//!   at a snapshot that is too old for the grown gap can still skip the gap as it was before it
//!   grew (its *earlier state*), within TOMBSTONE-SKIP-4.
//!
//! # Why it holds
//!
//! *Later commits.* A scan at snapshot S walked a range and saw no row. All commits up to S were
//! installed before the scan began (E2), so no later installation changes the rows that S sees. A
//! later snapshot sees a row in the range only if a value with a CSN above S is there. So a gap
//! with the CSN S is true as long as no such value is installed.
//!
//! Tombstones of keys and of ranges, flushes and compactions add no value. The scan treats rows
//! that a range tombstone hides from S like tombstones. Commits may be installed in any order,
//! because a gap's CSN is compared only with snapshots.
//!
//! *The race.* A value may be installed while a scan records the gap. The writer puts the value
//! into a memtable and then checks the gaps over its key. The scan puts the gap on trial, and then
//! checks the memtables again for any value above S. If this second check finds a value, the scan
//! ends the gap before the value's key. At least one of the two threads must see the write of the
//! other. Without a memory barrier, both checks may miss it.
//!
//! A fence in each insertion would suffice, but is not needed: every insertion already passes the
//! *gate* of its memtable. The insertion changes a word of the gate when it enters and when it
//! leaves, and it checks for gaps before it leaves. So the scan makes an atomic change to every
//! word of the gate, too (it adds zero), between the beginning of the trial and its second check.
//! At each change, it must find that no writer is inside.
//!
//! A writer that left before the scan changed its word has put its value where the second check
//! sees it. A writer that enters after the scan has changed the word sees the gap on trial. The
//! scan does not wait long: if a writer stays inside, the scan withdraws the gap, and a later scan
//! tries again.
//!
//! *Which memtables.* The scan loads the view and passes the gate of the active memtable under the
//! lock that protects the replacement of views. (It only tries to take this lock, so scans do not
//! wait.) A memtable that becomes active later is in a view that another thread stores later under
//! the same lock. So an insertion into this memtable sees the gap on trial.
//!
//! The scan also requires that no writer is inside the gate of an immutable memtable. Such a
//! memtable may come from a sub-table that was split or joined since. A writer that is still inside
//! would check the gaps of the old sub-table, and not those of the new one. The gates of immutable
//! memtables are soon empty, because no writer enters them any more.
//!
//! So the view that the scan has loaded has every value above S whose writer did not see the gap on
//! trial. The value is in a memtable, which the second check reads, or a flush has written it to a
//! slice since. Such a slice has CSNs above S, and the scan withdraws the gap. (No present or
//! future snapshot sees a value that a compaction dropped, HORIZON-2.)
//!
//! *From trial to active.* Gaps on trial and active gaps are in one list, which is changed under a
//! lock. An insertion that finds its key in a gap on trial removes this gap from the list, and the
//! scan then cannot activate it. An insertion that finds its key in an active gap replaces the gap
//! by its parts on both sides of the key.
//!
//! The insertion changes the list before it leaves the gate, so before its commit counts as
//! installed. Every snapshot that sees the value is taken later than that. So a scan at such a
//! snapshot finds the list without the gap (TOMBSTONE-SKIP-2, TOMBSTONE-SKIP-1).
//!
//! *Gaps within gaps.* A scan that records a gap may have skipped active gaps. The second check
//! skips them, too. It uses the list of gaps as it is after the scan has passed the gate. This is
//! safe: if a writer had inserted a value into such a gap, it would have cut the gap before it left
//! the gate. So a consumer that polls a queue walks only over the rows that were deleted since the
//! last poll, and its new gap absorbs the gap that it skipped.
//!
//! The scan and the second check read memtables a leaf at a time ([`crate::source`], SOURCE-6).
//! With reads key by key, a queue poll spent most of its time on CPU cache misses for keys that
//! another core had written.
//!
//! *Earlier states.* If several consumers poll a queue, one of them may have a snapshot just below
//! the CSN of a gap that another consumer recorded. Its scan skips an earlier state of the gap. An
//! earlier state is a gap with its own CSN. It is true for the same reasons as any gap. It lies
//! inside the grown gap and is cut together with it. When a scan at an old snapshot has found a gap
//! inside a newer gap, it adds its gap to the newer one as an earlier state.
//!
//! The ages of the kept states, in commits, grow about exponentially. So scans at young snapshots,
//! which are the most frequent, walk over few tombstones, and scans at older ones skip at least a
//! part.
//!
//! *Splits, joins and openings.* New sub-tables begin without gaps. No gap is stored in a file, so
//! after an opening there is none. A scan may still read a sub-table that a split or join has
//! replaced. The scan took its snapshot before the replacement. So every commit at or below the
//! snapshot is installed in the replaced sub-table, and values that are only in the new sub-tables
//! are above the snapshot. Therefore the gaps of the replaced sub-table are still true for this
//! scan.
//!
//! *Borders.* A gap ends right behind the last key that the scan walked over, not at the next row.
//! Only a hidden range that the scan skipped extends the gap further. So rows that are appended to
//! a queue lie behind the gap at its head, and do not cut the gap, even if the queue was empty. A
//! gap begins where the scan began, if the scan walked upwards from there. The next poll then
//! begins inside the gap and seeks once.
//!
//! An insertion below the first key that the scan walked over moves the start of the gap up to that
//! key, so repeated insertions there cut the gap only once.
//!
//! Rejected: counting tombstones for each block, and skipping blocks that hold only tombstones. A
//! scan would still have to pass the rows of older blocks that these tombstones hide. And a young
//! queue has all its tombstones in memtables, which have no blocks.

mod list;
mod publish;
mod stretch;

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use spillway_base::range::precedes;
use spillway_base::sync::Mutex;
use spillway_base::sync::atomic::{AtomicUsize, Ordering};
use spillway_base::{Csn, Direction, KeyRange};

use list::List;
pub(crate) use stretch::Stretch;

/// The most gaps of a sub-table: one for the head of each of several queues in one table.
const GAPS_MAX: usize = 256;
/// The most bytes of their keys. Most gaps have a few hundred.
const GAPS_BYTES_MAX: usize = 128 << 10;
/// The most earlier states of a gap that are kept for older snapshots.
const EARLIER_MAX: usize = 4;
/// The most trials of a sub-table at once.
const TRIALS_MAX: usize = 4;
/// The fewest consecutive tombstones for which a gap, or its growth, is recorded.
const WALKED_MIN: u64 = 64;
/// A gap that begins or ends at a longer key is not recorded.
const KEY_BYTES_MAX: usize = 1 << 10;

/// A range of keys in which a scan found no row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Gap {
    /// Its first key, whether or not the table ever had it.
    start: Box<[u8]>,
    /// The first key past it.
    end: Box<[u8]>,
    /// Its first key that a scan walked over.
    first: Box<[u8]>,
    /// It is a gap for snapshots from this CSN on.
    csn: Csn,
    /// The tombstones that the scan walked over when it found the gap.
    walked: u64,
}

impl Gap {
    pub(crate) fn covers(&self, key: &[u8]) -> bool {
        !precedes(key, &self.start) && precedes(key, &self.end)
    }

    /// Bytes of its keys.
    fn bytes(&self) -> usize {
        self.start.len() + self.end.len() + self.first.len()
    }

    fn touches(&self, other: &Gap) -> bool {
        self.start <= other.end && other.start <= self.end
    }

    /// The part of a range that is left to a scan after it has skipped the gap.
    pub(crate) fn leave<'k>(&'k self, range: KeyRange<'k>, direction: Direction) -> KeyRange<'k> {
        match direction {
            Direction::Forward => range.intersection(KeyRange::new(&self.end, None)),
            Direction::Backward => range.intersection(KeyRange::new(&[], Some(&self.start))),
        }
    }

    fn contains(&self, other: &Gap) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// Its part that is in another gap, if a scan walked over keys there.
    fn within(&self, other: &Gap) -> Option<Gap> {
        let start = self.start.clone().max(other.start.clone());
        let end = self.end.clone().min(other.end.clone());
        let first = self.first.clone().max(start.clone());
        (first < end).then_some(Gap { start, end, first, ..*self })
    }

    /// This gap and another one, which touch, as one gap.
    fn joined(self, other: &Gap) -> Gap {
        Gap {
            start: self.start.min(other.start.clone()),
            end: self.end.max(other.end.clone()),
            first: self.first.min(other.first.clone()),
            csn: self.csn.max(other.csn),
            walked: self.walked + other.walked,
        }
    }
}

/// The counters of all sub-tables of an engine.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// The tombstones and hidden rows that scans passed.
    pub(crate) walked: AtomicU64,
    /// The gaps that became active.
    pub(crate) published: AtomicU64,
}

/// The gaps of a sub-table. The module's page states the guarantees.
#[derive(Debug)]
pub(crate) struct TombstoneSkip {
    /// Whether gaps are used.
    on: bool,
    /// The number of gaps in the list.
    count: AtomicUsize,
    list: Shared,
    /// The number of the next trial. Locked while the list is replaced.
    changing: Mutex<u64>,
    figures: Arc<Figures>,
}

impl TombstoneSkip {
    /// No gaps yet. Unless `on`, there will never be any.
    pub(crate) fn new(on: bool, figures: Arc<Figures>) -> TombstoneSkip {
        TombstoneSkip {
            on,
            count: AtomicUsize::new(0),
            list: Shared::default(),
            changing: Mutex::new(0),
            figures,
        }
    }

    /// Empty gaps for a sub-table that replaces this one's.
    pub(crate) fn anew(&self) -> TombstoneSkip {
        TombstoneSkip::new(self.on, self.figures.clone())
    }

    /// The active gap over a key, for a reader at a snapshot.
    pub(crate) fn over(&self, key: &[u8], snapshot: Csn) -> Option<Arc<Gap>> {
        self.find(|list| list.over(key, snapshot).cloned())
    }

    /// The active gap in which a scan of a range would begin.
    pub(crate) fn at_begin(
        &self,
        range: KeyRange<'_>,
        direction: Direction,
        snapshot: Csn,
    ) -> Option<Arc<Gap>> {
        self.find(|list| list.at_begin(range, direction, snapshot).cloned())
    }

    fn find(&self, find: impl Fn(&List) -> Option<Arc<Gap>>) -> Option<Arc<Gap>> {
        // A reader that must see that a gap was cut has seen the commit that cut it. A missed gap
        // only costs a walk.
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        find(&self.list.load())
    }

    /// Cuts a key out of all gaps. The caller has inserted its value into a memtable, and has not
    /// left the memtable's gate yet (TOMBSTONE-SKIP-2).
    pub(crate) fn cut(&self, key: &[u8]) {
        // A relaxed load suffices inside the gate: the module's page says why.
        if self.count.load(Ordering::Relaxed) != 0 && self.list.load().covers(key) {
            self.cut_out(key);
        }
    }

    #[cold]
    fn cut_out(&self, key: &[u8]) {
        self.change(|list, _| list.cut(key));
    }

    fn change<T>(&self, change: impl FnOnce(&mut List, &mut u64) -> T) -> T {
        let mut trials = self.changing.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let mut list = List::clone(&self.list.load());
        let changed = change(&mut list, &mut trials);
        let count = list.len();
        self.list.store(list);
        self.count.store(count, Ordering::Relaxed);
        changed
    }

    #[cfg(all(test, not(loom)))]
    fn all(&self) -> Vec<(String, String, u64)> {
        let text = |key: &[u8]| String::from_utf8_lossy(key).replace('\0', "+");
        let list = self.list.load();
        let known = list.active.iter().map(|known| &known.gap);
        known.map(|gap| (text(&gap.start), text(&gap.end), gap.csn.0)).collect()
    }
}

/// A list that is replaced whole, and read without a lock.
#[cfg(not(loom))]
#[derive(Debug, Default)]
struct Shared(arc_swap::ArcSwap<List>);

#[cfg(not(loom))]
impl Shared {
    fn load(&self) -> arc_swap::Guard<Arc<List>> {
        self.0.load()
    }

    fn store(&self, list: List) {
        self.0.store(Arc::new(list));
    }
}

/// In models a lock stands for loads of the list. [`TombstoneSkip::count`], which is read first, is
/// modelled as it is.
#[cfg(loom)]
#[derive(Debug, Default)]
struct Shared(Mutex<Arc<List>>);

#[cfg(loom)]
impl Shared {
    fn load(&self) -> Arc<List> {
        self.0.lock().expect("no thread panics with a lock").clone()
    }

    fn store(&self, list: List) {
        *self.0.lock().expect("no thread panics with a lock") = Arc::new(list);
    }
}
