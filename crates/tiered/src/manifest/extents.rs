//! The extents of a table, as a copy-on-write tree.
//!
//! EXTENT-MAP-1. *Order.* Lookups are by extent number, and iteration is in the order of these
//! numbers.
//!
//! EXTENT-MAP-2. *Clones stay.* Cloning copies one pointer, whatever the number of extents. Later
//! changes of the original do not affect the clone: a change copies each node on its path that a
//! clone shares, and updates the other nodes in place.
//!
//! EXTENT-MAP-3. *Size.* A node has at most [`ENTRIES_MAX`] entries. After a removal from a node,
//! the node is merged with a neighbour if the entries of both would fit in three quarters of a
//! node.
//!
//! Rejected: a flat map. A rewrite of the manifest and a backup's pin clone the map, and edits wait
//! until the map is cloned. Cloning a flat map would copy an entry for each extent.
//!
//! The number of a new extent is above all others, so new extents enter the rightmost node. When
//! this node is full, it is not split in halves: it stays full, and the new extent begins a node of
//! its own.

#[cfg(all(test, not(loom)))]
mod tests;

use std::sync::Arc;
use std::{fmt, mem, slice};

use super::edit::ExtentState;
use crate::extent_meta::ExtentId;

/// The most entries of a node. Tests have small nodes, so that few extents make a deep tree.
const ENTRIES_MAX: usize = if cfg!(test) { 4 } else { 64 };

/// The extents of a table.
#[derive(Clone)]
pub(crate) struct Extents {
    root: Arc<ExtentNode>,
    len: usize,
}

#[derive(Clone)]
enum ExtentNode {
    Leaf(Vec<ExtentState>),
    /// Child nodes, each with a number that is above all numbers of the previous node and not above
    /// any of its own. The number of the first is unused.
    Above(Vec<(ExtentId, Arc<ExtentNode>)>),
}

impl Default for Extents {
    fn default() -> Extents {
        Extents { root: Arc::new(ExtentNode::Leaf(Vec::new())), len: 0 }
    }
}

impl Extents {
    /// All extents.
    pub(crate) fn values(&self) -> Values<'_> {
        let mut values = Values { above: Vec::new(), leaf: [].iter(), left: self.len };
        values.descend(&self.root);
        values
    }

    /// Their numbers.
    pub(crate) fn keys(&self) -> impl ExactSizeIterator<Item = ExtentId> {
        self.values().map(|extent| extent.meta.id)
    }

    /// The extent of a number.
    pub(crate) fn get(&self, id: ExtentId) -> Option<&ExtentState> {
        let mut node = &self.root;
        loop {
            match &**node {
                ExtentNode::Leaf(extents) => return extents.get(place(extents, id).ok()?),
                ExtentNode::Above(nodes) => node = &nodes[child(nodes, id)].1,
            }
        }
    }

    /// The extent of a number, for changes. Its number must not be changed.
    pub(crate) fn get_mut(&mut self, id: ExtentId) -> Option<&mut ExtentState> {
        // Copy nothing if the extent is missing.
        self.get(id)?;
        let mut node = &mut self.root;
        loop {
            match Arc::make_mut(node) {
                ExtentNode::Leaf(extents) => {
                    let at = place(extents, id).ok()?;
                    return extents.get_mut(at);
                }
                ExtentNode::Above(nodes) => {
                    let at = child(nodes, id);
                    node = &mut nodes[at].1;
                }
            }
        }
    }

    /// Inserts an extent. Returns `false` if one with its number exists, which then stays.
    pub(crate) fn insert(&mut self, extent: ExtentState) -> bool {
        if self.get(extent.meta.id).is_some() {
            return false;
        }
        if let Some(next) = insert_below(&mut self.root, extent) {
            let first = mem::replace(&mut self.root, Arc::new(ExtentNode::Leaf(Vec::new())));
            self.root = Arc::new(ExtentNode::Above(vec![(ExtentId(0), first), next]));
        }
        self.len += 1;
        true
    }

    /// Removes an extent.
    pub(crate) fn remove(&mut self, id: ExtentId) -> Option<ExtentState> {
        self.get(id)?;
        let removed = remove_below(&mut self.root, id);
        while let ExtentNode::Above(nodes) = &*self.root
            && let [(_, only)] = &nodes[..]
        {
            self.root = only.clone();
        }
        self.len -= 1;
        Some(removed)
    }
}

fn place(extents: &[ExtentState], id: ExtentId) -> Result<usize, usize> {
    extents.binary_search_by_key(&id, |extent| extent.meta.id)
}

/// The index of the node that would have an extent.
fn child(nodes: &[(ExtentId, Arc<ExtentNode>)], id: ExtentId) -> usize {
    nodes.partition_point(|(first, _)| *first <= id).saturating_sub(1)
}

/// The index at which a node that is too long is split, where `at` is the index of the entry that
/// was just inserted. After an insertion at its end, more insertions there are likely, so the node
/// keeps all other entries.
fn cut(entries: usize, at: usize) -> usize {
    if at + 1 == entries { entries - 1 } else { entries / 2 }
}

/// Inserts an extent into a node. If the node is split, returns the new node and its first number.
fn insert_below(
    node: &mut Arc<ExtentNode>,
    extent: ExtentState,
) -> Option<(ExtentId, Arc<ExtentNode>)> {
    let id = extent.meta.id;
    match Arc::make_mut(node) {
        ExtentNode::Leaf(extents) => {
            let (Ok(at) | Err(at)) = place(extents, id);
            extents.insert(at, extent);
            (extents.len() > ENTRIES_MAX).then(|| {
                let next = extents.split_off(cut(extents.len(), at));
                (next[0].meta.id, Arc::new(ExtentNode::Leaf(next)))
            })
        }
        ExtentNode::Above(nodes) => {
            let at = child(nodes, id);
            let next = insert_below(&mut nodes[at].1, extent)?;
            nodes.insert(at + 1, next);
            (nodes.len() > ENTRIES_MAX).then(|| {
                let next = nodes.split_off(cut(nodes.len(), at + 1));
                (next[0].0, Arc::new(ExtentNode::Above(next)))
            })
        }
    }
}

/// Removes an existing extent from a node, which may become empty.
fn remove_below(node: &mut Arc<ExtentNode>, id: ExtentId) -> ExtentState {
    match Arc::make_mut(node) {
        ExtentNode::Leaf(extents) => {
            extents.remove(place(extents, id).expect("who removes an extent has found it"))
        }
        ExtentNode::Above(nodes) => {
            let at = child(nodes, id);
            let removed = remove_below(&mut nodes[at].1, id);
            if nodes[at].1.entries() == 0 {
                nodes.remove(at);
            } else {
                let neighbours = [at.checked_sub(1), Some(at)].into_iter().flatten();
                let fits = |at: &usize| {
                    let entries = |at: usize| nodes.get(at).map(|(_, node)| node.entries());
                    let both = entries(*at).zip(entries(at + 1));
                    both.is_some_and(|(one, two)| one + two <= ENTRIES_MAX * 3 / 4)
                };
                if let Some(at) = neighbours.into_iter().find(fits) {
                    let (first, next) = nodes.remove(at + 1);
                    Arc::make_mut(&mut nodes[at].1).join(first, Arc::unwrap_or_clone(next));
                }
            }
            removed
        }
    }
}

impl ExtentNode {
    fn entries(&self) -> usize {
        match self {
            ExtentNode::Leaf(extents) => extents.len(),
            ExtentNode::Above(nodes) => nodes.len(),
        }
    }

    /// Appends the entries of the next node, which has no number below `first`.
    fn join(&mut self, first: ExtentId, next: ExtentNode) {
        match (self, next) {
            (ExtentNode::Leaf(own), ExtentNode::Leaf(others)) => own.extend(others),
            (ExtentNode::Above(own), ExtentNode::Above(mut others)) => {
                others[0].0 = first;
                own.extend(others);
            }
            _ => unreachable!("leaves are as deep as each other"),
        }
    }
}

/// Extents, by their numbers.
pub(crate) struct Values<'a> {
    above: Vec<slice::Iter<'a, (ExtentId, Arc<ExtentNode>)>>,
    leaf: slice::Iter<'a, ExtentState>,
    left: usize,
}

impl<'a> Values<'a> {
    fn descend(&mut self, mut node: &'a ExtentNode) {
        loop {
            match node {
                ExtentNode::Leaf(extents) => {
                    self.leaf = extents.iter();
                    return;
                }
                ExtentNode::Above(nodes) => {
                    let mut nodes = nodes.iter();
                    let Some((_, first)) = nodes.next() else { return };
                    self.above.push(nodes);
                    node = first;
                }
            }
        }
    }
}

impl<'a> Iterator for Values<'a> {
    type Item = &'a ExtentState;

    fn next(&mut self) -> Option<&'a ExtentState> {
        loop {
            if let Some(extent) = self.leaf.next() {
                self.left -= 1;
                return Some(extent);
            }
            match self.above.last_mut()?.next() {
                Some((_, node)) => self.descend(node),
                None => drop(self.above.pop()),
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Values<'_> {}

impl PartialEq for Extents {
    fn eq(&self, other: &Extents) -> bool {
        self.values().eq(other.values())
    }
}

impl Eq for Extents {}

impl fmt::Debug for Extents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.values()).finish()
    }
}
