//! The ordered index of the memory engine: keys to RIDs (HiEngine, section 4.5).
//!
//! It is an adaptive radix tree (Leis, Kemper, Neumann: "The adaptive radix tree", ICDE 2013) with
//! optimistic lock coupling (Leis, Scheibner, Kemper, Neumann: "The ART of practical
//! synchronization", DaMoN 2016). A reader takes no lock and writes no shared memory except its
//! pin. It reads the version of each node on its path, and restarts if a version has changed
//! meanwhile. A writer locks the one node that it changes, and the node's parent if it replaces the
//! node.
//!
//! # Guarantees
//!
//! - **INDEX-1 (map).** A key maps to one RID at most. `get`, `insert` and `remove` of a key are
//!   linearizable: each takes effect at one moment between its call and its return.
//! - **INDEX-2 (scan).** `collect` returns each key at most once, in order. It returns every key
//!   that is in the index during the whole call and lies between the starting bound and the last
//!   returned key. A call that returns fewer than `most` keys has returned every such key up to the
//!   other bound.
//! - **INDEX-3 (keys).** A key is any byte string: it may be empty, or a prefix of another key.
//!   Recursion depth does not depend on the length of keys.
//! - **INDEX-4 (memory).** A node or leaf that a pinned reader can reach is not freed before the
//!   reader unpins. A writer replaces the content of a slot before it retires the old node or leaf.
//!
//! # The tree
//!
//! A node has a prefix of any length, a slot for the key that ends right after the prefix, and up
//! to 256 children, one for each next byte of a key. At least two of its slots are in use, so every
//! node is a branch. A leaf stores only the rest of its key: the bytes that the nodes on its path
//! do not have. The tree thus holds complete keys, and neither a failed lookup nor a scan of keys
//! reads rows. A key without a rest needs no leaf: the slot holds its RID, marked by the highest
//! bit.
//!
//! Modules, the lowest first: `memory` (allocation of nodes and leaves), `latch` (versions and
//! locks), `entry` (the content of a slot), `node`, `descent` (descents to a key), `insert`,
//! `remove`, `bounds` (ends of a scan), `scan`, `estimate`.
//!
//! Rejected: leaves with complete keys, as in Leis et al. Rows would then need no copies of their
//! keys, but an index of 40-byte keys with common prefixes would take twice the memory. The price
//! of the chosen design: an insertion that splits a leaf, and a removal that merges a node, rewrite
//! the leaf that remains.
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

/// Lists of unlinked nodes and leaves. A thread always adds to the same list.
const LIMBOS: usize = if cfg!(loom) { 1 } else { 8 };
/// Nodes and leaves added to a list between two attempts to free its memory.
const RECLAIM_EVERY: usize = if cfg!(loom) { 1 } else { 256 };

/// A concurrent ordered map from keys to RIDs.
pub struct Index {
    epochs: Arc<Epochs>,
    memory: IndexMemory,
    /// The latch of the root slot.
    latch: Latch,
    slot: Slot,
    len: StripedCount,
    retired: [Mutex<RetiredList>; LIMBOS],
}

#[derive(Default)]
struct RetiredList {
    limbo: Limbo<EntryMemory>,
    /// Additions since the last attempt to free memory.
    added: usize,
}

impl Index {
    /// An empty index. Its readers pin `epochs`, and its nodes are allocated from `memory`.
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
    /// If the key is already mapped, its RID. The mapping does not change.
    pub fn insert(&self, key: &[u8], rid: Rid, pin: &Pin<'_>) -> Result<(), Rid> {
        let inserted = self.retry(|| self.try_insert(key, rid, pin));
        if inserted.is_ok() {
            self.len.add(1);
        }
        inserted
    }

    /// Removes a key if it maps to this RID. Returns whether it did.
    pub fn remove(&self, key: &[u8], rid: Rid, pin: &Pin<'_>) -> bool {
        let removed = self.retry(|| self.try_remove(key, rid, pin));
        if removed {
            self.len.subtract(1);
        }
        removed
    }

    /// Clears `out` and collects the next entries of a scan into it, at most `most`. In a backward
    /// scan, `from` is the upper bound. Fewer entries than `most` mean that the scan has reached
    /// its end.
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

    /// The number of keys.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len.sum()
    }

    /// Whether the index has no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of nodes and leaves, including unlinked ones that are not yet freed.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.memory.bytes() as usize
    }

    /// Frees unlinked nodes and leaves that no reader can reach any more. Writers also do this
    /// periodically.
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

    /// Frees a node or leaf once no reader can reach it. The caller has unlinked it.
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

    /// Repeats an attempt until it meets no conflict.
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

    /// The root slot, valid while the reader is pinned.
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
                // SAFETY: no other thread has the index, and each node and leaf is in one slot.
                unsafe { memory.free(&self.memory) };
            }
        }
        // `&mut self` proves that no reader is left that could reach the retired memory.
        for list in &self.retired {
            let mut list = list.lock();
            for memory in list.limbo.drain() {
                // SAFETY: as above.
                unsafe { memory.free(&self.memory) };
            }
        }
    }
}
