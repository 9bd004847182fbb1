//! Estimates of the number of keys in a range.
//!
//! An estimate walks the paths to the two bounds of the range, and visits the children between the
//! two paths. A child that is a key counts as one. For a child that is a node, the estimate follows
//! a few sampled descents from this node, and computes the number of keys below it from their
//! fan-outs. It checks no versions of nodes: an inconsistent read only makes the estimate worse.

use std::ops::Bound;

use smallvec::SmallVec;

use super::Index;
use super::bounds::{Range, Ties};
use super::entry::{Entry, EntryKind};
use super::node::Node;

/// The most children of a node that are sampled.
const SAMPLES: usize = 4;
/// The most levels of a sampled descent.
const LEVELS_MAX: usize = 32;

impl Index {
    /// About how many keys lie between a lower and an upper bound. It reads the nodes on the paths
    /// to the bounds and a few nodes between them, so its time depends on the depth of the tree.
    #[must_use]
    pub fn estimate(&self, low: Bound<&[u8]>, high: Bound<&[u8]>) -> u64 {
        let range = Range::new(low, high);
        let ties = range.ties();
        if ties.is_free() {
            return self.len();
        }
        let pin = self.epochs.pin();
        let root = self.root(&pin);
        let mut keys = 0.0;
        // Two at most: the path of each bound.
        let mut paths = SmallVec::<[_; 2]>::new();
        paths.push((root.slot.load(), 0, ties));
        while let Some((entry, depth, ties)) = paths.pop() {
            match entry.kind() {
                EntryKind::Empty => {}
                EntryKind::Tail(rest, _) => {
                    keys += f64::from(u8::from(range.admits_rest(ties, depth, rest)));
                }
                EntryKind::Node(node) => {
                    let prefix = node.prefix();
                    let Some(ties) = range.follow(ties, depth, prefix) else { continue };
                    let depth = depth + prefix.len();
                    keys += children_inside(&range, node, depth, ties, |path| paths.push(path));
                }
            }
        }
        (keys as u64).min(self.len())
    }
}

/// About how many keys of the range are below a node. Children that are tied to a bound go to
/// `pass` and are not counted.
fn children_inside<'a>(
    range: &Range<'_>,
    node: Node<'a>,
    depth: usize,
    ties: Ties,
    mut pass: impl FnMut((Entry<'a>, usize, Ties)),
) -> f64 {
    if ties.is_free() {
        return keys_below(Entry::of_node(node));
    }
    let mut keys = 0.0;
    if node.ends_here().is_some() && range.admits(ties, depth) {
        keys += 1.0;
    }
    let mut nodes = SmallVec::<[_; 64]>::new();
    for (byte, entry) in node.children() {
        match range.follow(ties, depth, &[byte]) {
            None => {}
            Some(ties) if !ties.is_free() => pass((entry, depth + 1, ties)),
            Some(_) if entry.is_node() => nodes.push(entry),
            Some(_) => keys += 1.0,
        }
    }
    keys + keys_below_all(&nodes)
}

/// About how many keys are below these entries, extrapolated from samples.
fn keys_below_all(entries: &[Entry<'_>]) -> f64 {
    let samples = entries.len().min(SAMPLES);
    let sample = |number| keys_below(entries[(2 * number + 1) * entries.len() / (2 * samples)]);
    let sum: f64 = (0..samples).map(sample).sum();
    if samples == 0 { 0.0 } else { sum * entries.len() as f64 / samples as f64 }
}

/// About how many keys are below an entry. On the way down it takes each node as typical of all
/// nodes of its level.
fn keys_below(mut entry: Entry<'_>) -> f64 {
    let (mut keys, mut weight) = (0.0, 1.0);
    for _ in 0..LEVELS_MAX {
        let Some(node) = entry.node() else { return keys + weight };
        let (children, nodes) = node.children().fold((0_usize, 0_usize), |(all, nodes), child| {
            (all + 1, nodes + usize::from(child.1.is_node()))
        });
        let own = children.saturating_sub(nodes) + usize::from(node.ends_here().is_some());
        keys += weight * own as f64;
        weight *= nodes as f64;
        let mut middle = node.children().map(|child| child.1).filter(|child| child.is_node());
        match middle.nth(nodes / 2) {
            Some(child) => entry = child,
            None => return keys,
        }
    }
    keys + weight
}
