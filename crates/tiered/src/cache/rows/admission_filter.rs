//! The admission filter remembers the keys that lookups missed lately. The row cache admits a row
//! at the second miss of its key, because a row is worth its memory only if it is read again.

use std::sync::atomic::{AtomicU16, Ordering};

use spillway_reclaim::pages::in_large;

/// Each place has a part of the hash of the last key that was missed there. Zero stands for no key.
pub(super) struct AdmissionFilter(Box<[AtomicU16]>);

impl AdmissionFilter {
    /// A filter with this many places, a power of two, in large pages of the system if they
    /// `may_be_large`.
    pub(super) fn new(places: usize, may_be_large: bool) -> AdmissionFilter {
        assert!(places.is_power_of_two(), "a place is some bits of a hash");
        AdmissionFilter(in_large((0..places).map(|_| AtomicU16::new(0)), may_be_large))
    }

    /// Whether this key was missed before, and no other key with the same place was missed since.
    /// Remembers the key.
    pub(super) fn again(&self, hash: u64) -> bool {
        let place = &self.0[(hash >> 16) as usize & (self.0.len() - 1)];
        // A stored part is never zero.
        let print = (hash >> 48) as u16 | 1;
        place.load(Ordering::Relaxed) == print || {
            place.store(print, Ordering::Relaxed);
            false
        }
    }

    /// The bytes of memory for `places` places.
    pub(super) fn bytes_of(places: usize) -> usize {
        places * size_of::<AtomicU16>()
    }
}
