//! Descents from the root to the slot that has a key, or where the key belongs.

use super::entry::{Entry, Slot};
use super::latch::{Conflict, Latch, Locked};
use super::node::Node;

/// A slot, with the latch it is under and the version at which it was found.
#[derive(Clone, Copy)]
pub(super) struct Edge<'a> {
    pub(super) latch: &'a Latch,
    pub(super) version: u64,
    pub(super) slot: &'a Slot,
}

impl<'a> Edge<'a> {
    #[inline]
    pub(super) fn check(&self) -> Result<(), Conflict> {
        self.latch.check(self.version)
    }

    pub(super) fn lock(&self) -> Result<Locked<'a>, Conflict> {
        self.latch.lock_at(self.version)
    }
}

/// A node on the way, at a version.
#[derive(Clone, Copy)]
pub(super) struct Visit<'a> {
    /// What leads to the node.
    pub(super) edge: Edge<'a>,
    pub(super) node: Node<'a>,
    pub(super) version: u64,
}

impl<'a> Visit<'a> {
    /// Visits the node that an edge leads to: the edge led to it when it had the version.
    #[inline]
    pub(super) fn new(edge: Edge<'a>, node: Node<'a>) -> Result<Visit<'a>, Conflict> {
        let version = node.latch().read();
        // The node may have got another place, and so another prefix, before its version was read.
        edge.check()?;
        Ok(Visit { edge, node, version })
    }

    #[inline]
    pub(super) fn check(&self) -> Result<(), Conflict> {
        self.node.latch().check(self.version)
    }

    /// Locks the edge and then the node: parents before children, as everywhere. Answers the locks
    /// in the order in which they are given back.
    pub(super) fn lock_both(&self) -> Result<(Locked<'a>, Locked<'a>), Conflict> {
        let edge = self.edge.lock()?;
        Ok((self.lock()?, edge))
    }

    pub(super) fn lock(&self) -> Result<Locked<'a>, Conflict> {
        self.node.latch().lock_at(self.version)
    }
}

/// Where a descent ends. The caller checks or locks what it uses, or it has seen nothing.
pub(super) enum End<'a> {
    /// At a slot that leads to no node, past so many bytes of the key. Unless it is the root's, the
    /// slot is of the node visited last.
    Entry { edge: Edge<'a>, entry: Entry<'a>, depth: usize, holder: Option<Visit<'a>> },
    /// Within the node's prefix, of which the key has only the first bytes.
    Prefix { visit: Visit<'a>, depth: usize, shared: usize },
    /// At a node behind whose prefix the key ends.
    Here(Visit<'a>),
    /// At a node without a child for the byte at the depth.
    NoChild { visit: Visit<'a>, depth: usize },
}

/// How many bytes two slices have in common at the front.
pub(super) fn common(one: &[u8], two: &[u8]) -> usize {
    // Words first: keys may have long beginnings in common.
    let words = one.chunks_exact(8).zip(two.chunks_exact(8));
    let at = 8 * words.take_while(|(one, two)| one == two).count();
    at + one[at..].iter().zip(&two[at..]).take_while(|(one, two)| one == two).count()
}

/// Walks from the root's edge towards a key.
#[inline(always)]
pub(super) fn descend<'a>(root: Edge<'a>, key: &[u8]) -> Result<End<'a>, Conflict> {
    let (mut edge, mut depth, mut holder) = (root, 0, None);
    loop {
        let entry = edge.slot.load();
        let Some(node) = entry.node() else {
            return Ok(End::Entry { edge, entry, depth, holder });
        };
        let visit = Visit::new(edge, node)?;
        let (prefix, rest) = (node.prefix(), &key[depth..]);
        if !prefix.is_empty() && !rest.starts_with(prefix) {
            return Ok(End::Prefix { visit, depth, shared: common(prefix, rest) });
        }
        depth += prefix.len();
        let Some(byte) = key.get(depth) else { return Ok(End::Here(visit)) };
        let Some(slot) = node.find(*byte) else { return Ok(End::NoChild { visit, depth }) };
        depth += 1;
        edge = Edge { latch: node.latch(), version: visit.version, slot };
        holder = Some(visit);
    }
}
