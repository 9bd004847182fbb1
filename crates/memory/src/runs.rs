//! The allocator of objects that are too large for a page of the slabs. Each has a run of the
//! system's pages.
//!
//! The allocator maps address space in areas, and unmaps them only when the allocator is dropped. A
//! free run of an area has addresses, but no memory. An object takes the smallest free run in which
//! it fits; the rest of the run stays free. When an object is freed, its memory goes back to the
//! system, and its run joins the free runs next to it.
//!
//! - **RUN-1 (alone).** From `allocate` until `free`, an object's memory belongs to its owner
//!   alone. The memory is zeroed at first, because eviction may read it before the owner writes it.
//! - **RUN-2 (charged).** The budget is charged for each object's whole pages, before the object
//!   exists. The allocator holds no lock while the budget asks holders to free memory.
//! - **RUN-3 (memory comes back).** When an object is freed, the allocator first returns the memory
//!   to the system, and then reduces the charge. The system makes no large pages of this memory, so
//!   the process never has more of it than is charged.
//! - **RUN-4 (joined).** No two free runs are adjacent, so an area without objects is one run.
//!
//! Rejected: the global allocator. It also rounds sizes up, and it keeps freed memory for a while.
//! The budget would count neither. Also rejected: a mapping for each object. Each call that maps
//! memory takes a lock of the whole process, and Linux allows a process 65,530 mappings.

#![allow(unsafe_code)] // A leaf: objects in mapped memory.

use std::alloc::{Layout, handle_alloc_error};
use std::collections::{BTreeMap, BTreeSet};
use std::ptr::{NonNull, with_exposed_provenance_mut};

use memmap2::{Advice, MmapMut, MmapOptions};
use spillway_base::budget::{Budget, Charge, Use};
use spillway_base::lock::Mutex;
use spillway_reclaim::pages::SYSTEM_PAGE_BYTES;

use crate::large_pages::{give_back, populate};

/// Address space that is mapped at a time, unless an object needs more.
const AREA_BYTES: usize = if cfg!(test) { 1 << 20 } else { 1 << 30 };

/// Allocates large objects. The module's page states the guarantees.
pub(crate) struct Runs {
    budget: Budget,
    state: Mutex<RunsState>,
}

struct RunsState {
    /// Unmapped when the allocator is dropped.
    areas: Vec<MmapMut>,
    charge: Charge,
    /// The bytes of objects, by their addresses.
    objects: BTreeMap<usize, usize>,
    /// The bytes of free runs, by their addresses.
    free: BTreeMap<usize, usize>,
    /// The same runs: their bytes and addresses.
    by_bytes: BTreeSet<(usize, usize)>,
}

/// Bytes of the run of an object.
fn run_bytes(bytes: usize) -> usize {
    bytes.next_multiple_of(SYSTEM_PAGE_BYTES)
}

fn object_at(address: usize) -> NonNull<u8> {
    NonNull::new(with_exposed_provenance_mut(address)).expect("objects are not at address zero")
}

impl Runs {
    pub(crate) fn new(budget: &Budget) -> Runs {
        let state = RunsState {
            areas: Vec::new(),
            charge: budget.charge(Use::Rows, 0),
            objects: BTreeMap::new(),
            free: BTreeMap::new(),
            by_bytes: BTreeSet::new(),
        };
        Runs { budget: budget.clone(), state: Mutex::new(state) }
    }

    /// Allocates an object, which begins at a page of the system.
    pub(crate) fn allocate(&self, bytes: usize) -> NonNull<u8> {
        let bytes = run_bytes(bytes);
        // Before the lock: eviction, which the charge may cause, frees objects.
        let charge = self.budget.charge(Use::Rows, bytes);
        let mut state = self.state.lock();
        let address = state.take(bytes);
        state.charge.join(charge);
        state.objects.insert(address, bytes);
        drop(state);
        let object = object_at(address);
        // SAFETY: the run is mapped, and consists of whole pages.
        unsafe { populate(object, bytes) };
        object
    }

    /// Frees an object.
    ///
    /// # Safety
    /// The object was allocated here with this size and is not used any more.
    pub(crate) unsafe fn free(&self, object: NonNull<u8>, bytes: usize) {
        let (address, bytes) = (object.as_ptr() as usize, run_bytes(bytes));
        // First, so that `visit` does not find it any more.
        let known = self.state.lock().objects.remove(&address);
        assert_eq!(known, Some(bytes), "an object is freed once, with its size");
        // SAFETY: the run is mapped, and no thread uses it.
        unsafe { give_back(object, bytes, false) };
        let mut state = self.state.lock();
        state.give(address, bytes);
        let left = state.charge.bytes() - bytes;
        state.charge.resize(left);
    }

    /// Bytes that are charged to the budget.
    pub(crate) fn charged_bytes(&self) -> usize {
        self.state.lock().charge.bytes()
    }

    /// The number of objects.
    pub(crate) fn len(&self) -> usize {
        self.state.lock().objects.len()
    }

    /// Calls `visit` for up to `most` objects from an address on, and after the last for the first
    /// ones. Objects are not freed during the call, and may not be written yet.
    pub(crate) fn visit(&self, from: usize, most: usize, visit: &mut dyn FnMut(NonNull<u8>)) {
        let state = self.state.lock();
        let round = state.objects.range(from..).chain(state.objects.range(..from));
        round.take(most).for_each(|(address, _)| visit(object_at(*address)));
    }
}

impl RunsState {
    /// Takes a run of whole pages.
    fn take(&mut self, bytes: usize) -> usize {
        let fitting = self.by_bytes.range((bytes, 0)..).next().copied();
        let (whole, address) = fitting.unwrap_or_else(|| {
            self.map(bytes);
            *self.by_bytes.range((bytes, 0)..).next().expect("it was mapped")
        });
        self.remove(address, whole);
        if whole > bytes {
            self.insert(address + bytes, whole - bytes);
        }
        address
    }

    /// Adds a free run, and joins it with its neighbours (RUN-4).
    fn give(&mut self, address: usize, bytes: usize) {
        let (mut begin, mut end) = (address, address + bytes);
        let before = self.free.range(..begin).next_back().map(|(at, bytes)| (*at, *bytes));
        if let Some((at, bytes)) = before.filter(|(at, bytes)| at + bytes == begin) {
            self.remove(at, bytes);
            begin = at;
        }
        if let Some(bytes) = self.free.get(&end).copied() {
            self.remove(end, bytes);
            end += bytes;
        }
        self.insert(begin, end - begin);
    }

    /// Maps an area with room for an object of this size.
    fn map(&mut self, bytes: usize) {
        let bytes = bytes.max(AREA_BYTES);
        // The last page is no part of a run, so runs of two areas are never adjacent.
        let len = bytes + SYSTEM_PAGE_BYTES;
        let mapped = MmapOptions::new().len(len).no_reserve_swap().map_anon();
        let mut area =
            mapped.unwrap_or_else(|_| handle_alloc_error(Layout::new::<[u8; SYSTEM_PAGE_BYTES]>()));
        // Some systems have no large pages, and then make none of it either.
        let _ = area.advise(Advice::NoHugePage);
        self.give(area.as_mut_ptr().expose_provenance(), bytes);
        self.areas.push(area);
    }

    fn insert(&mut self, address: usize, bytes: usize) {
        self.free.insert(address, bytes);
        self.by_bytes.insert((bytes, address));
    }

    fn remove(&mut self, address: usize, bytes: usize) {
        self.free.remove(&address);
        self.by_bytes.remove(&(bytes, address));
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::{Arc, Weak};

    use spillway_base::budget::{GiveWay, Worth};
    use spillway_base::rng::Rng;

    use super::*;
    use crate::large_pages::resident_bytes;

    struct Object(NonNull<u8>, usize, u8);

    // SAFETY: its memory is the holder's alone.
    unsafe impl Send for Object {}

    impl Object {
        fn new(runs: &Runs, bytes: usize, mark: u8) -> Object {
            let object = Object(runs.allocate(bytes), bytes, mark);
            assert!(
                object.bytes().iter().all(|byte| *byte == 0),
                "RUN-1: {bytes} bytes are zeroed"
            );
            // SAFETY: the object was allocated with this size.
            unsafe { object.0.write_bytes(mark, bytes) };
            object
        }

        fn bytes(&self) -> &[u8] {
            // SAFETY: the object is allocated with this size, and zeroed memory is initialized.
            unsafe { std::slice::from_raw_parts(self.0.as_ptr(), self.1) }
        }

        fn free(self, runs: &Runs) {
            assert!(self.bytes().iter().all(|byte| *byte == self.2), "RUN-1: {} bytes", self.1);
            // SAFETY: it was allocated with this size, and is used no more.
            unsafe { runs.free(self.0, self.1) };
        }
    }

    /// Checks RUN-2 to RUN-4 while no thread uses the allocator.
    fn assert_charged(runs: &Runs, objects: &[Object]) {
        let charged: usize = objects.iter().map(|object| run_bytes(object.1)).sum();
        assert_eq!((runs.charged_bytes(), runs.len()), (charged, objects.len()));
        assert_eq!(runs.budget.used_for(Use::Rows), charged);
        let state = runs.state.lock();
        let resident: usize = state
            .areas
            .iter()
            .map(|area| resident_bytes(object_at(area.as_ptr() as usize), area.len()))
            .sum();
        assert_eq!(resident, charged, "RUN-3");
        assert!(state.free.iter().all(|(at, bytes)| !state.free.contains_key(&(at + bytes))));
        let free: usize = state.free.values().sum();
        let mapped: usize = state.areas.iter().map(|area| area.len() - SYSTEM_PAGE_BYTES).sum();
        assert_eq!(free + charged, mapped);
        assert_eq!(state.free.len(), state.by_bytes.len());
    }

    /// RUN-1 to RUN-4.
    #[test]
    fn objects_are_their_owners_alone_and_memory_comes_back() {
        let budget = Budget::new(64 << 20);
        let runs = Runs::new(&budget);
        let mut rng = Rng::new(3);
        let mut objects: Vec<Object> = Vec::new();
        for round in 0..3000_u32 {
            let grows = round % 1000 < 700;
            if objects.is_empty() || rng.below(10) < if grows { 6 } else { 3 } {
                // A few objects are larger than an area.
                let most = if rng.below(100) == 0 { 3 << 20 } else { 100_000 };
                let bytes = 1 + rng.below(most) as usize;
                objects.push(Object::new(&runs, bytes, 1 + (round % 255) as u8));
            } else {
                let at = rng.below(objects.len() as u64) as usize;
                objects.swap_remove(at).free(&runs);
            }
            if round % 97 == 0 {
                assert_charged(&runs, &objects);
            }
        }
        objects.drain(..).for_each(|object| object.free(&runs));
        assert_charged(&runs, &objects);
        let areas = runs.state.lock().areas.len();
        assert_eq!(runs.state.lock().free.len(), areas, "RUN-4");
        Object::new(&runs, AREA_BYTES, 1).free(&runs);
        assert_eq!(runs.state.lock().areas.len(), areas, "the joined runs of an area have room");
        assert_eq!(budget.used(), 0);
    }

    /// RUN-1, with several threads.
    #[test]
    fn threads_that_allocate_and_free_keep_their_bytes() {
        let budget = Budget::new(256 << 20);
        let runs = Runs::new(&budget);
        let change = |seed: u64| {
            let (mut rng, mut objects) = (Rng::new(seed), Vec::new());
            for round in 0..2000_u32 {
                if objects.len() < 20 || rng.below(2) == 0 && objects.len() < 60 {
                    let bytes = 1 + rng.below(80_000) as usize;
                    objects.push(Object::new(&runs, bytes, 1 + (round % 255) as u8));
                } else {
                    let at = rng.below(objects.len() as u64) as usize;
                    objects.swap_remove(at).free(&runs);
                }
            }
            objects.into_iter().for_each(|object| object.free(&runs));
        };
        std::thread::scope(|scope| {
            for seed in 1..4 {
                let change = &change;
                scope.spawn(move || change(seed));
            }
        });
        assert_charged(&runs, &[]);
    }

    /// Frees objects when the budget asks for memory.
    struct Freeing(Weak<Runs>, Mutex<Vec<Object>>);

    impl GiveWay for Freeing {
        fn worth(&self) -> Worth {
            Worth::Evicted
        }

        fn give_way(&self, bytes: usize) -> usize {
            let (runs, mut freed) = (self.0.upgrade().unwrap(), 0);
            while freed < bytes
                && let Some(object) = self.1.lock().pop()
            {
                freed += run_bytes(object.1);
                object.free(&runs);
            }
            0
        }
    }

    /// RUN-2: an allocation that needs memory lets the budget's users free objects.
    #[test]
    fn run_2_no_lock_is_held_while_the_budget_asks_for_memory() {
        let budget = Budget::new(1 << 20);
        let runs = Arc::new(Runs::new(&budget));
        let full = (0..16).map(|_| Object::new(&runs, 60_000, 9)).collect();
        let giver: Arc<dyn GiveWay> = Arc::new(Freeing(Arc::downgrade(&runs), Mutex::new(full)));
        budget.gives_way(Arc::downgrade(&giver));
        let object = Object::new(&runs, 200_000, 7);
        assert!(budget.used() <= budget.limit(), "{} bytes", budget.used());
        object.free(&runs);
    }

    #[test]
    fn a_visit_goes_around() {
        let runs = Runs::new(&Budget::new(64 << 20));
        let objects: Vec<Object> = (1..=5).map(|mark| Object::new(&runs, 9000, mark)).collect();
        let mut addresses: Vec<usize> =
            objects.iter().map(|object| object.0.as_ptr() as usize).collect();
        addresses.sort_unstable();
        let visited = |from: usize, most| {
            let mut seen = Vec::new();
            runs.visit(from, most, &mut |object| seen.push(object.as_ptr() as usize));
            seen
        };
        assert_eq!(visited(0, 2), addresses[..2]);
        assert_eq!(visited(addresses[3], 3), [addresses[3], addresses[4], addresses[0]]);
        assert_eq!(visited(addresses[4] + 1, 9), addresses);
        objects.into_iter().for_each(|object| object.free(&runs));
        assert_eq!(visited(0, 9), []);
    }
}
