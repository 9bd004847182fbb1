//! Memtables: the newest versions of one table, in memory.

mod arena;
mod gate;
mod key;
mod node;
mod order;
#[cfg(test)]
mod tests;
mod tree;

use std::sync::atomic::{AtomicU64, Ordering};

use spillway_base::Csn;
use spillway_base::budget::{Budget, Charge, Use};

use gate::{Gate, Inside};
pub(crate) use key::VersionRef;
use parking_lot::Mutex;
pub(crate) use tree::Place;
use tree::Tree;

use crate::pages::PagePool;

/// What the memtables of an engine are charged to. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Accounts {
    /// The memory there is: charged until the last reader is done.
    pub(crate) budget: Budget,
    /// What is still to be flushed.
    pub(crate) unflushed: Budget,
    chunks: PagePool,
}

impl Accounts {
    /// Memory that a memtable gave back is kept for the next, up to `spare_bytes`.
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
    /// None once it is flushed, or nobody will ask for that.
    unflushed: Option<Charge>,
}

/// A memtable. Any number of threads insert and read at once.
pub(crate) struct Memtable {
    tree: Tree,
    gate: Gate,
    csn_min: AtomicU64,
    /// The largest CSN, once it is quiet and was asked for; zero before.
    csn_max: AtomicU64,
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

    /// Whether it is sealed and every insertion is over.
    pub(crate) fn is_quiet(&self) -> bool {
        self.gate.is_quiet()
    }

    /// Lets everybody who is inside leave: [`Gate::passed`].
    pub(crate) fn passed(&self) -> bool {
        self.gate.passed()
    }

    /// Adds a version. The caller is inside. Answers the bytes of memory taken.
    pub(crate) fn insert(
        &self,
        inside: &Inside<'_>,
        key: &[u8],
        csn: Csn,
        value: Option<&[u8]>,
    ) -> usize {
        // Read before it is written: it seldom changes, and every insertion and read looks at it.
        if self.csn_min.load(Ordering::Acquire) > csn.0 {
            self.csn_min.fetch_min(csn.0, Ordering::AcqRel);
        }
        let before = self.tree.bytes();
        let is_new_key = self.tree.insert(key, csn, value);
        inside.added(csn, is_new_key);
        let after = self.tree.bytes();
        if after != before {
            self.charge();
        }
        after
    }

    #[cold]
    fn charge(&self) {
        let mut charges = self.charges.lock();
        let bytes = self.tree.bytes().max(charges.memory.bytes());
        charges.memory.resize(bytes);
        if let Some(unflushed) = &mut charges.unflushed {
            unflushed.resize(bytes);
        }
    }

    /// It is in extents, or its table is gone: from now on only readers hold it.
    pub(crate) fn retire(&self) {
        self.charges.lock().unflushed = None;
    }

    /// Bytes of memory taken.
    pub(crate) fn bytes(&self) -> usize {
        self.tree.bytes()
    }

    /// Distinct keys.
    pub(crate) fn keys(&self) -> usize {
        self.gate.keys()
    }

    /// Whether nothing was ever inserted, nor is being.
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
    pub(crate) fn visible(&self, place: Place, snapshot: Csn) -> Option<VersionRef<'_>> {
        self.tree.versions(place).find(|version| version.csn <= snapshot)
    }

    /// All versions at a place, newest first.
    pub(crate) fn versions(&self, place: Place) -> impl Iterator<Item = VersionRef<'_>> {
        self.tree.versions(place)
    }

    /// The place of the first key at or past `key`.
    pub(crate) fn seek(&self, key: &[u8]) -> Place {
        self.tree.seek(key)
    }

    /// The place of the last key before `key`; of the last of all for `None`.
    pub(crate) fn seek_before(&self, key: Option<&[u8]>) -> Place {
        self.tree.seek_before(key)
    }

    /// The place after one.
    pub(crate) fn after(&self, place: Place) -> Place {
        self.tree.after(place)
    }

    /// The place before one.
    pub(crate) fn before(&self, place: Place) -> Place {
        self.tree.before(place)
    }

    /// The key at a place, if it is one.
    pub(crate) fn key(&self, place: Place) -> Option<&[u8]> {
        self.tree.key(place)
    }
}
