//! Reports of damaged extents: the slices that use an extent, so that an error names their keys.
//! Index, filters and footer know no keys.

use std::fmt;
use std::sync::{Arc, Weak};

use spillway_base::Error;
use spillway_base::lock::Mutex;

use super::ExtentHandle;
use crate::extent_meta::SliceMeta;

/// The slices of an extent that somebody has: nearly always one.
#[derive(Default)]
pub(super) struct Users(Mutex<Vec<Weak<SliceMeta>>>);

impl Users {
    /// A slice refers to the extent from now on, for as long as somebody has it.
    pub(super) fn note(&self, slice: &Arc<SliceMeta>) {
        let mut all = self.0.lock();
        all.retain(|known| known.strong_count() > 0);
        all.reserve_exact(1);
        all.push(Arc::downgrade(slice));
    }

    /// What damage anywhere in the extent keeps from its readers: from the smallest key of those
    /// slices to the largest.
    pub(super) fn keys(&self) -> Option<Keys> {
        let all = self.0.lock();
        let slices = all.iter().filter_map(Weak::upgrade);
        slices.fold(None, |keys: Option<Keys>, slice| {
            let (smallest, largest) = (&slice.smallest, &slice.largest);
            Some(match keys {
                None => Keys { smallest: smallest.clone(), largest: largest.clone() },
                Some(Keys { smallest: low, largest: high }) => Keys {
                    smallest: if *smallest < low { smallest.clone() } else { low },
                    largest: if *largest > high { largest.clone() } else { high },
                },
            })
        })
    }
}

impl ExtentHandle {
    /// A slice refers to it from now on.
    pub(crate) fn note_slice(&self, slice: &Arc<SliceMeta>) {
        self.users.note(slice);
    }

    /// Names what is damaged of it: the part, which table it belongs to, where it is, and the keys
    /// that are read by way of it.
    pub(super) fn damaged(&self, part: &str, error: &Error) -> Error {
        self.damaged_at(self.with_keys(part), error)
    }

    /// The same of a part that names its keys itself.
    pub(super) fn damaged_at(&self, part: impl fmt::Display, error: &Error) -> Error {
        let table = self.home().table;
        let place = format!("{table:?}, {}, {}, {part}", self.meta.id, self.meta.slots);
        error.context(place).of_table(table)
    }

    /// The description of the damage, and its keys.
    pub(super) fn with_keys(&self, what: &str) -> String {
        self.users.keys().map_or_else(|| what.to_owned(), |keys| format!("{what} {keys}"))
    }
}

/// Keys between two, both included.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Keys {
    smallest: Box<[u8]>,
    largest: Box<[u8]>,
}

impl fmt::Display for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (smallest, largest) = (self.smallest.escape_ascii(), self.largest.escape_ascii());
        write!(f, "with keys from \"{smallest}\" to \"{largest}\"")
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::extent_meta::ExtentId;
    use crate::level::Slice;

    /// Those of slices that nobody has are not told.
    #[test]
    fn keys_are_the_hull_of_the_slices_that_there_are() {
        let users = Users::default();
        assert_eq!(users.keys(), None);
        let slice = |smallest, largest| {
            let slice = Slice::detached(ExtentId(1), smallest, largest, 10, 0);
            users.note(&slice.meta);
            slice
        };
        let (one, two, gone) = (slice("k", "p"), slice("c", "d"), slice("a", "z"));
        drop(gone);
        assert_eq!(users.keys().unwrap().to_string(), r#"with keys from "c" to "p""#);
        drop(one);
        assert_eq!(users.keys().unwrap().to_string(), r#"with keys from "c" to "d""#);
        let _three = slice("\0", "b");
        assert_eq!(users.0.lock().len(), 2, "what is gone is not kept");
        drop(two);
        assert_eq!(users.keys().unwrap().to_string(), r#"with keys from "\x00" to "b""#);
    }
}
