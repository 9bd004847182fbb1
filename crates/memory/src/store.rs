//! Memory of versions, and the readers that keep it from being freed.
//!
//! - **STORE-1.** A version that a pinned reader found is not freed before the reader unpins.
//! - **STORE-2.** A version whose place is not known is never retired: the engine still has to
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
/// Retired things after which a thread sees whether some can be freed.
const RELEASE_AT: usize = 64;

/// What readers may still be looking at.
pub(crate) enum Retired {
    Version(NonNull<Version>),
    /// A slot whose row was removed.
    Slot(Arc<Table>, Rid),
}

// SAFETY: a retired version belongs to whoever has this, once its readers have left.
unsafe impl Send for Retired {}

/// A version that is in a chain, or that its writer has not published.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct VersionRef(pub(crate) NonNull<Version>);

// SAFETY: versions are shared: what changes in them is atomic.
unsafe impl Send for VersionRef {}

/// The store. The module's page says what it guarantees.
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

    /// Makes a version that nobody else knows.
    pub(crate) fn make(&self, fields: &Fields<'_>) -> NonNull<Version> {
        let memory = self.slabs.allocate(Version::bytes_for(&fields.content));
        // SAFETY: the memory was allocated with this size.
        unsafe { Version::write(memory, fields) }
    }

    /// Frees a version that was never published.
    pub(crate) fn discard(&self, version: NonNull<Version>) {
        // SAFETY: it was made by `make`, and nobody else knows it.
        unsafe { self.free(version) };
    }

    /// # Safety
    /// It was made by [`Store::make`], and nobody uses it any more.
    unsafe fn free(&self, version: NonNull<Version>) {
        // SAFETY: it is still a version.
        let bytes = unsafe { version.as_ref() }.bytes();
        // SAFETY: `make` allocated it with this size.
        unsafe { self.slabs.free(version.cast(), bytes) };
    }

    /// The version behind a pointer that was found under this pin (STORE-1).
    pub(crate) fn version<'p>(&self, at: NonNull<Version>, pin: &'p Pin<'_>) -> &'p Version {
        debug_assert!(pin.is_of(&self.epochs), "a pin of this store");
        // SAFETY: a version that was found under a pin is not freed before the pin goes, which the
        // reference does not outlive.
        unsafe { at.as_ref() }
    }

    /// The table and the slot of what lies in an object of a pinned page. It may not be written
    /// yet: the caller sees whether the slot's entry points to it.
    pub(crate) fn owner(&self, object: NonNull<u8>) -> (u32, u64) {
        // SAFETY: an object of a pinned page has room for a header, of which only a word is read
        // that is atomic for its writers, too.
        unsafe { Version::owner_at(object.cast()) }
    }

    /// Frees things once their readers have left. They can be found no more.
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

    /// Frees everything whose readers have left.
    pub(crate) fn release(&self) {
        self.limbo.iter().for_each(|limbo| self.release_from(&mut limbo.lock()));
    }

    /// Bytes that wait for readers to leave.
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
