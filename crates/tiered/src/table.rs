//! A table: what readers see of it, and how that changes.
//!
//! Everything a read needs hangs off one [`View`], which never changes: the active memtable, those being
//! flushed, and the levels. A change of structure publishes a new view; readers take the current one without a lock, and
//! keep it for as long as they like.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use spillway_base::budget::Budget;
use spillway_base::engine::Access;
use spillway_base::{Csn, Result, TableId};

use crate::extent::ExtentHandle;
use crate::filter;
use crate::level::{Levels, LevelsEdit};
use crate::memtable::Memtable;

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
    /// Whether the manifest knows it.
    pub(crate) recorded: AtomicBool,
    /// Commits up to this one are in extents.
    flushed: AtomicU64,
    view: ArcSwap<View>,
    /// Held while the view is replaced.
    changing: Mutex<()>,
    pub(crate) compacting: AtomicBool,
}

/// What a look-up of a key found.
pub(crate) enum Found {
    /// A value, which was copied out.
    Value(Csn),
    Deleted(Csn),
    Nothing,
}

impl Table {
    pub(crate) fn new(
        id: TableId,
        created: Csn,
        flushed: Csn,
        levels: Levels,
        recorded: bool,
        budget: &Budget,
    ) -> Table {
        Table {
            id,
            created,
            dropped: AtomicU64::new(u64::MAX),
            recorded: AtomicBool::new(recorded),
            flushed: AtomicU64::new(flushed.0),
            view: ArcSwap::from_pointee(View {
                active: Arc::new(Memtable::new(budget)),
                immutables: Vec::new(),
                levels: Arc::new(levels),
            }),
            changing: Mutex::new(()),
            compacting: AtomicBool::new(false),
        }
    }

    /// What reads see now.
    pub(crate) fn view(&self) -> Arc<View> {
        self.view.load_full()
    }

    pub(crate) fn flushed(&self) -> Csn {
        Csn(self.flushed.load(Ordering::Acquire))
    }

    pub(crate) fn dropped(&self) -> Csn {
        Csn(self.dropped.load(Ordering::Acquire))
    }

    pub(crate) fn mark_dropped(&self, csn: Csn) {
        self.dropped.fetch_min(csn.0, Ordering::AcqRel);
    }

    /// Adds a version to the active memtable.
    pub(crate) fn insert(&self, key: &[u8], csn: Csn, value: Option<&[u8]>) {
        loop {
            let view = self.view.load();
            // A memtable that was sealed meanwhile has been replaced in the view.
            if let Some(inside) = view.active.enter() {
                view.active.insert(&inside, key, csn, value);
                return;
            }
        }
    }

    /// Puts a fresh memtable in place of the active one, if that holds anything. `installed` is read after the
    /// lock is taken and before the new memtable is visible: commits up to it are in the old one.
    pub(crate) fn switch(&self, budget: &Budget, installed: impl FnOnce() -> Csn) {
        let _changing = self.changing.lock();
        let old = self.view.load_full();
        if old.active.is_empty() {
            return;
        }
        let sealed = Immutable { memtable: old.active.clone(), watermark: installed() };
        let mut immutables = vec![sealed];
        immutables.extend(old.immutables.iter().cloned());
        self.view.store(Arc::new(View {
            active: Arc::new(Memtable::new(budget)),
            immutables,
            levels: old.levels.clone(),
        }));
        old.active.seal();
    }

    /// Publishes the levels after an edit, without the oldest memtable if that was flushed by it.
    pub(crate) fn edit(&self, edit: &LevelsEdit, flushed: Option<&Immutable>) {
        let _changing = self.changing.lock();
        let old = self.view.load_full();
        let mut immutables = old.immutables.clone();
        if let Some(flushed) = flushed {
            immutables.retain(|other| !Arc::ptr_eq(&other.memtable, &flushed.memtable));
            self.flushed.fetch_max(flushed.watermark.0, Ordering::AcqRel);
        }
        let levels = Arc::new(old.levels.apply(edit));
        self.view.store(Arc::new(View { active: old.active.clone(), immutables, levels }));
    }

    /// Bytes of all its memtables.
    pub(crate) fn memory_bytes(&self) -> usize {
        let view = self.view.load();
        let immutables: usize = view.immutables.iter().map(|old| old.memtable.bytes()).sum();
        view.active.bytes() + immutables
    }

    /// Commits of this table up to here would survive without the log; [`Csn::MAX`] when nothing of it is
    /// only in memory.
    pub(crate) fn persisted(&self) -> Csn {
        let before = |csn: Csn| Csn(csn.0.saturating_sub(1));
        let mut persisted = Csn::MAX;
        if !self.recorded.load(Ordering::Acquire) {
            persisted = persisted.min(before(self.created));
        }
        if self.dropped() != Csn::MAX {
            persisted = persisted.min(before(self.dropped()));
        }
        let view = self.view.load();
        let immutables = view.immutables.iter().map(|old| &old.memtable);
        for memtable in immutables.chain([&view.active]).filter(|memtable| !memtable.is_empty()) {
            persisted = persisted.min(before(memtable.csn_min()));
        }
        persisted
    }
}

impl View {
    /// The newest version of a key at or below a snapshot, from the newest place that has one. The first to
    /// have one has the newest: versions of a key arrive in order of CSN, and go down in order.
    pub(crate) fn find(
        &self,
        key: &[u8],
        snapshot: Csn,
        access: Access,
        value: &mut Vec<u8>,
    ) -> Result<Found> {
        let memtables = self.immutables.iter().map(|old| &old.memtable);
        for memtable in [&self.active].into_iter().chain(memtables) {
            if let Some(version) = memtable.get(key, snapshot) {
                return Ok(found(version.csn, version.value, value));
            }
        }
        let hash = filter::hash(key);
        for run in self.levels.runs() {
            let Some(extent) = run.find(key) else { continue };
            let seen = find_in_extent(extent, key, hash, snapshot, access, value)?;
            if !matches!(seen, Found::Nothing) {
                return Ok(seen);
            }
        }
        Ok(Found::Nothing)
    }
}

fn found(csn: Csn, version: Option<&[u8]>, value: &mut Vec<u8>) -> Found {
    match version {
        None => Found::Deleted(csn),
        Some(bytes) => {
            value.clear();
            value.extend_from_slice(bytes);
            Found::Value(csn)
        }
    }
}

fn find_in_extent(
    extent: &Arc<ExtentHandle>,
    key: &[u8],
    hash: u64,
    snapshot: Csn,
    access: Access,
    value: &mut Vec<u8>,
) -> Result<Found> {
    if extent.meta.csn_min > snapshot {
        return Ok(Found::Nothing);
    }
    let resident = extent.resident(access)?;
    if !resident.may_contain(hash) {
        return Ok(Found::Nothing);
    }
    // A key's versions may go on in the next block.
    for index in resident.seek(key)..resident.blocks() {
        let block = extent.block(&resident, index, access)?;
        for at in block.seek(key)..block.len() {
            let entry = block.entry(at);
            if entry.key != key {
                return Ok(Found::Nothing);
            }
            if entry.csn <= snapshot {
                return Ok(found(entry.csn, entry.value, value));
            }
        }
    }
    Ok(Found::Nothing)
}
