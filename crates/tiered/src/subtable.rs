//! A sub-table: the keys of a table from one on up to another, as an LSM-tree of its own (X-Engine,
//! section 2).
//!
//! Everything a read needs hangs off one [`View`], which never changes: the active memtable, those
//! being flushed, and the levels. A change of structure publishes a new view, the paper's
//! metasnapshot; readers take the current one without a lock, and keep it for as long as they like
//! (section 3.1.3).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};
use spillway_base::home::Place;
use spillway_base::lock::Mutex;
use spillway_base::{Csn, Error, KeyRange, TableId, clock};

use crate::access_pattern::AccessPattern;
use crate::extent_meta::{ExtentId, SliceMeta};
use crate::filter;
use crate::level::{Levels, LevelsEdit};
use crate::memtable::{Accounts, Memtable};
use crate::picker::{Conflicts, Pick};
use crate::ranges::RangeTombstones;
use crate::tombstone_skip::TombstoneSkip;
use crate::view::{Immutable, View};
use crate::write_load::WriteLoad;

/// What of a sub-table is being compacted.
#[derive(Default)]
struct Work {
    bars: Conflicts,
    is_whole: bool,
}

/// The first and the last of some keys.
type Hull = (Box<[u8]>, Box<[u8]>);

/// The right to change the levels of a sub-table, of all its keys or of some.
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

/// Something that cannot be read.
struct Quarantine {
    extent: ExtentId,
    smallest: Box<[u8]>,
    largest: Box<[u8]>,
    error: Error,
}

/// The first key of a sub-table, and that of the next.
pub(crate) type Bounds = (Box<[u8]>, Option<Box<[u8]>>);

/// A sub-table.
pub(crate) struct SubTable {
    /// Whose it is.
    table: TableId,
    /// Its keys are those from here on.
    pub(crate) start: Box<[u8]>,
    /// And before this one.
    pub(crate) end: Option<Box<[u8]>>,
    /// Where it is at home, which whoever comes with a key is told of.
    pub(crate) place: Place,
    /// Commits up to this one are in extents.
    flushed: AtomicU64,
    view: ArcSwap<View>,
    /// Held while the view is replaced.
    changing: Mutex<()>,
    /// Whether others have taken its place.
    closed: AtomicBool,
    /// What of it is being compacted.
    work: Mutex<Work>,
    /// Whether a thread flushes one of its memtables.
    pub(crate) flushing: AtomicBool,
    quarantine: Mutex<Vec<Quarantine>>,
    /// What it is used for.
    pub(crate) mix: AccessPattern,
    /// How much it was written to lately.
    pub(crate) write_load: WriteLoad,
    /// Where it has no rows.
    pub(crate) gaps: TombstoneSkip,
    /// Since when it has been at rest, nanoseconds of [`clock::now`], and the bytes of its active
    /// memtable then.
    rests_since: AtomicU64,
    rested_at: AtomicU64,
    /// How often its levels changed, and when nothing in them was found worth compressing
    /// ([`SubTable::settled_mark`]).
    edits: AtomicU64,
    settled: AtomicU64,
}

/// Tables that were made one after another are numbered so; of one that was split the first half
/// stays at home.
fn place_of(table: TableId, start: &[u8]) -> Place {
    let part = if start.is_empty() { 0 } else { filter::hash(start) as u32 };
    Place(table.ordinal().wrapping_add(part))
}

/// A sub-table is at rest while its active memtable does not grow by more than this part of the
/// bytes in its levels.
const REST_SHARE: u64 = 256;

impl SubTable {
    pub(crate) fn new(
        table: TableId,
        bounds: Bounds,
        flushed: Csn,
        levels: Levels,
        gaps: TombstoneSkip,
        accounts: &Accounts,
    ) -> SubTable {
        SubTable::with(table, bounds, flushed, Vec::new(), levels, gaps, accounts)
    }

    fn with(
        table: TableId,
        (start, end): Bounds,
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
            place: place_of(table, &start),
            start,
            end,
            flushed: AtomicU64::new(flushed.0),
            view: ArcSwap::from_pointee(view),
            changing: Mutex::new(()),
            closed: AtomicBool::new(false),
            work: Mutex::new(Work::default()),
            flushing: AtomicBool::new(false),
            quarantine: Mutex::new(Vec::new()),
            mix: AccessPattern::default(),
            write_load: WriteLoad::default(),
            gaps,
            rests_since: AtomicU64::new(clock::now().as_nanos() as u64),
            rested_at: AtomicU64::new(0),
            edits: AtomicU64::new(0),
            settled: AtomicU64::new(0),
        }
    }

    /// The keys that are its own.
    pub(crate) fn range(&self) -> KeyRange<'_> {
        KeyRange::new(&self.start, self.end.as_deref())
    }

    /// What reads see now, to keep.
    pub(crate) fn view(&self) -> Arc<View> {
        self.view.load_full()
    }

    /// What reads see now, for a short look.
    pub(crate) fn view_now(&self) -> Guard<Arc<View>> {
        self.view.load()
    }

    pub(crate) fn flushed(&self) -> Csn {
        Csn(self.flushed.load(Ordering::Acquire))
    }

    /// Whether others have taken its place. The answer holds while the manifest is locked.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Adds a version to the active memtable. Answers the bytes of memory that it takes now; `None`
    /// when others have taken the sub-table's place.
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
            // One that was sealed has been replaced in the view, or for ever.
            if self.is_closed() {
                return None;
            }
        }
    }

    /// Does something that insertions look for, and gives a view with all those in it that may have
    /// looked too early: any other will see it. `None` where `act` answers `false`, an insertion
    /// takes long, or somebody changes the view.
    pub(crate) fn view_after(&self, act: &mut dyn FnMut() -> bool) -> Option<Arc<View>> {
        // Who comes to insert into a later active memtable has seen who held this after.
        let _changing = self.changing.try_lock()?;
        if self.is_closed() || !act() {
            return None;
        }
        let view = self.view.load_full();
        let quiet = view.immutables.iter().all(|old| old.memtable.is_quiet());
        (quiet && view.active.passed()).then_some(view)
    }

    /// Adds range tombstones of a commit to the active memtable, by the same rules.
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

    /// Puts a fresh memtable in place of `active`, if that is still the active one and holds
    /// anything. Answers whether it did. `installed` is read after the lock is taken and before the
    /// new memtable is visible: commits up to it are in the old one.
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
        // Whoever is turned away from now on finds the new one in the view.
        active.seal();
        true
    }

    /// Publishes the levels after an edit. With `flushed`, without the memtable that the edit put
    /// into extents, and with commits up to the CSN known to be there.
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

    /// Whether it has hardly been written to for so long, as far as whoever asks has asked now and
    /// then.
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

    /// What its levels are now, in this epoch of the temperatures: another number after each
    /// change.
    pub(crate) fn settled_mark(&self, epoch: u32) -> u64 {
        (self.edits.load(Ordering::Acquire) + 1) ^ (u64::from(epoch) << 40)
    }

    /// Whether nothing was found worth compressing as it is at this mark, once it rested.
    pub(crate) fn is_settled(&self, mark: u64) -> bool {
        self.settled.load(Ordering::Relaxed) == mark
    }

    /// Nothing was found so, by who took the mark before looking.
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

    /// Keeps compaction away from the keys of a slice, which cannot be read.
    pub(crate) fn quarantine(&self, slice: &SliceMeta, error: Error) {
        let mut all = self.quarantine.lock();
        // An extent may have several slices here, of which each has keys of its own.
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

    /// Why compaction is kept away from some of its keys, if it is.
    pub(crate) fn quarantined(&self) -> Option<Error> {
        self.quarantine.lock().first().map(|first| first.error.clone())
    }

    /// Adds the ranges of keys that compactions avoid because something in them cannot be read.
    pub(crate) fn bar_damaged(&self, bars: &mut Conflicts) {
        for damaged in self.quarantine.lock().iter() {
            bars.add(&damaged.smallest, &damaged.largest);
        }
    }

    /// Takes it whole for somebody who changes its levels, unless others work on some of it, or it
    /// is closed.
    pub(crate) fn take_whole(self: &Arc<SubTable>) -> Option<Compacting> {
        let mut work = self.work.lock();
        if work.is_whole || !work.bars.is_empty() || self.is_closed() {
            return None;
        }
        work.is_whole = true;
        Some(Compacting { part: self.clone(), hull: None })
    }

    /// Takes the keys of a pick, which is given what others work on and what is damaged.
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

    /// Takes keys from one up to another, both included, by the same rules.
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

    /// Whether somebody changes its levels.
    pub(crate) fn is_compacting(&self) -> bool {
        let work = self.work.lock();
        work.is_whole || !work.bars.is_empty()
    }

    /// The memtable that was the active one to the end, now that it is closed; `None` if nothing is
    /// in it.
    fn last(&self, installed: Csn) -> Option<Immutable> {
        let active = self.view.load().active.clone();
        // Somebody may have entered, and not yet begun to write.
        let unused = active.is_quiet() && active.is_empty();
        (!unused).then(|| Immutable::new(active, installed))
    }

    /// Those that take the place of this one, at a key that is inside and that no slice of `levels`
    /// spans: the keys before it, and those from it on. This one is closed, and commits up to
    /// `installed` were installed since.
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
        let mut halves =
            [half(&self.start, Some(key), immutables), half(key, self.end.as_deref(), shared)];
        [halves[0].write_load, halves[1].write_load] = self.write_load.halves(key);
        halves
    }

    /// The one that takes the place of this one and the next. Both are closed.
    pub(crate) fn joined(
        &self,
        next: &SubTable,
        installed: Csn,
        half_life: u64,
        accounts: &Accounts,
    ) -> SubTable {
        let mut immutables: Vec<Immutable> = Vec::new();
        let (one, other) = (self.view(), next.view());
        immutables.extend(self.last(installed));
        immutables.extend(next.last(installed));
        for old in one.immutables.iter().chain(&other.immutables) {
            match immutables.iter().any(|there| Arc::ptr_eq(&there.memtable, &old.memtable)) {
                // Both waited for it; one does from now on.
                true => old.let_go(),
                false => immutables.push(old.clone()),
            }
        }
        immutables.sort_by_key(|old| std::cmp::Reverse(old.watermark));
        // Those of one and of the other lie beside each other: what is flushed says nothing of what
        // still waits. Who has yet to write into one of them is above all that was installed, and
        // so above every watermark.
        let mut before = Csn::MAX;
        for old in &mut immutables {
            old.watermark = old.watermark.min(before);
            before = before.min(Csn(old.memtable.csn_min().0.saturating_sub(1)));
        }
        let levels = one.levels.joined(&other.levels);
        let flushed = self.flushed().min(next.flushed());
        let bounds = (self.start.clone(), next.end.clone());
        let gaps = self.gaps.anew();
        let joined =
            SubTable::with(self.table, bounds, flushed, immutables, levels, gaps, accounts);
        SubTable { write_load: self.write_load.joined(&next.write_load, half_life), ..joined }
    }

    /// Lets nobody write to it any more: others will take its place. The view stays as it is. Who
    /// would write looks for those others until they are there, which must be soon.
    pub(crate) fn close(&self) {
        let _changing = self.changing.lock();
        self.closed.store(true, Ordering::Release);
        // Whoever is turned away from now on sees that.
        self.view.load().active.seal();
    }
}
