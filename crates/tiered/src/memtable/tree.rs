//! An ordered index of keys for any number of concurrent writers and readers: a B-link tree (Lehman
//! and Yao, "Efficient locking for concurrent operations on B-trees") of nodes that are read
//! without a lock.
//!
//! ```text
//! level 1            [ · f │ · m ]──────────────▶ …
//!                      ▼      ▼
//! level 0   [a c d]──▶[f g]──▶[m n q]──▶[s t]──▶ …     s: not in level 1 yet, found from m by going right
//! ```
//!
//! A search in a memtable spends most of its time waiting for memory. In a skiplist of a million
//! keys, a search visits some twenty nodes, each in a cache line of its own, and most of them are
//! not in the processor's cache. In the tree, a search visits six or seven nodes. All but the last
//! stay in the processor's cache, and the lines of a node are fetched in parallel.
//!
//! # Invariants
//!
//! - Every level is a list of nodes from left to right, each with the keys from its `low` up to the
//!   next node's `low`. A key is in the node to which the descent leads, or to the right of this
//!   node, never to the left of it. The reasons are that entries move only to the right, and that a
//!   node is linked into the list of its own level before it is linked into the level above. So the
//!   levels above are shortcuts, which may lack a node for a while.
//! - A reader takes no lock and never waits for a writer, even if the writer is preempted in the
//!   middle of a change. If a writer splits a node while a reader reads it, the reader retries at
//!   this node.
//! - A writer that adds a key locks one leaf while it writes a slot, and never holds the locks of
//!   two nodes that other threads can reach. A writer that adds a version to an existing key takes
//!   no lock.
//! - A search for the predecessor of a key descends at most twice. If the leaf of the key has a
//!   smaller key, one descent is enough. If it does not, the search descends again, for the leaf's
//!   `low`, and comes to the next leaf to the left, which has only keys below `low`. Every leaf but
//!   the leftmost has a key, so the last key of this leaf is the predecessor. If this leaf is the
//!   leftmost and is empty, there is no predecessor.
//! - Nodes are freed only together with the whole tree.
//!
//! Rejected: optimistic lock coupling over wide sorted nodes (Leis and others). It needs fewer
//! levels, but a writer moves entries in place. Readers of the node wait for this writer, even if
//! the writer is preempted. In the chosen tree, a writer prepares a slot and publishes it by one
//! store.
#![allow(unsafe_code)] // A leaf: nodes and keys live in arenas, behind atomic pointers.

use std::ptr::NonNull;

use smallvec::SmallVec;
use spillway_base::sync::atomic::{AtomicPtr, Ordering};
use spillway_base::{Csn, Direction};
use spillway_reclaim::pages::PagePool;

use super::arena::Arena;
use super::key::{self, KeyRef, VersionRef};
use super::node::{self, Bound, Node, Probe, Seen};
use super::order::SLOTS;

/// The levels whose nodes a writer remembers on its descent.
const PATH_LEVELS: usize = 12;

/// The nodes that a search visited, by level.
type Path<'a> = [Option<&'a Node>; PATH_LEVELS];

/// A place in the tree: a key, or none. It stays valid while other threads add keys.
#[derive(Clone, Copy)]
pub(crate) struct TreePlace(Option<TreePosition>);

/// Places of one leaf.
pub(crate) type Places = SmallVec<[TreePlace; SLOTS]>;

/// A key, and its leaf and rank when it was found. It may have moved right since.
#[derive(Clone, Copy)]
struct TreePosition {
    key: KeyRef,
    leaf: NonNull<Node>,
    rank: usize,
}

// SAFETY: a place is only followed through the tree it came from, which may be shared between
// threads.
unsafe impl Send for TreePlace {}

pub(super) struct Tree {
    keys: Arena,
    nodes: Arena,
    root: AtomicPtr<Node>,
    /// A leaf that was the rightmost when it was created. Insertions in key order begin there.
    tail: AtomicPtr<Node>,
}

// SAFETY: nodes and keys are reached through atomic pointers only, and immutable but for atomics.
unsafe impl Send for Tree {}
// SAFETY: as for `Send`.
unsafe impl Sync for Tree {}

impl Tree {
    /// An empty tree, with memory of a pool of [`super::arena::chunks`].
    pub(super) fn new(chunks: &PagePool) -> Tree {
        let (keys, nodes) = (Arena::new(key::ALIGN, chunks), Arena::new(node::ALIGN, chunks));
        let leaf = Node::new(&nodes, None, None).as_ptr().cast().as_ptr();
        Tree { keys, nodes, root: AtomicPtr::new(leaf), tail: AtomicPtr::new(leaf) }
    }

    /// Bytes of memory taken.
    pub(super) fn bytes(&self) -> usize {
        self.keys.bytes() + self.nodes.bytes()
    }

    fn load<'a>(&'a self, pointer: &AtomicPtr<Node>) -> &'a Node {
        // SAFETY: `root` and `tail` are never null, and hold nodes of this tree, stored with
        // Release.
        unsafe { &*pointer.load(Ordering::Acquire) }
    }

    /// A node of a level, at or to the left of where a key belongs.
    fn descend<'a>(
        &'a self,
        probe: &Probe<'_>,
        bound: Bound,
        level: u32,
        path: &mut Path<'a>,
    ) -> &'a Node {
        let mut node = self.load(&self.root);
        while node.level() > level {
            let (seen, child) = node.at_or_right(probe, bound, |node, spot| {
                let equal = spot.equal && bound == Bound::AtOrBelow;
                node.child(spot.order, spot.rank + usize::from(equal))
            });
            if let Some(known) = path.get_mut(node.level() as usize) {
                *known = Some(seen.node);
            }
            node = child;
        }
        node
    }

    fn leaf(&self, probe: &Probe<'_>, bound: Bound) -> &Node {
        self.descend(probe, bound, 0, &mut Path::default())
    }

    /// Adds a version of a key. Returns whether the key is new.
    pub(super) fn insert(&self, key: &[u8], csn: Csn, value: Option<&[u8]>) -> bool {
        let probe = Probe::new(key);
        let mut path = Path::default();
        let tail = self.load(&self.tail);
        let leaf = if tail.begins(&probe, Bound::AtOrBelow) {
            tail
        } else {
            self.descend(&probe, Bound::AtOrBelow, 0, &mut path)
        };
        let (seen, found) = self.find_at(leaf, &probe);
        if let Some((found, _)) = found {
            // SAFETY: an entry of a leaf, loaded with Acquire.
            unsafe { KeyRef::from_ptr(found) }.push(&self.keys, csn, value);
            return false;
        }
        let new = KeyRef::new(&self.keys, key, Some((csn, value)));
        match self.add(seen, &probe, new, new.as_ptr(), &path) {
            None => true,
            Some(winner) => {
                // Another thread added the key first: the version goes to it, and ours, of which
                // nobody knows, stays unused in the arena.
                // SAFETY: an entry of a leaf, loaded with Acquire by `add`.
                unsafe { KeyRef::from_ptr(winner) }.push(&self.keys, csn, value);
                false
            }
        }
    }

    /// Adds an entry where its key belongs. If the key has an entry, returns that one instead.
    fn add<'a>(
        &'a self,
        seen: Seen<'a>,
        probe: &Probe<'_>,
        key: KeyRef,
        entry: NonNull<u8>,
        path: &Path<'a>,
    ) -> Option<NonNull<u8>> {
        let (mut locked, mut spot) = seen.lock(probe);
        loop {
            if spot.equal {
                return Some(locked.node.entry(spot.order.slot(spot.rank)));
            }
            let Err(at) = locked.insert(probe, spot, entry) else { return None };
            let node = locked.node;
            let right = locked.split(&self.nodes, &self.keys, at, (key, entry));
            drop(locked);
            if right.level() == 0 && right.next().is_none() {
                self.advance_tail(right);
            }
            self.link(node, right, path);
            if at == spot.order.len() {
                return None;
            }
            (locked, spot) = node.lock_at_or_right(probe);
        }
    }

    /// Makes a rightmost leaf the tail, unless the tail is a leaf further right.
    fn advance_tail(&self, leaf: &Node) {
        let least = leaf.low().map_or(&[][..], KeyRef::bytes);
        let new = leaf.as_ptr().cast().as_ptr();
        loop {
            let tail = self.load(&self.tail);
            let old = tail.as_ptr().cast().as_ptr();
            let is_behind = tail.low().is_none_or(|low| low.bytes() < least);
            if !is_behind
                || self
                    .tail
                    .compare_exchange(old, new, Ordering::Release, Ordering::Relaxed)
                    .is_ok()
            {
                return;
            }
        }
    }

    /// Links a node, which was split off from `left`, into the level above.
    fn link<'a>(&'a self, left: &'a Node, right: &'a Node, path: &Path<'a>) {
        let key = right.low().expect("a node that was split off has a least key");
        let probe = Probe::new(key.bytes());
        let level = right.level() + 1;
        let parent = match path.get(level as usize) {
            Some(Some(parent)) => parent,
            _ => self.above(left, &probe),
        };
        let (seen, _) = self.find_at(parent, &probe);
        let known = self.add(seen, &probe, key, right.as_ptr(), path);
        assert!(known.is_none(), "one node of a level begins with a key");
    }

    /// The node of the level above where a key belongs, or one to the left of it; a new root if
    /// there is no level above.
    fn above(&self, node: &Node, probe: &Probe<'_>) -> &Node {
        let level = node.level() + 1;
        let root = self.load(&self.root);
        if root.level() < level {
            // Of several threads, the first one makes the root. The others' nodes, which the new
            // root does not name yet, can be reached from its first child by going right.
            let new = Node::new(&self.nodes, None, Some(root)).as_ptr().cast().as_ptr();
            let old = root.as_ptr().cast().as_ptr();
            let _ = self.root.compare_exchange(old, new, Ordering::Release, Ordering::Relaxed);
        }
        self.descend(probe, Bound::AtOrBelow, level, &mut Path::default())
    }

    fn find_at<'a>(
        &'a self,
        leaf: &'a Node,
        probe: &Probe<'_>,
    ) -> (Seen<'a>, Option<(NonNull<u8>, usize)>) {
        leaf.at_or_right(probe, Bound::AtOrBelow, |leaf, spot| {
            spot.equal.then(|| (leaf.entry(spot.order.slot(spot.rank)), spot.rank))
        })
    }

    /// The place of an entry that was loaded from a leaf.
    fn place(&self, leaf: &Node, (entry, rank): (NonNull<u8>, usize)) -> TreePlace {
        // SAFETY: entries of leaves are keys, and loaded with Acquire.
        let key = unsafe { KeyRef::from_ptr(entry) };
        TreePlace(Some(TreePosition { key, leaf: NonNull::from(leaf), rank }))
    }

    /// The place of the first key past another one, or at it, in this leaf or to the right.
    fn past<'a>(&'a self, mut leaf: &'a Node, key: &[u8], at: bool) -> TreePlace {
        let probe = Probe::new(key);
        loop {
            let entry = leaf.read(|order| {
                let spot = leaf.find(order, &probe);
                let rank = spot.rank + usize::from(spot.equal && !at);
                leaf.entry_at(order, rank)
            });
            match (entry, leaf.next()) {
                (Some(entry), _) => return self.place(leaf, entry),
                (None, Some(next)) => leaf = next,
                (None, None) => return TreePlace(None),
            }
        }
    }

    /// The place of the first key at or past `key`.
    pub(super) fn seek(&self, key: &[u8]) -> TreePlace {
        self.past(self.leaf(&Probe::new(key), Bound::AtOrBelow), key, true)
    }

    /// The neighbour of a place in its leaf, if the place is still at its rank. Prefetches the
    /// entry after the neighbour: by the time the scan comes there, the memory has arrived, because
    /// the scan takes rows of other sources in between.
    fn beside(&self, at: TreePosition, step: impl Fn(usize) -> Option<usize>) -> Option<TreePlace> {
        // SAFETY: a leaf of this tree, which was loaded with Acquire when the place was found.
        let leaf: &Node = unsafe { at.leaf.as_ref() };
        let entry = leaf.read(|order| {
            let (entry, _) = leaf.entry_at(order, at.rank)?;
            let found =
                (entry == at.key.as_ptr()).then(|| leaf.entry_at(order, step(at.rank)?))??;
            Some((found, step(found.1).and_then(|rank| leaf.entry_at(order, rank))))
        });
        let (found, next) = entry?;
        if let Some((next, _)) = next {
            // SAFETY: entries of leaves are keys, and loaded with Acquire.
            unsafe { KeyRef::from_ptr(next) }.prefetch();
        }
        Some(self.place(leaf, found))
    }

    /// The entries next to a place in its leaf, in a direction, if the place is still at its rank.
    /// Prefetches all of them: keys that were not inserted in order are far apart in memory, and
    /// cache misses one after another would take most of a scan's time.
    pub(super) fn all_beside(&self, place: TreePlace, direction: Direction, out: &mut Places) {
        let Some(at) = place.0 else { return };
        // SAFETY: as in `beside`.
        let leaf: &Node = unsafe { at.leaf.as_ref() };
        let found = leaf.read(|order| {
            let mut found: SmallVec<[(NonNull<u8>, usize); SLOTS]> = SmallVec::new();
            let is_there = leaf.entry_at(order, at.rank).is_some_and(|it| it.0 == at.key.as_ptr());
            let mut push = |rank| found.extend(leaf.entry_at(order, rank));
            match direction {
                _ if !is_there => {}
                Direction::Forward => (at.rank + 1..order.len()).for_each(&mut push),
                Direction::Backward => (0..at.rank).rev().for_each(&mut push),
            }
            found
        });
        for entry in found {
            let place = self.place(leaf, entry);
            if let Some(at) = &place.0 {
                at.key.prefetch();
            }
            out.push(place);
        }
    }

    /// The place after one.
    pub(super) fn after(&self, place: TreePlace) -> TreePlace {
        let Some(at) = place.0 else { return place };
        self.beside(at, |rank| Some(rank + 1)).unwrap_or_else(|| {
            // SAFETY: as in `beside`.
            self.past(unsafe { at.leaf.as_ref() }, at.key.bytes(), false)
        })
    }

    /// The place before one.
    pub(super) fn before(&self, place: TreePlace) -> TreePlace {
        let Some(at) = place.0 else { return place };
        self.beside(at, |rank| rank.checked_sub(1))
            .unwrap_or_else(|| self.seek_before(Some(at.key.bytes())))
    }

    /// The place of the last key before `key`; of the last of all for `None`.
    pub(super) fn seek_before(&self, key: Option<&[u8]>) -> TreePlace {
        let Some(mut key) = key else { return self.last() };
        loop {
            let probe = Probe::new(key);
            let leaf = self.leaf(&probe, Bound::Below);
            let (seen, entry) = leaf.at_or_right(&probe, Bound::Below, |leaf, spot| {
                leaf.entry_at(spot.order, spot.rank.checked_sub(1)?)
            });
            match (entry, seen.node.low()) {
                (Some(entry), _) => return self.place(seen.node, entry),
                (None, Some(low)) => key = low.bytes(),
                (None, None) => return TreePlace(None),
            }
        }
    }

    fn last(&self) -> TreePlace {
        let mut node = self.load(&self.root);
        loop {
            let is_leaf = node.level() == 0;
            let (entry, child) = node.read(|order| {
                let last = order.len().checked_sub(1);
                let entry = last.and_then(|rank| node.entry_at(order, rank));
                (entry, (!is_leaf).then(|| node.child(order, order.len())))
            });
            node = match (node.next(), child, entry) {
                (Some(next), _, _) => next,
                (None, Some(child), _) => child,
                (None, None, Some(entry)) => return self.place(node, entry),
                (None, None, None) => return TreePlace(None),
            };
        }
    }

    /// The place of a key.
    pub(super) fn find(&self, key: &[u8]) -> Option<TreePlace> {
        let probe = Probe::new(key);
        let (seen, found) = self.find_at(self.leaf(&probe, Bound::AtOrBelow), &probe);
        found.map(|entry| self.place(seen.node, entry))
    }

    /// The key at a place of this tree.
    pub(super) fn key(&self, place: TreePlace) -> Option<&[u8]> {
        place.0.map(|at| at.key.bytes())
    }

    /// The versions at a place of this tree, newest first. Of versions with equal CSNs, only one is
    /// returned.
    pub(super) fn versions(&self, place: TreePlace) -> impl Iterator<Item = VersionRef<'_>> {
        place.0.into_iter().flat_map(|at| at.key.versions())
    }
}
