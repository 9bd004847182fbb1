//! Memtables: each holds new versions and new range tombstones of one sub-table in memory.

mod arena;
mod gate;
mod key;
mod node;
mod order;
#[cfg(test)]
mod tests;
mod tree;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use arc_swap::ArcSwapOption;
use spillway_base::budget::{Budget, Charge, Use};
use spillway_base::{Csn, Direction};

use gate::{Gate, Inside};
pub(crate) use key::VersionRef;
use spillway_base::lock::Mutex;
use spillway_reclaim::pages::PagePool;
use tree::Tree;
pub(crate) use tree::{Places, TreePlace};

use crate::ranges::RangeTombstones;

/// A memtable is full if its range tombstones take more bytes, because each commit that adds some
/// copies all of them.
pub(crate) const RANGES_BYTES_MAX: usize = 256 << 10;

/// The accounts to which the memtables of an engine are charged. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Accounts {
    /// The memory budget. A memtable is charged until its last reader is done.
    pub(crate) budget: Budget,
    /// The account of memtables that were not flushed yet.
    pub(crate) unflushed: Budget,
    chunks: PagePool,
}

impl Accounts {
    /// Freed memory of memtables is kept for the next ones, up to `spare_bytes`.
    pub(crate) fn new(budget: Budget, spare_bytes: usize) -> Accounts {
        let chunks = arena::chunks(spare_bytes, &budget);
        Accounts { budget, unflushed: Budget::new(usize::MAX), chunks }
    }

    fn charges(&self) -> Charges {
        Charges {
            memory: self.budget.charge(Use::Memtables, 0),
            unflushed: Some(self.unflushed.charge(Use::Memtables, 0)),
        }
    }
}

struct Charges {
    memory: Charge,
    /// `None` once the memtable is flushed, or need not be.
    unflushed: Option<Charge>,
}

/// A memtable. Any number of threads insert and read at once.
pub(crate) struct Memtable {
    tree: Tree,
    gate: Gate,
    csn_min: AtomicU64,
    /// The largest CSN, once the memtable is quiet and the CSN was computed; zero before.
    csn_max: AtomicU64,
    /// Whether it has range tombstones, for frequent checks.
    has_ranges: AtomicBool,
    /// The range tombstones. They are replaced as a whole while `charges` is locked.
    ranges: ArcSwapOption<RangeTombstones>,
    range_bytes: AtomicUsize,
    charges: Mutex<Charges>,
}

impl Memtable {
    /// An empty memtable, charged to the accounts as it grows.
    pub(crate) fn new(accounts: &Accounts) -> Memtable {
        Memtable {
            tree: Tree::new(&accounts.chunks),
            gate: Gate::default(),
            csn_min: AtomicU64::new(u64::MAX),
            csn_max: AtomicU64::new(0),
            has_ranges: AtomicBool::new(false),
            ranges: ArcSwapOption::empty(),
            range_bytes: AtomicUsize::new(0),
            charges: Mutex::new(accounts.charges()),
        }
    }

    /// Enters to insert, unless the memtable is sealed.
    pub(crate) fn enter(&self) -> Option<Inside<'_>> {
        self.gate.enter()
    }

    /// Lets no more insertions in.
    pub(crate) fn seal(&self) {
        self.gate.seal();
    }

    /// Whether it is sealed and every insertion has ended.
    pub(crate) fn is_quiet(&self) -> bool {
        self.gate.is_quiet()
    }

    /// Waits until all threads inside have left: [`Gate::passed`].
    pub(crate) fn passed(&self) -> bool {
        self.gate.passed()
    }

    /// Adds a version. The caller is inside. Returns the memtable's bytes of memory.
    pub(crate) fn insert(
        &self,
        inside: &Inside<'_>,
        key: &[u8],
        csn: Csn,
        value: Option<&[u8]>,
    ) -> usize {
        self.note_csn(csn);
        let before = self.tree.bytes();
        let is_new_key = self.tree.insert(key, csn, value);
        inside.added(csn, is_new_key);
        let after = self.tree.bytes();
        if after != before {
            self.charge(&mut self.charges.lock());
        }
        after
    }

    /// Adds the range tombstones of a commit. The caller is inside.
    pub(crate) fn insert_ranges(&self, inside: &Inside<'_>, csn: Csn, new: &RangeTombstones) {
        self.note_csn(csn);
        let mut charges = self.charges.lock();
        let ranges = self.ranges().map_or(RangeTombstones::NONE, |ranges| (*ranges).clone());
        let ranges = ranges.union(new);
        self.range_bytes.store(ranges.bytes(), Ordering::Relaxed);
        self.ranges.store(Some(Arc::new(ranges)));
        self.has_ranges.store(true, Ordering::Release);
        inside.added(csn, false);
        self.charge(&mut charges);
    }

    /// Whether it is full and should be flushed, where `most` is the limit of its bytes.
    pub(crate) fn is_full(&self, most: usize) -> bool {
        self.bytes() > most || self.range_bytes.load(Ordering::Relaxed) > RANGES_BYTES_MAX
    }

    /// Whether it has range tombstones.
    #[inline]
    pub(crate) fn has_ranges(&self) -> bool {
        self.has_ranges.load(Ordering::Acquire)
    }

    /// Its range tombstones, if it has some.
    pub(crate) fn ranges(&self) -> Option<Arc<RangeTombstones>> {
        if self.has_ranges() { self.ranges.load_full() } else { None }
    }

    fn note_csn(&self, csn: Csn) {
        // Read it before writing it: it seldom changes, and every insertion and read reads it.
        if self.csn_min.load(Ordering::Acquire) > csn.0 {
            self.csn_min.fetch_min(csn.0, Ordering::AcqRel);
        }
    }

    #[cold]
    fn charge(&self, charges: &mut Charges) {
        let bytes = self.bytes().max(charges.memory.bytes());
        charges.memory.resize(bytes);
        if let Some(unflushed) = &mut charges.unflushed {
            unflushed.resize(bytes);
        }
    }

    /// Called when it is in extents, or its table was dropped: from now on only readers hold it.
    pub(crate) fn retire(&self) {
        self.charges.lock().unflushed = None;
    }

    /// Bytes of memory taken.
    pub(crate) fn bytes(&self) -> usize {
        self.tree.bytes() + self.range_bytes.load(Ordering::Relaxed)
    }

    /// Distinct keys.
    pub(crate) fn keys(&self) -> usize {
        self.gate.keys()
    }

    /// Whether nothing was ever inserted, and no insertion is in progress.
    pub(crate) fn is_empty(&self) -> bool {
        self.csn_min.load(Ordering::Acquire) == u64::MAX
    }

    /// No version in it has a smaller CSN.
    pub(crate) fn csn_min(&self) -> Csn {
        Csn(self.csn_min.load(Ordering::Acquire))
    }

    /// No version in it has a larger CSN, once it is quiet.
    pub(crate) fn csn_max(&self) -> Csn {
        let known = self.csn_max.load(Ordering::Acquire);
        if known != 0 {
            return Csn(known);
        }
        let is_quiet = self.is_quiet();
        let csn = self.gate.csn_max();
        if is_quiet {
            self.csn_max.store(csn.0, Ordering::Release);
        }
        csn
    }

    /// The newest version of a key at or below a snapshot.
    pub(crate) fn get(&self, key: &[u8], snapshot: Csn) -> Option<VersionRef<'_>> {
        self.visible(self.tree.find(key)?, snapshot)
    }

    /// The newest version at a place at or below a snapshot.
    pub(crate) fn visible(&self, place: TreePlace, snapshot: Csn) -> Option<VersionRef<'_>> {
        self.tree.versions(place).find(|version| version.csn <= snapshot)
    }

    /// All versions at a place, newest first.
    pub(crate) fn versions(&self, place: TreePlace) -> impl Iterator<Item = VersionRef<'_>> {
        self.tree.versions(place)
    }

    /// The place of the first key at or past `key`.
    pub(crate) fn seek(&self, key: &[u8]) -> TreePlace {
        self.tree.seek(key)
    }

    /// The place of the last key before `key`; of the last key for `None`.
    pub(crate) fn seek_before(&self, key: Option<&[u8]>) -> TreePlace {
        self.tree.seek_before(key)
    }

    /// The place after one.
    pub(crate) fn after(&self, place: TreePlace) -> TreePlace {
        self.tree.after(place)
    }

    /// Appends the places next to one that are in the same leaf, in a direction; none if they are
    /// not known.
    pub(crate) fn beside(&self, place: TreePlace, direction: Direction, out: &mut Places) {
        self.tree.all_beside(place, direction, out);
    }

    /// The place before one.
    pub(crate) fn before(&self, place: TreePlace) -> TreePlace {
        self.tree.before(place)
    }

    /// The key at a place, if it is one.
    pub(crate) fn key(&self, place: TreePlace) -> Option<&[u8]> {
        self.tree.key(place)
    }
}
