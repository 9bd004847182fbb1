//! Allocation of versions, and reclamation once their readers have left.
//!
//! - **STORE-1.** A version that a pinned reader found is not freed before the reader unpins.
//! - **STORE-2.** A version whose place is not known is never retired, because the engine will
//!   write the place into it.

#![allow(unsafe_code)] // Versions behind pointers.

use std::ptr::NonNull;
use std::sync::Arc;

use spillway_base::budget::Budget;
#[cfg(not(loom))]
use spillway_base::lock::Mutex;
#[cfg(loom)]
use spillway_base::modelled::Mutex;
use spillway_base::sync::atomic::{AtomicUsize, Ordering};
use spillway_reclaim::epochs::{Epochs, Limbo, Pin, stripe};

use crate::rid::Rid;
use crate::slab::Slabs;
use crate::table::Table;
use crate::version::{Fields, Version};

const SHARDS: usize = if cfg!(loom) { 1 } else { 16 };
/// Retired objects in a list after which a thread tries to free some.
const RELEASE_AT: usize = 64;

/// An unlinked object that readers may still use.
pub(crate) enum Retired {
    Version(NonNull<Version>),
    /// A slot whose row was removed.
    Slot(Arc<Table>, Rid),
}

// SAFETY: the holder of this owns the retired version once its readers have left.
unsafe impl Send for Retired {}

/// A version that is in a chain or not published yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct VersionRef(pub(crate) NonNull<Version>);

// SAFETY: versions are shared, and their mutable fields are atomic.
unsafe impl Send for VersionRef {}

/// The store. The module's page states the guarantees.
pub(crate) struct Store {
    pub(crate) slabs: Slabs,
    /// Shared with the indexes.
    pub(crate) epochs: Arc<Epochs>,
    limbo: Box<[Mutex<Limbo<Retired>>]>,
    waiting_bytes: AtomicUsize,
}

impl Store {
    pub(crate) fn new(budget: &Budget) -> Store {
        Store {
            slabs: Slabs::new(budget),
            epochs: Arc::default(),
            limbo: (0..SHARDS).map(|_| Mutex::default()).collect(),
            waiting_bytes: AtomicUsize::new(0),
        }
    }

    pub(crate) fn pin(&self) -> Pin<'_> {
        self.epochs.pin()
    }

    /// Allocates and writes a version that is not published yet.
    pub(crate) fn make(&self, fields: &Fields<'_>) -> NonNull<Version> {
        let memory = self.slabs.allocate(Version::bytes_for(&fields.content));
        // SAFETY: the memory was allocated with this size.
        unsafe { Version::write(memory, fields) }
    }

    /// Frees a version that was never published.
    pub(crate) fn discard(&self, version: NonNull<Version>) {
        // SAFETY: `make` made it, and no other thread has a pointer to it.
        unsafe { self.free(version) };
    }

    /// # Safety
    /// [`Store::make`] made it, and no thread uses it any more.
    unsafe fn free(&self, version: NonNull<Version>) {
        // SAFETY: it is still a version.
        let bytes = unsafe { version.as_ref() }.bytes();
        // SAFETY: `make` allocated it with this size.
        unsafe { self.slabs.free(version.cast(), bytes) };
    }

    /// The version behind a pointer that was found under this pin (STORE-1).
    pub(crate) fn version<'p>(&self, at: NonNull<Version>, pin: &'p Pin<'_>) -> &'p Version {
        debug_assert!(pin.is_of(&self.epochs), "a pin of this store");
        // SAFETY: a version that was found under a pin is not freed before the pin is dropped, and
        // the reference does not outlive the pin.
        unsafe { at.as_ref() }
    }

    /// The table and the slot of the version in an object of a pinned page. The version may not be
    /// written yet: the caller must check that the slot's entry points to it.
    pub(crate) fn owner(&self, object: NonNull<u8>) -> (u32, u64) {
        // SAFETY: an object of a pinned page has room for a header. The call reads one word of it,
        // which writers access atomically too.
        unsafe { Version::owner_at(object.cast()) }
    }

    /// Frees objects once their readers have left. The caller has unlinked them.
    pub(crate) fn retire(&self, things: impl IntoIterator<Item = Retired>) {
        let mut limbo = self.limbo[stripe() % SHARDS].lock();
        let mut bytes = 0;
        for thing in things {
            if let Retired::Version(version) = &thing {
                // SAFETY: it is not freed yet.
                bytes += unsafe { version.as_ref() }.bytes();
            }
            limbo.put(thing);
        }
        self.waiting_bytes.fetch_add(bytes, Ordering::Relaxed);
        if limbo.len() >= RELEASE_AT {
            self.release_from(&mut limbo);
        }
    }

    /// Frees all retired objects whose readers have left.
    pub(crate) fn release(&self) {
        self.limbo.iter().for_each(|limbo| self.release_from(&mut limbo.lock()));
    }

    /// Bytes of retired versions that are not freed yet.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.waiting_bytes.load(Ordering::Relaxed)
    }

    fn release_from(&self, limbo: &mut Limbo<Retired>) {
        let mut free = Vec::new();
        limbo.release(&self.epochs, &mut free);
        for thing in free {
            match thing {
                Retired::Version(version) => {
                    // SAFETY: it is not freed yet.
                    let bytes = unsafe { version.as_ref() }.bytes();
                    self.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
                    // SAFETY: it was made here, and its readers have left.
                    unsafe { self.free(version) };
                }
                Retired::Slot(table, rid) => table.rows.free(rid),
            }
        }
    }
}
