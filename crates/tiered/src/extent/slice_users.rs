//! The slices that use an extent. Reports of damage name their keys.

use std::fmt;
use std::sync::{Arc, Weak};

use spillway_base::lock::Mutex;

use crate::extent_meta::SliceMeta;

/// The slices of an extent that are still referenced. Nearly always there is one.
#[derive(Default)]
pub(super) struct SliceUsers(Mutex<Vec<Weak<SliceMeta>>>);

impl SliceUsers {
    /// Records a slice that refers to the extent, for as long as the slice is referenced.
    pub(super) fn note(&self, slice: &Arc<SliceMeta>) {
        let mut all = self.0.lock();
        all.retain(|known| known.strong_count() > 0);
        all.reserve_exact(1);
        all.push(Arc::downgrade(slice));
    }

    /// The keys that damage to the extent affects: from the smallest key of its slices to the
    /// largest.
    pub(super) fn keys(&self) -> Option<KeySpan> {
        let all = self.0.lock();
        let slices = all.iter().filter_map(Weak::upgrade);
        slices.fold(None, |keys: Option<KeySpan>, slice| {
            let (smallest, largest) = (&slice.smallest, &slice.largest);
            Some(match keys {
                None => KeySpan { smallest: smallest.clone(), largest: largest.clone() },
                Some(KeySpan { smallest: low, largest: high }) => KeySpan {
                    smallest: if *smallest < low { smallest.clone() } else { low },
                    largest: if *largest > high { largest.clone() } else { high },
                },
            })
        })
    }
}

/// A range of keys, both ends included.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct KeySpan {
    smallest: Box<[u8]>,
    largest: Box<[u8]>,
}

impl fmt::Display for KeySpan {
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

    /// Keys of slices that are no longer referenced are not included.
    #[test]
    fn keys_are_the_hull_of_the_slices_that_there_are() {
        let users = SliceUsers::default();
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
