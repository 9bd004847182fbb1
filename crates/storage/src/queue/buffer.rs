//! Memory that a device can read and write by itself.
#![allow(unsafe_code)] // A leaf: memory of an alignment that no `Vec` has.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// What offsets and lengths of direct transfers, and the memory of buffers, are multiples of: a page, and at least as much as the
/// sectors of any device.
pub const ALIGN: usize = 4096;

/// Bytes in memory of whole pages, for an [`super::IoQueue`]. To make one takes time, as its memory is cleared: those that come back
/// are meant to be used again.
///
/// What a read fills may begin within the first page, where it began in a page of the file; nobody sees that but by the address.
pub struct AlignedBuffer {
    /// Begins at a multiple of [`ALIGN`]; all `capacity` bytes have a value.
    memory: NonNull<u8>,
    /// A multiple of [`ALIGN`]; nothing is allocated where it is zero.
    capacity: usize,
    /// Where the bytes begin.
    start: usize,
    len: usize,
}

// SAFETY: the memory is this buffer's alone.
unsafe impl Send for AlignedBuffer {}
// SAFETY: through a shared buffer its bytes are only read.
unsafe impl Sync for AlignedBuffer {}

impl AlignedBuffer {
    /// So many zeros.
    #[must_use]
    pub fn new(len: usize) -> AlignedBuffer {
        let mut buffer = AlignedBuffer::with_capacity(len);
        buffer.len = len;
        buffer
    }

    /// No bytes, with memory for so many.
    #[must_use]
    pub fn with_capacity(bytes: usize) -> AlignedBuffer {
        let capacity = bytes.next_multiple_of(ALIGN);
        let memory = if capacity == 0 {
            layout(ALIGN).dangling_ptr()
        } else {
            // SAFETY: the layout has a size.
            let memory = unsafe { alloc_zeroed(layout(capacity)) };
            NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout(capacity)))
        };
        AlignedBuffer { memory, capacity, start: 0, len: 0 }
    }

    /// Bytes that its memory has room for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Forgets the bytes, and keeps the memory.
    pub fn clear(&mut self) {
        (self.start, self.len) = (0, 0);
    }

    /// Adds bytes at the end, and takes more memory where needed.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) {
        let end = self.start + self.len;
        self.reserve(end + bytes.len());
        self.all()[end..end + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// Adds zeros up to a multiple of [`ALIGN`], as writes need it.
    pub fn pad(&mut self) {
        let (end, padded) = (self.start + self.len, self.len.next_multiple_of(ALIGN));
        self.reserve(self.start + padded);
        let padded_end = self.start + padded;
        self.all()[end..padded_end].fill(0);
        self.len = padded;
    }

    /// Makes it the frame of a read: `len` bytes, of any value, that begin in memory where `offset` is in a page, with room for the
    /// pages of the file that they touch.
    pub(crate) fn frame(&mut self, offset: u64, len: usize) {
        let start = (offset % ALIGN as u64) as usize;
        if (start + len).next_multiple_of(ALIGN) > self.capacity {
            *self = AlignedBuffer::with_capacity(start + len);
        }
        (self.start, self.len) = (start, len);
    }

    /// Moves the bytes to where the memory begins, as a direct write needs them.
    pub(crate) fn settle(&mut self) {
        let (start, len) = (self.start, self.len);
        if start > 0 {
            self.all().copy_within(start..start + len, 0);
            self.start = 0;
        }
    }

    /// Where the bytes begin in the memory.
    pub(crate) fn start(&self) -> usize {
        self.start
    }

    /// All of the memory.
    pub(crate) fn all(&mut self) -> &mut [u8] {
        // SAFETY: all of it was allocated, or none, has a value, and is borrowed with the buffer.
        unsafe { NonNull::slice_from_raw_parts(self.memory, self.capacity).as_mut() }
    }

    fn reserve(&mut self, bytes: usize) {
        if bytes > self.capacity {
            let end = self.start + self.len;
            let mut larger = AlignedBuffer::with_capacity(bytes.max(2 * self.capacity));
            larger.all()[..end].copy_from_slice(&self.all()[..end]);
            (larger.start, larger.len) = (self.start, self.len);
            *self = larger;
        }
    }
}

fn layout(capacity: usize) -> Layout {
    Layout::from_size_align(capacity, ALIGN).expect("a buffer is smaller than the address space")
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        if self.capacity > 0 {
            // SAFETY: allocated with this layout, and given back once.
            unsafe { dealloc(self.memory.as_ptr(), layout(self.capacity)) };
        }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `start + len` is at most `capacity`, all of which has a value.
        unsafe { NonNull::slice_from_raw_parts(self.memory.add(self.start), self.len).as_ref() }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        let range = self.start..self.start + self.len;
        &mut self.all()[range]
    }
}

impl Clone for AlignedBuffer {
    fn clone(&self) -> AlignedBuffer {
        let mut copy = AlignedBuffer::with_capacity(self.capacity);
        (copy.start, copy.len) = (self.start, self.len);
        copy.copy_from_slice(self);
        copy
    }
}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AlignedBuffer of {} bytes", self.len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_keeps_its_bytes_and_is_padded_with_zeros() {
        let mut buffer = AlignedBuffer::with_capacity(0);
        assert_eq!((buffer.len(), buffer.capacity()), (0, 0));
        let bytes: Vec<u8> = (0..10_000_u32).map(|at| at as u8 | 1).collect();
        for piece in bytes.chunks(777) {
            buffer.extend_from_slice(piece);
        }
        assert_eq!(buffer[..], bytes[..]);
        buffer.clear();
        buffer.extend_from_slice(&[7; 5000]);
        buffer.pad();
        assert_eq!(buffer.len(), 8192);
        assert!(buffer[..5000].iter().all(|byte| *byte == 7));
        assert!(buffer[5000..].iter().all(|byte| *byte == 0), "what was there before is gone");
        assert_eq!(buffer.as_ptr().align_offset(ALIGN), 0);
        buffer.pad();
        assert_eq!(buffer.len(), 8192);
        assert_eq!(AlignedBuffer::new(5)[..], [0; 5]);
    }

    #[test]
    fn a_frame_has_room_for_whole_pages_and_uses_its_memory_again() {
        let mut buffer = AlignedBuffer::new(8192);
        let memory = buffer.memory;
        buffer.frame(4095, 4097);
        assert_eq!((buffer.len(), buffer.start(), buffer.memory), (4097, 4095, memory));
        buffer.fill(3);
        let copy = buffer.clone();
        buffer.settle();
        assert_eq!((buffer.start(), &buffer[..]), (0, &[3; 4097][..]));
        assert_eq!((copy.start(), &copy[..]), (4095, &[3; 4097][..]));
        buffer.frame(4095, 4098);
        assert_eq!((buffer.len(), buffer.capacity()), (4098, 12288));
        buffer.extend_from_slice(&[1; 9000]);
        buffer.pad();
        assert_eq!((buffer.len(), buffer.start()), (16384, 4095));
        assert!(buffer.capacity() >= buffer.start() + buffer.len());
    }
}
