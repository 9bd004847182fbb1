//! Changes to a node under its lock.
#![allow(unsafe_code)] // As the node itself.

use std::cmp::Ordering as Compare;
use std::ptr::{self, NonNull};

use spillway_base::sync::atomic::Ordering;
use spillway_base::sync::{hint, thread};

use super::{
    Bound, HEAD_BYTES, KeySlot, LOCKED, Node, ONE_SPLIT, Probe, SPINS_MAX, common, first_bytes,
    word_at,
};
use crate::memtable::arena::Arena;
use crate::memtable::key::KeyRef;
use crate::memtable::order::{Order, SLOTS};

impl Node {
    /// Locks the node where a key belongs, which is this one or to the right.
    pub(in crate::memtable) fn lock_at_or_right(&self, probe: &Probe<'_>) -> (Locked<'_>, KeySlot) {
        let mut node = self;
        loop {
            let locked = node.lock();
            let spot = node.find(node.order(), probe);
            match node.right_of(spot, probe, Bound::AtOrBelow) {
                Some(next) => node = next,
                None => return (locked, spot),
            }
        }
    }

    fn lock(&self) -> Locked<'_> {
        let mut spins = 0;
        loop {
            let latch = self.latch.load(Ordering::Relaxed);
            if latch & LOCKED == 0
                && self
                    .latch
                    .compare_exchange(latch, latch | LOCKED, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return Locked { node: self, latch };
            }
            spins += 1;
            if spins < SPINS_MAX && !cfg!(loom) {
                hint::spin_loop();
            } else {
                // The holder is a few steps from unlocking, but may have been descheduled.
                thread::yield_now();
            }
        }
    }

    /// Sets the prefix from one of the keys. No slot is used, and the lock is held.
    fn set_prefix(&self, key: &[u8], len: usize) {
        for (number, word) in self.prefix.iter().enumerate() {
            let bytes = first_bytes(len.saturating_sub(8 * number));
            word.store(word_at(key, 8 * number) & bytes, Ordering::Release);
        }
        self.prefix_len.store(len as u32, Ordering::Release);
    }

    /// Writes a slot that the published order does not name. The lock is held.
    fn put(&self, slot: usize, head: u64, entry: NonNull<u8>) {
        self.heads[slot].store(head, Ordering::Release);
        self.entries[slot].store(entry.as_ptr(), Ordering::Release);
    }

    fn publish(&self, order: Order) {
        self.order.store(order.0, Ordering::Release);
    }

    /// Whether heads are nearly too short to distinguish the keys: two of them differ in no byte
    /// but the last.
    fn is_tight(&self, order: Order) -> bool {
        let head = |rank| self.heads[order.slot(rank)].load(Ordering::Relaxed);
        (1..order.len()).any(|rank| head(rank - 1) ^ head(rank) < 1 << 8)
    }

    /// The length of a prefix for keys in this range: as many bytes as they share, but not more
    /// than a head needs to reach the end of the longer key.
    fn prefix_for(least: &[u8], most: &[u8]) -> usize {
        common(least, most).min(least.len().max(most.len()).saturating_sub(HEAD_BYTES))
    }

    /// The length of the prefix for the node to the right that will hold these entries.
    fn prefix_of_right(&self, order: Order, moved: &[(KeyRef, NonNull<u8>)]) -> usize {
        let prefix_len = self.prefix_len.load(Ordering::Relaxed) as usize;
        let (least, most) = (moved[0].0.bytes(), moved[moved.len() - 1].0.bytes());
        // The key after a single key likely shares the prefix of the keys before it.
        let least = if moved.len() == 1 { self.key(order.slot(0)).bytes() } else { least };
        let fits = most.get(..prefix_len).is_some_and(|prefix| least.starts_with(prefix));
        if !fits {
            Node::prefix_for(least, most)
        } else if self.is_tight(order) {
            Node::prefix_for(least, most).max(prefix_len)
        } else {
            prefix_len
        }
    }

    /// The length of a prefix for a node whose first entry will be this key: a guess at how many
    /// bytes later keys share with it.
    fn prefix_for_first(&self, key: &[u8]) -> usize {
        let near = match self.next() {
            Some(next) => next.low(),
            None if self.level() == 0 => None,
            None => {
                let child = self.child(self.order(), 0);
                child.read(|order| (order.len() > 0).then(|| child.key(order.slot(0))))
            }
        };
        near.map_or(0, |near| Node::prefix_for(near.bytes(), key))
    }
}

/// A node where a key belonged when it was read.
#[derive(Clone, Copy)]
pub(in crate::memtable) struct Seen<'a> {
    pub(in crate::memtable) node: &'a Node,
    pub(super) spot: KeySlot,
    pub(super) splits: u64,
}

impl<'a> Seen<'a> {
    /// Locks the node where the key belongs now: this one, unless it was split or changed
    /// meanwhile.
    pub(in crate::memtable) fn lock(self, probe: &Probe<'_>) -> (Locked<'a>, KeySlot) {
        let locked = self.node.lock();
        if locked.latch == self.splits && self.node.order() == self.spot.order {
            return (locked, self.spot);
        }
        drop(locked);
        self.node.lock_at_or_right(probe)
    }
}

/// A locked node; dropping it unlocks the node.
pub(in crate::memtable) struct Locked<'a> {
    pub(in crate::memtable) node: &'a Node,
    latch: u64,
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.node.latch.store(self.latch, Ordering::Release);
    }
}

impl<'a> Locked<'a> {
    /// Adds an entry where its key belongs. If there is no room, returns the rank at which to split
    /// first.
    pub(in crate::memtable) fn insert(
        &self,
        probe: &Probe<'_>,
        spot: KeySlot,
        entry: NonNull<u8>,
    ) -> Result<(), usize> {
        let KeySlot { mut order, rank, mut head, .. } = spot;
        let node = self.node;
        if order.len() == 0 {
            order = Order::of_first(0);
            let prefix_len = node.prefix_for_first(probe.key);
            node.set_prefix(probe.key, prefix_len);
            head = word_at(probe.key, prefix_len);
        }
        match spot.side {
            Compare::Equal if order.is_full() => return Err(self.middle(rank, order)),
            Compare::Equal => {}
            Compare::Less => return Err(0),
            Compare::Greater => return Err(order.len()),
        }
        let (order, slot) = order.insert(rank);
        node.put(slot, head, entry);
        node.publish(order);
        Ok(())
    }

    /// Where to split a full node: at its end for keys that come in order, otherwise in the middle.
    /// The leftmost node of a level moves everything to a node with a longer prefix once its own
    /// prefix, which may have been set for a single key, is too short.
    fn middle(&self, rank: usize, order: Order) -> usize {
        if rank == SLOTS {
            return SLOTS;
        }
        let node = self.node;
        if node.low().is_none() && node.is_tight(order) {
            let (least, most) = (node.key(order.slot(0)), node.key(order.slot(SLOTS - 1)));
            let prefix_len = node.prefix_len.load(Ordering::Relaxed) as usize;
            if Node::prefix_for(least.bytes(), most.bytes()) > prefix_len {
                return 0;
            }
        }
        SLOTS / 2
    }

    /// Moves the entries from a rank on into a new node to the right, which must then be linked
    /// into the level above. If none are moved, the new node begins with `entry`, whose key is
    /// `key`.
    pub(in crate::memtable) fn split(
        &mut self,
        nodes: &'a Arena,
        keys: &Arena,
        at: usize,
        (key, entry): (KeyRef, NonNull<u8>),
    ) -> &'a Node {
        let node = self.node;
        let order = node.order();
        let mut moved: Vec<_> =
            (at..order.len()).map(|rank| node.taken(order.slot(rank))).collect();
        let is_append = moved.is_empty();
        if is_append {
            moved.push((key, entry));
        }
        let prefix_len = node.prefix_of_right(order, &moved);
        let (mut low, entry) = moved[0];
        if is_append && node.level() == 0 {
            // Keys between the last one here and this one may come later, even in descending order.
            // The new leaf must cover them too, or each would begin a separate leaf. So its `low`
            // is the shortest prefix of this key that is above the last one here.
            let last = node.key(order.slot(order.len() - 1)).bytes();
            let shared = common(last, key.bytes());
            if shared + 1 < key.bytes().len() {
                low = KeyRef::new(keys, &key.bytes()[..=shared], None);
            }
        }
        let mut first = None;
        if node.level() > 0 {
            // SAFETY: entries above the leaves are nodes, stored with Release, or the caller's.
            first = Some(unsafe { Node::from_ptr(entry) });
            moved.remove(0);
        }
        let right = Node::new(nodes, Some(low), first);
        // Until the entries are removed here, no thread may add one there: a reader of this node
        // would not find it.
        right.latch.store(LOCKED, Ordering::Relaxed);
        let right = Locked { node: right, latch: 0 };
        right.node.next.store(node.next.load(Ordering::Relaxed), Ordering::Relaxed);
        right.node.set_prefix(low.bytes(), prefix_len);
        for (slot, (key, entry)) in moved.iter().enumerate() {
            right.node.put(slot, word_at(key.bytes(), prefix_len), *entry);
        }
        right.node.publish(Order::of_first(moved.len()));
        node.next.store(ptr::from_ref(right.node).cast_mut(), Ordering::Release);
        if at < order.len() {
            node.publish(order.cut(at));
        }
        self.latch += ONE_SPLIT;
        right.node
    }
}
