//! Metadata locks: shared by statements that use a table, exclusive for changes of its definition.
//!
//! A statement holds shared locks on its tables until its transaction ends. A change of a table's
//! definition holds an exclusive lock. LOCK TABLES ... READ lets others only read rows, and LOCK
//! TABLES ... WRITE keeps all others out. The lock of a database is a lock on its name alone:
//! changes of its tables share it, and DROP DATABASE holds it exclusively.
//!
//! A statement takes its locks in one order, the database's first. While a session waits for an
//! exclusive lock, newcomers queue behind it; otherwise it might wait forever. A session that
//! already shares the table does not queue behind such a waiter when it needs another shared mode.
//!
//! Every statement takes shared locks, so a lock counts its users in several stripes, and each
//! session uses one stripe: two sessions rarely write the same cache line. A user first counts
//! itself, and then checks whether the table is closed. A closing session first marks the table as
//! closed, and then reads the counts. So either the user sees the mark, or the closing session sees
//! the user.

mod lock_context;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use smallvec::SmallVec;
use spillway_base::lock::{Condvar, Mutex, MutexGuard};
use spillway_base::thread::blocking;

use crate::errors::{Result, SqlError};
use crate::privilege::{Need, tables_of};
use crate::process::Stop;

pub(super) use lock_context::{MetadataLockContext, tables_to_lock};

/// Database and name of a table; the name is empty for the database itself.
pub(super) type Name = (String, String);

/// How a table is used, from the weakest to the strongest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum MetadataLockMode {
    Read,
    Write,
    /// LOCK TABLES ... READ: rows are read, and nobody changes them.
    Keep,
    Alone,
}

const STRIPES: usize = 16;

/// To whom a table is closed.
const TO_WRITERS: u8 = 1;
const TO_ALL: u8 = 2;
/// Closed to nobody: who leaves tells those that wait.
const WATCHED: u8 = 4;
/// How long one that has all the time keeps newcomers out to have a table alone, and how often at
/// most and at least.
const MOMENT: Duration = Duration::from_millis(100);
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(64);

#[derive(Default)]
#[repr(align(128))]
struct Stripe {
    readers: AtomicU32,
    writers: AtomicU32,
}

/// Those that are not counted in stripes.
#[derive(Default)]
struct Few {
    keeping: usize,
    alone: bool,
    /// Those that wait to have it alone.
    waiting: usize,
    /// Those that wait until nobody uses it, and keep nobody out for that.
    watching: usize,
}

/// One table's lock.
pub(super) struct TableLock {
    name: Name,
    stripes: [Stripe; STRIPES],
    closed: AtomicU8,
    few: Mutex<Few>,
    changed: Condvar,
}

/// The locks of tables: by name, so that a name can be locked before there is a table.
#[derive(Default)]
pub(super) struct MetadataLocks {
    locks: Mutex<HashMap<Name, Arc<TableLock>>>,
}

impl MetadataLocks {
    /// Lets those who wait see whether they are still to.
    pub(super) fn wake(&self) {
        for lock in self.locks.lock().values() {
            if lock.closed.load(SeqCst) != 0 {
                let _few = lock.few.lock();
                lock.changed.notify_all();
            }
        }
    }

    /// Takes locks, in one order. `held` says how the session has a name locked already.
    pub(super) fn take(
        &self,
        mut names: Vec<(Name, MetadataLockMode)>,
        stripe: usize,
        limits: &WaitLimits<'_>,
        held: impl Fn(&Name) -> Option<MetadataLockMode>,
    ) -> Result<HeldLocks> {
        // The strongest mode of each name stays: nobody waits for itself.
        names.sort_by(|(a, one), (b, other)| a.cmp(b).then(other.cmp(one)));
        names.dedup_by(|(a, _), (b, _)| a == b);
        let mut taken = HeldLocks { locks: Vec::new(), stripe, at_hand: SmallVec::new() };
        for (name, mode) in names {
            let before = held(&name);
            if before == Some(MetadataLockMode::Alone) {
                continue;
            }
            let lock = self.of(&name);
            lock.lock(mode, stripe, before.is_some(), limits)?;
            taken.locks.push((lock, mode));
        }
        Ok(taken)
    }

    /// Takes a table alone, or gives up after a moment.
    pub(super) fn take_briefly(
        &self,
        name: &Name,
        stripe: usize,
        stop: &Stop,
    ) -> Result<HeldLocks> {
        let limits = WaitLimits::new(MOMENT, stop);
        self.take(vec![(name.clone(), MetadataLockMode::Alone)], stripe, &limits, |_| None)
    }

    /// Takes a table alone for who has all the time: newcomers are kept out for moments only, when
    /// nobody uses the table, or else ever more seldom.
    pub(super) fn take_gently(&self, name: &Name, stripe: usize, stop: &Stop) -> Result<HeldLocks> {
        let mut pause = PAUSE_MIN;
        loop {
            match self.take_briefly(name, stripe, stop) {
                Err(error) if error.code == 1205 => {}
                outcome => return outcome,
            }
            match self.of(name).watch(&WaitLimits::new(pause, stop)) {
                Err(error) if error.code == 1205 => pause = (pause * 2).min(PAUSE_MAX),
                outcome => outcome?,
            }
        }
    }

    /// The lock of a table.
    pub(super) fn of(&self, name: &Name) -> Arc<TableLock> {
        let mut locks = self.locks.lock();
        if let Some(lock) = locks.get(name) {
            return lock.clone();
        }
        if locks.len() >= 1024 && locks.len().is_power_of_two() {
            // Those that nobody holds or keeps for a statement.
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
        }
        let lock = Arc::new(TableLock::new(name.clone()));
        locks.insert(name.clone(), lock.clone());
        lock
    }
}

/// When a wait ends without what it was for.
pub(super) struct WaitLimits<'a> {
    pub(super) wait: Duration,
    pub(super) stop: &'a Stop,
    /// Whether the client that the wait is for has gone. A wait asks before it begins, and every
    /// [`LOOK`].
    pub(super) gone: &'a dyn Fn() -> bool,
}

/// How often a wait looks whether its client has gone. Until then it keeps newcomers out for
/// nobody.
const LOOK: Duration = Duration::from_secs(1);

impl<'a> WaitLimits<'a> {
    /// The patience of one that no client waits for.
    pub(super) fn new(wait: Duration, stop: &'a Stop) -> WaitLimits<'a> {
        WaitLimits { wait, stop, gone: &|| false }
    }
}

/// The locks that a change of a table's definition holds, from before it reads the definition until
/// it is done: on the database, and on the definition, under a name that no table has. Other
/// sessions read and write rows meanwhile, except while the change also holds the table alone.
pub(super) fn definition_of(table: &Name) -> Vec<(Name, MetadataLockMode)> {
    let definition = (table.0.clone(), format!("\0{}", table.1));
    vec![
        ((table.0.clone(), String::new()), MetadataLockMode::Read),
        (definition, MetadataLockMode::Alone),
    ]
}

impl TableLock {
    fn new(name: Name) -> TableLock {
        TableLock {
            name,
            stripes: Default::default(),
            closed: AtomicU8::new(0),
            few: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    pub(super) fn name(&self) -> &Name {
        &self.name
    }

    fn count(&self, stripe: usize, mode: MetadataLockMode) -> &AtomicU32 {
        let stripe = &self.stripes[stripe % STRIPES];
        if mode == MetadataLockMode::Write { &stripe.writers } else { &stripe.readers }
    }

    fn writers(&self) -> u32 {
        self.stripes.iter().map(|stripe| stripe.writers.load(SeqCst)).sum()
    }

    fn readers(&self) -> u32 {
        self.stripes.iter().map(|stripe| stripe.readers.load(SeqCst)).sum()
    }

    /// Closes the table to those that must stay out.
    fn close(&self, few: &Few) {
        let all = if few.alone || few.waiting > 0 { TO_ALL } else { 0 };
        let writers = if few.keeping > 0 { TO_WRITERS } else { 0 };
        let watched = if few.watching > 0 { WATCHED } else { 0 };
        self.closed.store(all | writers | watched, SeqCst);
        self.changed.notify_all();
    }

    /// Locks the table; `held` says whether the session has it in another mode, which is not
    /// [`MetadataLockMode::Alone`].
    ///
    /// # Errors
    /// 1205 after its patience, 1317 where it is stopped; 1213 at once where the session would wait
    /// for itself.
    fn lock(
        &self,
        mode: MetadataLockMode,
        stripe: usize,
        held: bool,
        limits: &WaitLimits<'_>,
    ) -> Result<()> {
        if held && mode > MetadataLockMode::Write {
            let text = "Deadlock found when trying to get lock; try restarting transaction";
            return Err(SqlError::new(1213, text));
        }
        match mode {
            MetadataLockMode::Read | MetadataLockMode::Write => {
                self.share(mode, stripe, held, limits)
            }
            MetadataLockMode::Keep => {
                let mut few = self.few.lock();
                self.wait(&mut few, limits, |few| !few.alone && few.waiting == 0)?;
                few.keeping += 1;
                self.close(&few);
                self.wait(&mut few, limits, |_| self.writers() == 0).inspect_err(|_| {
                    few.keeping -= 1;
                    self.close(&few);
                })
            }
            MetadataLockMode::Alone => {
                let mut few = self.few.lock();
                few.waiting += 1;
                self.close(&few);
                let outcome = self.wait(&mut few, limits, |few| {
                    !few.alone && few.keeping == 0 && self.readers() + self.writers() == 0
                });
                few.waiting -= 1;
                few.alone |= outcome.is_ok();
                self.close(&few);
                outcome
            }
        }
    }

    /// Waits until nobody uses the table, which stays open.
    fn watch(&self, limits: &WaitLimits<'_>) -> Result<()> {
        let mut few = self.few.lock();
        few.watching += 1;
        self.close(&few);
        let outcome = self.wait(&mut few, limits, |few| {
            !few.alone && few.keeping == 0 && self.readers() + self.writers() == 0
        });
        few.watching -= 1;
        self.close(&few);
        outcome
    }

    fn share(
        &self,
        mode: MetadataLockMode,
        stripe: usize,
        held: bool,
        limits: &WaitLimits<'_>,
    ) -> Result<()> {
        let mut shut = if mode == MetadataLockMode::Write { TO_ALL | TO_WRITERS } else { TO_ALL };
        if held {
            // Nobody is alone then, and who waits for that waits for this session.
            shut &= !TO_ALL;
        }
        while !self.enter(mode, stripe, shut) {
            let mut few = self.few.lock();
            self.wait(&mut few, limits, |_| self.closed.load(SeqCst) & shut == 0)?;
        }
        Ok(())
    }

    /// Shares the table, unless it is closed to those who are `shut` out.
    fn enter(&self, mode: MetadataLockMode, stripe: usize, shut: u8) -> bool {
        self.count(stripe, mode).fetch_add(1, SeqCst);
        let is_open = self.closed.load(SeqCst) & shut == 0;
        if !is_open {
            self.leave(mode, stripe);
        }
        is_open
    }

    /// Shares the table for reading, if it is open.
    pub(super) fn read_at_once(&self, stripe: usize) -> bool {
        self.enter(MetadataLockMode::Read, stripe, TO_ALL)
    }

    pub(super) fn leave(&self, mode: MetadataLockMode, stripe: usize) {
        self.count(stripe, mode).fetch_sub(1, SeqCst);
        if self.closed.load(SeqCst) != 0 {
            let _few = self.few.lock();
            self.changed.notify_all();
        }
    }

    fn unlock(&self, mode: MetadataLockMode, stripe: usize) {
        match mode {
            MetadataLockMode::Read | MetadataLockMode::Write => return self.leave(mode, stripe),
            _ => {}
        }
        let mut few = self.few.lock();
        if mode == MetadataLockMode::Keep {
            few.keeping -= 1;
        } else {
            few.alone = false;
        }
        self.close(&few);
    }

    fn wait(
        &self,
        few: &mut MutexGuard<'_, Few>,
        limits: &WaitLimits<'_>,
        ready: impl Fn(&Few) -> bool,
    ) -> Result<()> {
        let clock = spillway_base::clock::Clock::system();
        let end = clock.now() + limits.wait;
        while !ready(few) {
            if clock.now() >= end {
                let text = "Lock wait timeout exceeded; try restarting transaction";
                return Err(SqlError::new(1205, text));
            }
            if limits.stop.is_asked() || (limits.gone)() {
                return Err(SqlError::new(1317, "Query execution was interrupted"));
            }
            let left = end.saturating_sub(clock.now());
            blocking(|| self.changed.wait_for(few, left.min(LOOK)));
        }
        Ok(())
    }
}

/// Locks that a session had, and may soon have again, are kept at hand: so many. To count a
/// reference anew is to change memory that all sessions share.
const AT_HAND: usize = 4;

/// Locks that are held; dropping it gives them back.
#[derive(Default)]
pub(super) struct HeldLocks {
    locks: Vec<(Arc<TableLock>, MetadataLockMode)>,
    stripe: usize,
    /// Of those that were given back, some; nothing is locked by that.
    at_hand: SmallVec<[Arc<TableLock>; AT_HAND]>,
}

impl Drop for HeldLocks {
    fn drop(&mut self) {
        self.clear();
    }
}

impl HeldLocks {
    fn clear(&mut self) {
        for (lock, mode) in self.locks.drain(..) {
            lock.unlock(mode, self.stripe);
            if self.at_hand.len() < AT_HAND {
                self.at_hand.push(lock);
            }
        }
    }

    /// Notes a lock that was taken.
    fn took(&mut self, lock: &Arc<TableLock>, mode: MetadataLockMode) {
        let known = self.at_hand.iter().position(|known| Arc::ptr_eq(known, lock));
        let lock = match known {
            Some(at) => self.at_hand.swap_remove(at),
            None => {
                // The sessions' tables are others now.
                self.at_hand.clear();
                lock.clone()
            }
        };
        self.locks.push((lock, mode));
    }

    /// How a table is held.
    fn mode(&self, name: &Name) -> Option<MetadataLockMode> {
        self.locks.iter().find(|(held, _)| held.name == *name).map(|(_, mode)| *mode)
    }

    /// Has a table for reading as well, if that is so or to be had at once.
    pub(super) fn read_at_once(&mut self, lock: &Arc<TableLock>, stripe: usize) -> bool {
        if self.has(lock, MetadataLockMode::Read) {
            return true;
        }
        self.stripe = stripe;
        let shared = lock.read_at_once(stripe);
        if shared {
            self.took(lock, MetadataLockMode::Read);
        }
        shared
    }

    fn has(&self, lock: &TableLock, mode: MetadataLockMode) -> bool {
        self.locks.iter().any(|(held, has)| {
            std::ptr::eq(&**held, lock)
                && (*has == mode
                    || (mode, *has) == (MetadataLockMode::Read, MetadataLockMode::Write))
        })
    }
}

/// How the tables are held that a statement needs, in their order (NEED-5).
pub(super) fn modes_of(needs: &[Need]) -> Vec<(Name, MetadataLockMode)> {
    let mode = |writes: bool| if writes { MetadataLockMode::Write } else { MetadataLockMode::Read };
    tables_of(needs).into_iter().map(|(name, writes)| (name, mode(writes))).collect()
}

/// The locks that a statement takes, in order.
pub(super) fn locks_of(
    locks: &MetadataLocks,
    needs: &[Need],
) -> Vec<(Arc<TableLock>, MetadataLockMode)> {
    modes_of(needs).into_iter().map(|(name, mode)| (locks.of(&name), mode)).collect()
}

#[cfg(test)]
mod tests;
