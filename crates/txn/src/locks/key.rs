//! Keys of row locks, and the bytes that a lock on a key adds to its owner's charge.

use std::hash::Hasher;

use rustc_hash::FxHasher;
use spillway_base::TableId;

/// Keys up to this many bytes are stored in place, which makes a [`super::line::Line`] 64 bytes.
const SHORT: usize = 22;

/// The bytes that one row lock on a short key is charged for: its line with a share of the hash
/// table's free places, its hash in the owner's list, and the growth of the table and the list.
const LOCK_BYTES: usize = 144;

/// The allocator's overhead for a long key.
const LONG_BYTES: usize = 16;

/// The bytes that a row lock on a key of this length is charged for.
pub(crate) fn lock_bytes(key_len: usize) -> usize {
    LOCK_BYTES + if key_len > SHORT { key_len + LONG_BYTES } else { 0 }
}

/// A key of a table, borrowed, with the hash that finds its line.
#[derive(Clone, Copy)]
pub(super) struct Target<'k> {
    pub(super) hash: u64,
    pub(super) table: TableId,
    pub(super) key: &'k [u8],
}

impl<'k> Target<'k> {
    pub(super) fn new(table: TableId, key: &'k [u8]) -> Target<'k> {
        let mut hasher = FxHasher::default();
        hasher.write_u32(table.0);
        hasher.write(key);
        Target { hash: hasher.finish(), table, key }
    }

    pub(super) fn is(self, other: Target<'_>) -> bool {
        self.hash == other.hash && self.table == other.table && self.key == other.key
    }
}

enum KeyBytes {
    Short(u8, [u8; SHORT]),
    Long(Box<[u8]>),
}

/// The key that a lock is on.
pub(super) struct LockKey {
    pub(super) hash: u64,
    bytes: KeyBytes,
    table: TableId,
}

impl LockKey {
    pub(super) fn new(target: Target<'_>) -> LockKey {
        let mut short = [0; SHORT];
        let bytes = match short.get_mut(..target.key.len()) {
            Some(place) => {
                place.copy_from_slice(target.key);
                KeyBytes::Short(target.key.len() as u8, short)
            }
            None => KeyBytes::Long(target.key.into()),
        };
        LockKey { hash: target.hash, bytes, table: target.table }
    }

    pub(super) fn target(&self) -> Target<'_> {
        let key = match &self.bytes {
            KeyBytes::Short(len, bytes) => &bytes[..usize::from(*len)],
            KeyBytes::Long(bytes) => bytes,
        };
        Target { hash: self.hash, table: self.table, key }
    }
}
