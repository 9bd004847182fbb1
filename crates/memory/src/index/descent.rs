//! Descents from the root to the slot where a key is, or where it would be inserted.

use super::entry::{Entry, Slot};
use super::latch::{Conflict, Latch, Locked};
use super::node::Node;

/// A slot, the latch that protects it, and the version at which the descent read it.
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

/// A node on the path, and the version at which the descent read it.
#[derive(Clone, Copy)]
pub(super) struct Visit<'a> {
    /// The slot that points to the node.
    pub(super) edge: Edge<'a>,
    pub(super) node: Node<'a>,
    pub(super) version: u64,
}

impl<'a> Visit<'a> {
    /// Visits the node that an edge points to. Fails if the edge has changed by the time that the
    /// node's version is read.
    #[inline]
    pub(super) fn new(edge: Edge<'a>, node: Node<'a>) -> Result<Visit<'a>, Conflict> {
        let version = node.latch().read();
        // The node may have moved in the tree, and so changed its prefix, before its version was
        // read.
        edge.check()?;
        Ok(Visit { edge, node, version })
    }

    #[inline]
    pub(super) fn check(&self) -> Result<(), Conflict> {
        self.node.latch().check(self.version)
    }

    /// Locks the edge and then the node: parents before children, as everywhere. Returns the locks
    /// in the order of their release.
    pub(super) fn lock_both(&self) -> Result<(Locked<'a>, Locked<'a>), Conflict> {
        let edge = self.edge.lock()?;
        Ok((self.lock()?, edge))
    }

    pub(super) fn lock(&self) -> Result<Locked<'a>, Conflict> {
        self.node.latch().lock_at(self.version)
    }
}

/// Where a descent ends. The result is valid only if a later check or lock of the latch succeeds.
pub(super) enum End<'a> {
    /// At a slot without a node, `depth` bytes into the key. `holder` is the node that has the
    /// slot; none for the root slot.
    Entry { edge: Edge<'a>, entry: Entry<'a>, depth: usize, holder: Option<Visit<'a>> },
    /// Within the node's prefix: the key has only its first `shared` bytes.
    Prefix { visit: Visit<'a>, depth: usize, shared: usize },
    /// At a node: the key ends right after the node's prefix.
    Here(Visit<'a>),
    /// At a node without a child for the key's byte at `depth`.
    NoChild { visit: Visit<'a>, depth: usize },
}

/// The length of the common prefix of two slices.
pub(super) fn common(one: &[u8], two: &[u8]) -> usize {
    // Eight bytes at a time first: keys may have long common prefixes.
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
