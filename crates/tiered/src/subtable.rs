//! A sub-table: a range of a table's keys, as an LSM-tree of its own (X-Engine, section 2).
//!
//! A sub-table publishes an immutable [`View`] for reads. Each change of its structure publishes a
//! new view. Readers take the current view without a lock (section 3.1.3).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use spillway_base::lock::Mutex;
use spillway_base::{Csn, Error, KeyRange, TableId, clock};

use crate::extent_meta::{ExtentId, SliceMeta};
use crate::level::{Levels, LevelsEdit};
use crate::memtable::{Accounts, Memtable};
use crate::picker::{Conflicts, Pick};
use crate::ranges::RangeTombstones;
use crate::tombstone_skip::TombstoneSkip;
use crate::view::{Immutable, View};

/// The key ranges of a sub-table that compactions hold.
#[derive(Default)]
struct HeldKeys {
    bars: Conflicts,
    is_whole: bool,
}

/// The first and the last of some keys.
type Hull = (Box<[u8]>, Box<[u8]>);

/// The right to change the levels of a sub-table, for all of its keys or for a range.
pub(crate) struct Compacting {
    part: Arc<SubTable>,
    hull: Option<Hull>,
}

impl Drop for Compacting {
    fn drop(&mut self) {
        let mut work = self.part.work.lock();
        match &self.hull {
            Some((smallest, largest)) => work.bars.remove(smallest, largest),
            None => work.is_whole = false,
        }
    }
}

/// A slice that cannot be read.
struct Quarantine {
    extent: ExtentId,
    smallest: Box<[u8]>,
    largest: Box<[u8]>,
    error: Error,
}

/// The first key of a sub-table, and that of the next.
pub(crate) type SubTableBounds = (Box<[u8]>, Option<Box<[u8]>>);

/// A sub-table.
pub(crate) struct SubTable {
    /// The table.
    table: TableId,
    /// The first key.
    pub(crate) start: Box<[u8]>,
    /// The key before which it ends.
    pub(crate) end: Option<Box<[u8]>>,
    /// Commits up to this one are in extents.
    flushed: AtomicU64,
    view: ArcSwap<View>,
    /// Held while the view is replaced.
    changing: Mutex<()>,
    /// Whether other sub-tables have replaced it.
    closed: AtomicBool,
    /// The keys of it that are being compacted.
    work: Mutex<HeldKeys>,
    /// Whether a thread flushes one of its memtables.
    pub(crate) flushing: AtomicBool,
    quarantine: Mutex<Vec<Quarantine>>,
    /// Ranges without rows.
    pub(crate) gaps: TombstoneSkip,
    /// Since when it has been at rest, nanoseconds of [`clock::now`], and the bytes of its active
    /// memtable then.
    rests_since: AtomicU64,
    rested_at: AtomicU64,
    /// The number of changes of its levels, and the one at which nothing in them was found worth
    /// compressing ([`SubTable::settled_mark`]).
    edits: AtomicU64,
    settled: AtomicU64,
}

/// A sub-table is at rest while its active memtable does not grow by more than this part of the
/// bytes in its levels.
const REST_SHARE: u64 = 256;

impl SubTable {
    pub(crate) fn new(
        table: TableId,
        bounds: SubTableBounds,
        flushed: Csn,
        levels: Levels,
        gaps: TombstoneSkip,
        accounts: &Accounts,
    ) -> SubTable {
        SubTable::with(table, bounds, flushed, Vec::new(), levels, gaps, accounts)
    }

    fn with(
        table: TableId,
        (start, end): SubTableBounds,
        flushed: Csn,
        immutables: Vec<Immutable>,
        levels: Levels,
        gaps: TombstoneSkip,
        accounts: &Accounts,
    ) -> SubTable {
        let active = Arc::new(Memtable::new(accounts));
        let view = View { active, immutables, levels: Arc::new(levels) };
        SubTable {
            table,
            start,
            end,
            flushed: AtomicU64::new(flushed.0),
            view: ArcSwap::from_pointee(view),
            changing: Mutex::new(()),
            closed: AtomicBool::new(false),
            work: Mutex::new(HeldKeys::default()),
            flushing: AtomicBool::new(false),
            quarantine: Mutex::new(Vec::new()),
            gaps,
            rests_since: AtomicU64::new(clock::now().as_nanos() as u64),
            rested_at: AtomicU64::new(0),
            edits: AtomicU64::new(0),
            settled: AtomicU64::new(0),
        }
    }

    /// Its key range.
    pub(crate) fn range(&self) -> KeyRange<'_> {
        KeyRange::new(&self.start, self.end.as_deref())
    }

    /// The current view, as a counted reference.
    pub(crate) fn view(&self) -> Arc<View> {
        self.view.load_full()
    }

    /// The current view, for a short use.
    pub(crate) fn view_now(&self) -> Guard<Arc<View>> {
        self.view.load()
    }

    pub(crate) fn flushed(&self) -> Csn {
        Csn(self.flushed.load(Ordering::Acquire))
    }

    /// Whether other sub-tables have replaced it. The result holds while the manifest is locked.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Adds a version to the active memtable. Returns the memtable's bytes of memory; `None` if the
    /// sub-table is closed.
    pub(crate) fn insert(&self, key: &[u8], csn: Csn, value: Option<&[u8]>) -> Option<usize> {
        loop {
            let view = self.view.load();
            if let Some(inside) = view.active.enter() {
                let bytes = view.active.insert(&inside, key, csn, value);
                if value.is_some() {
                    self.gaps.cut(key);
                }
                return Some(bytes);
            }
            // A sealed memtable has been replaced in the view, unless the sub-table is closed.
            if self.is_closed() {
                return None;
            }
        }
    }

    /// Runs `act`, whose effect insertions check for, and returns a view with all insertions that
    /// may have checked before it: any other insertion sees the effect. `None` if `act` returns
    /// `false`, an insertion takes long, or another thread changes the view.
    pub(crate) fn view_after(&self, act: &mut dyn FnMut() -> bool) -> Option<Arc<View>> {
        // A writer that inserts into a later active memtable has loaded a view that was stored
        // under this lock later, so it sees the effect of `act`.
        let _changing = self.changing.try_lock()?;
        if self.is_closed() || !act() {
            return None;
        }
        let view = self.view.load_full();
        let quiet = view.immutables.iter().all(|old| old.memtable.is_quiet());
        (quiet && view.active.passed()).then_some(view)
    }

    /// Adds range tombstones of a commit to the active memtable; `None` if the sub-table is closed.
    pub(crate) fn insert_ranges(&self, csn: Csn, new: &RangeTombstones) -> Option<()> {
        loop {
            let view = self.view.load();
            if let Some(inside) = view.active.enter() {
                view.active.insert_ranges(&inside, csn, new);
                return Some(());
            }
            if self.is_closed() {
                return None;
            }
        }
    }

    /// Seals `active` and installs a fresh memtable, if `active` is still the active one and is not
    /// empty. Returns whether it did. `installed` is read after the lock is taken and before the
    /// new memtable is visible: commits up to it are in the old memtable.
    pub(crate) fn switch(
        &self,
        active: &Arc<Memtable>,
        accounts: &Accounts,
        installed: impl FnOnce() -> Csn,
    ) -> bool {
        let _changing = self.changing.lock();
        let old = self.view.load_full();
        if !Arc::ptr_eq(&old.active, active) || active.is_empty() || self.is_closed() {
            return false;
        }
        let mut immutables = vec![Immutable::new(active.clone(), installed())];
        immutables.extend(old.immutables.iter().cloned());
        self.view.store(Arc::new(View {
            active: Arc::new(Memtable::new(accounts)),
            immutables,
            levels: old.levels.clone(),
        }));
        // A writer that is refused from now on finds the new memtable in the view.
        active.seal();
        true
    }

    /// Publishes the levels after an edit. With `flushed`, also removes the memtable that the edit
    /// wrote into extents, and records the CSN up to which commits are there.
    pub(crate) fn edit(&self, edit: &LevelsEdit, flushed: Option<(&Arc<Memtable>, Csn)>) {
        let _changing = self.changing.lock();
        let old = self.view.load_full();
        let mut immutables = old.immutables.clone();
        let mut gone = None;
        if let Some((memtable, csn)) = flushed {
            let at = immutables.iter().position(|old| Arc::ptr_eq(&old.memtable, memtable));
            gone = at.map(|at| immutables.remove(at));
            self.flushed.fetch_max(csn.0, Ordering::AcqRel);
            self.rests_since.store(clock::now().as_nanos() as u64, Ordering::Relaxed);
        }
        let levels = old.levels.apply(edit).expect("an edit of a run takes out what it puts over");
        let levels = Arc::new(levels);
        self.view.store(Arc::new(View { active: old.active.clone(), immutables, levels }));
        self.edits.fetch_add(1, Ordering::Release);
        if let Some(gone) = gone {
            gone.let_go();
        }
    }

    /// Whether it was hardly written to for this long, as far as calls of this method can tell.
    pub(crate) fn has_rested(&self, time: Duration, now: Duration) -> bool {
        let view = self.view.load();
        let below: u64 = view.levels.runs().map(|run| run.bytes()).sum();
        let bytes = if view.active.is_empty() { 0 } else { view.active.bytes() as u64 };
        let before = self.rested_at.load(Ordering::Relaxed);
        if !view.immutables.is_empty() || bytes.abs_diff(before) > below / REST_SHARE {
            self.rested_at.store(bytes, Ordering::Relaxed);
            self.rests_since.store(now.as_nanos() as u64, Ordering::Relaxed);
            return false;
        }
        let since = Duration::from_nanos(self.rests_since.load(Ordering::Relaxed));
        now.saturating_sub(since) >= time
    }

    /// A number that changes with each change of the levels and with each epoch of the
    /// temperatures.
    pub(crate) fn settled_mark(&self, epoch: u32) -> u64 {
        (self.edits.load(Ordering::Acquire) + 1) ^ (u64::from(epoch) << 40)
    }

    /// Whether nothing was found worth compressing at this mark, once it had come to rest.
    pub(crate) fn is_settled(&self, mark: u64) -> bool {
        self.settled.load(Ordering::Relaxed) == mark
    }

    /// Records that nothing was found worth compressing at a mark that was taken before the search.
    pub(crate) fn note_settled(&self, mark: u64) {
        self.settled.store(mark, Ordering::Relaxed);
    }

    /// Bytes of all its memtables.
    pub(crate) fn memory_bytes(&self) -> usize {
        let view = self.view.load();
        let immutables: usize = view.immutables.iter().map(|old| old.memtable.bytes()).sum();
        view.active.bytes() + immutables
    }

    /// Commits of this sub-table up to here would survive without the log, if the memtable
    /// `without` were in extents; [`Csn::MAX`] when nothing of it is only in memory.
    pub(crate) fn persisted(&self, without: Option<&Arc<Memtable>>) -> Csn {
        let view = self.view.load();
        let memtables = view.memtables().filter(|memtable| !memtable.is_empty());
        let needed = memtables
            .filter(|memtable| without.is_none_or(|without| !Arc::ptr_eq(without, memtable)));
        let before = |csn: Csn| Csn(csn.0.saturating_sub(1));
        needed.map(|memtable| before(memtable.csn_min())).min().unwrap_or(Csn::MAX)
    }

    /// Makes compactions avoid the keys of a slice that cannot be read.
    pub(crate) fn quarantine(&self, slice: &SliceMeta, error: Error) {
        let mut all = self.quarantine.lock();
        // An extent may have several slices here, each with its own keys.
        let has = |known: &Quarantine| {
            known.extent == slice.extent
                && known.smallest <= slice.smallest
                && slice.largest <= known.largest
        };
        if !all.iter().any(has) {
            let (smallest, largest) = (slice.smallest.clone(), slice.largest.clone());
            all.push(Quarantine { extent: slice.extent, smallest, largest, error });
        }
    }

    /// The reason why compactions avoid some of its keys, if they do.
    pub(crate) fn quarantined(&self) -> Option<Error> {
        self.quarantine.lock().first().map(|first| first.error.clone())
    }

    /// Adds the ranges of keys that compactions avoid because something in them cannot be read.
    pub(crate) fn bar_damaged(&self, bars: &mut Conflicts) {
        for damaged in self.quarantine.lock().iter() {
            bars.add(&damaged.smallest, &damaged.largest);
        }
    }

    /// Takes the right to change all of its levels, unless other work holds a part of it, or it is
    /// closed.
    pub(crate) fn take_whole(self: &Arc<SubTable>) -> Option<Compacting> {
        let mut work = self.work.lock();
        if work.is_whole || !work.bars.is_empty() || self.is_closed() {
            return None;
        }
        work.is_whole = true;
        Some(Compacting { part: self.clone(), hull: None })
    }

    /// Takes the keys of a pick. The picker receives the ranges that other work holds and the
    /// damaged ones.
    pub(crate) fn take(
        self: &Arc<SubTable>,
        pick: impl FnOnce(&Conflicts) -> Option<Pick>,
    ) -> Option<(Compacting, Pick)> {
        let taken = self.take_keys(|bars| {
            let pick = pick(bars)?;
            let (smallest, largest) = pick.hull();
            Some(((smallest.into(), largest.into()), pick))
        });
        taken.map(|(compacting, _, pick)| (compacting, pick))
    }

    /// Takes a key range, both ends included. `choose` receives the ranges that other work holds
    /// and the damaged ones.
    pub(crate) fn take_keys<T>(
        self: &Arc<SubTable>,
        choose: impl FnOnce(&Conflicts) -> Option<(Hull, T)>,
    ) -> Option<(Compacting, Hull, T)> {
        let mut work = self.work.lock();
        if work.is_whole || self.is_closed() {
            return None;
        }
        let mut bars = work.bars.clone();
        self.bar_damaged(&mut bars);
        let (hull, chosen) = choose(&bars)?;
        work.bars.add(&hull.0, &hull.1);
        Some((Compacting { part: self.clone(), hull: Some(hull.clone()) }, hull, chosen))
    }

    /// Whether any work may change its levels.
    pub(crate) fn is_compacting(&self) -> bool {
        let work = self.work.lock();
        work.is_whole || !work.bars.is_empty()
    }

    /// The last active memtable, now that the sub-table is closed; `None` if it is empty.
    fn last(&self, installed: Csn) -> Option<Immutable> {
        let active = self.view.load().active.clone();
        // A writer may have entered its gate without having written yet.
        let unused = active.is_quiet() && active.is_empty();
        (!unused).then(|| Immutable::new(active, installed))
    }

    /// The two sub-tables that replace this one, split at a key that is inside and that no slice of
    /// `levels` spans: the keys before it, and the keys from it on. This one is closed, and commits
    /// up to `installed` were installed since.
    pub(crate) fn halves(
        &self,
        key: &[u8],
        levels: &Levels,
        installed: Csn,
        accounts: &Accounts,
    ) -> [SubTable; 2] {
        let view = self.view();
        let mut immutables: Vec<Immutable> = Vec::with_capacity(view.immutables.len() + 1);
        immutables.extend(self.last(installed));
        immutables.extend(view.immutables.iter().cloned());
        let shared = immutables.iter().map(Immutable::share).collect();
        let half = |start: &[u8], end: Option<&[u8]>, immutables| {
            let levels = levels.within(KeyRange::new(start, end));
            SubTable::with(
                self.table,
                (start.into(), end.map(Into::into)),
                self.flushed(),
                immutables,
                levels,
                self.gaps.anew(),
                accounts,
            )
        };
        [half(&self.start, Some(key), immutables), half(key, self.end.as_deref(), shared)]
    }

    /// The sub-table that replaces this one and the next. Both are closed.
    pub(crate) fn joined(&self, next: &SubTable, installed: Csn, accounts: &Accounts) -> SubTable {
        let mut immutables: Vec<Immutable> = Vec::new();
        let (one, other) = (self.view(), next.view());
        immutables.extend(self.last(installed));
        immutables.extend(next.last(installed));
        for old in one.immutables.iter().chain(&other.immutables) {
            match immutables.iter().any(|there| Arc::ptr_eq(&there.memtable, &old.memtable)) {
                // Both sub-tables waited for its flush; from now on only one does.
                true => old.let_go(),
                false => immutables.push(old.clone()),
            }
        }
        immutables.sort_by_key(|old| std::cmp::Reverse(old.watermark));
        // The memtables of both stay separate, the one with the largest watermark first, and are
        // flushed from the last one on. The memtables before one may belong to the other sub-table
        // and have commits below its watermark, which its flush does not bring into extents. So its
        // watermark is lowered below all commits of the memtables before it. A writer that has yet
        // to write into one of them has a CSN above everything that was installed, and so above
        // every watermark.
        let mut before = Csn::MAX;
        for old in &mut immutables {
            old.watermark = old.watermark.min(before);
            before = before.min(Csn(old.memtable.csn_min().0.saturating_sub(1)));
        }
        let levels = one.levels.joined(&other.levels);
        let flushed = self.flushed().min(next.flushed());
        let bounds = (self.start.clone(), next.end.clone());
        let gaps = self.gaps.anew();
        SubTable::with(self.table, bounds, flushed, immutables, levels, gaps, accounts)
    }

    /// Closes it to writers: other sub-tables will replace it. The view stays as it is. A writer
    /// that finds it closed looks its key up again until the caller has put the other sub-tables
    /// into the table, which must be soon.
    pub(crate) fn close(&self) {
        let _changing = self.changing.lock();
        self.closed.store(true, Ordering::Release);
        // A writer that is refused from now on sees that the sub-table is closed.
        self.view.load().active.seal();
    }
}
