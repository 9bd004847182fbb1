//! Charges the uncounted memory of the process to the database's memory budget.
//!
//! Most memory is charged by its user, before it is allocated. No user charges the rest: unused
//! ends of the allocator's pages, pages that the allocator has not returned to the system, stacks,
//! and small allocations. The watch reads the resident anonymous memory of the process, and charges
//! the part that exceeds the charges of all users as [`Use::Other`]. So caches evict that much, and
//! requests for which the budget then has no room are refused.
//!
//! - **WATCH-1 (fixed part).** The first [`FIXED_BYTES`] of resident anonymous memory beyond the
//!   charges are not charged: stacks and small allocations take that much with any budget.
//! - **WATCH-2 (free memory first).** If the watch's charge would leave less than a quarter of the
//!   budget, the watch first asks the allocator to return free memory to the system. It then
//!   charges only the resident memory that still exceeds the charges. If another user needs memory
//!   while the watch has a charge, the watch also asks the allocator, at most once in
//!   [`RELEASE_INTERVAL`], and reduces its charge accordingly ([`GiveWay`]).
//! - **WATCH-3 (no standstill).** The watch charges at most half of the budget. So a process whose
//!   uncharged memory grows beyond that still serves requests.
//!
//! Rejected: to count allocations in the allocator. Each allocation would write to a counter, and
//! the free memory that the allocator keeps, which is resident too, would not be counted.

use std::sync::{Arc, Weak};
use std::time::Duration;

use spillway_base::budget::{Budget, Charge, GiveWay, Use, Worth};
use spillway_base::lock::Mutex;
use spillway_base::sync::mpsc::{self, RecvTimeoutError};
use spillway_base::thread::JoinHandle;
use spillway_base::{Result, clock, thread};

use crate::Database;
use crate::resident::resident_anonymous;

/// The interval between two measurements.
const INTERVAL: Duration = Duration::from_millis(50);
/// While less than this fraction of the budget is left, the allocator is asked for free memory
/// (WATCH-2).
const LEFT_SHARE: usize = 4;
/// The least time between two releases of free memory for other users.
const RELEASE_INTERVAL: Duration = Duration::from_millis(5);
/// The resident memory beyond the charges that is not charged (WATCH-1).
const FIXED_BYTES: usize = 40 << 20;
/// The fraction of the budget that the watch charges at most (WATCH-3).
const SHARE_MAX: usize = 2;

/// Charges the budget for the process's uncharged memory, until it is dropped.
pub struct MemoryWatch {
    /// Dropping it ends the thread.
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl MemoryWatch {
    /// Watches the memory of the process, all of which belongs to this database. `release` makes
    /// the allocator return free memory to the system.
    ///
    /// # Errors
    /// [`crate::ErrorKind::MemoryFull`] if the system refuses another thread.
    pub fn start(
        database: &Database,
        release: impl Fn() + Send + Sync + 'static,
    ) -> Result<MemoryWatch> {
        let process =
            Process { resident: Box::new(resident_anonymous), release: Box::new(release) };
        let watched = Watched::start(database.budget(), process);
        let (stop, stopped) = mpsc::channel();
        let thread = thread::spawn("memory", move || {
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                watched.look();
            }
        })?;
        Ok(MemoryWatch { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for MemoryWatch {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // The result is ignored: if the thread panicked, the panic hook has reported it.
            let _ = thread.join();
        }
    }
}

/// The memory of the process, as the system and its allocator report it.
struct Process {
    resident: Box<dyn Fn() -> Option<usize> + Send + Sync>,
    release: Box<dyn Fn() + Send + Sync>,
}

struct Watched {
    budget: Budget,
    process: Process,
    /// The watch's charge. While it grows, its lock is held, and the budget asks other users for
    /// memory. The budget may also ask this user, on the same thread, so [`GiveWay::give_way`] only
    /// tries the lock.
    charge: Mutex<Charge>,
    /// When the allocator last released memory for another user.
    released: Mutex<Option<Duration>>,
}

impl Watched {
    fn start(budget: &Budget, process: Process) -> Arc<Watched> {
        let charge = Mutex::new(budget.charge(Use::Other, 0));
        let released = Mutex::new(None);
        let watched = Arc::new(Watched { budget: budget.clone(), process, charge, released });
        let weak: Weak<Watched> = Arc::downgrade(&watched);
        budget.gives_way(weak);
        watched
    }

    /// The resident memory beyond the charges of other users and the fixed part.
    fn past(&self, own: &Charge) -> Option<usize> {
        let resident = (self.process.resident)()?;
        let charged = self.budget.used().saturating_sub(own.bytes());
        Some(resident.saturating_sub(charged + FIXED_BYTES))
    }

    fn look(&self) {
        let mut charge = self.charge.lock();
        let Some(mut past) = self.past(&charge) else { return };
        let others = self.budget.used().saturating_sub(charge.bytes());
        let limit = self.budget.limit();
        if past > 0 && others + past > limit - limit / LEFT_SHARE {
            (self.process.release)();
            past = self.past(&charge).unwrap_or(past);
        }
        charge.resize(past.min(limit / SHARE_MAX));
    }
}

impl GiveWay for Watched {
    fn worth(&self) -> Worth {
        Worth::Unused
    }

    fn give_way(&self, _: usize) -> usize {
        // The lock is taken if the charge is growing, or if another call releases memory already.
        let Some(mut charge) = self.charge.try_lock() else { return 0 };
        let mut released = self.released.lock();
        let lately = |at: Duration| clock::now().saturating_sub(at) < RELEASE_INTERVAL;
        if charge.bytes() == 0 || released.is_some_and(lately) {
            return 0;
        }
        (self.process.release)();
        *released = Some(clock::now());
        if let Some(past) = self.past(&charge) {
            let less = past.min(charge.bytes());
            charge.resize(less);
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;

    const LIMIT: usize = 256 << 20;

    /// A process whose memory the test sets.
    #[derive(Default)]
    struct Said {
        resident: AtomicUsize,
        /// The free memory that its allocator holds.
        free: AtomicUsize,
        asked: AtomicUsize,
    }

    fn watched(budget: &Budget) -> (Arc<Watched>, Arc<Said>) {
        let said = Arc::new(Said::default());
        let (seen, asked) = (said.clone(), said.clone());
        let process = Process {
            resident: Box::new(move || Some(seen.resident.load(SeqCst))),
            release: Box::new(move || {
                asked.resident.fetch_sub(asked.free.swap(0, SeqCst), SeqCst);
                asked.asked.fetch_add(1, SeqCst);
            }),
        };
        (Watched::start(budget, process), said)
    }

    #[test]
    fn watch1_memory_past_the_charges_and_the_fixed_part_is_charged() {
        let budget = Budget::new(LIMIT);
        let held = budget.charge(Use::Connections, 20 << 20);
        let (watched, said) = watched(&budget);
        let look = |resident| {
            said.resident.store(resident, SeqCst);
            watched.look();
            budget.used_for(Use::Other)
        };
        assert_eq!(look(held.bytes() + FIXED_BYTES), 0);
        assert_eq!(look(held.bytes() + FIXED_BYTES + 1000), 1000);
        assert_eq!(
            look(held.bytes() + FIXED_BYTES + 1000),
            1000,
            "its own charge is none of others"
        );
        assert_eq!(look(1 << 20), 0);
        drop((watched, held));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn watch2_the_allocator_is_asked_before_others_are() {
        let budget = Budget::new(LIMIT);
        let held = budget.charge(Use::Transactions, LIMIT / 4 * 3 - 1000);
        let (watched, said) = watched(&budget);
        let look = |more, free| {
            said.resident.store(held.bytes() + FIXED_BYTES + more, SeqCst);
            said.free.store(free, SeqCst);
            watched.look();
            (said.asked.swap(0, SeqCst), budget.used_for(Use::Other))
        };
        assert_eq!(look(1000, 500), (0, 1000), "it fits");
        assert_eq!(look(3000, 2500), (1, 500));
        assert_eq!(look(3000, 0), (1, 3000));
        assert_eq!(look(3000, 3000), (1, 0), "also where it is no more than before");
    }

    #[test]
    fn watch2_free_memory_is_there_for_who_asks() {
        let budget = Budget::new(LIMIT);
        let (watched, said) = watched(&budget);
        said.resident.store(FIXED_BYTES + LIMIT / 2, SeqCst);
        said.free.store(LIMIT / 2, SeqCst);
        watched.look();
        assert_eq!(budget.used_for(Use::Other), LIMIT / 2);
        let large = budget.try_charge(Use::Connections, LIMIT).unwrap();
        assert_eq!((said.asked.load(SeqCst), budget.used_for(Use::Other)), (1, 0));
        assert!(budget.try_charge(Use::Connections, 1).is_err());
        assert_eq!(said.asked.load(SeqCst), 1, "there is nothing to ask for");
        drop((large, watched));
    }

    #[test]
    fn watch3_half_of_the_budget_is_left_to_requests() {
        let budget = Budget::new(LIMIT);
        let (watched, said) = watched(&budget);
        said.resident.store(10 * LIMIT, SeqCst);
        watched.look();
        assert_eq!(budget.used_for(Use::Other), LIMIT / 2);
        assert!(budget.try_charge(Use::Connections, LIMIT / 2).is_ok());
    }

    #[test]
    fn a_process_knows_what_it_takes() {
        let before = resident_anonymous().unwrap();
        let memory = vec![1_u8; 64 << 20];
        assert!(resident_anonymous().unwrap() > before + (32 << 20), "{}", memory.len());
    }
}
