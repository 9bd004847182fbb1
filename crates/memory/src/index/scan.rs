//! Scans: entries of a range in order, collected into a buffer.
//!
//! A scan keeps the path from the root: a list of nodes, each with the version at which the scan
//! read it. When the scan returns to a node that has changed, it restarts after the last key that
//! it collected. If the node has not changed, the scan continues in it. A writer may have replaced
//! nodes above this node, but it cannot have changed the bytes of the path to it: the node still
//! stands for the same key prefix. So the scan misses no entry of the node (INDEX-2).

use std::ops::Bound;

use smallvec::SmallVec;
use spillway_base::Direction;
use spillway_reclaim::epochs::Pin;

use super::Index;
use super::bounds::{Range, Ties};
use super::entry::{Entry, EntryKind};
use super::latch::{Conflict, Latch, Patience};
use super::node::Node;
use crate::rid::Rid;

/// A scan prefetches at least this many positions ahead. Otherwise a scan of sparse keys would wait
/// for each leaf separately.
const PREFETCH: usize = 8;
/// Children of the next node that a scan prefetches.
const PREFETCH_BELOW: usize = 4;

/// Entries that a scan collected: keys, concatenated in one buffer, and RIDs.
#[derive(Default)]
pub struct Entries {
    keys: Vec<u8>,
    /// The end of each key in `keys`.
    ends: Vec<usize>,
    rids: Vec<Rid>,
    /// The bytes from the root to the node that the scan is at.
    path: Vec<u8>,
}

impl Entries {
    /// Removes all entries, but keeps the buffers.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.ends.clear();
        self.rids.clear();
    }

    /// The number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rids.len()
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rids.is_empty()
    }

    /// The key of an entry.
    #[must_use]
    pub fn key(&self, number: usize) -> &[u8] {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.keys[start..self.ends[number]]
    }

    /// The RID of an entry.
    #[must_use]
    pub fn rid(&self, number: usize) -> Rid {
        self.rids[number]
    }

    /// All entries, in the order of the scan.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], Rid)> {
        (0..self.len()).map(|number| (self.key(number), self.rid(number)))
    }

    fn push(&mut self, rest: &[u8], rid: Rid) {
        self.keys.extend_from_slice(&self.path);
        self.keys.extend_from_slice(rest);
        self.ends.push(self.keys.len());
        self.rids.push(rid);
    }
}

/// A node on the path.
struct Frame<'a> {
    node: Node<'a>,
    version: u64,
    /// The position of the next child to visit.
    position: usize,
    /// Length of the path up to and including the node's prefix.
    depth: usize,
    ties: Ties,
    /// Whether the scan must collect the key that ends at the node after the children.
    ends_here_due: bool,
    /// The position up to which children were prefetched.
    prefetched: usize,
    /// Whether the scan is still at the first child. It may never reach the second child of an
    /// upper node, so it does not prefetch that child yet.
    is_first: bool,
}

impl Frame<'_> {
    /// Prefetches what the scan reads after this child.
    fn look_ahead(&mut self, child: Entry<'_>, direction: Direction) {
        if !child.is_node() {
            return self.prefetch(direction);
        }
        if std::mem::replace(&mut self.is_first, false) {
            return;
        }
        self.prefetch(direction);
        let next = self.node.next(self.position, direction).and_then(|(_, entry, _)| entry.node());
        let Some(next) = next else { return };
        let first = next.position(None, direction);
        next.prefetch_children(match direction {
            Direction::Forward => first..first + PREFETCH_BELOW,
            Direction::Backward => first.saturating_sub(PREFETCH_BELOW)..first,
        });
    }

    /// Prefetches the children of the next positions, several at once every few positions.
    #[inline]
    fn prefetch(&mut self, direction: Direction) {
        match direction {
            Direction::Forward if self.position + PREFETCH > self.prefetched => {
                let end = self.prefetched + PREFETCH;
                self.node.prefetch_children(self.prefetched..end);
                self.prefetched = end;
            }
            Direction::Backward if self.position < self.prefetched + PREFETCH => {
                let start = self.prefetched.saturating_sub(PREFETCH);
                self.node.prefetch_children(start..self.prefetched);
                self.prefetched = start;
            }
            _ => {}
        }
    }
}

impl Index {
    pub(super) fn collect_range(
        &self,
        from: Bound<&[u8]>,
        until: Bound<&[u8]>,
        direction: Direction,
        most: usize,
        out: &mut Entries,
        pin: &Pin<'_>,
    ) {
        out.clear();
        let mut last = Vec::new();
        let mut patience = Patience::default();
        loop {
            let from = if out.is_empty() { from } else { Bound::Excluded(last.as_slice()) };
            let range = match direction {
                Direction::Forward => Range::new(from, until),
                Direction::Backward => Range::new(until, from),
            };
            match self.try_collect(&range, direction, most, out, pin) {
                Ok(()) => return,
                Err(Conflict) => patience.wait(),
            }
            if let Some(number) = out.len().checked_sub(1) {
                last.clear();
                last.extend_from_slice(out.key(number));
            }
        }
    }

    fn try_collect(
        &self,
        range: &Range<'_>,
        direction: Direction,
        most: usize,
        out: &mut Entries,
        pin: &Pin<'_>,
    ) -> Result<(), Conflict> {
        if out.len() >= most {
            return Ok(());
        }
        out.path.clear();
        let root = self.root(pin);
        let mut scan = Scan { range, direction, out, frames: SmallVec::new() };
        scan.enter(root.latch, root.version, root.slot.load(), range.ties())?;
        while scan.out.len() < most && scan.step()? {}
        Ok(())
    }
}

struct Scan<'a, 's> {
    range: &'s Range<'s>,
    direction: Direction,
    out: &'s mut Entries,
    /// The nodes on the path, the root first.
    frames: SmallVec<[Frame<'a>; 12]>,
}

impl<'a> Scan<'a, '_> {
    /// Visits the next child of the last node on the path, or leaves the node after its last child.
    /// Returns false once the path is empty.
    #[inline]
    fn step(&mut self) -> Result<bool, Conflict> {
        let Some(frame) = self.frames.last_mut() else { return Ok(false) };
        let (node, version, depth) = (frame.node, frame.version, frame.depth);
        let next = node.next(frame.position, self.direction).and_then(|(byte, entry, position)| {
            // A child past the end of the range ends the visit of the node.
            let ties = self.range.follow(frame.ties, depth, &[byte])?;
            Some((byte, entry, position, ties))
        });
        self.out.path.truncate(depth);
        let Some((byte, entry, position, ties)) = next else {
            let rid = if frame.ends_here_due { node.ends_here() } else { None };
            node.latch().check(version)?;
            if let Some(rid) = rid {
                self.out.push(&[], rid);
            }
            self.frames.pop();
            return Ok(true);
        };
        frame.position = position;
        if !entry.is_rid() {
            frame.look_ahead(entry, self.direction);
        }
        self.out.path.push(byte);
        self.enter(node.latch(), version, entry, ties)?;
        Ok(true)
    }

    /// Collects the entry's key, or appends the entry's node to the path. `latch` and `version`
    /// protect the slot of the entry.
    #[inline]
    fn enter(
        &mut self,
        latch: &Latch,
        version: u64,
        entry: Entry<'a>,
        ties: Ties,
    ) -> Result<(), Conflict> {
        match entry.kind() {
            EntryKind::Empty => latch.check(version),
            EntryKind::Tail(rest, rid) => {
                latch.check(version)?;
                if self.range.admits_rest(ties, self.out.path.len(), rest) {
                    self.out.push(rest, rid);
                }
                Ok(())
            }
            EntryKind::Node(node) => {
                let child_version = node.latch().read();
                // The node may have moved in the tree before its version was read.
                latch.check(version)?;
                self.enter_node(node, child_version, ties)
            }
        }
    }

    fn enter_node(&mut self, node: Node<'a>, version: u64, ties: Ties) -> Result<(), Conflict> {
        let (prefix, rid) = (node.prefix(), node.ends_here());
        let ties = self.range.follow(ties, self.out.path.len(), prefix);
        let first = ties.and_then(|ties| {
            let depth = self.out.path.len() + prefix.len();
            self.first_position(node, ties, depth)
        });
        node.latch().check(version)?;
        let Some(ties) = ties else { return Ok(()) };
        self.out.path.extend_from_slice(prefix);
        let depth = self.out.path.len();
        let rid = rid.filter(|_| self.range.admits(ties, depth));
        let ends_here_due = self.direction == Direction::Backward && rid.is_some();
        if let Some(rid) = rid
            && (first.is_none() || self.direction == Direction::Forward)
        {
            self.out.push(&[], rid);
        }
        if let Some(position) = first {
            let (prefetched, is_first) = (position, true);
            let frame =
                Frame { node, version, position, depth, ties, ends_here_due, prefetched, is_first };
            self.frames.push(frame);
        }
        Ok(())
    }

    /// The position where the visit of a node's children begins; none if no child is in the range.
    fn first_position(&self, node: Node<'a>, ties: Ties, depth: usize) -> Option<usize> {
        let high = self.range.high_byte(ties, depth)?;
        let byte = match self.direction {
            Direction::Forward => self.range.low_byte(ties, depth),
            Direction::Backward => high,
        };
        Some(node.position(byte, self.direction))
    }
}
