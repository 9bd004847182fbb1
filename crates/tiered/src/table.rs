//! A table: what readers see of it, and how that changes.
//!
//! Everything a read needs hangs off one [`View`], which never changes: the active memtable, those being
//! flushed, and the levels. A change of structure publishes a new view; readers take the current one without a lock, and
//! keep it for as long as they like.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use spillway_base::engine::{Access, Found};
use spillway_base::{Csn, Error, Result, TableId};

use crate::engine::Mix;
use crate::filter;
use crate::level::{Levels, LevelsEdit, Slice};
use crate::memtable::{Accounts, Memtable};

/// A memtable that takes no more writes.
#[derive(Clone)]
pub(crate) struct Immutable {
    pub(crate) memtable: Arc<Memtable>,
    /// Every commit up to this one is in this memtable or an older one, or in extents.
    pub(crate) watermark: Csn,
}

/// What a read sees.
pub(crate) struct View {
    pub(crate) active: Arc<Memtable>,
    /// Newest first.
    pub(crate) immutables: Vec<Immutable>,
    pub(crate) levels: Arc<Levels>,
}

/// A table of the engine.
pub(crate) struct Table {
    pub(crate) id: TableId,
    pub(crate) created: Csn,
    /// The commit that dropped it; [`Csn::MAX`] while it is there.
    dropped: AtomicU64,
    /// Whether the manifest has come to know it.
    pub(crate) recorded: AtomicBool,
    /// Whether the manifest knows that it was dropped, and knows it no more.
    gone: AtomicBool,
    /// Commits up to this one are in extents.
    flushed: AtomicU64,
    view: ArcSwap<View>,
    /// Held while the view is replaced.
    changing: Mutex<()>,
    pub(crate) compacting: AtomicBool,
    /// Whether a thread flushes one of its memtables.
    pub(crate) flushing: AtomicBool,
    quarantine: Mutex<Option<Error>>,
    /// What it is used for.
    pub(crate) mix: Mix,
}

impl Table {
    pub(crate) fn new(
        id: TableId,
        created: Csn,
        flushed: Csn,
        levels: Levels,
        recorded: bool,
        accounts: &Accounts,
    ) -> Table {
        Table {
            id,
            created,
            dropped: AtomicU64::new(u64::MAX),
            recorded: AtomicBool::new(recorded),
            gone: AtomicBool::new(false),
            flushed: AtomicU64::new(flushed.0),
            view: ArcSwap::from_pointee(View {
                active: Arc::new(Memtable::new(accounts)),
                immutables: Vec::new(),
                levels: Arc::new(levels),
            }),
            changing: Mutex::new(()),
            compacting: AtomicBool::new(false),
            flushing: AtomicBool::new(false),
            quarantine: Mutex::new(None),
            mix: Mix::default(),
        }
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

    pub(crate) fn dropped(&self) -> Csn {
        Csn(self.dropped.load(Ordering::Acquire))
    }

    /// Whether it exists at a snapshot (E5); [`Csn::MAX`] is past every commit, also that which drops it.
    pub(crate) fn exists_at(&self, snapshot: Csn) -> bool {
        let dropped = self.dropped();
        self.created <= snapshot && (snapshot < dropped || dropped == Csn::MAX)
    }

    pub(crate) fn mark_dropped(&self, csn: Csn) {
        self.dropped.fetch_min(csn.0, Ordering::AcqRel);
    }

    /// Whether the manifest has forgotten it. The answer holds while the manifest is locked.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Acquire)
    }

    pub(crate) fn mark_gone(&self) {
        self.gone.store(true, Ordering::Release);
    }

    /// Adds a version to the active memtable. Answers the bytes of memory that it takes now.
    pub(crate) fn insert(&self, key: &[u8], csn: Csn, value: Option<&[u8]>) -> usize {
        loop {
            let view = self.view.load();
            // A memtable that was sealed meanwhile has been replaced in the view.
            if let Some(inside) = view.active.enter() {
                return view.active.insert(&inside, key, csn, value);
            }
        }
    }

    /// Puts a fresh memtable in place of `active`, if that is still the active one and holds anything. Answers
    /// whether it did. `installed` is read after the lock is taken and before the new memtable is visible:
    /// commits up to it are in the old one.
    pub(crate) fn switch(
        &self,
        active: &Arc<Memtable>,
        accounts: &Accounts,
        installed: impl FnOnce() -> Csn,
    ) -> bool {
        let _changing = self.changing.lock();
        let old = self.view.load_full();
        if !Arc::ptr_eq(&old.active, active) || active.is_empty() {
            return false;
        }
        let sealed = Immutable { memtable: active.clone(), watermark: installed() };
        let mut immutables = vec![sealed];
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

    /// Publishes the levels after an edit. With `flushed`, without the memtable that the edit put into
    /// extents, and with commits up to the CSN known to be there.
    pub(crate) fn edit(&self, edit: &LevelsEdit, flushed: Option<(&Arc<Memtable>, Csn)>) {
        let _changing = self.changing.lock();
        let old = self.view.load_full();
        let mut immutables = old.immutables.clone();
        if let Some((memtable, csn)) = flushed {
            immutables.retain(|other| !Arc::ptr_eq(&other.memtable, memtable));
            self.flushed.fetch_max(csn.0, Ordering::AcqRel);
        }
        let levels = old.levels.apply(edit).expect("an edit of a run takes out what it puts over");
        let levels = Arc::new(levels);
        self.view.store(Arc::new(View { active: old.active.clone(), immutables, levels }));
        if let Some((memtable, _)) = flushed {
            memtable.retire();
        }
    }

    /// Bytes of all its memtables.
    pub(crate) fn memory_bytes(&self) -> usize {
        let view = self.view.load();
        let immutables: usize = view.immutables.iter().map(|old| old.memtable.bytes()).sum();
        view.active.bytes() + immutables
    }

    /// Commits of this table up to here would survive without the log, if the memtable `without` were in
    /// extents; [`Csn::MAX`] when nothing of the table is only in memory.
    pub(crate) fn persisted(&self, without: Option<&Arc<Memtable>>) -> Csn {
        let before = |csn: Csn| Csn(csn.0.saturating_sub(1));
        let mut persisted = Csn::MAX;
        if self.is_gone() {
            return persisted;
        }
        if !self.recorded.load(Ordering::Acquire) {
            persisted = persisted.min(before(self.created));
        }
        if self.dropped() != Csn::MAX {
            persisted = persisted.min(before(self.dropped()));
        }
        let view = self.view.load();
        for memtable in view.memtables().filter(|memtable| !memtable.is_empty()) {
            if without.is_none_or(|without| !Arc::ptr_eq(without, memtable)) {
                persisted = persisted.min(before(memtable.csn_min()));
            }
        }
        persisted
    }

    /// Keeps compaction away: what it would read is damaged.
    pub(crate) fn quarantine(&self, error: Error) {
        *self.quarantine.lock() = Some(error);
    }

    /// Why compaction is kept away, if it is.
    pub(crate) fn quarantined(&self) -> Option<Error> {
        self.quarantine.lock().clone()
    }
}

impl View {
    /// All memtables, newest first.
    pub(crate) fn memtables(&self) -> impl Iterator<Item = &Arc<Memtable>> {
        let immutables = self.immutables.iter().map(|old| &old.memtable);
        std::iter::once(&self.active).chain(immutables)
    }

    /// The newest version of a key at or below a snapshot.
    ///
    /// Places are asked from the newest to the oldest, and most often the first answer is the newest version.
    /// But commits are installed in any order (E2), so one may have gone to an older memtable than one before it:
    /// an older place is asked as well if it holds anything newer than what was found.
    pub(crate) fn find(
        &self,
        key: &[u8],
        snapshot: Csn,
        access: Access,
        value: &mut Vec<u8>,
    ) -> Result<Found> {
        let mut best = Found::Nothing;
        for memtable in self.memtables().filter(|memtable| !memtable.is_empty()) {
            if (best == Found::Nothing || best.is_older_than(memtable.csn_max()))
                && let Some(version) = memtable.get(key, snapshot)
                && best.is_older_than(version.csn)
            {
                best = found(version.csn, version.value, value);
            }
        }
        let mut hash = None;
        for run in self.levels.runs() {
            if !best.is_older_than(run.csn_max()) {
                continue;
            }
            let Some(slice) = run.find(key) else { continue };
            let counts = &slice.meta.counts;
            if !best.is_older_than(counts.csn_max) || counts.csn_min > snapshot {
                continue;
            }
            let hash = *hash.get_or_insert_with(|| filter::hash(key));
            find_in_slice(slice, key, hash, snapshot, access, value, &mut best)?;
        }
        Ok(best)
    }
}

fn found(csn: Csn, version: Option<&[u8]>, value: &mut Vec<u8>) -> Found {
    value.clear();
    match version {
        None => Found::Deleted(csn),
        Some(bytes) => {
            value.extend_from_slice(bytes);
            Found::Value(csn)
        }
    }
}

fn find_in_slice(
    slice: &Slice,
    key: &[u8],
    hash: u64,
    snapshot: Csn,
    access: Access,
    value: &mut Vec<u8>,
    best: &mut Found,
) -> Result<()> {
    let resident = slice.extent.resident(access)?;
    let blocks = slice.meta.block_range();
    let first = resident.seek(blocks.clone(), key);
    // A key's versions may go on in the next block.
    for index in first..blocks.end {
        if !resident.may_contain(index, hash) {
            return Ok(());
        }
        let block = slice.extent.block(&resident, index, access)?;
        for at in block.seek(key)..block.len() {
            let entry = block.entry(at);
            if entry.key != key {
                return Ok(());
            }
            if entry.csn <= snapshot {
                if best.is_older_than(entry.csn) {
                    *best = found(entry.csn, entry.value, value);
                }
                return Ok(());
            }
        }
    }
    Ok(())
}
