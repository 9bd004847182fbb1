//! Metadata locks: shared by statements that use a table, exclusive for changes of its definition.
//!
//! A statement holds shared locks on its tables until its transaction ends. A change of a table's
//! definition holds an exclusive lock. LOCK TABLES ... WRITE holds an exclusive lock, too: other
//! sessions cannot use the table at all. LOCK TABLES ... READ holds a lock with which other
//! sessions can read rows of the table, but not change them. The lock of a database is a lock on
//! its name alone: a change of a table's definition holds the lock of the table's database in
//! shared mode, and DROP DATABASE holds it exclusively.
//!
//! A statement takes its locks in the order of their names, and the lock of a database before those
//! of its tables. While a session waits for an exclusive lock, sessions that arrive later queue
//! behind it. Without this rule, the session might wait forever. There are two exceptions:
//!
//! - Background work that waits for an exclusive lock makes later sessions queue only for a moment
//!   at a time.
//! - A session that holds the table's lock in one shared mode, and needs another shared mode, does
//!   not queue behind a session that waits for the exclusive lock. Otherwise each of the two
//!   sessions would wait for the other.
//!
//! Every statement takes shared locks. If a lock had one counter of its holders, statements on all
//! cores would write the counter's cache line. So a lock has several counters (stripes), each in a
//! cache line of its own, and each session uses one of them.
//!
//! A session that takes a shared lock first increments the counter of its stripe, and then checks
//! whether the lock is marked as closed. A session that takes the exclusive lock first marks the
//! lock as closed, and then reads the counters. So the sharing session sees the mark, or the
//! exclusive session sees the count, or both.

mod lock_context;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::SeqCst};
use std::time::Duration;

use smallvec::SmallVec;
use spillway::Budget;
use spillway_base::budget::{Charge, Use};
use spillway_base::lock::{Condvar, Mutex, MutexGuard};
use spillway_base::thread::blocking;

use crate::errors::{Result, SqlError};
use crate::privilege::{Need, tables_of};
use crate::process::Stop;

pub(super) use lock_context::{MetadataLockContext, tables_to_lock};

/// Database and name of a table; the name is empty for the database itself.
pub(super) type Name = (String, String);

/// How a table is used, from the weakest mode to the strongest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum MetadataLockMode {
    Read,
    Write,
    /// LOCK TABLES ... READ: the session reads rows, and no session changes them.
    Keep,
    Alone,
}

const STRIPES: usize = 16;

/// The modes for which a table is closed.
const TO_WRITERS: u8 = 1;
const TO_ALL: u8 = 2;
/// The table is open, but a session that releases its lock wakes waiters.
const WATCHED: u8 = 4;
/// How long a background waiter for an exclusive lock makes newcomers queue at a time, and the
/// shortest and the longest time between two such attempts.
const MOMENT: Duration = Duration::from_millis(100);
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(64);

#[derive(Default)]
#[repr(align(128))]
struct Stripe {
    readers: AtomicU32,
    writers: AtomicU32,
}

/// The rare users and waiters, which the stripes do not count.
#[derive(Default)]
struct Few {
    keeping: usize,
    alone: bool,
    /// The number of sessions that wait for an exclusive lock.
    waiting: usize,
    /// The number of sessions that wait until nobody uses the table, without closing it.
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

type Locks = Mutex<HashMap<Name, Arc<TableLock>>>;

/// The locks of tables, by name, so that a name can be locked before its table exists.
pub(super) struct MetadataLocks {
    locks: Arc<Locks>,
    budget: Budget,
}

/// A statement that takes more locks than this is charged for them. When it releases them, it
/// removes the unused ones from the table of locks.
const MANY: usize = 64;
/// The memory of a lock, with its name.
const LOCK_BYTES: usize = size_of::<TableLock>() + 512;

/// Removes locks that no session holds and no compiled statement refers to.
fn remove_unused(locks: &mut HashMap<Name, Arc<TableLock>>) {
    locks.retain(|_, lock| Arc::strong_count(lock) > 1);
    locks.shrink_to(2 * locks.len());
}

/// The memory of many locks, while they are held.
struct ManyLocks {
    locks: Arc<Locks>,
    _charge: Charge,
}

impl Drop for ManyLocks {
    fn drop(&mut self) {
        remove_unused(&mut self.locks.lock());
    }
}

impl MetadataLocks {
    pub(super) fn new(budget: &Budget) -> MetadataLocks {
        MetadataLocks { locks: Arc::default(), budget: budget.clone() }
    }

    /// Charges for this many locks, if they are many.
    ///
    /// # Errors
    /// 1041 if they do not fit the budget.
    fn charge(&self, count: usize) -> Result<Option<ManyLocks>> {
        if count <= MANY {
            return Ok(None);
        }
        let _charge = self.budget.try_charge(Use::Connections, count * LOCK_BYTES)?;
        Ok(Some(ManyLocks { locks: self.locks.clone(), _charge }))
    }

    /// Makes all waiters check whether they must stop.
    pub(super) fn wake(&self) {
        for lock in self.locks.lock().values() {
            if lock.closed.load(SeqCst) != 0 {
                let _few = lock.few.lock();
                lock.changed.notify_all();
            }
        }
    }

    /// Takes locks, in order of their names. `held` returns the mode in which the session already
    /// holds a name.
    pub(super) fn take(
        &self,
        mut names: Vec<(Name, MetadataLockMode)>,
        stripe: usize,
        limits: &WaitLimits<'_>,
        held: impl Fn(&Name) -> Option<MetadataLockMode>,
    ) -> Result<HeldLocks> {
        // Keeps the strongest mode of each name, so that no session waits for itself.
        names.sort_by(|(a, one), (b, other)| a.cmp(b).then(other.cmp(one)));
        names.dedup_by(|(a, _), (b, _)| a == b);
        let many = self.charge(names.len())?;
        let (locks, at_hand) = Default::default();
        let mut taken = HeldLocks { locks, sorted: true, stripe, at_hand, many };
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

    /// Takes a table exclusively, or gives up after [`MOMENT`].
    pub(super) fn take_briefly(
        &self,
        name: &Name,
        stripe: usize,
        stop: &Stop,
    ) -> Result<HeldLocks> {
        let limits = WaitLimits::new(MOMENT, stop);
        self.take(vec![(name.clone(), MetadataLockMode::Alone)], stripe, &limits, |_| None)
    }

    /// Takes a table exclusively, for background work. Newcomers queue behind it only for
    /// [`MOMENT`] at a time: when nobody uses the table, and otherwise at growing intervals.
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
            remove_unused(&mut locks);
        }
        let lock = Arc::new(TableLock::new(name.clone()));
        locks.insert(name.clone(), lock.clone());
        lock
    }
}

/// The conditions that end a wait without the lock.
pub(super) struct WaitLimits<'a> {
    pub(super) wait: Duration,
    pub(super) stop: &'a Stop,
    /// Whether the session's client has disconnected. A wait checks this before it begins, and
    /// every [`LOOK`].
    pub(super) gone: &'a dyn Fn() -> bool,
}

/// How often a wait checks whether its client has disconnected. Until it notices, newcomers queue
/// behind it in vain.
const LOOK: Duration = Duration::from_secs(1);

impl<'a> WaitLimits<'a> {
    /// The limits of a wait without a client.
    pub(super) fn new(wait: Duration, stop: &'a Stop) -> WaitLimits<'a> {
        WaitLimits { wait, stop, gone: &|| false }
    }
}

/// The locks that a change of a table's definition holds from before it reads the definition until
/// it is done: on the database, and on the definition, under a name that no table has. Other
/// sessions read and write rows meanwhile, except while the change also holds the table
/// exclusively.
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

    /// Sets for which modes the table is closed, and wakes the waiters.
    fn close(&self, few: &Few) {
        let all = if few.alone || few.waiting > 0 { TO_ALL } else { 0 };
        let writers = if few.keeping > 0 { TO_WRITERS } else { 0 };
        let watched = if few.watching > 0 { WATCHED } else { 0 };
        self.closed.store(all | writers | watched, SeqCst);
        self.changed.notify_all();
    }

    /// Locks the table. `held` says whether the session holds it in another mode than
    /// [`MetadataLockMode::Alone`].
    ///
    /// # Errors
    /// 1205 after `limits.wait`, 1317 if the wait is stopped, 1213 at once if the session would
    /// wait for itself.
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

    /// Waits until nobody uses the table, which remains open.
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
            // No session holds the table exclusively then, and a waiter for that waits for this
            // session.
            shut &= !TO_ALL;
        }
        while !self.enter(mode, stripe, shut) {
            let mut few = self.few.lock();
            self.wait(&mut few, limits, |_| self.closed.load(SeqCst) & shut == 0)?;
        }
        Ok(())
    }

    /// Shares the table, unless a bit of `shut` is set in `closed`.
    fn enter(&self, mode: MetadataLockMode, stripe: usize, shut: u8) -> bool {
        self.count(stripe, mode).fetch_add(1, SeqCst);
        let is_open = self.closed.load(SeqCst) & shut == 0;
        if !is_open {
            self.leave(mode, stripe);
        }
        is_open
    }

    /// Shares the table for reading, if that needs no wait.
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

/// How many released locks a session keeps references to, because it may soon take them again.
/// Counting a new reference changes memory that all sessions share.
const AT_HAND: usize = 4;

/// Locks that a session holds. Dropping this releases them.
#[derive(Default)]
pub(super) struct HeldLocks {
    locks: Vec<(Arc<TableLock>, MetadataLockMode)>,
    /// Whether they are in order of their names.
    sorted: bool,
    stripe: usize,
    /// References to released locks, to be taken again. They lock nothing.
    at_hand: SmallVec<[Arc<TableLock>; AT_HAND]>,
    /// If they are many. Dropped after the references to them.
    many: Option<ManyLocks>,
}

impl Drop for HeldLocks {
    fn drop(&mut self) {
        self.clear();
    }
}

impl HeldLocks {
    fn clear(&mut self) {
        let is_many = self.many.is_some();
        for (lock, mode) in self.locks.drain(..) {
            lock.unlock(mode, self.stripe);
            if self.at_hand.len() < AT_HAND && !is_many {
                self.at_hand.push(lock);
            }
        }
        self.many = None;
    }

    /// Records a lock that the caller has taken.
    fn took(&mut self, lock: &Arc<TableLock>, mode: MetadataLockMode) {
        let known = self.at_hand.iter().position(|known| Arc::ptr_eq(known, lock));
        let lock = match known {
            Some(at) => self.at_hand.swap_remove(at),
            None => {
                // The session uses other tables now.
                self.at_hand.clear();
                lock.clone()
            }
        };
        self.locks.push((lock, mode));
        self.sorted = false;
    }

    /// The mode in which a table is held.
    fn mode(&self, name: &Name) -> Option<MetadataLockMode> {
        if self.sorted {
            let at = self.locks.binary_search_by(|(held, _)| held.name.cmp(name));
            return at.ok().map(|at| self.locks[at].1);
        }
        self.locks.iter().find(|(held, _)| held.name == *name).map(|(_, mode)| *mode)
    }

    /// Takes a table for reading, unless that needs a wait. Returns whether the table is held for
    /// that.
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

/// The tables that a statement needs and the modes of their locks, in order (NEED-5).
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
