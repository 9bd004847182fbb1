//! The process's memory beside what its budget counts.
//!
//! Most memory is charged by its user, before it is taken. The rest is what nobody can count: ends of the allocator's
//! pages, pages that it has not given back yet, stacks, small pieces. The watch reads how much memory of the process
//! is resident and charges what is past the charges as [`Use::Other`], so that caches give way to it and requests that
//! would need more are refused.
//!
//! - **WATCH-1 (fixed part).** Resident memory up to [`FIXED_BYTES`] past the charges is not charged: code, stacks and
//!   small pieces take that much with any budget.
//! - **WATCH-2 (others first).** Before the watch charges memory that takes the budget past its limit, it asks the
//!   allocator for what it holds free, and looks again.
//! - **WATCH-3 (no standstill).** The watch charges half of the budget at the most. A process whose uncharged memory
//!   grows past that still serves requests.
//!
//! Rejected: to count in the allocator. Each allocation would touch a counter, and what the allocator holds free
//! would not be counted.

use std::fs;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use spillway_base::budget::{Budget, Charge, Use};
use spillway_base::{Result, thread};

use crate::Database;

/// How often the watch looks.
const INTERVAL: Duration = Duration::from_millis(50);
/// Resident memory past the charges that is not charged (WATCH-1).
const FIXED_BYTES: usize = 48 << 20;
/// The part of the budget that the watch charges at the most (WATCH-3).
const SHARE_MAX: usize = 2;
/// Bytes of a page of the system, in which `statm` counts.
const SYSTEM_PAGE_BYTES: usize = 4 << 10;

/// Bytes of this process that are in memory and that no file backs; `None` where the system does not tell.
pub(crate) fn resident_anonymous() -> Option<usize> {
    // Pages in all, resident pages, and those of them that files back or others share.
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = text.split_whitespace().skip(1).map(str::parse::<usize>);
    let (resident, shared) = (pages.next()?.ok()?, pages.next()?.ok()?);
    Some(resident.saturating_sub(shared) * SYSTEM_PAGE_BYTES)
}

/// Charges a budget for the process's memory that nobody charges, until it is dropped.
pub struct MemoryWatch {
    /// Dropping it ends the thread.
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl MemoryWatch {
    /// Watches the memory of the process, all of which belongs to this database. `release` has the allocator give free
    /// memory back to the system.
    ///
    /// # Errors
    /// [`crate::ErrorKind::MemoryFull`] when the system refuses another thread.
    pub fn start(database: &Database, release: impl Fn() + Send + 'static) -> Result<MemoryWatch> {
        let mut unaccounted = Unaccounted::new(database.budget());
        let (stop, stopped) = mpsc::channel();
        let thread = thread::spawn("memory", move || {
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                unaccounted.look(resident_anonymous, &release);
            }
        })?;
        Ok(MemoryWatch { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for MemoryWatch {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // The panic hook has reported a panic in it.
            let _ = thread.join();
        }
    }
}

/// What is resident past the charges.
struct Unaccounted {
    budget: Budget,
    charge: Charge,
}

impl Unaccounted {
    fn new(budget: &Budget) -> Unaccounted {
        Unaccounted { budget: budget.clone(), charge: budget.charge(Use::Other, 0) }
    }

    /// What is to be charged for so much resident memory.
    fn past(&self, resident: usize) -> usize {
        let charged = self.budget.used().saturating_sub(self.charge.bytes());
        resident.saturating_sub(charged + FIXED_BYTES).min(self.budget.limit() / SHARE_MAX)
    }

    fn look(&mut self, resident: impl Fn() -> Option<usize>, release: impl Fn()) {
        let Some(mut past) = resident().map(|resident| self.past(resident)) else { return };
        let more = past.saturating_sub(self.charge.bytes());
        if more > 0 && self.budget.used() + more > self.budget.limit() {
            release();
            past = resident().map_or(past, |resident| self.past(resident));
        }
        self.charge.resize(past);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const LIMIT: usize = 256 << 20;

    /// A process whose resident memory is said, and how often its allocator was asked for free memory.
    fn look(unaccounted: &mut Unaccounted, resident: usize, free: usize) -> usize {
        let (now, asked) = (Cell::new(resident), Cell::new(0));
        unaccounted.look(
            || Some(now.get()),
            || {
                now.set(now.get() - free);
                asked.set(asked.get() + 1);
            },
        );
        asked.get()
    }

    #[test]
    fn watch1_memory_past_the_charges_and_the_fixed_part_is_charged() {
        let budget = Budget::new(LIMIT);
        let held = budget.charge(Use::Connections, 20 << 20);
        let mut unaccounted = Unaccounted::new(&budget);
        look(&mut unaccounted, held.bytes() + FIXED_BYTES, 0);
        assert_eq!(budget.used_for(Use::Other), 0);
        look(&mut unaccounted, held.bytes() + FIXED_BYTES + 1000, 0);
        assert_eq!(budget.used_for(Use::Other), 1000);
        // Its own charge is no reason to charge less.
        look(&mut unaccounted, held.bytes() + FIXED_BYTES + 1000, 0);
        assert_eq!(budget.used_for(Use::Other), 1000);
        look(&mut unaccounted, 1 << 20, 0);
        assert_eq!(budget.used_for(Use::Other), 0);
        drop((unaccounted, held));
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn watch2_the_allocator_is_asked_before_others_are() {
        let budget = Budget::new(LIMIT);
        let held = budget.charge(Use::Transactions, LIMIT - 1000);
        let mut unaccounted = Unaccounted::new(&budget);
        let resident = held.bytes() + FIXED_BYTES;
        assert_eq!(look(&mut unaccounted, resident + 1000, 500), 0, "it fits");
        assert_eq!(look(&mut unaccounted, resident + 3000, 500), 1);
        assert_eq!(budget.used_for(Use::Other), 2500);
        assert_eq!(look(&mut unaccounted, resident + 2500, 500), 0, "it is no more than before");
    }

    #[test]
    fn watch3_half_of_the_budget_is_left_to_requests() {
        let budget = Budget::new(LIMIT);
        let mut unaccounted = Unaccounted::new(&budget);
        look(&mut unaccounted, 10 * LIMIT, 0);
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
