//! The word of an indirection array's entry: empty, a version or a place (HiEngine, section 4.1).
//!
//! ```text
//! empty     0                                 no row
//! version   the address of the newest version, a multiple of 8
//! place     bit 0: 1; bits 2..24 segment handle; bits 24..32 size class; bits 32..64 offset
//! locked    bit 1, with any of the three
//! ```
//!
//! A place's *segment handle* names the segment ([`crate::segments`]), and its *size class* bounds
//! the length of the record ([`class_bytes`]). The lock bit serializes changes of an entry by
//! installs, collection, eviction, checkpoints and log compaction. Readers ignore this bit. A
//! version's link to the next older version is also such a word.

use std::ptr::NonNull;

use super::Version;

const PLACE: u64 = 1;
const LOCKED: u64 = 2;
const HANDLE_SHIFT: u32 = 2;
const HANDLE_BITS: u32 = 22;
const CLASS_SHIFT: u32 = 24;
const OFFSET_SHIFT: u32 = 32;

/// The place of a row's record in the log: a segment, an offset in it, and the size class of the
/// record.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Place {
    pub(crate) handle: u32,
    pub(crate) offset: u32,
    pub(crate) class: u8,
}

/// The largest number of segments that places can name.
pub(crate) const HANDLES_MAX: u32 = 1 << HANDLE_BITS;

/// The size class of a record: each size up to 15 is a class, and each power of two above has eight
/// classes. One read of [`class_bytes`] thus contains the whole record.
pub(crate) fn class_of(bytes: usize) -> u8 {
    let bytes = bytes.max(1) as u64;
    if bytes < 16 {
        return bytes as u8;
    }
    // The position of the highest bit, at least 4.
    let high = 63 - bytes.leading_zeros();
    let shift = high - 3;
    let mantissa = bytes.div_ceil(1 << shift);
    // A mantissa of 16 is a mantissa of 8 of the next power.
    let class = u64::from(shift) * 8 + mantissa;
    u8::try_from(class).unwrap_or(u8::MAX)
}

/// The most bytes of a record of this class.
pub(crate) fn class_bytes(class: u8) -> u64 {
    let class = u64::from(class);
    if class < 16 {
        return class;
    }
    let shift = class / 8 - 1;
    (class % 8 + 8) << shift
}

/// The target of a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    Empty,
    Version(NonNull<Version>),
    Place(Place),
}

/// The word of an entry or of a link.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(pub(crate) u64);

impl std::fmt::Debug for Word {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}{}", self.target(), if self.is_locked() { ", locked" } else { "" })
    }
}

impl Word {
    pub(crate) const EMPTY: Word = Word(0);

    pub(crate) fn version(version: NonNull<Version>) -> Word {
        let address = version.as_ptr().expose_provenance() as u64;
        debug_assert!(address.is_multiple_of(8), "versions are aligned");
        Word(address)
    }

    pub(crate) fn place(place: Place) -> Word {
        debug_assert!(place.handle < HANDLES_MAX, "a handle has {HANDLE_BITS} bits");
        Word(
            PLACE
                | u64::from(place.handle) << HANDLE_SHIFT
                | u64::from(place.class) << CLASS_SHIFT
                | u64::from(place.offset) << OFFSET_SHIFT,
        )
    }

    pub(crate) fn is_locked(self) -> bool {
        self.0 & LOCKED != 0
    }

    pub(crate) fn locked(self) -> Word {
        Word(self.0 | LOCKED)
    }

    pub(crate) fn unlocked(self) -> Word {
        Word(self.0 & !LOCKED)
    }

    pub(crate) fn target(self) -> Target {
        let word = self.unlocked().0;
        if word & PLACE != 0 {
            return Target::Place(Place {
                handle: (word >> HANDLE_SHIFT) as u32 & (HANDLES_MAX - 1),
                class: (word >> CLASS_SHIFT) as u8,
                offset: (word >> OFFSET_SHIFT) as u32,
            });
        }
        let address = std::ptr::with_exposed_provenance_mut::<Version>(word as usize);
        NonNull::new(address).map_or(Target::Empty, Target::Version)
    }

    /// The place, if it is one.
    pub(crate) fn as_place(self) -> Option<Place> {
        match self.target() {
            Target::Place(place) => Some(place),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_back_with_and_without_the_lock() {
        for place in [
            Place { handle: 0, offset: 0, class: 0 },
            Place { handle: HANDLES_MAX - 1, offset: u32::MAX, class: u8::MAX },
            Place { handle: 77, offset: 4096 + 24, class: 130 },
        ] {
            let word = Word::place(place);
            assert!(!word.is_locked() && word.locked().is_locked());
            assert_eq!(word.target(), Target::Place(place));
            assert_eq!(word.locked().target(), Target::Place(place));
            assert_eq!(word.locked().unlocked(), word);
        }
        assert_eq!(Word::EMPTY.locked().target(), Target::Empty);
    }

    #[test]
    fn a_class_covers_its_sizes_and_wastes_an_eighth_at_most() {
        let mut sizes: Vec<usize> = (1..5000).collect();
        sizes.extend((4..31).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1]));
        for bytes in sizes {
            let covered = class_bytes(class_of(bytes)) as usize;
            assert!(covered >= bytes, "{bytes} in {covered}");
            assert!(covered <= bytes + bytes / 8 + 1, "{bytes} in {covered}");
        }
        let classes: Vec<u64> = (1..=250).map(class_bytes).collect();
        assert!(classes.is_sorted());
    }
}
