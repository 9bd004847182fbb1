//! Row locks.
//!
//! A lock is on a key of a table, whether the key has a value or not, shared or exclusive, and held to the
//! end of its transaction. Waiters stand in one line per key and are served in order of arrival; an upgrade
//! from shared to exclusive goes to the front, since nobody behind it could be served first. Each
//! waiter sleeps on its own condition variable, and a release wakes exactly those it grants.
//!
//! # Deadlocks
//!
//! A transaction that must wait first looks for a cycle: from itself to the holders of the key it wants, from
//! each of those to the holders of the key *that* one waits for, and so on. Edges go to holders only, not to
//! the waiters ahead, so a line of hundreds costs no more to check than a line of one. Nothing is missed by
//! that: a waiter ahead is either served, and then is a holder, or waits for the same holders; and when a
//! served waiter later waits for another key, it looks in turn.
//!
//! A wait is published and the look taken under one mutex, `detector`, so that waits come to be one after the
//! other, and the one that closes a cycle is the one that finds it. It is the victim: it has not yet gone to
//! sleep, and its peers keep their progress. Only those who must wait come to the mutex.
//!
//! A look reads the edges one after another, while locks are given back and waits end. It still finds every
//! cycle, since a cycle stays until one in it gives up. And what it finds is one, unless a wait in it times out or
//! is cancelled just then: a transaction that was seen to hold a lock gives it back only at its end, and so not
//! before the wait that it was seen in later has ended.
//!
//! Lock order: `detector`, then a shard, then an owner's own cell. No two shards are held at once.

#[cfg(all(test, loom))]
mod loom_tests;
mod owner;
#[cfg(all(test, not(loom)))]
mod tests;

use std::collections::VecDeque;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::time::Duration;

use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};
use spillway_base::{Error, ErrorKind, Result, TableId};

use crate::options::{LockMode, LockWait};
use crate::sync::Mutex;
pub(crate) use owner::LockOwner;
use owner::Verdict;

/// What a lock is on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct LockKey {
    table: TableId,
    key: Arc<[u8]>,
}

struct Holder {
    owner: Arc<LockOwner>,
    mode: LockMode,
}

struct Waiter {
    owner: Arc<LockOwner>,
    mode: LockMode,
}

#[derive(Default)]
struct Line {
    holders: Vec<Holder>,
    waiters: VecDeque<Waiter>,
}

impl Line {
    /// Whether `owner` may hold the lock in this mode beside the other holders.
    fn admits(&self, owner: &LockOwner, mode: LockMode) -> bool {
        self.holders.iter().all(|holder| {
            holder.owner.id == owner.id
                || (mode == LockMode::Shared && holder.mode == LockMode::Shared)
        })
    }

    fn holder(&mut self, owner: &LockOwner) -> Option<&mut Holder> {
        self.holders.iter_mut().find(|holder| holder.owner.id == owner.id)
    }

    fn hold(&mut self, owner: &Arc<LockOwner>, mode: LockMode) {
        match self.holder(owner) {
            Some(holder) => holder.mode = holder.mode.max(mode),
            None => self.holders.push(Holder { owner: owner.clone(), mode }),
        }
    }

    /// Serves the front of the line as far as it can be served.
    fn serve(&mut self) {
        while let Some(front) = self.waiters.front() {
            if !self.admits(&front.owner, front.mode) {
                break;
            }
            if let Some(Waiter { owner, mode }) = self.waiters.pop_front() {
                self.hold(&owner, mode);
                owner.grant();
            }
        }
    }
}

type Shard = Mutex<FxHashMap<LockKey, Line>>;

#[cfg(not(loom))]
const SHARDS: usize = 256;
#[cfg(loom)]
const SHARDS: usize = 1;

/// The row locks of a database.
pub(crate) struct Locks {
    shards: Box<[Shard]>,
    detector: Mutex<()>,
}

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Acquired {
    /// It is held now, and was not before in this strength.
    New,
    /// It was held already.
    Held,
    /// It is held by another, and the caller asked to skip such rows.
    Skipped,
}

impl Locks {
    pub(crate) fn new() -> Locks {
        Locks { shards: (0..SHARDS).map(|_| Shard::default()).collect(), detector: Mutex::new(()) }
    }

    fn shard(&self, key: &LockKey) -> &Shard {
        &self.shards[(FxBuildHasher.hash_one(key) >> 32) as usize % SHARDS]
    }

    /// Takes a lock for `owner`.
    pub(crate) fn acquire(
        &self,
        owner: &Arc<LockOwner>,
        table: TableId,
        key: &[u8],
        mode: LockMode,
        wait: LockWait,
        timeout: Duration,
    ) -> Result<Acquired> {
        let key = LockKey { table, key: key.into() };
        if let Some(acquired) = self.try_acquire(&mut self.shard(&key).lock(), owner, &key, mode) {
            return Ok(acquired);
        }
        match wait {
            LockWait::Wait => {}
            LockWait::SkipLocked => return Ok(Acquired::Skipped),
            LockWait::NoWait => {
                return Err(Error::new(
                    ErrorKind::LockNotAvailable,
                    "the row is locked by another transaction, and NOWAIT was given",
                ));
            }
        }
        let deadline = spillway_base::clock::now().saturating_add(timeout);
        let deadlock = {
            let _one_at_a_time = self.detector.lock();
            if let Some(acquired) = self.try_acquire_or_queue(owner, &key, mode)? {
                return Ok(acquired);
            }
            self.closes_a_cycle(owner)
        };
        let verdict = if deadlock { Verdict::Deadlock } else { owner.await_verdict(deadline) };
        // A grant may have come between the end of the wait and the withdrawal; then the lock is held, and goes
        // back with the others.
        let granted = verdict == Verdict::Granted || !self.withdraw(owner, &key);
        if granted {
            owner.remember(&key);
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

    /// Takes the lock if nobody is in the way.
    fn try_acquire(
        &self,
        shard: &mut FxHashMap<LockKey, Line>,
        owner: &Arc<LockOwner>,
        key: &LockKey,
        mode: LockMode,
    ) -> Option<Acquired> {
        let Some(line) = shard.get_mut(key) else {
            let holders = vec![Holder { owner: owner.clone(), mode }];
            shard.insert(key.clone(), Line { holders, waiters: VecDeque::new() });
            owner.held.lock().push(key.clone());
            return Some(Acquired::New);
        };
        let held = line.holder(owner).map(|holder| holder.mode);
        if held >= Some(mode) {
            return Some(Acquired::Held);
        }
        if !line.admits(owner, mode) || (held.is_none() && !line.waiters.is_empty()) {
            return None;
        }
        line.hold(owner, mode);
        if held.is_none() {
            owner.held.lock().push(key.clone());
        }
        Some(Acquired::New)
    }

    /// Takes the lock after all, or gets in line.
    fn try_acquire_or_queue(
        &self,
        owner: &Arc<LockOwner>,
        key: &LockKey,
        mode: LockMode,
    ) -> Result<Option<Acquired>> {
        let mut shard = self.shard(key).lock();
        if let Some(acquired) = self.try_acquire(&mut shard, owner, key, mode) {
            return Ok(Some(acquired));
        }
        owner.prepare_wait(key)?;
        let line = shard.entry(key.clone()).or_default();
        let waiter = Waiter { owner: owner.clone(), mode };
        if line.holder(owner).is_some() {
            line.waiters.push_front(waiter);
        } else {
            line.waiters.push_back(waiter);
        }
        Ok(None)
    }

    /// Takes a waiter out of its line. `false` when it is not in it: it was granted.
    fn withdraw(&self, owner: &Arc<LockOwner>, key: &LockKey) -> bool {
        let mut shard = self.shard(key).lock();
        owner.end_wait();
        let Some(line) = shard.get_mut(key) else { return false };
        let before = line.waiters.len();
        line.waiters.retain(|waiter| waiter.owner.id != owner.id);
        let found = line.waiters.len() < before;
        line.serve();
        found
    }

    /// Whether `start`, which has just got in line, waits for itself. The caller holds `detector`.
    fn closes_a_cycle(&self, start: &Arc<LockOwner>) -> bool {
        let mut seen: FxHashSet<u64> = FxHashSet::default();
        let mut look: Vec<Arc<LockOwner>> = vec![start.clone()];
        while let Some(owner) = look.pop() {
            let Some(key) = owner.waits_for() else { continue };
            let shard = self.shard(&key).lock();
            let Some(line) = shard.get(&key) else { continue };
            for holder in &line.holders {
                if holder.owner.id == owner.id {
                    // Its own share, which it waits to have upgraded.
                    continue;
                }
                if holder.owner.id == start.id {
                    drop(shard);
                    // Others must not see a wait that is about to end.
                    start.end_wait();
                    return true;
                }
                if seen.insert(holder.owner.id) {
                    look.push(holder.owner.clone());
                }
            }
        }
        false
    }

    /// Gives back every lock of a transaction that ends.
    pub(crate) fn release_all(&self, owner: &LockOwner) {
        for key in std::mem::take(&mut *owner.held.lock()) {
            let mut shard = self.shard(&key).lock();
            let Some(line) = shard.get_mut(&key) else { continue };
            line.holders.retain(|holder| holder.owner.id != owner.id);
            line.serve();
            if line.holders.is_empty() && line.waiters.is_empty() {
                shard.remove(&key);
            }
        }
    }

    /// Keys that are locked or waited for.
    #[cfg(test)]
    fn lines(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }
}
