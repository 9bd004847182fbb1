//! Scans: entries of a range in order, collected into a buffer.
//!
//! A scan keeps the path from the root as a list of nodes with the versions it has read. When it
//! returns to a node that has changed, it begins again behind the last key that it collected. An
//! unchanged node still stands for the same key prefix: a writer may replace nodes above it, but
//! not change the prefix that leads to it. So the entries that the scan sees in the node are
//! complete (INDEX-2).

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

/// Positions that a scan prefetches, at least so many ahead of the one it is at. Without it, a scan
/// of sparse keys would wait for each leaf by itself.
const PREFETCH: usize = 8;
/// Children of the next node that it prefetches.
const PREFETCH_BELOW: usize = 4;

/// Entries that a scan collected: keys, one behind the other in one buffer, and RIDs.
#[derive(Default)]
pub struct Entries {
    keys: Vec<u8>,
    /// Where each key ends.
    ends: Vec<usize>,
    rids: Vec<Rid>,
    /// The bytes on the way to the node that a scan is at.
    path: Vec<u8>,
}

impl Entries {
    /// Removes all entries, and keeps the memory.
    pub fn clear(&mut self) {
        self.keys.clear();
        self.ends.clear();
        self.rids.clear();
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rids.len()
    }

    /// Whether there are none.
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
    /// Where the visit of its children stands.
    position: usize,
    /// Bytes of the path with the node's prefix.
    depth: usize,
    ties: Ties,
    /// Whether the key that ends at the node is still to be collected, behind the children.
    ends_here_due: bool,
    /// The position up to which children were prefetched.
    prefetched: usize,
    /// Whether the scan has not left the first child yet. It may never get to the second node of an
    /// upper level.
    is_first: bool,
}

impl Frame<'_> {
    /// Prefetches what the scan comes to behind a child.
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

    /// Prefetches the children of the next positions, some of them at once every few positions.
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
    /// Goes on to the next child of the last node on the path, or, past its children, leaves the
    /// node. Answers whether a node is left.
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

    /// Collects the key that an entry is, or takes the node that it is onto the path. The latch and
    /// its version are those of the slot with the entry.
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
                // The node may have got another place before its version was read.
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

    /// Where the visit of a node's children begins; none if none of them is inside.
    fn first_position(&self, node: Node<'a>, ties: Ties, depth: usize) -> Option<usize> {
        let high = self.range.high_byte(ties, depth)?;
        let byte = match self.direction {
            Direction::Forward => self.range.low_byte(ties, depth),
            Direction::Backward => high,
        };
        Some(node.position(byte, self.direction))
    }
}
