//! A cached row: header, key and value in one allocation, so that a hit reads contiguous memory.
#![allow(unsafe_code)] // A leaf: bytes after a header, reached by a thin pointer.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use spillway_base::{Csn, TableId};
use spillway_reclaim::loom_tracker::{self, LoomTracker, free_tracked};

/// The words before the bytes: the lengths, the commit, the tag, and in a model the tracker.
const HEADER_WORDS: usize = TRACKER_AT + loom_tracker::WORDS;
const TRACKER_AT: usize = 3;
/// The estimated overhead of the allocator.
const HEAP_BYTES: usize = 16;

/// The owner of a row: a table and its era. A table begins a new era when its rows may be hidden
/// otherwise than by newer versions of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tag(u64);

impl Tag {
    /// The tag of an era, which is not zero.
    pub(super) fn new(table: TableId, era: u32) -> Tag {
        Tag(u64::from(table.0) << 32 | u64::from(era))
    }

    /// The table, without the era.
    pub(super) fn table(self) -> TableId {
        TableId((self.0 >> 32) as u32)
    }

    /// A number for it, which is not zero.
    pub(crate) fn to_raw(self) -> u64 {
        self.0
    }

    /// The tag of a number.
    pub(crate) fn from_raw(raw: u64) -> Tag {
        Tag(raw)
    }
}

/// A row, which owns its memory.
pub(super) struct CachedRow(NonNull<u64>);

/// A reference to a row.
#[derive(Clone, Copy)]
pub(super) struct RowRef<'r>(NonNull<u64>, PhantomData<&'r CachedRow>);

/// A row that was taken out of its bucket. Readers may still use it. If it is not released, its
/// memory is leaked.
pub(super) struct RemovedRow(ManuallyDrop<CachedRow>);

// SAFETY: a row is bytes that no thread changes.
unsafe impl Send for CachedRow {}
// SAFETY: as above.
unsafe impl Sync for CachedRow {}

fn words(key: usize, value: usize) -> usize {
    HEADER_WORDS + (key + value).div_ceil(size_of::<u64>())
}

impl CachedRow {
    /// A row. Its key and its value have less than 4 GiB each.
    pub(super) fn new(tag: Tag, csn: Csn, key: &[u8], value: &[u8]) -> CachedRow {
        let words = words(key.len(), value.len());
        // Not zeroed memory: the allocator would take a lock for it. Otherwise it reuses memory
        // that the thread has freed.
        let mut memory = Vec::with_capacity(words);
        memory.extend([key.len() as u64 | (value.len() as u64) << 32, csn.0, tag.0]);
        memory.resize(HEADER_WORDS, 0);
        LoomTracker::new().into_words(&mut memory[TRACKER_AT..HEADER_WORDS]);
        if words > HEADER_WORDS {
            // The last word, which the bytes may fill only in part.
            memory.spare_capacity_mut()[words - HEADER_WORDS - 1].write(0);
        }
        // SAFETY: the memory has room for the header and for the bytes of key and value, and all of
        // it is written before the length is set.
        unsafe {
            let bytes = memory.as_mut_ptr().add(HEADER_WORDS).cast::<u8>();
            bytes.copy_from_nonoverlapping(key.as_ptr(), key.len());
            bytes.add(key.len()).copy_from_nonoverlapping(value.as_ptr(), value.len());
            memory.set_len(words);
        }
        CachedRow(NonNull::from(Box::leak(memory.into_boxed_slice())).cast())
    }

    /// The bytes of memory of a row with these lengths.
    pub(super) fn bytes_of(key: usize, value: usize) -> usize {
        words(key, value) * size_of::<u64>() + HEAP_BYTES
    }

    pub(super) fn get(&self) -> RowRef<'_> {
        RowRef(self.0, PhantomData)
    }

    /// The pointer, which owns the row from now on.
    pub(super) fn into_raw(self) -> NonNull<u64> {
        ManuallyDrop::new(self).0
    }

    /// The row of a pointer.
    ///
    /// # Safety
    /// The pointer is from [`CachedRow::into_raw`], and no longer owns the row.
    pub(super) unsafe fn from_raw(row: NonNull<u64>) -> CachedRow {
        CachedRow(row)
    }
}

impl Drop for CachedRow {
    fn drop(&mut self) {
        let row = self.get();
        let words = words(row.key().len(), row.value().len());
        let memory = std::ptr::slice_from_raw_parts_mut(self.0.as_ptr(), words);
        let tracker = row.tracker();
        tracker.ended();
        // SAFETY: it was made as a boxed slice of this many words, and this is the end of its
        // owner.
        free_tracked((unsafe { Box::from_raw(memory) }, ManuallyDrop::into_inner(tracker)));
    }
}

impl<'r> RowRef<'r> {
    /// A row by its pointer.
    ///
    /// # Safety
    /// The pointer is from [`CachedRow::into_raw`], and the row is not dropped within the lifetime.
    #[inline]
    pub(super) unsafe fn from_raw(row: NonNull<u64>) -> RowRef<'r> {
        RowRef(row, PhantomData)
    }

    #[inline]
    fn tracker(self) -> ManuallyDrop<LoomTracker> {
        // SAFETY: each row has its tracker there.
        unsafe { LoomTracker::at(self.0.add(TRACKER_AT).as_ptr()) }
    }

    #[inline]
    fn word(self, at: usize) -> u64 {
        debug_assert!(at < HEADER_WORDS, "a word of the header");
        self.tracker().looked();
        // SAFETY: each row has a header, and is there for as long as this refers to it.
        unsafe { self.0.add(at).read() }
    }

    #[inline]
    fn bytes(self, from: usize, len: usize) -> &'r [u8] {
        self.tracker().looked();
        // SAFETY: the header says how many bytes follow it, which are not changed as long as the
        // row is there.
        unsafe {
            let bytes = self.0.add(HEADER_WORDS).cast::<u8>();
            std::slice::from_raw_parts(bytes.add(from).as_ptr(), len)
        }
    }

    fn lengths(self) -> (usize, usize) {
        let both = self.word(0);
        ((both & u64::from(u32::MAX)) as usize, (both >> 32) as usize)
    }

    #[inline]
    pub(super) fn key(self) -> &'r [u8] {
        self.bytes(0, self.lengths().0)
    }

    #[inline]
    pub(super) fn value(self) -> &'r [u8] {
        let (key, value) = self.lengths();
        self.bytes(key, value)
    }

    #[inline]
    pub(super) fn csn(self) -> Csn {
        Csn(self.word(1))
    }

    #[inline]
    pub(super) fn tag(self) -> Tag {
        Tag(self.word(2))
    }

    /// The bytes of its memory.
    pub(super) fn memory_bytes(self) -> usize {
        let (key, value) = self.lengths();
        CachedRow::bytes_of(key, value)
    }
}

impl RemovedRow {
    pub(super) fn new(row: CachedRow) -> RemovedRow {
        RemovedRow(ManuallyDrop::new(row))
    }

    pub(super) fn get(&self) -> RowRef<'_> {
        self.0.get()
    }

    /// Returns the row as its only owner.
    ///
    /// # Safety
    /// Every pin that began before it was taken out of its bucket has ended.
    pub(super) unsafe fn release(self) -> CachedRow {
        ManuallyDrop::into_inner(self.0)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_row_gives_back_what_it_was_made_of() {
        let tag = Tag::new(TableId(7), 3);
        for (key, value) in
            [("", ""), ("k", ""), ("", "v"), ("a key", "and its value, of some length")]
        {
            let row = CachedRow::new(tag, Csn(9), key.as_bytes(), value.as_bytes());
            let seen = row.get();
            assert_eq!((seen.key(), seen.value()), (key.as_bytes(), value.as_bytes()));
            assert_eq!((seen.csn(), seen.tag()), (Csn(9), tag));
            assert_eq!(seen.memory_bytes(), CachedRow::bytes_of(key.len(), value.len()));
        }
    }

    #[test]
    fn eras_tell_rows_of_one_table_apart() {
        let [one, later] = [1, 2].map(|era| Tag::new(TableId(5), era));
        let other = Tag::new(TableId(6), 1);
        assert!(one != later && one.table() == later.table());
        assert!(one != other && one.table() != other.table());
        assert_eq!(Tag::from_raw(later.to_raw()), later);
    }
}
