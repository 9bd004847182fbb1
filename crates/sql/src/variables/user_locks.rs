//! Named locks. Sessions take them with GET_LOCK, by a name of their choice.
//!
//! A lock has one holder, which may take it several times, and a queue of waiters in the order of
//! their arrival. The holder's last release passes the lock to the first waiter, so no other
//! session can take it in between. A session's locks are charged to the memory budget; a lock that
//! does not fit is refused (1041).
//!
//! A session waits for one lock at a time, and a lock has one holder, so a walk along a single path
//! of the waits-for graph finds every cycle. A wait that would close a cycle is refused. Cycles
//! that include locks of rows or tables are not detected; they end when a wait times out.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use spillway::Budget;
use spillway_base::budget::{Stepped, Use};
use spillway_base::clock;
use spillway_base::lock::{Condvar, Mutex, MutexGuard};
use spillway_base::thread::blocking;

use crate::errors::{Result, SqlError};
use crate::process::Process;

/// A session that holds a lock or waits for it. Its ticket is unique, whereas connection numbers
/// may be used again.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Holder {
    ticket: u64,
    connection_id: u64,
}

struct NamedLock {
    holder: Holder,
    queue: VecDeque<Holder>,
    /// Notified when the lock has a new holder, or when a waiter must stop waiting.
    changed: Arc<Condvar>,
}

#[derive(Default)]
struct UserLocksState {
    /// The locks that a session holds, by name.
    locks: HashMap<Arc<str>, NamedLock>,
    /// The lock for which each ticket waits.
    waiting: HashMap<u64, Arc<str>>,
    tickets: u64,
}

impl UserLocksState {
    /// Whether the holder of a lock waits, directly or through the holders of other locks, for a
    /// lock that the ticket holds.
    fn leads_to(&self, name: &Arc<str>, ticket: u64) -> bool {
        let mut name = name;
        // A cycle would make this endless, but no wait that closes a cycle was ever admitted.
        while let Some(lock) = self.locks.get(name) {
            if lock.holder.ticket == ticket {
                return true;
            }
            match self.waiting.get(&lock.holder.ticket) {
                Some(next) => name = next,
                None => return false,
            }
        }
        false
    }

    fn is_held_by(&self, name: &Arc<str>, holder: Holder) -> bool {
        self.locks.get(name).is_some_and(|lock| lock.holder == holder)
    }

    /// Takes a lock from its holder, and gives it to the first waiter, if there is one.
    fn hand_on(&mut self, name: &Arc<str>) {
        let Some(lock) = self.locks.get_mut(name) else { return };
        match lock.queue.pop_front() {
            Some(next) => {
                lock.holder = next;
                self.waiting.remove(&next.ticket);
                lock.changed.notify_all();
            }
            None => {
                self.locks.remove(name);
                if self.locks.capacity() > 4096 && self.locks.len() < self.locks.capacity() / 8 {
                    self.locks.shrink_to(2 * self.locks.len());
                }
            }
        }
    }

    /// Removes a waiter from a lock's queue.
    fn give_up(&mut self, name: &Arc<str>, holder: Holder) {
        self.waiting.remove(&holder.ticket);
        if let Some(lock) = self.locks.get_mut(name) {
            lock.queue.retain(|other| *other != holder);
        }
    }
}

/// The named locks of an instance.
#[derive(Default)]
pub(crate) struct NamedLocks {
    state: Mutex<UserLocksState>,
}

impl NamedLocks {
    /// Wakes all waiters, so that each checks whether it must stop waiting.
    pub(crate) fn wake(&self) {
        let state = self.state.lock();
        for name in state.waiting.values() {
            if let Some(lock) = state.locks.get(name) {
                lock.changed.notify_all();
            }
        }
    }
}

/// How long a session may wait for a lock.
pub(crate) struct UserLockWaitLimits {
    /// The longest wait; `None` for no limit.
    pub(crate) wait: Option<Duration>,
    /// When the statement must have ended, if there is a limit.
    pub(crate) deadline: Option<Duration>,
}

/// The named locks of one session. Dropping this releases them.
pub(crate) struct OwnLocks {
    locks: Arc<NamedLocks>,
    process: Arc<Process>,
    holder: Holder,
    /// How often each lock is held.
    counts: RefCell<HashMap<Arc<str>, u64>>,
    /// The memory charge of the held locks.
    held: RefCell<Stepped>,
}

/// The memory of a lock apart from its name: its allocations, and its entries in two tables that
/// grow by doubling.
const LOCK_BYTES: usize = 320;

fn bytes_of(name: &str) -> usize {
    LOCK_BYTES + name.len()
}

impl Drop for OwnLocks {
    fn drop(&mut self) {
        self.release_all();
    }
}

impl OwnLocks {
    pub(crate) fn new(
        locks: &Arc<NamedLocks>,
        process: &Arc<Process>,
        connection_id: u64,
        budget: &Budget,
    ) -> OwnLocks {
        let ticket = {
            let mut state = locks.state.lock();
            state.tickets += 1;
            state.tickets
        };
        OwnLocks {
            locks: locks.clone(),
            process: process.clone(),
            holder: Holder { ticket, connection_id },
            counts: RefCell::default(),
            held: RefCell::new(Stepped::new(budget, Use::Connections)),
        }
    }

    /// Takes a lock. Returns `false` if the session did not get it in time.
    ///
    /// # Errors
    /// 3058 for a deadlock, 1041 if the budget has no memory for another lock, 1317 if the session
    /// must stop, 3024 if its statement took too long.
    pub(crate) fn acquire(&self, name: &str, limits: &UserLockWaitLimits) -> Result<bool> {
        let mut counts = self.counts.borrow_mut();
        if let Some(count) = counts.get_mut(name) {
            *count += 1;
            return Ok(true);
        }
        let mut held = self.held.borrow_mut();
        let bytes = held.bytes() + bytes_of(name);
        held.try_set(bytes)?;
        let got = self.take(name, limits);
        match &got {
            Ok(Some(name)) => {
                counts.insert(name.clone(), 1);
            }
            Ok(None) | Err(_) => held.sub(bytes_of(name)),
        }
        Ok(got?.is_some())
    }

    /// Takes a lock that this session does not hold yet. Returns `None` if it did not get the lock
    /// in time.
    fn take(&self, name: &str, limits: &UserLockWaitLimits) -> Result<Option<Arc<str>>> {
        let name: Arc<str> = name.into();
        let mut state = self.locks.state.lock();
        let got = match state.locks.get_mut(&name) {
            None => {
                let (queue, changed) = (VecDeque::new(), Arc::default());
                let lock = NamedLock { holder: self.holder, queue, changed };
                state.locks.insert(name.clone(), lock);
                true
            }
            Some(_) if limits.wait == Some(Duration::ZERO) => false,
            Some(_) => self.wait(&mut state, &name, limits)?,
        };
        Ok(got.then_some(name))
    }

    fn wait(
        &self,
        state: &mut MutexGuard<'_, UserLocksState>,
        name: &Arc<str>,
        limits: &UserLockWaitLimits,
    ) -> Result<bool> {
        if state.leads_to(name, self.holder.ticket) {
            let text = "Deadlock found when trying to get user-level lock; try rolling back transaction/releasing locks and restarting lock acquisition.";
            return Err(SqlError::new(3058, text));
        }
        let Some(lock) = state.locks.get_mut(name) else { return Ok(false) };
        lock.queue.push_back(self.holder);
        let changed = lock.changed.clone();
        state.waiting.insert(self.holder.ticket, name.clone());
        let end = limits.wait.map(|wait| clock::now().saturating_add(wait));
        let outcome = loop {
            // Check this first: a lock that was passed to this session is kept, whatever else has
            // happened.
            if state.is_held_by(name, self.holder) {
                return Ok(true);
            }
            if self.process.stop.is_asked() {
                break Err(SqlError::new(1317, "Query execution was interrupted"));
            }
            let now = clock::now();
            if limits.deadline.is_some_and(|deadline| now >= deadline) {
                let text =
                    "Query execution was interrupted, maximum statement execution time exceeded";
                break Err(SqlError::new(3024, text));
            }
            if end.is_some_and(|end| now >= end) {
                break Ok(false);
            }
            match end.into_iter().chain(limits.deadline).min() {
                Some(until) => {
                    blocking(|| changed.wait_for(state, until.saturating_sub(now)));
                }
                None => blocking(|| changed.wait(state)),
            }
        };
        state.give_up(name, self.holder);
        outcome
    }

    /// Releases a lock once. Returns `None` if no session holds it, `false` if another session
    /// does.
    pub(crate) fn release(&self, name: &str) -> Option<bool> {
        let mut counts = self.counts.borrow_mut();
        let Some(count) = counts.get_mut(name) else { return self.holder(name).map(|_| false) };
        *count -= 1;
        if *count == 0
            && let Some((name, _)) = counts.remove_entry(name)
        {
            self.locks.state.lock().hand_on(&name);
            self.held.borrow_mut().sub(bytes_of(&name));
        }
        Some(true)
    }

    /// Releases all locks of the session. Returns how many times they were taken in total.
    pub(crate) fn release_all(&self) -> u64 {
        let mut counts = self.counts.borrow_mut();
        if counts.is_empty() {
            return 0;
        }
        let mut state = self.locks.state.lock();
        let count = counts.drain().fold(0, |sum, (name, count)| {
            state.hand_on(&name);
            sum + count
        });
        drop(state);
        // Also free the memory of the table.
        counts.shrink_to_fit();
        let mut held = self.held.borrow_mut();
        let bytes = held.bytes();
        held.sub(bytes);
        count
    }

    /// The connection that holds a lock, if there is one.
    pub(crate) fn holder(&self, name: &str) -> Option<u64> {
        self.locks.state.lock().locks.get(name).map(|lock| lock.holder.connection_id)
    }
}
