//! The slices of a run, as an immutable tree: an edit makes a new tree.
//!
//! SLICE-TREE-1. *The run.* The slices from left to right are in key order and share no keys. An
//! edit that would break this is refused.
//!
//! SLICE-TREE-2. *Snapshots stay.* An edit changes no node, so the content of an older tree does
//! not change for its holder.
//!
//! SLICE-TREE-3. *Only paths are copied.* If an edit changes nothing below a node, the tree after
//! the edit has the same node. The exception is a neighbour that is merged with a changed node
//! (SLICE-TREE-4). So an edit at one position copies a few nodes on each level of the path. For
//! each of these nodes, it copies at most [`ENTRIES_MAX`] pointers and key prefixes, whatever the
//! number of slices.
//!
//! SLICE-TREE-4. *Balance.* All leaves have the same depth. A node has at most [`ENTRIES_MAX`]
//! entries, and a node with neighbours has at least a quarter of that. So the depth is logarithmic
//! in the number of slices.
//!
//! X-Engine's metadata index copies paths in the same way (section 3.1.3).
//!
//! Rejected: a flat list. A search in it was as fast as in the tree, but an edit copied a counted
//! pointer for each slice, and later dropped it: some ten milliseconds for half a million slices.
//!
//! Rejected: a list of lists. An edit would still copy about a thousand counted pointers. Each copy
//! changes the count of a list or slice that is in no processor cache.

use std::cmp::Ordering;
use std::sync::Arc;

use spillway_base::{Csn, Error, Result};

use super::heads::Heads;
use super::slice::Slice;

/// The most entries of a node: slices in a leaf, nodes in another node. Tests have small nodes, so
/// that few slices make a deep tree.
pub(super) const ENTRIES_MAX: usize = if cfg!(test) { 8 } else { 128 };
const ENTRIES_MIN: usize = ENTRIES_MAX / 4;

/// A node of the tree, or its root.
#[derive(Default, Debug)]
pub(super) struct SliceNode {
    heads: Heads,
    below: Below,
    count: usize,
    bytes: u64,
    csn_max: Csn,
}

#[derive(Debug)]
enum Below {
    Slices(Vec<Arc<Slice>>),
    /// Nodes of equal depth, none without slices, and the number of slices before each.
    Nodes(Vec<Arc<SliceNode>>, Vec<usize>),
}

impl Default for Below {
    fn default() -> Below {
        Below::Slices(Vec::new())
    }
}

/// Slices to remove, all of which exist, and slices to insert, both in key order.
#[derive(Clone, Copy)]
pub(super) struct Changes<'a> {
    pub(super) gone: &'a [Arc<Slice>],
    pub(super) added: &'a [Arc<Slice>],
}

impl<'a> Changes<'a> {
    fn is_empty(&self) -> bool {
        self.gone.is_empty() && self.added.is_empty()
    }

    /// The smallest key of the first changed slice.
    fn first(&self) -> Option<&'a [u8]> {
        let firsts = [self.gone, self.added].map(|slices| slices.first());
        firsts.into_iter().flatten().map(|slice| &*slice.meta.smallest).min()
    }

    /// The changes of slices that begin at or before a key, and the others.
    fn split(&self, largest: &[u8]) -> (Changes<'a>, Changes<'a>) {
        let cut = |slices: &'a [Arc<Slice>]| {
            slices.split_at(slices.partition_point(|slice| *slice.meta.smallest <= *largest))
        };
        let ((gone, gone_later), (added, added_later)) = (cut(self.gone), cut(self.added));
        (Changes { gone, added }, Changes { gone: gone_later, added: added_later })
    }
}

/// Checks that a slice before another has only keys below all keys of the other (SLICE-TREE-1).
fn apart(first: &Slice, second: &Slice) -> Result<()> {
    if first.meta.largest < second.meta.smallest {
        return Ok(());
    }
    let (first, second) = (first.meta.extent, second.meta.extent);
    Err(Error::corruption(format!("slices of {first} and {second} in one run share keys")))
}

/// Divides entries into as few parts as possible, of about equal length. If there are several
/// parts, each has room for more entries.
fn parts<T>(entries: Vec<T>) -> Vec<Vec<T>> {
    if entries.len() <= ENTRIES_MAX {
        return if entries.is_empty() { Vec::new() } else { vec![entries] };
    }
    let (all, count) = (entries.len(), entries.len().div_ceil(ENTRIES_MAX * 3 / 4));
    let end = |part: usize| part * all / count;
    let mut left = entries.into_iter();
    let lengths = (0..count).map(|part| end(part + 1) - end(part));
    lengths.map(|length| left.by_ref().take(length).collect()).collect()
}

/// The leaves of slices that share no keys, in key order.
fn leaves(slices: Vec<Arc<Slice>>) -> Result<Vec<Arc<SliceNode>>> {
    slices.windows(2).try_for_each(|pair| apart(&pair[0], &pair[1]))?;
    Ok(parts(slices).into_iter().map(|part| Arc::new(SliceNode::of_slices(part))).collect())
}

/// The parents of some nodes.
fn above(nodes: Vec<Arc<SliceNode>>) -> Vec<Arc<SliceNode>> {
    parts(nodes).into_iter().map(|part| Arc::new(SliceNode::of_nodes(part))).collect()
}

/// Joins new, short nodes with a neighbour, or balances the two (SLICE-TREE-4). The flag is whether
/// a node is new.
fn balanced(nodes: Vec<(Arc<SliceNode>, bool)>) -> Vec<Arc<SliceNode>> {
    let mut done: Vec<(Arc<SliceNode>, bool)> = Vec::with_capacity(nodes.len());
    for (node, is_new) in nodes {
        let is_short = |other: &SliceNode| other.entries().min(node.entries()) < ENTRIES_MIN;
        match done.pop_if(|(before, was_new)| (*was_new || is_new) && is_short(before)) {
            Some((before, _)) => {
                done.extend(before.joined(&node).into_iter().map(|node| (node, true)))
            }
            None => done.push((node, is_new)),
        }
    }
    done.into_iter().map(|(node, _)| node).collect()
}

/// Makes a tree of slices that are in key order.
///
/// # Errors
/// [`spillway_base::ErrorKind::Corruption`] when two of them share keys.
pub(super) fn of_sorted(slices: Vec<Arc<Slice>>) -> Result<Arc<SliceNode>> {
    leaves(slices).map(root_of)
}

/// A tree after changes.
///
/// # Errors
/// As [`of_sorted`].
pub(super) fn edited(root: &Arc<SliceNode>, changes: Changes<'_>) -> Result<Arc<SliceNode>> {
    root.edited(changes).map(root_of)
}

fn root_of(mut nodes: Vec<Arc<SliceNode>>) -> Arc<SliceNode> {
    while nodes.len() > 1 {
        nodes = above(nodes);
    }
    let mut root = nodes.pop().unwrap_or_default();
    while let Below::Nodes(nodes, _) = &root.below
        && let [only] = &nodes[..]
    {
        root = only.clone();
    }
    root
}

impl SliceNode {
    fn of_slices(slices: Vec<Arc<Slice>>) -> SliceNode {
        SliceNode {
            heads: Heads::of(slices.iter().map(|s| (&*s.meta.smallest, &*s.meta.largest))),
            count: slices.len(),
            bytes: slices.iter().map(|slice| slice.meta.bytes).sum(),
            csn_max: slices.iter().map(|s| s.meta.counts.csn_max).max().unwrap_or_default(),
            below: Below::Slices(slices),
        }
    }

    fn of_nodes(nodes: Vec<Arc<SliceNode>>) -> SliceNode {
        let mut count = 0;
        let mut starts = Vec::with_capacity(nodes.len());
        for node in &nodes {
            starts.push(count);
            count += node.count;
        }
        SliceNode {
            heads: Heads::of(nodes.iter().map(|n| (&*n.first().meta.smallest, n.largest()))),
            count,
            bytes: nodes.iter().map(|node| node.bytes).sum(),
            csn_max: nodes.iter().map(|node| node.csn_max).max().unwrap_or_default(),
            below: Below::Nodes(nodes, starts),
        }
    }

    /// The number of slices.
    #[inline]
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Bytes of all of them.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Their largest CSN.
    #[inline]
    pub(super) fn csn_max(&self) -> Csn {
        self.csn_max
    }

    fn entries(&self) -> usize {
        match &self.below {
            Below::Slices(slices) => slices.len(),
            Below::Nodes(nodes, _) => nodes.len(),
        }
    }

    /// Takes the node apart. Returns the number of its slices, and moves its child nodes to
    /// `nodes`.
    pub(super) fn take_apart(self, nodes: &mut Vec<Arc<SliceNode>>) -> usize {
        match self.below {
            Below::Slices(slices) => slices.len(),
            Below::Nodes(below, _) => {
                nodes.extend(below);
                0
            }
        }
    }

    pub(super) fn first(&self) -> &Arc<Slice> {
        match &self.below {
            Below::Slices(slices) => &slices[0],
            Below::Nodes(nodes, _) => nodes[0].first(),
        }
    }

    fn last(&self) -> &Arc<Slice> {
        match &self.below {
            Below::Slices(slices) => &slices[slices.len() - 1],
            Below::Nodes(nodes, _) => nodes[nodes.len() - 1].last(),
        }
    }

    fn largest(&self) -> &[u8] {
        &self.last().meta.largest
    }

    /// The index of the first slice that could hold `key` or a larger one.
    pub(super) fn seek(&self, key: &[u8]) -> usize {
        let (mut node, mut before) = (self, 0);
        loop {
            let Some(head) = node.heads.of_key(key) else { return before };
            match &node.below {
                Below::Slices(slices) => {
                    return before + node.heads.seek(head, key, |at| &slices[at].meta.largest);
                }
                Below::Nodes(nodes, starts) => {
                    let at = node.heads.seek(head, key, |at| nodes[at].largest());
                    let Some(next) = nodes.get(at) else { return before + node.count };
                    (node, before) = (next, before + starts[at]);
                }
            }
        }
    }

    /// The slice that would hold `key`.
    #[inline]
    pub(super) fn find(&self, key: &[u8]) -> Option<&Arc<Slice>> {
        let mut node = self;
        loop {
            let head = node.heads.of_key(key)?;
            let slices = match &node.below {
                Below::Slices(slices) => slices,
                Below::Nodes(nodes, _) => {
                    node = nodes.get(node.heads.seek(head, key, |at| nodes[at].largest()))?;
                    continue;
                }
            };
            let at = node.heads.seek(head, key, |at| &slices[at].meta.largest);
            let slice = slices.get(at)?;
            let begins = match node.heads.smallest(at).cmp(&head) {
                Ordering::Less => true,
                Ordering::Equal => *slice.meta.smallest <= *key,
                Ordering::Greater => false,
            };
            return begins.then_some(slice);
        }
    }

    /// The slices from one on that are in the same leaf.
    #[inline]
    pub(super) fn beside(&self, at: usize) -> &[Arc<Slice>] {
        let (slices, inside) = self.leaf(at);
        &slices[inside..]
    }

    /// The slices up to one, including it, that are in the same leaf.
    pub(super) fn beside_up_to(&self, at: usize) -> &[Arc<Slice>] {
        let (slices, inside) = self.leaf(at);
        &slices[..=inside]
    }

    /// The leaf of a slice, and the slice's index in it.
    #[inline]
    fn leaf(&self, mut at: usize) -> (&[Arc<Slice>], usize) {
        let mut node = self;
        loop {
            match &node.below {
                Below::Slices(slices) => return (slices, at),
                Below::Nodes(nodes, starts) => {
                    let child = starts.partition_point(|start| *start <= at) - 1;
                    (node, at) = (&nodes[child], at - starts[child]);
                }
            }
        }
    }

    /// The nodes, of the same depth as this one, with its slices after changes.
    fn edited(self: &Arc<SliceNode>, changes: Changes<'_>) -> Result<Vec<Arc<SliceNode>>> {
        match &self.below {
            _ if changes.is_empty() => Ok(vec![self.clone()]),
            Below::Slices(slices) => {
                let mut gone = changes.gone.iter().peekable();
                let kept = slices.iter().filter(|slice| {
                    gone.next_if(|gone| gone.meta.smallest == slice.meta.smallest).is_none()
                });
                let mut after = Vec::with_capacity(slices.len() + changes.added.len());
                after.extend(kept.chain(changes.added).cloned());
                after.sort_by(|a, b| a.meta.smallest.cmp(&b.meta.smallest));
                leaves(after)
            }
            Below::Nodes(nodes, _) => self.edited_below(nodes, changes),
        }
    }

    fn edited_below(
        &self,
        nodes: &[Arc<SliceNode>],
        mut changes: Changes<'_>,
    ) -> Result<Vec<Arc<SliceNode>>> {
        let mut after: Vec<(Arc<SliceNode>, bool)> = Vec::with_capacity(nodes.len() + 1);
        let (mut at, last) = (0, nodes.len() - 1);
        while let Some(key) = changes.first() {
            let sought = self.heads.of_key(key);
            let sought =
                sought.map_or(0, |head| self.heads.seek(head, key, |at| nodes[at].largest()));
            let next = sought.min(last);
            after.extend(nodes[at..next].iter().map(|node| (node.clone(), false)));
            let (own, others) = match next == last {
                true => (changes, Changes { gone: &[], added: &[] }),
                false => changes.split(nodes[next].largest()),
            };
            after.extend(nodes[next].edited(own)?.into_iter().map(|node| (node, true)));
            (at, changes) = (next + 1, others);
        }
        after.extend(nodes[at..].iter().map(|node| (node.clone(), false)));
        for pair in after.windows(2).filter(|pair| pair[0].1 || pair[1].1) {
            apart(pair[0].0.last(), pair[1].0.first())?;
        }
        Ok(above(balanced(after)))
    }

    /// Its entries and those of the next node, in one node or in two.
    fn joined(&self, next: &SliceNode) -> Vec<Arc<SliceNode>> {
        match (&self.below, &next.below) {
            (Below::Slices(own), Below::Slices(others)) => {
                let slices = parts([&own[..], others].concat());
                slices.into_iter().map(|part| Arc::new(SliceNode::of_slices(part))).collect()
            }
            (Below::Nodes(own, _), Below::Nodes(others, _)) => {
                // A short node that had no neighbour in its parent has one now.
                let is_end = |at: usize| at + 1 == own.len() || at == own.len();
                let nodes = own.iter().chain(others).cloned().enumerate();
                above(balanced(nodes.map(|(at, node)| (node, is_end(at))).collect()))
            }
            _ => unreachable!("leaves are as deep as each other (SLICE-TREE-4)"),
        }
    }

    /// Collects every node of the tree, and asserts its invariants (SLICE-TREE-1, SLICE-TREE-4).
    #[cfg(all(test, not(loom)))]
    pub(super) fn walk<'a>(
        self: &'a Arc<SliceNode>,
        is_root: bool,
        nodes: &mut Vec<&'a Arc<SliceNode>>,
    ) -> usize {
        assert!(self.entries() <= ENTRIES_MAX);
        assert!(is_root || self.entries() >= ENTRIES_MIN);
        nodes.push(self);
        match &self.below {
            Below::Slices(slices) => {
                let mut pairs = slices.windows(2);
                assert!(pairs.all(|pair| apart(&pair[0], &pair[1]).is_ok()));
                1
            }
            Below::Nodes(below, _) => {
                assert!(!is_root || below.len() > 1);
                let depths: Vec<usize> = below.iter().map(|node| node.walk(false, nodes)).collect();
                assert!(depths.iter().all(|depth| *depth == depths[0]));
                assert!(
                    below.windows(2).all(|pair| apart(pair[0].last(), pair[1].first()).is_ok())
                );
                depths[0] + 1
            }
        }
    }
}
