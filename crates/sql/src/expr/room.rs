//! Memory that a session's statements use one after another, so that most ask for none.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};

/// What grows past this is let go of: it is part of what a connection is charged.
const KEPT_BYTES: usize = 4 << 10;

/// Room for the bytes of a row, of its key, and of a key in an index. Who comes while it is taken has new room.
#[derive(Default)]
pub(crate) struct Room {
    key: Cell<Vec<u8>>,
    row: Cell<Vec<u8>>,
    entry: Cell<Vec<u8>>,
}

impl Room {
    /// Room for a key, empty.
    pub(crate) fn key(&self) -> Buffer<'_> {
        Buffer::of(&self.key)
    }

    /// Room for a row, empty.
    pub(crate) fn row(&self) -> Buffer<'_> {
        Buffer::of(&self.row)
    }

    /// Room for a key in an index, empty.
    pub(crate) fn entry(&self) -> Buffer<'_> {
        Buffer::of(&self.entry)
    }
}

/// Bytes in room that is given back when this is dropped.
pub(crate) struct Buffer<'r> {
    bytes: Vec<u8>,
    room: &'r Cell<Vec<u8>>,
}

impl<'r> Buffer<'r> {
    fn of(room: &'r Cell<Vec<u8>>) -> Buffer<'r> {
        let mut bytes = room.take();
        bytes.clear();
        Buffer { bytes, room }
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        if self.bytes.capacity() <= KEPT_BYTES {
            self.room.set(std::mem::take(&mut self.bytes));
        }
    }
}

impl Deref for Buffer<'_> {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.bytes
    }
}

impl DerefMut for Buffer<'_> {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_used_again_unless_it_is_taken_or_large() {
        let room = Room::default();
        let mut first = room.row();
        first.extend_from_slice(b"row");
        let at = first.as_ptr();
        let mut second = room.row();
        second.extend_from_slice(b"other");
        assert_ne!(at, second.as_ptr());
        drop(second);
        drop(first);
        let mut again = room.row();
        assert!(again.is_empty());
        assert_eq!(at, again.as_ptr());
        again.reserve(KEPT_BYTES + 1);
        drop(again);
        assert_eq!(room.row().capacity(), 0);
    }
}
