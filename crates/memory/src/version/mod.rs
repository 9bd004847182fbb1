//! A version of a row in memory: a header, followed by the value.

#![allow(unsafe_code)] // A leaf: values behind headers, in memory of the slabs.

use std::ptr::NonNull;

use spillway_base::Csn;
use spillway_base::sync::atomic::{AtomicU32, AtomicU64, Ordering};

mod word;

pub(crate) use word::{HANDLES_MAX, Place, Target, Word, class_bytes, class_of};

/// In `len`: the value is only in the log.
const ABSENT: u32 = LEN;
/// In `len`: the version is a deletion, and the bytes after the header are the row's key.
const DELETED: u32 = 1 << 30;
/// In `len`: the version was read since eviction last checked it.
const USED: u32 = 1 << 31;
/// The bits of `len` that are the length.
const LEN: u32 = DELETED - 1;
const SLOT_BITS: u32 = 36;

/// The header of a version. Its value follows at [`VALUE_AT`].
///
/// After publication, only `next`, `place` and the bit [`USED`] change.
#[repr(C)]
pub(crate) struct Version {
    /// The next older version or its place; empty if there is none.
    next: AtomicU64,
    /// The place of its record once it is known; until then the record's offset within its batch
    /// and its size class, as [`InBatch`].
    place: AtomicU64,
    csn: Csn,
    /// Table and slot. Atomic, because eviction also reads it in objects that are not written yet.
    owner: AtomicU64,
    /// The length of the value or the key, or [`ABSENT`]; with [`DELETED`] and [`USED`].
    len: AtomicU32,
}

/// The offset of the value.
const VALUE_AT: usize = std::mem::offset_of!(Version, len) + size_of::<AtomicU32>();
/// Bytes of a header.
pub(crate) const HEADER_BYTES: usize = VALUE_AT;

/// The position of a version's record within its commit's batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct InBatch {
    pub(crate) offset: u32,
    pub(crate) class: u8,
}

impl InBatch {
    fn word(self) -> u64 {
        // Bit 0 stays clear: it would mark a place.
        u64::from(self.offset) << 32 | u64::from(self.class) << 24
    }

    /// The place of the record in a batch that begins at an offset of a segment.
    pub(crate) fn at(self, handle: u32, begin: u32) -> Place {
        Place { handle, offset: begin + self.offset, class: self.class }
    }
}

/// The content of a version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Content<'v> {
    Value(&'v [u8]),
    /// A deletion, with the row's key: the key leaves the index when the row is removed.
    Deleted(&'v [u8]),
    /// The value is only in the log, at the version's place.
    Absent,
}

/// The fields of a new version.
pub(crate) struct Fields<'v> {
    pub(crate) csn: Csn,
    pub(crate) table: u32,
    pub(crate) slot: u64,
    pub(crate) place: Result<Place, InBatch>,
    pub(crate) content: Content<'v>,
    pub(crate) next: Word,
}

impl Version {
    /// Bytes of memory of a version with this content.
    pub(crate) fn bytes_for(content: &Content<'_>) -> usize {
        match content {
            Content::Value(bytes) | Content::Deleted(bytes) => HEADER_BYTES + bytes.len(),
            Content::Absent => HEADER_BYTES,
        }
    }

    /// Writes a version.
    ///
    /// # Safety
    /// `memory` has room for [`Version::bytes_for`] the content, is aligned to 8 bytes, and no
    /// other thread uses it.
    pub(crate) unsafe fn write(memory: NonNull<u8>, fields: &Fields<'_>) -> NonNull<Version> {
        let (value, flag) = match fields.content {
            Content::Value(value) => (value, 0),
            Content::Deleted(key) => (key, DELETED),
            Content::Absent => (&[][..], 0),
        };
        // A batch in the log is smaller than this.
        assert!(value.len() < ABSENT as usize, "a value of {} bytes", value.len());
        let absent = matches!(fields.content, Content::Absent);
        let len = if absent { ABSENT } else { value.len() as u32 | flag };
        let place = match fields.place {
            Ok(place) => Word::place(place).0,
            Err(unplaced) => unplaced.word(),
        };
        let version = memory.cast::<Version>();
        // SAFETY: the caller gives memory of this size and alignment for this version alone.
        unsafe {
            let at = version.as_ptr();
            (&raw mut (*at).next).write(AtomicU64::new(fields.next.0));
            (&raw mut (*at).place).write(AtomicU64::new(place));
            (&raw mut (*at).csn).write(fields.csn);
            let owner = u64::from(fields.table) << SLOT_BITS | fields.slot;
            #[cfg(not(loom))]
            (*at).owner.store(owner, Ordering::Relaxed);
            #[cfg(loom)]
            (&raw mut (*at).owner).write(AtomicU64::new(owner));
            (&raw mut (*at).len).write(AtomicU32::new(len));
            let to = memory.as_ptr().add(VALUE_AT);
            std::ptr::copy_nonoverlapping(value.as_ptr(), to, value.len());
        }
        version
    }

    pub(crate) fn csn(&self) -> Csn {
        self.csn
    }

    /// The table and the slot of the version at an address.
    ///
    /// # Safety
    /// The memory is a version that was or is being written, or an object of at least the size of a
    /// header.
    pub(crate) unsafe fn owner_at(at: NonNull<Version>) -> (u32, u64) {
        // SAFETY: the field lies in the object, and is only used as an atomic word.
        let owner = unsafe { (&raw const (*at.as_ptr()).owner).as_ref() };
        let owner = owner.expect("it has an address").load(Ordering::Relaxed);
        ((owner >> SLOT_BITS) as u32, owner & ((1 << SLOT_BITS) - 1))
    }

    pub(crate) fn next(&self) -> Word {
        Word(self.next.load(Ordering::Acquire))
    }

    /// Links it to another older version. The caller holds the entry's lock.
    pub(crate) fn set_next(&self, next: Word) {
        self.next.store(next.0, Ordering::Release);
    }

    /// The place of its record, or, while the place is not known, the record's position in its
    /// batch.
    pub(crate) fn place(&self) -> Result<Place, InBatch> {
        let word = self.place.load(Ordering::Acquire);
        Word(word)
            .as_place()
            .ok_or(InBatch { offset: (word >> 32) as u32, class: (word >> 24) as u8 })
    }

    pub(crate) fn set_place(&self, place: Place) {
        self.place.store(Word::place(place).0, Ordering::Release);
    }

    pub(crate) fn content(&self) -> Content<'_> {
        let len = self.len.load(Ordering::Relaxed) & !USED;
        if len == ABSENT {
            return Content::Absent;
        }
        let from = std::ptr::from_ref(self).cast::<u8>();
        // SAFETY: `write` put this many bytes after the header, in the same allocation, and they do
        // not change.
        let bytes = unsafe { std::slice::from_raw_parts(from.add(VALUE_AT), (len & LEN) as usize) };
        if len & DELETED != 0 { Content::Deleted(bytes) } else { Content::Value(bytes) }
    }

    pub(crate) fn is_deletion(&self) -> bool {
        self.len.load(Ordering::Relaxed) & DELETED != 0
    }

    /// Bytes of memory that the version takes.
    pub(crate) fn bytes(&self) -> usize {
        Version::bytes_for(&self.content())
    }

    /// Marks the version as read.
    #[inline]
    pub(crate) fn note_use(&self) {
        // It does not write the mark twice: readers of one row would contend for the cache line.
        if self.len.load(Ordering::Relaxed) & USED == 0 {
            self.len.fetch_or(USED, Ordering::Relaxed);
        }
    }

    /// Clears the mark, and returns whether it was set.
    pub(crate) fn take_use(&self) -> bool {
        self.len.load(Ordering::Relaxed) & USED != 0
            && self.len.fetch_and(!USED, Ordering::Relaxed) & USED != 0
    }
}
