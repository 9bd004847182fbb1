//! Nodes of the tree, in four kinds with room for different numbers of children.
//!
//! The memory of a node begins with its prefix, which is padded at the front. The last byte of the
//! prefix is right before the header. To remove bytes from the front of the prefix, a writer
//! changes only its length. So prefix bytes never change.
//!
//! All data of a node is atomic. Readers load with Acquire, and the holder of the lock stores with
//! Release, so LATCH-1 applies. A reader may see a change half done. Even then, each slot is empty
//! or holds an entry that was in the index after the reader pinned: a writer empties or replaces
//! the content of a slot before it retires the old entry, and retired memory is not freed before
//! the reader unpins (INDEX-4).
#![allow(unsafe_code)] // A leaf: nodes of several kinds behind one pointer.

use std::array;
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::NonNull;

use smallvec::SmallVec;
use spillway_base::Direction;
use spillway_base::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::entry::{Draft, Entry, Slot};
use super::latch::Latch;
use super::memory::{self, IndexMemory};
use crate::rid::Rid;

/// Children of the smallest kind. Loom models use less, so that nodes fill up early.
const SMALL: usize = if cfg!(loom) { 2 } else { 4 };
/// Children of the next kind: with their count, their bytes fit in two words.
const MEDIUM: usize = if cfg!(loom) { 4 } else { 15 };
const LARGE: usize = if cfg!(loom) { 6 } else { 48 };
const FULL: usize = 256;

/// A node is replaced by a smaller one at this number of children. The next smaller kind has room
/// for more, so that a node does not alternate between two kinds.
const MEDIUM_MIN: usize = if cfg!(loom) { 2 } else { 3 };
const LARGE_MIN: usize = if cfg!(loom) { 3 } else { 12 };
const FULL_MIN: usize = if cfg!(loom) { 5 } else { 40 };

/// The kind of a node, as the tag of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Small = 1,
    Medium = 2,
    Large = 3,
    Full = 4,
}

impl Kind {
    #[inline]
    pub(super) fn of_tag(tag: usize) -> Option<Kind> {
        match tag {
            1 => Some(Kind::Small),
            2 => Some(Kind::Medium),
            3 => Some(Kind::Large),
            4 => Some(Kind::Full),
            _ => None,
        }
    }

    /// The smallest kind with room for `count` children.
    fn for_children(count: usize) -> Kind {
        let kinds = [Kind::Small, Kind::Medium, Kind::Large];
        kinds.into_iter().find(|kind| count <= kind.children_max()).unwrap_or(Kind::Full)
    }

    fn children_max(self) -> usize {
        match self {
            Kind::Small => SMALL,
            Kind::Medium => MEDIUM,
            Kind::Large => LARGE,
            Kind::Full => FULL,
        }
    }

    fn children_min(self) -> usize {
        match self {
            Kind::Small => 0,
            Kind::Medium => MEDIUM_MIN,
            Kind::Large => LARGE_MIN,
            Kind::Full => FULL_MIN,
        }
    }

    fn size(self) -> usize {
        match self {
            Kind::Small => size_of::<SmallNode>(),
            Kind::Medium => size_of::<MediumNode>(),
            Kind::Large => size_of::<LargeNode>(),
            Kind::Full => size_of::<FullNode>(),
        }
    }
}

/// The fields that all nodes begin with.
#[repr(C)]
struct Header {
    latch: Latch,
    /// The bits of the RID of the key that ends at the node, or 0.
    ends_here: AtomicU64,
    /// The length of the prefix, which is stored before the header.
    prefix_len: AtomicU32,
    /// The length of the prefix when the node was built; gives the size of its memory.
    prefix_room: u32,
}

/// A node whose children are in the order of their bytes. Byte `n` of the words (the lowest first)
/// is the byte of child `n`. The last byte of the last word is the number of children.
#[repr(C)]
struct SortedNode<const WORDS: usize, const SLOTS: usize> {
    header: Header,
    keys: [AtomicU64; WORDS],
    children: [Slot; SLOTS],
}

type SmallNode = SortedNode<1, SMALL>;
type MediumNode = SortedNode<2, MEDIUM>;

#[repr(C)]
struct LargeNode {
    header: Header,
    count: AtomicU64,
    /// Byte `n` of the words (the lowest first) is the child's slot plus one, or 0 without a child.
    index: [AtomicU64; 32],
    children: [Slot; LARGE],
}

#[repr(C)]
struct FullNode {
    header: Header,
    count: AtomicU64,
    children: [Slot; FULL],
}

/// A node, valid while the reader is pinned.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    at: NonNull<u8>,
    kind: Kind,
    pinned: PhantomData<&'a u8>,
}

enum View<'a> {
    Small(&'a SmallNode),
    Medium(&'a MediumNode),
    Large(&'a LargeNode),
    Full(&'a FullNode),
}

/// The entries of a new node.
#[derive(Default)]
pub(super) struct NodeContent<'a> {
    pub(super) ends_here: Option<Rid>,
    /// In the order of their bytes.
    pub(super) children: SmallVec<[(u8, Entry<'a>); 16]>,
}

impl<'a> NodeContent<'a> {
    pub(super) fn insert(&mut self, byte: u8, entry: Entry<'a>) {
        let rank = self.children.partition_point(|child| child.0 < byte);
        self.children.insert(rank, (byte, entry));
    }

    /// Adds a key, given by its bytes past the node's prefix.
    pub(super) fn add_key(&mut self, draft: &mut Draft<'a>, rest: &[u8], rid: Rid) {
        match rest.split_first() {
            None => self.ends_here = Some(rid),
            Some((byte, rest)) => {
                self.insert(*byte, draft.tail([rest, &[], &[]], rid));
            }
        }
    }

    /// The number of children, plus one if a key ends at the node.
    pub(super) fn entries(&self) -> usize {
        self.children.len() + usize::from(self.ends_here.is_some())
    }

    /// Builds a node of the smallest kind with room for the content. The parts, joined, are its
    /// prefix.
    pub(super) fn build(&self, memory: &IndexMemory, prefix: [&[u8]; 3]) -> Entry<'a> {
        let len: usize = prefix.iter().map(|part| part.len()).sum();
        let prefix_len = u32::try_from(len).expect("a key is shorter than 4 GiB");
        let kind = Kind::for_children(self.children.len());
        let padding = padded(prefix_len) - len;
        let start = memory.alloc(padded(prefix_len) + kind.size());
        let header = Header {
            latch: Latch::new(),
            ends_here: AtomicU64::new(self.ends_here.map_or(0, Rid::bits)),
            prefix_len: AtomicU32::new(prefix_len),
            prefix_room: prefix_len,
        };
        // SAFETY: the memory is this thread's alone, has room for the padded prefix and a node of
        // this kind behind it, and begins at a multiple of 8, as does the node.
        let at = unsafe {
            let mut at = start.add(padding);
            for part in prefix {
                part.as_ptr().copy_to_nonoverlapping(at.as_ptr(), part.len());
                at = at.add(part.len());
            }
            match kind {
                Kind::Small => at.cast().write(SmallNode::build(header, &self.children)),
                Kind::Medium => at.cast().write(MediumNode::build(header, &self.children)),
                Kind::Large => at.cast().write(LargeNode::build(header, &self.children)),
                Kind::Full => at.cast().write(FullNode::build(header, &self.children)),
            }
            memory::changed(start);
            at
        };
        Entry::of_node(Node { at, kind, pinned: PhantomData })
    }
}

/// Bytes of memory before a node whose prefix had this length at first.
fn padded(prefix_room: u32) -> usize {
    (prefix_room as usize).next_multiple_of(8)
}

impl<'a> Node<'a> {
    /// # Safety
    /// `at` points to a node of this kind, and INDEX-4 keeps it for `'a`.
    #[inline]
    pub(super) unsafe fn from_parts(at: NonNull<u8>, kind: Kind) -> Node<'a> {
        let node = Node { at, kind, pinned: PhantomData };
        // SAFETY: the caller guarantees that the node exists.
        unsafe { memory::looked(node.memory().0) };
        node
    }

    pub(super) fn as_ptr(self) -> NonNull<u8> {
        self.at
    }

    #[inline]
    pub(super) fn kind(self) -> Kind {
        self.kind
    }

    #[inline]
    fn header(self) -> &'a Header {
        // SAFETY: each kind of node begins with a header, and the node exists for `'a`.
        unsafe { self.at.cast().as_ref() }
    }

    #[inline]
    fn view(self) -> View<'a> {
        // SAFETY: the node is of this kind, and exists for `'a`.
        unsafe {
            match self.kind {
                Kind::Small => View::Small(self.at.cast().as_ref()),
                Kind::Medium => View::Medium(self.at.cast().as_ref()),
                Kind::Large => View::Large(self.at.cast().as_ref()),
                Kind::Full => View::Full(self.at.cast().as_ref()),
            }
        }
    }

    /// Where the node's memory begins, and its size.
    #[inline]
    pub(super) fn memory(self) -> (NonNull<u8>, usize) {
        let before = padded(self.header().prefix_room);
        // SAFETY: the allocation has `before` bytes before the node.
        (unsafe { self.at.sub(before) }, before + self.kind.size())
    }

    #[inline]
    pub(super) fn latch(self) -> &'a Latch {
        &self.header().latch
    }

    /// The bytes past the node's slot that all keys below the node have in common.
    #[inline]
    pub(super) fn prefix(self) -> &'a [u8] {
        let len = self.header().prefix_len.load(Ordering::Acquire) as usize;
        // SAFETY: the `len` bytes before the node are its prefix, and they never change.
        unsafe { std::slice::from_raw_parts(self.at.sub(len).as_ptr(), len) }
    }

    /// Removes bytes from the front of the prefix. The caller holds the lock.
    pub(super) fn cut_prefix(self, bytes: usize) {
        let len = self.prefix().len() - bytes;
        self.header().prefix_len.store(len as u32, Ordering::Release);
    }

    /// The RID of the key that ends right after the prefix.
    #[inline]
    pub(super) fn ends_here(self) -> Option<Rid> {
        Rid::from_bits(self.header().ends_here.load(Ordering::Acquire))
    }

    /// Sets the RID of the key that ends right after the prefix. The caller holds the lock.
    pub(super) fn set_ends_here(self, rid: Option<Rid>) {
        self.header().ends_here.store(rid.map_or(0, Rid::bits), Ordering::Release);
    }

    /// The number of children.
    pub(super) fn count(self) -> usize {
        match self.view() {
            View::Small(node) => node.count(),
            View::Medium(node) => node.count(),
            View::Large(node) => node.count.load(Ordering::Acquire) as usize,
            View::Full(node) => node.count.load(Ordering::Acquire) as usize,
        }
    }

    /// Whether there is no room for another child.
    pub(super) fn is_full(self) -> bool {
        self.count() == self.kind.children_max()
    }

    /// Whether a node with this number of children should be of a smaller kind.
    pub(super) fn is_too_large_for(self, children: usize) -> bool {
        children <= self.kind.children_min() && self.kind != Kind::Small
    }

    /// The slot of the child with a byte.
    #[inline]
    pub(super) fn find(self, byte: u8) -> Option<&'a Slot> {
        match self.view() {
            View::Small(node) => node.find(byte),
            View::Medium(node) => node.find(byte),
            View::Large(node) => node.find(byte),
            View::Full(node) => {
                let slot = &node.children[usize::from(byte)];
                (!slot.load().is_empty()).then_some(slot)
            }
        }
    }

    /// Adds a child. The caller holds the lock and has checked that there is room.
    pub(super) fn insert(self, byte: u8, entry: Entry<'_>) {
        match self.view() {
            View::Small(node) => node.insert(byte, entry),
            View::Medium(node) => node.insert(byte, entry),
            View::Large(node) => node.insert(byte, entry),
            View::Full(node) => {
                node.children[usize::from(byte)].store(entry);
                change(&node.count, 1);
            }
        }
    }

    /// Removes the child with a byte. The caller holds the lock.
    pub(super) fn remove(self, byte: u8) {
        match self.view() {
            View::Small(node) => node.remove(byte),
            View::Medium(node) => node.remove(byte),
            View::Large(node) => node.remove(byte),
            View::Full(node) => {
                node.children[usize::from(byte)].store(Entry::EMPTY);
                change(&node.count, -1);
            }
        }
    }

    /// The position where a visit of the children begins: at the first child at or past `byte` in
    /// this direction; without a byte, at the first child.
    #[inline]
    pub(super) fn position(self, byte: Option<u8>, direction: Direction) -> usize {
        match (self.view(), direction, byte) {
            (_, Direction::Forward, None) => 0,
            (View::Small(node), ..) => node.position(byte, direction),
            (View::Medium(node), ..) => node.position(byte, direction),
            (_, Direction::Forward, Some(byte)) => usize::from(byte),
            (_, Direction::Backward, Some(byte)) => usize::from(byte) + 1,
            (_, Direction::Backward, None) => FULL,
        }
    }

    /// The next child of a visit, and the position after it.
    #[inline]
    pub(super) fn next(
        self,
        position: usize,
        direction: Direction,
    ) -> Option<(u8, Entry<'a>, usize)> {
        match self.view() {
            View::Small(node) => node.next(position, direction),
            View::Medium(node) => node.next(position, direction),
            View::Large(node) => next_byte(position, direction, |byte| node.child(byte)),
            View::Full(node) => next_byte(position, direction, |byte| node.children[byte].load()),
        }
    }

    /// Prefetches the children at a range of positions of a visit.
    #[inline]
    pub(super) fn prefetch_children(self, positions: Range<usize>) {
        match self.view() {
            View::Small(node) => prefetch_slots(&node.children, positions),
            View::Medium(node) => prefetch_slots(&node.children, positions),
            View::Large(node) => {
                let positions = positions.start..positions.end.min(FULL);
                positions.for_each(|byte| node.child(byte).prefetch());
            }
            View::Full(node) => prefetch_slots(&node.children, positions),
        }
    }

    /// All children, in the order of bytes.
    pub(super) fn children(self) -> impl Iterator<Item = (u8, Entry<'a>)> {
        let mut position = 0;
        std::iter::from_fn(move || {
            let (byte, entry, next) = self.next(position, Direction::Forward)?;
            position = next;
            Some((byte, entry))
        })
    }

    /// The node's content. It is consistent only if the node does not change meanwhile.
    pub(super) fn content(self) -> NodeContent<'a> {
        NodeContent { ends_here: self.ends_here(), children: self.children().collect() }
    }
}

/// The slot for the child at `place`; empty past the last child.
fn new_slot(children: &[(u8, Entry<'_>)], place: usize) -> Slot {
    Slot::new(children.get(place).map_or(Entry::EMPTY, |(_, entry)| *entry))
}

fn prefetch_slots(slots: &[Slot], positions: Range<usize>) {
    let end = positions.end.min(slots.len());
    slots.get(positions.start..end).into_iter().flatten().for_each(|slot| slot.load().prefetch());
}

fn change(count: &AtomicU64, by: i64) {
    let old = count.load(Ordering::Relaxed);
    count.store(old.wrapping_add_signed(by), Ordering::Release);
}

/// The next byte that has a child.
#[inline]
fn next_byte<'a>(
    position: usize,
    direction: Direction,
    child: impl Fn(usize) -> Entry<'a>,
) -> Option<(u8, Entry<'a>, usize)> {
    let filled = |byte: usize| {
        let entry = child(byte);
        (!entry.is_empty()).then_some((byte as u8, entry))
    };
    match direction {
        Direction::Forward => (position..FULL)
            .find_map(filled)
            .map(|(byte, entry)| (byte, entry, usize::from(byte) + 1)),
        Direction::Backward => (0..position)
            .rev()
            .find_map(filled)
            .map(|(byte, entry)| (byte, entry, usize::from(byte))),
    }
}

const ONES: u64 = u64::MAX / 0xFF;
const HIGH_BITS: u64 = ONES << 7;

impl<const WORDS: usize, const SLOTS: usize> SortedNode<WORDS, SLOTS> {
    const FITS: () = assert!(SLOTS < WORDS * 8 && WORDS <= 2);

    fn build(header: Header, children: &[(u8, Entry<'_>)]) -> Self {
        const { Self::FITS };
        let mut bytes = [0; 16];
        for (rank, (byte, _)) in children.iter().enumerate() {
            bytes[rank] = *byte;
        }
        bytes[WORDS * 8 - 1] = children.len() as u8;
        SortedNode {
            header,
            keys: array::from_fn(|word| AtomicU64::new(word_of(&bytes, word))),
            children: array::from_fn(|rank| new_slot(children, rank)),
        }
    }

    #[inline]
    fn count(&self) -> usize {
        (self.keys[WORDS - 1].load(Ordering::Acquire) >> 56) as usize
    }

    #[inline]
    fn find(&self, byte: u8) -> Option<&Slot> {
        let mut rank = WORDS * 8;
        let mut last = 0;
        // From the last word to the first, because the first match counts. Later matches are among
        // the bytes past `count`, which have no child.
        for (number, word) in self.keys.iter().enumerate().rev() {
            let word = word.load(Ordering::Acquire);
            if number == WORDS - 1 {
                last = word;
            }
            let differing = word ^ (ONES * u64::from(byte));
            let equal = differing.wrapping_sub(ONES) & !differing & HIGH_BITS;
            if equal != 0 {
                rank = number * 8 + equal.trailing_zeros() as usize / 8;
            }
        }
        if rank < (last >> 56) as usize { self.children.get(rank) } else { None }
    }

    fn bytes(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        for (number, word) in self.keys.iter().enumerate() {
            bytes[number * 8..][..8].copy_from_slice(&word.load(Ordering::Acquire).to_le_bytes());
        }
        bytes
    }

    fn set_bytes(&self, bytes: &[u8; 16]) {
        for (number, word) in self.keys.iter().enumerate() {
            word.store(word_of(bytes, number), Ordering::Release);
        }
    }

    fn insert(&self, byte: u8, entry: Entry<'_>) {
        let mut bytes = self.bytes();
        let count = self.count();
        let rank = bytes[..count].partition_point(|other| *other < byte);
        for slot in (rank..count).rev() {
            self.children[slot + 1].store(self.children[slot].load());
        }
        self.children[rank].store(entry);
        bytes.copy_within(rank..count, rank + 1);
        bytes[rank] = byte;
        bytes[WORDS * 8 - 1] = count as u8 + 1;
        self.set_bytes(&bytes);
    }

    fn remove(&self, byte: u8) {
        let mut bytes = self.bytes();
        let count = self.count();
        let rank = bytes[..count].partition_point(|other| *other < byte);
        debug_assert_eq!(bytes[rank], byte);
        for slot in rank + 1..count {
            self.children[slot - 1].store(self.children[slot].load());
        }
        self.children[count - 1].store(Entry::EMPTY);
        bytes.copy_within(rank + 1..count, rank);
        bytes[count - 1] = 0;
        bytes[WORDS * 8 - 1] = count as u8 - 1;
        self.set_bytes(&bytes);
    }

    fn position(&self, byte: Option<u8>, direction: Direction) -> usize {
        let (bytes, count) = (self.bytes(), self.count());
        let Some(byte) = byte else { return count };
        let before = |other: &u8| match direction {
            Direction::Forward => *other < byte,
            Direction::Backward => *other <= byte,
        };
        bytes[..count].iter().filter(|other| before(other)).count()
    }

    #[inline]
    fn next(&self, position: usize, direction: Direction) -> Option<(u8, Entry<'_>, usize)> {
        let (rank, next) = match direction {
            Direction::Forward if position < self.count() => (position, position + 1),
            Direction::Forward => return None,
            Direction::Backward => {
                let rank = position.checked_sub(1)?;
                (rank, rank)
            }
        };
        let word = self.keys[rank / 8].load(Ordering::Acquire);
        let entry = self.children[rank].load();
        (!entry.is_empty()).then_some(((word >> (rank % 8 * 8)) as u8, entry, next))
    }
}

fn word_of(bytes: &[u8; 16], number: usize) -> u64 {
    u64::from_le_bytes(*bytes[number * 8..].first_chunk().expect("a word is eight bytes"))
}

impl LargeNode {
    fn build(header: Header, children: &[(u8, Entry<'_>)]) -> LargeNode {
        let mut index = [0_u64; 32];
        for (slot, (byte, _)) in children.iter().enumerate() {
            index[usize::from(*byte) / 8] |= (slot as u64 + 1) << (byte % 8 * 8);
        }
        LargeNode {
            header,
            count: AtomicU64::new(children.len() as u64),
            index: array::from_fn(|word| AtomicU64::new(index[word])),
            children: array::from_fn(|slot| new_slot(children, slot)),
        }
    }

    #[inline]
    fn slot_of(&self, byte: usize) -> Option<usize> {
        let word = self.index[byte / 8].load(Ordering::Acquire);
        ((word >> (byte % 8 * 8)) as u8).checked_sub(1).map(usize::from)
    }

    #[inline]
    fn find(&self, byte: u8) -> Option<&Slot> {
        self.children.get(self.slot_of(usize::from(byte))?)
    }

    #[inline]
    fn child(&self, byte: usize) -> Entry<'_> {
        self.slot_of(byte).map_or(Entry::EMPTY, |slot| self.children[slot].load())
    }

    fn set_index(&self, byte: u8, value: u8) {
        let (word, shift) = (&self.index[usize::from(byte) / 8], byte % 8 * 8);
        let rest = word.load(Ordering::Relaxed) & !(0xFF << shift);
        word.store(rest | u64::from(value) << shift, Ordering::Release);
    }

    fn insert(&self, byte: u8, entry: Entry<'_>) {
        let free = self.children.iter().position(|slot| slot.load().is_empty());
        let free = free.expect("the node is not full");
        self.children[free].store(entry);
        self.set_index(byte, free as u8 + 1);
        change(&self.count, 1);
    }

    fn remove(&self, byte: u8) {
        let slot = self.slot_of(usize::from(byte)).expect("the child is there");
        self.set_index(byte, 0);
        self.children[slot].store(Entry::EMPTY);
        change(&self.count, -1);
    }
}

impl FullNode {
    fn build(header: Header, children: &[(u8, Entry<'_>)]) -> FullNode {
        let mut node = FullNode {
            header,
            count: AtomicU64::new(children.len() as u64),
            children: array::from_fn(|_| Slot::new(Entry::EMPTY)),
        };
        for (byte, entry) in children {
            node.children[usize::from(*byte)] = Slot::new(*entry);
        }
        node
    }
}

#[cfg(all(test, not(loom)))]
impl Node<'_> {
    /// Checks the node without its children, and returns their number.
    pub(super) fn assert_shape(self) -> usize {
        let children: Vec<_> = self.children().collect();
        assert_eq!(children.len(), self.count());
        assert!(children.is_sorted_by(|a, b| a.0 < b.0));
        let entries = children.len() + usize::from(self.ends_here().is_some());
        assert!(entries >= 2, "a node with one entry is merged");
        assert!(self.kind == Kind::Small || children.len() > self.kind.children_min());
        for (byte, _) in &children {
            assert!(self.find(*byte).is_some());
        }
        assert!(children.iter().all(|child| !child.1.is_empty()));
        children.len()
    }
}
