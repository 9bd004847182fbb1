//! The versions of installed commits whose places in the log are not known yet.
//!
//! A ring has the versions of each commit in one slot. The commit's CSN selects the slot.
//!
//! - **UNPLACED-1 (found).** The thread that learns the place of an installed commit finds all
//!   versions of this commit, once, and no versions of other commits. Until then, no other commit
//!   takes the commit's slot. If the slot of a commit is already taken, a map holds the commit's
//!   versions instead.
#![allow(unsafe_code)] // Addresses in the slots of a ring.

use std::ptr::NonNull;

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use spillway_base::Csn;
#[cfg(not(loom))]
use spillway_base::lock::Mutex;
use spillway_base::lock::{self, MutexGuard};
#[cfg(loom)]
use spillway_base::modelled::Mutex;
use spillway_base::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use spillway_reclaim::epochs::Pin;

use crate::store::{Store, VersionRef};
use crate::version::Version;

pub(super) type Versions = SmallVec<[VersionRef; 4]>;

/// The length of the ring. If more commits are on their way to the log, some go to the slower map.
pub(super) const RING: usize = if cfg!(loom) {
    4
} else if cfg!(test) {
    64
} else {
    1 << 14
};
/// Marks the address of a [`Several`].
const SEVERAL: u64 = 1;

/// The versions of a commit that has several.
struct Several {
    csn: Csn,
    versions: Versions,
}

/// The installed commits whose places are not known, with their versions.
///
/// CSNs are dense, and few commits are on their way to the log at a time. So each commit has a slot
/// in a ring, which holds the address of its only version or of its [`Several`]. A commit whose
/// slot is not free yet goes to a map.
pub(super) struct UnplacedCommits {
    ring: Box<[AtomicU64]>,
    others: Mutex<FxHashMap<Csn, Versions>>,
    /// The number of commits in the map.
    beside: AtomicUsize,
    /// Held while a thread takes versions and writes their places, or lists the commits.
    placing: lock::Mutex<()>,
}

impl UnplacedCommits {
    pub(super) fn new() -> UnplacedCommits {
        UnplacedCommits {
            ring: (0..RING).map(|_| AtomicU64::new(0)).collect(),
            others: Mutex::default(),
            beside: AtomicUsize::new(0),
            placing: lock::Mutex::new(()),
        }
    }

    /// Prevents other threads from taking versions.
    pub(super) fn lock_placing(&self) -> MutexGuard<'_, ()> {
        self.placing.lock()
    }

    /// Whether the places of all commits up to a stable CSN are known.
    pub(super) fn is_placed(&self, csn: Csn, store: &Store) -> bool {
        let _placing = self.lock_placing();
        let pin = store.pin();
        self.csns(&pin, store).iter().all(|unplaced| *unplaced > csn)
    }

    fn slot(&self, csn: Csn) -> &AtomicU64 {
        &self.ring[csn.0 as usize % RING]
    }

    pub(super) fn put(&self, csn: Csn, versions: Versions) {
        let word = match versions.as_slice() {
            [] => return,
            [one] => one.0.as_ptr().expose_provenance() as u64,
            _ => {
                let several = Box::into_raw(Box::new(Several { csn, versions }));
                several.expose_provenance() as u64 | SEVERAL
            }
        };
        let slot = self.slot(csn);
        if slot.compare_exchange(0, word, Ordering::AcqRel, Ordering::Acquire).is_err() {
            self.beside.fetch_add(1, Ordering::AcqRel);
            // SAFETY: the word was made above, and no other thread has it.
            let versions = unsafe { versions_in(word) };
            self.others.lock().insert(csn, versions);
        }
    }

    /// Takes the versions of a commit. Only one thread at a time calls it.
    pub(super) fn take(&self, csn: Csn, pin: &Pin<'_>, store: &Store) -> Versions {
        let slot = self.slot(csn);
        let word = slot.load(Ordering::Acquire);
        if word != 0 && csn_in(word, pin, store) == csn {
            slot.store(0, Ordering::Release);
            // SAFETY: the slot does not have the word any more, and only this thread takes words.
            return unsafe { versions_in(word) };
        }
        if self.beside.load(Ordering::Acquire) == 0 {
            return Versions::new();
        }
        let taken = self.others.lock().remove(&csn);
        if taken.is_some() {
            self.beside.fetch_sub(1, Ordering::AcqRel);
        }
        taken.unwrap_or_default()
    }

    /// The commits. No thread may call `take` meanwhile.
    fn csns(&self, pin: &Pin<'_>, store: &Store) -> Vec<Csn> {
        let words = self.ring.iter().map(|slot| slot.load(Ordering::Acquire));
        let mut csns: Vec<Csn> =
            words.filter(|word| *word != 0).map(|word| csn_in(word, pin, store)).collect();
        csns.extend(self.others.lock().keys());
        csns
    }

    /// About how many commits there are.
    pub(super) fn len(&self) -> usize {
        let filled = self.ring.iter().filter(|slot| slot.load(Ordering::Relaxed) != 0);
        filled.count() + self.beside.load(Ordering::Relaxed)
    }
}

impl Drop for UnplacedCommits {
    fn drop(&mut self) {
        for slot in &self.ring {
            let word = slot.load(Ordering::Acquire);
            if word & SEVERAL != 0 {
                // SAFETY: no other thread has it.
                drop(unsafe { versions_in(word) });
            }
        }
    }
}

/// The versions of a slot's word.
///
/// # Safety
/// The word is not in a slot any more, and is not used after this call.
unsafe fn versions_in(word: u64) -> Versions {
    if word & SEVERAL != 0 {
        let several = std::ptr::with_exposed_provenance_mut::<Several>((word & !SEVERAL) as usize);
        // SAFETY: `put` made it from a box, and this is the only use.
        return unsafe { Box::from_raw(several) }.versions;
    }
    let version = std::ptr::with_exposed_provenance_mut::<Version>(word as usize);
    SmallVec::from_iter(NonNull::new(version).map(VersionRef))
}

/// The commit of a word in a slot. The word stays there during the call.
fn csn_in(word: u64, pin: &Pin<'_>, store: &Store) -> Csn {
    if word & SEVERAL != 0 {
        let several = std::ptr::with_exposed_provenance::<Several>((word & !SEVERAL) as usize);
        // SAFETY: the word is in its slot, so the box is not freed.
        return unsafe { &*several }.csn;
    }
    let version = std::ptr::with_exposed_provenance_mut::<Version>(word as usize);
    NonNull::new(version).map_or(Csn::ZERO, |version| store.version(version, pin).csn())
}
