//! A lock-free skiplist of distinct keys, each with its versions in a list of their own (X-Engine, section 3.2.1
//! and figure 7).
//!
//! ```text
//! key:      a ──────── b ──────── c
//!           │          │          │
//! versions: 9 → 4      7          8 → 8' → 2        newest nearest
//! ```
//!
//! A hot key grows its own list and nothing else: its many versions are not met on the way to its
//! neighbours, as they would be where every version is an entry of the skiplist.
//!
//! # Invariants
//!
//! - Nodes and versions are written in full before a pointer to them is published with Release, never moved, and
//!   never freed before the list. Readers follow pointers with Acquire.
//! - Level 0 holds every node, in key order. A node is linked at level 0 first; the levels above are
//!   shortcuts, and may miss it for a while.
//! - A version list is ordered by CSN, descending; of equal CSNs, the one pushed last stands first.
//!
//! Nothing is ever unlinked, so a compare-and-swap on a link is all that insertion needs, and there is no
//! reclamation to wait for.
#![allow(unsafe_code)] // A leaf: nodes live in an arena, behind atomic pointers.

use std::cmp::Ordering as Order;
use std::ptr::{self, NonNull};

use spillway_base::Csn;
use spillway_base::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::arena::Arena;

#[cfg(not(loom))]
const HEIGHT_MAX: usize = 12;
#[cfg(loom)]
const HEIGHT_MAX: usize = 2;

/// A value's length that says there is none: the key is deleted.
const TOMBSTONE: u32 = u32::MAX;

struct Version {
    csn: u64,
    len: u32,
    next: AtomicPtr<Version>,
    // The value's bytes follow.
}

struct Node {
    /// The key's first eight bytes, big-endian: most comparisons end here, without touching the key.
    prefix: u64,
    key_len: u32,
    height: u32,
    versions: AtomicPtr<Version>,
    // `height` links follow, then the key's bytes.
}

type Link = AtomicPtr<Node>;

const LINKS_AT: usize = size_of::<Node>().next_multiple_of(align_of::<Link>());
const VALUE_AT: usize = size_of::<Version>();

fn prefix_of(key: &[u8]) -> u64 {
    let mut prefix = [0; 8];
    let len = key.len().min(8);
    prefix[..len].copy_from_slice(&key[..len]);
    u64::from_be_bytes(prefix)
}

/// A place in the list: a node, or none.
#[derive(Clone, Copy)]
pub(crate) struct Place(*const Node);

// SAFETY: a place is only followed through the list it came from, which may be shared between threads.
unsafe impl Send for Place {}

/// A version of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct VersionRef<'a> {
    pub(crate) csn: Csn,
    /// `None` is a deletion.
    pub(crate) value: Option<&'a [u8]>,
}

pub(super) struct List {
    arena: Arena,
    head: NonNull<Node>,
    heights: AtomicU32,
}

// SAFETY: nodes are reached through atomic pointers only, and immutable but for those.
unsafe impl Send for List {}
// SAFETY: as for `Send`.
unsafe impl Sync for List {}

impl List {
    pub(super) fn new() -> List {
        let arena = Arena::new();
        let head = new_node(&arena, &[], HEIGHT_MAX, ptr::null_mut());
        List { arena, head, heights: AtomicU32::new(0x9E37_79B9) }
    }

    pub(super) fn bytes(&self) -> usize {
        self.arena.bytes()
    }

    /// A height: each level with a quarter of the nodes below.
    fn height(&self) -> usize {
        let mut bits = self.heights.fetch_add(0x9E37_79B9, Ordering::Relaxed);
        bits = (bits ^ (bits >> 16)).wrapping_mul(0x85EB_CA6B);
        bits = (bits ^ (bits >> 13)).wrapping_mul(0xC2B2_AE35);
        bits ^= bits >> 16;
        (1 + bits.trailing_zeros() as usize / 2).min(HEIGHT_MAX)
    }

    fn link(&self, node: NonNull<Node>, level: usize) -> &Link {
        // SAFETY: `node` is a node of this list, which is alive; `new_node` wrote `height` links at
        // `LINKS_AT`, and no caller asks for a level at or above a node's height: it reached the
        // node at that level, or the node is the head, or its own.
        unsafe {
            debug_assert!(level < node.as_ref().height as usize);
            node.cast::<u8>().add(LINKS_AT).cast::<Link>().add(level).as_ref()
        }
    }

    fn next(&self, node: NonNull<Node>, level: usize) -> Option<NonNull<Node>> {
        NonNull::new(self.link(node, level).load(Ordering::Acquire))
    }

    fn compare(&self, node: NonNull<Node>, key: &[u8], prefix: u64) -> Order {
        // SAFETY: a node of this list; its prefix is written before it is published.
        let node_prefix = unsafe { node.as_ref().prefix };
        node_prefix.cmp(&prefix).then_with(|| key_of(node).cmp(key))
    }

    /// The last node before `key` and the first at or past it, at every level.
    fn find(&self, key: &[u8]) -> ([NonNull<Node>; HEIGHT_MAX], [*mut Node; HEIGHT_MAX], bool) {
        let prefix = prefix_of(key);
        let mut before = [self.head; HEIGHT_MAX];
        let mut after = [ptr::null_mut(); HEIGHT_MAX];
        let mut at = self.head;
        let mut equal = false;
        for level in (0..HEIGHT_MAX).rev() {
            while let Some(next) = self.next(at, level) {
                match self.compare(next, key, prefix) {
                    Order::Less => at = next,
                    order => {
                        after[level] = next.as_ptr();
                        equal = order == Order::Equal;
                        break;
                    }
                }
            }
            if after[level].is_null() {
                equal = false;
            }
            before[level] = at;
        }
        (before, after, equal)
    }

    /// The first node at or past `key`.
    fn lower_bound(&self, key: &[u8]) -> Option<NonNull<Node>> {
        let prefix = prefix_of(key);
        let mut at = self.head;
        let mut level = HEIGHT_MAX - 1;
        loop {
            match self.next(at, level) {
                Some(next) if self.compare(next, key, prefix) == Order::Less => at = next,
                found if level == 0 => return found,
                _ => level -= 1,
            }
        }
    }

    /// The last node before `key`, or the last of all.
    fn before(&self, key: Option<&[u8]>) -> Option<NonNull<Node>> {
        let prefix = key.map_or(0, prefix_of);
        let mut at = self.head;
        let mut level = HEIGHT_MAX - 1;
        loop {
            match self.next(at, level) {
                Some(next)
                    if key.is_none_or(|key| self.compare(next, key, prefix) == Order::Less) =>
                {
                    at = next;
                }
                _ if level == 0 => return (at != self.head).then_some(at),
                _ => level -= 1,
            }
        }
    }

    /// Adds a version of a key. Answers whether the key is new.
    pub(super) fn insert(&self, key: &[u8], csn: Csn, value: Option<&[u8]>) -> bool {
        let version = self.new_version(csn, value);
        let (mut before, mut after, equal) = self.find(key);
        if equal && let Some(node) = NonNull::new(after[0]) {
            push_version(node, version);
            return false;
        }
        let height = self.height();
        let node = new_node(&self.arena, key, height, version.as_ptr());
        for level in 0..height {
            loop {
                self.link(node, level).store(after[level], Ordering::Relaxed);
                let linked = self.link(before[level], level).compare_exchange(
                    after[level],
                    node.as_ptr(),
                    Ordering::Release,
                    Ordering::Relaxed,
                );
                if linked.is_ok() {
                    break;
                }
                let equal;
                (before, after, equal) = self.find(key);
                if level == 0
                    && equal
                    && let Some(winner) = NonNull::new(after[0])
                {
                    // Another thread linked the key first: the version goes to its node, and ours, of
                    // which nobody knows, stays unused in the arena.
                    // SAFETY: `version` was made above and is not in any list: the node that holds
                    // it was never published.
                    unsafe { version.as_ref().next.store(ptr::null_mut(), Ordering::Relaxed) };
                    push_version(winner, version);
                    return false;
                }
            }
        }
        true
    }

    fn new_version(&self, csn: Csn, value: Option<&[u8]>) -> NonNull<Version> {
        let bytes = value.unwrap_or_default();
        assert!(bytes.len() < TOMBSTONE as usize, "a value is below 4 GiB");
        let memory = self.arena.allocate(VALUE_AT + bytes.len());
        let len = value.map_or(TOMBSTONE, |value| value.len() as u32);
        let version = memory.cast::<Version>();
        // SAFETY: the arena gave `VALUE_AT + bytes.len()` bytes, aligned to 16, to this thread alone.
        unsafe {
            version.write(Version { csn: csn.0, len, next: AtomicPtr::new(ptr::null_mut()) });
            ptr::copy_nonoverlapping(bytes.as_ptr(), memory.as_ptr().add(VALUE_AT), bytes.len());
        }
        version
    }

    /// The place of the first key at or past `key`.
    pub(super) fn seek(&self, key: &[u8]) -> Place {
        Place(self.lower_bound(key).map_or(ptr::null(), |node| node.as_ptr()))
    }

    /// The place of the last key before `key`; of the last of all for `None`.
    pub(super) fn seek_before(&self, key: Option<&[u8]>) -> Place {
        Place(self.before(key).map_or(ptr::null(), |node| node.as_ptr()))
    }

    /// The place after one.
    pub(super) fn after(&self, place: Place) -> Place {
        let next = NonNull::new(place.0.cast_mut()).and_then(|node| self.next(node, 0));
        Place(next.map_or(ptr::null(), |node| node.as_ptr()))
    }

    /// The key at a place of this list.
    pub(super) fn key(&self, place: Place) -> Option<&[u8]> {
        NonNull::new(place.0.cast_mut()).map(key_of)
    }

    /// The place of a key.
    pub(super) fn find_key(&self, key: &[u8]) -> Option<Place> {
        let node = self.lower_bound(key)?;
        (key_of(node) == key).then_some(Place(node.as_ptr()))
    }

    /// The versions at a place of this list, newest first. One of equal CSNs is given.
    pub(super) fn versions(&self, place: Place) -> impl Iterator<Item = VersionRef<'_>> {
        let mut next = match NonNull::new(place.0.cast_mut()) {
            // SAFETY: a place holds a node of this list, which is alive.
            Some(node) => unsafe { node.as_ref().versions.load(Ordering::Acquire) },
            None => ptr::null_mut(),
        };
        let mut last = None;
        std::iter::from_fn(move || {
            loop {
                let version = NonNull::new(next)?;
                // SAFETY: published versions are immutable but for `next`, and live as long as the list, which
                // is borrowed; the value's bytes follow the version, `len` of them.
                let found = unsafe {
                    let head = version.as_ref();
                    next = head.next.load(Ordering::Acquire);
                    let value = (head.len != TOMBSTONE).then(|| {
                        let bytes = version.cast::<u8>().add(VALUE_AT);
                        std::slice::from_raw_parts(bytes.as_ptr(), head.len as usize)
                    });
                    VersionRef { csn: Csn(head.csn), value }
                };
                if last != Some(found.csn) {
                    last = Some(found.csn);
                    return Some(found);
                }
            }
        })
    }
}

fn new_node(arena: &Arena, key: &[u8], height: usize, versions: *mut Version) -> NonNull<Node> {
    let key_at = LINKS_AT + height * size_of::<Link>();
    let memory = arena.allocate(key_at + key.len());
    let node = memory.cast::<Node>();
    // SAFETY: the arena gave `key_at + key.len()` bytes, aligned to 16, to this thread alone; the links lie
    // at `LINKS_AT`, which is aligned for them.
    unsafe {
        node.write(Node {
            prefix: prefix_of(key),
            key_len: key.len() as u32,
            height: height as u32,
            versions: AtomicPtr::new(versions),
        });
        let links = memory.add(LINKS_AT).cast::<Link>();
        for level in 0..height {
            links.add(level).write(AtomicPtr::new(ptr::null_mut()));
        }
        ptr::copy_nonoverlapping(key.as_ptr(), memory.as_ptr().add(key_at), key.len());
    }
    node
}

fn key_of<'a>(node: NonNull<Node>) -> &'a [u8] {
    // SAFETY: callers hold the list that the node is in for as long as they use the key; the key was
    // written before the node was published, behind its links.
    unsafe {
        let head = node.as_ref();
        let key_at = LINKS_AT + head.height as usize * size_of::<Link>();
        let bytes = node.cast::<u8>().add(key_at);
        std::slice::from_raw_parts(bytes.as_ptr(), head.key_len as usize)
    }
}

/// Puts a version into a node's list, before the first that is not newer.
fn push_version(node: NonNull<Node>, version: NonNull<Version>) {
    // SAFETY: `node` and every version linked from it are alive, as the list is borrowed by the caller;
    // `version` is owned by this thread until the exchange below publishes it.
    unsafe {
        let csn = version.as_ref().csn;
        loop {
            let mut link = &node.as_ref().versions;
            let mut next = link.load(Ordering::Acquire);
            while let Some(found) = NonNull::new(next).filter(|found| found.as_ref().csn > csn) {
                link = &(*found.as_ptr()).next;
                next = link.load(Ordering::Acquire);
            }
            version.as_ref().next.store(next, Ordering::Relaxed);
            let pushed =
                link.compare_exchange(next, version.as_ptr(), Ordering::Release, Ordering::Relaxed);
            if pushed.is_ok() {
                return;
            }
        }
    }
}
