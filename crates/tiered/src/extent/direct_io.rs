//! Direct reads: they bypass the system's page cache, and read into a buffer of the reading thread.
//!
//! With buffered reads, the page cache would hold cached blocks a second time, in encoded form and
//! in whole pages. Each buffered read makes the system find pages, insert them, evict others, and
//! copy the bytes. With a direct read, the device writes into the reader's memory, and the reader
//! decodes the block from there.

use std::cell::Cell;
use std::ops::Deref;

use spillway_base::Result;
use spillway_reclaim::pages::{Buffer, PagePools};
use spillway_storage::{ALIGN, AlignedBuffer};

use crate::space::DataFile;

/// The most bytes by which a read grows when it is widened to whole pages of a file. A buffer with
/// room for them need not be reallocated.
pub(super) const WIDENED_BYTES: usize = 2 * ALIGN;

/// The most bytes of a buffer that is kept for the next read: enough for blocks, and for tables of
/// extents of the usual size.
pub(super) const KEPT_BYTES: usize = 64 << 10;

thread_local! {
    static SPARE: Cell<Option<AlignedBuffer>> = const { Cell::new(None) };
}

/// Bytes that were read.
pub(super) enum Bytes<'a> {
    /// In a buffer that the receiver may keep.
    Own(Buffer),
    /// In a buffer that will be reused. A receiver that keeps the bytes copies them into memory of
    /// these pools.
    Lent(&'a [u8], &'a PagePools),
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Bytes::Own(bytes) => bytes,
            Bytes::Lent(bytes, _) => bytes,
        }
    }
}

impl From<Bytes<'_>> for Buffer {
    fn from(bytes: Bytes<'_>) -> Buffer {
        match bytes {
            Bytes::Own(bytes) => bytes,
            Bytes::Lent(bytes, pages) => {
                let mut own = Buffer::new(bytes.len(), pages);
                own.copy_from_slice(bytes);
                own
            }
        }
    }
}

/// Reads from a file past the page cache, if the file system supports that, waits for the device,
/// and passes the bytes to `then`.
pub(super) fn read_past<T>(
    file: &DataFile,
    offset: u64,
    len: usize,
    then: impl FnOnce(&[u8]) -> Result<T>,
) -> Result<T> {
    let spare = SPARE.take();
    let buffer = spare.unwrap_or_else(|| AlignedBuffer::with_capacity(len + WIDENED_BYTES));
    let (buffer, outcome) = file.read_past(offset, len, buffer);
    let found = outcome.and_then(|()| then(&buffer));
    if buffer.capacity() <= KEPT_BYTES {
        SPARE.set(Some(buffer));
    }
    found
}
