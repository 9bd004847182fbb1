//! The content of a node's slot, in one word: nothing, an RID, a leaf or a node.
//!
//! ```text
//! 0                    nothing
//! bit 63 is 1          a RID whose key ends at the slot
//! bits 0..3 are 0      the address of a leaf: a RID and the rest of its key
//! bits 0..3 are 1..=4  the address of a node, and its kind
//! ```
#![allow(unsafe_code)] // A leaf: tagged pointers.

use std::marker::PhantomData;
use std::ptr::{self, NonNull};

use smallvec::SmallVec;
use spillway_base::prefetch;
use spillway_base::sync::atomic::{AtomicPtr, Ordering};

use super::memory::{self, IndexMemory};
use super::node::{Kind, Node, NodeContent};
use crate::rid::Rid;

const KIND_MASK: usize = 7;
const _: () = assert!(usize::BITS == 64, "an entry has the bits of a RID");

/// Bytes of a leaf before the rest of the key: the RID, and the rest's length.
const LEAF_HEADER_BYTES: usize = 12;

/// The content of a slot when it was read, valid while the reader is pinned.
#[derive(Clone, Copy)]
pub(super) struct Entry<'a> {
    word: *mut u8,
    pinned: PhantomData<&'a u8>,
}

/// An entry by its kind.
pub(super) enum EntryKind<'a> {
    Empty,
    /// The only key below the slot: its bytes past the slot, and its RID.
    Tail(&'a [u8], Rid),
    Node(Node<'a>),
}

impl<'a> Entry<'a> {
    pub(super) const EMPTY: Entry<'static> = Entry { word: ptr::null_mut(), pinned: PhantomData };

    /// An entry for one key. The parts, joined, are its bytes past the slot.
    pub(super) fn new_tail(memory: &IndexMemory, parts: [&[u8]; 3], rid: Rid) -> Entry<'a> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        if len == 0 {
            return Entry::of_rid(rid);
        }
        let leaf = memory.alloc(LEAF_HEADER_BYTES + len);
        let stored = u32::try_from(len).expect("a key is shorter than 4 GiB");
        // SAFETY: the memory is this thread's alone, has room for the header and the parts, and
        // begins at a multiple of 8.
        unsafe {
            leaf.cast::<u64>().write(rid.bits());
            leaf.add(8).cast::<u32>().write(stored);
            let mut at = leaf.add(LEAF_HEADER_BYTES);
            for part in parts {
                ptr::copy_nonoverlapping(part.as_ptr(), at.as_ptr(), part.len());
                at = at.add(part.len());
            }
            memory::changed(leaf);
        }
        Entry { word: leaf.as_ptr(), pinned: PhantomData }
    }

    pub(super) fn of_rid(rid: Rid) -> Entry<'a> {
        let word = ptr::without_provenance_mut(rid.bits() as usize);
        Entry { word, pinned: PhantomData }
    }

    pub(super) fn of_node(node: Node<'a>) -> Entry<'a> {
        let word = node.as_ptr().as_ptr().wrapping_add(node.kind() as usize);
        Entry { word, pinned: PhantomData }
    }

    #[inline]
    pub(super) fn is_empty(self) -> bool {
        self.word.is_null()
    }

    /// Whether it is a node. Reads the tag only.
    #[inline]
    pub(super) fn is_node(self) -> bool {
        !self.is_rid() && self.word.addr() & KIND_MASK != 0
    }

    /// Whether the word is a RID.
    #[inline]
    pub(super) fn is_rid(self) -> bool {
        (self.word.addr() as isize) < 0
    }

    #[inline]
    pub(super) fn kind(self) -> EntryKind<'a> {
        if self.is_rid() {
            let rid = Rid::from_bits(self.word.addr() as u64).expect("it has the mark");
            return EntryKind::Tail(&[], rid);
        }
        let Some(memory) = NonNull::new(self.word.wrapping_sub(self.word.addr() & KIND_MASK))
        else {
            return EntryKind::Empty;
        };
        match Kind::of_tag(self.word.addr() & KIND_MASK) {
            // SAFETY: entries are made of live nodes only, and INDEX-4 keeps the node for `'a`.
            Some(kind) => EntryKind::Node(unsafe { Node::from_parts(memory, kind) }),
            None => {
                // SAFETY: likewise for a leaf, which `new_tail` wrote before it was published.
                unsafe {
                    memory::looked(memory);
                    let rid = Rid::from_bits(memory.cast::<u64>().read());
                    let len = memory.add(8).cast::<u32>().read() as usize;
                    let rest = memory.add(LEAF_HEADER_BYTES).as_ptr();
                    let rest = std::slice::from_raw_parts(rest, len);
                    EntryKind::Tail(rest, rid.expect("a leaf has a RID"))
                }
            }
        }
    }

    /// The node, if it is one. Does not read the memory of a leaf.
    #[inline]
    pub(super) fn node(self) -> Option<Node<'a>> {
        match self.is_node().then(|| self.kind())? {
            EntryKind::Node(node) => Some(node),
            _ => None,
        }
    }

    /// Prefetches the first cache lines of a leaf or node.
    #[inline]
    pub(super) fn prefetch(self) {
        if !self.is_rid() && !self.is_empty() {
            prefetch::line(self.word);
            // Most leaves and small nodes end within this line.
            prefetch::line(self.word.wrapping_add(prefetch::LINE_BYTES - 8));
        }
    }

    /// Its own memory, without that of its children.
    pub(super) fn memory(self) -> Option<EntryMemory> {
        match self.kind() {
            EntryKind::Empty => None,
            EntryKind::Tail(..) if self.is_rid() => None,
            EntryKind::Tail(rest, _) => {
                let start = NonNull::new(self.word).expect("it is not empty");
                Some(EntryMemory { start, size: LEAF_HEADER_BYTES + rest.len() })
            }
            EntryKind::Node(node) => {
                let (start, size) = node.memory();
                Some(EntryMemory { start, size })
            }
        }
    }
}

/// The memory of a node or a leaf that was unlinked.
pub(super) struct EntryMemory {
    start: NonNull<u8>,
    size: usize,
}

// SAFETY: it is plain memory, which only its owner frees.
unsafe impl Send for EntryMemory {}

impl EntryMemory {
    #[cfg(all(test, not(loom)))]
    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Frees the memory.
    ///
    /// # Safety
    /// It is memory of this index, and no reader can reach it.
    pub(super) unsafe fn free(self, memory: &IndexMemory) {
        // SAFETY: `start` and `size` are those of the allocation; the caller guarantees the rest.
        unsafe { memory.free(self.start, self.size) };
    }
}

/// New entries that are not in the tree yet; dropping it frees them. Writers allocate entries
/// before they lock anything, because an allocation may be slow and may wait for other threads.
pub(super) struct Draft<'m> {
    memory: &'m IndexMemory,
    made: SmallVec<[Entry<'m>; 4]>,
}

impl<'m> Draft<'m> {
    pub(super) fn new(memory: &'m IndexMemory) -> Draft<'m> {
        Draft { memory, made: SmallVec::new() }
    }

    /// As [`Entry::new_tail`].
    pub(super) fn tail(&mut self, parts: [&[u8]; 3], rid: Rid) -> Entry<'m> {
        self.take(Entry::new_tail(self.memory, parts, rid))
    }

    /// As [`NodeContent::build`].
    pub(super) fn node(&mut self, content: &NodeContent<'m>, prefix: [&[u8]; 3]) -> Entry<'m> {
        self.take(content.build(self.memory, prefix))
    }

    fn take(&mut self, entry: Entry<'m>) -> Entry<'m> {
        self.made.push(entry);
        entry
    }

    /// Gives up ownership of the entries: the tree has them now.
    pub(super) fn publish(mut self) {
        self.made.clear();
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        for memory in self.made.drain(..).filter_map(Entry::memory) {
            // SAFETY: no slot that a reader can reach leads to it.
            unsafe { memory.free(self.memory) };
        }
    }
}

/// A place in a node that holds an entry. Only the holder of the node's lock stores into it.
#[repr(transparent)]
pub(super) struct Slot(AtomicPtr<u8>);

impl Slot {
    pub(super) fn new(entry: Entry<'_>) -> Slot {
        Slot(AtomicPtr::new(entry.word))
    }

    /// Reads the entry. It was current at some moment since the reader pinned. A check of the latch
    /// says whether it still is.
    #[inline]
    pub(super) fn load<'a>(&'a self) -> Entry<'a> {
        Entry { word: self.0.load(Ordering::Acquire), pinned: PhantomData }
    }

    pub(super) fn store(&self, entry: Entry<'_>) {
        self.0.store(entry.word, Ordering::Release);
    }
}
