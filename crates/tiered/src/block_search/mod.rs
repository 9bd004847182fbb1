//! Searches for a key in a block. A search compares the key first with the nodes of a root, and
//! then with one leaf, by SIMD instructions (the blog on X-Engine's in-memory reads,
//! "Cache-friendly Block Coding" and "SIMD Instructions Accelerate Long Key Comparison").
//!
//! A binary search loads an offset and a key in each step. In a block of a hundred rows, these are
//! some fourteen cache lines, and each load depends on the one before. The nodes of the root and
//! the leaves store the compared data side by side, so a search loads few cache lines.
//!
//! All keys of a block begin with the same *prefix*. The next four bytes of a key, as a number, are
//! its *head*. A *leaf* is one cache line for eight consecutive keys: their heads, and a word with
//! the offset of each key. The *root* has the first head of each leaf, in nodes of sixteen heads,
//! one cache line each.
//!
//! A block of the usual size has a few root nodes. The search compares all of them: their loads do
//! not depend on each other, so all loads together take little longer than one load. If there are
//! more than eight root nodes, a layer of nodes above them has the first head of each root node.
//! SIMD instructions compare all heads of a node at once. The search compares whole keys only where
//! heads are equal.
//!
//! The nodes are not stored on disk. So blocks on disk stay small, and blocks of every format
//! version have nodes. The engine builds the nodes when a block enters memory: the check of the
//! block reads all keys at that moment anyway. X-Engine stores its nodes. Here, a compaction would
//! have to rebuild stored nodes whenever it carries, cuts or encodes a block.
//!
//! In memory, a leaf takes eight bytes for each key. Four of them are the offset, which a binary
//! search needs as well. The root takes half a byte for each key.
//!
//! # Guarantees
//! - **BLOCK-SEARCH-1.** [`Nodes::seek`] returns the number of keys below the given key, for any
//!   key.
//! - **BLOCK-SEARCH-2.** A search returns the same result with each set of SIMD instructions, and
//!   without them ([`Way`]).
//! - **BLOCK-SEARCH-3.** Nodes over `n` keys take [`bytes_of`]`(n)` bytes of memory. They hold no
//!   addresses, so they can be moved as bytes.
//! - **BLOCK-SEARCH-4.** [`Nodes::seek_told`] calls `tell_leaf` at most once, with the number of a
//!   leaf. If it calls `tell_leaf`, the first key of this leaf is below the given key, and no key
//!   after this leaf is below the given key. If it does not, then either no key of the block is
//!   below the given key, or all keys are.

mod lanes;
#[cfg(all(test, not(loom)))]
mod tests;

use std::cmp::Ordering;

use spillway_base::prefetch;

pub(crate) use self::lanes::Way;
use self::lanes::{LEAF_HEADS, Lanes, NODE_HEADS};

const WORD: usize = 4;
/// Bytes of the heads of a node of the root.
const NODE_BYTES: usize = NODE_HEADS * WORD;
/// Bytes of a leaf: eight heads and eight words.
const LEAF_BYTES: usize = 2 * LEAF_HEADS * WORD;
/// Keys of a leaf.
pub(crate) const LEAF_KEYS: usize = LEAF_HEADS;
/// The bytes of a prefix that are kept in the nodes' description. A longer prefix is read from the
/// first key.
const PREFIX_BYTES: usize = 22;
/// The most root nodes that a search compares without a layer above them.
const FLAT_NODES: usize = 8;
/// The bytes of the layer above the nodes of a root.
const fn above_bytes(nodes: usize) -> usize {
    if nodes > FLAT_NODES { nodes.div_ceil(NODE_HEADS) * NODE_BYTES } else { 0 }
}

/// The bytes of nodes over `keys` keys.
pub(crate) const fn bytes_of(keys: usize) -> usize {
    let nodes = keys.div_ceil(LEAF_HEADS).div_ceil(NODE_HEADS);
    above_bytes(nodes) + nodes * NODE_BYTES + keys.div_ceil(LEAF_HEADS) * LEAF_BYTES
}

/// The four bytes after the prefix as a number; missing bytes are zeros. A smaller key never has a
/// larger head.
fn head_of(rest: &[u8]) -> u32 {
    if let Some(bytes) = rest.first_chunk() {
        return u32::from_be_bytes(*bytes);
    }
    let mut bytes = [0; WORD];
    bytes[..rest.len()].copy_from_slice(rest);
    u32::from_be_bytes(bytes)
}

/// The length of the common prefix of two keys.
fn shared(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The properties of nodes besides their bytes. The owner of the keys keeps them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nodes {
    keys: u32,
    /// The offsets of the root and the leaves. The layer above the root comes first.
    root: u32,
    leaves: u32,
    prefix_bytes: u32,
    prefix: [u8; PREFIX_BYTES],
    way: Way,
}

impl Nodes {
    /// Nodes over at least one key, where `first` and `last` are the first and the last key.
    pub(crate) fn new(keys: usize, first: &[u8], last: &[u8], way: Way) -> Nodes {
        let nodes = keys.div_ceil(LEAF_HEADS).div_ceil(NODE_HEADS);
        let root = above_bytes(nodes);
        let leaves = root + nodes * NODE_BYTES;
        let prefix_bytes = shared(first, last);
        let mut prefix = [0; PREFIX_BYTES];
        let kept = prefix_bytes.min(PREFIX_BYTES);
        prefix[..kept].copy_from_slice(&first[..kept]);
        let [keys, root, leaves] = [keys, root, leaves].map(|number| number as u32);
        Nodes { keys, root, leaves, prefix_bytes: prefix_bytes as u32, prefix, way }
    }

    /// Fills in the heads; [`Nodes::set`] has stored the words. For each key, `head_of` receives
    /// its word and the number that was stored with the word, and returns the key's head
    /// ([`Nodes::head`]).
    ///
    /// # Panics
    /// When `bytes` does not have the length [`bytes_of`] the number of keys.
    pub(crate) fn fill(&self, bytes: &mut [u8], head_of: impl Fn(u32, u32) -> u32) {
        assert_eq!(
            bytes.len(),
            bytes_of(self.len()),
            "nodes have their own length (BLOCK-SEARCH-3)"
        );
        let (root, leaves) = bytes.split_at_mut(self.leaves as usize);
        // The largest head pads nodes with fewer heads.
        root.fill(0xFF);
        let (above, root) = root.split_at_mut(self.root as usize);
        for (leaf, bytes) in leaves.chunks_exact_mut(LEAF_BYTES).enumerate() {
            let known = (self.len() - leaf * LEAF_HEADS).min(LEAF_HEADS);
            let (heads, words) = bytes.split_at_mut(LEAF_HEADS * WORD);
            let (heads, _) = heads.as_chunks_mut::<WORD>();
            let (words, _) = words.as_chunks::<WORD>();
            for (head, word) in heads.iter_mut().zip(words).take(known) {
                let (word, noted) = (u32::from_ne_bytes(*word), u32::from_ne_bytes(*head));
                *head = head_of(word, noted).to_ne_bytes();
            }
            heads[known..].fill([0xFF; WORD]);
            root[leaf * WORD..][..WORD].copy_from_slice(&heads[0]);
            if !above.is_empty() && leaf.is_multiple_of(NODE_HEADS) {
                above[leaf / NODE_HEADS * WORD..][..WORD].copy_from_slice(&heads[0]);
            }
        }
    }

    /// The head of one of these keys.
    pub(crate) fn head(&self, key: &[u8]) -> u32 {
        head_of(&key[self.prefix_bytes()..])
    }

    /// The length of the common prefix of all keys.
    pub(crate) fn prefix_bytes(&self) -> usize {
        self.prefix_bytes as usize
    }

    /// The number of keys.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.keys as usize
    }

    /// The offset of the word of this key.
    #[inline]
    fn word_at(&self, index: usize) -> usize {
        // The words of earlier keys come before it, and the heads of all leaves up to and with its
        // own.
        let heads = (index / LEAF_HEADS + 1) * LEAF_HEADS;
        self.leaves as usize + (heads + index) * WORD
    }

    /// The word of this key.
    #[inline]
    pub(crate) fn word(&self, bytes: &[u8], index: usize) -> u32 {
        let at = self.word_at(index);
        u32::from_ne_bytes(bytes[at..at + WORD].first_chunk().copied().unwrap_or_default())
    }

    /// Sets the word of this key, and stores a number for [`Nodes::fill`] in the place of the key's
    /// head.
    #[inline]
    pub(crate) fn set(&self, bytes: &mut [u8], index: usize, word: u32, noted: u32) {
        let leaf = self.leaves as usize + index / LEAF_HEADS * LEAF_BYTES;
        let leaf = &mut bytes[leaf..leaf + LEAF_BYTES];
        let place = index % LEAF_HEADS * WORD;
        leaf[place..place + WORD].copy_from_slice(&noted.to_ne_bytes());
        leaf[LEAF_HEADS * WORD + place..][..WORD].copy_from_slice(&word.to_ne_bytes());
    }

    /// Prefetches what a search reads first.
    #[inline]
    pub(crate) fn prefetch(&self, bytes: &[u8]) {
        let nodes = self.leaves as usize / NODE_BYTES;
        prefetch::lines(bytes.as_ptr(), nodes.min(FLAT_NODES));
    }

    /// Prefetches a leaf.
    #[inline(always)]
    pub(crate) fn prefetch_leaf(&self, bytes: &[u8], leaf: usize) {
        prefetch::line(bytes.as_ptr().wrapping_add(self.leaves as usize + leaf * LEAF_BYTES));
    }

    /// The number of keys below `key`: the index of `key`, or where it would be inserted. `key_at`
    /// returns the key of an index.
    #[inline]
    pub(crate) fn seek<'k>(
        &self,
        bytes: &[u8],
        key: &[u8],
        key_at: impl Fn(usize) -> &'k [u8],
    ) -> usize {
        self.seek_told(bytes, key, key_at, |_| ())
    }

    /// As [`Nodes::seek`]. Passes the leaf in which the search ends to `tell_leaf`, before it reads
    /// the leaf (BLOCK-SEARCH-4).
    #[inline]
    pub(crate) fn seek_told<'k>(
        &self,
        bytes: &[u8],
        key: &[u8],
        key_at: impl Fn(usize) -> &'k [u8],
        tell_leaf: impl Fn(usize),
    ) -> usize {
        let search = NodeSearch { nodes: self, bytes, key, key_at, tell_leaf };
        self.way.run(search)
    }
}

/// A search, generic over the way in which heads are compared.
struct NodeSearch<'a, F, T> {
    nodes: &'a Nodes,
    bytes: &'a [u8],
    key: &'a [u8],
    key_at: F,
    tell_leaf: T,
}

impl<'k, F: Fn(usize) -> &'k [u8], T: Fn(usize)> lanes::Work for NodeSearch<'_, F, T> {
    #[inline(always)]
    fn run(self, lanes: impl Lanes) -> usize {
        let rest = match self.behind_prefix() {
            Ok(rest) => rest,
            Err(Ordering::Less) => return 0,
            Err(_) => return self.nodes.len(),
        };
        let head = head_of(rest);
        let (below, upto) = self.leaves(lanes, head);
        // If several leaves begin with exactly this head, their first keys decide.
        let begins = below + self.ties(upto - below, |tie| (below + tie) * LEAF_HEADS);
        let Some(leaf) = begins.checked_sub(1) else { return 0 };
        (self.tell_leaf)(leaf);
        let first = leaf * LEAF_HEADS;
        let at = self.nodes.leaves as usize + leaf * LEAF_BYTES;
        let heads =
            self.bytes[at..].first_chunk().expect("a leaf lies inside its nodes (BLOCK-SEARCH-3)");
        let (below, upto) = lanes.of_leaf(heads, head);
        let known = (self.nodes.len() - first).min(LEAF_HEADS);
        let (below, upto) = (below.min(known), upto.min(known));
        first + below + self.ties(upto - below, |tie| first + below + tie)
    }
}

impl<'k, F: Fn(usize) -> &'k [u8], T> NodeSearch<'_, F, T> {
    /// The bytes of the searched key after the prefix. If the key does not begin with the prefix,
    /// the error is its order relative to all keys of the block.
    #[inline(always)]
    fn behind_prefix(&self) -> Result<&[u8], Ordering> {
        let len = self.nodes.prefix_bytes as usize;
        let prefix = self.nodes.prefix.get(..len).unwrap_or_else(|| &(self.key_at)(0)[..len]);
        match self.key.split_at_checked(len) {
            Some((begin, rest)) if begin == prefix => Ok(rest),
            Some((begin, _)) => Err(begin.cmp(prefix)),
            None => Err(self.key.cmp(prefix)),
        }
    }

    /// The number of leaves whose first head is below `head`, and of those whose first head is not
    /// above it.
    #[inline(always)]
    fn leaves(&self, lanes: impl Lanes, head: u32) -> (usize, usize) {
        let leaves = self.nodes.len().div_ceil(LEAF_HEADS);
        let nodes = leaves.div_ceil(NODE_HEADS);
        if self.nodes.root == 0 {
            let (mut below, mut upto) = (0, 0);
            for number in 0..nodes {
                let (some_below, some_upto) = self.node(lanes, number * NODE_BYTES, head);
                below += some_below;
                upto += some_upto;
            }
            return (below.min(leaves), upto.min(leaves));
        }
        let mut begun = 0;
        for above in (0..nodes).step_by(NODE_HEADS) {
            let (below, _) = self.node(lanes, above * WORD, head);
            begun += below.min(nodes - above);
            if below < NODE_HEADS {
                break;
            }
        }
        // The last node whose first head is below `head`. The next nodes may begin with an equal
        // head.
        let mut number = begun.saturating_sub(1);
        let (below, mut upto) = self.root_node(lanes, number, head);
        let below = number * NODE_HEADS + below;
        let mut last = number * NODE_HEADS + upto;
        while upto == NODE_HEADS && number + 1 < nodes {
            number += 1;
            upto = self.root_node(lanes, number, head).1;
            last += upto;
        }
        (below, last)
    }

    // No closures: the compiler would make them functions that may not use the processor's vector
    // instructions, and would call a function for each instruction.

    /// The counts of the node that begins here.
    #[inline(always)]
    fn node(&self, lanes: impl Lanes, at: usize, head: u32) -> (usize, usize) {
        let heads =
            self.bytes[at..].first_chunk().expect("a node lies inside its nodes (BLOCK-SEARCH-3)");
        lanes.of_node(heads, head)
    }

    /// The counts of a node of the root.
    #[inline(always)]
    fn root_node(&self, lanes: impl Lanes, number: usize, head: u32) -> (usize, usize) {
        let leaves = self.nodes.len().div_ceil(LEAF_HEADS);
        let known = (leaves - number * NODE_HEADS).min(NODE_HEADS);
        let (below, upto) = self.node(lanes, self.nodes.root as usize + number * NODE_BYTES, head);
        (below.min(known), upto.min(known))
    }

    /// The number of keys below the searched key, among `ties` keys whose heads equal its head.
    #[inline(always)]
    fn ties(&self, ties: usize, index: impl Fn(usize) -> usize) -> usize {
        let (mut low, mut high) = (0, ties);
        while low < high {
            let middle = low + (high - low) / 2;
            if (self.key_at)(index(middle)) < self.key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }
}
