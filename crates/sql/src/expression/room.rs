//! Buffers that a session's statements reuse, so that most statements allocate nothing.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};

use spillway_types::Value;

/// Buffers that have grown beyond this size are freed, because the charge of a connection covers
/// only buffers up to this size.
const KEPT_BYTES: usize = 4 << 10;

/// Reusable buffers: for the bytes of a row, of a second row, of a key and of an index key, and for
/// the values of a row and its previous values. While a buffer is in use, another caller gets a new
/// one.
#[derive(Default)]
pub(crate) struct Room {
    key: Cell<Vec<u8>>,
    row: Cell<Vec<u8>>,
    other: Cell<Vec<u8>>,
    entry: Cell<Vec<u8>>,
    values: Cell<Vec<Value>>,
    before: Cell<Vec<Value>>,
}

impl Room {
    /// An empty buffer for a key.
    pub(crate) fn key(&self) -> Buffer<'_> {
        Buffer::of(&self.key)
    }

    /// An empty buffer for a row.
    pub(crate) fn row(&self) -> Buffer<'_> {
        Buffer::of(&self.row)
    }

    /// An empty buffer for the replacement of a row or of an index key.
    pub(crate) fn other(&self) -> Buffer<'_> {
        Buffer::of(&self.other)
    }

    /// An empty buffer for an index key.
    pub(crate) fn entry(&self) -> Buffer<'_> {
        Buffer::of(&self.entry)
    }

    /// A buffer for the values of a row. It still has the values of an earlier row, whose memory
    /// can be reused.
    pub(crate) fn values(&self) -> Buffer<'_, Value> {
        Buffer::of(&self.values)
    }

    /// As [`Room::values`], for the previous values of a row.
    pub(crate) fn before(&self) -> Buffer<'_, Value> {
        Buffer::of(&self.before)
    }
}

/// The element types of buffers.
pub(crate) trait Reusable {
    /// Whether a buffer keeps its elements for its next user.
    const STAYS: bool;

    /// The heap memory of one element, in bytes.
    fn memory(&self) -> usize;
}

impl Reusable for u8 {
    const STAYS: bool = false;

    #[inline]
    fn memory(&self) -> usize {
        0
    }
}

impl Reusable for Value {
    const STAYS: bool = true;

    fn memory(&self) -> usize {
        match self {
            Value::Text(text) => text.capacity(),
            Value::Bytes(bytes) => bytes.capacity(),
            _ => 0,
        }
    }
}

/// A buffer that returns to its [`Room`] when it is dropped.
pub(crate) struct Buffer<'r, T: Reusable = u8> {
    content: Vec<T>,
    room: &'r Cell<Vec<T>>,
}

impl<'r, T: Reusable> Buffer<'r, T> {
    fn of(room: &'r Cell<Vec<T>>) -> Buffer<'r, T> {
        let mut content = room.take();
        if !T::STAYS {
            content.clear();
        }
        Buffer { content, room }
    }
}

impl<T: Reusable> Drop for Buffer<'_, T> {
    fn drop(&mut self) {
        let beside: usize = self.content.iter().map(T::memory).sum();
        if self.content.capacity() * size_of::<T>() + beside <= KEPT_BYTES {
            self.room.set(std::mem::take(&mut self.content));
        }
    }
}

impl<T: Reusable> Deref for Buffer<'_, T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.content
    }
}

impl<T: Reusable> DerefMut for Buffer<'_, T> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.content
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

    #[test]
    fn values_are_kept_with_their_memory_unless_it_is_large() {
        let room = Room::default();
        let mut values = room.values();
        values.push(Value::from("a text"));
        drop(values);
        let mut again = room.values();
        assert!(matches!(&again[..], [Value::Text(text)] if text == "a text"));
        again.push(Value::Bytes(Vec::with_capacity(KEPT_BYTES)));
        drop(again);
        assert!(room.values().is_empty());
    }
}
