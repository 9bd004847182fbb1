//! Row locks.
//!
//! A transaction locks keys of tables, whether or not a key has a value. A lock is shared or
//! exclusive, and the transaction holds it until it ends. The holders and the waiters of a key are
//! its *line*. Waiters are served in order of arrival. A transaction that waits to upgrade its lock
//! from shared to exclusive goes to the front, because no other waiter can be served while that
//! transaction holds the shared lock.
//!
//! Each waiter sleeps on its own condition variable. A release wakes exactly the waiters that it
//! grants the lock to, after it has unlocked the shard's mutex. The waiter at the front spins for a
//! few microseconds before it sleeps.
//!
//! Rejected: to combine the changes that several threads make to one row. Threads would queue their
//! changes as closures beside the row's lock, and the holder of the lock would apply them all in
//! one transaction. With 64 threads that wait until each commit is durable, a change took 15.5 us
//! of processor time instead of 17.4. The gain is small because each thread still sleeps until its
//! commit is durable. With 3 threads that do not wait, a change took 2.5 us instead of 0.9. There
//! was rarely more than one change to combine, because a commit is ordered, installed and unlocked
//! in less than a microsecond.
//!
//! # The lock table
//!
//! Keys are distributed over shards by their hashes. Each shard has a mutex and a hash table of
//! lines. An uncontended lock, the common case, costs one visit to a shard when it is acquired and
//! one when it is released. A line with one holder is a 64-byte entry of the hash table. The entry
//! contains the key, if it is short, and the holder's number. A transaction is an *owner* here. The
//! state through which other threads wake an owner is created when the owner first waits.
//!
//! A transaction that holds many locks folds them into range locks (see [`ranges`]).
//!
//! # Waits without a blocked thread
//!
//! A server has more clients than threads, and many clients may wait for one row. So an owner with
//! a waker does not block its thread: the owner joins the line, and the request returns
//! [`ErrorKind::WouldBlock`].
//!
//! The thread that grants or interrupts the wait calls the waker, and holds no mutex of the lock
//! table during the call. The waker is called at least once for each of these events, and may be
//! called spuriously. The owner then repeats the request, which returns the outcome of the wait.
//! When the wait times out, nothing calls the waker: the owner has to repeat the request after the
//! timeout.
//!
//! # Deadlocks
//!
//! A transaction that must wait first searches the waits-for graph for a cycle: from itself to the
//! holders of the key that it wants, from each holder to the holders of the key that this holder
//! waits for, and so on.
//!
//! Edges lead to holders only, and not to earlier waiters of the same key. So the cost of a search
//! does not depend on the number of waiters of a key. The search still misses no cycle. An earlier
//! waiter waits for the same holders as the transaction that searches. Once the earlier waiter
//! becomes a holder, edges lead to it. If it later has to wait for another key, it searches too.
//!
//! A waiter publishes its wait and searches under one mutex, the detector's. So waits are published
//! one after another, and the wait that closes a cycle finds the cycle. The transaction of that
//! wait is the victim, because it has not begun to sleep. The other transactions of the cycle
//! continue. A request that need not wait does not take the detector's mutex.
//!
//! A search reads the edges one after another, while other threads release locks and end waits. It
//! still finds every cycle, because a cycle lasts until one of its waits is given up. And a cycle
//! that the search finds is real, unless one of its waits times out or is cancelled during the
//! search. The reason is that a transaction releases its locks only when it ends. Suppose that the
//! search sees first that a transaction holds a lock, and later that the same transaction waits.
//! Then the transaction has not ended, so it still holds that lock.
//!
//! A granted wait stays published until its owner has learned of the grant. Such a wait has no
//! edges any more. The search recognizes it: its owner holds the key, and does not wait for an
//! upgrade.
//!
//! Lock order: the detector's mutex, then a shard's, then an owner's. No thread holds the mutexes
//! of two shards at once.

mod key;
mod line;
#[cfg(all(test, loom))]
mod loom_tests;
mod outcome;
mod owner;
#[cfg(all(test, not(loom)))]
mod range_tests;
mod ranges;
mod shard;
mod span;
#[cfg(all(test, not(loom)))]
mod tests;

use std::time::Duration;

use rustc_hash::{FxHashMap, FxHashSet};
use spillway_base::clock::Clock;
use spillway_base::stall::{Cause, Pending, Tally};
use spillway_base::{Error, ErrorKind, Result, TableId};

use crate::options::{LockMode, LockWait};
use crate::sync::Mutex;
pub(crate) use key::lock_bytes;
use key::{LockKey, Target};
use line::Granted;
pub(crate) use outcome::Acquired;
use outcome::Taken;
use owner::{Left, Verdict};
pub(crate) use owner::{LockOwner, Wait};
use shard::ShardState;

/// A shard on a cache line of its own.
#[derive(Default)]
#[repr(align(64))]
struct LockShard(Mutex<ShardState>);

#[cfg(not(loom))]
const SHARDS: usize = 128;
#[cfg(loom)]
const SHARDS: usize = 1;

#[derive(Default)]
struct Detector {
    /// The waiting owners, and the keys that they wait for.
    waiting: FxHashMap<u64, LockKey>,
    /// Edges followed so far.
    #[cfg(test)]
    edges: u64,
}

/// The row locks of a database.
pub(crate) struct Locks {
    shards: Box<[LockShard]>,
    detector: Mutex<Detector>,
    /// The number and the time of the waits for locks.
    pub(crate) waits: Tally,
}

/// A key whose lock was granted to a wait without a blocked thread, and its mode.
pub(crate) struct HeldKey(LockKey, LockMode);

impl HeldKey {
    /// Whether this covers a request for the key in this mode.
    pub(crate) fn is(&self, table: TableId, key: &[u8], mode: LockMode) -> bool {
        let held = self.0.target();
        held.table == table && held.key == key && self.1 >= mode
    }
}

#[cold]
fn left_behind() -> Error {
    Error::new(ErrorKind::WouldBlock, "the row is locked; the transaction stands in line for it")
}

impl Locks {
    pub(crate) fn new() -> Locks {
        Locks {
            shards: (0..SHARDS).map(|_| LockShard::default()).collect(),
            detector: Mutex::default(),
            waits: Tally::default(),
        }
    }

    fn shard(&self, hash: u64) -> &Mutex<ShardState> {
        &self.shards[(hash >> 32) as usize % SHARDS].0
    }

    /// Takes a lock for `owner`.
    pub(crate) fn acquire(
        &self,
        owner: &LockOwner,
        table: TableId,
        key: &[u8],
        mode: LockMode,
        wait: LockWait,
        timeout: Duration,
    ) -> Result<Acquired> {
        let target = Target::new(table, key);
        if let Some(acquired) = self.try_acquire(owner, target, mode) {
            return Ok(acquired);
        }
        match wait {
            LockWait::Wait => self.acquire_in_line(owner, target, mode, timeout),
            LockWait::SkipLocked => Ok(Acquired::Skipped),
            LockWait::NoWait => Err(Error::new(
                ErrorKind::LockNotAvailable,
                "the row is locked by another transaction, and NOWAIT was given",
            )),
        }
    }

    /// Takes the lock if no other owner prevents it.
    fn try_acquire(
        &self,
        owner: &LockOwner,
        target: Target<'_>,
        mode: LockMode,
    ) -> Option<Acquired> {
        let taken = self.shard(target.hash).lock().take(owner.id, target, mode)?;
        Some(owner.took(target, taken))
    }

    /// Waits in line until the lock is granted or the timeout expires.
    #[cold]
    fn acquire_in_line(
        &self,
        owner: &LockOwner,
        target: Target<'_>,
        mode: LockMode,
        timeout: Duration,
    ) -> Result<Acquired> {
        let from = spillway_base::clock::now();
        let (deadlock, upgrade, next) = {
            let mut detector = self.detector.lock();
            let (upgrade, next) = match self.take_or_wait(owner, target, mode)? {
                SecondAttempt::Taken(taken) => return Ok(owner.took(target, taken)),
                SecondAttempt::InLine { upgrade, next } => (upgrade, next),
            };
            detector.waiting.insert(owner.id, LockKey::new(target));
            let deadlock = self.closes_a_cycle(&mut detector, owner.id);
            if deadlock {
                // A published wait that has ended would be an edge of a cycle that does not exist.
                detector.waiting.remove(&owner.id);
            }
            (deadlock, upgrade, next)
        };
        if deadlock {
            return self.end_wait(owner, target, upgrade, Verdict::Deadlock, timeout);
        }
        if owner.waker().is_some() {
            let (key, _counted) = (LockKey::new(target), Pending::begin(Cause::Lock));
            *owner.left.borrow_mut() =
                Some(Box::new(Left { key, mode, upgrade, timeout, from, _counted }));
            return Err(left_behind());
        }
        let wait = || owner.wait().verdict(from.saturating_add(timeout), next);
        let verdict = self.waits.during(Cause::Lock, &Clock::system(), wait);
        self.detector.lock().waiting.remove(&owner.id);
        self.end_wait(owner, target, upgrade, verdict, timeout)
    }

    /// Continues a wait without a blocked thread. Returns the key that it waited for, which is now
    /// locked.
    #[cold]
    pub(crate) fn resume(&self, owner: &LockOwner) -> Result<Option<HeldKey>> {
        let Some(left) = owner.left.take() else { return Ok(None) };
        let Some(verdict) = owner.wait().look(left.deadline()) else {
            *owner.left.borrow_mut() = Some(left);
            return Err(left_behind());
        };
        self.waits.add(spillway_base::clock::now().saturating_sub(left.from));
        self.detector.lock().waiting.remove(&owner.id);
        self.end_wait(owner, left.key.target(), left.upgrade, verdict, left.timeout)?;
        Ok(Some(HeldKey(left.key, left.mode)))
    }

    /// Gives up a wait without a blocked thread.
    fn abandon(&self, owner: &LockOwner) {
        let Some(left) = owner.left.take() else { return };
        self.detector.lock().waiting.remove(&owner.id);
        if !self.withdraw(owner, left.key.target()) {
            owner.took(left.key.target(), Taken::in_line(left.upgrade));
        }
    }

    /// Ends a wait that is no longer published, and returns its outcome.
    fn end_wait(
        &self,
        owner: &LockOwner,
        target: Target<'_>,
        upgrade: bool,
        verdict: Verdict,
        timeout: Duration,
    ) -> Result<Acquired> {
        // The lock may be granted after the wait has ended and before the withdrawal. Then the
        // owner holds the lock, and releases it with its other locks.
        let granted = verdict == Verdict::Granted || !self.withdraw(owner, target);
        if granted {
            owner.took(target, Taken::in_line(upgrade));
            owner.waits_granted.set(owner.waits_granted.get() + 1);
        }
        match verdict {
            Verdict::Interrupted => {
                Err(Error::new(ErrorKind::Interrupted, "the lock wait was cancelled"))
            }
            _ if granted => Ok(Acquired::New),
            Verdict::Deadlock => Err(Error::new(
                ErrorKind::Deadlock,
                "the transaction was chosen to break a deadlock; run it again",
            )),
            Verdict::Granted | Verdict::TimedOut => Err(Error::new(
                ErrorKind::LockTimeout,
                format!(
                    "no lock was granted within {} s; try the statement again",
                    timeout.as_secs_f64()
                ),
            )),
        }
    }

    /// Takes the lock if it has become free, or joins the line.
    fn take_or_wait(
        &self,
        owner: &LockOwner,
        target: Target<'_>,
        mode: LockMode,
    ) -> Result<SecondAttempt> {
        let mut shard = self.shard(target.hash).lock();
        if let Some(taken) = shard.take(owner.id, target, mode) {
            return Ok(SecondAttempt::Taken(taken));
        }
        owner.wait().prepare(owner.waker().cloned())?;
        let line = shard.contended(target);
        let upgrade = line.wait(owner.id, mode, owner.wait().clone());
        Ok(SecondAttempt::InLine { upgrade, next: line.is_next(owner.id) })
    }

    /// Removes a waiter from its line. Returns `false` if it no longer waits there, because the
    /// lock was granted to it.
    fn withdraw(&self, owner: &LockOwner, target: Target<'_>) -> bool {
        let mut granted = Granted::default();
        let found = self.shard(target.hash).lock().withdraw(owner.id, target, &mut granted);
        granted.wake();
        found
    }

    /// Whether `start`, which has just joined a line, waits for itself through other owners.
    fn closes_a_cycle(&self, detector: &mut Detector, start: u64) -> bool {
        let mut seen: FxHashSet<u64> = FxHashSet::default();
        let mut look = vec![start];
        while let Some(id) = look.pop() {
            let Some(key) = detector.waiting.get(&id) else { continue };
            let target = key.target();
            let shard = self.shard(target.hash).lock();
            let Some(line) = shard.find(target) else { continue };
            if line.is_held_by(id) && !line.awaits_upgrade(id) {
                // It was granted, and its thread has not woken yet.
                continue;
            }
            // A waiter for an upgrade is a holder of the key too, and no edge leads to itself.
            for holder in line.holders().filter(|holder| *holder != id) {
                #[cfg(test)]
                {
                    detector.edges += 1;
                }
                if holder == start {
                    return true;
                }
                if seen.insert(holder) {
                    look.push(holder);
                }
            }
        }
        false
    }

    /// Releases every lock of a transaction that ends, and its place in a line.
    pub(crate) fn release_all(&self, owner: &LockOwner) {
        if owner.has_left() {
            self.abandon(owner);
        }
        let held = std::mem::take(&mut *owner.held.borrow_mut());
        owner.bytes.set(0);
        if owner.has_ranges() {
            owner.folded.take();
            for shard in &self.shards {
                let mut granted = Granted::default();
                shard.0.lock().release_all(owner.id, &mut granted);
                granted.wake();
            }
        } else {
            for hash in held {
                let mut granted = Granted::default();
                self.shard(hash).lock().release(owner.id, hash, &mut granted);
                granted.wake();
            }
        }
    }

    /// Whether an owner holds a lock in this mode or a stronger one.
    pub(crate) fn is_held(
        &self,
        owner: &LockOwner,
        table: TableId,
        key: &[u8],
        mode: LockMode,
    ) -> bool {
        let target = Target::new(table, key);
        self.shard(target.hash).lock().is_held(owner.id, target, mode)
    }

    /// The number of keys that are locked or waited for.
    #[cfg(test)]
    fn lines(&self) -> usize {
        self.shards.iter().map(|shard| shard.0.lock().lines.len()).sum()
    }

    /// Whether an owner is in a line and has searched for a deadlock.
    #[cfg(all(test, not(loom)))]
    fn is_waiting(&self, id: u64) -> bool {
        self.detector.lock().waiting.contains_key(&id)
    }
}

/// The outcome of an attempt that joins the line if it fails.
enum SecondAttempt {
    Taken(Taken),
    InLine { upgrade: bool, next: bool },
}
