//! Gaps: ranges of keys without a row, which scans leap over.
//!
//! A table that is used as a queue has tombstones at its head, and the more of them the longer it
//! is used: they stay until compaction may forget them, and those in memtables until a flush. Who
//! polls the head for its first row would walk over all of them each time. So a scan that did so
//! once tells the next ones: the sub-table has a few gaps, each a range and the snapshot at which
//! it was found without a row.
//!
//! # Guarantees
//!
//! - **G1 (truth).** To a snapshot from an active gap's CSN on, at which somebody reads by the
//!   rules of E2, no key in the gap has a value. A scan at such a snapshot that comes to stand in
//!   the gap, or begins there, goes on behind it and gives the same rows. Older snapshots never
//!   leap.
//! - **G2 (insertions).** When the installation of a value returns, no gap covers its key, nor will
//!   one that was on trial then.
//! - **G3 (cost).** Scans take no lock. Insertions take none but those of a value inside a gap;
//!   where there is no gap they load one word. Deletions do nothing.
//! - **G4 (bounds).** A sub-table has at most [`GAPS_MAX`] gaps, of [`GAPS_BYTES_MAX`] of keys, and
//!   of each what it was up to
//!   [`EARLIER_MAX`] times before. Those that spare the least give way.
//! - **G5 (older snapshots).** To snapshots that may not leap what a gap has grown to, it stays
//!   what it was before, as far as G4 lets it.
//!
//! # Why it holds
//!
//! *What a gap says of later commits.* A scan at snapshot S walked a range and saw no row. All
//! commits up to S were installed before it began (E2), so nothing that is installed later changes
//! what S sees. A later snapshot sees something in the range only if a value with a CSN above S is
//! there. So a gap at S is true as long as no such value is installed: tombstones of any CSN, of
//! keys and of ranges, flushes and compactions change nothing. What a range tombstone hides from S
//! is walked over as what a tombstone of its own hides. The CSNs of commits come in any order; that
//! of a gap is only compared with snapshots.
//!
//! *The race.* A value may be installed while the gap is being found. Its writer puts it into a
//! memtable and then looks for gaps over its key; the scan puts up the gap *on trial*, which nobody
//! leaps, and then looks at the memtables once more, now for any value above S. One of the two must
//! see the other, and that is where memory orders matter: without more, either look may come too
//! early. A fence in each insertion would do; but an insertion is inside the *gate* of its memtable
//! anyway, whose word it changes when it enters and when it leaves, and it looks for gaps before it
//! leaves. So the scan changes the words of the gate as well, between putting up the gap and
//! looking: each must be seen with nobody inside. Who left before that change is seen by the second
//! look, value and all. Who enters after it sees the gap on trial. Nobody is in between. The scan
//! does not wait for long: if somebody stays inside, the gap is withdrawn, and a later scan tries
//! again.
//!
//! *Which memtables.* The view is loaded, and the gate of its active memtable passed, with the lock
//! held under which views are replaced (try-locked: scans do not wait). An insertion into a
//! memtable that became the active one later found it in a view that was stored later, under that
//! lock, so it sees the gap. Immutable memtables must be quiet, which is soon; this also covers
//! insertions that came through a sub-table that was split or joined, whose gaps are others. So
//! every insertion above S is in the view, or sees the gap. What is in the view is in a memtable,
//! which the second look reads, or was flushed since, and then the CSNs of its slice are above S:
//! the gap is withdrawn. (A value that a compaction dropped is seen by no snapshot there is or will
//! be, H2.)
//!
//! *From trial to active.* Trials and gaps are in one list, changed under a lock. An insertion that
//! finds its key in a trial takes it out of the list, and the scan then does not find it there to
//! make it active. One that finds its key in an active gap puts what is left on both sides in its
//! place. It does so before it leaves the gate, so before its commit counts as installed; a
//! snapshot that sees the value was taken later and finds the list without the gap (G2, G1).
//!
//! *Gaps within gaps.* Where the walk leapt over active gaps, the second look leaps too, by the
//! list as it is after the gate was passed: a value in such a gap would have cut it before its
//! writer left. So who polls a queue pays for what was deleted since the last poll, and no more:
//! its gap grows at the end, and takes in what it touches. What is walked and what is looked over
//! of a memtable comes a leaf at a time ([`crate::source`], S6): to wait for each key's memory,
//! which another core wrote, took most of a poll's time.
//!
//! *Gaps before they grew.* Several poll a queue, and one of them may have taken its snapshot just
//! before that of the gap which another made known meanwhile. It leaps what the gap was before:
//! each of these is a gap by itself with a CSN of its own, true for the same reasons, within the
//! one that has grown and cut with it. Their ages, in commits, are about a row of powers, so that
//! young snapshots, of which there are most, walk over little, and old ones over a part of what
//! they would. Who walks at an old snapshot adds what it found.
//!
//! *Splits, joins, recovery.* New sub-tables begin without gaps, and nothing of a gap is ever
//! stored. Whoever still reads a sub-table that others have replaced has a snapshot whose commits
//! all went to it, so its gaps are true to them as well.
//!
//! *Which keys.* A gap ends right behind the last key that was walked over, not at the row behind:
//! a queue's tail grows behind its head's gap even when nothing is between. It begins where the
//! scan did, if that walked from there on upwards: then a poll begins inside it, and seeks once. An
//! insertion before the first key that was walked over shortens it to that key, so that who inserts
//! at the lower end again and again meets it once.
//!
//! Rejected: to count tombstones per block and skip blocks that have nothing else. What is below
//! them still has to be passed, and tombstones in memtables, where a young queue has all of them,
//! are in no block.

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
/// Bytes of their keys: a few hundred for most.
const GAPS_BYTES_MAX: usize = 128 << 10;
/// What a gap was before it grew, for older snapshots.
const EARLIER_MAX: usize = 4;
/// Scans of a sub-table that may have one on trial.
const TRIALS_MAX: usize = 4;
/// Tombstones in a row from which on they are worth a gap, or its growth.
const WALKED_MIN: u64 = 64;
/// Keys that are longer are not kept.
const KEY_BYTES_MAX: usize = 1 << 10;

/// A range of keys in which a scan found no row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Gap {
    /// Its keys are those from here on, and before `end`.
    start: Box<[u8]>,
    end: Box<[u8]>,
    /// The first key of it that was walked over.
    first: Box<[u8]>,
    /// The snapshots to which it is one are those from here on.
    csn: Csn,
    /// Tombstones that were walked over when it was found.
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

    /// What of a range is left to a scan that leaps over it.
    pub(crate) fn leave<'k>(&'k self, range: KeyRange<'k>, direction: Direction) -> KeyRange<'k> {
        match direction {
            Direction::Forward => range.intersection(KeyRange::new(&self.end, None)),
            Direction::Backward => range.intersection(KeyRange::new(&[], Some(&self.start))),
        }
    }

    fn contains(&self, other: &Gap) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// What of it is in another, where something was walked over.
    fn within(&self, other: &Gap) -> Option<Gap> {
        let start = self.start.clone().max(other.start.clone());
        let end = self.end.clone().min(other.end.clone());
        let first = self.first.clone().max(start.clone());
        (first < end).then_some(Gap { start, end, first, ..*self })
    }

    /// Both as one, where they touch.
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

/// What all sub-tables of an engine count.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    /// Tombstones and hidden rows that scans walked over.
    pub(crate) walked: AtomicU64,
    /// Gaps that became active.
    pub(crate) published: AtomicU64,
}

/// The gaps of a sub-table. The module's page says what holds.
#[derive(Debug)]
pub(crate) struct TombstoneSkip {
    /// Whether there are to be any.
    on: bool,
    /// Gaps in the list.
    count: AtomicUsize,
    list: Shared,
    /// Held while the list is replaced: the number of the next trial.
    changing: Mutex<u64>,
    figures: Arc<Figures>,
}

impl TombstoneSkip {
    /// None yet, and none ever unless `on`.
    pub(crate) fn new(on: bool, figures: Arc<Figures>) -> TombstoneSkip {
        TombstoneSkip {
            on,
            count: AtomicUsize::new(0),
            list: Shared::default(),
            changing: Mutex::new(0),
            figures,
        }
    }

    /// Those of a sub-table that takes the place of this one's.
    pub(crate) fn anew(&self) -> TombstoneSkip {
        TombstoneSkip::new(self.on, self.figures.clone())
    }

    /// The active gap over a key, for somebody who reads at a snapshot.
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
        // Whoever must not miss that one was cut has seen its commit; one that is missed costs a
        // walk.
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        find(&self.list.load())
    }

    /// A value of a key is in a memtable, whose gate the caller has not left yet (G2).
    pub(crate) fn cut(&self, key: &[u8]) {
        // Inside the gate this sees all that it must.
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

/// What a load sees of the list is modelled by a lock; what of [`TombstoneSkip::count`], which is asked
/// first, as it is.
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
