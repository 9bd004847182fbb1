//! Keys of a memtable, each with its versions in a list of their own (X-Engine, section 3.2.1 and
//! figure 7).
//!
//! ```text
//! key:      a          b          c
//!           │          │          │
//! versions: 9 → 4      7          8 → 8' → 2        newest nearest
//! ```
//!
//! A hot key only makes its own list longer. If every version were an entry of the index, searches
//! for the neighbours of a hot key would pass its many versions.
//!
//! # Invariants
//!
//! - A key or version is written in full before a pointer to it is published with Release. Readers
//!   follow pointers that they loaded with Acquire. A key or version never moves. Its memory is
//!   freed only together with the whole arena.
//! - A version list is ordered by CSN, descending. Of versions with equal CSNs, the one pushed last
//!   stands first. No version is ever unlinked, so a push needs only a compare-and-swap on a link.
//!
//! A key and its first version are one allocation: most keys have one version, and both then lie in
//! one or two cache lines.
#![allow(unsafe_code)] // A leaf: keys and versions live in an arena, behind atomic pointers.

use std::mem::offset_of;
use std::ptr::{self, NonNull};

use spillway_base::sync::UnsafeCell;
use spillway_base::sync::atomic::{AtomicPtr, Ordering};
use spillway_base::{Csn, prefetch};

use super::arena::Arena;

/// The alignment that an arena of keys and versions needs.
pub(super) const ALIGN: usize = 8;

/// The length that marks a deletion.
const TOMBSTONE: u32 = u32::MAX;

#[repr(C)]
struct Version {
    csn: u64,
    next: AtomicPtr<Version>,
    written: Written,
    len: u32,
    // The value's bytes follow at `VALUE_AT`.
}

#[repr(C)]
struct KeyHead {
    versions: AtomicPtr<Version>,
    written: Written,
    len: u32,
    // The key's bytes follow at `KEY_AT`.
}

const KEY_AT: usize = offset_of!(KeyHead, len) + size_of::<u32>();
const VALUE_AT: usize = offset_of!(Version, len) + size_of::<u32>();

/// Stands for data that is written once, before it is published. In models, loom detects a reader
/// that reads it too soon. It is empty in production.
#[derive(Default)]
pub(super) struct Written(UnsafeCell<()>);

impl Written {
    pub(super) fn write(&self) {
        self.0.with_mut(|_| ());
    }

    pub(super) fn read(&self) {
        self.0.with(|_| ());
    }
}

/// A version of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct VersionRef<'a> {
    pub(crate) csn: Csn,
    /// `None` is a deletion.
    pub(crate) value: Option<&'a [u8]>,
}

/// A key of a memtable. It is valid as long as its arena, which its holder must ensure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct KeyRef(NonNull<KeyHead>);

impl KeyRef {
    /// A key with one version, or with none.
    pub(super) fn new(arena: &Arena, key: &[u8], version: Option<(Csn, Option<&[u8]>)>) -> KeyRef {
        let version_at = (KEY_AT + key.len()).max(size_of::<KeyHead>()).next_multiple_of(ALIGN);
        let version_bytes = version.map_or(0, |(_, value)| VersionPtr::bytes(value));
        let memory = arena.allocate(version_at + version_bytes);
        // SAFETY: the arena gave `version_at + version_bytes` bytes, aligned to 8, to this thread
        // alone; the key's bytes end at `version_at` or before, and a version is as long as it
        // said.
        unsafe {
            let first = version.map_or(ptr::null_mut(), |(csn, value)| {
                VersionPtr::write(memory.add(version_at), csn, value).0.as_ptr()
            });
            let head = memory.cast::<KeyHead>();
            head.write(KeyHead {
                versions: AtomicPtr::new(first),
                written: Written::default(),
                len: u32::try_from(key.len()).expect("a key is below 4 GiB"),
            });
            head.as_ref().written.write();
            ptr::copy_nonoverlapping(key.as_ptr(), memory.as_ptr().add(KEY_AT), key.len());
            KeyRef(head)
        }
    }

    /// The key of a pointer.
    ///
    /// # Safety
    /// The pointer came from [`KeyRef::as_ptr`], and was loaded with Acquire from where it was
    /// published.
    pub(super) unsafe fn from_ptr(pointer: NonNull<u8>) -> KeyRef {
        KeyRef(pointer.cast())
    }

    pub(super) fn as_ptr(self) -> NonNull<u8> {
        self.0.cast()
    }

    /// The key's bytes, for a lifetime in which the caller holds the arena.
    pub(super) fn bytes<'a>(self) -> &'a [u8] {
        // SAFETY: the head and the bytes, `len` of them, were written before the key was published
        // and never after; the caller holds the arena that they are in.
        unsafe {
            let head = self.0.as_ref();
            head.written.read();
            let bytes = self.0.cast::<u8>().add(KEY_AT);
            std::slice::from_raw_parts(bytes.as_ptr(), head.len as usize)
        }
    }

    /// Prefetches the memory of the key, and at least the beginning of the version that was written
    /// with it.
    pub(super) fn prefetch(self) {
        prefetch::lines(self.as_ptr().as_ptr(), 2);
    }

    /// Adds a version before the first one that is not newer.
    pub(super) fn push(self, arena: &Arena, csn: Csn, value: Option<&[u8]>) {
        let memory = arena.allocate(VersionPtr::bytes(value));
        // SAFETY: the arena gave as many bytes as the version says, aligned to 8, to this thread
        // alone.
        let version = unsafe { VersionPtr::write(memory, csn, value) };
        // SAFETY: the key and every version linked from it are alive, as the arena is borrowed by
        // the caller; `version` is owned by this thread until the exchange below publishes it.
        unsafe {
            loop {
                let mut link = &self.0.as_ref().versions;
                let mut next = link.load(Ordering::Acquire);
                while let Some(found) =
                    NonNull::new(next).filter(|found| found.as_ref().csn > csn.0)
                {
                    link = &(*found.as_ptr()).next;
                    next = link.load(Ordering::Acquire);
                }
                version.0.as_ref().next.store(next, Ordering::Relaxed);
                let new = version.0.as_ptr();
                let pushed = link.compare_exchange(next, new, Ordering::Release, Ordering::Relaxed);
                if pushed.is_ok() {
                    return;
                }
            }
        }
    }

    /// The versions, newest first, for a lifetime in which the caller holds the arena. Of versions
    /// with equal CSNs, only one is returned.
    pub(super) fn versions<'a>(self) -> impl Iterator<Item = VersionRef<'a>> {
        // SAFETY: the caller holds the arena that the key is in.
        let mut next = unsafe { self.0.as_ref().versions.load(Ordering::Acquire) };
        let mut last = None;
        std::iter::from_fn(move || {
            loop {
                let version = VersionPtr(NonNull::new(next)?);
                let found = version.read();
                // SAFETY: as above: a published version lives as long as the arena.
                next = unsafe { version.0.as_ref().next.load(Ordering::Acquire) };
                if last != Some(found.csn) {
                    last = Some(found.csn);
                    return Some(found);
                }
            }
        })
    }
}

#[derive(Clone, Copy)]
struct VersionPtr(NonNull<Version>);

impl VersionPtr {
    /// The bytes of memory of a version.
    fn bytes(value: Option<&[u8]>) -> usize {
        size_of::<Version>().max(VALUE_AT + value.map_or(0, <[u8]>::len))
    }

    /// Writes a version.
    ///
    /// # Safety
    /// The memory belongs to the caller alone, is aligned to 8, and has [`VersionPtr::bytes`]
    /// bytes.
    unsafe fn write(memory: NonNull<u8>, csn: Csn, value: Option<&[u8]>) -> VersionPtr {
        let bytes = value.unwrap_or_default();
        assert!(bytes.len() < TOMBSTONE as usize, "a value is below 4 GiB");
        let len = value.map_or(TOMBSTONE, |value| value.len() as u32);
        let version = memory.cast::<Version>();
        // SAFETY: the caller gives memory for the version and the bytes after it.
        unsafe {
            version.write(Version {
                csn: csn.0,
                next: AtomicPtr::new(ptr::null_mut()),
                written: Written::default(),
                len,
            });
            version.as_ref().written.write();
            ptr::copy_nonoverlapping(bytes.as_ptr(), memory.as_ptr().add(VALUE_AT), bytes.len());
        }
        VersionPtr(version)
    }

    fn read<'a>(self) -> VersionRef<'a> {
        // SAFETY: published versions are immutable but for `next`, and live as long as the arena,
        // which the caller holds; the value's bytes follow, `len` of them.
        unsafe {
            let head = self.0.as_ref();
            head.written.read();
            let value = (head.len != TOMBSTONE).then(|| {
                let bytes = self.0.cast::<u8>().add(VALUE_AT);
                std::slice::from_raw_parts(bytes.as_ptr(), head.len as usize)
            });
            VersionRef { csn: Csn(head.csn), value }
        }
    }
}
