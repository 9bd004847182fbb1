//! The ordered index of the memory engine: keys to RIDs (HiEngine, section 4.5).
//!
//! It is an adaptive radix tree (Leis, Kemper, Neumann: "The adaptive radix tree", ICDE 2013) with
//! optimistic lock coupling (Leis, Scheibner, Kemper, Neumann: "The ART of practical
//! synchronization", DaMoN 2016). A reader takes no lock and writes nothing but its pin. It reads
//! the version of each node on its way, and begins again if a version has changed meanwhile. A
//! writer locks the one node that it changes, and the node's parent if it replaces the node.
//!
//! # Guarantees
//!
//! - **INDEX-1 (map).** A key maps to one RID at most. `get`, `insert` and `remove` of a key are
//!   linearizable: each takes effect at one moment between its call and its return.
//! - **INDEX-2 (scan).** `collect` returns each key at most once, in order. It returns every key
//!   that is in the index during the whole call and lies between the bound it began from and the
//!   last key it returned. If it returned fewer keys than it could, this holds up to the other
//!   bound.
//! - **INDEX-3 (keys).** A key is any byte string: it may be empty, or a prefix of another key. No
//!   step recurses on a key's length.
//! - **INDEX-4 (memory).** A node or leaf that a pinned reader can reach is not freed before the
//!   reader unpins. A writer replaces the content of a slot before it retires the old node or leaf.
//!
//! # The tree
//!
//! A node has a prefix of any length, a slot for the key that ends behind the prefix, and up to 256
//! children by the next byte of their keys. It has at least two entries, so every node on a path is
//! a branch. A leaf has the rest of its key, the bytes that no node on its path has. So the tree
//! has each key complete, and neither a failed lookup nor a scan of keys reads rows. A key without
//! a rest needs no leaf: its RID, which is marked by its highest bit, is in the slot.
//!
//! Modules, the lowest first: `memory` (memory of nodes and leaves), `latch` (versions and locks),
//! `entry` (the content of a slot), `node`, `descent` (descents to a key), `insert`, `remove`,
//! `bounds` (ends of a scan), `scan`, `estimate`.
//!
//! Rejected: leaves with complete keys, as in Leis et al. Rows would then need no copies of their
//! keys, but an index of 40-byte keys with common prefixes takes twice the memory. The price of the
//! chosen design is that an insertion that splits a leaf, and a removal that merges a node, rewrite
//! the remaining leaf.
#![allow(unsafe_code)] // Nodes are freed here.

mod bounds;
mod descent;
mod entry;
mod estimate;
mod insert;
mod latch;
#[cfg(all(test, loom))]
mod loom_tests;
mod memory;
mod node;
mod remove;
mod scan;
#[cfg(all(test, not(loom)))]
mod tests;

use std::ops::Bound;
use std::sync::Arc;

use spillway_base::Direction;
#[cfg(not(loom))]
use spillway_base::lock::Mutex;
#[cfg(loom)]
use spillway_base::modelled::Mutex;
use spillway_reclaim::epochs::{self, Epochs, Limbo, Pin};

use crate::rid::Rid;
use descent::{Edge, End, descend};
use entry::{Entry, EntryKind, EntryMemory, Slot};
use latch::{Conflict, Latch, Patience};
use memory::{IndexMemory, StripedCount};

pub use memory::NodeMemory;
pub use scan::Entries;

/// Lists of unlinked nodes and leaves. Each thread adds to one of them.
const LIMBOS: usize = if cfg!(loom) { 1 } else { 8 };
/// How many nodes and leaves a thread adds to a list before it looks what can be freed.
const RECLAIM_EVERY: usize = if cfg!(loom) { 1 } else { 256 };

/// An ordered map from keys to RIDs, for many threads at once.
pub struct Index {
    epochs: Arc<Epochs>,
    memory: IndexMemory,
    /// The latch of the slot that leads to the tree.
    latch: Latch,
    slot: Slot,
    len: StripedCount,
    retired: [Mutex<RetiredList>; LIMBOS],
}

#[derive(Default)]
struct RetiredList {
    limbo: Limbo<EntryMemory>,
    /// Additions since the last look.
    added: usize,
}

impl Index {
    /// An index without keys. Its readers pin these epochs, and its nodes are in this memory.
    #[must_use]
    pub fn new(epochs: Arc<Epochs>, memory: Arc<NodeMemory>) -> Index {
        Index {
            epochs,
            memory: IndexMemory::new(memory),
            latch: Latch::new(),
            slot: Slot::new(Entry::EMPTY),
            len: StripedCount::default(),
            retired: std::array::from_fn(|_| Mutex::new(RetiredList::default())),
        }
    }

    /// The RID of a key.
    #[must_use]
    pub fn get(&self, key: &[u8], pin: &Pin<'_>) -> Option<Rid> {
        self.retry(|| self.try_get(key, pin))
    }

    /// Maps a key to a RID.
    ///
    /// # Errors
    /// The RID that the key maps to already, and continues to map to.
    pub fn insert(&self, key: &[u8], rid: Rid, pin: &Pin<'_>) -> Result<(), Rid> {
        let inserted = self.retry(|| self.try_insert(key, rid, pin));
        if inserted.is_ok() {
            self.len.add(1);
        }
        inserted
    }

    /// Removes a key if it maps to this RID. Whether it did.
    pub fn remove(&self, key: &[u8], rid: Rid, pin: &Pin<'_>) -> bool {
        let removed = self.retry(|| self.try_remove(key, rid, pin));
        if removed {
            self.len.subtract(1);
        }
        removed
    }

    /// Collects the next entries of a scan into `out`, which it clears first: at most `most`, from
    /// one end of a range to the other in a direction. Backward, `from` is the upper end. With
    /// fewer entries than `most`, the scan is at its end.
    pub fn collect(
        &self,
        (from, until): (Bound<&[u8]>, Bound<&[u8]>),
        direction: Direction,
        most: usize,
        out: &mut Entries,
        pin: &Pin<'_>,
    ) {
        self.collect_range(from, until, direction, most, out, pin);
    }

    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len.sum()
    }

    /// Whether there is no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of nodes and leaves, with those that wait to be freed.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.memory.bytes() as usize
    }

    /// Frees unlinked nodes and leaves whose readers have left. Writers do so now and then.
    pub fn reclaim(&self) {
        (0..LIMBOS).for_each(|number| self.reclaim_from(number, true));
    }

    fn reclaim_from(&self, number: usize, at_once: bool) {
        let mut free = Vec::new();
        {
            let mut list = self.retired[number].lock();
            if list.added >= RECLAIM_EVERY || at_once {
                list.added = 0;
                list.limbo.release(&self.epochs, &mut free);
            }
        }
        for memory in free {
            // SAFETY: it was unlinked before it was retired, and its readers have left.
            unsafe { memory.free(&self.memory) };
        }
    }

    /// Frees a node or leaf later. No slot of the tree leads to it any more.
    fn retire(&self, entry: Entry<'_>) {
        let Some(memory) = entry.memory() else { return };
        let number = epochs::stripe() % LIMBOS;
        {
            let mut list = self.retired[number].lock();
            list.limbo.put(memory);
            list.added += 1;
            if list.added < RECLAIM_EVERY {
                return;
            }
        }
        self.reclaim_from(number, false);
    }

    /// Tries until nothing interferes.
    #[inline]
    fn retry<T>(&self, mut attempt: impl FnMut() -> Result<T, Conflict>) -> T {
        let mut patience = Patience::default();
        loop {
            match attempt() {
                Ok(result) => return result,
                Err(Conflict) => patience.wait(),
            }
        }
    }

    /// The slot that leads to the tree, for as long as the reader is pinned.
    #[inline]
    fn root<'a>(&'a self, pin: &'a Pin<'_>) -> Edge<'a> {
        debug_assert!(pin.is_of(&self.epochs), "a reader pins the epochs of the index");
        Edge { latch: &self.latch, version: self.latch.read(), slot: &self.slot }
    }

    #[inline]
    fn try_get(&self, key: &[u8], pin: &Pin<'_>) -> Result<Option<Rid>, Conflict> {
        match descend(self.root(pin), key)? {
            End::Entry { edge, entry, depth, .. } => {
                edge.check()?;
                Ok(match entry.kind() {
                    EntryKind::Tail(rest, rid) if *rest == key[depth..] => Some(rid),
                    _ => None,
                })
            }
            End::Here(visit) => {
                let rid = visit.node.ends_here();
                visit.check()?;
                Ok(rid)
            }
            End::Prefix { visit, .. } | End::NoChild { visit, .. } => {
                visit.check()?;
                Ok(None)
            }
        }
    }
}

impl Drop for Index {
    fn drop(&mut self) {
        let mut entries = vec![self.slot.load()];
        while let Some(entry) = entries.pop() {
            if let EntryKind::Node(node) = entry.kind() {
                entries.extend(node.children().map(|(_, child)| child));
            }
            if let Some(memory) = entry.memory() {
                // SAFETY: nobody else has the index, and each node and leaf has one slot.
                unsafe { memory.free(&self.memory) };
            }
        }
        // Nobody is left who could have pinned before these were unlinked and read them now.
        for list in &self.retired {
            let mut list = list.lock();
            for memory in list.limbo.drain() {
                // SAFETY: as above.
                unsafe { memory.free(&self.memory) };
            }
        }
    }
}
