//! The table cache: block indexes and filters of extents, each kept at its extent's handle, where
//! a read finds it without a look-up. A clock over the handles decides which leave memory.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwapOption;
use parking_lot::Mutex;
use spillway_base::budget::{Budget, Charge, Use};

/// The place at an extent's handle where its index and filter are, while they are in memory.
pub(crate) struct Seat<T> {
    value: ArcSwapOption<Seated<T>>,
    marked: AtomicBool,
}

/// What sits in a [`Seat`], and its charge, which lives as long as the last reader needs it.
struct Seated<T> {
    value: Arc<T>,
    bytes: usize,
}

impl<T> Default for Seat<T> {
    fn default() -> Seat<T> {
        Seat { value: ArcSwapOption::empty(), marked: AtomicBool::new(false) }
    }
}

impl<T> Seat<T> {
    /// The value, if it is in memory.
    pub(crate) fn get(&self) -> Option<Arc<T>> {
        let seated = self.value.load();
        let value = seated.as_ref()?.value.clone();
        if !self.marked.load(Ordering::Relaxed) {
            self.marked.store(true, Ordering::Relaxed);
        }
        Some(value)
    }
}

/// Something that has a seat.
pub(crate) trait HasSeat<T> {
    /// Its seat.
    fn seat(&self) -> &Seat<T>;
}

struct Ring<H> {
    /// Those seated, in the order the hand comes to them, with their bytes.
    seated: VecDeque<(Weak<H>, usize)>,
    /// About how many of them are gone.
    gone: usize,
    charge: Charge,
}

/// The clock over all seats.
pub(crate) struct TableCache<T, H> {
    ring: Mutex<Ring<H>>,
    capacity: usize,
    value: std::marker::PhantomData<fn(T)>,
}

impl<T, H: HasSeat<T>> TableCache<T, H> {
    /// A cache of at most `capacity` bytes, charged to the budget.
    pub(crate) fn new(capacity: usize, budget: &Budget) -> TableCache<T, H> {
        let charge = budget.charge(Use::Caches, 0);
        let ring = Ring { seated: VecDeque::new(), gone: 0, charge };
        TableCache { ring: Mutex::new(ring), capacity, value: std::marker::PhantomData }
    }

    /// Seats a value of `bytes` bytes, and unseats others to make room.
    pub(crate) fn seat(&self, holder: &Arc<H>, value: Arc<T>, bytes: usize) {
        // A holder whose last reference is dropped calls `forget`, so none may be dropped while the
        // ring is locked.
        let mut met = Vec::new();
        let mut ring = self.ring.lock();
        if holder.seat().value.load().is_some() {
            return;
        }
        holder.seat().value.store(Some(Arc::new(Seated { value, bytes })));
        ring.seated.push_back((Arc::downgrade(holder), bytes));
        let held = ring.charge.bytes() + bytes;
        ring.charge.resize(held);
        // One turn clears all marks, so two turns find what to unseat; the newest stays.
        for _ in 0..ring.seated.len() * 2 {
            let gone = ring.seated.front().is_some_and(|(holder, _)| holder.strong_count() == 0);
            let over = ring.charge.bytes() > self.capacity && ring.seated.len() > 1;
            if !gone && !over {
                break;
            }
            met.extend(ring.turn());
        }
        drop(ring);
    }

    /// Forgets a holder that is going.
    pub(crate) fn forget(&self, holder: &H) {
        if let Some(seated) = holder.seat().value.swap(None) {
            let mut ring = self.ring.lock();
            let held = ring.charge.bytes();
            ring.charge.resize(held - seated.bytes);
            // The hand may not come by for long, and what is gone is charged to nobody.
            ring.gone += 1;
            if ring.gone * 2 > ring.seated.len() {
                ring.seated.retain(|(holder, _)| holder.strong_count() > 0);
                ring.gone = 0;
            }
        }
    }

    /// Bytes held.
    pub(crate) fn bytes(&self) -> usize {
        self.ring.lock().charge.bytes()
    }
}

impl<H> Ring<H> {
    /// Moves the hand by one, and answers the holder it met.
    fn turn<T>(&mut self) -> Option<Arc<H>>
    where
        H: HasSeat<T>,
    {
        let (holder, bytes) = self.seated.pop_front()?;
        // A holder that is gone gave its bytes back in `forget`.
        let alive = holder.upgrade()?;
        if alive.seat().marked.swap(false, Ordering::Relaxed) {
            self.seated.push_back((holder, bytes));
        } else if alive.seat().value.swap(None).is_some() {
            let held = self.charge.bytes();
            self.charge.resize(held - bytes);
        }
        Some(alive)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    struct Holder {
        seat: Seat<u32>,
        cache: Arc<TableCache<u32, Holder>>,
    }

    impl HasSeat<u32> for Holder {
        fn seat(&self) -> &Seat<u32> {
            &self.seat
        }
    }

    impl Drop for Holder {
        fn drop(&mut self) {
            self.cache.clone().forget(self);
        }
    }

    /// Extents come and go behind one that is read all the time, and nothing of them is kept.
    #[test]
    fn holders_that_are_gone_leave_the_ring() {
        let budget = Budget::new(1 << 20);
        let cache = Arc::new(TableCache::new(1 << 20, &budget));
        let holder = || Arc::new(Holder { seat: Seat::default(), cache: cache.clone() });
        let stays = holder();
        cache.seat(&stays, Arc::new(0), 100);
        for number in 1..1000 {
            cache.seat(&holder(), Arc::new(number), 100);
        }
        assert!(cache.ring.lock().seated.len() < 10, "{}", cache.ring.lock().seated.len());
        assert_eq!(cache.bytes(), 100);
        assert_eq!(stays.seat().get().as_deref(), Some(&0));
    }
}
