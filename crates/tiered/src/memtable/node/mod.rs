//! A node of the tree: up to fifteen entries in key order, read without a lock.
//!
//! An entry of a leaf is a key. An entry of an inner node is a child node, and its key is the
//! child's `low`. A slot holds the entry and its *head*. All keys in a node begin with the node's
//! *prefix*, and a head is the eight bytes of the entry's key past this prefix. Most comparisons
//! compare only two heads, and do not load a key.
//!
//! A node also has:
//!
//! - `level`: its height above the leaves;
//! - `next`: a pointer to the node to its right;
//! - `low`: a lower bound of the keys in this node and in all nodes to its right;
//! - `first`, in an inner node: the child for keys below its first entry;
//! - its *latch*, one word: the lock of writers, and a count of the node's splits.
//!
//! # Invariants
//!
//! - *Insertions.* One word, the [`Order`], gives the occupied slots and their order. An insertion
//!   writes a free slot and then publishes the order (Release), both under the node's lock. A
//!   reader that loads the order (Acquire) sees every slot that the order names, and no insertion
//!   changes these slots.
//! - *Splits.* A split removes slots from the order. A later insertion may write to these slots
//!   while a slow reader still reads them under the old order. So a reader loads the count of
//!   splits before it loads the order, and again after it has read the slots. If the count has
//!   changed, the reader discards the values and retries. The reader cannot miss the change: the
//!   split raises the count with the store that releases the node's lock. Only after this store can
//!   an insertion lock the node and write to a freed slot.
//!
//!   Reading a slot that another thread writes at the same time is harmless: entries and heads are
//!   atomics, and every entry that was ever in a slot remains valid memory of the same type.
//! - *Prefix.* The prefix changes only while no slot is occupied. A reader whose order names no
//!   slot does not use the prefix. If a reader's order names slots, the reader can see a changing
//!   prefix only after a split has removed all of these slots. This split has also changed the
//!   count of splits, so the reader retries.
//! - *Links.* `low`, `level` and `first` never change. A split links the new node as `next` before
//!   it removes the moved entries from the old node. So a reader that does not find a key in the
//!   old node finds it to the right.
#![allow(unsafe_code)] // A leaf: nodes live in an arena, behind atomic pointers.

mod locked;

use std::array;
use std::cmp::Ordering as Compare;
use std::hint::select_unpredictable;
use std::ptr::{self, NonNull};

use spillway_base::prefetch;
use spillway_base::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering, fence};

use super::arena::Arena;
use super::key::{KeyRef, Written};
use super::order::{Order, ROOM, STEPS};
pub(super) use locked::Seen;

/// The alignment that an arena of nodes needs: a node begins at a cache line of the processor.
pub(super) const ALIGN: usize = 64;

const HEAD_BYTES: usize = 8;
const PREFIX_WORDS: usize = 2;
const LOCKED: u64 = 1;
const ONE_SPLIT: u64 = 2;
const SPINS_MAX: u32 = 100;

/// A searched key, with its first words as numbers.
pub(super) struct Probe<'k> {
    pub(super) key: &'k [u8],
    words: [u64; PREFIX_WORDS],
}

impl Probe<'_> {
    pub(super) fn new(key: &[u8]) -> Probe<'_> {
        Probe { key, words: array::from_fn(|word| word_at(key, word * 8)) }
    }
}

/// Eight bytes of a key from `at` on, big-endian, with zeros past its end. They have the order of
/// the keys, except that different keys may be equal in them.
fn word_at(key: &[u8], at: usize) -> u64 {
    if let Some(bytes) = key.get(at..).and_then(<[u8]>::first_chunk::<8>) {
        return u64::from_be_bytes(*bytes);
    }
    if let Some(last) = key.last_chunk::<8>()
        && at < key.len()
    {
        return u64::from_be_bytes(*last) << (8 * (at + 8 - key.len()));
    }
    let bytes = key.get(at..).unwrap_or_default();
    bytes
        .iter()
        .fold(0, |word, byte| word << 8 | u64::from(*byte))
        .checked_shl(64 - 8 * bytes.len() as u32)
        .unwrap_or(0)
}

/// Ones over the first bytes of a word.
fn first_bytes(bytes: usize) -> u64 {
    !u64::MAX.checked_shr(8 * bytes as u32).unwrap_or(0)
}

fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The bound on the first key of a node that a search enters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Bound {
    AtOrBelow,
    Below,
}

/// The position of a key in a node under an order.
#[derive(Clone, Copy)]
pub(super) struct KeySlot {
    pub(super) order: Order,
    /// The number of entries before it.
    pub(super) rank: usize,
    /// Whether the next entry has the key.
    pub(super) equal: bool,
    /// The order of the key relative to all keys with the node's prefix.
    side: Compare,
    /// The key's head; meaningless if it does not begin with the prefix.
    head: u64,
}

/// A node of the tree.
#[repr(C, align(64))]
pub(super) struct Node {
    /// The lowest bit is the lock; the bits above count the node's splits.
    latch: AtomicU64,
    order: AtomicU64,
    prefix_len: AtomicU32,
    level: u32,
    prefix: [AtomicU64; PREFIX_WORDS],
    heads: [AtomicU64; ROOM],
    entries: [AtomicPtr<u8>; ROOM],
    next: AtomicPtr<Node>,
    /// A lower bound of the keys here and to the right; `None` for the leftmost node of a level.
    low: Option<KeyRef>,
    /// The child with keys below the first entry; null in a leaf.
    first: *const Node,
    written: Written,
}

impl Node {
    /// A node without entries. With `first`, it belongs to the level above that.
    pub(super) fn new<'a>(
        arena: &'a Arena,
        low: Option<KeyRef>,
        first: Option<&'a Node>,
    ) -> &'a Node {
        let memory = arena.allocate(size_of::<Node>()).cast::<Node>();
        // SAFETY: the arena gave memory for a node, aligned to 64, to this thread alone, and keeps
        // it.
        unsafe {
            memory.write(Node {
                latch: AtomicU64::new(0),
                order: AtomicU64::new(Order::of_first(0).0),
                prefix_len: AtomicU32::new(0),
                level: first.map_or(0, |first| first.level() + 1),
                prefix: array::from_fn(|_| AtomicU64::new(0)),
                heads: array::from_fn(|_| AtomicU64::new(0)),
                entries: array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
                next: AtomicPtr::new(ptr::null_mut()),
                low,
                first: first.map_or(ptr::null(), ptr::from_ref),
                written: Written::default(),
            });
            let node = memory.as_ref();
            node.written.write();
            node
        }
    }

    /// The node of a pointer, for a lifetime in which the caller holds its arena.
    ///
    /// # Safety
    /// The pointer points to a node, and was loaded with Acquire from where it was published.
    pub(super) unsafe fn from_ptr<'a>(pointer: NonNull<u8>) -> &'a Node {
        // SAFETY: as the caller says; nodes are never moved or freed before the arena.
        unsafe { pointer.cast().as_ref() }
    }

    pub(super) fn as_ptr(&self) -> NonNull<u8> {
        NonNull::from(self).cast()
    }

    /// Its height above the leaves.
    pub(super) fn level(&self) -> u32 {
        self.written.read();
        self.level
    }

    pub(super) fn low(&self) -> Option<KeyRef> {
        self.written.read();
        self.low
    }

    /// The node to the right.
    pub(super) fn next(&self) -> Option<&Node> {
        let next = NonNull::new(self.next.load(Ordering::Acquire))?;
        // SAFETY: a node, published with Release in `split`, in the arena of this one.
        Some(unsafe { next.as_ref() })
    }

    /// Whether a key may be here or to the right, according to `low`.
    pub(super) fn begins(&self, probe: &Probe<'_>, bound: Bound) -> bool {
        self.low().is_none_or(|low| match low.bytes().cmp(probe.key) {
            Compare::Less => true,
            Compare::Equal => bound == Bound::AtOrBelow,
            Compare::Greater => false,
        })
    }

    /// Prefetches all cache lines of the node at once. Waiting for each at its first read would
    /// take several times as long.
    fn prefetch(&self) {
        prefetch::lines(self.as_ptr().as_ptr(), size_of::<Node>() / prefetch::LINE_BYTES);
    }

    /// Calls `look` with the order, until the node was not split meanwhile, and returns its last
    /// result.
    pub(super) fn read<T>(&self, look: impl Fn(Order) -> T) -> T {
        self.read_and_splits(look).0
    }

    /// As `read`. Also returns the count of splits, as the latch has it.
    fn read_and_splits<T>(&self, look: impl Fn(Order) -> T) -> (T, u64) {
        self.prefetch();
        loop {
            let splits = self.latch.load(Ordering::Acquire) & !LOCKED;
            let seen = look(self.order());
            // If `look` read a new entry from a freed slot, the entry was stored with Release after
            // the count was raised. So the load below returns the raised count.
            fence(Ordering::Acquire);
            if self.latch.load(Ordering::Relaxed) & !LOCKED == splits {
                return (seen, splits);
            }
        }
    }

    fn order(&self) -> Order {
        Order(self.order.load(Ordering::Acquire))
    }

    /// The entry of a slot that an order names.
    pub(super) fn entry(&self, slot: usize) -> NonNull<u8> {
        let entry = self.entries[slot].load(Ordering::Acquire);
        NonNull::new(entry).expect("a slot is written before an order names it")
    }

    /// The entry at a rank, and the rank.
    pub(super) fn entry_at(&self, order: Order, rank: usize) -> Option<(NonNull<u8>, usize)> {
        (rank < order.len()).then(|| (self.entry(order.slot(rank)), rank))
    }

    fn taken(&self, slot: usize) -> (KeyRef, NonNull<u8>) {
        (self.key(slot), self.entry(slot))
    }

    /// The key of the entry of a slot: the entry itself, or the child's `low`.
    fn key(&self, slot: usize) -> KeyRef {
        let entry = self.entry(slot);
        // SAFETY: entries of leaves are keys, those of other nodes are nodes, stored with Release
        // by `put`.
        unsafe {
            if self.level() == 0 {
                return KeyRef::from_ptr(entry);
            }
            Node::from_ptr(entry).low().expect("a child that is an entry has a least key")
        }
    }

    /// The child at a rank: the entry before it, or the first.
    pub(super) fn child(&self, order: Order, rank: usize) -> &Node {
        let child = match rank.checked_sub(1) {
            Some(before) => self.entry(order.slot(before)),
            None => NonNull::new(self.first.cast_mut()).expect("not a leaf").cast(),
        };
        // SAFETY: entries above the leaves are nodes, stored with Release, and `first` is one,
        // written before this node was published.
        unsafe { Node::from_ptr(child) }
    }

    /// The position of a key under an order of this node.
    #[inline]
    pub(super) fn find(&self, order: Order, probe: &Probe<'_>) -> KeySlot {
        let len = order.len();
        let mut spot = KeySlot { order, rank: 0, equal: false, side: Compare::Equal, head: 0 };
        if len == 0 {
            return spot;
        }
        let prefix_len = self.prefix_len.load(Ordering::Relaxed) as usize;
        spot.side = self.compare_prefix(probe, prefix_len);
        if spot.side != Compare::Equal {
            spot.rank = if spot.side == Compare::Less { 0 } else { len };
            return spot;
        }
        spot.head = word_at(probe.key, prefix_len);
        let head_at = |rank| self.heads[order.slot(rank)].load(Ordering::Relaxed);
        // The outcome of each comparison is random. As branches, they would cost more than
        // everything else.
        for step in STEPS {
            let before = spot.rank + step;
            let is_less = head_at(before - 1) < spot.head;
            spot.rank = select_unpredictable((before <= len) & is_less, before, spot.rank);
        }
        while spot.rank < len && head_at(spot.rank) == spot.head {
            match self.key(order.slot(spot.rank)).bytes().cmp(probe.key) {
                Compare::Less => spot.rank += 1,
                found => {
                    spot.equal = found == Compare::Equal;
                    break;
                }
            }
        }
        spot
    }

    /// The order of a key relative to all keys with the node's prefix.
    fn compare_prefix(&self, probe: &Probe<'_>, len: usize) -> Compare {
        let differ = |word: usize| {
            let prefix = self.prefix[word].load(Ordering::Relaxed);
            (probe.words[word] ^ prefix) & first_bytes(len.saturating_sub(8 * word))
        };
        if len <= 8 * PREFIX_WORDS && len <= probe.key.len() && differ(0) | differ(1) == 0 {
            return Compare::Equal;
        }
        self.compare_prefix_bytes(probe, len)
    }

    #[cold]
    fn compare_prefix_bytes(&self, probe: &Probe<'_>, len: usize) -> Compare {
        let mut words = [0; 8 * PREFIX_WORDS];
        let prefix = if len <= words.len() {
            for (bytes, word) in words.chunks_exact_mut(8).zip(&self.prefix) {
                bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_be_bytes());
            }
            &words[..len]
        } else {
            // The first entry after the prefix was set went to the first slot.
            let key = self.key(0).bytes();
            key.get(..len).unwrap_or(key)
        };
        probe.key[..len.min(probe.key.len())].cmp(prefix)
    }

    /// The node to the right, if a key with this position in this node belongs there.
    fn right_of(&self, spot: KeySlot, probe: &Probe<'_>, bound: Bound) -> Option<&Node> {
        let is_past = spot.rank == spot.order.len();
        is_past.then(|| self.next())?.filter(|next| next.begins(probe, bound))
    }

    /// Walks right from here to the node where a key belongs, and returns the result of `look`
    /// there.
    #[inline]
    pub(super) fn at_or_right<'a, T>(
        &'a self,
        probe: &Probe<'_>,
        bound: Bound,
        look: impl Fn(&'a Node, KeySlot) -> T,
    ) -> (Seen<'a>, T) {
        let mut node = self;
        loop {
            let ((spot, seen), splits) = node.read_and_splits(|order| {
                let spot = node.find(order, probe);
                (spot, look(node, spot))
            });
            match node.right_of(spot, probe, bound) {
                Some(next) => node = next,
                None => return (Seen { node, spot, splits }, seen),
            }
        }
    }
}
