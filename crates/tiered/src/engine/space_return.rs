//! Returns the space of free slots to the file system (decision 026).
//!
//! It returns the space in small pieces, because a file system locks a file while it deallocates
//! space of the file. Readers of the file wait for the deallocation, and the deallocation itself
//! waits for I/O on the file. On ext4, a deallocation took 0.5 ms for 2 MiB, and 2 to 4 ms during a
//! compaction. Deallocating the output of a compaction in one piece took 119 to 299 ms, which
//! dominated the slowest 1 % of gets.
//!
//! - **SPACE-RETURN-1 (one).** Only one thread at a time returns space. Other threads do not wait
//!   for it.
//! - **SPACE-RETURN-2 (kept slots).** Some free slots keep their space, because compactions will
//!   soon use them again. Their number is a share of the number of used slots. The share is smaller
//!   after some time without writes. On a request to return all space, no free slot keeps its
//!   space. Such a request comes when the disk is full, because the log cannot use space that the
//!   engine keeps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use spillway_base::clock;
use spillway_base::lock::{Mutex, MutexGuard};

use crate::extent::ExtentHandle;
use crate::space::SpaceManager;

/// While other work runs, this many bytes of free space are returned to the file system at once, or
/// one slot if slots are larger.
const GIVEN_BYTES: usize = 2 << 20;
/// The pause after that, as a multiple of the time that it took, up to the longest pause below.
const GIVEN_REST: u32 = 40;
const GIVEN_REST_LONGEST: Duration = Duration::from_secs(1);
/// The slots that are returned at once if other work need not be spared. Work that needs slots
/// waits meanwhile.
const GIVEN_SLOTS_ALONE: u32 = 256;

/// One free slot for this many used slots of a device keeps its space, because compactions will
/// reuse it. At least `FREE_LEAST` free slots do.
const FREE_SHARE: u64 = 8;
const FREE_LEAST: u64 = 16;
/// The same if nothing has been written for a while.
const FREE_SHARE_AT_REST: u64 = 64;
const FREE_LEAST_AT_REST: u64 = 1;

/// The time at which space of free slots may next be returned.
#[derive(Default)]
pub(super) struct SpaceReturn {
    /// Whether the engine was asked to return all free space.
    gives_all: AtomicBool,
    /// Whether the engine was asked to trim the slots of all extents (SPACE-4).
    trims: AtomicBool,
    /// The earliest next time, if there may be more to return. A thread that returns space holds
    /// this lock.
    next: Mutex<Option<Duration>>,
}

impl SpaceReturn {
    /// Makes the next return take all free space, at once.
    pub(super) fn request_all(&self) {
        self.gives_all.store(true, Ordering::Release);
    }

    /// Makes the next call of [`SpaceReturn::trim`] trim the slots of extents.
    pub(super) fn request_trim(&self) {
        self.trims.store(true, Ordering::Release);
    }

    /// After a request, trims the slots of these extents, some at a time. The handles keep the
    /// slots from being used for other extents meanwhile.
    pub(super) fn trim(
        &self,
        space: &SpaceManager,
        extents: impl FnOnce() -> Vec<Arc<ExtentHandle>>,
    ) {
        if !self.trims.swap(false, Ordering::AcqRel) {
            return;
        }
        let mut trimmed = 0;
        for extent in extents() {
            // A slot that cannot be trimmed keeps its space.
            let did = space.trim(extent.meta.slots, extent.meta.len).unwrap_or(false);
            trimmed += u32::from(did);
            if trimmed >= GIVEN_SLOTS_ALONE {
                self.request_trim();
                return;
            }
        }
    }

    /// Returns free space to the file system. Within files, it returns the slots beyond those that
    /// will soon be used again; if nothing was written for `settle_after`, it returns nearly all.
    /// It also cuts the ends of files, once most of a device is free, or where the file system
    /// cannot deallocate space within a file. If it `spares` other work, it returns a little at a
    /// time. Returns whether to continue at once.
    pub(super) fn run(&self, space: &SpaceManager, settle_after: Duration, spares: bool) -> bool {
        let gives_all = self.gives_all.swap(false, Ordering::AcqRel);
        let spares = spares && !gives_all;
        let Some(giving) = self.begin(clock::now(), space.slot_bytes(), spares) else {
            return false;
        };
        let bytes = space.bytes();
        let has_rested = space.has_rested(settle_after, clock::now());
        let (share, least) = match (gives_all, has_rested) {
            (true, _) => (u64::MAX, 0),
            (false, true) => (FREE_SHARE_AT_REST, FREE_LEAST_AT_REST),
            (false, false) => (FREE_SHARE, FREE_LEAST),
        };
        // Space that cannot be returned now can still be used for extents.
        let cut = space.shrink(share, least, spares).unwrap_or(false);
        let given = space.give_back(share, least, giving.slots);
        let more = given.is_ok_and(|slots| slots > 0);
        giving.end(clock::now(), spares && more, more && space.is_short());
        !spares && (cut || more) && space.bytes().0 < bytes.0
    }

    /// The right to return slots, with the number to return at once. `None` if another thread has
    /// the right. If `spares`, also `None` before the next time.
    fn begin(&self, now: Duration, slot_bytes: usize, spares: bool) -> Option<Giving<'_>> {
        let next = self.next.try_lock()?;
        let slots = match spares {
            true => (GIVEN_BYTES / slot_bytes).max(1) as u32,
            false => GIVEN_SLOTS_ALONE,
        };
        let is_due = !spares || next.is_none_or(|next| next <= now);
        is_due.then_some(Giving { next, begun: now, slots })
    }

    /// The time until the next return, if there may be more to return.
    pub(super) fn wait(&self, now: Duration) -> Option<Duration> {
        let next = self.next.try_lock().and_then(|next| *next)?;
        Some(next.saturating_sub(now))
    }
}

/// The right to return space.
struct Giving<'a> {
    next: MutexGuard<'a, Option<Duration>>,
    begun: Duration,
    slots: u32,
}

impl Giving<'_> {
    /// Ends the turn. If there may be `more` to return, the next turn begins after a pause, or at
    /// once if it `hurries` because other work needs the space.
    fn end(mut self, now: Duration, more: bool, hurries: bool) {
        let rest = match hurries {
            true => Duration::ZERO,
            false => (now.saturating_sub(self.begun) * GIVEN_REST).min(GIVEN_REST_LONGEST),
        };
        *self.next = more.then_some(now + rest);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const SLOT: usize = 64 << 10;
    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn space_goes_back_a_little_at_a_time_with_rests_between() {
        let space_return = SpaceReturn::default();
        assert_eq!(space_return.wait(MS), None, "nobody knows of more");
        let giving = space_return.begin(MS, SLOT, true).unwrap();
        assert_eq!(giving.slots, 32);
        assert!(space_return.begin(MS, SLOT, true).is_none(), "one at a time");
        giving.end(3 * MS, true, false);
        let until = 3 * MS + 2 * MS * GIVEN_REST;
        assert_eq!(space_return.wait(3 * MS), Some(2 * MS * GIVEN_REST));
        assert!(space_return.begin(until - MS, SLOT, true).is_none());
        // After a long step, the pause has its longest duration.
        let giving = space_return.begin(until, 2 * GIVEN_BYTES, true).unwrap();
        assert_eq!(giving.slots, 1);
        giving.end(until + Duration::from_secs(9), true, false);
        let wait = space_return.wait(until + Duration::from_secs(9));
        assert_eq!(wait, Some(GIVEN_REST_LONGEST));
    }

    #[test]
    fn who_needs_room_or_spares_nobody_does_not_rest() {
        let space_return = SpaceReturn::default();
        space_return.begin(MS, SLOT, true).unwrap().end(2 * MS, true, true);
        assert_eq!(space_return.wait(2 * MS), Some(Duration::ZERO));
        space_return.begin(2 * MS, SLOT, true).unwrap().end(3 * MS, true, false);
        let giving = space_return.begin(4 * MS, SLOT, false).unwrap();
        assert_eq!(giving.slots, GIVEN_SLOTS_ALONE);
        giving.end(5 * MS, false, false);
        assert_eq!(space_return.wait(5 * MS), None);
    }
}
